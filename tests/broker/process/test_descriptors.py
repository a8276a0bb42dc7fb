"""File descriptors and half-made topics: what fails leaves nothing behind, and lack of descriptors is a line, not a
flood. A broker that cannot start holds nothing: its folder is another's to open, and no descriptor stays open."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from coterie.broker.broker import Broker, CannotListen
from coterie.broker.requests.turns import MAX_TURN_S, finish
from coterie.broker.settings import BrokerSettings
from coterie.broker.storage.disk import DataFolderInUse
from coterie.broker.storage.topics import Topics
from coterie.log.filesystem import MemoryFile, MemoryFileSystem
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.clients.api_versions import ApiVersionsRequest, ApiVersionsResponse
from coterie.wire.messages.topics.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from coterie.wire.messages.topics.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from coterie.wire.messages.topics.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from tests.awaiting import quiet, until
from tests.broker.connections.test_bounds import running
from tests.broker.connections.test_server import Client


def open_descriptors() -> int:
    return len(os.listdir("/dev/fd"))


@contextlib.contextmanager
def descriptors(more: int) -> Iterator[None]:
    """This process may open so many more files."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (open_descriptors() + more, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


class FailingFileSystem(MemoryFileSystem):
    """The ``after``-th call that makes something fails; counts the files that are open."""

    def __init__(self) -> None:
        super().__init__()
        self.after = -1
        self.is_open = 0

    def _count(self) -> None:
        self.after -= 1
        if self.after == 0:
            raise OSError(24, "Too many open files")

    def open(self, path: str) -> MemoryFile:
        self._count()
        self.is_open += 1
        file = super().open(path)

        def close() -> None:
            self.is_open -= 1

        file.close = close  # type: ignore[method-assign]
        return file

    def make_directory(self, path: str) -> None:
        self._count()
        super().make_directory(path)

    def write_file(self, path: str, data: bytes) -> None:
        self._count()
        super().write_file(path, data)


@pytest.mark.parametrize("after", range(1, 12))
def test_a_topic_that_cannot_be_made_leaves_nothing(after: int) -> None:
    fs = FailingFileSystem()
    topics = Topics(fs, BrokerSettings())
    topics.create("before", 1)
    names, is_open = fs.names(""), fs.is_open
    fs.after = after
    with pytest.raises(Refusal) as refused:
        topics.create("t", 5)
    assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert (fs.names(""), fs.is_open, set(topics.by_name)) == (names, is_open, {"before"})
    assert len(topics.create("t", 5).partitions) == 5


@pytest.mark.parametrize("after", range(1, 8))
def test_partitions_that_cannot_be_added_leave_nothing(after: int) -> None:
    fs = FailingFileSystem()
    topics = Topics(fs, BrokerSettings())
    topic = topics.create("t", 2)
    names, is_open = fs.names(""), fs.is_open
    fs.after = after
    with pytest.raises(Refusal):
        finish(topics.adding_partitions(topic, 5))
    assert (fs.names(""), fs.is_open, len(topic.partitions)) == (names, is_open, 2)
    assert topics.by_name["t"] is topic
    assert len(finish(topics.adding_partitions(topic, 5)).partitions) == 5


def test_a_deletion_waits_for_partitions_that_are_being_added() -> None:
    fs = FailingFileSystem()
    topics = Topics(fs, BrokerSettings())
    topic = topics.create("t", 1)
    adding, deleting = topics.adding_partitions(topic, 5), topics.deleting(topic)
    next(adding)
    next(deleting)
    assert set(topics.by_name) == {"t"}
    assert len(finish(adding).partitions) == 5
    finish(deleting)
    assert (fs.names(""), fs.is_open, topics.by_name) == (["topics.json"], 0, {})


async def test_more_partitions_than_descriptors_are_refused(tmp_path: Path) -> None:
    broker = Broker(BrokerSettings({"offsets.topic.num.partitions": "1"}), tmp_path)
    address = await broker.start("127.0.0.1", 0)
    client = Client(*await asyncio.open_connection(*address))
    await client.ask(ApiVersionsRequest(), ApiVersionsResponse, 0)
    before, names = open_descriptors(), sorted(os.listdir(tmp_path))
    with descriptors(100):
        response = await client.ask(CreateTopicsRequest([CreatableTopic("t", 200, 1)]), CreateTopicsResponse, 7)
        assert response.topics[0].error_code == ErrorCode.INVALID_PARTITIONS
        assert "raise ulimit -n" in (response.topics[0].error_message or "")
        assert (open_descriptors(), sorted(os.listdir(tmp_path))) == (before, names)
        small = await client.ask(CreateTopicsRequest([CreatableTopic("t", 3, 1)]), CreateTopicsResponse, 7)
        assert small.topics[0].error_code == 0
        more = CreatePartitionsRequest([CreatePartitionsTopic("t", 200)])
        grown = await client.ask(more, CreatePartitionsResponse, 3)
        assert grown.results[0].error_code == ErrorCode.INVALID_PARTITIONS
    client.writer.close()
    await broker.stop()


