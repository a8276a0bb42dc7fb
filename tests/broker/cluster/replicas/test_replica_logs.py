"""The logs of a broker in a cluster: they wait for their partition, and a partition without a replica has none. The high
watermarks that two brokers write down, while one and the other restart: Kafka's LogRecoveryTest, by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from coterie.broker.settings import BrokerSettings
from coterie.broker.storage.checkpoints import LogCheckpoints
from coterie.broker.storage.disk import DiskFileSystem
from coterie.broker.storage.topics import Topics
from coterie.log.checked_files import unreported
from coterie.log.filesystem import MemoryFileSystem
from coterie.log.partition_log import PartitionLog
from coterie.records.encoding import encode_batch
from coterie.testing.cluster_brokers import ClusterBrokers
from tests.awaiting import until
from tests.broker.cluster.brokers_in_memory import (
    all_in_sync,
    clustered,
    create,
    high_watermark,
    led_by,
    log_of,
    produce,
)

ID = bytes(16)
SEGMENTS = pytest.mark.parametrize("configs", [{}, {"segment.bytes": "200"}], ids=["one segment", "segments"])


def opened(fs: MemoryFileSystem) -> Topics:
    topics = Topics(fs, BrokerSettings(), in_cluster=True)
    topics.load()
    return topics


def with_records(fs: MemoryFileSystem) -> Topics:
    """Three records in t-1, the one replica of three."""
    topics = opened(fs)
    topics.announce("t", 3, ID, {})
    log = topics.store(topics.partition("t", 1))
    for _ in range(3):
        log.append(encode_batch([(5, b"k", b"v", ())]), 5)
    log.move_high_watermark(2)
    return topics


def test_only_a_replica_has_a_folder() -> None:
    fs = MemoryFileSystem()
    topics = with_records(fs)
    assert [name for name in fs.names("") if name.startswith("t-")] == ["t-1"]
    assert not fs.exists("topics.json")
    assert [log.directory for log in topics.every_log()] == ["t-1"]
    assert [partition.log.end_offset for partition in topics.by_name["t"].partitions] == [0, 3, 0]


def test_a_log_waits_until_its_partition_is_announced() -> None:
    fs = MemoryFileSystem()
    with_records(fs).close()
    topics = opened(fs)
    assert not topics.by_name
    assert topics._store.was_clean
    topics.save_high_watermarks()  # before the controller has sent anything
    topics.announce("t", 3, ID, {})
    partition = topics.partition("t", 1)
    assert (partition.is_stored, partition.log.end_offset, partition.log.high_watermark) == (True, 3, 2)
    assert topics.store(partition) is partition.log


def test_a_checkpoint_keeps_what_was_not_announced() -> None:
    fs = MemoryFileSystem()
    with_records(fs).close()
    topics = opened(fs)
    topics.announce("other", 1, ID, {})
    topics.store(topics.partition("other", 0))
    topics.save_high_watermarks()
    assert fs.read_file("replication-offset-checkpoint") == b"0\n2\nother 0 0\nt 1 2\n"
    topics.close()
    assert opened(fs)._store.was_clean


def test_a_replica_that_is_elsewhere_now_leaves_nothing() -> None:
    fs = MemoryFileSystem()
    topics = with_records(fs)
    partition = topics.partition("t", 1)
    topics.replica_logs.remove(partition)
    assert (partition.is_stored, partition.log.end_offset, fs.exists("t-1")) == (False, 0, False)
    assert topics.store(partition).end_offset == 0
    assert fs.exists("t-1")


def test_a_log_of_a_deleted_topic() -> None:
    fs = MemoryFileSystem()
    with_records(fs).close()
    topics = opened(fs)
    topics.replica_logs.remove_waiting(("t", 1))
    topics.replica_logs.remove_waiting(("t", 2))
    assert not fs.exists("t-1")
    topics.announce("t", 3, ID, {})
    assert topics.partition("t", 1).log.end_offset == 0


def led(topics: Topics, name: str) -> PartitionLog:
    """The log of a topic's one partition, which has a replica here."""
    topics.announce(name, 1, name.encode().ljust(16), {})
    return topics.store(topics.partition(name, 0))


def append(log: PartitionLog, count: int, high_watermark: int) -> None:
    for _ in range(count):
        log.append(encode_batch([(5, b"k", b"v", ())]), 5)
    log.move_high_watermark(high_watermark)


def kept(topics: Topics, fs: MemoryFileSystem) -> dict[str, int]:
    """The high watermarks of the checkpoint that is written now, which another process begins with."""
    topics.save_high_watermarks()
    checkpoints = LogCheckpoints(fs, unreported)
    checkpoints.load(clean=False)
    return checkpoints.high_watermarks


