"""The clusters that the console looks at: one broker or three, of coterie or of Apache Kafka; a broker dies and comes back."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from coterie.text.addresses import format_address
from coterie_conformance.cluster.command_cluster import command_cluster
from coterie_conformance.servers.coterie_process import CoterieBroker
from coterie_conformance.servers.kafka import KafkaBroker

SETTINGS = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "8"}
SEVERAL = SETTINGS | {
    "offsets.topic.replication.factor": "3",
    "default.replication.factor": "3",
    "min.insync.replicas": "1",
}
OURS_TIMES = {"zookeeper.session.timeout.ms": "6000"}
HEAP = "512m"


@dataclass(frozen=True, slots=True)
class ShownCluster:
    """``kill`` and ``start_again`` are given a broker's id; ``killable``: which ones may die while the others go on."""

    bootstrap: str
    killable: tuple[int, ...]
    brokers: int
    kill: Callable[[int], None]
    start_again: Callable[[int], None]


@contextlib.contextmanager
def kafka(version: str, folder: Path, brokers: int) -> Iterator[ShownCluster]:
    """Of Apache Kafka; the first of several is their controller, and stays. Raises CannotRun."""
    settings = SETTINGS if brokers == 1 else SEVERAL
    first = KafkaBroker(version, folder / "kafka", settings, heap=HEAP)
    every = {1: first} | {node: first.another(node, settings) for node in range(2, brokers + 1)}
    with contextlib.ExitStack() as stack:
        for broker in every.values():
            stack.callback(broker.stop)
            broker.start()
        addresses = ",".join(format_address(*broker.address) for broker in every.values())
        killable = tuple(every)[1:] or (1,)
        yield ShownCluster(addresses, killable, brokers, lambda n: every[n].kill(), lambda n: every[n].start())


@contextlib.contextmanager
def ours(folder: Path, brokers: int) -> Iterator[ShownCluster]:
    """Of coterie: `coterie broker`, or `coterie cluster start`. Raises CannotRun."""
    if brokers == 1:
        broker = CoterieBroker(folder / "coterie", SETTINGS)
        broker.start()
        try:
            yield ShownCluster(
                format_address(*broker.address), (1,), 1, lambda _: broker.kill(), lambda _: broker.start()
            )
        finally:
            broker.stop()
        return
    with command_cluster(folder / "cluster", brokers, SEVERAL | OURS_TIMES) as cluster:
        yield ShownCluster(cluster.bootstrap, tuple(cluster.ids()), brokers, cluster.kill, cluster.start)
