"""The loads of `growth`: what is done to a broker at each size of an axis, and which of it a meter counts."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass

from coterie.client.connection.blocking_socket import BrokerSocket
from coterie.client.errors import check
from coterie.wire.messages.groups.list_groups import ListGroupsRequest
from coterie.wire.messages.logs.describe_log_dirs import DescribeLogDirsRequest
from coterie.wire.messages.topics.metadata import MetadataRequest, MetadataRequestTopic
from coterie_conformance.bench.loads import load
from coterie_conformance.bench.measurement import ProcessorMeter
from coterie_conformance.bench.rebalance import one_more_ms, rebalance_ms, settled_crew

CONNECTIONS = 100  # that send requests to many groups
PARTITIONS_OF_TOPIC = 1_000  # Apache Kafka refuses a topic of more than 10,000
WARM_UP_MEMBERS = 200  # no size of an axis: their group is there until their sessions end
WARM_UP_BYTES = 200  # no size either: a topic is named by it
WARM_UP_PARTITIONS = range(2, 10)  # below the first size
PARTITIONS_WITHIN_S = 120.0
REPEATS = 3  # of requests that are long by themselves

Address = tuple[str, int]
GrowingLoad = Callable[[Address, int, float, ProcessorMeter], None]  # the size, and the seconds of each steady load


@dataclass(frozen=True, slots=True)
class Axis:
    """The sizes, what is done at each, and what is done before the first. ``delay_ms``: group.initial.rebalance.delay.ms of the
    brokers."""

    sizes: tuple[int, ...]
    load: GrowingLoad
    warm_up: Callable[[Address, float], None]
    delay_ms: int = 0


def _warm_up(address: Address, seconds: float) -> None:
    """Requests of each kind: the JVM compiles what it has run often."""
    load.create_topic(address)
    members = load.groups_of_one(address, CONNECTIONS)
    load.heartbeats(address, members, seconds)
    load.commits(address, members, seconds)
    load.joins(address, CONNECTIONS, seconds)


def _warm_up_bytes(address: Address, seconds: float) -> None:
    _bytes(address, WARM_UP_BYTES, seconds, ProcessorMeter(os.getpid()))


def _warm_up_members(address: Address, seconds: float) -> None:
    rebalance_ms(address, WARM_UP_MEMBERS)


def _warm_up_partitions(address: Address, seconds: float) -> None:
    for size in WARM_UP_PARTITIONS:
        _partitions(address, size, seconds, ProcessorMeter(os.getpid()))
    broker, ends_s = BrokerSocket(*address), time.perf_counter() + seconds
    while time.perf_counter() < ends_s:
        _led(broker, [])
        _stored(broker, [])
    broker.close()


def _connections(address: Address, size: int, seconds: float, meter: ProcessorMeter) -> None:
    """Heartbeats of so many connections, each a group of its own."""
    prefix = f"connections-{size}-"
    members = load.groups_of_one(address, size, prefix)
    load.heartbeats(address, members, seconds, meter.window("heartbeat"), prefix)


def _members(address: Address, size: int, seconds: float, meter: ProcessorMeter) -> None:
    """Rebalances of a group of so many."""
    crew = settled_crew(address, size)
    try:
        meter.begin()
        durations_ms = [one_more_ms(crew) for _ in range(2)]
        meter.end("join", 2 * size)
        meter.costs["rebalance_ms"] = min(durations_ms)
    finally:
        crew.close()


def _groups(address: Address, size: int, seconds: float, meter: ProcessorMeter) -> None:
    """Commits and a list of so many groups with an offset each."""
    load.commit_many(address, size, 1)
    load.commits_of_many(address, min(size, CONNECTIONS), seconds, meter.window("commit"))
    broker = BrokerSocket(*address)
    meter.begin()
    for _ in range(REPEATS):
        listed = broker.request(ListGroupsRequest())
        check(listed.error_code)
        assert len(listed.groups) >= size, f"{len(listed.groups)} groups are listed"
    meter.end("group_listed", REPEATS * size)
    broker.close()


def _partitions(address: Address, size: int, seconds: float, meter: ProcessorMeter) -> None:
    """Topics with so many partitions in all: their creation, and the metadata of all of them."""
    names = [f"grown-{size}-{first}" for first in range(0, size, PARTITIONS_OF_TOPIC)]
    meter.begin()
    for name in names:
        load.create_topic(address, min(size, PARTITIONS_OF_TOPIC), name)
    broker = BrokerSocket(*address)
    _wait_for_partitions(broker, names, size)
    meter.end("partition_created", size)
    meter.begin()
    for _ in range(REPEATS):
        assert _led(broker, names) == size
    meter.end("partition_described", REPEATS * size)
    broker.close()


def _wait_for_partitions(broker: BrokerSocket, topics: list[str], partitions: int) -> None:
    """Until each has a leader, and a log: Apache Kafka's controller reports leaders whose broker has no file left to open."""
    end_s = time.perf_counter() + PARTITIONS_WITHIN_S
    for count, have in ((_led, "a leader"), (_stored, "a log")):
        while (ready := count(broker, topics)) < partitions:
            assert time.perf_counter() < end_s, f"{ready} of {partitions} partitions have {have}"
            time.sleep(0.5)


def _led(broker: BrokerSocket, topics: list[str]) -> int:
    """How many of the topics' partitions have a leader."""
    described = broker.request(MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in topics])).topics
    return sum(not partition.error_code for topic in described for partition in topic.partitions)


def _stored(broker: BrokerSocket, topics: list[str]) -> int:
    """How many of the topics' partitions have a log. Raises KafkaError where a log directory is offline."""
    created = set(topics)
    stored = 0
    for directory in broker.request(DescribeLogDirsRequest(topics=None)).results:
        check(directory.error_code)
        stored += sum(len(topic.partitions) for topic in directory.topics if topic.name in created)
    return stored


def _bytes(address: Address, size: int, seconds: float, meter: ProcessorMeter) -> None:
    """Produce and Fetch requests of one record of that size, over one connection."""
    topic = f"sized-{size}"
    load.create_topic(address, 1, topic)
    load.append_first(address, topic, 1, load.one_record(size))
    load.produce_records(address, topic, size, seconds, meter.window("produce"))
    load.fetch_records(address, topic, size, seconds, meter.window("fetch"))


TENFOLD = (1, 10, 100, 1_000, 10_000, 100_000, 1_000_000)
AXES: dict[str, Axis] = {
    "connections": Axis(TENFOLD[:5], _connections, _warm_up),
    "members": Axis(TENFOLD[1:5], _members, _warm_up_members, delay_ms=3_000),
    "groups": Axis(TENFOLD[1:6], _groups, _warm_up),
    "partitions": Axis(TENFOLD[1:6], _partitions, _warm_up_partitions),
    "bytes": Axis(TENFOLD[1:], _bytes, _warm_up_bytes),
}
