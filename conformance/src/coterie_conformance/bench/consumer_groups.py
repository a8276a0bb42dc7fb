"""Groups of the consumer protocol (KIP-848) under a driver of raw connections: heartbeats of settled members, and one more
member into a settled group.

The members do what Apache Kafka's client does: a response with an assignment is acknowledged at once by a heartbeat that
names the partitions, every other heartbeat names nothing. A join is measured from the newcomer's request until each member
has its part of the new target assignment, as if every member's heartbeat had come just then.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from coterie.client.connection.blocking_socket import BrokerSocket
from coterie.client.errors import check
from coterie.wire.framing import decode_response, encode_request
from coterie.wire.messages.groups.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from coterie.wire.messages.groups.find_coordinator import FindCoordinatorRequest
from coterie.wire.messages.topics.create_topics import CreatableTopic, CreateTopicsRequest
from coterie_conformance.bench.loads.connections import RawConnections
from coterie_conformance.bench.loads.load import closed_loop

VERSION = 1
PARTITIONS_PER_MEMBER = 2
PARTITIONS_PER_TOPIC = 500
INTERVAL_S = 1.1  # a target assignment is computed at most once a second (KIP-1263)
REBALANCE_TIMEOUT_MS = 300_000
SETTLED_S = 300.0
JOINS = 3  # the best of so many

Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class JoinCost:
    """One member more: milliseconds until all have their part, requests, and bytes in both directions."""

    duration_ms: float
    requests: int
    transferred_bytes: int


@dataclass(slots=True)
class CrewMember:
    """A member as its last response has it; ``acknowledges``: its next heartbeat names its partitions."""

    member_id: str
    epoch: int = 0
    assigned: list[TopicPartitions] = field(default_factory=list)
    acknowledges: bool = False

    @property
    def partitions(self) -> int:
        """How many are assigned to it."""
        return sum(len(topic.partitions) for topic in self.assigned)


class ConsumerCrew:
    """The members of one group, each with a connection of its own; ``topics`` has ``partitions`` in all."""

    def __init__(self, address: Address, group: str, topics: list[str], partitions: int) -> None:
        self.group, self.topics, self.partitions = group, topics, partitions
        self.connections = RawConnections(address)
        self.members: list[CrewMember] = []

    def close(self) -> None:
        self.connections.close()

    @property
    def group_epoch(self) -> int:
        """At least this: it rises by one with each member that joins, and Kafka's with topics that its coordinator learns of
        after the first member joined."""
        return max(1 + len(self.members), *(member.epoch for member in self.members))

    def join(self, count: int) -> set[int]:
        """So many more members send their first heartbeat; returns their numbers."""
        first = len(self.members)
        self.connections.open(count)
        self.members += [CrewMember(f"{self.group}-{n:05}") for n in range(first, first + count)]
        for number in range(first, first + count):
            request = ConsumerGroupHeartbeatRequest(
                self.group,
                self.members[number].member_id,
                0,
                rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
                subscribed_topic_names=self.topics,
                topic_partitions=[],
            )
            self.connections.send(number, request, VERSION)
        return set(range(first, first + count))

    def heartbeat(self, number: int) -> None:
        """Sends a member's heartbeat, which names its partitions once after each new assignment."""
        member = self.members[number]
        request = ConsumerGroupHeartbeatRequest(self.group, member.member_id, member.epoch)
        if member.acknowledges:
            request.topic_partitions, member.acknowledges = member.assigned, False
        self.connections.send(number, request, VERSION)

    def responded(self, number: int, frame: bytes) -> bool:
        """Takes a response in and acknowledges an assignment; whether the member has nothing more to send. Raises
        KafkaError."""
        response = decode_response(ConsumerGroupHeartbeatResponse, frame, VERSION)
        check(response.error_code, response.error_message)
        member = self.members[number]
        member.epoch = response.member_epoch
        if response.assignment is None:
            return True
        member.assigned, member.acknowledges = response.assignment.topic_partitions, True
        self.heartbeat(number)
        return False

    def round(self, numbers: set[int]) -> None:
        """One heartbeat of each, and what they acknowledge."""
        for number in numbers:
            self.heartbeat(number)
        self.connections.gather(set(numbers), self.responded)

    def waiting(self) -> set[int]:
        """The members that are behind the group epoch or have fewer partitions than each gets at least."""
        least, epoch = self.partitions // len(self.members), self.group_epoch
        return {n for n, m in enumerate(self.members) if m.epoch != epoch or m.partitions < least}

    def settle(self) -> None:
        """Until every member has its part of the target assignment of the group epoch. Raises AssertionError where they do
        not have all partitions then, or have not settled after SETTLED_S."""
        self.round(set(range(len(self.members))))
        end = time.monotonic() + SETTLED_S
        while behind := self.waiting():
            assert time.monotonic() < end, (
                f"{len(behind)} of {len(self.members)} members have not settled in {SETTLED_S} s"
            )
            self.round(behind)
        assert sum(m.partitions for m in self.members) == self.partitions, "a partition has no owner, or two"

    def one_more(self) -> JoinCost:
        """The cost of a member that joins the settled group."""
        requests, transferred = self.connections.requests, self.connections.transferred_bytes
        started = time.perf_counter()
        self.connections.gather(self.join(1), self.responded)
        self.settle()
        took_ms = (time.perf_counter() - started) * 1000
        return JoinCost(took_ms, self.connections.requests - requests, self.connections.transferred_bytes - transferred)

    def heartbeat_frames(self, count: int) -> list[bytes]:
        """Heartbeats of the first ``count`` members."""
        return [
            encode_request(1, "bench", ConsumerGroupHeartbeatRequest(self.group, m.member_id, m.epoch), VERSION)
            for m in self.members[:count]
        ]


def create_topics(address: Address, name: str, partitions: int) -> list[str]:
    """Topics with so many partitions in all, and their names. Raises KafkaError."""
    sizes = [min(PARTITIONS_PER_TOPIC, partitions - at) for at in range(0, partitions, PARTITIONS_PER_TOPIC)]
    names = [f"{name}-{n}" for n in range(len(sizes))]
    broker = BrokerSocket(*address, timeout_s=300)
    for topic, size in zip(names, sizes, strict=True):
        for result in broker.request(CreateTopicsRequest([CreatableTopic(topic, size, 1)], 300_000)).topics:
            check(result.error_code, result.error_message)
    broker.request(FindCoordinatorRequest(key="g"), highest=3)
    broker.close()
    return names


def settled_consumers(address: Address, members: int) -> ConsumerCrew:
    """A settled group of so many members with PARTITIONS_PER_MEMBER partitions for each."""
    group, partitions = f"consumers-{members}", members * PARTITIONS_PER_MEMBER
    crew = ConsumerCrew(address, group, create_topics(address, group, partitions), partitions)
    crew.connections.gather(crew.join(members), crew.responded)
    time.sleep(INTERVAL_S)
    crew.settle()
    return crew


def join_cost(crew: ConsumerCrew) -> JoinCost:
    """The cheapest of JOINS joins, one after the other."""
    costs = []
    for _ in range(JOINS):
        time.sleep(INTERVAL_S)
        costs.append(crew.one_more())
    return min(costs, key=lambda cost: cost.duration_ms)


def heartbeat_rate(crew: ConsumerCrew, connections: int, seconds: float) -> float:
    """Heartbeats/s of the settled group's first members, over one connection each. Raises KafkaError where the members are
    no longer in the group afterwards."""
    rate = closed_loop(crew.connections.address, crew.heartbeat_frames(connections), seconds)
    crew.round(set(range(len(crew.members))))
    return rate
