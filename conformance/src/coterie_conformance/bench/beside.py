"""coterie and Apache Kafka side by side: the same driver, one core for each broker, one for the driver."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from coterie.certify.settling import wait_for_coordinator
from coterie.text.addresses import format_address
from coterie_conformance.bench import clients, consumer_groups
from coterie_conformance.bench.loads import load
from coterie_conformance.bench.loads.streams_members import TASKS_PER_MEMBER, StreamsCrew
from coterie_conformance.bench.measurement import SECONDS, Measurement, broker, idle_mb, resident_mb
from coterie_conformance.bench.rebalance import rebalance_ms, settled_crew
from coterie_conformance.servers.kafka import VERSIONS, running
from coterie_conformance.share_clients import rates

KAFKA = VERSIONS[-1]
CONNECTIONS = (1, 100, 1000)
MEMBERS = (10, 200, 1000, 5000)
PRODUCERS, SMALL_PARTITIONS = 100, 1000
FILLED_BATCHES = 100  # of a megabyte each, for the consumer
HEARTBEATING = 1000  # members of a consumer group that send heartbeats, over a connection each
WARM_UP_S = 4.0  # of each kind, on both: the JVM compiles what it has run often
SHARED = {100: 60_000, 1: 5_000}  # records in each batch -> how many are accepted; of 200,000 Kafka delivered no more
STREAMS_MEMBERS = (10, 200)  # of one streams group
SHARE_ROUNDS = 2  # on either side; the best of them
BROKER_CORE, DRIVER_CORE = 0, 1
KAFKA_SETTINGS = {
    "offsets.topic.num.partitions": "50",  # the default of both; the harness starts Kafka with one
    "group.coordinator.append.linger.ms": "0",
    "socket.listen.backlog.size": "5000",
    "max.connections": "20000",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}

Address = tuple[str, int]


def bind(core: int, pid: int = 0) -> None:
    """To one core, where the system can do that (Linux) and has two."""
    if hasattr(os, "sched_setaffinity") and len(os.sched_getaffinity(0) | {core}) > 1:
        os.sched_setaffinity(pid, {core})


@contextmanager
def bound(core: int) -> Iterator[None]:
    """This thread, and the processes that it starts, on one core; afterwards the thread has its cores back."""
    before = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
    bind(core)
    try:
        yield
    finally:
        if before:
            os.sched_setaffinity(0, before)


@contextmanager
def coterie(folder: Path, delay_ms: int) -> Iterator[tuple[Address, subprocess.Popen[str]]]:
    """A coterie broker bound to BROKER_CORE, with its address and process; ``delay_ms`` is
    group.initial.rebalance.delay.ms."""
    with broker(folder / "coterie", delay_ms) as (address, process):
        bind(BROKER_CORE, process.pid)
        yield address, process


@contextmanager
def kafka(folder: Path, delay_ms: int) -> Iterator[Address]:
    """An Apache Kafka bound to BROKER_CORE whose group coordinator answers; ``delay_ms`` as for `coterie`. Raises
    CannotRun."""
    settings = KAFKA_SETTINGS | {"group.initial.rebalance.delay.ms": str(delay_ms)}
    with running(KAFKA, folder / "kafka", settings, {BROKER_CORE}) as started:
        wait_for_coordinator(started)
        yield started


def _rates(address: Address) -> dict[str, float]:
    """The groups' requests per second."""
    load.create_topic(address)
    rates: dict[str, float] = {}
    members = load.groups_of_one(address, max(CONNECTIONS))
    load.heartbeats(address, members[:100], WARM_UP_S)
    load.commits(address, members[:100], WARM_UP_S)
    load.joins(address, 100, WARM_UP_S, "warm-")
    for connections in CONNECTIONS:
        rates[f"heartbeats, {connections} connections"] = load.heartbeats(address, members[:connections], SECONDS)
    for connections in CONNECTIONS:
        rates[f"commits, {connections} connections"] = load.commits(address, members[:connections], SECONDS)
    rates["joins, 100 groups"] = load.joins(address, 100, SECONDS)
    return rates | _record_rates(address, SECONDS)


def _record_rates(address: Address, seconds: float) -> dict[str, float]:
    """Records through the broker, per second; the consumer, a process of its own, from joining a group to its last record."""
    rates: dict[str, float] = {}
    filled = load.fill(address, FILLED_BATCHES)
    consumed = [clients.rate("consume", "coterie", format_address(*address), filled) for _ in range(2)]
    rates["records consumed by a group of one"] = max(consumed)
    load.produce_singles(address, PRODUCERS, min(seconds, WARM_UP_S))
    rates[f"produce single records, {PRODUCERS} connections"] = load.produce_singles(address, PRODUCERS, seconds)
    load.create_small_partitions(address, SMALL_PARTITIONS)
    load.fetch_small_partitions(address, SMALL_PARTITIONS, min(seconds, WARM_UP_S))
    name = f"fetches of {SMALL_PARTITIONS} partitions with a record each"
    rates[name] = load.fetch_small_partitions(address, SMALL_PARTITIONS, seconds)
    return rates


