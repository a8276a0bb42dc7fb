"""One crew's life on real Kafka, of which the log and `__consumer_offsets` were kept: causes inferred from the records
alone beside the log's own, and both together. Where the observer's lines go, and the log files that it follows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from coterie.client import Consumer
from coterie.coordinator.journal.line import JournalLine
from coterie.coordinator.stored_records.stored import from_record
from coterie.observer.journal_folders import journal_folder, read_folder
from coterie.observer.journal_sinks import FolderJournal, TopicJournal
from coterie.observer.logs.server_log import LogFollower, LogStories, coordinator_lines
from coterie.observer.machine import sights
from coterie.observer.machine.observer import GroupObserver
from coterie.records.batch import batches
from coterie.records.decoding import decode_records
from coterie.testing import simulate

LOGS = Path(__file__).parents[1] / "pipeline" / "server_logs"
VERSIONS = sorted(path.name for path in LOGS.iterdir() if path.is_dir())
LOG = Path(__file__).parents[1] / "pipeline" / "server_logs" / "4.3.0" / "server.log"
LINES = [JournalLine(n, "crew", n, "stable", "CompletingRebalance", "Stable", [{"kind": "not_seen"}]) for n in range(5)]


def read_records(version: str) -> Iterator[sights.RecordRead]:
    for segment in sorted((LOGS / version).glob("__consumer_offsets-*/*.log")):
        data = segment.read_bytes()
        for position, header in batches(data):
            if header.is_control:
                continue
            for record in decode_records(data, position, header):
                read = from_record(record.key, record.value)
                if read is not None:
                    yield sights.RecordRead(record.timestamp, *read)


def observed(version: str, *, with_logs: bool) -> list[JournalLine]:
    observer = GroupObserver(reads_logs=with_logs)
    lines: list[JournalLine] = []
    rows = logged(version) if with_logs else []
    seen: list[sights.RecordRead | sights.Logged] = [*read_records(version), *rows]
    for sight in sorted(seen, key=lambda sight: sight.time_ms):
        lines += observer.see(sights.Tick(sight.time_ms)) + observer.see(sight)
    return lines + observer.see(sights.Tick(2**50))


def logged(version: str) -> list[sights.Logged]:
    stories = LogStories()
    rows = (stories.read(text) for _, _, text in coordinator_lines(LOGS / version / "server.log"))
    return [sights.Logged(row["time_ms"], row) for row in rows if row is not None]


def kinds(lines: list[JournalLine]) -> dict[int, list[tuple[str, str]]]:
    return {
        line.generation: [(c["kind"], c["evidence"]) for c in line.causes]
        for line in lines
        if line.group == "crew" and line.event in ("stable", "empty")
    }


@pytest.mark.parametrize("version", VERSIONS)
def test_with_the_log_the_cause_is_the_logs(version: str) -> None:
    seen = kinds(observed(version, with_logs=True))
    for sight in logged(version):
        if sight.row["group"] == "crew" and sight.row["cause"] not in (None, "unknown"):
            assert (sight.row["cause"], "observed") in seen[sight.row["generation"]]


@pytest.mark.parametrize("version", VERSIONS)
def test_from_the_records_alone(version: str) -> None:
    """Members without commits: that one is gone is known, and why only where its session could not end yet."""
    seen = kinds(observed(version, with_logs=False))
    assert [seen[generation][0] for generation in sorted(seen)] == [
        ("member_joined", "observed"),
        ("member_joined", "observed"),
        ("member_gone", "unknown"),
        ("subscription_changed", "observed"),
        ("topic_metadata_changed", "inferred"),
        ("member_gone", "unknown"),
        ("member_left", "inferred"),
        ("member_left", "inferred"),
    ]


def test_a_log_that_grows_and_is_rotated(tmp_path: Path) -> None:
    """A line that is half written waits for its end; what was there before counts only from the beginning."""
    lines = LOG.read_text().splitlines(keepends=True)
    path = tmp_path / "server.log"
    path.write_text("".join(lines[:12]))
    late, early = LogFollower([path], from_beginning=False), LogFollower([path], from_beginning=True)
    assert [row["generation"] for row in early.read()] == [1]
    assert late.read() == []
    with open(path, "a") as file:
        file.write("".join(lines[12:20]) + lines[20][:40])
    first = [row["generation"] for row in late.read()]
    assert first == [2, 3][: len(first)]
    assert first == [row["generation"] for row in early.read()]
    with open(path, "a") as file:
        file.write(lines[20][40:])
    path.rename(tmp_path / "server.log.1")
    path.write_text("".join(lines[21:]))
    rest = [row["generation"] for row in early.read()]
    assert rest == sorted(rest)
    assert rest[-1] == 8


def test_a_log_that_is_gone_is_a_sentence(tmp_path: Path) -> None:
    follower = LogFollower([tmp_path / "none.log"], from_beginning=True)
    assert follower.read() == []
    assert follower.unreadable == [
        f"{tmp_path / 'none.log'} cannot be read: No such file or directory; its lines are missing"
    ]


def test_a_folder_keeps_the_lines_of_several_runs(tmp_path: Path) -> None:
    folder = tmp_path / "journal"
    for part in (LINES[:2], LINES[2:]):
        journal = FolderJournal(folder)
        for line in part:
            journal.write(line)
    with open(folder / "journal.jsonl", "a") as file:
        file.write('{"time_ms":1,')  # is being written
    assert [JournalLine.from_json(line) for line in read_folder(folder)] == LINES


def test_a_topic_has_the_lines_in_their_order() -> None:
    with simulate(seed=1) as world:
        broker = world.broker()
        broker.create_topic("seen")
        client = {"bootstrap.servers": broker.bootstrap_servers}

        async def write() -> None:
            async with TopicJournal("seen", client) as journal:
                for line in LINES:
                    journal.write(line)

        async def read() -> list[JournalLine]:
            async with Consumer(client | {"auto.offset.reset": "earliest"}) as consumer:
                await consumer.assign([("seen", 0)])
                records = [r for part in (await consumer.poll(1000)).values() for r in part]
                assert {record.key for record in records} == {b"crew"}
                return [JournalLine.from_json(record.value or b"") for record in records]

        world.run(write())
        assert world.run(read()) == LINES


@pytest.mark.parametrize(("journal", "is_folder"), [("./seen", True), ("a/b", True), ("/x", True), ("seen", False)])
def test_a_journal_is_a_folder_or_a_topic(journal: str, is_folder: bool) -> None:
    assert (journal_folder(journal) is not None) is is_folder
