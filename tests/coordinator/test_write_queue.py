"""Decisions of one turn share a batch: what is answered, when, and what a failed write refuses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from coterie.coordinator.commands import Command, DeleteGroup
from coterie.coordinator.outcome import Context, CoordinatorConfig
from coterie.coordinator.shard import Decision, Shard, Step
from coterie.coordinator.stored_records.offsets_log import OffsetsLog
from coterie.coordinator.write_queue import WriteQueue
from coterie.laboratory.group_checkers import Ledger, check_replay
from coterie.log.config import LogConfig
from coterie.log.filesystem import MemoryFileSystem
from coterie.log.partition_log import PartitionLog
from coterie.records.batch import batches
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.groups.heartbeat import HeartbeatRequest
from coterie.wire.messages.groups.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from coterie.wire.messages.groups.leave_group import LeaveGroupRequest
from coterie.wire.messages.groups.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from coterie.wire.messages.groups.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from coterie.wire.messages.groups.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from coterie.wire.messages.transactions.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

WRITE, FAIL = "write", "fail"
MAX_BATCH_BYTES = 700
VERSIONS = {JoinGroupRequest: 3, LeaveGroupRequest: 2, OffsetDeleteRequest: 0}


class Driver:
    """A shard over a log whose next ``failing`` appends fail. Checks what a driver relies on with each call."""

    def __init__(self, max_batch_bytes: int = MAX_BATCH_BYTES) -> None:
        config = LogConfig(max_message_bytes=max_batch_bytes, cleanup_compact=True, cleanup_delete=False)
        self.log = OffsetsLog(PartitionLog.open(MemoryFileSystem(), "o-0", config, clean=True))
        self.shard = Shard(CoordinatorConfig(group_initial_rebalance_delay_ms=0))
        self.queue = WriteQueue(self.shard, self._append, self._committed, self.log.batch_bytes)
        self.ledger, self.failing = Ledger(), 0
        self.responses: dict[Any, Any] = {}
        self._appended: list[Decision] = []
        self._refused: set[Any] = set()

    def submit(self, command: Command, token: Any) -> None:
        self.ledger.requested(token)
        version = VERSIONS.get(type(command), 4)
        waits = self.queue.execute(command, Context(1_000, token, str(token), version, "c", "/h"))
        assert waits == bool(self.queue)
        self.check()

    def write(self) -> None:
        self.queue.write()
        assert not self.queue
        assert not self.queue.tokens()
        assert not self._appended, "what was appended was not handed over"
        self.check()

    def check(self) -> None:
        self.ledger.check_parked(self.shard, self.queue.tokens())
        again = Shard(self.shard.config)
        self.log.load(again)
        check_replay(self.shard, again)

    def _append(self, decisions: list[Decision]) -> None:
        assert not self._appended, "an append before that was not handed over"
        if self.failing:
            self.failing -= 1
            self._refused |= {reply.token for decision in decisions for reply in decision.outcome.replies}
            raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR)
        self.log.append(decisions)
        self._appended = list(decisions)

    def _committed(self, decision: Decision, steps: list[Step]) -> None:
        if decision.records:
            assert decision is self._appended.pop(0), "answered out of order, or before the append"
        for reply in decision.outcome.replies:
            self.ledger.respond(reply.token)
            self.responses[reply.token] = reply.response
            assert (reply.token in self._refused) <= (error_in(reply.response) != ErrorCode.NONE)
        self._refused -= {reply.token for reply in decision.outcome.replies}


def error_in(response: Any) -> int:
    """The first error in a response."""
    code = int(getattr(response, "error_code", 0))
    parts = [*getattr(response, "topics", ()), *getattr(response, "partitions", ()), *getattr(response, "results", ())]
    return code or next((c for part in parts if (c := error_in(part))), 0)


def commit(group: str, partition: int, offset: int, member: str = "", generation: int = -1, note: str = "") -> Command:
    partitions = [OffsetCommitRequestPartition(partition, offset, -1, committed_metadata=note)]
    return OffsetCommitRequest(group, generation, member, topics=[OffsetCommitRequestTopic("t", partitions=partitions)])


def transactional(group: str, partition: int, offset: int) -> Command:
    topics = [
        TxnOffsetCommitRequestTopic(
            "t", partitions=[TxnOffsetCommitRequestPartition(partition, offset, committed_metadata="")]
        )
    ]
    return TxnOffsetCommitRequest("tid", group, 7, 0, topics=topics)


def join(group: str, member: str) -> Command:
    return JoinGroupRequest(group, 10_000, 10_000, member, None, "consumer", [JoinGroupRequestProtocol("range", b"x")])


def sync(group: str, member: str, generation: int) -> Command:
    return SyncGroupRequest(group, generation, member, assignments=[SyncGroupRequestAssignment(member, b"y")])


def delete_offset(group: str, partition: int) -> Command:
    topics = [OffsetDeleteRequestTopic("t", [OffsetDeleteRequestPartition(partition)])]
    return OffsetDeleteRequest(group, topics)


simple = st.sampled_from("ab")  # groups that mostly have no members, so that their offsets can be deleted
groups = st.sampled_from("bc")
# A member id is that of the JoinGroup that was the n-th command of the story ("c-n").
members = st.sampled_from(["", "c-0", "c-1", "c-2", "c-4"])
generations = st.integers(-1, 3)
partitions, offsets = st.integers(0, 2), st.integers(0, 9)
notes = st.sampled_from(["", "", "n" * 400])
of_simple_groups = st.one_of(
    st.builds(commit, simple, partitions, offsets, note=notes),
    st.builds(commit, simple, partitions, offsets),
    st.builds(transactional, simple, partitions, offsets),
    st.builds(DeleteGroup, simple),
    st.builds(delete_offset, simple, partitions),
)
of_members = st.one_of(
    st.builds(commit, groups, partitions, offsets, members, generations),
    st.builds(join, groups, members),
    st.builds(sync, groups, members, generations),
    st.builds(lambda g, m, n: HeartbeatRequest(g, n, m), groups, members, generations),
    st.builds(lambda g, m: LeaveGroupRequest(g, m), groups, members),
)
commands = st.one_of(of_simple_groups, of_members)
steps = st.lists(st.one_of(commands, commands, commands, st.just(WRITE)), min_size=12, max_size=40)
failing_steps = st.lists(
    st.one_of(commands, commands, commands, st.just(WRITE), st.just(FAIL)), min_size=12, max_size=40
)


@given(failing_steps)
def test_a_failed_write_refuses_what_it_held_and_every_request_is_answered_once(story: Sequence[Any]) -> None:
    driver = Driver()
    for token, step in enumerate(story):
        if step == WRITE:
            driver.write()
        elif step == FAIL:
            driver.failing = 1
        else:
            driver.submit(step, token)
    driver.failing = 0
    driver.write()


@given(steps)
@example([commit("a", 0, 1), WRITE, commit("a", 1, 1), DeleteGroup("a")])
def test_a_shared_batch_changes_no_response_and_no_state(story: Sequence[Any]) -> None:
    together, apart = Driver(), Driver()
    for token, step in enumerate(story):
        if step == WRITE:
            together.write()
            continue
        together.submit(step, token)
        apart.submit(step, token)
        apart.write()
    together.write()
    assert together.responses == apart.responses
    check_replay(together.shard, apart.shard)
    assert together.log.log.end_offset == apart.log.log.end_offset


def batches_of(driver: Driver) -> list[int]:
    """The number of records in each batch of the log."""
    data = driver.log.log.read(0, 1_000_000)
    return [header.record_count for _, header in batches(data)]


def test_the_commits_of_a_turn_are_one_batch_and_read_after_it() -> None:
    driver = Driver(max_batch_bytes=100_000)
    for n in range(20):
        driver.submit(commit("abcd"[n % 4], n, n), n)
    # The second commit of a group that does not exist yet waits for the first.
    assert batches_of(driver) == [4]
    driver.write()
    assert batches_of(driver) == [4, 16]
    assert sorted(driver.responses) == list(range(20))
    assert len(driver.shard.groups["a"].offsets) == 5


def test_a_transaction_and_what_no_batch_has_room_for_are_written_alone() -> None:
    driver = Driver()
    driver.submit(commit("a", 0, 1), 0)
    driver.submit(transactional("b", 0, 1), 1)
    driver.submit(commit("c", 0, 1, note="n" * 400), 2)
    driver.submit(commit("d", 0, 1, note="n" * 400), 3)
    driver.submit(commit("e", 0, 1, note="n" * 2_000), 4)
    driver.submit(commit("f", 0, 1), 5)
    driver.write()
    assert batches_of(driver) == [1, 1, 1, 1, 1]
    assert [error_in(driver.responses[token]) for token in range(6)] == [
        0,
        0,
        0,
        0,
        ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
        0,
    ]
