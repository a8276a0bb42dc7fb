"""A broker of a cluster whose disk fails: it stops, others lead at once, and its next start does not trust its logs."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import cast

import pytest

from coterie.broker.cluster.hosted_topics import HostedTopics
from coterie.broker.settings import BrokerSettings
from coterie.broker.storage.disk import DiskFileSystem
from coterie.broker.storage.flusher import Flusher
from coterie.broker.storage.last_run import BootFile
from coterie.broker.storage.topics import Topics
from coterie.log.config import LogConfig
from coterie.log.filesystem import FileSystem, MemoryFileSystem
from coterie.log.partition_log import PartitionLog
from coterie.records.encoding import encode_batch
from coterie.replication.replicas import Replicas
from coterie.replication.states import (
    EPOCH_DURING_DELETE,
    PartitionState,
    ReplicaError,
    ReplicationConfig,
    StoppedReplica,
)
from coterie.testing import LocalBroker
from coterie.testing.cluster_brokers import ClusterBrokers
from coterie.testing.faults import Faults
from tests.awaiting import until, until_in_thread

TOPIC = "orders"
LOG = f"{TOPIC}-0/{0:020}.log"


def run(story: Callable[[ClusterBrokers], Awaitable[None]]) -> None:
    async def with_brokers() -> None:
        cluster = ClusterBrokers({}, 3, (), Faults(), ())
        await cluster.start()
        try:
            await story(cluster)
        finally:
            await cluster.stop()

    asyncio.run(with_brokers())


async def with_topic(cluster: ClusterBrokers) -> None:
    controller = cluster.controller()
    assert controller is not None
    changes = controller.broker.topic_changes
    assert changes is not None
    await changes.create(TOPIC, {0: (1, 2, 3)}, {})
    await until(lambda: cluster.leader(TOPIC, 0) is not None, "a leader")


def test_an_fsync_that_failed() -> None:
    async def story(cluster: ClusterBrokers) -> None:
        await with_topic(cluster)
        failing = cluster.brokers[1]
        fs = failing.broker._fs
        BootFile(fs).write()
        failing.broker._disk_failed(OSError(errno.EIO, "I/O error"))
        assert failing.broker.failed.is_set()
        failing.is_running = False
        await failing.broker.stop()
        assert BootFile(fs).may_have_lost_records(was_clean=False)
        assert not fs.exists(".kafka_cleanshutdown")
        await until(lambda: (one := cluster.leader(TOPIC, 0)) is not None and one.broker_id != 1, "another leader")

    run(story)


def log_bytes(cluster: LocalBroker, broker_id: int) -> bytes:
    assert cluster._cluster is not None
    fs = cluster._cluster.brokers[broker_id].broker._fs
    assert isinstance(fs, MemoryFileSystem)
    return bytes(fs.files[LOG].data)


def test_a_log_that_rotted_is_filled_by_its_leader() -> None:
    """The replica leaves the ISR, so that its log can be cut at the gap; the leader has all records."""
    with LocalBroker(brokers=3) as cluster:
        cluster.create_topic(TOPIC, 1)
        for value in (b"one", b"two", b"three"):
            cluster.produce(TOPIC, value)
        leader = cluster.leader_of(TOPIC)
        follower = min({1, 2, 3} - {leader})
        until_in_thread(lambda: log_bytes(cluster, follower) == log_bytes(cluster, leader), "all records")
        assert cluster._cluster is not None
        fs = cluster._cluster.brokers[follower].broker._fs
        assert isinstance(fs, MemoryFileSystem)
        BootFile(fs).write()  # the machine does not go down
        cluster.kill(follower)
        fs.files[LOG].data[len(log_bytes(cluster, leader)) // 2] ^= 1
        cluster.restart(follower)
        until_in_thread(lambda: cluster.in_sync(TOPIC) == {1, 2, 3}, "all in sync again")
        assert log_bytes(cluster, follower) == log_bytes(cluster, leader)
        assert [name for name in fs.names(f"{TOPIC}-0") if ".damaged-" in name]


@pytest.mark.parametrize("rotted", [False, True])
def test_no_isr_may_count_on_a_log_with_a_gap(rotted: bool) -> None:
    """The broker leaves the ISRs before it registers, as after a power cut."""
    fs = MemoryFileSystem()
    BootFile(fs).write()
    log = PartitionLog.open(fs, f"{TOPIC}-0", LogConfig(), clean=True, high_watermark=0)
    for _ in range(3):
        log.append(encode_batch([(0, None, b"value", ())]), 0)
    log.close_files()
    fs.files[LOG].data[len(fs.files[LOG].data) // 2] ^= rotted
    topics = Topics(fs, BrokerSettings(), in_cluster=True)
    topics.load()
    assert topics.lost_power is rotted


class FullDisk(MemoryFileSystem):
    """No new folder can be made."""

    def make_directory(self, path: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", path)


class KeepsFolders(MemoryFileSystem):
    """No folder can be removed."""

    def remove_directory(self, path: str) -> None:
        raise OSError(errno.EIO, "I/O error", path)


def hosted_on(fs: FileSystem, failures: list[Exception]) -> tuple[HostedTopics, Replicas]:
    """Of broker 1, which is registered in epoch 5."""
    settings = BrokerSettings()
    topics = Topics(fs, settings, in_cluster=True)
    topics.load()
    unused = cast(Flusher, None)  # nothing is appended
    hosted = HostedTopics(
        topics,
        unused,
        settings,
        "c",
        lambda: 0,
        lambda partition: None,
        lambda names: None,
        lambda topic: None,
        failures.append,
    )
    replicas = Replicas(1, ReplicationConfig(), hosted.open_log, hosted.remove_log)
    replicas.registered(5)
    return hosted, replicas


LED = {(TOPIC, 0): PartitionState(1, 0, (1,), 1, 0, (1,))}


def test_a_log_that_cannot_be_made() -> None:
    """Its partition is refused, the others of the request are not, and the broker stops."""
    failures, fs = list[Exception](), FullDisk()
    BootFile(fs).write()
    _, replicas = hosted_on(fs, failures)
    refused, effects = replicas.leader_and_isr(1, 5, LED, 0)
    assert (refused, effects) == ({(TOPIC, 0): ReplicaError.KAFKA_STORAGE_ERROR}, [])
    assert [str(failure) for failure in failures] == ["[Errno 28] No space left on device: 'orders-0'"]
    assert not BootFile(fs).may_have_lost_records(was_clean=False)


class RefusesWrites(MemoryFileSystem):
    """From ``error`` on no file can be written."""

    error: int | None = None

    def write_file(self, path: str, data: bytes) -> None:
        if self.error is not None:
            raise OSError(self.error, os.strerror(self.error), path)
        super().write_file(path, data)


@pytest.mark.parametrize(("error", "stops"), [(errno.EROFS, True), (errno.EIO, True), (errno.ENOSPC, False)])
def test_a_checkpoint_that_cannot_be_written(error: int, stops: bool) -> None:
    """The file system is read-only, or broken: the broker stops, which would lead for ever and append nothing, and its next
    start does not trust its logs, whose writes may have failed as well. A full disk may have space again."""
    failures, fs = list[Exception](), RefusesWrites()
    hosted, replicas = hosted_on(fs, failures)
    BootFile(fs).write()
    assert replicas.leader_and_isr(1, 5, LED, 0)[0] == {}
    hosted.save_high_watermarks()
    fs.error = error
    with pytest.raises(OSError, match=os.strerror(error)):
        hosted.save_high_watermarks()
    assert bool(failures) is stops
    assert BootFile(fs).may_have_lost_records(was_clean=False) is stops


def test_a_boot_file_that_cannot_be_removed(caplog: pytest.LogCaptureFixture) -> None:
    """On a file system that is read-only: the operator is asked to, since the next start would trust the logs."""

    class ReadOnly(RefusesWrites):
        def remove(self, path: str) -> None:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)

    failures, fs = list[Exception](), ReadOnly()
    hosted, _ = hosted_on(fs, failures)
    BootFile(fs).write()
    fs.error = errno.EROFS
    with pytest.raises(OSError, match="Read-only"):
        hosted.save_high_watermarks()
    assert len(failures) == 1
    (message,) = [record.message for record in caplog.records if record.levelname == "CRITICAL"]
    assert message == (
        "boot-id cannot be removed: [Errno 30] Read-only file system: 'boot-id'; remove it before the next start, which would "
        "trust the end of the logs"
    )


def test_a_log_that_cannot_be_removed() -> None:
    """The broker stops: a later topic of that name would have its records."""
    failures = list[Exception]()
    hosted, replicas = hosted_on(KeepsFolders(), failures)
    assert replicas.leader_and_isr(1, 5, LED, 0)[0] == {}
    stopped = {(TOPIC, 0): StoppedReplica(EPOCH_DURING_DELETE, delete=True)}
    assert replicas.stop_replicas(1, 5, stopped)[0] == {(TOPIC, 0): ReplicaError.KAFKA_STORAGE_ERROR}
    assert [str(failure) for failure in failures] == ["[Errno 5] I/O error: 'orders-0'"]
    assert replicas.leader_and_isr(1, 5, LED, 0)[0] == {}
    hosted.forgotten([(TOPIC, 0)])
    assert len(failures) == 2


def test_a_log_that_was_removed_by_hand(tmp_path: Path) -> None:
    """Nothing is left of it, so that the broker goes on."""
    failures = list[Exception]()
    _, replicas = hosted_on(DiskFileSystem(tmp_path), failures)
    assert replicas.leader_and_isr(1, 5, LED, 0)[0] == {}
    shutil.rmtree(tmp_path / f"{TOPIC}-0")
    stopped = {(TOPIC, 0): StoppedReplica(EPOCH_DURING_DELETE, delete=True)}
    assert replicas.stop_replicas(1, 5, stopped) == ({}, [])
    assert failures == []
