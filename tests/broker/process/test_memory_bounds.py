"""Each row of docs/limits.md that bounds memory, by the resident memory of a broker's process at its peak: what clients can
have it hold stays within the bound, and without the limit is more, so that the figure is not one that any broker would keep."""

from __future__ import annotations

import gzip
import os
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from coterie.client.blocking import BlockingProducer
from coterie.records.encoding import encode_batch
from coterie.wire.declaration import Message
from coterie.wire.framing import encode_request
from coterie.wire.messages.clients.push_telemetry import PushTelemetryRequest
from coterie.wire.messages.groups.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from coterie.wire.messages.logs.fetch import FetchPartition, FetchRequest, FetchTopic
from coterie.wire.messages.logs.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from coterie.wire.messages.topics.metadata import MetadataRequest, MetadataRequestTopic
from tests.broker.limits_page import LIMITS
from tests.broker_process import BrokerProcess

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="Linux's /proc")]

MIB = 1 << 20
SLACK = 24 * MIB  # of Python's own and the C heap's: pieces of requests, and what the allocator keeps
Address = tuple[str, int]


class Bound(NamedTuple):
    """``attack``, which lasts as long as its context, may have a broker with ``settings`` grow by ``bytes``; with
    ``without``, if any, it grows by more."""

    attack: Callable[[Address], AbstractContextManager[None]]
    bytes: int
    settings: tuple[str, ...] = ()
    without: tuple[str, ...] = ()


# -- attacks ----------------------------------------------------------------------------------------------------------


@contextmanager
def connected(address: Address, count: int) -> Iterator[list[socket.socket]]:
    with ExitStack() as stack:
        yield [stack.enter_context(socket.create_connection(address, timeout=20)) for _ in range(count)]


def send(client: socket.socket, data: bytes, timeout_s: float = 2.0) -> None:
    """As far as the broker takes it."""
    client.settimeout(timeout_s)
    with suppress(OSError):
        client.sendall(data)


def until_responded(address: Address) -> None:
    """A request on a new connection has its response: what came before is handled."""
    with connected(address, 1) as [client]:
        client.sendall(encode_request(1, "c", MetadataRequest([]), 9))
        assert client.recv(4, socket.MSG_WAITALL)


def framed(request: Message, version: int) -> bytes:
    return encode_request(1, "c", request, version)


@contextmanager
def one_large_request(address: Address) -> Iterator[None]:
    with connected(address, 1) as [client]:
        send(client, struct.pack(">i", 120 * MIB))
        send(client, bytes(100 * MIB))
        until_responded(address)
        yield


@contextmanager
def many_requests_that_never_end(address: Address) -> Iterator[None]:
    with connected(address, 24) as clients:
        for client in clients:
            send(client, struct.pack(">i", 9 * MIB) + bytes(8 * MIB), 1.0)
        until_responded(address)
        yield


@contextmanager
def many_elements(address: Address) -> Iterator[None]:
    with connected(address, 1) as [client]:
        send(client, framed(MetadataRequest([MetadataRequestTopic(name=f"t{n}") for n in range(400_000)]), 9))
        client.settimeout(1)  # a refusal comes at once; the response without the limit takes half a minute
        with suppress(OSError):
            client.recv(1)
        yield


@contextmanager
def many_tags(address: Address) -> Iterator[None]:
    """A request header with tagged fields alone: each is three bytes, and would be an object."""
    count = 1_000_000
    tags = b"".join(bytes([n & 0x7F | 0x80, n >> 7 & 0x7F | 0x80, n >> 14, 0]) for n in range(count))
    header = (
        struct.pack(">hhih", 3, 9, 1, 1) + b"c" + bytes([count & 0x7F | 0x80, count >> 7 & 0x7F | 0x80, count >> 14])
    )
    with connected(address, 1) as [client]:
        send(client, struct.pack(">i", len(header) + len(tags)) + header + tags)
        client.settimeout(30)
        with suppress(OSError):
            client.recv(1)
        yield


def produced(address: Address, count: int, size: int) -> None:
    with BlockingProducer({"bootstrap.servers": f"{address[0]}:{address[1]}", "batch.size": 1}) as producer:
        for _ in range(count):
            producer.send_and_wait("t", os.urandom(size), partition=0)


def fetch(version: int = 11) -> bytes:
    wanted = [FetchTopic("t", partitions=[FetchPartition(0, fetch_offset=0, partition_max_bytes=2**30)])]
    return framed(FetchRequest(max_wait_ms=0, max_bytes=2**30, topics=wanted), version)


@contextmanager
def responses_that_nobody_reads(address: Address) -> Iterator[None]:
    produced(address, 6, 900_000)
    with connected(address, 60) as clients:
        for client in clients:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            client.sendall(fetch())
        until_responded(address)
        yield


@contextmanager
def one_large_fetch(address: Address) -> Iterator[None]:
    produced(address, 60, 900_000)
    with connected(address, 1) as [client]:
        client.sendall(fetch())
        client.recv(4, socket.MSG_WAITALL)
        yield


