"""A member of a group of the consumer protocol (KIP-848), or of a share group (KIP-932): what it must do next, given what
happened. No clock, no socket.

A driver feeds it inputs (`coordinator_found`, `responded`, `polled`, ...) and calls `next` for effects until there are none; it
carries each effect out and reports back, as with `coterie.member.machine`, whose inputs these are where they have the
same meaning. Every input leads to a decision: events, which `replay` alone turns into the next state, and effects.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Concatenate, ParamSpec

from coterie.member import events as shared
from coterie.member.config import ConsumerMemberConfig, GroupMembershipOperation
from coterie.member.consumer import events as e
from coterie.member.consumer.decision import ConsumerEffect, ConsumerMemberDecision
from coterie.member.consumer.heartbeat import (
    HeartbeatRequest,
    decide_state_response,
    fail_membership,
    fence,
    heartbeat_due_ms,
    settle_state_heartbeat,
    state_request,
)
from coterie.member.consumer.reconcile import (
    decide_listener_returned,
    decide_topics_looked_up,
    settle_reconciliation,
    settle_topic_names,
    topic_lookup_due_ms,
)
from coterie.member.consumer.state import HEARTBEATS, IN_GROUP, TAKES_TARGETS, ConsumerMembershipState, ConsumerStage
from coterie.member.consumer.subscription import (
    decide_leave_prepared,
    decide_left,
    decide_subscribed,
    poll_due_ms,
    settle_poll_interval,
)
from coterie.member.effects import FindCoordinator, TopicPartition
from coterie.member.events import CoordinatorLookupStarted
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.groups.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from coterie.wire.messages.share.share_group_heartbeat import ShareGroupHeartbeatResponse

P = ParamSpec("P")
_DecideInput = Callable[Concatenate[ConsumerMemberDecision, P], None]
_MemberObserver = Callable[[e.ConsumerMemberEvent], None]
NO_EPOCH = -1


class ConsumerMemberMachine:
    """One member and its inputs. Every input returns nothing; `next` returns what follows from it. ``observe`` is called
    with every event, in order."""

    def __init__(self, config: ConsumerMemberConfig, observe: _MemberObserver | None = None) -> None:
        self.config = config
        self.state = ConsumerMembershipState()
        self._observe = observe
        self._effects: list[ConsumerEffect] = []

    def _decide(self, decide: _DecideInput[P], *args: P.args, **kwargs: P.kwargs) -> None:
        decision = ConsumerMemberDecision(self.config, self.state)
        decide(decision, *args, **kwargs)
        self.state = decision.state
        self._effects += decision.effects
        if self._observe is not None:
            for event in decision.events:
                self._observe(event)

    # -- what drivers read ------------------------------------------------------------------------------------------------

    @property
    def stage(self) -> ConsumerStage:
        return self.state.stage

    @property
    def topics(self) -> frozenset[str]:
        """Those subscribed to by name; with a regular expression none."""
        return self.state.epochs.topics

    @property
    def member_id(self) -> str:
        return self.config.member_id

    @property
    def generation(self) -> int:
        """The member epoch; -1 outside the group."""
        epoch = self.state.epochs.epoch
        return epoch if epoch > 0 else NO_EPOCH

    @property
    def member_epoch(self) -> int:
        """`generation` by the name that OffsetFetch has for it."""
        return self.generation

    @property
    def committing_as(self) -> tuple[str, int]:
        """As `MemberMachine.committing_as`."""
        epochs = self.state.epochs
        return self.member_id, epochs.epoch if epochs.epoch > 0 else epochs.former or NO_EPOCH

    @property
    def owned(self) -> tuple[TopicPartition, ...]:
        return self.state.named(self.state.assignment.owned)

    @property
    def lost(self) -> bool:
        """Whether the owned partitions may have new owners."""
        return self.state.assignment.lost

    @property
    def coordinator_known(self) -> bool:
        return self.state.coordinator.known

    @property
    def poll_deadline_ms(self) -> int:
        """When the member counts as stuck unless it is polled (max.poll.interval.ms)."""
        return poll_due_ms(self.state, self.config.max_poll_interval_ms)

    @property
    def is_in_group(self) -> bool:
        """Whether commits may be made in its epoch."""
        in_stage = self.stage in IN_GROUP or self.stage == ConsumerStage.PREPARE_LEAVING
        return self.generation != NO_EPOCH and in_stage

    @property
    def joins(self) -> int:
        """How often the member has begun to join: what it owned before the last time is not its own any more."""
        return self.state.epochs.joins

    def owes_heartbeats(self) -> bool:
        """Whether the coordinator expects heartbeats of the present epoch."""
        return self.generation != NO_EPOCH and self.stage in HEARTBEATS

    def full_heartbeat(self) -> HeartbeatRequest:
        """A heartbeat that leaves nothing out; one that is sent beside this machine must be such a one, and reported by
        `heartbeat_sent_elsewhere`, since its response may carry a target."""
        return state_request(self.config, self.state, full=True)

    # -- inputs from the user ---------------------------------------------------------------------------------------------

    def subscribe(self, topics: frozenset[str], now_ms: int, regex: str | None = None) -> None:
        """Joins, or changes the subscription. ``regex``: of RE2, for the broker to match with whole names of topics."""
        self._decide(decide_subscribed, topics, regex, now_ms)

    def polled(self, now_ms: int) -> None:
        """The user requested records: a sign of life."""
        self._decide(ConsumerMemberDecision.record, shared.Polled(now_ms))

    def prepare_leave(self) -> None:
        """The user is about to leave; the listener's callback comes first. Ends with `leave`."""
        self._decide(decide_leave_prepared)

    def leave(self, reason: str, operation: GroupMembershipOperation = GroupMembershipOperation.DEFAULT) -> None:
        """The membership ends at once; by default a static member leaves for a while. The driver revokes the owned partitions
        before. The protocol has no field for the reason."""
        self._decide(decide_left, operation)

    # -- inputs from the driver -------------------------------------------------------------------------------------------

    def coordinator_found(self) -> None:
        self._decide(ConsumerMemberDecision.record, shared.CoordinatorFound())

    def lookup_failed(self, now_ms: int) -> None:
        """The lookup follows again after a pause."""

        def decide(decision: ConsumerMemberDecision) -> None:
            decision.record(shared.CoordinatorLookupFailed())
            decision.back_off(now_ms)

        self._decide(decide)

    def topics_looked_up(self, names: Mapping[bytes, str], now_ms: int) -> None:
        """The response to `LookUpTopics`: the names that the brokers know; empty where it failed."""
        self._decide(decide_topics_looked_up, names, now_ms)

    def revoked(self) -> None:
        """The listener returned from the first `Revoke` that has not been reported yet."""
        self._decide(decide_listener_returned, failed=False)

    def assigned(self) -> None:
        """The listener returned from the first `Assigned` that has not been reported yet."""
        self._decide(decide_listener_returned, failed=False)

    def callback_failed(self) -> None:
        """As `revoked` or `assigned`, where the listener raised: the next poll reconciles again."""
        self._decide(decide_listener_returned, failed=True)

    def lost_connection(self, request: Message, now_ms: int) -> None:
        """No response will come: the coordinator is looked up again, and the next heartbeat carries everything."""
        if request is not self.state.heartbeat.request:
            return

        def decide(decision: ConsumerMemberDecision) -> None:
            decision.record(e.StateUnknown())
            decision.lose_coordinator(now_ms)

        self._decide(decide)

    def responded(self, request: Message, response: Message, now_ms: int) -> None:
        """The response to a heartbeat. One of before the member was fenced, or left, is ignored."""
        if request is self.state.heartbeat.request:
            assert isinstance(response, ConsumerGroupHeartbeatResponse | ShareGroupHeartbeatResponse)
            self._decide(decide_state_response, response, now_ms)

    def heartbeat_sent_elsewhere(self) -> None:
        """A `full_heartbeat` went out beside this machine: the next one of its own is full as well."""
        self._decide(ConsumerMemberDecision.record, e.SentFieldsForgotten())

    def membership_refused(self, code: ErrorCode) -> None:
        """A commit of the present epoch failed with UNKNOWN_MEMBER_ID (consuming/commits/verdicts.py)."""
        if self.stage in TAKES_TARGETS | {ConsumerStage.PREPARE_LEAVING}:
            self._decide(fence)

    def failed(self, code: ErrorCode, message: str | None = None) -> None:
        """The broker cannot serve this protocol: ends the membership."""
        if self.stage in HEARTBEATS:
            self._decide(fail_membership, code, message)

    # -- what follows -----------------------------------------------------------------------------------------------------

    def next(self, now_ms: int) -> list[ConsumerEffect]:
        """The effects that are due; each is returned once."""
        self._decide(_settle_member, now_ms)
        effects, self._effects = self._effects, []
        return effects

    def next_deadline_ms(self) -> int | None:
        """When to call `next` although no input came; None: only after an input."""
        return _member_deadline_ms(self.state, self.config)


