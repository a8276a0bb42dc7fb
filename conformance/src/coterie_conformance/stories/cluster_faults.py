"""The faults that a cluster alone has: more rows of `faults.TABLE`."""

from __future__ import annotations

from collections.abc import Callable

from coterie.controller import nodes
from coterie.zookeeper.operations import ANY_VERSION, Create, Read, Write, Znode
from coterie_conformance.stories.administration import UNCLEAN, Administration
from coterie_conformance.stories.faults import LENGTHS_S, FaultRow, StoryFaults

CLOCK_JUMPS_S = (1.0, 40.0, 20 * 60.0, 5 * 3_600.0)


def cluster_rows(administration: Administration) -> list[FaultRow]:
    """Of a story with these topics."""

    def unclean(faults: StoryFaults) -> bool:
        return _elect_uncleanly(faults, administration)

    return [
        FaultRow("zookeeper_lost", 2, _lose_zookeeper, of_cluster=True),
        FaultRow("zookeeper_lost_twice", 1, _lose_zookeeper_twice, of_cluster=True),
        FaultRow("brokers_separated", 2, _separate, of_cluster=True),
        FaultRow("clock_jumped", 1, _jump_clock, of_cluster=True),
        FaultRow("all_machines_lose_power", 1, _cut_power_of_all, of_cluster=True),
        FaultRow("elected_uncleanly", 1, unclean, of_cluster=True),
    ]


def _lose_zookeeper(faults: StoryFaults) -> bool:
    number = faults.running_broker()
    if number is None:
        return False
    _cut_off(faults, number, LENGTHS_S, lambda: None)
    return True


def _cut_off(faults: StoryFaults, number: int, lengths_s: tuple[float, ...], healed: Callable[[], None]) -> None:
    broker = faults.clustered(number)
    broker.lose_zookeeper()
    faults.cut_off(number, is_cut_off=True)

    def heal() -> None:
        broker.reach_zookeeper()
        faults.cut_off(number, is_cut_off=False)
        healed()

    faults.later(lengths_s, heal)


def _lose_zookeeper_twice(faults: StoryFaults) -> bool:
    """All of them, or one: a session may expire, and the next one before its broker has a role."""
    numbers = faults.running_brokers()
    if faults.rng.random() < 0.5:
        numbers = numbers[:1]
    for number in numbers:

        def again(number: int = number) -> None:
            if faults.broker.is_alive(number):
                faults.later((0.02, 0.2), lambda: _cut_off(faults, number, LENGTHS_S[:3], lambda: None))

        _cut_off(faults, number, LENGTHS_S[:3], again)
    return bool(numbers)


def _separate(faults: StoryFaults) -> bool:
    """Two brokers, one way or both; what was sent waits."""
    one, other = (f"broker-{number}" for number in faults.rng.sample(faults.numbers, 2))
    faults.world.network.cut(one, other, both_ways=faults.rng.random() < 0.5)
    faults.later(LENGTHS_S, lambda: faults.world.network.heal(one, other))
    return True


def _jump_clock(faults: StoryFaults) -> bool:
    """The wall clock of a machine, forward or back."""
    number = faults.rng.choice(faults.numbers)
    faults.world.jump_clock(f"broker-{number}", faults.rng.choice((-1, 1)) * faults.rng.choice(CLOCK_JUMPS_S))
    return True


def _cut_power_of_all(faults: StoryFaults) -> bool:
    """Only where each append is synced."""
    if not faults.synced:
        return False
    numbers = faults.running_brokers()
    for number in numbers:
        faults.down(number, faults.broker.power_cut)
    return bool(numbers)


def _elect_uncleanly(faults: StoryFaults, administration: Administration) -> bool:
    """One replica leaves the ISR in order, the others die, and it comes back alone: it may lead."""
    topics = administration.written()
    cluster, numbers = faults.cluster, faults.running_brokers()
    if not topics or len(numbers) < len(faults.numbers):
        return False
    topic = faults.rng.choice(topics)
    state = cluster.state(topic.name, 0)
    if state is None or len(state.isr) < 2:
        return False
    topic.may_lose = True
    path = nodes.topic_config(topic.name)
    node = cluster.zookeeper.apply(Read(path))
    settings = dict(nodes.config_of(node.data)) if isinstance(node, Znode) else {}
    cluster.zookeeper.apply(Write(path, nodes.settings({**settings, UNCLEAN: "true"}), ANY_VERSION))
    notice = nodes.config_change(nodes.TOPICS_KIND, topic.name)
    cluster.zookeeper.apply(Create(f"{nodes.CONFIG_CHANGES}/config_change_", notice, ephemeral=False, sequential=True))
    alone = faults.rng.choice(state.isr)
    if not faults.may_stop(alone):
        return False
    faults.down(alone, faults.stop)
    faults.world.advance(faults.rng.choice((0.5, 1.5)))
    for number in state.replicas:
        if number != alone and faults.broker.is_alive(number):
            faults.down(number, faults.broker.kill)
    faults.start_broker(alone)
    return True
