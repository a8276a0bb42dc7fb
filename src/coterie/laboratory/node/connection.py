"""A client's connection in the laboratory: requests arrive in their order, and so do the responses, until it breaks."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

from coterie.laboratory.world import World
from coterie.wire.declaration import Message

REQUEST_TIMEOUT_MS = 8_000


class ConnectedBroker(Protocol):
    """A broker as its connections use it. ``handle`` carries a request out and calls its last argument with the response, or
    with None where it closes the connection; it need not call it."""

    @property
    def up(self) -> bool:
        """Whether requests arrive."""

    @property
    def incarnation(self) -> int:
        """Another one after each start."""

    def handle(
        self, request: Message, version: int, client_id: str, answered: Callable[[Message | None], None], /
    ) -> None: ...


class _Sent:
    """A request that is under way."""

    __slots__ = ("answered", "is_closed", "is_done", "response")

    def __init__(self, answered: Callable[[Message | None], None]) -> None:
        self.answered = answered
        self.response: Message | None = None
        self.is_done = self.is_closed = False


class LaboratoryConnection:
    """Opened with its first request; once it is broken it stays so. What was sent before may still arrive."""

    def __init__(self, world: World, broker: ConnectedBroker, client_id: str) -> None:
        self._world, self._broker, self._client_id = world, broker, client_id
        self._incarnation = broker.incarnation
        self._sent: deque[_Sent] = deque()
        self._arrives_ms = self._returns_ms = 0
        self._is_cut = False  # nothing more that is sent reaches the broker
        self._is_lost = False  # nothing more that was sent reaches it: something before did not
        self.broken = False

    def send(
        self,
        request: Message,
        version: int,
        answered: Callable[[Message | None], None],
        timeout_ms: int = REQUEST_TIMEOUT_MS,
    ) -> None:
        """``answered`` gets the response, or None where the connection breaks before; without a response (acks=0) it gets the
        request."""
        world = self._world
        assert not self.broken, "a request for a broken connection"
        sent = _Sent(answered)
        self._sent.append(sent)
        if world.chance(world.faults.break_probability):
            if world.chance(0.5):
                self._is_cut = True
            world.after(world.faults.notice_ms, self.close)
        self._arrives_ms = max(self._arrives_ms, world.now_ms + world.delay_ms())
        is_cut = self._is_cut
        world.at(self._arrives_ms, lambda: None if is_cut else self._arrive(request, version, sent))
        world.after(timeout_ms, lambda: None if sent.is_closed else self.close())

    def close(self) -> None:
        """Breaks the connection: every request without a response ends with None."""
        if self.broken:
            return
        self.broken = True
        unanswered, self._sent = list(self._sent), deque()
        for sent in unanswered:
            sent.is_closed = True
            sent.answered(None)

    def _arrive(self, request: Message, version: int, sent: _Sent) -> None:
        broker = self._broker
        if self._is_lost or not broker.up or broker.incarnation != self._incarnation:
            self._is_lost = True
            self._world.after(self._world.faults.notice_ms, self.close)
            return
        broker.handle(request, version, self._client_id, lambda response: self._respond(sent, response))
        if not broker.up:
            self._world.after(self._world.faults.notice_ms, self.close)

    def _respond(self, sent: _Sent, response: Message | None) -> None:
        sent.response, sent.is_done = response, True
        if response is None:
            self._world.after(self._world.delay_ms(), self.close)
            return
        while self._sent and self._sent[0].is_done:
            self._return(self._sent.popleft())

    def _return(self, sent: _Sent) -> None:
        world = self._world
        self._returns_ms = max(self._returns_ms, world.now_ms + world.delay_ms())

        def returned() -> None:
            if not sent.is_closed:
                sent.is_closed = True
                sent.answered(None if self.broken else sent.response)

        world.at(self._returns_ms, returned)