def _settle_member(decision: ConsumerMemberDecision, now_ms: int) -> None:
    """Everything that is due; a second time at once there is nothing."""
    settle_poll_interval(decision, now_ms)
    _settle_coordinator(decision, now_ms)
    settle_topic_names(decision, now_ms)
    settle_reconciliation(decision)
    settle_state_heartbeat(decision, now_ms)
    # An acknowledgement may lead to the target that arrived meanwhile.
    settle_topic_names(decision, now_ms)
    settle_reconciliation(decision)


def _settle_coordinator(decision: ConsumerMemberDecision, now_ms: int) -> None:
    coordinator = decision.state.coordinator
    wanted = not coordinator.known and not coordinator.lookup_in_flight and now_ms >= coordinator.retry_at_ms
    if wanted and decision.state.stage in HEARTBEATS:
        decision.record(CoordinatorLookupStarted())
        decision.request(FindCoordinator())


def _member_deadline_ms(state: ConsumerMembershipState, config: ConsumerMemberConfig) -> int | None:
    """When to settle although no input came; None: only after an input."""
    times: list[int | None] = [heartbeat_due_ms(state), topic_lookup_due_ms(state)]
    if state.stage in TAKES_TARGETS:
        times.append(poll_due_ms(state, config.max_poll_interval_ms) + 1)
    if state.stage in HEARTBEATS and not state.coordinator.known and not state.coordinator.lookup_in_flight:
        times.append(state.coordinator.retry_at_ms)
    return min((time for time in times if time is not None), default=None)
