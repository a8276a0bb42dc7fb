"""A broker in virtual time whose share coordinator refuses what a test wants, or has it wait; requests go to its handlers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coterie.broker.handlers import HANDLERS
from coterie.broker.requests.calls import Call
from coterie.broker.requests.connection import ClientConnection
from coterie.broker.requests.pending import Pending
from coterie.broker.share_state.state_requests import refused_row, response_to, rows_of
from coterie.laboratory.world import World
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.share.initialize_share_group_state import (
    InitializedPartition,
    InitializedTopic,
    InitializeShareGroupStateRequest,
)
from coterie.wire.messages.share.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.frames_broker import FramesBroker

Answered = Callable[[Any], None]


class FramedShare(FramesBroker):
    """Topics t, of two partitions, and u exist. ``refused``: by request, the partitions that its share coordinator refuses, and
    with which error; ``held``: requests of these types wait until `release`."""

    def __init__(self, **given: str) -> None:
        super().__init__(World(1), None, group_share_assignment_interval_ms="0", **given)
        self.refused: dict[type[Message], dict[int, ErrorCode]] = {}
        self.held: set[type[Message]] = set()
        self.requests: list[Any] = []
        self._waiting: list[tuple[Any, Answered]] = []
        self.share.persister = self
        self.share_persister.send = self.send  # type: ignore[method-assign]
        self.groups.persist = self.send

    def topic(self, name: str = "t") -> bytes:
        return self.topics.by_name[name].topic_id

    def send(self, request: Any, responded: Answered) -> None:
        """As a persister."""
        self.requests.append(request)
        if type(request) in self.held:
            self._waiting.append((request, responded))
            return
        codes = self.refused.get(type(request), {})
        if not codes:
            self.share_coordinator.submit(request, responded)
            return
        kind = {key: codes.get(key.partition, ErrorCode.NONE) for key, _ in rows_of(request)}
        rows = {key: refused_row(request, key, Refusal(code)) for key, code in kind.items()}
        responded(response_to(request, rows))

    def release(self) -> None:
        """What was held goes on."""
        waiting, self._waiting, self.held = self._waiting, [], set()
        for request, responded in waiting:
            self.send(request, responded)

    def begin(self, request: Message, version: int = 0, connection: ClientConnection | None = None) -> Any:
        """The response, or what waits for it."""
        connection = connection or ClientConnection("/127.0.0.1", local_address=("127.0.0.1", 9092))
        return HANDLERS[request.api_key](self, request, Call(version, "client", connection))  # type: ignore[arg-type]

    def ask(self, request: Message, version: int = 0) -> Any:
        """The response, within 10 s."""
        result = self.begin(request, version)
        if isinstance(result, Pending):
            if result.response is None:
                self.advance(10_000)
            assert result.response is not None, f"no response to {request}"
            return result.response
        return result

    def advance(self, ms: int = 100) -> None:
        self.world.run_until(self.world.now_ms + ms)

    def heartbeat(self, member: str, epoch: int, topics: list[str] | None = None) -> Any:
        """Of a member of the group g."""
        return self.ask(ShareGroupHeartbeatRequest("g", member, epoch, None, topics), 1)

    def initialize(self, start_offset: int = 0, topic: str = "t", group: str = "g") -> None:
        """As the group coordinator does it."""
        count = len(self.topics.by_name[topic].partitions)
        rows = [InitializedPartition(n, 1, start_offset) for n in range(count)]
        self.ask(InitializeShareGroupStateRequest(group, [InitializedTopic(self.topic(topic), rows)]))
