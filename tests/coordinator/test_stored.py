"""Records of `__consumer_offsets`: every version that exists is read, Kafka's last non-flexible one is written, and the
log is loaded whole. Names are those of GroupMetadataManagerTest.
"""

from __future__ import annotations

import struct
from typing import Any

import pytest

from coterie.assignors.blobs import encode_subscription
from coterie.coordinator import events as e
from coterie.coordinator.classic.sync import empty_group_stored, group_stored
from coterie.coordinator.outcome import CoordinatorConfig
from coterie.coordinator.shard import Decision, Shard
from coterie.coordinator.state import Cause, CommittedOffset, Group, Member, Phase, subscribed_topics
from coterie.coordinator.stored_records.offsets_log import OffsetsLog
from coterie.coordinator.stored_records.stored import StoredRecord, from_record, record_text, to_record
from coterie.log.config import LogConfig
from coterie.log.filesystem import MemoryFileSystem
from coterie.log.partition_log import PartitionLog
from coterie.records.batch import HEADER_BYTES, LENGTH_END
from coterie.records.encoding import encode_batch
from coterie.records.markers import end_of_transaction
from coterie.wire.messages.stored.consumer_offsets import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitValue,
)
from coterie.wire.primitives import WireError
from coterie_conformance.scenarios.groups.scenario import ScenarioRun

OFFSET = e.OffsetStored("t", 3, CommittedOffset(42, 7, "note", 1000))
GROUP_KEY = struct.pack(">h", 2) + GroupMetadataKey("g").encode(2)


def version_of(data: bytes | None) -> int:
    assert data is not None
    value: int = struct.unpack_from(">h", data)[0]
    return value


def group_record(version: int, subscription: bytes = b"", static: str | None = None, members: int = 1) -> StoredRecord:
    crew = [MemberMetadata(f"m{n}", static, "c", "/h", 20, 10, subscription, b"a") for n in range(members)]
    value = GroupMetadataValue("consumer", 5, "range" if crew else None, "m0" if crew else None, 77, crew)
    return StoredRecord(GROUP_KEY, struct.pack(">h", version) + value.encode(version))


def log_of(*batches: list[StoredRecord], **config: Any) -> OffsetsLog:
    log = OffsetsLog(PartitionLog.open(MemoryFileSystem(), "o-0", LogConfig(**config), clean=True))
    for records in batches:
        log.log.append_own(encode_batch([(0, r.key, r.value, ()) for r in records]), 0)
    return log


def load(log: OffsetsLog) -> Shard:
    shard = Shard(CoordinatorConfig())
    log.load(shard)
    return shard


def offset_record(offset: int, group: str = "g", partition: int = 0) -> StoredRecord:
    record = to_record(group, e.OffsetStored("t", partition, CommittedOffset(offset, -1, "", 0)))
    assert record is not None
    return record


