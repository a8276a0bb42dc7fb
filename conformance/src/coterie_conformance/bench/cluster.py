"""Three coterie brokers beside three of Apache Kafka 2.6.3: the same ZooKeeper, timeouts and driver; one core for the brokers
and ZooKeeper, one for the driver."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from coterie_conformance.bench.beside import BROKER_CORE, DRIVER_CORE, WARM_UP_S, bound
from coterie_conformance.bench.loads.cluster_load import create_topic, outage, produced, produced_singles
from coterie_conformance.bench.loads.load import TOPIC
from coterie_conformance.bench.measurement import SECONDS, Measurement, resident_mb
from coterie_conformance.cluster.mixed import VERSION, BrokerKind, MixedCluster, mixed_cluster, wait_until

BROKERS = (1, 2, 3)
HEAP = "1g"  # Apache Kafka's own default
RECORD_BYTES = (100, 1024)
CONNECTIONS = 100
OUTAGES = 3
MEMORY_AIM_MB = 60.0
IDLE, LOADED = "memory of a broker, idle", "memory of a broker, after the load"
# A connection's batches must not be paused for a log that is full.
SETTINGS = {"log.segment.bytes": "268435456"}

Figures = dict[str, tuple[float, str]]


def _largest_mb(cluster: MixedCluster) -> float:
    return max(resident_mb(broker.process.pid) for broker in cluster.brokers.values())


def _rates(cluster: MixedCluster) -> Figures:
    figures: Figures = {}
    for size in RECORD_BYTES:
        topic = f"{TOPIC}-{size}"
        leaders = create_topic(cluster, topic)
        produced(cluster, topic, leaders, size, WARM_UP_S)
        rate = produced(cluster, topic, leaders, size, SECONDS)
        figures[f"acks=all, {size}-byte records, records/s"] = rate, "1/s"
        figures[f"acks=all, {size}-byte records, MB/s"] = rate * size / 1e6, "MB/s"
    singles = create_topic(cluster, TOPIC)
    produced_singles(cluster, TOPIC, singles, CONNECTIONS, WARM_UP_S)
    rate = produced_singles(cluster, TOPIC, singles, CONNECTIONS, SECONDS)
    figures[f"acks=all, single records, {CONNECTIONS} connections"] = rate, "1/s"
    return figures


def _outages(cluster: MixedCluster) -> Figures:
    outages = []
    for _ in range(OUTAGES):
        outages.append(outage(cluster))
        with bound(BROKER_CORE):
            cluster.restore()
        asyncio.run(wait_until(cluster.is_whole, "all replicas are in sync again"))
    return {
        "without a coordinator after kill -9": (median(one.total_ms for one in outages), "ms"),
        "without a coordinator, after the session": (median(one.after_expiry_ms for one in outages), "ms"),
    }


def figures_of(folder: Path, kind: BrokerKind) -> Figures:
    """All figures of three brokers of one kind. Raises CannotRun, NotInTime, KafkaError."""
    with bound(BROKER_CORE), mixed_cluster(folder, dict.fromkeys(BROKERS, kind), SETTINGS, heap=HEAP) as brokers:
        return _measured(brokers)


def _measured(cluster: MixedCluster) -> Figures:
    with bound(DRIVER_CORE):
        create_topic(cluster, "first")
        figures: Figures = {IDLE: (_largest_mb(cluster), "MB")}
        figures |= _rates(cluster)
        figures[LOADED] = _largest_mb(cluster), "MB"
        return figures | _outages(cluster)


def cluster(folder: Path) -> Iterator[Measurement]:
    """Rows with Kafka's figure beside ours, and what a broker of ours takes beside the aim. Raises CannotRun."""
    theirs = figures_of(folder / "kafka", BrokerKind.KAFKA)
    ours = figures_of(folder / "coterie", BrokerKind.COTERIE)
    for name, (value, unit) in ours.items():
        yield Measurement(
            name, value, unit, theirs[name][0], lower_is_better=unit in ("ms", "MB"), peer=f"Kafka {VERSION}"
        )
    yield Measurement(
        "memory of a coterie broker in a cluster", ours[IDLE][0], "MB", MEMORY_AIM_MB, lower_is_better=True
    )
