"""The logs of a broker in a cluster: they wait for their partition, and a partition without a replica has none."""

from __future__ import annotations

from coterie.broker.settings import BrokerSettings
from coterie.broker.topics import Topics
from coterie.log.filesystem import MemoryFileSystem
from coterie.records.encoding import encode_batch

ID = bytes(16)


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
    assert topics.was_clean
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
    assert opened(fs).was_clean


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
