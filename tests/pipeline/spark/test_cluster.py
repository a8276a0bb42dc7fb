"""Source (mode=group), the sink with both its guarantees, and history on three brokers: the coordinator is killed and comes
back, and a leader is stopped in order, while a query is at work."""

from __future__ import annotations

import json
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from coterie.client.blocking import BlockingConsumer, BlockingProducer
from coterie.coordinator.partitioning import partition_for
from coterie.pipeline.history.job import Sources, run_history
from coterie.pipeline.options.options import source_options
from coterie.pipeline.queries import stop_gracefully
from coterie.testing import LocalBroker
from tests.awaiting import until_in_thread

pytestmark = pytest.mark.slow

GROUP, SOURCE, OUT = "crew", "in", "out"
PARTITIONS, OFFSETS_PARTITIONS = 6, 4
PART = 600
wait = partial(until_in_thread, patience_s=60, every_s=0.05)


@pytest.fixture
def cluster() -> Any:
    settings = {"min.insync.replicas": "2", "offsets.topic.num.partitions": str(OFFSETS_PARTITIONS)}
    with LocalBroker(settings, brokers=3) as brokers:
        brokers.create_topic(SOURCE, PARTITIONS)
        brokers.create_topic(OUT, 3)
        yield brokers


def is_whole(cluster: LocalBroker) -> bool:
    partitions = [(SOURCE, n) for n in range(PARTITIONS)] + [(OUT, n) for n in range(3)]
    partitions.append(("__consumer_offsets", partition_for(GROUP, OFFSETS_PARTITIONS)))
    return all(cluster.in_sync(*partition) == {1, 2, 3} for partition in partitions)


class Reader:
    """The values of the sink's topic, each as often as it is there."""

    def __init__(self, consumer: BlockingConsumer) -> None:
        self._consumer, self.values = consumer, Counter[int]()
        consumer.assign([(OUT, partition) for partition in range(3)])

    def has(self, count: int) -> bool:
        for records in self._consumer.poll(50).values():
            self.values.update(int(record.value or b"") for record in records)
        return len(self.values) >= count


def query_of(spark: Any, options: dict[str, str], exactly_once: str, checkpoint: Path) -> Any:
    records = spark.readStream.format("coterie").options(**options).load().select("key", "value")
    sink = {"kafka.bootstrap.servers": options["kafka.bootstrap.servers"], "topic": OUT, "exactlyOnce": exactly_once}
    writer = records.writeStream.format("coterie").options(**sink).option("checkpointLocation", str(checkpoint))
    return writer.trigger(processingTime="100 milliseconds").start()


@pytest.mark.parametrize("exactly_once", ["false", "true"])
def test_nothing_is_lost_while_brokers_come_and_go(
    spark: Any, cluster: LocalBroker, exactly_once: str, tmp_path: Path
) -> None:
    servers = {"bootstrap.servers": cluster.bootstrap_servers}
    options = {
        "kafka.bootstrap.servers": cluster.bootstrap_servers,
        "kafka.group.id": GROUP,
        "kafka.heartbeat.interval.ms": "100",
        "subscribe": SOURCE,
        "mode": "group",
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "200",
    }
    with (
        BlockingProducer(servers | {"acks": "all"}) as producer,
        BlockingConsumer(servers | {"auto.offset.reset": "earliest", "isolation.level": "read_committed"}) as consumer,
    ):
        out, sent = Reader(consumer), 0

        def produce() -> None:
            nonlocal sent
            for number in range(sent, sent + PART):
                producer.send(SOURCE, b"%d" % number, key=b"%d" % number)
            sent += PART

        produce()
        query = query_of(spark, options, exactly_once, tmp_path / "checkpoint")

        def has(count: int) -> bool:
            assert query.isActive, query.exception()
            return out.has(count)

        wait(lambda: has(100), "the query has begun")
        killed = cluster.coordinator_of(GROUP)
        cluster.kill(killed)
        produce()
        wait(lambda: has(sent), lambda: f"{len(out.values)} of {sent} after a kill")
        cluster.restart(killed)
        wait(lambda: is_whole(cluster), "the broker's replicas are in sync again")
        produce()
        wait(lambda: has(sent - PART + 100), "the query has begun with the third part")
        stopped = cluster.leader_of(SOURCE, 0)
        cluster.stop(stopped)
        wait(lambda: has(sent), lambda: f"{len(out.values)} of {sent} after a controlled shutdown")
        producer.flush()
        stop_gracefully(query, source_options(options, streaming=True))
        # With one broker away as well: the last commit, and the history.
        committed = cluster.committed(GROUP)
        assert sum(committed.values()) == sent
    assert set(out.values) == set(range(sent))
    assert sum(out.values.values()) == sent, "exactly once; at least once too, where no task has failed"
    counts = run_history(spark, Sources(servers), tmp_path / "history")
    assert counts["commits"] >= PARTITIONS
    assert counts["generations"] >= 1
    lines = [json.loads(bytes(r.value)) for r in spark.read.parquet(str(tmp_path / "history/journal")).collect()]
    moved = {line["coordinator"] for line in lines if line["event"] == "coordinator_moved" and line["group"] == GROUP}
    assert moved - {killed}, "the journal has outlived the brokers"
