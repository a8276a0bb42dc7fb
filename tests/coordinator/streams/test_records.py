"""Records of a streams group: each event is one record, read again as the same event, and its tombstone. Names are those of
Kafka 4.4's StreamsCoordinatorRecordHelpersTest, TasksTupleTest, TasksTupleWithEpochsTest, GroupCoordinatorShardTest and
GroupMetadataManagerTest."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from coterie.coordinator.events import Event
from coterie.coordinator.outcome import CoordinatorConfig
from coterie.coordinator.shard import Shard
from coterie.coordinator.stored_records.stored import from_record, record_text, to_record
from coterie.coordinator.stored_records.stored_kinds import GroupRecord
from coterie.coordinator.streams import events as s
from coterie.coordinator.streams.state import (
    CurrentTasks,
    OwnedTasks,
    StreamsGroup,
    StreamsMemberState,
    StreamsMetadata,
)
from coterie.coordinator.streams.stored import STREAMS_RECORDS
from coterie.coordinator.streams.tasks import Tasks
from coterie.wire.messages.stored import streams_group_records as m
from coterie.wire.messages.stored.streams_group_records import StreamsGroupTopologyValue
from coterie.wire.messages.streams.streams_group_heartbeat import Subtopology

MEMBER = StreamsMetadata("i", "r", "client", "/host", 1_000, 1, "process", ("h", 9), (("key", "value"),))
ACTIVE = OwnedTasks({("0", 2): 11, ("0", 1): 10, ("1", 0): 12}, frozenset({("0", 3)}), frozenset({("2", 4), ("2", 1)}))
TASKS = Tasks(frozenset({("1", 2), ("0", 1), ("0", 10)}), frozenset({("1", 3)}), frozenset({("0", 5)}))
CURRENT = CurrentTasks(12, 11, StreamsMemberState.UNREVOKED_TASKS, ACTIVE, OwnedTasks({("9", 1): 4}))

# name | event | its record as a dump shows it
RECORDS = [
    pytest.param(
        s.StreamsMetadataStored("m", MEMBER),
        "member m (i) of process process, topology epoch 1, rebalance timeout 1000 ms, client client at /host, rack r, "
        "endpoint h:9, tags key=value",
        id="testNewStreamsGroupMemberRecord",
    ),
    pytest.param(
        s.StreamsMetadataStored("m", StreamsMetadata("i", None, process_id="p")),
        "member m (i) of process p, topology epoch -1, rebalance timeout -1 ms, client  at ",
        id="testNewStreamsGroupMemberRecordWithNullRackId",
    ),
    pytest.param(
        s.StreamsMetadataStored("m", StreamsMetadata(None, "r", process_id="p")),
        "member m of process p, topology epoch -1, rebalance timeout -1 ms, client  at , rack r",
        id="testNewStreamsGroupMemberRecordWithNullInstanceId",
    ),
    pytest.param(
        s.StreamsMetadataStored("m", StreamsMetadata("i", "r", user_endpoint=None, process_id="p")),
        "member m (i) of process p, topology epoch -1, rebalance timeout -1 ms, client  at , rack r",
        id="testNewStreamsGroupMemberRecordWithNullUserEndpoint",
    ),
    pytest.param(s.StreamsMetadataRemoved("m"), "tombstone of member m", id="testNewStreamsGroupMemberTombstoneRecord"),
    pytest.param(
        s.StreamsEpochStored(42, 7, 1, ()),
        "epoch 42, metadata hash 7, topology epoch 1",
        id="testNewStreamsGroupMetadataRecordWithNullAssignmentConfig",
    ),
    pytest.param(
        s.StreamsEpochStored(42, 7, -1, (("num.standby.replicas", "2"),)),
        "epoch 42, metadata hash 7, topology not ready, num.standby.replicas=2",
        id="testNewStreamsGroupMetadataRecord",
    ),
    pytest.param(
        s.StreamsEpochStored(42, 7, 1, (), -2, 3),
        "epoch 42, metadata hash 7, topology epoch 1",
        id="testNewStreamsGroupMetadataRecordWithTopologyDescriptionEpochs",
    ),
    pytest.param(s.StreamsEpochRemoved(), "tombstone of its epoch", id="testNewStreamsGroupEpochTombstoneRecord"),
    pytest.param(
        s.TaskTargetStored("m", TASKS),
        "target of m: 0_1 0_10 1_2, standby 1_3, warm-up 0_5",
        id="testNewStreamsGroupTargetAssignmentRecord",
    ),
    pytest.param(
        s.TaskTargetStored("m", Tasks()),
        "target of m: nothing",
        id="testNewStreamsGroupTargetAssignmentRecordWithEmptyTaskIds",
    ),
    pytest.param(
        s.TaskTargetRemoved("m"),
        "tombstone of the target of m",
        id="testNewStreamsGroupTargetAssignmentTombstoneRecord",
    ),
    pytest.param(
        s.TaskTargetEpochStored(3, 5),
        "target assignment of epoch 3, computed at 5",
        id="testNewStreamsGroupTargetAssignmentMetadataRecord",
    ),
    pytest.param(
        s.TaskTargetEpochRemoved(),
        "tombstone of its target assignment",
        id="testNewStreamsGroupTargetAssignmentMetadataTombstoneRecord",
    ),
    pytest.param(
        s.CurrentTasksStored("m", CURRENT),
        "member m epoch 12 after 11, unrevoked tasks, owns 0_1@10 0_2@11 1_0@12, standby 0_3, warm-up 2_1 2_4, to revoke 9_1@4",
        id="testNewStreamsGroupCurrentAssignmentRecord",
    ),
    pytest.param(
        s.CurrentTasksStored("m", CurrentTasks(1, 0)),
        "member m epoch 1 after 0, stable, owns nothing",
        id="testNewStreamsGroupCurrentAssignmentRecordWithEmptyAssignment",
    ),
    pytest.param(
        s.CurrentTasksRemoved("m"),
        "tombstone of what m owns",
        id="testNewStreamsGroupCurrentAssignmentTombstoneRecord",
    ),
    pytest.param(
        s.TopologyStored(StreamsGroupTopologyValue(2, [Subtopology("0", ["a", "b"]), Subtopology("1", ["c"])])),
        "topology of epoch 2: 0 of a+b, 1 of c",
        id="testNewStreamsGroupTopologyRecord",
    ),
    pytest.param(s.TopologyRemoved(), "tombstone of its topology", id="testNewStreamsGroupTopologyRecordTombstone"),
]


@pytest.mark.parametrize(("event", "text"), RECORDS)
def test_an_event_is_a_record(event: s.StreamsEvent, text: str) -> None:
    """testReplayStreamsGroupMetadata, testReplayStreamsGroupMetadataWithNullValue, testReplayStreamsGroupTopology,
    testReplayStreamsGroupTopologyWithNullValue, testReplayStreamsGroupMemberMetadata,
    testReplayStreamsGroupMemberMetadataWithNullValue, testReplayStreamsGroupTargetAssignmentMetadata,
    testReplayStreamsGroupTargetAssignmentMetadataWithNullValue, testReplayStreamsGroupTargetAssignmentMember,
    testReplayStreamsGroupTargetAssignmentMemberKeyWithNullValue, testReplayStreamsGroupCurrentMemberAssignment,
    testReplayStreamsGroupCurrentMemberAssignmentWithNullValue of GroupCoordinatorShardTest; testFromTargetAssignmentRecord of
    TasksTupleTest; testFromCurrentAssignmentRecord of TasksTupleWithEpochsTest"""
    record = to_record("g", event)
    assert record is not None
    assert from_record(record.key, record.value) == ("g", event)
    assert record_text(record.key, record.value) == f"streams group g {text}"


@pytest.mark.parametrize("epochs", [None, [7], [7, 8, 9]])
def test_tasks_without_an_epoch_each_are_of_the_members_epoch(epochs: list[int] | None) -> None:
    """testFromCurrentAssignmentRecordWithoutEpochs, testFromCurrentAssignmentRecordWithMismatchedEpochs of
    TasksTupleWithEpochsTest"""
    value = m.StreamsGroupCurrentMemberAssignmentValue(5, 4, 1, [m.OwnedTaskIds("0", [1, 2], epochs)])
    event = STREAMS_RECORDS.event_of(GroupRecord(m.StreamsGroupCurrentMemberAssignmentKey("g", "m"), value))
    assert isinstance(event, s.CurrentTasksStored)
    assert event.current.assigned == OwnedTasks({("0", 1): 5, ("0", 2): 5})


def test_epochs_of_tasks_are_kept() -> None:
    value = m.StreamsGroupCurrentMemberAssignmentValue(5, 4, 1, [m.OwnedTaskIds("0", [1, 2], [3, 4])])
    event = STREAMS_RECORDS.event_of(GroupRecord(m.StreamsGroupCurrentMemberAssignmentKey("g", "m"), value))
    assert isinstance(event, s.CurrentTasksStored)
    assert event.current.assigned == OwnedTasks({("0", 1): 3, ("0", 2): 4})


def test_a_soft_event_has_no_record() -> None:
    assert STREAMS_RECORDS.record_of("g", s.ShutdownRequested("m")) is None


def loaded(*events: s.StreamsEvent) -> StreamsGroup | None:
    """The group "g" of a shard that has loaded the records of these events."""
    shard = Shard(CoordinatorConfig())
    for event in events:
        record = to_record("g", event)
        assert record is not None
        shard.load(record.key, record.value, 1_000)
    return shard.of_kind(StreamsGroup).get("g")


TOPOLOGY = s.TopologyStored(StreamsGroupTopologyValue(0, [Subtopology("0", ["in"])]))
METADATA, EPOCH = s.StreamsMetadataStored("m", MEMBER), s.StreamsEpochStored(10, 7, 0, (), 5, 6)
TARGET, TARGET_EPOCH = s.TaskTargetStored("m", TASKS), s.TaskTargetEpochStored(10, 99)
CURRENT_TASKS = s.CurrentTasksStored("m", CURRENT)
GONE = (s.CurrentTasksRemoved("m"), s.TaskTargetRemoved("m"), s.StreamsMetadataRemoved("m"))
EVERY = (METADATA, TOPOLOGY, EPOCH, TARGET, TARGET_EPOCH, CURRENT_TASKS)

# the records | what the group then has; None: there is no group
REPLAYED: list[Any] = [
    pytest.param((METADATA,), {"static_members": {"i": "m"}}, id="testReplayStreamsGroupMemberMetadata"),
    pytest.param(GONE, None, id="testReplayStreamsGroupMemberMetadataTombstoneNotExisting"),
    pytest.param(
        (METADATA, EPOCH, *GONE),
        {"members": {}, "static_members": {}, "timers": {}},
        id="testReplayStreamsGroupMemberMetadataTombstoneExisting",
    ),
    pytest.param(
        (EPOCH,),
        {"group_epoch": 10, "metadata_hash": 7, "stored_description_epoch": 5, "failed_description_epoch": 6},
        id="testStreamsGroupMetadataReplayRoundTripsTopologyDescriptionEpochs",
    ),
    pytest.param((s.StreamsEpochRemoved(),), None, id="testReplayStreamsGroupEpochTombstoneNotExisting"),
    pytest.param((*EVERY, s.StreamsEpochRemoved()), None, id="testReplayStreamsGroupEpochTombstoneExisting"),
    pytest.param((EPOCH, TARGET), {"target": {"m": TASKS}}, id="testReplayStreamsGroupTargetAssignmentMember"),
    pytest.param(
        (s.TaskTargetRemoved("m"),), None, id="testReplayStreamsGroupTargetAssignmentMemberTombstoneNonExisting"
    ),
    pytest.param(
        (EPOCH, TARGET, s.TaskTargetRemoved("m")),
        {"target": {}},
        id="testReplayStreamsGroupTargetAssignmentMemberTombstoneExisting",
    ),
    pytest.param(
        (EPOCH, TARGET_EPOCH),
        {"assignment_epoch": 10, "assignment_timestamp_ms": 99},
        id="testReplayStreamsGroupTargetAssignmentMetadata",
    ),
    pytest.param(
        (s.TaskTargetEpochRemoved(),), None, id="testReplayStreamsGroupTargetAssignmentMetadataTombstoneNotExisting"
    ),
    pytest.param(
        (EPOCH, TARGET, TARGET_EPOCH, s.TaskTargetEpochRemoved()),
        {"assignment_epoch": -1, "target": {}},
        id="testReplayStreamsGroupTargetAssignmentMetadataTombstoneExisting",
    ),
    pytest.param(
        (s.CurrentTasksRemoved("m"),), None, id="testReplayStreamsGroupCurrentMemberAssignmentTombstoneNotExisting"
    ),
    pytest.param(
        (METADATA, CURRENT_TASKS, s.CurrentTasksRemoved("m")),
        {"owners.active": {}, "owners.standby": {}, "owners.warmup": {}, "epoch of m": -1},
        id="testReplayStreamsGroupCurrentMemberAssignmentTombstoneExisting",
    ),
    pytest.param((s.TopologyRemoved(),), None, id="testReplayStreamsGroupTopologyTombstoneNotExists"),
    pytest.param(
        (EPOCH, TOPOLOGY, s.TopologyRemoved()), {"topology": None}, id="testReplayStreamsGroupTopologyTombstoneExists"
    ),
]


def _part(group: StreamsGroup, name: str) -> object:
    if name == "epoch of m":
        return group.members["m"].current.member_epoch
    value: Any = group
    for part in name.split("."):
        value = getattr(value, part)
    return value


@pytest.mark.parametrize(("events", "parts"), REPLAYED)
def test_records_are_replayed(events: tuple[s.StreamsEvent, ...], parts: dict[str, object] | None) -> None:
    group = loaded(*events)
    assert (group is None) == (parts is None)
    if group is not None and parts is not None:
        assert {name: _part(group, name) for name in parts} == parts


def test_a_member_in_a_state_of_a_newer_broker() -> None:
    value = m.StreamsGroupCurrentMemberAssignmentValue(5, 4, 9)
    event = STREAMS_RECORDS.event_of(GroupRecord(m.StreamsGroupCurrentMemberAssignmentKey("g", "m"), value))
    assert isinstance(event, s.CurrentTasksStored)
    assert event.current.state is StreamsMemberState.UNKNOWN


def active(member_id: str, epoch: int, *tasks: tuple[str, int]) -> s.CurrentTasksStored:
    return s.CurrentTasksStored(
        member_id, CurrentTasks(epoch, epoch - 1, assigned=OwnedTasks(dict.fromkeys(tasks, epoch)))
    )


FOO, BAR = ("foo", 0), ("bar", 0)
OF_A, OF_B = (s.StreamsMetadataStored(x, StreamsMetadata(process_id=f"p{x}")) for x in "ab")


def test_a_record_that_compaction_removed_between_two_owners() -> None:
    """testReplayStreamsGroupCurrentMemberAssignmentWithCompaction: b released foo before a got it, and that record is gone."""
    group = loaded(OF_A, OF_B, active("a", 11, FOO), active("b", 12, FOO), active("a", 14, BAR))
    assert group is not None
    assert group.owners.active == {FOO: "pb", BAR: "pa"}


def test_a_task_that_nobody_has_after_compaction() -> None:
    """testReplayStreamsGroupCurrentMemberAssignmentUnownedTopologyWithCompaction"""
    group = loaded(OF_A, OF_B, active("a", 11, FOO), active("b", 12, FOO), active("b", 13), active("a", 14, BAR))
    assert group is not None
    assert group.owners.active == {BAR: "pa"}


def test_the_processes_of_tasks() -> None:
    """testAddTaskProcessIds, testRemoveTaskProcessIds, testUpdatingMemberUpdatesProcessId,
    testUpdatingMemberUpdatesTaskProcessIdWhenPartitionIsNotReleased,
    testUpdatingMemberUpdatesTaskProcessIdWhenPartitionIsReassignedBeforeBeingRevoked, testDeletingMemberRemovesProcessId"""
    all_roles = OwnedTasks({("0", 1): 5}, frozenset({("1", 1)}), frozenset({("2", 1)}))
    pending = OwnedTasks({("0", 2): 5}, frozenset({("1", 2)}), frozenset({("2", 2)}))
    stored = s.CurrentTasksStored("a", CurrentTasks(5, 4, assigned=all_roles, pending_revocation=pending))
    group = loaded(
        OF_A,
        OF_B,
        stored,
        s.CurrentTasksStored("b", CurrentTasks(5, 4, assigned=OwnedTasks({}, frozenset({("1", 1)})))),
    )
    assert group is not None
    assert group.owners.active == {("0", 1): "pa", ("0", 2): "pa"}
    assert group.owners.standby == {("1", 1): Counter(pa=1, pb=1), ("1", 2): Counter(pa=1)}
    assert group.owners.warmup == {("2", 1): Counter(pa=1), ("2", 2): Counter(pa=1)}
    # the member moves to another process with all that it has
    group = loaded(OF_A, stored, s.StreamsMetadataStored("a", StreamsMetadata(process_id="new")))
    assert group is not None
    assert {*group.owners.active.values(), *group.owners.standby["1", 1], *group.owners.warmup["2", 2]} == {"new"}
    # assigned to b before a's release is read, which then changes nothing
    group = loaded(OF_A, OF_B, active("a", 11, FOO), active("b", 12, FOO), active("a", 12))
    assert group is not None
    assert group.owners.active == {FOO: "pb"}
    gone = (s.CurrentTasksRemoved("a"), s.TaskTargetRemoved("a"), s.StreamsMetadataRemoved("a"))
    group = loaded(OF_A, OF_B, stored, *gone)
    assert group is not None
    assert [group.owners.active, group.owners.standby, group.owners.warmup] == [{}, {}, {}]


def test_events_are_what_a_group_consists_of() -> None:
    """Each hard event stands in this table, and each removal is a tombstone."""
    of_table: list[Event] = [param.values[0] for param in RECORDS]  # type: ignore[misc]
    kinds = {type(event) for event in of_table}
    assert kinds >= set(s.STREAMS_REMOVALS)
    for event in of_table:
        record = to_record("g", event)
        assert record is not None
        assert (record.value is None) == isinstance(event, s.STREAMS_REMOVALS)
