"""Leader epochs of a broker alone: they rise with each start after an unclean end, and clients see them (KIP-101, KIP-320)."""

from __future__ import annotations

import asyncio
import json

import pytest

from coterie.broker.broker import Broker
from coterie.broker.settings import BrokerSettings
from coterie.broker.storage.topics import Topics
from coterie.log.filesystem import MemoryFileSystem
from coterie.log.leader_epochs import EndOfEpoch
from coterie.records.encoding import encode_batch
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.logs.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tests.broker.connections.test_server import FAST, Client
from tests.broker.handlers.test_old_versions import append, batch, create


def opened(fs: MemoryFileSystem) -> Topics:
    topics = Topics(fs, BrokerSettings())
    topics.load()
    return topics


def opened_in_cluster(fs: MemoryFileSystem) -> Topics:
    """With the partitions that a controller announces."""
    topics = Topics(fs, BrokerSettings(), in_cluster=True)
    topics.load()
    topics.announce("t", 2, bytes(16), {})
    return topics


def write(topics: Topics, count: int = 1) -> None:
    for _ in range(count):
        topics.partition("t", 0).log.append(encode_batch([(5, b"k", b"v", ())]), 5)


def epochs(topics: Topics) -> list[tuple[int, int]]:
    return [(entry.epoch, entry.start_offset) for entry in topics.partition("t", 0).log.epochs.cache.entries]


def two_crashes() -> MemoryFileSystem:
    fs = MemoryFileSystem()
    topics = opened(fs)
    topics.create("t", 2)
    write(topics, 3)
    write(opened(fs), 2)
    opened(fs)
    return fs


def test_an_unclean_end_begins_an_epoch() -> None:
    fs = two_crashes()
    topics = opened(fs)
    assert [topics.partition("t", index).leader_epoch for index in (0, 1)] == [3, 3]
    write(topics)
    assert epochs(topics) == [(0, 0), (1, 3), (3, 5)]
    stamped = [header.leader_epoch for _, header in topics.partition("t", 0).log.segments[0].headers(0)]
    assert stamped == [0, 0, 0, 1, 1, 3]
    ends = [topics.partition("t", 0).end_of_epoch(epoch) for epoch in range(4)]
    assert ends == [EndOfEpoch(0, 3), EndOfEpoch(1, 5), EndOfEpoch(1, 5), EndOfEpoch(3, 6)]


def test_an_epoch_is_kept_before_anybody_learns_of_it() -> None:
    """Otherwise two processes in a row would lead in the same epoch."""
    fs = two_crashes()
    assert json.loads(fs.read_file("topics.json"))["content"]["t"]["leader_epochs"] == [2, 2]


def test_an_orderly_end_leaves_the_epoch_as_it_is() -> None:
    fs = two_crashes()
    opened(fs).close()
    topics = opened(fs)
    assert topics.partition("t", 0).leader_epoch == 3
    assert epochs(topics) == [(0, 0), (1, 3), (3, 5)]
    assert not topics.findings


def test_the_file_of_epochs_is_kafkas() -> None:
    fs = two_crashes()
    write(opened(fs))
    assert fs.read_file("t-0/leader-epoch-checkpoint") == b"0\n3\n0 0\n1 3\n3 5\n"
    assert "leader-epoch-checkpoint" not in fs.names("t-1")


@pytest.mark.parametrize("content", [None, b"0\n1\n7 0\n", b"0\n2\n0 0\n1 4\n", b"0\n5\n0 0\n", b"\xff"])
def test_without_that_file_the_batches_count(content: bytes | None) -> None:
    fs = two_crashes()
    write(opened(fs))
    if content is None:
        fs.remove("t-0/leader-epoch-checkpoint")
    else:
        fs.write_file("t-0/leader-epoch-checkpoint", content)
    topics = opened(fs)
    assert epochs(topics) == [(0, 0), (1, 3), (3, 5), (4, 6)]
    assert bool(topics.findings) == (content is not None)


def test_a_folder_of_kafkas_keeps_its_epochs() -> None:
    fs = MemoryFileSystem()
    topics = opened(fs)
    topics.create("t", 1)
    topics.partition("t", 0).log.begin_epoch(5)
    write(topics, 2)
    topics.close()
    for name in ("topics.json", "log-checkpoint.json"):
        fs.remove(name)
    taken_over = opened(fs)
    assert taken_over.partition("t", 0).leader_epoch == 6
    assert epochs(taken_over) == [(5, 0), (6, 2)]


def test_high_watermarks_are_kept_for_kafka() -> None:
    """A broker alone writes them as it stops; in a cluster a start begins with them."""
    fs = MemoryFileSystem()
    topics = opened(fs)
    topics.create("t", 2)
    write(topics, 3)
    topics.close()
    assert fs.read_file("replication-offset-checkpoint") == b"0\n2\nt 0 3\nt 1 0\n"
    member = opened_in_cluster(fs)
    assert member.partition("t", 0).log.high_watermark == 3
    write(member, 2)
    assert member.partition("t", 0).log.high_watermark == 3
    member.partition("t", 0).log.move_high_watermark(4)
    member.save_high_watermarks()
    assert opened_in_cluster(fs).partition("t", 0).log.high_watermark == 4


@pytest.mark.parametrize(
    ("offset", "last_epoch", "response"),
    [
        (1, 0, (0, -1, -1, True)),
        (2, 0, (0, -1, -1, True)),
        (3, 0, (0, 0, 2, False)),
        (2, 1, (0, 0, 2, False)),
        (3, 2, (0, -1, -1, True)),
        (3, 3, (ErrorCode.OFFSET_OUT_OF_RANGE, -1, -1, False)),
    ],
)
async def test_a_fetch_behind_the_end_of_its_last_epoch(
    offset: int, last_epoch: int, response: tuple[int, int, int, bool]
) -> None:
    """KIP-595: the log has epochs 0 and 2, of two and two records."""
    running = Broker(BrokerSettings(FAST))
    host, port = await running.start("127.0.0.1", 0)
    client = Client(*await asyncio.open_connection(host, port))
    try:
        await create(client, "t")
        await append(client, batch(b"a", b"b"))
        running.topics.partition("t", 0).log.begin_epoch(2)
        await append(client, batch(b"c", b"d"))
        requested = FetchPartition(0, fetch_offset=offset, last_fetched_epoch=last_epoch, partition_max_bytes=1000)
        request = FetchRequest(max_wait_ms=10_000, min_bytes=1, topics=[FetchTopic("t", partitions=[requested])])
        data = (await client.ask(request, FetchResponse, 12)).responses[0].partitions[0]
        end = data.diverging_epoch
        assert (data.error_code, end.epoch, end.end_offset, bool(data.records)) == response
    finally:
        client.writer.close()
        await running.stop()
