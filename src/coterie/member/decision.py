"""The decision that an input leads to. The functions named ``decide_...`` fill one in; they change nothing but it."""

from __future__ import annotations

from coterie.member.config import MemberConfig
from coterie.member.effects import Effect
from coterie.member.events import Event
from coterie.member.replay import replay
from coterie.member.state import MemberState


class MemberDecision:
    """Events in their order, ``state`` after them, and the effects that the driver carries out."""

    __slots__ = ("config", "effects", "events", "state")

    def __init__(self, config: MemberConfig, state: MemberState) -> None:
        self.config, self.state = config, state
        self.events: list[Event] = []
        self.effects: list[Effect] = []

    def record(self, event: Event) -> None:
        """``state`` moves on by the event."""
        self.events.append(event)
        self.state = replay(self.state, event)

    def request(self, effect: Effect) -> None:
        """Adds an effect for the driver."""
        self.effects.append(effect)
