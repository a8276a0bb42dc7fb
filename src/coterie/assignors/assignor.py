"""An assignor: to the group protocol a row of functions, to a user a class of one's own (Kafka's
ConsumerPartitionAssignor, KIP-429)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum

from coterie.assignors.subscription import AssignableTopics, AssignFunction, Assignment, Owned, Subscriber


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
