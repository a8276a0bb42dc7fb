"""What a test sees of a group, waits for, and does to its members: a part of `LocalBroker`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TypeVar

from coterie.broker.broker import Broker
from coterie.broker.groups.explanation import state_of
from coterie.coordinator.consumer.state import ConsumerGroup
from coterie.coordinator.replay import AnyGroup
from coterie.coordinator.share.state import ShareGroup
from coterie.coordinator.state import Phase
from coterie.coordinator.streams.state import StreamsGroup
from coterie.testing.argument_checks import checked_arguments
from coterie.testing.loop_thread import WAIT_S
from coterie.text.quantity import quantity

__tracebackhide__ = True  # for pytest: a failure is shown where the test called

T = TypeVar("T")


@checked_arguments
class GroupControls(ABC):
    """Of groups of both protocols."""

    @abstractmethod
    def _call(self, what: Callable[[], T]) -> T:
        """Carries it out on the brokers' loop."""

    @abstractmethod
    def _until(self, done: Callable[[], T], wanted: str, why: Callable[[], str], timeout_s: float) -> T:
        """The first true result. Raises TimeoutError."""

    @abstractmethod
    def _group(self, group_id: str) -> AnyGroup | None:
        """On the loop."""

    @abstractmethod
    def _coordinating(self, group: str) -> Broker | None:
        """On the loop: the broker that coordinates the group."""

    @abstractmethod
    def _end_offset(self, topic: str, partition: int) -> int:
        """On the loop: -1 where there is no such partition, or no leader."""

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        """The group's committed offsets."""
        return self._call(lambda: self._committed(group))

    def _committed(self, group_id: str) -> dict[tuple[str, int], int]:
        """On the loop: a call that waits for the loop would wait for itself there."""
        group = self._group(group_id)
        return {} if group is None else {tp: o.offset for tp, o in group.offsets.items()}

    def lag(self, group: str) -> dict[tuple[str, int], int]:
        """The records behind the group's committed offsets, by partition; never negative. Partitions without a leader are left
        out."""
        return self._call(lambda: self._lag(group))

    def _lag(self, group: str) -> dict[tuple[str, int], int]:
        ends = {tp: self._end_offset(*tp) for tp in self._committed(group)}
        return {tp: max(ends[tp] - offset, 0) for tp, offset in self._committed(group).items() if ends[tp] >= 0}

    def members(self, group: str) -> dict[str, str]:
        """Member id -> client id of those in the group now."""

        def look() -> dict[str, str]:
            state = self._group(group)
            if isinstance(state, ConsumerGroup | ShareGroup):
                return {m.member_id: m.subscription.client_id for m in state.members.values()}
            if isinstance(state, StreamsGroup):
                return {m.member_id: m.metadata.client_id for m in state.members.values()}
            return {} if state is None else {m.member_id: m.client_id for m in state.members.values()}

        return self._call(look)

    def expire(self, group: str, member: str) -> None:
        """Ends a member's session now; ``member`` is its member id, or its client id. So ends a member id that was reserved and
        not used yet (KIP-394). Raises LookupError."""
        member_ids = [m for m, client_id in self.members(group).items() if member in (m, client_id)]
        if not member_ids and self._call(lambda: member in getattr(self._group(group), "reservations", ())):
            member_ids = [member]
        if not member_ids:
            raise LookupError(f"group {group} has no member {member}; it has {self.members(group) or 'none'}")
        for member_id in member_ids:
            self._call(lambda member_id=member_id: self._expire(group, member_id))  # type: ignore[misc]

    def _expire(self, group: str, member_id: str) -> None:
        broker = self._coordinating(group)
        assert broker is not None, "a member without a coordinator"
        broker.groups.expire_member(group, member_id)

    def until_stable(self, group: str, members: int | None = None, timeout_s: float = WAIT_S) -> int:
        """Waits until the group is Stable (with so many members); returns its generation. A consumer group (KIP-848) is once
        each member has its part of the target assignment and nothing else; its group epoch is the generation. Raises
        TimeoutError that says what the group is waiting for."""

        def stable() -> int:
            state = self._group(group)
            settled = (
                state is not None and state.phase.value == Phase.STABLE.value and members in (None, len(state.members))
            )
            return state.generation if settled and state is not None else 0

        wanted = f"group {group} is not Stable" + ("" if members is None else f" with {quantity(members, 'member')}")
        return self._until(stable, wanted, lambda: self.explain(group), timeout_s)

    def until_committed(self, group: str, offsets: Mapping[tuple[str, int], int], timeout_s: float = WAIT_S) -> None:
        """Waits until the group has committed at least these offsets."""

        def there() -> bool:
            has = self._committed(group)
            return all(has.get(tp, -1) >= offset for tp, offset in offsets.items())

        wanted = f"group {group} has not committed {_offsets(offsets)}"
        self._until(there, wanted, lambda: f"It has committed {_offsets(self.committed(group))}.", timeout_s)

    def until_lag(self, group: str, *, at_least: int = 0, at_most: int | None = None, timeout_s: float = WAIT_S) -> int:
        """Waits until the group's lag, the sum over its committed partitions, is in these bounds; returns it. A group that has
        committed nothing has no lag yet."""

        def there() -> tuple[int] | None:
            lag = self._lag(group)
            total = sum(lag.values())
            return (total,) if lag and at_least <= total and (at_most is None or total <= at_most) else None

        bounds = f"at least {at_least}" if at_most is None else f"from {at_least} to {at_most}"
        wanted = f"the lag of group {group} is not {bounds}"
        reached = self._until(there, wanted, lambda: f"It is {_offsets(self.lag(group))}.", timeout_s)
        assert reached is not None, "no lag, and no time-out"
        return reached[0]

    def explain(self, group: str) -> str:
        """Where the group stands and whom it waits for, in a sentence."""

        def look() -> str:
            state = self._group(group)
            if state is None:
                return "There is no such group."
            broker = self._coordinating(group)
            assert broker is not None, "a group without a coordinator"
            explained = state_of(broker.groups, state, broker.clock.now_ms())
            members = quantity(len(state.members), "member")
            return f"It is {explained['state']} with {members}, generation {state.generation}: {explained['verdict']}."

        return self._call(look)


def _offsets(by_partition: Mapping[tuple[str, int], int]) -> str:
    """``orders-0: 2, orders-1: 5``."""
    return ", ".join(f"{topic}-{partition}: {n}" for (topic, partition), n in sorted(by_partition.items())) or "nothing"
