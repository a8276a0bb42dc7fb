"""The files that spare reading a whole log for its producers: Kafka's `.snapshot`, and a `.txnindex` for each segment with
aborted transactions. They are used where they pass their checks; otherwise the state is rebuilt from the markers in the log.
"""

from __future__ import annotations

from collections.abc import Iterable

from coterie.log.checked_files import Finding, Report
from coterie.log.filesystem import FileSystem
from coterie.log.producer_states import Aborted, PartitionTransactions, Producers, decode_index
from coterie.log.segments.segment import segment_name
from coterie.log.segments.segment_loader import ClosedLog, checksum_of_aborted


def load_kept(
    fs: FileSystem, directory: str, end_offset: int, closed: ClosedLog | None, report: Report
) -> tuple[Producers, PartitionTransactions] | None:
    """The state in the files of a log that was closed in order; None where the log has to be read."""

    def rebuilt(name: str, problem: str) -> None:
        report(Finding(f"{directory}/{name}", None, problem, "producers and transactions are read from the log"))

    names = fs.names(directory)
    indexes = [name for name in names if name.endswith(".txnindex")]
    snapshot = f"{segment_name(end_offset)}.snapshot"
    if closed is not None and closed.aborted != checksum_of_aborted(fs, directory, indexes):
        rebuilt(indexes[0] if indexes else snapshot, "the index of aborted transactions is not what was written")
        return None
    contents = [fs.read_file(f"{directory}/{index}") for index in indexes]
    if closed is None and any(contents):
        return None  # nothing shows whether they are whole
    producers, transactions = Producers(), PartitionTransactions()
    if snapshot in names:
        if not producers.load_snapshot(fs.read_file(f"{directory}/{snapshot}"), transactions.open):
            rebuilt(snapshot, "the producers' snapshot is damaged")
            return None
    elif closed is None:
        return None
    elif closed.snapshot:
        rebuilt(snapshot, "the producers' snapshot is missing")
        return None
    for content in contents:
        transactions.aborted += decode_index(content)
    return producers, transactions


def write_snapshot(
    fs: FileSystem, directory: str, end_offset: int, producers: Producers, transactions: PartitionTransactions
) -> None:
    """The `.snapshot` for the log's end, where there are producers; older ones go."""
    snapshot = f"{segment_name(end_offset)}.snapshot" if producers.by_id else ""
    if snapshot:
        fs.write_file(f"{directory}/{snapshot}", producers.to_snapshot(transactions.open))
    for name in fs.names(directory):
        if name.endswith(".snapshot") and name != snapshot:
            fs.remove(f"{directory}/{name}")


def write_aborted(fs: FileSystem, entries: Iterable[tuple[str, Aborted]]) -> None:
    """Writes the `.txnindex` files again, of entries by their segment's stem."""
    contents: dict[str, bytes] = {}
    for stem, entry in entries:
        contents[stem] = contents.get(stem, b"") + entry.encode()
    for stem, content in contents.items():
        fs.write_file(stem + ".txnindex", content)


def drop_aborted(fs: FileSystem, directory: str) -> None:
    """Removes the files before the log is read: its markers make them again."""
    for name in fs.names(directory):
        if name.endswith(".txnindex"):
            fs.remove(f"{directory}/{name}")