def test_which_version_is_written() -> None:
    """testSerdeOffsetCommitValue, testSerdeOffsetCommitValueWithExpireTimestamp,
    testSerdeOffsetCommitValueWithNoneExpireTimestamp, testSerializeGroupMetadataValueToHighestNonFlexibleVersion,
    testSerializeOffsetCommitValueToHighestNonFlexibleVersion"""
    plain = to_record("g", OFFSET)
    assert plain is not None
    assert version_of(plain.value) == 3
    assert from_record(plain.key, plain.value) == ("g", OFFSET)
    expiring = e.OffsetStored("t", 3, CommittedOffset(42, -1, "note", 1000, 9000))
    kept = to_record("g", expiring)
    assert kept is not None
    assert version_of(kept.value) == 1
    assert from_record(kept.key, kept.value) == ("g", expiring)
    run = ScenarioRun()
    run.step("join a version=3")
    run.step("sync a")
    entry, _, _ = run.log[-1]
    assert isinstance(entry, StoredRecord)
    assert version_of(entry.value) == 3


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_every_offset_value_is_read(version: int) -> None:
    """testLoadOffsetFromOldCommit, testLoadOffsetWithExplicitRetention,
    testDeserializeHighestSupportedOffsetCommitValueVersion"""
    value = OffsetCommitValue(42, 7, "note", 1000, 9000).encode(version)
    read = from_record(to_record("g", OFFSET).key, struct.pack(">h", version) + value)  # type: ignore[union-attr]
    assert read is not None
    committed = read[1].committed  # type: ignore[union-attr]
    assert (committed.offset, committed.metadata, committed.commit_timestamp_ms) == (42, "note", 1000)
    assert committed.leader_epoch == (7 if version >= 3 else -1)
    assert committed.expire_timestamp_ms == (9000 if version == 1 else -1)


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_every_group_value_is_read(version: int) -> None:
    """testReadFromOldGroupMetadata, testCurrentStateTimestampForAllGroupMetadataVersions,
    testDeserializeHighestSupportedGroupMetadataValueVersion"""
    group = load(log_of([group_record(version, static="i" if version >= 3 else None)])).groups["g"]
    member = group.members["m0"]
    assert (group.phase, group.generation, group.protocol, group.leader) == (Phase.STABLE, 5, "range", "m0")
    assert group.phase_since_ms == (77 if version >= 2 else -1)
    assert member.rebalance_timeout_ms == (20 if version >= 1 else 10)  # v0 has the session timeout only
    assert member.group_instance_id == ("i" if version >= 3 else None)


def test_a_value_of_the_future_is_refused_and_stepped_over() -> None:
    """testDeserializeFutureGroupMetadataValue, testDeserializeFutureOffsetCommitValue: tags nobody knows are read over,
    a version nobody knows is an error of that record alone."""
    tagged = OffsetCommitValue(42, 7, "note", 1000).encode(4)[:-1] + b"\x01\x09\x01\xff"
    read = from_record(to_record("g", OFFSET).key, struct.pack(">h", 4) + tagged)  # type: ignore[union-attr]
    assert read is not None
    with pytest.raises(WireError):
        from_record(to_record("g", OFFSET).key, struct.pack(">h", 99) + tagged)  # type: ignore[union-attr]
    future = StoredRecord(offset_record(1).key, struct.pack(">h", 99) + tagged)
    shard = load(log_of([offset_record(1)], [future], [offset_record(3, partition=1)]))
    assert shard.groups["g"].offsets["t", 0].offset == 1
    assert shard.groups["g"].offsets["t", 1].offset == 3


def test_later_segments_override_earlier_ones() -> None:
    """testLoadGroupAndOffsetsFromDifferentSegments"""
    batches = [[offset_record(n, partition=n % 3)] for n in range(60)]
    log = log_of(*batches, [group_record(3)], segment_bytes=1024)
    assert len(log.log.segments) > 3
    group = load(log).groups["g"]
    assert [group.offsets["t", p].offset for p in range(3)] == [57, 58, 59]
    assert group.phase == Phase.STABLE


def test_a_record_larger_than_the_read_buffer_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    """testLoadGroupWithLargeGroupMetadataRecord"""
    monkeypatch.setattr("coterie.log.reading.CHUNK_BYTES", 1000)
    log = log_of([offset_record(1)], [group_record(3, members=200)], [offset_record(2)])
    group = load(log).groups["g"]
    assert (len(group.members), group.offsets["t", 0].offset) == (200, 2)


def test_an_empty_control_batch_is_stepped_over() -> None:
    """testLoadOffsetsWithEmptyControlBatch: what compaction leaves of a marker."""
    log = log_of([offset_record(1)])
    header_only = bytearray(end_of_transaction(5, 0, True, 0, 0)[:HEADER_BYTES])
    struct.pack_into(">i", header_only, 8, HEADER_BYTES - LENGTH_END)
    struct.pack_into(">i", header_only, 57, 0)
    log.log.append_own(bytes(header_only), 0)
    log.log.append_own(encode_batch([(0, offset_record(2).key, offset_record(2).value, ())]), 0)
    assert load(log).groups["g"].offsets["t", 0].offset == 2


