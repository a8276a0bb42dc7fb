"""Records of consumer groups as Apache Kafka 4.4.0 wrote them (`tests.coordinator.kafka_records` made the segment): each is
read, written again byte for byte, named in a dump, and replayed. Names: GroupCoordinatorRecordHelpersTest.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

import pytest

from coterie.cli.groups.offsets_dump import dump_offsets, offset_segments
from coterie.coordinator.consumer.events import CurrentStored, GroupEpochRemoved, PartitionMetadataStored
from coterie.coordinator.consumer.replay import replay_consumer
from coterie.coordinator.consumer.state import (
    ClassicMetadata,
    ConsumerGroup,
    ConsumerMemberState,
    ConsumerSubscription,
    CurrentAssignment,
    TopicIdPartition,
)
from coterie.coordinator.consumer.stored import event_of, record_of
from coterie.coordinator.events import OffsetStored
from coterie.coordinator.outcome import CoordinatorConfig
from coterie.coordinator.shard import Shard
from coterie.coordinator.state import CommittedOffset
from coterie.coordinator.stored_records.stored import from_record, record_text, to_record
from coterie.coordinator.stored_records.stored_consumer_groups import (
    RECORD_KINDS,
    GroupRecord,
    from_bytes,
    text_of,
    to_bytes,
)
from coterie.records.batch import BatchRecord, batches
from coterie.records.decoding import decode_records
from coterie.wire.messages.stored.consumer_group_records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    OwnedPartitions,
    PartitionMetadata,
    TopicMetadata,
)
from coterie.wire.messages.stored.consumer_offsets import OffsetCommitValue
from coterie.wire.primitives import WireError
from coterie_conformance.fuzzing.inputs import random_struct
from tests.coordinator.kafka_records import RECORDED


def recorded() -> list[BatchRecord]:
    data = RECORDED.read_bytes()
    return [record for position, header in batches(data) for record in decode_records(data, position, header)]


def kind_of(record: BatchRecord) -> int:
    return int.from_bytes((record.key or b"")[:2], "big")


def of_consumer_groups() -> Iterator[tuple[BatchRecord, GroupRecord]]:
    for record in recorded():
        if kind_of(record) in (3, 4, 5, 6, 7, 8, 16):
            read = from_bytes(record.key or b"", record.value)
            assert read is not None
            yield record, read


def test_the_sample_has_every_kind_that_kafka_writes() -> None:
    """With a value and as a tombstone; of kind 4 the tombstone alone, which is all that Kafka 4.4 writes of it."""
    kinds = Counter((kind_of(r), r.value is not None) for r in recorded())
    assert {(kind, True) for kind in (1, 3, 5, 6, 7, 8, 16)} <= set(kinds)
    assert {(kind, False) for kind in (3, 4, 5, 6, 7, 8, 16)} <= set(kinds)
    assert (4, True) not in kinds


def test_records_are_written_as_kafka_wrote_them() -> None:
    """testNewConsumerGroupMemberSubscriptionRecord, testNewConsumerGroupMemberSubscriptionTombstoneRecord,
    testNewConsumerGroupSubscriptionMetadataTombstoneRecord, testNewConsumerGroupEpochRecord,
    testNewConsumerGroupEpochTombstoneRecord, testNewConsumerGroupTargetAssignmentRecord,
    testNewConsumerGroupTargetAssignmentTombstoneRecord, testNewConsumerGroupTargetAssignmentMetadataRecord,
    testNewConsumerGroupTargetAssignmentMetadataTombstoneRecord, testNewConsumerGroupCurrentAssignmentRecord,
    testNewConsumerGroupCurrentAssignmentTombstoneRecord, testNewConsumerGroupRegularExpressionRecord,
    testNewConsumerGroupRegularExpressionTombstone"""
    for record, read in of_consumer_groups():
        assert to_bytes(read) == (record.key, record.value), text_of(read)


def test_the_members_of_the_sample() -> None:
    """A member of the new protocol has no classic metadata, which Kafka writes as a tag with null; a classic one has it."""
    members = [e.value for _, e in of_consumer_groups() if isinstance(e.value, ConsumerGroupMemberMetadataValue)]
    assert [m.instance_id for m in members if m.rack_id == "r1"] == ["i1"]
    assert {m.subscribed_topic_regex for m in members} == {"", "or.*|p.*s"}
    (classic,) = [m.classic_member_metadata for m in members if m.classic_member_metadata is not None]
    assert (classic.session_timeout_ms, [p.name for p in classic.supported_protocols]) == (45_000, ["range"])


def test_offsets_with_a_topic_id() -> None:
    """testNewOffsetCommitRecord, testOffsetCommitValueVersion: v4 where there is an id; Kafka 4.3 writes it always."""
    stored = [(r, from_record(r.key, r.value)) for r in recorded() if kind_of(r) == 1]
    assert len(stored) == 2
    for record, read in stored:
        assert read is not None
        group, event = read
        assert isinstance(event, OffsetStored)
        assert (event.committed.offset, event.committed.leader_epoch, event.committed.metadata) == (42, 7, "note")
        written = to_record(group, event)
        assert written is not None
        assert written.key == record.key
        assert any(event.committed.topic_id), group
        assert written.value == record.value


@pytest.mark.parametrize(("expires", "topic_id", "version"), [(-1, 0, 3), (-1, 7, 4), (9_000, 0, 1), (9_000, 7, 1)])
def test_the_version_of_an_offset_value(expires: int, topic_id: int, version: int) -> None:
    """testNewOffsetCommitRecordWithExpireTimestamp: an explicit expiry is stronger than a topic id."""
    committed = CommittedOffset(42, 7, "note", 1_000, expires, topic_id.to_bytes(16, "big"))
    record = to_record("g", OffsetStored("t", 3, committed))
    assert record is not None
    assert record.value is not None
    assert int.from_bytes(record.value[:2], "big") == version
    value = OffsetCommitValue.decode(record.value, version, 2)
    assert (value.offset, value.topic_id) == (42, committed.topic_id if version == 4 else bytes(16))


def test_every_record_of_the_sample_in_words() -> None:
    """No record is unreadable or unknown; some lines as they are."""
    lines = [line.partition(": ")[2] for line in dump_offsets(offset_segments(RECORDED), [])]
    assert not [line for line in lines if line.startswith("!") or "unknown" in line]
    member = "00000000-0000-0000-0000-00000000000{}"
    assert lines[0] == (
        f"consumer group crew member {member.format(1)} (i1) subscribes to orders+payments, "
        "rebalance timeout 60000 ms, client recorder at /127.0.0.1, rack r1"
    )
    assert f"consumer group crew tombstone of member {member.format(2)}" in lines
    assert "consumer group patterns tombstone of regular expression 'or.*|p.*s'" in lines
    assert "consumer group patterns tombstone of its epoch" in lines
    assert any(line.startswith("share group sharers member ") and "subscribes to" in line for line in lines)
    revoking = [line for line in lines if "unrevoked partitions" in line]
    assert len(revoking) == 1
    assert revoking[0].count("@2") == 5
    assert ", to revoke " in revoking[0]


def test_topics_before_41_are_read() -> None:
    """Kind 4 as Kafka 4.0 wrote it; no newer broker has a use for it."""
    topics = ConsumerGroupPartitionMetadataValue(
        [TopicMetadata(bytes(16), "orders", 3, [PartitionMetadata(0, ["r1"])])]
    )
    record = GroupRecord(ConsumerGroupPartitionMetadataKey("g"), topics)
    assert record_text(*to_bytes(record)) == "consumer group g topics orders(3)"
    assert event_of(record) == PartitionMetadataStored()


def test_loading_the_sample() -> None:
    """Groups of both kinds with their offsets; a share group is stepped over."""
    shard = Shard(CoordinatorConfig())
    for record in recorded():
        shard.load(record.key, record.value, record.timestamp)
    assert (sorted(shard.groups), sorted(shard.of_kind(ConsumerGroup))) == (["simple"], ["crew", "empty", "mixed"])
    assert shard.of_kind(ConsumerGroup)["crew"].offsets
    for group in shard.of_kind(ConsumerGroup).values():
        assert group.group_epoch >= group.assignment_epoch
        for member in group.members.values():
            assert member.current.member_epoch <= group.assignment_epoch
            assert all(group.owners[partition] == member.member_id for partition in member.current.assigned)


def test_any_record_is_read_as_it_was_written() -> None:
    for seed in range(300):
        rng = random.Random(seed)
        key, value = rng.choice(RECORD_KINDS)
        held = random_struct(value, 0, rng) if rng.random() < 0.8 else None
        record = GroupRecord(random_struct(key, key.versions.first, rng), held)
        assert from_bytes(*to_bytes(record)) == record
        assert record_text(*to_bytes(record)).startswith("consumer group ")


def test_the_events_of_the_sample() -> None:
    """Each record is an event of `consumer.events`, whose record is the same but for the order of topics and partitions."""
    for record, read in of_consumer_groups():
        event = event_of(read)
        stored = to_record(read.group_id, event)
        assert stored is not None
        again = from_bytes(stored.key, stored.value)
        assert again is not None
        assert event_of(again) == event
        assert again.key == read.key
        assert to_bytes(again) == (stored.key, stored.value)
        assert len(stored.value or b"") == len(record.value or b"")
        assert from_record(stored.key, stored.value) == (read.group_id, event)


def test_any_current_assignment_is_written_as_its_messages() -> None:
    """Which `current_record` does without: of no topic to three, of one partition to hundreds, in every state."""
    for seed in range(300):
        rng = random.Random(seed)
        group_id, member_id = rng.choice(("g", "grüppe", "x" * 200)), rng.choice(("m", "é" * 90))
        assigned, pending = some_partitions(rng), some_partitions(rng)
        epochs = rng.randrange(-2, 2**31), rng.randrange(-1, 2**31)
        state = rng.choice(list(ConsumerMemberState))
        value = ConsumerGroupCurrentMemberAssignmentValue(*epochs, state, owned(assigned), owned(pending))
        expected = to_bytes(GroupRecord(ConsumerGroupCurrentMemberAssignmentKey(group_id, member_id), value))
        event = CurrentStored(member_id, CurrentAssignment(*epochs, state, assigned, pending))
        stored = to_record(group_id, event)
        assert stored is not None
        assert (stored.key, stored.value) == expected
        assert from_record(stored.key, stored.value) == (group_id, event)


def some_partitions(rng: random.Random) -> dict[TopicIdPartition, int]:
    count = rng.choice((0, 0, 1, 2, 5, 50, 300))
    return {(bytes([rng.randrange(3)]) * 16, rng.randrange(300)): rng.randrange(2**31) for _ in range(count)}


def owned(partitions: dict[TopicIdPartition, int]) -> list[OwnedPartitions]:
    """Topics and partitions in order."""
    numbers: dict[bytes, list[int]] = {}
    for topic_id, number in sorted(partitions):
        numbers.setdefault(topic_id, []).append(number)
    return [OwnedPartitions(t, ns, [partitions[t, n] for n in ns]) for t, ns in numbers.items()]


def test_the_sample_replayed() -> None:
    """The groups that Kafka's own records leave: one member away for a while, one group gone, one mixed."""
    groups: dict[str, ConsumerGroup] = {}
    for record, read in of_consumer_groups():
        group = groups.setdefault(read.group_id, ConsumerGroup(read.group_id))
        replay_consumer(group, event_of(read), record.timestamp)
    assert {name: str(group.phase) for name, group in groups.items()} == {
        "crew": "Reconciling",
        "patterns": "Dead",
        "mixed": "Reconciling",
        "empty": "Stable",
    }
    (away,) = groups["crew"].members.values()
    assert (away.subscription.instance_id, away.current.member_epoch) == ("i1", -2)
    assert set(away.current.assigned.values()) == {0}
    assert groups["crew"].target[away.member_id] == frozenset(away.current.assigned)
    classic = [m.subscription.classic for m in groups["mixed"].members.values() if m.subscription.classic]
    assert [c.session_timeout_ms for c in classic] == [45_000]
    owned = [partition for m in groups["mixed"].members.values() for partition in m.current.assigned]
    assert len(owned) == len(set(owned)) == 5


