"""Log directories: what a broker on disk and one in memory say of their one directory."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from coterie.broker.broker import Broker
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.logs.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from coterie.wire.messages.logs.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from coterie.wire.messages.logs.produce import ProduceResponse
from tests.broker.cluster.replicas.test_replicated_writes import one_of_two
from tests.broker.connections.test_server import Client, broker, make_topic, produce


async def describe(
    client: Client, topics: list[DescribableLogDirTopic] | None, version: int = 5
) -> DescribeLogDirsResponse:
    return await client.ask(DescribeLogDirsRequest(topics), DescribeLogDirsResponse, version)


def sizes(response: DescribeLogDirsResponse) -> dict[tuple[str, int], int]:
    (directory,) = response.results
    return {(t.name, p.partition_index): p.partition_size for t in directory.topics for p in t.partitions}


@pytest.mark.parametrize("version", range(6))
async def test_sizes_are_those_of_the_logs(version: int) -> None:
    async with broker() as connect:
        client = await connect()
        await make_topic(client, "t", 2)
        await make_topic(client, "u", 1)
        sent = produce()
        await client.ask(sent, ProduceResponse, 9)
        bytes_sent = len(sent.topic_data[0].partition_data[0].records or b"")
        everything = await describe(client, None, version)
        assert sizes(everything) == {("t", 0): bytes_sent, ("t", 1): 0, ("u", 0): 0}
        assert (everything.error_code, everything.results[0].error_code) == (0, 0)
        requested = [DescribableLogDirTopic("t", [1, 0, 0, 7]), DescribableLogDirTopic("nobody-made-this", [0])]
        assert sizes(await describe(client, requested, version)) == {("t", 0): bytes_sent, ("t", 1): 0}
        assert sizes(await describe(client, [], version)) == {}


async def test_the_volume_of_the_data_folder_is_measured(tmp_path: Path) -> None:
    running = Broker(data=tmp_path / "data")
    address = await running.start("127.0.0.1", 0)
    client = Client(*await asyncio.open_connection(*address))
    (directory,) = (await describe(client, [])).results
    assert directory.log_dir == str((tmp_path / "data").resolve())
    assert 0 < directory.usable_bytes < directory.total_bytes
    client.writer.close()
    await running.stop()


async def test_a_broker_in_memory_has_no_volume() -> None:
    async with broker() as connect:
        (directory,) = (await describe(await connect(), [])).results
        assert (directory.log_dir, directory.total_bytes, directory.usable_bytes) == ("memory", -1, -1)


@pytest.mark.parametrize("version", range(3))
async def test_a_replica_stays_in_the_one_directory(version: int) -> None:
    async with broker() as connect:
        client = await connect()
        await make_topic(client)
        topics = [AlterReplicaLogDirTopic("t", [0, 7]), AlterReplicaLogDirTopic("nobody-made-this", [0])]
        topics += [AlterReplicaLogDirTopic("no partitions", []), AlterReplicaLogDirTopic("no/name", [0])]
        # Apache Kafka 3.9 and 4.3 refuse what has more than 215 characters with its index.
        topics += [AlterReplicaLogDirTopic("x" * 213, [0, 10])]
        too_long = ErrorCode.INVALID_TOPIC_EXCEPTION
        unknown, elsewhere = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LOG_DIR_NOT_FOUND
        rows = (
            ("memory", [ErrorCode.NONE, unknown, unknown, unknown, unknown, too_long]),
            ("/elsewhere", [elsewhere] * 5 + [too_long]),
        )
        for path, expected in rows:
            request = AlterReplicaLogDirsRequest([AlterReplicaLogDir(path, topics)])
            response = await client.ask(request, AlterReplicaLogDirsResponse, version)
            assert [t.topic_name for t in response.results] == ["t", "nobody-made-this", "no/name", "x" * 213]
            assert [p.error_code for t in response.results for p in t.partitions] == expected


async def test_a_partition_without_a_replica_here_is_in_no_directory() -> None:
    """testReplicaNotAvailable: in a cluster; the topic is known, and its replica is on another broker."""
    async with one_of_two() as (broker, client, _, _):
        broker.topics.announce("elsewhere", 1, b"e" * 16, {})
        topics = [AlterReplicaLogDirTopic(name, [0]) for name in ("t", "elsewhere")]
        request = AlterReplicaLogDirsRequest([AlterReplicaLogDir("memory", topics)])
        response = await client.ask(request, AlterReplicaLogDirsResponse, 2)
        codes = [p.error_code for t in response.results for p in t.partitions]
        assert codes == [ErrorCode.NONE, ErrorCode.REPLICA_NOT_AVAILABLE]
        (directory,) = (await describe(client, None)).results
        assert sorted(topic.name for topic in directory.topics) == ["__consumer_offsets", "t"]
