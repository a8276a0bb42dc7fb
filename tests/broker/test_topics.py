"""The folder of topics: ours, and one that Apache Kafka wrote."""

from __future__ import annotations

import pytest

from coterie.broker.settings import BrokerSettings
from coterie.broker.topic import OFFSETS_TOPIC
from coterie.broker.topics import Topics
from coterie.broker.turns import finish
from coterie.client.blocking_socket import BrokerSocket
from coterie.log.filesystem import MemoryFileSystem
from coterie.records.encoding import encode_batch
from coterie.testing import LocalBroker
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.delete_topics import DeleteTopicsRequest
from coterie.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)


def _kafka_folder() -> MemoryFileSystem:
    """What Kafka leaves: a directory a partition with `partition.metadata`, its own metadata log, no topics.json."""
    fs = MemoryFileSystem()
    topics = Topics(fs, BrokerSettings())
    topics.create("some-topic", 2)
    topics.create(OFFSETS_TOPIC, 3)
    topics.partition("some-topic", 1).log.append(encode_batch([(5, b"k", b"v", ())]), 5)
    topics.close()
    fs.remove("topics.json")
    fs.write_file("some-topic-0/partition.metadata", b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw")
    for name in ("__cluster_metadata-0/00000000000000000000.log", "not-a-log-0/readme", "meta.properties"):
        fs.write_file(name, b"")
    fs.make_directory("__cluster_metadata-0")
    fs.make_directory("not-a-log-0")
    return fs


def test_a_folder_of_kafkas_is_taken_over() -> None:
    fs = _kafka_folder()
    topics = Topics(fs, BrokerSettings())
    topics.load()
    assert {name: len(topic.partitions) for name, topic in topics.by_name.items()} == {
        "some-topic": 2,
        OFFSETS_TOPIC: 3,
    }
    assert topics.by_name["some-topic"].topic_id == bytes(range(16))
    assert topics.partition("some-topic", 1).log.end_offset == 1
    assert topics.by_name[OFFSETS_TOPIC].configs["cleanup.policy"] == "compact"


def test_what_was_taken_over_is_ours_from_then_on() -> None:
    fs = _kafka_folder()
    Topics(fs, BrokerSettings()).load()
    again = Topics(fs, BrokerSettings())
    again.load()
    assert again.by_name["some-topic"].topic_id == bytes(range(16))


def test_kafkas_own_topics_have_kafkas_settings() -> None:
    """What `kafka-topics --describe` shows of them on Apache Kafka 3.9 and 4.3."""
    topics = Topics(MemoryFileSystem(), BrokerSettings({"transaction.state.log.segment.bytes": "2000000"}))
    offsets = {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": "104857600"}
    assert topics.offsets_topic().configs == offsets
    transactions = {"cleanup.policy": "compact", "compression.type": "uncompressed", "segment.bytes": "2000000"}
    transactions |= {"min.insync.replicas": "1", "unclean.leader.election.enable": "false"}
    assert topics.transactions_topic().configs == transactions


def test_the_offsets_of_a_topic_that_cannot_be_deleted_stay(
    coterie_broker: LocalBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk: the deletion cannot be written, so that the topic is there still."""

    def fails() -> None:
        raise OSError(28, "No space left on device")

    coterie_broker.create_topic("t")
    partition = OffsetCommitRequestPartition(0, 5, -1, committed_metadata="")
    socket = BrokerSocket(coterie_broker.host, coterie_broker.port)
    socket.request(OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic("t", partitions=[partition])]), highest=8)
    with monkeypatch.context() as patched:
        patched.setattr(coterie_broker.broker.topics, "_save", fails)
        (refused,) = socket.request(DeleteTopicsRequest(topic_names=["t"]), highest=5).responses
    assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert coterie_broker.committed("g") == {("t", 0): 5}
    (deleted,) = socket.request(DeleteTopicsRequest(topic_names=["t"]), highest=5).responses
    assert deleted.error_code == ErrorCode.NONE
    assert coterie_broker.committed("g") == {}
    socket.close()


def test_a_later_topic_has_none_of_the_records_of_a_deleted_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that could not be removed, as after a kill between two partitions of a deletion. It is renamed, not lost."""

    def fails(path: str) -> None:
        raise OSError(16, "Device or resource busy", path)

    fs = MemoryFileSystem()
    topics = Topics(fs, BrokerSettings())
    topics.create("t", 2).partitions[1].log.append(encode_batch([(5, b"k", b"v", ())]), 5)
    with monkeypatch.context() as patched:
        patched.setattr(fs, "remove_directory", fails)
        finish(topics.deleting(topics.by_name["t"]))
    again = Topics(fs, BrokerSettings())
    assert [partition.log.end_offset for partition in again.create("t", 2).partitions] == [0, 0]
    assert sorted(name.partition(".")[0] for name in fs.names("") if name.endswith("-stray")) == ["t-0", "t-1"]
