"""The fetchers of the high-level consumer at a broker, without ZooKeeper: all records come into the streams, each once, also
where the broker refuses requests meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from coterie.client.zookeeper.fetchers import FetcherManager
from coterie.client.zookeeper.settings import consumer_settings
from coterie.client.zookeeper.streams import PartitionTopicInfo, Stream
from coterie.testing import ErrorCode, LocalBroker
from tests.client.fetching.test_damaged_batches import batch, put, wrong_crc

SETTINGS = {
    "zookeeper.connect": "none:1",
    "group.id": "g",
    "auto.offset.reset": "smallest",
    "refresh.leader.backoff.ms": 10,
    "fetch.wait.max.ms": 20,
}
END_S = 4.0


@pytest.fixture
def broker(coterie_broker: LocalBroker) -> LocalBroker:
    coterie_broker.create_topic("t", 2)
    return coterie_broker


@contextmanager
def reading(broker: LocalBroker, *offsets: int) -> Iterator[Stream]:
    """A stream of topic t's partitions, each from its offset; -1: by auto.offset.reset."""
    stream = Stream("t", "thread-0", chunks=2, timeout_ms=-1)
    infos = [PartitionTopicInfo("t", p, stream, offset, offset) for p, offset in enumerate(offsets)]
    manager = FetcherManager(
        consumer_settings(SETTINGS),
        lambda: [(broker.host, broker.port)],
        lambda error: stream.fail(error, fatal=True),
    )
    manager.start(infos)
    try:
        yield stream
    finally:
        manager.stop()


def values(stream: Stream, count: int) -> list[tuple[int, bytes | None]]:
    taken = []
    for _ in range(count):
        message = stream.take(END_S)
        assert message is not None, f"only {taken} came"
        taken.append((message.partition, message.record.value))
    return taken


def test_records_come_once_and_in_order(broker: LocalBroker) -> None:
    broker.produce("t", b"a", b"b", partition=0)
    broker.produce("t", b"c", partition=1)
    with reading(broker, -1, -1) as stream:
        assert sorted(values(stream, 3)) == [(0, b"a"), (0, b"b"), (1, b"c")]
        broker.produce("t", b"d", partition=0)
        assert values(stream, 1) == [(0, b"d")]


@pytest.mark.parametrize("api", ["ListOffsets", "Fetch", "Metadata"])
@pytest.mark.parametrize(
    "code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_SERVER_ERROR]
)
def test_partitions_that_a_broker_refuses_are_read_afterwards(broker: LocalBroker, api: str, code: ErrorCode) -> None:
    """Of two partitions whose first offset the broker refused, neither was read any more."""
    broker.produce("t", b"a", partition=0)
    broker.produce("t", b"b", partition=1)
    broker.fail(api, code, times=2)
    with reading(broker, -1, -1) as stream:
        assert sorted(values(stream, 2)) == [(0, b"a"), (1, b"b")]


def test_a_connection_that_is_lost_loses_no_records(broker: LocalBroker) -> None:
    with reading(broker, -1, -1) as stream:
        for round_number in range(3):
            broker.produce("t", b"%d" % round_number, partition=0)
            assert values(stream, 1) == [(0, b"%d" % round_number)]
            broker.drop_connections()


def test_an_offset_that_the_log_does_not_have_is_reset(broker: LocalBroker) -> None:
    broker.produce("t", b"a", partition=0)
    with reading(broker, 7) as stream:
        assert values(stream, 1) == [(0, b"a")]


def test_a_batch_that_cannot_be_read_is_an_error_of_the_stream(broker: LocalBroker) -> None:
    put(broker, 0, bytes(batch(b"good")))
    put(broker, 0, wrong_crc())
    with reading(broker, -1) as stream:
        assert values(stream, 1) == [(0, b"good")]
        with pytest.raises(Exception, match="CORRUPT_MESSAGE"):
            stream.take(END_S)
