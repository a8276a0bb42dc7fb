"""Whose a data folder is: meta.properties of a broker alone, and of one of a cluster as Kafka 2.6 writes and checks it."""

from __future__ import annotations

import pytest

from coterie.broker.identity import FolderOfAnother, identify_alone, identify_member, read_identity
from coterie.log.filesystem import MemoryFileSystem


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


def test_a_folder_that_kafka_2_6_wrote_is_taken_as_it_is() -> None:
    fs = MemoryFileSystem()
    fs.write_file("meta.properties", b"#\n#Sun Nov 22 12:00:00 UTC 2026\nbroker.id=2\nversion=0\ncluster.id=k\n")
    before = fs.read_file("meta.properties")
    identify_member(fs, 2, "k")
    assert fs.read_file("meta.properties") == before
