"""The faults of a story's broker, and what passes them: commits, read positions, members that are heard."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from coterie.broker.handlers.services import Handler, Services
from coterie.broker.requests.calls import Call
from coterie.broker.requests.pending import Pending
from coterie.certify.client.history import ClientEvent, ClientEventKind
from coterie.testing.faults import FaultRule, Faults
from coterie.testing.local_broker import CLIENT_ID, PEER_PREFIXES
from coterie.wire.apis import API_NAMES
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode

OWN_CLIENT = "coterie-certify"  # the client id of the stage's own clients, which no fault meets
_OWN_PREFIXES = (OWN_CLIENT, CLIENT_ID, *PEER_PREFIXES)
_COMMIT, _OFFSETS, _JOIN = "OffsetCommit", "OffsetFetch", "JoinGroup"
_EPOCH_HEARTBEAT = "ConsumerGroupHeartbeat"
_OF_CLASSIC_MEMBERS = (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION)
Note = Callable[[ClientEventKind, int, int], ClientEvent]


class ObservedFaults(Faults):
    """``note`` keeps an event of a partition and an offset; before a commit it reads what the processes have printed.
    ``heard``: the member id of each request -> the monotonic time of the last one. ``reserved``: ids that JoinGroup has given
    with MEMBER_ID_REQUIRED. ``ports``: those of the clients' connections that have sent a request, but for our own."""

    def __init__(self, topic: str, note: Note) -> None:
        super().__init__()
        self._topic, self._note = topic, note
        self.heard: dict[str, float] = {}
        self.reserved: set[str] = set()
        self.ports: set[int] = set()
        self._epoch_members: set[str] = set()  # those of KIP-848

    def taken(self, api: str, request: Any, client_id: str) -> FaultRule | None:
        """None of a request of our own, nor of one that no broker would refuse so."""
        rule = next((rule for rule in self.rules if rule.matches(api, request, client_id)), None)
        if client_id == OWN_CLIENT or (rule is not None and not self._may_be_refused(rule, request)):
            return None
        return super().taken(api, request, client_id)

    def _may_be_refused(self, rule: FaultRule, request: Any) -> bool:
        """Offsets are unstable for requests that require stable ones (KIP-447), and a member of KIP-848 has no generation."""
        if rule.code is ErrorCode.UNSTABLE_OFFSET_COMMIT:
            return bool(request.require_stable)
        if rule.api == _COMMIT and rule.code in _OF_CLASSIC_MEMBERS:
            return request.member_id not in self._epoch_members
        return True

    def wrap(self, handlers: dict[int, Handler]) -> dict[int, Handler]:
        """The rules come first: what they refuse has not happened."""
        return super().wrap({key: self._observed(API_NAMES[key], handler) for key, handler in handlers.items()})

    @staticmethod
    def _hold(rule: FaultRule, go_on: Callable[[], Message | Pending | None]) -> Pending:
        """What is delayed is carried out at once, and its response is late: a client may give a request up and send a newer
        one, which an old one that is carried out later would undo."""
        if not rule.delay_s:
            return Faults._hold(rule, go_on)
        result = go_on()
        return Faults._hold(rule, lambda: result)

    def _observed(self, api: str, handler: Handler) -> Handler:
        def handle(broker: Services, request: Any, call: Call) -> Message | Pending | None:
            if not call.client_id.startswith(_OWN_PREFIXES):
                self.ports.add(call.connection.port)
            member_id = getattr(request, "member_id", "")
            if member_id:
                self.heard[member_id] = time.monotonic()
            if api == _EPOCH_HEARTBEAT:
                self._epoch_members.add(member_id)
            if api == _OFFSETS:
                self._positions(request)
            if api == _JOIN:
                return _seen(handler(broker, request, call), self._joined)
            if api != _COMMIT:
                return handler(broker, request, call)
            events = self._commits(request)
            return _seen(handler(broker, request, call), lambda response: _accepted(response, events))

        return handle

    def _joined(self, response: Any) -> Message:
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.reserved.add(response.member_id)
        return response  # type: ignore[no-any-return]

    def _commits(self, request: Any) -> dict[int, ClientEvent]:
        return {
            partition.partition_index: self._note(
                ClientEventKind.COMMITTED, partition.partition_index, partition.committed_offset
            )
            for topic in request.topics
            if topic.name in ("", self._topic)  # since version 10 an id stands for it
            for partition in topic.partitions
        }

    def _positions(self, request: Any) -> None:
        """A request without topics is about all of them: partition -1 stands for each."""
        every = request.topics or [topic for group in request.groups or () for topic in group.topics or ()]
        partitions = [p for topic in every if topic.name in ("", self._topic) for p in topic.partition_indexes]
        for partition in partitions if every else [-1]:
            self._note(ClientEventKind.POSITIONED, partition, -1)


def refused_request(rule: FaultRule) -> str:
    """The request that the rule is for, in words."""
    if rule.code is ErrorCode.UNSTABLE_OFFSET_COMMIT:
        return f"{rule.api} for stable offsets"
    return f"{rule.api} as a classic member" if rule.api == _COMMIT and rule.code in _OF_CLASSIC_MEMBERS else rule.api


def _seen(result: Message | Pending | None, look: Callable[[Message], Message]) -> Message | Pending | None:
    if isinstance(result, Pending):
        return result.then(look)
    return None if result is None else look(result)


def _accepted(response: Message, events: dict[int, ClientEvent]) -> Message:
    for topic in getattr(response, "topics", ()):
        for partition in topic.partitions:
            event = events.get(partition.partition_index)
            if event is not None:
                event.accepted = partition.error_code == ErrorCode.NONE
    return response
