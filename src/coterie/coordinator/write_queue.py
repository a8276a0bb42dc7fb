"""The loop of every driver: decide -> append -> commit -> reply once durable; then settle until the group is at rest.

Theory: this is a write-ahead log. A decision is computed from the state and leaves it as it is; its records are
appended; only then are its events applied and its replies sent. A client never sees what a crash could take back, and a
failed append needs no undoing: exactly the decisions of that batch are dropped, and `Shard.append_failed` returns what
to do instead.

Decisions with records wait until the driver calls `write`: those of one turn of its loop go into the log as one batch,
as Kafka's CoordinatorRuntime collects them. Kafka applies a record at once and keeps snapshots of the state to return
to. Here nothing is applied before it is written, so no snapshot is needed.

Rule: a command is decided on a state that has all of its group's earlier decisions. If some of them still wait, they
are written first. Groups are independent, and a busy broker still makes large batches, of many groups.

What is ugly: the rule would make a batch for each commit of a busy group. Two exceptions keep them together: commits
and heartbeats beside waiting commits (a commit does not read offsets), and lone steps of different consumers of a
KIP-848 group (a step reads only its member). `_decided_beside` and `_with` hold them; both are right only as long as
those decisions read no more than that (`tests/coordinator/consumer/test_shared_batches.py`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from coterie.coordinator.commands import Command
from coterie.coordinator.consumer.state import JOIN_GROUP_EPOCH
from coterie.coordinator.consumer.steps import single_member_step
from coterie.coordinator.outcome import Context
from coterie.coordinator.shard import Decision, Shard, Step
from coterie.coordinator.state import Token
from coterie.coordinator.stored_records.stored import StoredRecord
from coterie.records.batch import HEADER_BYTES
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.groups.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from coterie.wire.messages.groups.heartbeat import HeartbeatRequest
from coterie.wire.messages.groups.offset_commit import OffsetCommitRequest

Append = Callable[[list[Decision]], None]
Committed = Callable[[Decision, list[Step]], None]

BATCH_BYTES = 65_536
RECORD_OVERHEAD_BYTES = 32  # at most: three lengths, two deltas, attributes, the number of headers
_BESIDE_COMMITS = (HeartbeatRequest, OffsetCommitRequest)  # decided without a look at the group's offsets


@dataclass(slots=True)
class _Waiting:
    """What waits of one group. ``only_commits``: commits of a group that exists. ``stepping``: where it is lone steps of
    consumers alone, their member ids."""

    only_commits: bool
    stepping: set[str] | None


class WriteQueue:
    """Carries the decisions of one shard out. ``append`` writes the records of its decisions as one batch, of the outcome's
    producer if there is one (then it gets that decision alone), and raises Refusal when they cannot be written. ``committed``
    gets each decision once it is committed, in their order: it sends the replies and writes the journal. ``batch_bytes``
    returns what a batch may hold."""

    def __init__(self, shard: Shard, append: Append, committed: Committed, batch_bytes: Callable[[], int]) -> None:
        self._shard, self._append, self._committed, self._batch_bytes = shard, append, committed, batch_bytes
        self._writes: deque[list[Decision]] = deque()
        self._room = 0  # bytes left in the last of them; 0 where no decision may join it
        self._waiting: dict[str, _Waiting] = {}  # by group id

    def __bool__(self) -> bool:
        """Whether decisions wait for `write`."""
        return bool(self._writes)

    def has(self, group_id: str) -> bool:
        """Whether decisions of that group wait."""
        return group_id in self._waiting

    def tokens(self) -> set[Token]:
        """The requests whose responses wait."""
        return {reply.token for write in self._writes for decision in write for reply in decision.outcome.replies}

    def execute(self, command: Command, ctx: Context) -> bool:
        """Decides a command, and carries the decision out up to its first records; returns whether decisions wait for
        `write`. The state that it is decided on has all of the group's earlier decisions, except commits and lone steps of
        other consumers, which make no difference to it."""
        decision = self._decided_beside(command, ctx) if command.group_id in self._waiting else None
        if decision is None:
            decision = self._shard.decide(command, ctx)
        outcome = decision.outcome
        if not outcome.events and len(outcome.replies) == 1:
            # A heartbeat or a refusal: the group has not changed, so there is nothing to settle.
            self._committed(decision, self._shard.commit(decision))
        else:
            self._carry_out(decision, isinstance(command, OffsetCommitRequest))
        return bool(self._writes)

    def _decided_beside(self, command: Command, ctx: Context) -> Decision | None:
        """The decision on the state without what waits of the group; None where that may differ: then what waits is written."""
        waiting = self._waiting[command.group_id]
        if waiting.only_commits and isinstance(command, _BESIDE_COMMITS):
            return self._shard.decide(command, ctx)
        if (
            waiting.stepping is not None
            and isinstance(command, ConsumerGroupHeartbeatRequest)
            and command.member_epoch > JOIN_GROUP_EPOCH
            and command.member_id not in waiting.stepping
        ):
            decision = self._shard.decide(command, ctx)
            if not decision.outcome.events or single_member_step(decision.group, decision.outcome.events) is not None:
                return decision
        self.write()
        return None

    def carry_out(self, decision: Decision) -> None:
        """Commits and settles, until records have to be written."""
        if decision.group.group_id in self._waiting:
            self.write()
        self._carry_out(decision)

    def _carry_out(self, decision: Decision | None, is_commit: bool = False) -> None:
        while decision is not None:
            if decision.records:
                self._add(decision, is_commit)
                return
            self._committed(decision, self._shard.commit(decision))
            decision = self._shard.settle(decision.group, decision.now_ms)

    def _add(self, decision: Decision, is_commit: bool) -> None:
        group_id, outcome = decision.group.group_id, decision.outcome
        alone = outcome.producer is not None or outcome.divisible
        size = _size_of(decision.records)
        if alone or size > self._room:
            self._writes.append([])
            self._room = min(self._batch_bytes(), BATCH_BYTES) - HEADER_BYTES
        self._writes[-1].append(decision)
        self._room = 0 if alone else max(self._room - size, 0)
        self._waiting[group_id] = self._with(self._waiting.get(group_id), decision, is_commit)

    def _with(self, waiting: _Waiting | None, decision: Decision, is_commit: bool) -> _Waiting:
        """What waits of the decision's group once it does."""
        if is_commit:
            exists = self._shard.group(decision.group.group_id) is not None
            return _Waiting(exists and (waiting is None or waiting.only_commits), None)
        member_id = single_member_step(decision.group, decision.outcome.events)
        if member_id is None or (waiting is not None and waiting.stepping is None):
            return _Waiting(False, None)
        if waiting is None or waiting.stepping is None:
            return _Waiting(False, {member_id})
        waiting.stepping.add(member_id)
        return waiting

    def write(self) -> None:
        """Appends what waits, and what follows from it."""
        while self._writes:
            decisions = self._writes.popleft()
            if not self._writes:
                self._room = 0
                self._waiting.clear()
            try:
                self._append(decisions)
            except Refusal as refusal:
                self._refuse(decisions, refusal.code)
            else:
                self._commit(decisions)

    def _commit(self, decisions: list[Decision]) -> None:
        shard = self._shard
        committed = [(decision, shard.commit(decision)) for decision in decisions]
        for decision, steps in committed:
            self._committed(decision, steps)
        for decision in decisions:
            self._carry_out(shard.settle(decision.group, decision.now_ms))

    def _refuse(self, decisions: list[Decision], code: ErrorCode) -> None:
        for decision in decisions:
            failed = self._shard.append_failed(decision, code)
            if failed.outcome.events or failed.outcome.replies:
                self._carry_out(failed)


def _size_of(records: list[StoredRecord]) -> int:
    return sum([len(r.key) + len(r.value or b"") + RECORD_OVERHEAD_BYTES for r in records])


def drive(shard: Shard, decision: Decision, append: Append, committed: Committed) -> None:
    """Carries one decision out, each write of it at once; until the group is at rest."""
    queue = WriteQueue(shard, append, committed, lambda: BATCH_BYTES)
    queue.carry_out(decision)
    queue.write()
