/* The one file: this program, with the files of PyInstaller's folder behind it (packing.py writes them). At its first start it
   unpacks them below ~/.cache/coterie, or where that cannot be used below $TMPDIR; later it finds them there. It becomes their
   program by exec, so that the process that is started, and killed, is the broker itself. */

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC "coterie1"
#define PROGRAM "coterie"

/* zlib's; its header is not everywhere that its library is. */
int uncompress(unsigned char *raw, unsigned long *raw_bytes, const unsigned char *packed, unsigned long packed_bytes);

struct trailer { /* the end of the file */
    uint64_t start; /* of the first entry */
    uint64_t entries;
    char build[32]; /* a hash of the entries, in hexadecimal */
    char magic[8];
};

struct entry { /* followed by its name with a final 0, then by its bytes */
    uint32_t mode; /* st_mode: a regular file or a symbolic link */
    uint32_t name_bytes;
    uint64_t raw_bytes;
    uint64_t packed_bytes; /* as many as raw where it is not compressed */
};

static int fail(const char *what, const char *path) {
    fprintf(stderr, "coterie: %s %s: %s; TMPDIR names another folder\n", what, path, strerror(errno));
    return -1;
}

/* The folder exists, is the user's own, and nobody else may write to it. */
static int make_private(const char *path) {
    struct stat found;
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return -1;
    if (lstat(path, &found) < 0)
        return -1;
    if (!S_ISDIR(found.st_mode) || found.st_uid != geteuid() || (found.st_mode & 022)) {
        errno = EPERM;
        return -1;
    }
    return 0;
}

static int make_parents(char *path, size_t from) {
    for (char *slash = strchr(path + from, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        int made = mkdir(path, 0700);
        *slash = '/';
        if (made < 0 && errno != EEXIST)
            return -1;
    }
    return 0;
}

static int write_whole(const char *path, const unsigned char *data, size_t bytes, mode_t mode) {
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, mode & 0777);
    if (file < 0)
        return -1;
    while (bytes > 0) {
        ssize_t written = write(file, data, bytes);
        if (written < 0) {
            close(file);
            return -1;
        }
        data += written;
        bytes -= written;
    }
    return close(file);
}

/* Under another name first: a process that starts at the same time finds it whole, or not. */
static int unpack(const struct entry *entry, const unsigned char *packed, const char *path) {
    char beside[PATH_MAX + 24];
    int made = -1;
    unsigned char *raw = NULL;
    snprintf(beside, sizeof beside, "%s.%d", path, (int)getpid());
    if (entry->packed_bytes != entry->raw_bytes) {
        unsigned long bytes = entry->raw_bytes;
        raw = malloc(bytes + 1);
        if (raw == NULL || uncompress(raw, &bytes, packed, entry->packed_bytes) != 0 || bytes != entry->raw_bytes) {
            free(raw);
            errno = EIO;
            return -1;
        }
        packed = raw;
    }
    if (S_ISLNK(entry->mode)) {
        char target[PATH_MAX];
        snprintf(target, sizeof target, "%.*s", (int)entry->raw_bytes, (const char *)packed);
        made = symlink(target, beside);
    } else {
        made = write_whole(beside, packed, entry->raw_bytes, entry->mode);
    }
    free(raw);
    if (made < 0 || rename(beside, path) < 0) {
        int error = errno;
        unlink(beside);
        errno = error;
        return -1;
    }
    return 0;
}

/* Every file that is not in the folder, or has another size. */
static int unpack_missing(const unsigned char *file, const struct trailer *trailer, const char *folder) {
    const unsigned char *at = file + trailer->start;
    for (uint64_t n = 0; n < trailer->entries; n++) {
        struct entry entry;
        struct stat found;
        char path[PATH_MAX];
        memcpy(&entry, at, sizeof entry);
        const char *name = (const char *)at + sizeof entry;
        const unsigned char *packed = at + sizeof entry + entry.name_bytes;
        at = packed + entry.packed_bytes;
        if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path) {
            errno = ENAMETOOLONG;
            return -1;
        }
        if (lstat(path, &found) == 0 && (uint64_t)found.st_size == entry.raw_bytes)
            continue;
        if (make_parents(path, strlen(folder) + 1) < 0 || unpack(&entry, packed, path) < 0)
            return -1;
    }
    return 0;
}

/* Returns where the program cannot run there. */
static int start(const unsigned char *file, const struct trailer *trailer, const char *base, char **words) {
    char folder[PATH_MAX], program[PATH_MAX + sizeof PROGRAM + 1];
    if (snprintf(folder, sizeof folder, "%s/%.32s", base, trailer->build) >= (int)sizeof folder) {
        errno = ENAMETOOLONG;
        return -1;
    }
    if (make_private(base) < 0 || make_private(folder) < 0 || unpack_missing(file, trailer, folder) < 0)
        return -1;
    snprintf(program, sizeof program, "%s/" PROGRAM, folder);
    execv(program, words);
    return -1;
}

/* $XDG_CACHE_HOME/coterie or ~/.cache/coterie; empty without a home. */
static void cache_folder(char *base, size_t size) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    base[0] = 0;
    if (cache != NULL && cache[0] == '/')
        snprintf(base, size, "%s/coterie/", cache);
    else if (home != NULL && home[0] == '/')
        snprintf(base, size, "%s/.cache/coterie/", home);
    if (base[0] != 0 && make_parents(base, 1) == 0)
        base[strlen(base) - 1] = 0;
    else
        base[0] = 0;
}

int main(int count, char **words) {
    struct trailer trailer;
    struct stat size;
    char base[PATH_MAX];
    (void)count;
    int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    if (self < 0 || fstat(self, &size) < 0)
        return -fail("cannot read", "/proc/self/exe");
    const unsigned char *file = mmap(NULL, size.st_size, PROT_READ, MAP_PRIVATE, self, 0);
    if (file == MAP_FAILED)
        return -fail("cannot read", "/proc/self/exe");
    memcpy(&trailer, file + size.st_size - sizeof trailer, sizeof trailer);
    if (memcmp(trailer.magic, MAGIC, sizeof trailer.magic) != 0) {
        fprintf(stderr, "coterie: the file is cut short\n");
        return 1;
    }
    cache_folder(base, sizeof base);
    if (base[0] != 0)
        start(file, &trailer, base, words);
    const char *temporary = getenv("TMPDIR");
    snprintf(base, sizeof base, "%s/coterie-%u", temporary != NULL && temporary[0] ? temporary : "/tmp", (unsigned)geteuid());
    start(file, &trailer, base, words);
    return -fail("cannot run in", base);
}
