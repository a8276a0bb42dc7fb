"""Whose a data folder is: meta.properties of a broker alone, and of one of a cluster as Kafka 2.6 writes and checks it."""

from __future__ import annotations

import pytest

from coterie.broker.storage.identity import FolderOfAnother, identify_alone, identify_member, read_identity
from coterie.log.files.filesystem import MemoryFileSystem
from coterie.log.files.findings import Finding, UnreadableFile


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


KAFKAS = b"version=1\ncluster.id=AAECAwQFBgcICQoLDA0ODw\nnode.id=0\n"


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
