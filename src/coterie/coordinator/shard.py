"""One partition of `__consumer_offsets`: its groups, and the door through which they are reached.

The driver appends and responds, by way of a `WriteQueue`; the shard never does either.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple

from coterie.coordinator import events as e
from coterie.coordinator.classic.member_checks import refuse_unnamed
from coterie.coordinator.classic.settle import settle
from coterie.coordinator.commands import Command, DeadlineExpired, ExpireOffsets, RegexesResolved, TopicsDeleted
from coterie.coordinator.consumer import events as c
from coterie.coordinator.consumer.state import ConsumerGroup
from coterie.coordinator.deadlines import Deadlines
from coterie.coordinator.dispatch import decide
from coterie.coordinator.offsets.replay import replay_offset, store_offset
from coterie.coordinator.outcome import Context, CoordinatorConfig, Outcome, Reply
from coterie.coordinator.refusals import refuse
from coterie.coordinator.replay import (
    OFFSET_EVENTS,
    AnyGroup,
    K,
    ModernGroup,
    replay_event,
    replay_record,
    restart_session,
    restart_sessions,
)
from coterie.coordinator.share.decide import SHARE_COMMANDS
from coterie.coordinator.share.events import SHARE_TIMER_EVENTS
from coterie.coordinator.share.state import ShareGroup
from coterie.coordinator.state import Cause, Group
from coterie.coordinator.stored_records.stored import KeyReader, StoredRecord, committed_offset, from_record, to_records
from coterie.coordinator.streams.events import STREAMS_TIMER_EVENTS, InitialDelaySet
from coterie.coordinator.streams.state import StreamsGroup
from coterie.machines.values import value
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.groups.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from coterie.wire.messages.groups.join_group import JoinGroupRequest
from coterie.wire.messages.groups.sync_group import SyncGroupRequest
from coterie.wire.messages.streams.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from coterie.wire.messages.transactions.txn_offset_commit import TxnOffsetCommitRequest


@dataclass(slots=True)
class Decision:
    """Computed, not yet kept: the records to append first, and what to commit and respond after."""

    group: AnyGroup
    now_ms: int
    outcome: Outcome
    records: list[StoredRecord] = field(default_factory=list)
    refused: Callable[[ErrorCode], Message] | None = None
    token: Any = None


def _decision(group: AnyGroup, outcome: Outcome, now_ms: int) -> Decision:
    return Decision(group, now_ms, outcome, to_records(group.group_id, outcome.events))


@value
class Step:
    """One event as it happened: the phase before and after, and the generation, or group epoch, after."""

    group_id: str
    event: e.Event
    phase_before: StrEnum  # a Phase, or a ConsumerGroupState
    phase_after: StrEnum
    generation: int


class _OpenTransaction(NamedTuple):
    """A producer with offsets pending here: under which epoch, and in which groups."""

    epoch: int
    groups: set[str]


# The broker's own: no response is due, and a decision whose append fails is dropped.
_JOINED = (e.MemberJoined, e.StaticMemberReplaced)
# Events after which there is a new deadline: a member's, or the group's own.
_WATCHED = frozenset({*_JOINED, e.MemberIdReserved, e.RebalanceStarted, e.JoinPhaseExtended, e.GenerationFormed})
_TIMER_EVENTS = (*c.TIMER_EVENTS, *STREAMS_TIMER_EVENTS, *SHARE_TIMER_EVENTS)
_NEW_GROUPS: dict[type, type[AnyGroup]] = {
    ConsumerGroupHeartbeatRequest: ConsumerGroup,
    StreamsGroupHeartbeatRequest: StreamsGroup,
    **dict.fromkeys(SHARE_COMMANDS, ShareGroup),
}
_UPKEEP = (DeadlineExpired, ExpireOffsets, TopicsDeleted, RegexesResolved)


class Shard:
    """The groups of one offsets partition: a group id is in ``groups``, the classic ones, or in ``modern_groups``, the ones
    whose decisions depend on the broker's topics.
    ``own_configs`` are those of groups with settings of their own."""

    def __init__(
        self,
        config: CoordinatorConfig,
        own_configs: Mapping[str, CoordinatorConfig] = MappingProxyType({}),
    ) -> None:
        self.config = config
        self._own_configs = own_configs
        self.groups: dict[str, Group] = {}
        self.modern_groups: dict[str, ModernGroup] = {}
        self._deadlines = Deadlines(self.group)
        self.next_deadline_ms = self._deadlines.next_ms  # when to call `expired` next; may be early, never late
        self._keys = KeyReader()
        self._in_transaction: dict[int, _OpenTransaction] = {}  # by producer id

    # -- commands ------------------------------------------------------------------------------------------------

    def group(self, group_id: str) -> AnyGroup | None:
        """The group, of any kind."""
        return self.groups.get(group_id) or self.modern_groups.get(group_id)

    def of_kind(self, kind: type[K]) -> dict[str, K]:
        """The groups of one kind by id."""
        return {group.group_id: group for group in self.every_group() if isinstance(group, kind)}

    def every_group(self) -> list[AnyGroup]:
        """The groups of all kinds."""
        return [*self.groups.values(), *self.modern_groups.values()]

    def _keep(self, group: AnyGroup) -> None:
        """Takes the group in, in the place of one of another kind."""
        self._drop(group.group_id)
        if isinstance(group, Group):
            self.groups[group.group_id] = group
        else:
            self.modern_groups[group.group_id] = group

    def _drop(self, group_id: str) -> None:
        self.groups.pop(group_id, None)
        self.modern_groups.pop(group_id, None)

    def decide(self, command: Command, ctx: Context) -> Decision:
        """Decides; changes nothing. A refusal is a decision whose only content is the response."""
        group = self.group(command.group_id)
        exists = group is not None
        if group is None:
            group = _NEW_GROUPS.get(type(command), Group)(command.group_id)
        try:
            if isinstance(command, TxnOffsetCommitRequest):
                refuse_unnamed(group)
            config = self._own_configs.get(group.group_id, self.config)
            outcome = decide(group, exists, command, ctx, config)
        except Refusal as refusal:
            response = refuse(command, refusal.code, refusal.message, group)
            return Decision(group, ctx.now_ms, Outcome(replies=[Reply(ctx.token, response)]))
        if not outcome.events:
            return Decision(group, ctx.now_ms, outcome, [])
        decision = _decision(group, outcome, ctx.now_ms)
        refusable = ctx.token is not None and not isinstance(command, _UPKEEP)
        if decision.records and outcome.on_append_error is None and refusable:
            decision.refused, decision.token = (lambda code: refuse(command, code)), ctx.token
        return decision

    def _config_of(self, group_id: str) -> CoordinatorConfig:
        return self._own_configs.get(group_id, self.config)

    def append_failed(self, decision: Decision, code: ErrorCode) -> Decision:
        """The outcome in place of a decision whose records could not be appended, for the append's error ``code``. A group that
        was to be settled by it is settled again later."""
        if isinstance(decision.group, Group | StreamsGroup):
            self._deadlines.queue_group_again(decision.group, decision.now_ms)
        instead = decision.outcome.on_append_error
        if instead is not None:
            return _decision(decision.group, instead(code), decision.now_ms)
        if decision.refused is None:
            return Decision(decision.group, decision.now_ms, Outcome())
        return Decision(
            decision.group, decision.now_ms, Outcome(replies=[Reply(decision.token, decision.refused(code))])
        )

    def commit(self, decision: Decision) -> list[Step]:
        """Keeps a decision whose records are appended; returns what happened to the group, offsets left out."""
        group, outcome = decision.group, decision.outcome
        steps: list[Step] = []
        if outcome.events:
            if outcome.producer is not None:
                self._track_transaction(*outcome.producer, group.group_id, decision.now_ms)
            steps = self._apply(decision)
            group = decision.group
        for member_id, deadline_ms in outcome.deadlines:
            holder = restart_session(group, member_id, deadline_ms, is_heartbeat=outcome.is_heartbeat)
            if holder is not None:
                queued_ms = holder.queued_ms
                if deadline_ms < queued_ms or queued_ms < 0:  # a member's other timers are queued already
                    self._deadlines.queue(group.group_id, member_id, holder)
        if steps and not isinstance(group, Group):
            for step in steps:
                if isinstance(step.event, _TIMER_EVENTS):
                    timers = group.timers.get(step.event.member_id)
                    if timers is not None:
                        self._deadlines.queue_earlier(group.group_id, step.event.member_id, timers)
        return steps

    def _apply(self, decision: Decision) -> list[Step]:
        """Applies the events; the decision's group is afterwards the one in force under its id."""
        group, now_ms = decision.group, decision.now_ms
        steps: list[Step] = []
        group_id = group.group_id
        if self.group(group_id) is not group:
            self._keep(group)
        for event in decision.outcome.events:
            if isinstance(event, OFFSET_EVENTS):
                replay_offset(group, event)
                continue
            before, replayed = group.phase, replay_event(group, event, now_ms)
            if replayed is not group:
                group = replayed
                self._keep(group)
            if isinstance(event, InitialDelaySet) and isinstance(group, StreamsGroup):
                self._deadlines.queue_group(group, now_ms)
            if type(event) in _WATCHED and isinstance(group, Group):  # the others' sessions begin with the deadlines
                self._watch(group, event, now_ms)
            steps.append(Step(group_id, event, before, group.phase, group.generation))
        decision.group = group
        if not group.members:
            self._forget_if_gone(group)
        return steps

    def end_transaction(self, producer_id: int, committed: bool, now_ms: int) -> list[str]:
        """A transaction's marker was appended to this partition: what the producer left pending counts, or is dropped.
        Returns the groups that it settled; a marker for nothing pending changes nothing."""
        ended = self._in_transaction.pop(producer_id, None)
        settled = [] if ended is None else sorted(ended.groups)
        for group_id in settled:
            group = self.group(group_id)
            if group is not None:
                replay_offset(group, e.TransactionEnded(producer_id, committed))
                self._forget_if_gone(group)
                if group.has_no_state():
                    self._drop(group_id)  # all it ever had was aborted
        return settled

    def _track_transaction(self, producer_id: int, epoch: int, group_id: str, now_ms: int) -> None:
        """A newer epoch fences the older: what that left pending never counts."""
        known = self._in_transaction.get(producer_id)
        if known is not None and known.epoch < epoch:
            self.end_transaction(producer_id, False, now_ms)
        self._in_transaction.setdefault(producer_id, _OpenTransaction(epoch, set())).groups.add(group_id)

    def pending_producers(self) -> list[tuple[int, int]]:
        """Producer id and epoch of every transaction with offsets pending here."""
        return [(producer_id, known.epoch) for producer_id, known in self._in_transaction.items()]

    def settle(self, group: AnyGroup, now_ms: int) -> Decision | None:
        """The transition that a classic group's state triggers now; to be called until None. The others
        move by their heartbeats alone."""
        outcome = settle(group, now_ms, self._config_of(group.group_id)) if isinstance(group, Group) else None
        return None if outcome is None else _decision(group, outcome, now_ms)

    # -- deadlines -----------------------------------------------------------------------------------------------

    def _watch(self, group: Group, event: e.Event, now_ms: int) -> None:
        if isinstance(event, _JOINED):
            self._deadlines.queue(group.group_id, event.member.member_id, event.member)
        elif isinstance(event, e.MemberIdReserved):
            self._deadlines.queue(group.group_id, event.member_id, group.reservations[event.member_id])
        else:
            self._deadlines.queue_group(group, now_ms)

    def expired(self, now_ms: int) -> Generator[DeadlineExpired, None, None]:
        """Commands for the deadlines that have passed; each must be submitted before the next is requested. May be closed
        before its end: the others come with the next call."""
        return self._deadlines.expired(now_ms)

    # -- loading and leaving ---------------------------------------------------------------------------------------

    def load(
        self,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int = -1,
        producer_id: int = -1,
        producer_epoch: int = -1,
    ) -> None:
        """Replays one record of the log; the producer is that of a transactional batch. Raises WireError for an
        unreadable one."""
        offset_key = self._keys.offset_key(key) if key is not None and value is not None else None
        if offset_key is not None and value is not None and producer_id < 0:
            group_id, partition = offset_key  # by far the most frequent record
            store_offset(self.group(group_id) or self._new_group(group_id), partition, committed_offset(value))
            return
        read = from_record(key, value)
        if read is None:
            return
        group_id, event = read
        if producer_id >= 0 and isinstance(event, e.OffsetStored):
            event = e.TransactionalOffsetStored(event.topic, event.partition, event.committed, producer_id)
            self._track_transaction(producer_id, producer_epoch, group_id, timestamp_ms)
        group = self.group(group_id)
        loaded = replay_record(group_id, group, event, timestamp_ms)
        if loaded is None:
            self._drop(group_id)
        elif loaded is not group:
            self._keep(loaded)

    def _new_group(self, group_id: str) -> Group:
        group = self.groups[group_id] = Group(group_id)
        return group

    def loaded(self, now_ms: int) -> list[Decision]:
        """Starts the sessions of all members again; the decisions rebalance groups larger than group.max.size."""
        self._keys = KeyReader()  # the log has been read
        oversize = []
        for group in self.groups.values():
            for member in group.members.values():
                restart_session(group, member.member_id, now_ms + member.session_timeout_ms)
                self._deadlines.queue(group.group_id, member.member_id, member)
            if len(group.members) > self._config_of(group.group_id).group_max_size:
                outcome = Outcome([e.RebalanceWanted(Cause("group_max_size"))])
                oversize.append(Decision(group, now_ms, outcome))
        for modern in self.modern_groups.values():
            restart_sessions(modern, now_ms, self._config_of(modern.group_id))
            for member_id, timers in modern.timers.items():
                self._deadlines.queue(modern.group_id, member_id, timers)
        return oversize

    def unload(self) -> list[Reply]:
        """The partition moves away: waiting requests receive NOT_COORDINATOR, and the state is dropped."""
        replies = []
        for group in self.groups.values():
            for member_id, token in group.waiting_joins.items():
                replies.append(Reply(token, refuse(JoinGroupRequest(member_id=member_id), ErrorCode.NOT_COORDINATOR)))
            for token in group.waiting_syncs.values():
                replies.append(Reply(token, refuse(SyncGroupRequest(), ErrorCode.NOT_COORDINATOR)))
        self.groups.clear()
        self.modern_groups.clear()
        self._in_transaction.clear()
        self._deadlines.clear()
        return replies

    def _forget_if_gone(self, group: AnyGroup) -> None:
        if group.is_dead and not group.offsets and not group.pending_offsets and self.group(group.group_id) is group:
            self._drop(group.group_id)