def test_the_high_watermark_of_one_partition_is_kept() -> None:
    """testHighWatermarkPersistenceSinglePartition"""
    fs = MemoryFileSystem()
    topics = opened(fs)
    assert kept(topics, fs) == {}
    log = led(topics, "foo")
    assert kept(topics, fs) == {"foo-0": 0}
    append(log, 0, 5)
    assert kept(topics, fs) == {"foo-0": log.high_watermark} == {"foo-0": 0}  # not behind the log's end
    append(log, 6, 5)
    assert kept(topics, fs) == {"foo-0": 5}


def test_the_high_watermarks_of_several_partitions_are_kept() -> None:
    """testHighWatermarkPersistenceMultiplePartitions"""
    fs = MemoryFileSystem()
    topics = opened(fs)
    one = led(topics, "foo1")
    append(one, 6, 5)
    assert kept(topics, fs) == {"foo1-0": 5}
    two = led(topics, "foo2")
    assert kept(topics, fs) == {"foo1-0": 5, "foo2-0": 0}
    append(two, 16, 15)
    append(one, 6, 10)
    assert kept(topics, fs) == {"foo1-0": 10, "foo2-0": 15}
    again = opened(fs)
    assert [led(again, name).high_watermark for name in ("foo1", "foo2")] == [10, 15]


@pytest.mark.parametrize("is_relative", [False, True])
def test_the_checkpoint_is_in_the_folder_of_the_logs(
    is_relative: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """testHighWaterMarkDirectoryMapping, testHighwaterMarkRelativeDirectoryMapping"""
    monkeypatch.chdir(tmp_path)
    topics = Topics(
        DiskFileSystem(Path("data") if is_relative else tmp_path / "data"), BrokerSettings(), in_cluster=True
    )
    topics.load()
    topics.announce("t", 2, ID, {})
    topics.store(topics.partition("t", 1))
    topics.save_high_watermarks()
    assert (tmp_path / "data" / "replication-offset-checkpoint").read_text() == "0\n1\nt 1 0\n"
    assert (tmp_path / "data" / "t-1").is_dir()
    topics.close()


async def written(cluster: ClusterBrokers, offset: int) -> None:
    """Both brokers know the high watermark."""
    await until(lambda: {log_of(broker).high_watermark for broker in cluster.live()} == {offset}, "the high watermark")


def checkpoints(cluster: ClusterBrokers) -> list[int]:
    return [high_watermark(broker) for broker in cluster.brokers.values()]


@SEGMENTS
async def test_checkpoints_without_failures(configs: dict[str, str]) -> None:
    """testHWCheckpointNoFailuresSingleLogSegment, testHWCheckpointNoFailuresMultipleLogSegments: while both run, and when both
    have stopped."""
    async with clustered() as cluster:
        await create(cluster, configs=configs)
        assert checkpoints(cluster) == [0, 0]
        await produce(cluster, *[b"hello"] * 20)
        await written(cluster, 20)
        for broker in cluster.live():
            assert (len(log_of(broker).segments) > 3) == bool(configs)
            assert broker.broker.member is not None
            broker.broker.member.manager.checkpoint()
        assert checkpoints(cluster) == [20, 20]
        await produce(cluster, b"hello")
        await written(cluster, 21)
        for broker in cluster.live():
            await broker.stop()
        assert checkpoints(cluster) == [21, 21]


@SEGMENTS
async def test_checkpoints_with_one_broker_at_a_time(configs: dict[str, str]) -> None:
    """testHWCheckpointWithFailuresSingleLogSegment"""
    async with clustered() as cluster:
        first, second = cluster.brokers[1], cluster.brokers[2]
        await create(cluster, configs=configs)
        await produce(cluster, b"hello")
        await written(cluster, 1)
        await first.stop()
        assert high_watermark(first) == 1
        await led_by(cluster, 2)
        await first.start()
        assert high_watermark(first) == 1
        await all_in_sync(cluster, 1, 2)
        await second.stop()
        assert high_watermark(second) == 1
        await second.start()
        await led_by(cluster, 1)
        await produce(cluster, b"hello")
        await written(cluster, 2)
        for broker in (second, first):
            await broker.stop()
        assert checkpoints(cluster) == [2, 2]


@SEGMENTS
async def test_checkpoints_after_both_brokers_were_down(configs: dict[str, str]) -> None:
    """testHWCheckpointWithFailuresMultipleLogSegments"""
    async with clustered() as cluster:
        first, second = cluster.brokers[1], cluster.brokers[2]
        await create(cluster, configs=configs)
        await produce(cluster, *[b"hello"] * 10)
        await written(cluster, 10)
        for broker in (first, second):
            await broker.stop()
        assert checkpoints(cluster) == [10, 10]
        await second.start()
        await led_by(cluster, 2)
        assert log_of(second).high_watermark == 10
        assert checkpoints(cluster) == [10, 10]
        await first.start()
        await produce(cluster, *[b"hello"] * 10)
        await written(cluster, 20)
        for broker in (first, second):
            await broker.stop()
        assert checkpoints(cluster) == [20, 20]
