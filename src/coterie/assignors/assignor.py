"""An assignor (Kafka's ConsumerPartitionAssignor): its input and its result; what it is to the group protocol, a row of
functions, and to a user, a class of one's own; and the check of a cooperative one, that no partition goes to one member while
another still owns it (KIP-429)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

Owned = Mapping[str, Sequence[int]]  # topic -> partitions
Assignment = dict[str, dict[str, list[int]]]  # member id -> topic -> partitions, ascending


@dataclass(frozen=True, slots=True)
class Subscriber:
    """A member as an assignor sees it; ``owned`` are the partitions it had in generation ``generation`` (-1: none)."""

    member_id: str
    topics: frozenset[str]
    group_instance_id: str | None = None
    owned: Owned = field(default_factory=dict)
    generation: int = -1
    rack: str | None = None
    user_data: bytes | None = None


@dataclass(frozen=True, slots=True)
class AssignableTopics:
    """The assignable partitions: ``counts`` by topic, and where racks are known, those of each partition's
    replicas: topic -> one set per partition. Topics that do not exist are left out."""

    counts: Mapping[str, int]
    racks: Mapping[str, Sequence[frozenset[str]]] = field(default_factory=dict)


AssignFunction = Callable[[AssignableTopics, Sequence[Subscriber]], Assignment]


def in_order(subscribers: Iterable[Subscriber]) -> list[Subscriber]:
    """Members with an instance id first, by that id; then the others by member id."""
    return sorted(subscribers, key=lambda s: (s.group_instance_id is None, s.group_instance_id or s.member_id))


def racks_matter(subscribers: Iterable[Subscriber], partition_racks: Iterable[frozenset[str]]) -> bool:
    """Racks matter only if members and partitions both have them, they overlap, and not every partition is on
    every rack (KIP-881, testUseRackAwareAssignment)."""
    members = {s.rack for s in subscribers if s.rack}
    partitions = set(partition_racks)
    everywhere = frozenset[str]().union(*partitions)
    return bool(members & everywhere) and partitions != {everywhere}


class RebalanceProtocol(IntEnum):
    """How partitions change owners, KIP-429; the higher one is preferred where all assignors of a member have it."""

    EAGER = 0  # all partitions are revoked before a rebalance
    COOPERATIVE = 1  # only moved partitions are revoked, after it


@dataclass(frozen=True, slots=True)
class AssignorSpec:
    """An assignor, the protocols it can be used with, and the user data that a member puts into its subscription: made of
    its last assignment and that one's generation (-1: none). ``withholds_claimed``: it assigns no partition that another
    member still has, so that its assignments need no check for that (ConsumerCoordinator.validateCooperativeAssignment).
    ``on_assignment``: as `Assignor.on_assignment`."""

    assign: AssignFunction
    protocols: frozenset[RebalanceProtocol] = frozenset({RebalanceProtocol.EAGER})
    user_data: Callable[[Owned, int], bytes | None] = lambda owned, generation: None
    withholds_claimed: bool = False
    on_assignment: Callable[[Owned, int], None] = lambda assigned, generation: None

    @property
    def is_cooperative(self) -> bool:
        """Whether a group can cooperate with it."""
        return RebalanceProtocol.COOPERATIVE in self.protocols


class Assignor:
    """Subclass it for an assignor of your own, and list the class or an object in partition.assignment.strategy, in every
    member of the group. ``name`` goes over the wire. An assignor whose ``protocols`` have COOPERATIVE must not move a
    partition that a member still owns in one step; the leader's poll raises KafkaError where it does."""

    name: str
    protocols: frozenset[RebalanceProtocol] = frozenset({RebalanceProtocol.EAGER})

    def assign(self, topics: AssignableTopics, subscribers: Sequence[Subscriber]) -> Assignment:
        """Member id -> topic -> partitions, ascending; every member id has an entry. Runs in the member that leads."""
        raise NotImplementedError

    def user_data(self, assigned: Owned, generation: int) -> bytes | None:
        """Bytes for `Subscriber.user_data`, from the member's last assignment (topic -> partitions) and its generation, -1
        before the first."""
        return None

    def on_assignment(self, assigned: Owned, generation: int) -> None:
        """Called in every member with its new assignment, in the task that polls, before the rebalance listener."""

    def spec(self) -> AssignorSpec:
        """The assignor as the group protocol uses it."""
        return AssignorSpec(self.assign, self.protocols, self.user_data, False, self.on_assignment)


def handed_over(subscribers: Sequence[Subscriber], assignments: Assignment) -> tuple[str, int] | None:
    """The first partition that moves between two members in one step, if any does."""
    holders = {(t, p): s.member_id for s in subscribers for t, ps in s.owned.items() for p in ps}
    for member_id, share in assignments.items():
        for topic, partitions in share.items():
            for partition in partitions:
                if holders.get((topic, partition), member_id) != member_id:
                    return topic, partition
    return None
