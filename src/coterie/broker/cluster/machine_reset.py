"""Whether the machine went down since a broker last wrote: then the end of its logs may be lost, which the death of its process
alone does not do, because the system keeps the pages that were written.

The data folder names the boot of the machine in which the broker last registered, from then on.
"""

from __future__ import annotations

from pathlib import Path

from coterie.log.filesystem import FileSystem

FILE = "boot-id"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_UNKNOWN = "unknown"  # of a system that shows none: each unclean end may have been a reset


def boot_id() -> str:
    """The id of the machine's present boot."""
    try:
        return _BOOT_ID.read_text("ascii").strip()
    except (OSError, ValueError):
        return _UNKNOWN


def may_have_lost_records(fs: FileSystem, *, was_clean: bool) -> bool:
    """Of the logs in a folder: after an unclean end in another boot, and in a folder that names no boot. Once it is so it stays
    so until `write_boot`: an orderly end before that does not bring them back. Raises OSError."""
    if not fs.exists(FILE):
        return True
    now = boot_id()
    if was_clean or (now != _UNKNOWN and fs.read_file(FILE) == now.encode()):
        return False
    forget_boot(fs)
    return True


def write_boot(fs: FileSystem) -> None:
    """The broker is registered: from here on the folder's logs are of this boot. Raises OSError."""
    now = boot_id().encode()
    if not (fs.exists(FILE) and fs.read_file(FILE) == now):
        fs.write_file(FILE, now)


def forget_boot(fs: FileSystem) -> None:
    """The logs are not to be trusted at the next start, such as after an fsync that failed. Raises OSError."""
    if fs.exists(FILE):
        fs.remove(FILE)
