"""What a start learns of the last run of a broker in its data folder: whether the machine went down since, and which small
files are gone.

Where the machine went down, the end of the logs may be lost, or there in part. The death of the process alone does not do that,
because the system keeps the pages that were written. The folder names the boot of the machine in which its logs were last read
and, in a cluster, the broker last registered.

`kept-files.json` has the small files of the folder: one that is gone is reported, because the broker would go on without it as
in a new folder.
"""

from __future__ import annotations

from pathlib import Path

from coterie.log import checked_files
from coterie.log.checked_files import Finding, Report, UnreadableFile
from coterie.log.filesystem import FileSystem

BOOT_FILE = "boot-id"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
UNKNOWN = "unknown"  # of a system that shows none: each unclean end may have been a reset
SYNC_FAILED = b"sync failed"  # in the place of a boot's id
KEPT_FILES = "kept-files.json"
# file -> what a start does without it
_WITHOUT = {
    "topics.json": "topics are made of the folders, with new ids and settings",
    "meta.properties": "the cluster gets a new id",
    "altered-configs.json": "what was altered at run time is no longer in force",
    "client_quotas.json": "there are no quotas",
    "scram_credentials.json": "there are no credentials",
    "delegation_tokens.json": "there are no delegation tokens",
    "finalized-features.json": "features have the levels of a new cluster",
    "producer_ids": "ids go on beyond every id in the logs",
}
# Passwords are among the settings; the other has what logins are checked by.
PRIVATE_FILES = ("acls.json", "altered-configs.json", "scram_credentials.json")


def present_boot_id() -> str:
    """The id of the machine's present boot."""
    try:
        return _BOOT_ID.read_text("ascii").strip()
    except (OSError, ValueError):
        return UNKNOWN


class BootFile:
    """`boot-id` of a data folder. ``boot_id``: of the machine's present boot, None for this machine's."""

    def __init__(self, fs: FileSystem, boot_id: str | None = None) -> None:
        self._fs = fs
        self._boot_id = present_boot_id() if boot_id is None else boot_id

    def may_have_lost_records(self, *, was_clean: bool) -> bool:
        """Whether the folder's logs may have lost records: after an unclean end in another boot, and in a folder that
        names no boot. Once it is so it stays so until `write`: an orderly end before that does not bring them back.
        Raises OSError."""
        if not self._fs.exists(BOOT_FILE) or self.sync_has_failed:
            return True
        if was_clean or (self._boot_id != UNKNOWN and self._fs.read_file(BOOT_FILE) == self._boot_id.encode()):
            return False
        self.forget()
        return True

    @property
    def sync_has_failed(self) -> bool:
        """Whether the broker stopped after a sync that failed. Raises OSError."""
        return self._fs.exists(BOOT_FILE) and self._fs.read_file(BOOT_FILE) == SYNC_FAILED

    def write(self) -> None:
        """From here on the folder's logs are of this boot. Raises OSError."""
        named = self._boot_id.encode()
        if not (self._fs.exists(BOOT_FILE) and self._fs.read_file(BOOT_FILE) == named):
            self._fs.write_file(BOOT_FILE, named)

    def note_failed_sync(self) -> None:
        """The logs are not to be trusted at the next start, and their ends are to be written again, unless the disk does not
        even take that. Raises OSError."""
        try:
            self._fs.write_file(BOOT_FILE, SYNC_FAILED)
        except OSError:
            self.forget()

    def forget(self) -> None:
        """The logs are not to be trusted at the next start. Raises OSError."""
        if self._fs.exists(BOOT_FILE):
            self._fs.remove(BOOT_FILE)


class KeptFiles:
    """The files of one folder."""

    def __init__(self, fs: FileSystem, report: Report) -> None:
        self._fs, self._report = fs, report
        self._written: list[str] | None = None

    def report_missing(self) -> None:
        """Before any of them is read or made. Raises OSError."""
        if not self._fs.exists(KEPT_FILES):
            return
        try:
            kept = checked_files.read_json(self._fs, KEPT_FILES, "")
            self._written = [str(name) for name in kept]
        except (UnreadableFile, TypeError):
            self._report(
                Finding(KEPT_FILES, None, "it is damaged", "a small file that is gone is not noticed at this start")
            )
            return
        for name, action in _WITHOUT.items():
            if name in self._written and not self._fs.exists(name):
                self._report(Finding(name, None, "the file was there when the broker last ran, and is gone", action))

    def save(self) -> None:
        """Whenever one may have been made. Raises OSError."""
        present = [name for name in _WITHOUT if self._fs.exists(name)]
        if present != self._written:
            self._fs.write_file(KEPT_FILES, checked_files.to_json(present))
            self._written = present
