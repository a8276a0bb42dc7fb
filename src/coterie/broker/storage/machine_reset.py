"""Whether the machine went down since a broker last wrote: then the end of its logs may be lost, or there in part. The death of
its process alone does not do that, because the system keeps the pages that were written.

The data folder names the boot of the machine in which its logs were last read and, in a cluster, the broker last registered.
"""

from __future__ import annotations

from pathlib import Path

from coterie.log.files.filesystem import FileSystem

FILE = "boot-id"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
UNKNOWN = "unknown"  # of a system that shows none: each unclean end may have been a reset
SYNC_FAILED = b"sync failed"  # in the place of a boot's id


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
        if not self._fs.exists(FILE) or self.sync_has_failed:
            return True
        if was_clean or (self._boot_id != UNKNOWN and self._fs.read_file(FILE) == self._boot_id.encode()):
            return False
        self.forget()
        return True

    @property
    def sync_has_failed(self) -> bool:
        """Whether the broker stopped after a sync that failed. Raises OSError."""
        return self._fs.exists(FILE) and self._fs.read_file(FILE) == SYNC_FAILED

    def write(self) -> None:
        """From here on the folder's logs are of this boot. Raises OSError."""
        named = self._boot_id.encode()
        if not (self._fs.exists(FILE) and self._fs.read_file(FILE) == named):
            self._fs.write_file(FILE, named)

    def note_failed_sync(self) -> None:
        """The logs are not to be trusted at the next start, and their ends are to be written again, unless the disk does not
        even take that. Raises OSError."""
        try:
            self._fs.write_file(FILE, SYNC_FAILED)
        except OSError:
            self.forget()

    def forget(self) -> None:
        """The logs are not to be trusted at the next start. Raises OSError."""
        if self._fs.exists(FILE):
            self._fs.remove(FILE)
