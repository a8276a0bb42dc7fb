"""The broker's assignors of consumer groups beside Apache Kafka's Java classes: range must be the same, uniform never worse
balanced and, where the balance is the same, never with more moves.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

from coterie.assignors import Assignment, Subscriber
from coterie.assignors.server_side import SERVER_ASSIGNORS, Target
from coterie_conformance.assignors.comparison import AssignmentCase, later, random_case

PROGRAM = "AssignServerSide.java"
SINCE = "4.3.0"  # before, the classes took other arguments


@dataclass(frozen=True, slots=True)
class MemberOfTarget:
    """A member as the server-side assignors take it."""

    member_id: str
    instance_id: str | None
    topics: frozenset[bytes]
    target: frozenset[tuple[bytes, int]]


@dataclass(frozen=True, slots=True)
class TopicOfTarget:
    """A topic's number of partitions."""

    partitions: int


class ServerSideCase(AssignmentCase):
    """A case whose members own their part of the last target assignment."""

    @property
    def is_exact(self) -> bool:
        return self.assignor == "range"

    def ours(self) -> Assignment:
        topics = {name.encode(): TopicOfTarget(count) for name, count in self.topics.counts.items()}
        target = SERVER_ASSIGNORS[self.assignor]([_member(m) for m in self.members], topics)
        return by_topic(target)


def by_topic(target: Target) -> Assignment:
    """The target as an assignment, by topic and ascending."""
    assignment: Assignment = {}
    for member_id, partitions in target.items():
        owned = assignment.setdefault(member_id, {})
        for topic, partition in sorted(partitions):
            owned.setdefault(topic.decode(), []).append(partition)
    return assignment


def _member(subscriber: Subscriber) -> MemberOfTarget:
    target = frozenset((t.encode(), p) for t, partitions in subscriber.owned.items() for p in partitions)
    topics = frozenset(map(str.encode, subscriber.topics))
    return MemberOfTarget(subscriber.member_id, subscriber.group_instance_id, topics, target)


def server_side_cases(assignor: str, count: int, seed: int) -> Iterator[ServerSideCase]:
    """Groups without a target, with that of a group a little other, and with any partitions at any subscriber."""
    rng = random.Random(seed)
    for _ in range(count):
        drawn = random_case(rng, "roundrobin")
        case = ServerSideCase(assignor, drawn.topics, drawn.members)
        kind = rng.random()
        if kind < 0.5:
            yield _as_case(later(rng, case))
        elif kind < 0.9:
            yield _scattered(rng, case)
        else:
            yield case


def _as_case(case: AssignmentCase) -> ServerSideCase:
    assert isinstance(case, ServerSideCase)
    return case


def _scattered(rng: random.Random, case: ServerSideCase) -> ServerSideCase:
    """Each partition in the target of a random member, which may have given up the topic, or of nobody."""
    owned: list[dict[str, list[int]]] = [{} for _ in case.members]
    crowd = rng.randint(1, len(case.members))  # that many have all of it
    for topic, count in case.topics.counts.items():
        for partition in range(count):
            if rng.random() < 0.8:
                owned[rng.randrange(crowd)].setdefault(topic, []).append(partition)
    members = [replace(m, owned=had, generation=3) for m, had in zip(case.members, owned, strict=True)]
    return replace(case, members=tuple(members))
