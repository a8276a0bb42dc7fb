"""The folder of topics: ours, and one that Apache Kafka wrote."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from coterie.broker.process.scheduling import Clock
from coterie.broker.requests.turns import finish
from coterie.broker.settings import BrokerSettings
from coterie.broker.storage.cleaner import Cleaner
from coterie.broker.storage.disk import DiskFileSystem
from coterie.broker.storage.topic import OFFSETS_TOPIC, Partition
from coterie.broker.storage.topic_store import TopicStore
from coterie.broker.storage.topics import Topics
from coterie.client.connection.blocking_socket import BrokerSocket
from coterie.log.compaction import clean, plan, swap
from coterie.log.filesystem import MemoryFileSystem
from coterie.log.partition_log import PartitionLog
from coterie.log.retention import delete_records
from coterie.records.encoding import encode_batch
from coterie.testing import LocalBroker
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.groups.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from coterie.wire.messages.topics.create_topics import CreatableTopic, CreateTopicsRequest
from coterie.wire.messages.topics.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicState
from coterie.wire.messages.topics.metadata import MetadataRequest, MetadataRequestTopic


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


@pytest.mark.parametrize(("brokers", "last"), [(1, 6), (2, 5)], ids=["alone", "in a cluster"])
def test_where_no_topic_can_be_deleted_each_element_is_refused(brokers: int, last: int) -> None:
    """By the error that clients of the version know (ControllerApis.deleteTopics, and KafkaApis of 2.6), whatever else is wrong
    with the element."""
    states = [DeleteTopicState("t"), DeleteTopicState("missing"), DeleteTopicState("t")]
    request = DeleteTopicsRequest(states, [state.name or "" for state in states])
    expected = {}
    with LocalBroker({"delete.topic.enable": "false"}, brokers=brokers) as broker:
        broker.create_topic("t")
        socket = BrokerSocket(*broker._controller_address())
        refused = {version: socket.request(request, highest=version).responses for version in range(last + 1)}
        socket.close()
        broker.produce("t", b"still there")
    for version in range(last + 1):
        error = ErrorCode.INVALID_REQUEST if version < 3 else ErrorCode.TOPIC_DELETION_DISABLED
        text = None if version < 5 else "delete.topic.enable is off"
        expected[version] = [DeletableTopicResult(state.name, error_code=error, error_message=text) for state in states]
    assert refused == expected


def test_offsets_of_all_topics_go_before_the_first_file(
    coterie_broker: LocalBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A deleted topic leaves no offsets, also where the client is killed before its other topics are deleted. As in Kafka's
    GroupCoordinatorService.onMetadataUpdate, which waits for no files."""
    names = ["a", "b", "c"]
    for name in names:
        coterie_broker.create_topic(name)
    socket = BrokerSocket(coterie_broker.host, coterie_broker.port)
    offsets = [OffsetCommitRequestTopic(n, partitions=[OffsetCommitRequestPartition(0, 5)]) for n in names]
    socket.request(OffsetCommitRequest("g", topics=offsets), highest=8)
    left: list[list[str]] = []
    remove_log = TopicStore.remove_log

    def noted(store: TopicStore, log: PartitionLog) -> None:
        left.append(sorted({topic for topic, _ in coterie_broker.broker.groups.group("g").offsets}))
        remove_log(store, log)

    monkeypatch.setattr(TopicStore, "remove_log", noted)
    socket.request(DeleteTopicsRequest(topic_names=names), highest=5)
    socket.close()
    assert left == [[], [], []]


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


def _appended(partition: Partition, *values: bytes) -> None:
    for value in values:
        partition.log.append(encode_batch([(5, b"k", value, ())]), 5)


def _made_anew(topics: Topics, name: str, configs: dict[str, str]) -> Partition:
    finish(topics.deleting(topics.by_name[name]))
    return topics.create(name, 1, configs).partitions[0]