async def test_a_request_for_more_than_ten_thousand_partitions_is_refused() -> None:
    """Kafka 4's ReplicationControlManagerTest: the whole request."""
    async with running() as at:
        client = await at.connect()
        request = CreateTopicsRequest([CreatableTopic("a", 9_999, 1), CreatableTopic("b", -1, 1)])
        request.topics.append(CreatableTopic("c", 1, 1))
        response = await client.ask(request, CreateTopicsResponse, 7)
        assert [t.error_code for t in response.topics] == [ErrorCode.POLICY_VIOLATION] * 3
        assert set(at.broker.topics.by_name) == {"t"}


async def test_others_are_answered_while_a_large_topic_is_made_and_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    make, remove = MemoryFileSystem.make_directory, MemoryFileSystem.remove_directory
    made, removed = list[str](), list[str]()

    def slow_make(self: MemoryFileSystem, path: str) -> None:
        time.sleep(MAX_TURN_S / 5)
        made.append(path)
        make(self, path)

    def slow_remove(self: MemoryFileSystem, path: str) -> None:
        time.sleep(MAX_TURN_S / 5)
        removed.append(path)
        remove(self, path)

    async with running() as at:
        monkeypatch.setattr(MemoryFileSystem, "make_directory", slow_make)
        monkeypatch.setattr(MemoryFileSystem, "remove_directory", slow_remove)
        client, other = await at.connect(), await at.connect()
        creating = asyncio.create_task(
            client.ask(CreateTopicsRequest([CreatableTopic("large", 200, 1)]), CreateTopicsResponse, 7)
        )
        await until(lambda: made, "the creation has begun")
        responses = 0
        while not creating.done():
            again = CreateTopicsRequest([CreatableTopic("large", 1, 1)])
            second = await other.ask(again, CreateTopicsResponse, 7)
            assert second.topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS
            responses += 1
        assert responses > 5
        assert creating.result().topics[0].error_code == 0
        request = DeleteTopicsRequest([DeleteTopicState("large")])
        deleting = asyncio.create_task(client.ask(request, DeleteTopicsResponse, 6))
        await until(lambda: removed, "the deletion has begun")
        responses = 0
        while not deleting.done():
            await other.ask(ApiVersionsRequest(), ApiVersionsResponse, 0)
            responses += 1
        assert responses > 5
        assert "large" not in at.broker.topics.by_name


async def test_connections_beyond_the_descriptors_are_refused_with_a_line(caplog: pytest.LogCaptureFixture) -> None:
    async with running() as at:
        before = open_descriptors()
        with descriptors(50):
            clients = []
            with contextlib.suppress(OSError):
                while True:  # the last connects and finds no descriptor on the broker's side
                    clients.append(await asyncio.open_connection(*at.address))
            await quiet()
            assert "no file descriptor is left" in caplog.text
            assert "socket.accept() out of system resource" not in caplog.text
            assert len(caplog.records) < 20
            for _, writer in clients:
                writer.close()
            await quiet()
            fresh = Client(*await asyncio.open_connection(*at.address))
            async with asyncio.timeout(5):
                await fresh.ask(ApiVersionsRequest(), ApiVersionsResponse, 0)
            fresh.writer.close()
        await quiet()
        assert open_descriptors() == before
    assert "Traceback" not in caplog.text


async def test_without_its_address_the_folder_is_free(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(CannotListen):
        await Broker(BrokerSettings(), tmp_path).start("127.0.0.1", taken.getsockname()[1])
    second = Broker(BrokerSettings(), tmp_path)
    await second.start("127.0.0.1", 0)
    await second.stop()


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="Linux shows a process's descriptors")
async def test_without_its_folder_no_descriptor_stays_open(tmp_path: Path) -> None:
    first = Broker(BrokerSettings(), tmp_path)
    await first.start("127.0.0.1", 0)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with pytest.raises(DataFolderInUse):
            await Broker(BrokerSettings(), tmp_path).start("127.0.0.1", 0)
    assert len(os.listdir("/proc/self/fd")) == before
    await first.stop()
