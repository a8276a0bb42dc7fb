"""Assignors of a user's own: objects and classes in partition.assignment.strategy, and what the group protocol does with
them (scenarios of Kafka's ConsumerCoordinatorTest and ConsumerPartitionAssignor). A leader assigns from the metadata that
it has, as ConsumerCoordinator.onLeaderElected does: its Metadata request would queue behind its own Fetch, which the
broker holds for fetch.max.wait.ms."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from coterie.assignors import assign_cooperative_sticky, assign_range
from coterie.client import (
    AssignableTopics,
    Assignor,
    ConfigError,
    Consumer,
    KafkaError,
    RebalanceListener,
    RebalanceProtocol,
    Subscriber,
    TopicPartition,
)
from coterie.client.consumer.classic_membership import member_config
from coterie.client.settings.settings import client_settings
from coterie.testing import LocalBroker, simulate
from tests.client.group import member, polled, settled

Shares = dict[str, dict[str, list[int]]]
BOTH = frozenset(RebalanceProtocol)
FETCH_S = 20


class Reversed(Assignor):
    """All partitions go to the member whose user data is the greatest."""

    name = "reversed"

    def __init__(self, rank: int = 0) -> None:
        self.rank = rank
        self.seen: list[tuple[int, bytes | None]] = []
        self.calls: list[tuple[dict[str, list[int]], int]] = []
        self.generations: list[int] = []

    def user_data(self, assigned: Mapping[str, Sequence[int]], generation: int) -> bytes | None:
        self.generations.append(generation)
        return bytes([self.rank])

    def assign(self, topics: AssignableTopics, subscribers: Sequence[Subscriber]) -> Shares:
        self.seen += [(s.generation, s.user_data) for s in subscribers]
        first = max(subscribers, key=lambda s: s.user_data or b"")
        shares: Shares = {s.member_id: {} for s in subscribers}
        shares[first.member_id] = {t: list(range(n)) for t, n in topics.counts.items()}
        return shares

    def on_assignment(self, assigned: Mapping[str, Sequence[int]], generation: int) -> None:
        self.calls.append(({t: list(ps) for t, ps in assigned.items()}, generation))


class Cooperative(Assignor):
    name = "own-cooperative"
    protocols = BOTH

    def assign(self, topics: AssignableTopics, subscribers: Sequence[Subscriber]) -> Shares:
        return assign_cooperative_sticky(topics, subscribers)


class HandsOver(Cooperative):
    """Moves partitions in one step, which a cooperative assignor must not."""

    name = "hands-over"

    def assign(self, topics: AssignableTopics, subscribers: Sequence[Subscriber]) -> Shares:
        return assign_range(topics, sorted(subscribers, key=lambda s: s.generation))


async def test_a_users_own_assignor_assigns_the_group(coterie_broker: LocalBroker) -> None:
    """The leader's assign sees every member's user data; on_assignment runs in each before its listener."""
    coterie_broker.create_topic("t", 4)
    low, high = Reversed(1), Reversed(2)
    order: list[str] = []

    class Listener(RebalanceListener):
        def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
            order.append(f"{len(high.calls)} calls, {len(partitions)} partitions")

    async with (
        member(coterie_broker, partition_assignment_strategy=low) as one,
        member(coterie_broker, "two", partition_assignment_strategy=[high]) as two,
    ):
        await settled(one, 4)
        assert low.calls[-1] == ({"t": [0, 1, 2, 3]}, one.generation)
        two.subscribe(["t"], Listener())
        both = asyncio.gather(
            polled(one, lambda: one.assignment() == set(), "the first has none"),
            polled(two, lambda: len(two.assignment()) == 4, "the second has all"),
        )
        await both
        await polled(one, lambda: low.calls[-1] == ({}, two.generation), "both have the assignment")
        assert high.calls[-1] == ({"t": [0, 1, 2, 3]}, two.generation)
        assert {data for _, data in low.seen} == {b"\1", b"\2"}
        assert low.generations[0] == -1
        assert low.generations[-1] > 0
        assert order == ["1 calls, 4 partitions"]
        assert coterie_broker.broker is not None


async def test_a_group_cooperates_with_an_assignor_that_has_the_protocol(coterie_broker: LocalBroker) -> None:
    """What is in force follows from the assignor's protocols, not from a name."""
    coterie_broker.create_topic("t", 4)
    revoked: list[TopicPartition] = []

    class Listener(RebalanceListener):
        def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
            revoked.extend(partitions)

    own: dict[str, Any] = {"partition_assignment_strategy": [Cooperative]}
    async with member(coterie_broker, **own) as one, member(coterie_broker, "two", **own) as two:
        one.subscribe(["t"], Listener())
        await polled(one, lambda: len(one.assignment()) == 4, "the first has all")
        two.subscribe(["t"])
        await asyncio.gather(
            polled(one, lambda: len(one.assignment()) == 2, "the first has half"),
            polled(two, lambda: len(two.assignment()) == 2, "the second has half"),
        )
        assert len(revoked) == 2, "an eager member gives all four up"


