"""Folders in which an observer or a proxy has its journal, as commands read them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

JOURNAL_FILE = "journal.jsonl"


def journal_folder(journal: str) -> Path | None:
    """The folder that ``--journal`` names; None for a topic's name, which has no separator and is no folder that exists."""
    path = Path(journal)
    return path if path.is_dir() or len(path.parts) > 1 or journal.startswith((".", "/")) else None


def read_folder(folder: Path) -> Iterator[bytes]:
    """The lines of a `FolderJournal`, oldest first; one that is not written whole yet is left out. Raises OSError."""
    with open(folder / JOURNAL_FILE, "rb") as file:
        yield from (line for line in file if line.endswith(b"\n"))
