"""What clients leave behind in a broker's process, by its resident memory: that of the system, not of Python's objects."""

from __future__ import annotations

import os
import platform
import socket
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from coterie.client.blocking import BlockingProducer
from coterie.runtime.allocator import KEPT_BYTES, LOOKED_AFTER, RETURNED_FROM_BYTES, FreedMemory, freed_memory
from coterie.wire.framing import encode_request
from coterie.wire.messages.logs.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.awaiting import until_in_thread
from tests.broker_process import BrokerProcess

RECORD_BYTES, RECORDS, CONNECTIONS = 900_000, 3, 300
RECEIVED_BYTES = 2_000_000  # of a request that never ends
UNFINISHED = 100
OWN_BYTES = 16 * 1024 * 1024  # of the broker itself, once it has served requests

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="malloc_trim is glibc's")


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def fetch() -> bytes:
    wanted = [FetchTopic("t", partitions=[FetchPartition(0, fetch_offset=0, partition_max_bytes=2**30)])]
    return encode_request(1, "c", FetchRequest(max_wait_ms=0, max_bytes=2**30, topics=wanted), 11)


def fetches_that_are_closed_at_once(address: tuple[str, int]) -> None:
    for _ in range(CONNECTIONS):
        with socket.create_connection(address) as client:
            client.sendall(fetch())


def responses_that_are_not_read(address: tuple[str, int]) -> None:
    clients = [socket.create_connection(address) for _ in range(CONNECTIONS)]
    for client in clients:
        client.sendall(fetch())
    for client in clients:
        client.recv(1)  # it has arrived, and fills the socket
        client.close()


def requests_that_never_end(address: tuple[str, int]) -> None:
    for _ in range(UNFINISHED):
        with socket.create_connection(address) as client:
            client.sendall(struct.pack(">i", 50_000_000) + bytes(RECEIVED_BYTES))


@pytest.mark.parametrize(
    "attack", [fetches_that_are_closed_at_once, responses_that_are_not_read, requests_that_never_end]
)
def test_what_closed_connections_held_is_returned(attack: Callable[[tuple[str, int]], None], tmp_path: Path) -> None:
    """Before, 300 fetches of 27 kB in all left 740 MB."""
    broker = BrokerProcess(tmp_path)
    try:
        with BlockingProducer({"bootstrap.servers": broker.address, "batch.size": 1}) as producer:
            for _ in range(RECORDS):
                producer.send_and_wait("t", os.urandom(RECORD_BYTES), partition=0)
        pid = broker.process.pid
        # What was in use when memory was last returned counts, and what has come since.
        most_bytes = resident_bytes(pid) + OWN_BYTES + 2 * RETURNED_FROM_BYTES + KEPT_BYTES
        attack(("127.0.0.1", broker.port))
        with socket.create_connection(("127.0.0.1", broker.port)) as client:
            client.sendall(fetch())
            client.recv(4, socket.MSG_WAITALL)  # what came before is handled by now
        until_in_thread(
            lambda: resident_bytes(pid) < most_bytes,
            lambda: f"{resident_bytes(pid):,} bytes are resident, of at most {most_bytes:,}",
        )
    finally:
        broker.stop()


def test_memory_is_returned_once_the_process_has_grown(tmp_path: Path) -> None:
    trimmed: list[int] = []

    class Library:
        malloc_trim = staticmethod(trimmed.append)

    statm = tmp_path / "statm"

    def becomes(size: int) -> None:
        statm.write_text(f"9 {size // os.sysconf('SC_PAGE_SIZE')} 1 1 0 1 0\n")

    becomes(50_000_000)
    memory = FreedMemory(Library(), statm)  # type: ignore[arg-type]
    becomes(50_000_000 + RETURNED_FROM_BYTES - 2**20)
    assert not memory.give_back()
    becomes(30_000_000)
    assert not memory.give_back()
    becomes(30_000_000 + RETURNED_FROM_BYTES + 2**20)
    for _ in range(LOOKED_AFTER):
        memory.connection_closed()
    assert trimmed == [KEPT_BYTES]
    assert not memory.give_back(), "it lives, and is not looked for again"
    memory.connection_closed()
    assert memory.give_back(), "it was in use by connections, and may be free by now"
    assert not memory.give_back()
    memory.close()


def test_a_c_library_without_malloc_trim_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctypes.CDLL", lambda name: object())
    assert freed_memory() is None
