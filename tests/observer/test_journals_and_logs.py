"""Where the observer's lines go, and the log files that it follows."""

from __future__ import annotations

from pathlib import Path

import pytest

from coterie.client import Consumer
from coterie.coordinator.journal.line import JournalLine
from coterie.observer.journal_folders import journal_folder, read_folder
from coterie.observer.journal_sinks import FolderJournal, TopicJournal
from coterie.observer.logs.server_log import LogFollower
from coterie.testing import simulate

LOG = Path(__file__).parents[1] / "pipeline" / "server_logs" / "4.3.0" / "server.log"
LINES = [JournalLine(n, "crew", n, "stable", "CompletingRebalance", "Stable", [{"kind": "not_seen"}]) for n in range(5)]


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
