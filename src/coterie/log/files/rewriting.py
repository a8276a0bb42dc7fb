"""The end of a log, written once more after a sync that failed.

Linux takes the pages of a failed fsync for written: a reader of the file finds them in its cache, a later fsync succeeds and
writes nothing of them, and a power cut leaves a hole in front of what that fsync acknowledged (Rebello and others, Can
Applications Recover from fsync Failures?, 2020). A copy is new pages, which its own sync writes.
"""

from __future__ import annotations

from contextlib import closing

from coterie.log.files.filesystem import FileSystem

WRITTEN_AGAIN = ".cleaned"  # as compaction's, which is removed where the copy did not come to its end
SEGMENTS = 2  # the last one, and the one whose sync at its end failed
PIECE_BYTES = 1 << 20


def rewrite_end(fs: FileSystem, directory: str) -> None:
    """Copies the last segments' records, and puts the copies in their place. Raises OSError; then the log is as it was."""
    for name in [name for name in fs.names(directory) if name.endswith(".log")][-SEGMENTS:]:
        path = f"{directory}/{name}"
        with closing(fs.open(path)) as old, closing(fs.open(path + WRITTEN_AGAIN)) as copy:
            copy.truncate(0)
            while data := old.read(copy.size(), PIECE_BYTES):
                copy.append(data)
            copy.sync()
        fs.rename(path + WRITTEN_AGAIN, path)
