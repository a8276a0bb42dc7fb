"""A member of a group: what it must do next, given what happened. No clock, no socket, no callbacks.

A driver feeds it inputs (`coordinator_found`, `responded`, `polled`, ...) and calls `next` for effects until there are
none; it carries each effect out and reports back. The same machine runs in the asyncio consumer and in the laboratory.

As in the coordinator, an input leads to a decision (`decision`): events, which `replay` alone turns into the next state,
and effects. `settle` says what the state itself calls for. The stages and their transitions are a table (`state`).

Eager: everything is revoked before a rebalance. Cooperative (KIP-429): only what is no longer subscribed to is revoked
before it; what goes to others is revoked after it, the rest stays, and a second rebalance assigns what was revoked.
Which of the two is in force follows from the assignors alone (`MemberConfig.protocol`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Concatenate, ParamSpec

from coterie.assignors import AssignableTopics, Assignment
from coterie.member import events as e
from coterie.member import rounds, settle, subscription
from coterie.member.config import GroupMembershipOperation, MemberConfig
from coterie.member.decision import MemberDecision
from coterie.member.effects import Effect, TopicPartition
from coterie.member.remedies import back_off, lose_coordinator
from coterie.member.settle import decide_heartbeat_response
from coterie.member.state import MemberState, Stage
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.groups.heartbeat import HeartbeatRequest, HeartbeatResponse
from coterie.wire.messages.groups.join_group import JoinGroupResponse
from coterie.wire.messages.groups.sync_group import SyncGroupResponse

P = ParamSpec("P")
Decide = Callable[Concatenate[MemberDecision, P], None]
Observer = Callable[[e.Event], None]


class MemberMachine:
    """One member and its inputs. Every input returns nothing; `next` returns what follows from it. ``observe`` is called
    with every event, in order."""

    def __init__(self, config: MemberConfig, observe: Observer | None = None) -> None:
        self.config = config
        self.rebalance_protocol = config.protocol
        self.state = MemberState()
        self._observe = observe
        self._effects: list[Effect] = []

    def _decide(self, decide: Decide[P], *args: P.args, **kwargs: P.kwargs) -> None:
        decision = MemberDecision(self.config, self.state)
        decide(decision, *args, **kwargs)
        self._keep(decision)

    def _keep(self, decision: MemberDecision) -> None:
        self.state = decision.state
        self._effects += decision.effects
        if self._observe is not None:
            for event in decision.events:
                self._observe(event)

    # -- what drivers read ------------------------------------------------------------------------------------------------

    @property
    def stage(self) -> Stage:
        return self.state.stage

    @property
    def topics(self) -> frozenset[str]:
        return self.state.membership.topics

    @property
    def member_id(self) -> str:
        return self.state.membership.member_id

    @property
    def generation(self) -> int:
        return self.state.membership.generation

    @property
    def committing_as(self) -> tuple[str, int]:
        """Member id and generation for offsets in a transaction. A member that has lost its own names them all the same, and is
        refused: without any it would pass for a simple consumer, whose offsets are not checked (KIP-447)."""
        return self.state.membership.identity

    @property
    def is_leader(self) -> bool:
        return self.state.is_leader

    @property
    def owned(self) -> tuple[TopicPartition, ...]:
        return self.state.ownership.owned

    @property
    def lost(self) -> bool:
        """Whether the owned partitions may have new owners."""
        return self.state.ownership.lost

    @property
    def coordinator_known(self) -> bool:
        return self.state.coordinator.known

    @property
    def poll_deadline_ms(self) -> int:
        """When the member counts as stuck unless it is polled (max.poll.interval.ms)."""
        return settle.poll_deadline_ms(self.state, self.config)

    def owes_heartbeats(self) -> bool:
        """Whether the coordinator expects heartbeats of the present generation."""
        return self.state.owes_heartbeats

    # -- inputs from the user ---------------------------------------------------------------------------------------------

    def subscribe(self, topics: frozenset[str], now_ms: int) -> None:
        """Joins, or joins again if the topics changed."""
        self._decide(subscription.decide_subscribe, topics, now_ms)

    def polled(self, now_ms: int) -> None:
        """The user requested records: a sign of life."""
        decision = MemberDecision(self.config, self.state)  # as `_decide`, written out since it comes with every poll
        subscription.decide_polled(decision, now_ms)
        self._keep(decision)

    def rejoin(self, reason: str) -> None:
        """Asks for a rebalance; a round that is under way runs to its end first, and one more follows."""
        self._decide(subscription.decide_rejoin, reason)

    def enforce_rebalance(self, reason: str) -> None:
        """Asks for a rebalance (KIP-568), unless one is under way."""
        self._decide(subscription.decide_enforced_rebalance, reason)

    def leave(self, reason: str, operation: GroupMembershipOperation = GroupMembershipOperation.DEFAULT) -> None:
        """The membership ends at once; by default a static member's LeaveGroup is left out (KIP-345). The driver revokes the
        owned partitions before."""
        self._decide(subscription.decide_leave, reason, operation)

    # -- inputs from the driver -------------------------------------------------------------------------------------------

    def coordinator_found(self) -> None:
        self._decide(MemberDecision.record, e.CoordinatorFound())

    def lookup_failed(self, now_ms: int) -> None:
        """The lookup follows again after a pause."""

        def decide(decision: MemberDecision) -> None:
            decision.record(e.CoordinatorLookupFailed())
            back_off(decision, now_ms)

        self._decide(decide)

    def revoked(self) -> None:
        """The listener returned from the first `Revoke` that has not been reported yet."""
        self._decide(rounds.decide_revoked)

    def group_assigned(self, assignments: Assignment, topics: AssignableTopics) -> None:
        """The response to `AssignGroup`: the assignment, and the topics that it was made from."""
        self._decide(rounds.decide_group_assigned, assignments, topics)

    def assignment_failed(self, reason: str, now_ms: int) -> None:
        """The response to `AssignGroup` where the topics are unknown."""
        self._decide(rounds.decide_assignment_failed, reason, now_ms)

    def topics_seen(self, topics: AssignableTopics) -> None:
        """The present topics of the whole group."""
        self._decide(rounds.decide_topics_seen, topics)

    def unassigned_seen(self, unassigned: bool) -> None:
        """The response to `LookForUnassigned`."""
        self._decide(rounds.decide_unassigned_seen, unassigned)

    def unassigned_unknown(self, now_ms: int) -> None:
        """The response to `LookForUnassigned` where it failed."""
        self._decide(rounds.decide_unassigned_unknown, now_ms)

    def lost_connection(self, request: Message, now_ms: int) -> None:
        """No response will come: the coordinator is looked up again, and a round under way starts over."""

        def decide(decision: MemberDecision) -> None:
            lose_coordinator(decision, now_ms)
            if isinstance(request, HeartbeatRequest):
                decision.record(e.HeartbeatEnded(successful=False))
            elif request is decision.state.round.request:
                decision.record(e.RoundRequestEnded())
                decision.record(e.RoundAbandoned())

        self._decide(decide)

    def responded(self, request: Message, response: Message, now_ms: int) -> None:
        """The response to a request. One to a join or sync that was abandoned is ignored."""

        def decide(decision: MemberDecision) -> None:
            if isinstance(response, HeartbeatResponse) and isinstance(request, HeartbeatRequest):
                decide_heartbeat_response(decision, request, response, now_ms)
            elif request is decision.state.round.request:
                decision.record(e.RoundRequestEnded())
                if isinstance(response, JoinGroupResponse):
                    rounds.decide_joined(decision, request, response, now_ms)
                elif isinstance(response, SyncGroupResponse):
                    rounds.decide_synced(decision, request, response, now_ms)

        self._decide(decide)

    def membership_refused(self, code: ErrorCode) -> None:
        """A commit of the present generation failed with ``code`` (consuming/commits/verdicts.py)."""
        self._decide(subscription.decide_membership_refused, code)

    # -- what follows -----------------------------------------------------------------------------------------------------

    def next(self, now_ms: int) -> list[Effect]:
        """The effects that are due; each is returned once."""
        decision = MemberDecision(self.config, self.state)  # as `_decide`, written out since it comes with every input
        settle.settle(decision, now_ms)
        self._keep(decision)
        effects, self._effects = self._effects, []
        return effects

    def next_deadline_ms(self) -> int | None:
        """When to call `next` although nothing was heard; None: only after an input."""
        return settle.next_deadline_ms(self.state, self.config)