async def test_a_cooperative_assignor_that_moves_partitions_in_one_step_is_an_error(
    coterie_broker: LocalBroker,
) -> None:
    coterie_broker.create_topic("t", 4)
    own: dict[str, Any] = {"partition_assignment_strategy": HandsOver}
    async with member(coterie_broker, **own) as one, member(coterie_broker, "two", **own) as two:
        await settled(one, 4)
        two.subscribe(["t"])
        with pytest.raises(KafkaError, match=r"assignor hands-over hands t-. over in one step"):
            await asyncio.gather(polled(one, lambda: False), polled(two, lambda: False))


class Broken(Assignor):
    name = "broken"

    def assign(self, topics: AssignableTopics, subscribers: Sequence[Subscriber]) -> Shares:
        raise ZeroDivisionError("no weights")


async def test_what_an_assignor_raises_the_leaders_poll_raises(coterie_broker: LocalBroker) -> None:
    coterie_broker.create_topic("t", 1)
    async with member(coterie_broker, partition_assignment_strategy=Broken) as one:
        one.subscribe(["t"])
        with pytest.raises(KafkaError, match="no weights") as caught:
            await polled(one, lambda: False)
        assert isinstance(caught.value.__cause__, ZeroDivisionError)


class NoName(Assignor):
    pass


class Taken(Assignor):
    name = "range"


@pytest.mark.parametrize("wrong", [NoName, Taken, [Cooperative, Cooperative()], object(), [5], RebalanceListener])
def test_what_is_no_assignor_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigError, match=r"partition\.assignment\.strategy"):
        client_settings({"partition.assignment.strategy": wrong})


def test_names_and_objects_stand_beside_each_other() -> None:
    config = member_config(client_settings({"partition.assignment.strategy": ["range", Cooperative()]}), "g")
    assert config.assignors == ("range", "own-cooperative")
    assert config.protocol == RebalanceProtocol.EAGER
    alone = member_config(client_settings({"partition.assignment.strategy": Cooperative}), "g")
    assert alone.protocol == RebalanceProtocol.COOPERATIVE


async def read(settings: dict[str, Any]) -> None:
    async with Consumer(settings) as consumer:
        consumer.subscribe(["t"])
        while True:
            await consumer.poll(100)


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_a_rebalance_does_not_wait_for_the_leaders_fetch(assignor: str) -> None:
    with simulate() as world:
        broker = world.broker()
        broker.create_topic("t", 4)
        settings = {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "crew",
            "fetch.max.wait.ms": FETCH_S * 1000,
        }
        settings |= {"partition.assignment.strategy": assignor}
        for n in range(3):
            world.spawn(f"reader-{n}", read, settings)
            broker.until_stable("crew", members=n + 1)
            world.advance(FETCH_S)
        stable = [line for line in broker.journal if line.group == "crew" and line.event == "stable"]
        assert len(stable) >= 3
        assert max(line.sync_ms or 0 for line in stable) < 1_000, [(line.generation, line.sync_ms) for line in stable]


def test_a_topic_that_the_leader_does_not_know_is_looked_up() -> None:
    """Of a member that subscribes to more than the leader itself."""
    with simulate() as world:
        broker = world.broker()
        broker.create_topic("t", 1)
        settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "crew"}
        world.spawn("leader", read, settings)
        broker.until_stable("crew", members=1)
        broker.create_topic("u", 1)

        owned: set[tuple[str, int]] = set()

        async def read_both() -> None:
            async with Consumer(settings) as consumer:
                consumer.subscribe(["t", "u"])
                while True:
                    await consumer.poll(100)
                    owned.update(consumer.assignment())

        world.spawn("further", read_both)
        world.until(lambda: ("u", 0) in owned, "both topics")
