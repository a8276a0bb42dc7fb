"""The requests of a controller of the laboratory's cluster to each broker."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from coterie.controller.commands import Command, ReplicasStopped, RolesAssumed
from coterie.controller.requests import LeaderAndIsr, Request, StopReplica
from coterie.replication.states import TopicPartition
from coterie.wire.errors import ErrorCode

RETRY_MS = 100
Send = Callable[[Request, Callable[[Any], None], Callable[[], None]], None]


class RequestChannels:
    """Requests to a broker go one after another, each until it is answered, or is not wanted any more: the broker is gone.
    ``send`` calls one of its two last arguments."""

    def __init__(
        self, send: Send, is_wanted: Callable[[Request], bool], later: Callable[[int, Callable[[], None]], None]
    ) -> None:
        self._send, self._is_wanted, self._later = send, is_wanted, later
        self._channels: dict[int, deque[Request]] = {}

    def clear(self) -> None:
        """A new controller has requested nothing yet."""
        self._channels = {}

    def add(self, request: Request) -> None:
        """Puts a request behind those before it."""
        channel = self._channels.setdefault(request.broker, deque())
        channel.append(request)
        if len(channel) == 1:
            self._send_first(request.broker, channel)

    def _send_first(self, broker: int, channel: deque[Request]) -> None:
        while channel and not self._is_wanted(channel[0]):
            channel.popleft()
        if not channel or self._channels.get(broker) is not channel:
            return
        request = channel[0]

        def answered(_: Any) -> None:
            if channel and channel[0] is request:
                channel.popleft()
            self._send_first(broker, channel)

        self._send(request, answered, lambda: self._later(RETRY_MS, lambda: self._send_first(broker, channel)))


def command_of(request: Request, errors: Mapping[TopicPartition, ErrorCode]) -> Command | None:
    """A broker's response as the controller gets it; None where it makes no difference."""
    match request:
        case StopReplica():
            return ReplicasStopped(request, errors)
        case LeaderAndIsr():
            return RolesAssumed(request, errors)
    return None