def beside(folder: Path) -> Iterator[Measurement]:
    """Rows with Kafka's figure beside ours. Raises CannotRun where Apache Kafka cannot be run."""
    with bound(DRIVER_CORE):
        with kafka(folder / "rates", 0) as address:
            theirs = _rates(address)
        with coterie(folder / "rates", 0) as (address, _):
            ours = _rates(address)
        for name, value in ours.items():
            yield Measurement(name, value, "1/s", theirs[name], peer=f"Kafka {KAFKA}")
        for members in MEMBERS:
            with kafka(folder / f"rebalance-{members}", 3000) as address:
                rebalance_ms(address, 100)
                their_ms = rebalance_ms(address, members)
            with coterie(folder / f"rebalance-{members}", 3000) as (address, _):
                our_ms = rebalance_ms(address, members)
            name = f"rebalance, {members} members"
            yield Measurement(name, our_ms, "ms", their_ms, lower_is_better=True, peer=f"Kafka {KAFKA}")


def _of_consumer_groups(address: Address) -> dict[str, tuple[float, str]]:
    """Figures of groups of the consumer protocol with their units; every group is kept while the next is measured."""
    figures: dict[str, tuple[float, str]] = {}
    warm = consumer_groups.settled_consumers(address, 100)
    consumer_groups.heartbeat_rate(warm, 100, WARM_UP_S)
    consumer_groups.join_cost(warm)
    warm.close()
    for members in MEMBERS:
        crew = consumer_groups.settled_consumers(address, members)
        if members >= HEARTBEATING:
            rate = consumer_groups.heartbeat_rate(crew, HEARTBEATING, SECONDS)
            figures[f"heartbeats of {HEARTBEATING} members, in a group of {members}"] = (rate, "1/s")
        cost = consumer_groups.join_cost(crew)
        figures[f"join into a group of {members}"] = (cost.duration_ms, "ms")
        figures[f"join into a group of {members}, requests"] = (cost.requests, "")
        figures[f"join into a group of {members}, bytes"] = (cost.transferred_bytes, "bytes")
        crew.close()
    return figures


def _of_share_groups(address: Address) -> dict[str, tuple[float, str]]:
    """Records of 100 bytes per second that a member acquires and accepts with its next fetch; the first round warms up."""
    return {
        f"records shared and accepted, {batch} in a batch": (
            max(
                rates.accept_rate(address, f"shared-{batch}-{number}", batch, records // 4, records)
                for number in range(SHARE_ROUNDS)
            ),
            "1/s",
        )
        for batch, records in SHARED.items()
    }


def _of_streams_groups(address: Address) -> dict[str, tuple[float, str]]:
    """Heartbeats per second of the members of a settled streams group, each with a connection; the first group warms up."""
    figures: dict[str, tuple[float, str]] = {}
    for members in (STREAMS_MEMBERS[0], *STREAMS_MEMBERS):
        group = f"streams-{members}-{len(figures)}"
        (topic,) = consumer_groups.create_topics(address, group, members * TASKS_PER_MEMBER)
        crew = StreamsCrew(address, group, topic, members)
        crew.settle()
        figures[f"heartbeats of a streams group of {members}"] = (crew.heartbeat_rate(WARM_UP_S), "1/s")
        crew.connections.close()
    return figures


def _beside(figures_of: Callable[[Address], dict[str, tuple[float, str]]], folder: Path) -> Iterator[Measurement]:
    """Rows of groups with Kafka's figure beside ours. Raises CannotRun."""
    with bound(DRIVER_CORE):
        with kafka(folder, 0) as address:
            theirs = figures_of(address)
        with coterie(folder, 0) as (address, _):
            ours = figures_of(address)
        for name, (value, unit) in ours.items():
            yield Measurement(name, value, unit, theirs[name][0], lower_is_better=unit != "1/s", peer=f"Kafka {KAFKA}")


def memory(folder: Path) -> Iterator[Measurement]:
    """The broker's memory per member and per committed offset."""
    members, partitions, groups = 5000, 1000, 100
    with coterie(folder / "members", 3000) as (address, process):
        empty = idle_mb(process.pid)
        crew = settled_crew(address, members)
        grown = resident_mb(process.pid) - empty
        crew.close()
        yield Measurement("memory per member with its connection", grown * 1024 / members, "KiB")
    with coterie(folder / "offsets", 0) as (address, process):
        load.create_topic(address, partitions)
        load.commit_many(address, 1, partitions)
        empty = idle_mb(process.pid)
        load.commit_many(address, groups, partitions)
        time.sleep(0.2)
        grown = resident_mb(process.pid) - empty
        yield Measurement("memory per committed offset", grown * 1024 * 1024 / (partitions * groups), "bytes")


PARTS: dict[str, Callable[[Path], Iterator[Measurement]]] = {
    "kafka": beside,
    "consumer-groups": partial(_beside, _of_consumer_groups),
    "share-groups": partial(_beside, _of_share_groups),
    "streams-groups": partial(_beside, _of_streams_groups),
    "memory": memory,
}