def test_a_member_of_its_records() -> None:
    """testUpdateWithConsumerGroupMemberMetadataValue"""
    classic = ClassicMemberMetadata(5_000, [ClassicProtocol("range", b"\1\2\3")])
    value = ConsumerGroupMemberMetadataValue(
        "instance", "rack", "client", "/host", ["foo", "bar"], "regex", 1_000, "range", classic
    )
    event = event_of(GroupRecord(ConsumerGroupMemberMetadataKey("g", "m"), value))
    group = ConsumerGroup("g")
    replay_consumer(group, event, 0)
    assert group.members["m"].subscription == ConsumerSubscription(
        topic_names=frozenset({"foo", "bar"}),
        topic_regex="regex",
        rebalance_timeout_ms=1_000,
        server_assignor="range",
        instance_id="instance",
        rack_id="rack",
        client_id="client",
        client_host="/host",
        classic=ClassicMetadata(5_000, (("range", b"\1\2\3"),)),
    )


def test_what_a_member_has_by_its_record() -> None:
    """testUpdateWithConsumerGroupCurrentMemberAssignmentValue: without epochs the partitions are of the member's."""
    first, second = b"1" * 16, b"2" * 16
    value = ConsumerGroupCurrentMemberAssignmentValue(
        10, 9, 1, [OwnedPartitions(first, [0, 1, 2])], [OwnedPartitions(second, [3, 4, 5])]
    )
    event = event_of(GroupRecord(ConsumerGroupCurrentMemberAssignmentKey("g", "m"), value))
    assert isinstance(event, CurrentStored)
    assert (event.current.member_epoch, event.current.previous_member_epoch) == (10, 9)
    assert event.current.assigned == dict.fromkeys([(first, 0), (first, 1), (first, 2)], 10)
    assert event.current.pending_revocation == dict.fromkeys([(second, 3), (second, 4), (second, 5)], 10)


