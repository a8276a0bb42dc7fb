"""The high watermarks that two brokers write down, while one and the other restart: Kafka's LogRecoveryTest, by name."""

from __future__ import annotations

import pytest

from coterie.testing.cluster_brokers import ClusterBrokers
from tests.awaiting import until
from tests.broker.cluster.brokers_in_memory import (
    all_in_sync,
    clustered,
    create,
    high_watermark,
    led_by,
    log_of,
    produce,
)

SEGMENTS = pytest.mark.parametrize("configs", [{}, {"segment.bytes": "200"}], ids=["one segment", "segments"])


async def written(cluster: ClusterBrokers, offset: int) -> None:
    """Both brokers know the high watermark."""
    await until(lambda: {log_of(broker).high_watermark for broker in cluster.live()} == {offset}, "the high watermark")


def checkpoints(cluster: ClusterBrokers) -> list[int]:
    return [high_watermark(broker) for broker in cluster.brokers.values()]


@SEGMENTS
async def test_checkpoints_without_failures(configs: dict[str, str]) -> None:
    """testHWCheckpointNoFailuresSingleLogSegment, testHWCheckpointNoFailuresMultipleLogSegments: while both run, and when both
    have stopped."""
    async with clustered() as cluster:
        await create(cluster, configs=configs)
        assert checkpoints(cluster) == [0, 0]
        await produce(cluster, *[b"hello"] * 20)
        await written(cluster, 20)
        for broker in cluster.live():
            assert (len(log_of(broker).segments) > 3) == bool(configs)
            assert broker.broker.member is not None
            broker.broker.member.manager.checkpoint()
        assert checkpoints(cluster) == [20, 20]
        await produce(cluster, b"hello")
        await written(cluster, 21)
        for broker in cluster.live():
            await broker.stop()
        assert checkpoints(cluster) == [21, 21]


@SEGMENTS
async def test_checkpoints_with_one_broker_at_a_time(configs: dict[str, str]) -> None:
    """testHWCheckpointWithFailuresSingleLogSegment"""
    async with clustered() as cluster:
        first, second = cluster.brokers[1], cluster.brokers[2]
        await create(cluster, configs=configs)
        await produce(cluster, b"hello")
        await written(cluster, 1)
        await first.stop()
        assert high_watermark(first) == 1
        await led_by(cluster, 2)
        await first.start()
        assert high_watermark(first) == 1
        await all_in_sync(cluster, 1, 2)
        await second.stop()
        assert high_watermark(second) == 1
        await second.start()
        await led_by(cluster, 1)
        await produce(cluster, b"hello")
        await written(cluster, 2)
        for broker in (second, first):
            await broker.stop()
        assert checkpoints(cluster) == [2, 2]


@SEGMENTS
async def test_checkpoints_after_both_brokers_were_down(configs: dict[str, str]) -> None:
    """testHWCheckpointWithFailuresMultipleLogSegments"""
    async with clustered() as cluster:
        first, second = cluster.brokers[1], cluster.brokers[2]
        await create(cluster, configs=configs)
        await produce(cluster, *[b"hello"] * 10)
        await written(cluster, 10)
        for broker in (first, second):
            await broker.stop()
        assert checkpoints(cluster) == [10, 10]
        await second.start()
        await led_by(cluster, 2)
        assert log_of(second).high_watermark == 10
        assert checkpoints(cluster) == [10, 10]
        await first.start()
        await produce(cluster, *[b"hello"] * 10)
        await written(cluster, 20)
        for broker in (first, second):
            await broker.stop()
        assert checkpoints(cluster) == [20, 20]
