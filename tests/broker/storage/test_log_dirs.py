"""Log directories: what a broker on disk and one in memory say of their one directory. Whose a data folder is:
meta.properties of a broker alone, and of one of a cluster as Kafka 2.6 writes and checks it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from coterie.broker.broker import Broker
from coterie.broker.storage.identity import FolderOfAnother, identify_alone, identify_member, read_identity
from coterie.log.checked_files import Finding, UnreadableFile
from coterie.log.filesystem import MemoryFileSystem
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

KAFKAS = b"version=1\ncluster.id=AAECAwQFBgcICQoLDA0ODw\nnode.id=0\n"


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


def test_of_a_cluster_as_kafka_2_6_writes_it() -> None:
    fs = MemoryFileSystem()
    identify_member(fs, 3, "of-the-cluster")
    assert read_identity(fs) == {"version": "0", "cluster.id": "of-the-cluster", "broker.id": "3"}
    identify_member(fs, 3, "of-the-cluster")


@pytest.mark.parametrize(
    ("broker_id", "cluster_id", "text"),
    [
        (3, "another", "of cluster of-the-cluster, and zookeeper.connect leads to cluster another"),
        (4, "of-the-cluster", "of broker 3"),
    ],
)
def test_of_another(broker_id: int, cluster_id: str, text: str) -> None:
    fs = MemoryFileSystem()
    identify_member(fs, 3, "of-the-cluster")
    with pytest.raises(FolderOfAnother, match=text):
        identify_member(fs, broker_id, cluster_id)


def test_a_folder_of_a_broker_alone_joins_no_cluster() -> None:
    fs = MemoryFileSystem()
    assert identify_alone(fs, 1, lambda: "its own") == "its own"
    assert identify_alone(fs, 1, lambda: "a second one") == "its own"
    with pytest.raises(FolderOfAnother, match="choose another --data"):
        identify_member(fs, 1, "of-the-cluster")


def test_a_folder_of_another_node() -> None:
    """Kafka refuses it. A broker that was given no id takes it over, as brokers of Kafka are often numbered from 0."""
    fs = MemoryFileSystem()
    fs.write_file("meta.properties", KAFKAS)
    with pytest.raises(FolderOfAnother, match=r"of node 0, and node\.id is 1; mend node\.id, or choose another --data"):
        identify_alone(fs, 1, lambda: "new", has_given_id=True)
    findings: list[Finding] = []
    assert identify_alone(fs, 1, lambda: "new", findings.append) == "AAECAwQFBgcICQoLDA0ODw"
    assert ["it is of node 0, and node.id is 1" in str(finding) for finding in findings] == [True]
    assert identify_alone(fs, 0, lambda: "new", findings.append, has_given_id=True) == "AAECAwQFBgcICQoLDA0ODw"
    assert len(findings) == 1


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "it has no version"),
        ("cluster.id=x\nnode.id=1\n", "it has no version"),
        ("version=2\ncluster.id=x\nnode.id=1\n", "its version is 2, and this broker reads 0 and 1"),
        ("version=1\ncluster.id=AAEC", "its node.id is missing or no id"),
        ("version=1\nnode.id=1\n", "its cluster.id is missing or no id"),
        ("version=0\ncluster.id=x\nbroker.id=one\n", "its broker.id is missing or no id"),
        ("version=1\ncluster.id=\\u00zz\nnode.id=1\n", "is not an escape of a properties file"),
    ],
)
def test_a_file_that_names_nobody(text: str, problem: str) -> None:
    """An emptied one gave the cluster a new id."""
    fs = MemoryFileSystem()
    fs.write_file("meta.properties", text.encode())
    with pytest.raises(UnreadableFile, match=problem):
        identify_alone(fs, 1, lambda: "new")


def test_a_folder_from_before_clusters_had_ids() -> None:
    fs = MemoryFileSystem()
    fs.write_file("meta.properties", b"version=0\nbroker.id=1\n")
    assert identify_alone(fs, 1, lambda: "new") == "new"


def test_a_folder_that_kafka_2_6_wrote_is_taken_as_it_is() -> None:
    fs = MemoryFileSystem()
    fs.write_file("meta.properties", b"#\n#Sun Nov 22 12:00:00 UTC 2026\nbroker.id=2\nversion=0\ncluster.id=k\n")
    before = fs.read_file("meta.properties")
    identify_member(fs, 2, "k")
    assert fs.read_file("meta.properties") == before