def test_a_log_that_cannot_be_read_whole_does_not_load_for_ever() -> None:
    """testLoadGroupAndOffsetsWithCorruptedLog: what can be read is loaded, behind the damage too; the rest is named."""
    log = log_of([offset_record(1)], [offset_record(2)], [offset_record(3, "h")])
    segment = log.log.segments[0]
    damaged_at = segment.headers(0)[1][0] + HEADER_BYTES  # the length of the second batch's record
    segment.file.data[damaged_at] = 0x7F  # type: ignore[attr-defined]
    shard = Shard(CoordinatorConfig())
    assert log.load(shard) == 2
    assert {g: group.offsets["t", 0].offset for g, group in shard.groups.items()} == {"g": 1, "h": 3}
    assert [(batch.first_offset, batch.last_offset) for batch in log.skipped] == [(1, 1)]


def test_a_record_that_cannot_be_read_is_named_by_its_batch() -> None:
    short = offset_record(2)
    assert short.value is not None
    log = log_of([offset_record(1)], [StoredRecord(short.key, short.value[:5]), offset_record(3, "h")])
    shard = Shard(CoordinatorConfig())
    log.load(shard)
    assert {g: group.offsets["t", 0].offset for g, group in shard.groups.items()} == {"g": 1, "h": 3}
    assert [(batch.first_offset, batch.last_offset) for batch in log.skipped] == [(1, 2)]


def test_what_a_loaded_group_subscribes_to() -> None:
    """testLoadConsumerGroup, testLoadEmptyConsumerGroup, testLoadConsumerGroupWithFaultyConsumerProtocol"""
    loaded = load(log_of([group_record(3, encode_subscription(["t", "u"]))])).groups["g"]
    assert subscribed_topics(loaded) == {"t", "u"}
    assert subscribed_topics(load(log_of([group_record(3, members=0)])).groups["g"]) == frozenset()
    assert subscribed_topics(load(log_of([group_record(3, b"junk")])).groups["g"]) is None


def test_what_is_stored_of_a_group() -> None:
    """testStoreEmptyGroup, testStoreEmptySimpleGroup, testStoreNonEmptyGroup, testGroupMetadataRemoval,
    testGroupMetadataRemovalWithLogAppendTime"""
    run = ScenarioRun()
    run.step("join a version=3")
    run.step("sync a assign=a:x")
    stored = run.log[-1][0]
    assert isinstance(stored, StoredRecord)
    event = from_record(stored.key, stored.value)
    assert event is not None
    value = event[1].value  # type: ignore[union-attr]
    assert [(m.member_id, m.assignment) for m in value.members] == [("a-1", b"x")]
    run.step("leave a")
    stored = run.log[-1][0]
    assert isinstance(stored, StoredRecord)
    empty = from_record(stored.key, stored.value)[1].value  # type: ignore[index, union-attr]
    assert (empty.generation, empty.protocol_type, empty.protocol, empty.leader, empty.members) == (
        2,
        "consumer",
        None,
        None,
        [],
    )
    run.step("config offsets_retention_ms=1000")
    run.step("advance 5000")
    before = len(run.log)
    run.step("expire-offsets")
    assert [(r.key, r.value) for r, _, _ in run.log[before:] if isinstance(r, StoredRecord)] == [(stored.key, None)]
    # A simple consumer's group never had a record, so it needs no tombstone.
    run.step("commit s t-0=1 group=simple")
    run.step("advance 5000")
    before = len(run.log)
    run.step("expire-offsets")
    keys = [r.key for r, _, _ in run.log[before:] if isinstance(r, StoredRecord)]
    assert [version_of(key) for key in keys] == [1]