def test_the_start_of_a_deleted_topic_is_not_that_of_a_later_one() -> None:
    """DeleteRecords, DeleteTopics, CreateTopics, and a crash before the checkpoint of start offsets is written again."""
    fs = MemoryFileSystem()
    topics = Topics(fs, BrokerSettings())
    _appended(topics.create("t", 1).partitions[0], b"1", b"2", b"3")
    delete_records(topics.partition("t", 0).log, 2)
    topics.save_start_offsets()
    _appended(_made_anew(topics, "t", {}), b"4", b"5", b"6")
    again = Topics(fs, BrokerSettings())
    again.load()
    assert (again.partition("t", 0).log.log_start_offset, again.partition("t", 0).log.end_offset) == (0, 3)


def test_the_compaction_of_a_deleted_topic_is_not_that_of_a_later_one() -> None:
    fs, compacted = MemoryFileSystem(), {"cleanup.policy": "compact"}
    topics = Topics(fs, BrokerSettings())
    topics.create("t", 1, compacted)
    topics.partition("t", 0).log.cleaned_until = 2
    topics.save_cleaned_offsets()
    _appended(_made_anew(topics, "t", compacted), b"4", b"5", b"6")
    again = Topics(fs, BrokerSettings())
    again.load()
    assert again.partition("t", 0).log.cleaned_until == 0


def test_partitions_that_are_being_added_go_with_their_topic() -> None:
    """Their topic is deleted, and made again, while they are added: the new one keeps its folders."""
    fs = MemoryFileSystem()
    topics = Topics(fs, BrokerSettings())
    topic = topics.create("t", 1)
    adding = topics.adding_partitions(topic, 3)
    next(adding)
    deleting = topics.deleting(topic)
    next(deleting)
    with pytest.raises(Refusal):
        topics.create("t", 3)
    finish(adding)
    finish(deleting)
    for partition in topics.create("t", 3).partitions:
        _appended(partition, b"1")
    again = Topics(fs, BrokerSettings())
    again.load()
    assert [partition.log.end_offset for partition in again.by_name["t"].partitions] == [1, 1, 1]


def test_a_topic_that_is_deleted_twice_at_once() -> None:
    topics = Topics(MemoryFileSystem(), BrokerSettings())
    topic = topics.create("t", 1)
    adding = topics.adding_partitions(topic, 2)
    next(adding)
    first, second = topics.deleting(topic), topics.deleting(topic)
    next(first)
    next(second)
    finish(adding)
    finish(first)
    with pytest.raises(Refusal) as refused:
        finish(second)
    assert refused.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_log_that_is_to_be_compacted_may_be_of_a_topic_that_is_deleted_by_then(tmp_path: Path) -> None:
    """The cleaner lists the logs, then compacts one after the other. Its loop would end with the error of a closed file."""
    settings = BrokerSettings({"log.cleaner.min.compaction.lag.ms": "0"})
    topics = Topics(DiskFileSystem(tmp_path), settings)
    configs = {"cleanup.policy": "compact", "segment.ms": "1", "max.compaction.lag.ms": "1"}
    partition = topics.create("t", 1, configs).partitions[0]
    for at_ms in (5, 50, 500):
        partition.log.append(encode_batch([(at_ms, b"k", b"v", ())]), at_ms)
    partition.log.cleaned_until = 1
    partition.log.config.min_cleanable_dirty_ratio = 1.0
    finish(topics.deleting(topics.by_name["t"]))
    asyncio.run(Cleaner(topics, Clock(), settings).compact(partition.log))


def test_metadata_of_a_topic_that_another_request_is_creating(coterie_broker: LocalBroker) -> None:
    """It is not known yet, with a code that clients retry, also where they may create it."""
    creating = coterie_broker.broker.topics.creating("t", 2, {})
    next(creating)
    socket = BrokerSocket(coterie_broker.host, coterie_broker.port)
    request = MetadataRequest([MetadataRequestTopic(name="t")], allow_auto_topic_creation=True)
    assert socket.request(request).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    finish(creating)
    assert len(socket.request(request).topics[0].partitions) == 2
    socket.close()


