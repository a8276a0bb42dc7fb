"""A member machine with its driver in the test's hands."""

from __future__ import annotations

from coterie.assignors.blobs import encode_assignment
from coterie.member.config import MemberConfig
from coterie.member.effects import Assigned, Effect, FindCoordinator, Send
from coterie.member.machine import MemberMachine
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.groups.heartbeat import HeartbeatResponse
from coterie.wire.messages.groups.join_group import JoinGroupResponse
from coterie.wire.messages.groups.sync_group import SyncGroupResponse


class Driven:
    """A machine and the requests it has out."""

    def __init__(self, **config: object) -> None:
        self.machine = MemberMachine(MemberConfig("g", **config))  # type: ignore[arg-type]
        self.now_ms = 0

    def next(self) -> list[Effect]:
        collected: list[Effect] = []
        while effects := self.machine.next(self.now_ms):
            collected += effects
        return collected

    def sent(self) -> Message:
        (effect,) = self.next()
        assert isinstance(effect, Send)
        return effect.request

    def respond(self, request: Message, response: Message) -> None:
        self.machine.responded(request, response, self.now_ms)

    def to_join(self) -> Message:
        self.machine.subscribe(frozenset({"t"}), self.now_ms)
        assert self.next() == [FindCoordinator()]
        self.machine.coordinator_found()
        return self.sent()

    def joined(self, generation: int = 1, leader: str = "other") -> JoinGroupResponse:
        """We are let in as "me"."""
        protocol = self.machine.config.assignors[0]
        return JoinGroupResponse(generation_id=generation, protocol_name=protocol, leader=leader, member_id="me")

    def to_stable(self, partitions: list[int]) -> None:
        """Joins as a follower of generation 1 and owns these partitions of t."""
        self.respond(self.to_join(), self.joined())
        self.respond(self.sent(), SyncGroupResponse(assignment=encode_assignment({"t": partitions})))
        owned = tuple(("t", p) for p in partitions)
        assert self.next() == [Assigned(owned, 1, owned)]

    def synced(self, request: Message, partitions: list[int]) -> list[Effect]:
        """The sync is answered with these partitions of t; what follows."""
        self.respond(request, SyncGroupResponse(assignment=encode_assignment({"t": partitions} if partitions else {})))
        return self.next()

    def beat(self, code: ErrorCode) -> None:
        """The next heartbeat is due, sent, and told that."""
        self.now_ms += self.machine.config.heartbeat_interval_ms
        self.respond(self.sent(), HeartbeatResponse(error_code=code))