def test_partitions_without_epochs() -> None:
    """Kafka before 4.3 wrote none: the member's epoch counts, and 0 for a static member that is away. One epoch too few is as
    none (testUpdateWithConsumerGroupCurrentMemberAssignmentValueWithNegativeEpoch)."""
    topic, key = bytes(16), ConsumerGroupCurrentMemberAssignmentKey("g", "m")
    for member_epoch, epochs, expected in ((5, None, 5), (-2, None, 0), (5, [3], 5), (5, [3, 4], None)):
        value = ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch, 4, 77, [OwnedPartitions(topic, [0, 1], epochs)], []
        )
        event = event_of(GroupRecord(key, value))
        assert isinstance(event, CurrentStored)
        assert event.current.state == ConsumerMemberState.UNKNOWN
        stamped = [event.current.assigned[topic, 0], event.current.assigned[topic, 1]]
        assert stamped == ([expected, expected] if expected is not None else [3, 4])


def test_a_soft_event_has_no_record() -> None:
    assert record_of("g", PartitionMetadataStored()) is None
    assert to_record("g", PartitionMetadataStored()) is None


def test_a_damaged_record_is_a_wire_error() -> None:
    record = to_record("g", GroupEpochRemoved())
    assert record is not None
    for value in (b"", b"\0", b"\0\x01\0\0\0\x01\0", b"\0\0\0\0"):
        with pytest.raises(WireError):
            from_record(record.key, value)
    with pytest.raises(WireError):
        from_record(record.key[:3], None)
    with pytest.raises(WireError):
        record_text(b"\0\x0a\0\x05g", None)
