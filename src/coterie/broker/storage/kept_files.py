"""Which small files a data folder has, in `kept-files.json`: one that is gone at the next start is reported, because the broker
would go on without it as in a new folder.
"""

from __future__ import annotations

from coterie.log.files import checked_files
from coterie.log.files.filesystem import FileSystem
from coterie.log.files.findings import Finding, Report, UnreadableFile

FILE = "kept-files.json"
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


class KeptFiles:
    """The files of one folder."""

    def __init__(self, fs: FileSystem, report: Report) -> None:
        self._fs, self._report = fs, report
        self._written: list[str] | None = None

    def report_missing(self) -> None:
        """Before any of them is read or made. Raises OSError."""
        if not self._fs.exists(FILE):
            return
        try:
            kept = checked_files.read_json(self._fs, FILE, "")
            self._written = [str(name) for name in kept]
        except (UnreadableFile, TypeError):
            self._report(Finding(FILE, None, "it is damaged", "a small file that is gone is not noticed at this start"))
            return
        for name, action in _WITHOUT.items():
            if name in self._written and not self._fs.exists(name):
                self._report(Finding(name, None, "the file was there when the broker last ran, and is gone", action))

    def save(self) -> None:
        """Whenever one may have been made. Raises OSError."""
        present = [name for name in _WITHOUT if self._fs.exists(name)]
        if present != self._written:
            self._fs.write_file(FILE, checked_files.to_json(present))
            self._written = present