@contextmanager
def batch_that_unfolds(address: Address) -> Iterator[None]:
    """To 400 MB, out of 400 kB."""
    batch = bytearray(encode_batch([(0, None, b"v", ())]))
    records = gzip.compress(bytes(400 * MIB), 1)
    del batch[61:]
    batch += records
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    struct.pack_into(">h", batch, 21, 1)  # gzip
    import google_crc32c

    struct.pack_into(">I", batch, 17, google_crc32c.value(bytes(batch[21:])))
    topics = [TopicProduceData("t", partition_data=[PartitionProduceData(0, bytes(batch))])]
    produced(address, 1, 10)
    with connected(address, 1) as [client]:
        send(client, framed(ProduceRequest(None, -1, 30_000, topics), 9))
        client.settimeout(60)
        assert client.recv(4, socket.MSG_WAITALL)
        yield


@contextmanager
def converted_batches(address: Address) -> Iterator[None]:
    """Fetch 2 of 60 batches, each of which is converted to messages of an old format."""
    produced(address, 60, 900_000)
    for offset in range(60):
        wanted = [FetchTopic("t", partitions=[FetchPartition(0, fetch_offset=offset, partition_max_bytes=MIB)])]
        with connected(address, 1) as [client]:
            client.sendall(framed(FetchRequest(max_wait_ms=0, topics=wanted), 2))
            size = struct.unpack(">i", client.recv(4, socket.MSG_WAITALL))[0]
            client.recv(size, socket.MSG_WAITALL)
    yield


@contextmanager
def fetch_sessions(address: Address) -> Iterator[None]:
    produced(address, 1, 10)
    names = [FetchTopic("t", partitions=[FetchPartition(n, fetch_offset=0) for n in range(100)])]
    request = framed(FetchRequest(max_wait_ms=0, max_bytes=1, topics=names, session_id=0, session_epoch=0), 11)
    with connected(address, 1) as [client]:
        for _ in range(3_000):
            client.sendall(request)
            size = struct.unpack(">i", client.recv(4, socket.MSG_WAITALL))[0]
            client.recv(size, socket.MSG_WAITALL)
        yield


@contextmanager
def pushed_metrics(address: Address) -> Iterator[None]:
    with connected(address, 8) as clients:
        for client in clients:
            send(client, framed(PushTelemetryRequest(bytes(16), 1, metrics=bytes(12 * MIB)), 0))
        until_responded(address)
        yield


@contextmanager
def members_that_join(address: Address) -> Iterator[None]:
    """100 of one group, of 500 kB each."""
    with connected(address, 100) as clients:
        for client in clients:
            protocols = [JoinGroupRequestProtocol("range", os.urandom(500_000))]
            client.sendall(framed(JoinGroupRequest("g", 60_000, 60_000, "", None, "consumer", protocols), 3))
        until_responded(address)
        yield


# -- the rows ---------------------------------------------------------------------------------------------------------

