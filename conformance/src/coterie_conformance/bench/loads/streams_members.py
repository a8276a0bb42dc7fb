"""Members of streams groups (KIP-1071) over raw connections, each with a connection of its own: settled, then their heartbeats.

A member does what Kafka Streams does: it joins with its topology, names its tasks once after each new assignment, and in every
other heartbeat its epoch and the last epoch of endpoints alone.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from coterie.client.errors import check
from coterie.wire.framing import decode_response, encode_request
from coterie.wire.messages.streams.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TaskIds,
    Topology,
)
from coterie_conformance.bench.loads.connections import RawConnections
from coterie_conformance.bench.loads.load import closed_loop

VERSION = 1
TASKS_PER_MEMBER = 2
REBALANCE_TIMEOUT_MS = 300_000
ROUND_S = 1.1  # a target assignment is computed at most once a second
SETTLED_S = 120.0

Address = tuple[str, int]


@dataclass(slots=True)
class MemberWithTasks:
    """A member as its last response has it; ``acknowledges``: its next heartbeat names its tasks."""

    member_id: str
    epoch: int = 0
    endpoint_epoch: int = -1
    tasks: list[TaskIds] = field(default_factory=list)
    acknowledges: bool = False

    @property
    def task_count(self) -> int:
        return sum(len(task.partitions) for task in self.tasks)


class StreamsCrew:
    """The members of one group, whose subtopology reads a topic with TASKS_PER_MEMBER partitions for each."""

    def __init__(self, address: Address, group: str, topic: str, members: int) -> None:
        self.group = group
        self.connections = RawConnections(address)
        self.connections.open(members)
        self.members = [MemberWithTasks(f"{group}-{n:05}") for n in range(members)]
        topology = Topology(0, [Subtopology("0", [topic])])
        for number, member in enumerate(self.members):
            request = self._heartbeat(member, rebalance_timeout_ms=REBALANCE_TIMEOUT_MS, topology=topology)
            request.process_id, request.client_tags = member.member_id, []
            request.active_tasks, request.standby_tasks, request.warmup_tasks = [], [], []
            self.connections.send(number, request, VERSION)
        self.connections.gather(set(range(members)), self._responded)

    def settle(self) -> None:
        """Until all members have all tasks, in one epoch. Raises AssertionError after SETTLED_S."""
        end = time.monotonic() + SETTLED_S
        while not self._is_settled():
            assert time.monotonic() < end, f"{self.group} has not settled in {SETTLED_S} s"
            time.sleep(ROUND_S)
            for number, member in enumerate(self.members):
                request = self._heartbeat(member)
                if member.acknowledges:
                    request.active_tasks, request.standby_tasks, request.warmup_tasks = member.tasks, [], []
                    member.acknowledges = False
                self.connections.send(number, request, VERSION)
            self.connections.gather(set(range(len(self.members))), self._responded)

    def _is_settled(self) -> bool:
        acknowledged = not any(member.acknowledges for member in self.members)
        tasks = sum(member.task_count for member in self.members)
        epochs = {member.epoch for member in self.members}
        return acknowledged and tasks == TASKS_PER_MEMBER * len(self.members) and len(epochs) == 1

    def _heartbeat(self, member: MemberWithTasks, **parts: object) -> StreamsGroupHeartbeatRequest:
        request = StreamsGroupHeartbeatRequest(self.group, member.member_id, member.epoch, member.endpoint_epoch)
        for name, value in parts.items():
            setattr(request, name, value)
        return request

    def _responded(self, number: int, frame: bytes) -> bool:
        response = decode_response(StreamsGroupHeartbeatResponse, frame, VERSION)
        check(response.error_code, response.error_message)
        member = self.members[number]
        member.epoch, member.endpoint_epoch = response.member_epoch, response.endpoint_information_epoch
        if response.active_tasks is not None:
            member.tasks, member.acknowledges = response.active_tasks, True
        return True

    def heartbeat_rate(self, seconds: float) -> float:
        """Heartbeats/s of all members, over a connection each. Raises KafkaError where one is no longer in the group."""
        frames = [encode_request(1, "bench", self._heartbeat(member), VERSION) for member in self.members]
        rate = closed_loop(self.connections.address, frames, seconds)
        self.settle()
        return rate
