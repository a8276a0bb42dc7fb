"""The duration of a rebalance with many members: raw sockets and a selector, so that the driver costs little and the same
for every broker.

A settled group of N; one more joins, and as soon as heartbeats return REBALANCE_IN_PROGRESS every member joins again, as
if each one's heartbeat had come just then. Measured from the newcomer's request until the last has its assignment.
"""

from __future__ import annotations

import struct
import time

from coterie.client.connection.blocking_socket import BrokerSocket
from coterie.wire.errors import ErrorCode
from coterie.wire.framing import decode_response
from coterie.wire.messages.groups.find_coordinator import FindCoordinatorRequest
from coterie.wire.messages.groups.heartbeat import HeartbeatRequest
from coterie.wire.messages.groups.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from coterie.wire.messages.groups.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from coterie_conformance.bench.loads.connections import RawConnections

JOIN, SYNC, HEARTBEAT = 3, 3, 3
SESSION_MS = 120_000
SHARE = b"x" * 50
_HEAD = struct.Struct(">iihi")  # correlation, throttle, error, generation


class RawMembers:
    """The members of one group, each with a connection of its own."""

    def __init__(self, address: tuple[str, int], group: str) -> None:
        self.group = group
        self.connections = RawConnections(address)
        self.ids: list[str] = []
        self.generation = -1

    def add_members(self, count: int) -> None:
        self.connections.open(count)
        self.ids += [""] * count

    def close(self) -> None:
        self.connections.close()

    def join(self, number: int) -> None:
        """Sends a member's JoinGroup."""
        protocols = [JoinGroupRequestProtocol("range", b"")]
        request = JoinGroupRequest(
            self.group,
            SESSION_MS,
            rebalance_timeout_ms=SESSION_MS,
            member_id=self.ids[number],
            group_instance_id=None,
            protocol_type="consumer",
            protocols=protocols,
        )
        self.connections.send(number, request, JOIN)

    def round(self, numbers: list[int]) -> None:
        """From joins that are on their way until each of these has its assignment."""
        joined: set[int] = set()

        def responded(number: int, frame: bytes) -> bool:
            if number in joined:
                return True
            joined.add(number)
            self._joined(number, frame)
            return False

        self.connections.gather(set(numbers), responded)

    def _joined(self, number: int, frame: bytes) -> None:
        _, _, code, generation = _HEAD.unpack_from(frame)
        assert code == ErrorCode.NONE, f"JoinGroup was answered with {code}"
        at = _HEAD.size
        texts = []
        for _ in range(3):
            (length,) = struct.unpack_from(">h", frame, at)
            texts.append(frame[at + 2 : at + 2 + length].decode())
            at += 2 + length
        _, leader, self.ids[number] = texts
        self.generation, shares = generation, []
        if leader == self.ids[number]:
            response = decode_response(JoinGroupResponse, frame, JOIN)
            shares = [SyncGroupRequestAssignment(m.member_id, SHARE) for m in response.members]
        self.connections.send(
            number, SyncGroupRequest(self.group, generation, self.ids[number], assignments=shares), SYNC
        )

    def wait_for_rebalance(self, number: int) -> None:
        """Until a heartbeat of that member returns REBALANCE_IN_PROGRESS."""
        rebalancing = False

        def responded(_: int, frame: bytes) -> bool:
            nonlocal rebalancing
            rebalancing = struct.unpack_from(">h", frame, 8)[0] == ErrorCode.REBALANCE_IN_PROGRESS
            return True

        while not rebalancing:
            self.connections.send(number, HeartbeatRequest(self.group, self.generation, self.ids[number]), HEARTBEAT)
            self.connections.gather({number}, responded)


def settled_crew(address: tuple[str, int], members: int) -> RawMembers:
    """A group of that many, all in one generation."""
    BrokerSocket(*address).request(FindCoordinatorRequest(key="g"), highest=3)
    crew = RawMembers(address, f"rebalance-{members}")
    crew.add_members(members)
    for number in range(members):
        crew.join(number)
    # The initial delay lets all of them in at once; a later member only makes a second round.
    crew.round(list(range(members)))
    return crew


def one_more_ms(crew: RawMembers) -> float:
    """Milliseconds of the rebalance in which one more member joins a settled group."""
    old = list(range(len(crew.ids)))
    crew.add_members(1)
    started = time.perf_counter()
    crew.join(len(old))
    crew.wait_for_rebalance(0)
    for number in old:
        crew.join(number)
    crew.round([*old, len(old)])
    return (time.perf_counter() - started) * 1000


def rebalance_ms(address: tuple[str, int], members: int) -> float:
    """Milliseconds; the better of two rounds."""
    crew = settled_crew(address, members)
    try:
        return min(one_more_ms(crew) for _ in range(2))
    finally:
        crew.close()