RECEIVED = "bytes of requests larger than 65,536 that are being received, of all connections"
UNREAD = "bytes of responses that were not read, of all connections"
BOUNDS = {
    "bytes of one request": Bound(
        one_large_request, 0, ("socket.request.max.bytes=1048576",), ("socket.request.max.bytes=200000000",)
    ),
    "array elements of one request, in all": Bound(
        many_elements, 20 * MIB, (), ("coterie.request.max.elements=100000000",)
    ),
    "tagged fields of a request's header": Bound(many_tags, 8 * MIB),
    RECEIVED: Bound(
        many_requests_that_never_end, 32 * MIB, ("queued.max.request.bytes=16777216",), ("queued.max.request.bytes=-1",)
    ),
    UNREAD: Bound(
        responses_that_nobody_reads,
        24 * MIB,
        ("coterie.queued.max.response.bytes=16777216",),
        ("coterie.queued.max.response.bytes=2000000000",),
    ),
    "bytes of the response to a fetch": Bound(one_large_fetch, 8 * MIB, ("fetch.max.bytes=1048576",)),
    "bytes to which a compressed batch, or a message of an old format, unfolds": Bound(
        batch_that_unfolds, 3 * 64 * MIB
    ),
    "bytes of converted batches that are kept for the next Fetch 0 to 3": Bound(converted_batches, 3 * 16 * MIB),
    "incremental fetch sessions": Bound(
        fetch_sessions,
        8 * MIB,
        ("max.incremental.fetch.session.cache.slots=100",),
        ("max.incremental.fetch.session.cache.slots=100000",),
    ),
    "bytes of metrics in one push": Bound(pushed_metrics, 2 * 8 * 12 * MIB),
    "members of a group": Bound(members_that_join, 8 * MIB, ("group.max.size=4",), ("group.max.size=1000",)),
}
# The other rows: where their memory is measured, what bounds it, or what they bound instead.
ELSEWHERE = {
    "bytes of one request before authentication, on a listener with SASL": "smaller than one request; test_sasl",
    "bytes of a handshake of TLS that wait for its next step": "64 KiB of each connection",
    "bytes of responses that were not read, of one connection": "of all connections, here",
    "time without progress of a connection that holds bytes of the two limits above, while they are short": "a time",
    "bytes of a member's metadata for one protocol": "a part of one request",
    "bytes of a committed offset's metadata": "a part of one request",
    "bytes of a batch": "a part of one request",
    "bytes of a record in a compressed batch": "less than what a batch unfolds to",
    "bytes by which the process stays larger after what it held is freed (Linux)": "test_resident_memory",
    "bytes of a user's name in a login by PLAIN": "a part of one request",
    "bytes of the keys that tokens of OAUTHBEARER are checked by, from a URL": "1 MiB",
    "delegation tokens": "access/test_memory_of_access",
    "characters of the names of a delegation token's owner, requester and renewers, in all": "as delegation tokens",
    "users, client ids and addresses whose rates are remembered for quotas, of each kind": "access/test_memory_of_access",
    "denials by ACLs that are remembered": "access/test_memory_of_access",
    "requests of one connection that wait for their responses": "behind a fetch they wait in the socket",
    "connections": "10,000 take 40 MB: `./run conformance --part hostile`",
    "partitions of a topic": "9,999 take 90 MB: `./run conformance --part hostile`",
    "partitions in one CreateTopics": "as partitions of a topic",
    "names that a request repeats and that are answered each time": "test_turns; a response",
    "topics in a response to DescribeTopicPartitions, in partitions": "a response",
    "topics of a member's subscription that the coordinator reads": "a part of one request",
    "members of a group of the consumer protocol": "as members of a group",
    "members of a group of Kafka Streams": "as members of a group",
    "members of a share group": "as members of a group",
    "records of a partition in flight in a share group; a group may set up to "
    "`group.share.max.partition.max.record.locks`": "an offset and a state each",
    "share sessions": "as fetch sessions",
    "producers of transactions without records in a partition whose refused batches it remembers": "an id each",
    "threads in which batches are unfolded, checked, or converted for Fetch 0 to 3": "two at once, in each figure here",
    **dict.fromkeys(
        (
            "time for the handshake of TLS and the first login, in ms",
            "work for one connection, or for one request that may take long, before others get their turn",
            "time for which a fetch waits",
            "time without a request",
            "time by which the response to a failed login is delayed, in ms",
            "time that a login lasts, in ms; 0 is for ever",
            "time in which the last responses of a closed connection are read",
        ),
        "a time",
    ),
    "connections of one address; `max.connections.per.ip.overrides` has another number for some": "as connections",
    "iterations of a user's SCRAM credentials": "a time",
    "deliveries of a record in a share group; a group may set up to `group.share.max.delivery.count.limit`": "a count",
    "file descriptors": "descriptors",
    "lines of one kind about clients in the log": "lines",
    "lines in the log about denials of one principal in a minute": "lines",
    "rulings by ACLs that are kept, of principals and names of up to 512 characters": "some 2 kB each at most",
}


def test_each_row_is_measured_or_has_its_reason() -> None:
    assert BOUNDS.keys() | ELSEWHERE.keys() == {limit.on for limit in LIMITS}
    assert not BOUNDS.keys() & ELSEWHERE.keys()


def grown_by(folder: Path, bound: Bound, settings: tuple[str, ...], *, within_s: float, enough: float) -> int:
    """How much larger the process was at its peak than when it had served a first request: as soon as that is more than
    ``enough``, or after ``within_s`` of an attack under way."""
    options = [word for setting in settings for word in ("--set", setting)]
    broker = BrokerProcess(folder, *options, log=folder.parent / "log")
    try:
        address = "127.0.0.1", broker.port
        until_responded(address)
        Path(f"/proc/{broker.process.pid}/clear_refs").write_text("5")  # the peak begins here
        before = status(broker.process.pid, "VmRSS")
        with bound.attack(address):
            deadline = time.monotonic() + within_s
            while (grown := status(broker.process.pid, "VmHWM") - before) <= enough and time.monotonic() < deadline:
                time.sleep(0.02)
        return grown
    finally:
        broker.kill()


def status(pid: int, name: str) -> int:
    (line,) = (line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith(f"{name}:"))
    return int(line.split()[1]) * 1024


@pytest.mark.parametrize("on", BOUNDS)
def test_the_broker_grows_by_the_bound_at_most(on: str, tmp_path: Path) -> None:
    bound = BOUNDS[on]
    grown = grown_by(tmp_path / "data", bound, bound.settings, within_s=1, enough=bound.bytes + SLACK)
    assert grown < bound.bytes + SLACK, f"{grown / MIB:.0f} MiB, of at most {(bound.bytes + SLACK) / MIB:.0f}"


@pytest.mark.parametrize("on", [on for on, bound in BOUNDS.items() if bound.without])
def test_without_the_limit_it_grows_by_more(on: str, tmp_path: Path) -> None:
    bound = BOUNDS[on]
    grown = grown_by(tmp_path / "data", bound, bound.without, within_s=60, enough=bound.bytes + SLACK)
    assert grown > bound.bytes + SLACK, f"{grown / MIB:.0f} MiB, of at most {(bound.bytes + SLACK) / MIB:.0f}"