def test_the_record_of_a_group() -> None:
    """testNewGroupMetadataRecord, testNewGroupMetadataTombstoneRecord, testEmptyGroupMetadataRecord:
    version 3, each field."""
    crew = [
        Member(f"member-{n}", f"instance-{n}", f"client-{n}", f"host-{n}", 1500, 1000, (("range", bytes([n - 1, n])),))
        for n in (1, 2)
    ]
    group = Group("group-id", protocol_type="consumer", generation=1, protocol="range", leader="member-1")
    group.members = {member.member_id: member for member in crew}
    record = to_record("group-id", group_stored(group, {"member-1": b"\1\2", "member-2": b"\2\3"}, 77))
    assert record is not None
    assert record.value is not None
    assert (record.key, version_of(record.value)) == (b"\0\2\0\x08group-id", 3)
    members = [
        MemberMetadata(f"member-{n}", f"instance-{n}", f"client-{n}", f"host-{n}", 1000, 1500, bytes([n - 1, n]), share)
        for n, share in ((1, b"\1\2"), (2, b"\2\3"))
    ]
    expected = GroupMetadataValue("consumer", 1, "range", "member-1", 77, members)
    assert GroupMetadataValue.decode(record.value, 3, 2) == expected
    assert to_record("group-id", e.GroupRemoved(Cause("deleted"))) == StoredRecord(record.key, None)
    empty = to_record("group-id", empty_group_stored(Group("group-id"), 0, 77))
    assert empty is not None
    assert empty.value is not None
    assert (empty.key, version_of(empty.value)) == (record.key, 3)
    assert GroupMetadataValue.decode(empty.value, 3, 2) == GroupMetadataValue("", 0, None, None, 77, [])


def test_no_record_of_a_member_without_a_subscription() -> None:
    """testNewGroupMetadataRecordThrowsWhenNullSubscription: a bug, which shows before anything is written."""
    group = Group("g", protocol_type="consumer", generation=1, protocol="range", leader="m")
    group.members["m"] = Member("m", None, "c", "/h", 1500, 1000, (("sticky", b""),))
    with pytest.raises(AssertionError, match="does not support protocol range"):
        group_stored(group, {"m": b""}, 0)


def test_the_tombstone_of_an_offset() -> None:
    """testNewOffsetCommitTombstoneRecord"""
    assert to_record("group-id", e.OffsetRemoved("foo", 1)) == StoredRecord(b"\0\1\0\x08group-id\0\3foo\0\0\0\1", None)


def test_a_clean_up_that_finds_nothing_writes_and_says_nothing() -> None:
    """testLogInfoFromCleanupGroupMetadata, testCleanupExpiredOffsetsEmptyOffsetExpirationCondition"""
    run = ScenarioRun()
    run.step("commit s t-0=1")
    before = len(run.log)
    assert run.step("expire-offsets") == []
    assert len(run.log) == before


def test_records_in_words() -> None:
    """testCommittedOffsetParsing, testCommittedOffsetTombstoneParsing, testGroupMetadataParsingWithNullUserData,
    testGroupMetadataTombstoneParsing"""
    plain = to_record("g", OFFSET)
    assert plain is not None
    assert (
        record_text(plain.key, plain.value) == "offset g t-3 = 42, leader epoch 7, metadata 'note', committed at 1000"
    )
    assert record_text(plain.key, None) == "offset g t-3 tombstone"
    group = group_record(3, encode_subscription(["t"]))
    assert record_text(group.key, group.value) == (
        "group g consumer, generation 5, protocol range, leader m0, members [m0 subscribes to t, owns nothing readable]"
    )
    assert record_text(group.key, None) == "group g tombstone"
    assert record_text(b"\0\x63junk", b"") == "a record of key version 99, unknown here"


def test_a_group_with_very_many_offsets_can_still_be_deleted() -> None:
    """A hundred thousand tombstones would not fit into one batch of message.max.bytes, so they are divided."""
    from coterie.coordinator.commands import DeleteGroup
    from coterie.coordinator.outcome import Context
    from coterie.coordinator.write_queue import drive

    log, shard = log_of(), Shard(CoordinatorConfig())
    for partition in range(30_000):
        record = offset_record(1, partition=partition)
        shard.load(record.key, record.value)
    responded: list[object] = []

    def append(decisions: list[Decision]) -> None:
        log.append(decisions)

    decision = shard.decide(DeleteGroup("g"), Context(0, token="t"))
    drive(
        shard,
        decision,
        append,
        lambda kept, steps: responded.extend(kept.outcome.replies),
    )
    assert len(responded) == 1
    assert log.log.end_offset == 30_001  # and the group's own
    assert "g" not in load(log).groups
