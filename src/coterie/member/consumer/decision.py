"""The decision that an input leads to, and what it may request of the driver beside the effects of a classic member. The
functions named ``decide_...`` fill one in; they change nothing but it."""

from __future__ import annotations

from dataclasses import dataclass

from coterie.machines.backoff import Backoff
from coterie.member.config import ConsumerMemberConfig
from coterie.member.consumer.events import ConsumerMemberEvent
from coterie.member.consumer.replay import replay_member
from coterie.member.consumer.state import ConsumerMembershipState
from coterie.member.effects import Assigned, Failed, FindCoordinator, Revoke, Send
from coterie.member.events import CoordinatorLost, RetryScheduled
from coterie.wire.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class LookUpTopics:
    """Request the metadata of these topic ids, then call `topics_looked_up`."""

    topic_ids: frozenset[bytes]


@dataclass(frozen=True, slots=True)
class Complain:
    """The caller must hear of this once; the member goes on."""

    code: ErrorCode
    message: str


ConsumerEffect = FindCoordinator | Send | Revoke | Assigned | Failed | LookUpTopics | Complain


class ConsumerMemberDecision:
    """Events in their order, ``state`` after them, and the effects that the driver carries out."""

    __slots__ = ("config", "effects", "events", "state")

    def __init__(self, config: ConsumerMemberConfig, state: ConsumerMembershipState) -> None:
        self.config, self.state = config, state
        self.events: list[ConsumerMemberEvent] = []
        self.effects: list[ConsumerEffect] = []

    def record(self, event: ConsumerMemberEvent) -> None:
        """``state`` moves on by the event."""
        self.events.append(event)
        self.state = replay_member(self.state, event)

    def request(self, effect: ConsumerEffect) -> None:
        """Adds an effect for the driver."""
        self.effects.append(effect)

    def backoff(self) -> Backoff:
        """Without jitter, so that a trace of events depends on its inputs alone."""
        return Backoff(self.config.retry_backoff_ms, self.config.retry_backoff_max_ms)

    def back_off(self, now_ms: int) -> None:
        """The next request waits; each failure in a row doubles the pause (KIP-580)."""
        self.record(RetryScheduled(now_ms + self.backoff().pause_ms(self.state.coordinator.failures)))

    def lose_coordinator(self, now_ms: int) -> None:
        """It is looked up again after a pause."""
        self.record(CoordinatorLost())
        self.back_off(now_ms)