@pytest.mark.parametrize(("first", "second"), [("a.b", "a_b"), ("a_b", "a.b"), ("a.b_c", "a_b.c")])
def test_topics_whose_names_differ_in_dots_and_underscores_alone_collide(
    coterie_broker: LocalBroker, first: str, second: str
) -> None:
    """Kafka's Topic.hasCollision: they would have the same metrics. The name is looked at before anything else."""
    socket = BrokerSocket(coterie_broker.host, coterie_broker.port)

    def created(name: str, partitions: int = 1, *, validate_only: bool = False) -> tuple[int, str | None]:
        request = CreateTopicsRequest([CreatableTopic(name, partitions, 1)], validate_only=validate_only)
        (result,) = socket.request(request, highest=5).topics
        return result.error_code, result.error_message

    assert created(first) == (0, None)
    refused = (ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{second}' collides with existing topic: {first}")
    assert created(second) == created(second, validate_only=True) == created(second, -2) == refused
    assert created(first)[0] == ErrorCode.TOPIC_ALREADY_EXISTS
    assert created(f"{second}x") == created("a-b") == (0, None)
    metadata = MetadataRequest([MetadataRequestTopic(name=second)], allow_auto_topic_creation=True)
    assert socket.request(metadata).topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    socket.request(DeleteTopicsRequest(topic_names=[first]), highest=5)
    assert created(second) == (0, None)
    socket.close()


def test_a_folder_with_names_that_collide_is_opened() -> None:
    """Such as one of Kafka's, which compares a new name with those of topics that are there already alone."""
    fs = MemoryFileSystem()
    topics = Topics(fs, BrokerSettings())
    topics.create("a.b", 1)
    topics.create("a-b", 1)
    topics.close()
    fs.remove("topics.json")
    fs.rename("a-b-0", "a_b-0")
    topics = Topics(fs, BrokerSettings())
    topics.load()
    assert sorted(topics.by_name) == ["a.b", "a_b"]


def test_partitions_that_are_being_added_get_the_settings_that_are_altered_meanwhile() -> None:
    topics = Topics(MemoryFileSystem(), BrokerSettings())
    topic = topics.create("t", 1)
    adding = topics.adding_partitions(topic, 3)
    next(adding)
    topics.configure(topic, {"cleanup.policy": "compact"})
    finish(adding)
    assert [partition.log.config.cleanup_compact for partition in topic.partitions] == [True, True, True]


def _after_a_crash(fs: MemoryFileSystem) -> Topics:
    """The folder opened again, without a repair."""
    topics = Topics(fs, BrokerSettings())
    topics.load()
    assert not topics.findings
    return topics


def test_a_crash_after_records_were_deleted_leaves_nothing_to_repair() -> None:
    """The file of leader epochs begins with the log, and its first segment before it."""
    fs = MemoryFileSystem()
    topics = Topics(fs, BrokerSettings())
    _appended(topics.create("t", 1).partitions[0], b"1", b"2")
    topics = _after_a_crash(fs)
    _appended(topics.partition("t", 0), b"3", b"4")
    delete_records(topics.partition("t", 0).log, 3)
    topics.save_start_offsets()
    topics = _after_a_crash(fs)
    _appended(topics.partition("t", 0), b"5")
    assert _after_a_crash(fs).partition("t", 0).log.log_start_offset == 3


def test_gaps_of_a_topic_that_is_compacted_no_more_are_not_reported() -> None:
    fs = MemoryFileSystem()
    topics = Topics(fs, BrokerSettings())
    topic = topics.create("t", 1, {"cleanup.policy": "compact", "segment.bytes": "200"})
    log = topic.partitions[0].log
    _appended(topic.partitions[0], b"1", b"2", b"3", b"4", b"5", b"6")
    wanted = plan(log, 10, force=True)
    assert wanted is not None
    assert swap(log, clean(wanted))
    topics.save_cleaned_offsets()
    topics.configure(topic, {"cleanup.policy": "delete"})
    _after_a_crash(fs)
