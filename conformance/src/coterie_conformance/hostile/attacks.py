"""The attacks of hostile, broken and careless clients, each as a function of the broker's address and an amount.

An attack uses plain sockets, closes them when it is done, deletes the topics that it made, and returns a few words about what
came back. A connection that the broker closes is no failure: the bystander and the broker's process are what counts.
"""

from __future__ import annotations

import contextlib
import random
import select
import socket
import struct
import time
import zlib
from collections.abc import Iterator

import google_crc32c

from coterie.client.connection.blocking_socket import BrokerSocket
from coterie.client.errors import KafkaError, check
from coterie.records.encoding import encode_batch
from coterie.wire.apis import APIS
from coterie.wire.declaration import Message
from coterie.wire.framing import encode_request
from coterie.wire.messages.groups.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from coterie.wire.messages.groups.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from coterie.wire.messages.logs.fetch import FetchPartition, FetchRequest, FetchTopic
from coterie.wire.messages.logs.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from coterie.wire.messages.logs.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from coterie.wire.messages.settings.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from coterie.wire.messages.topics.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from coterie.wire.messages.topics.delete_topics import DeleteTopicsRequest, DeleteTopicState
from coterie.wire.primitives import write_unsigned_varint
from coterie_conformance.hostile.target import Address, Attack

PLAIN, COMPACTED = "hostile-plain", "hostile-compacted"
PRODUCE_VERSION, FETCH_VERSION, LIST_VERSION, COMMIT_VERSION, JOIN_VERSION = 9, 12, 7, 7, 5
RESPONSE_S = 120.0
BATCHES_PER_REQUEST = 100
_CRC_AT, _ATTRIBUTES_AT = 17, 21
GZIP, ZSTD = 1, 4


@contextlib.contextmanager
def sockets(address: Address, count: int) -> Iterator[list[socket.socket]]:
    """So many connections; refused ones are left out."""
    opened: list[socket.socket] = []
    try:
        for _ in range(count):
            with contextlib.suppress(OSError):
                opened.append(socket.create_connection(address, RESPONSE_S))
        yield opened
    finally:
        for s in opened:
            s.close()


def send(s: socket.socket, data: bytes) -> bool:
    """False where the broker has closed the connection."""
    try:
        s.sendall(data)
    except OSError:
        return False
    return True


def receive(s: socket.socket) -> bytes | None:
    """The next response's frame; None where the connection is closed."""
    try:
        size = int.from_bytes(_exactly(s, 4), "big")
        return _exactly(s, size)
    except OSError:
        return None


def _exactly(s: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = s.recv(min(size - len(data), 1 << 20))
        if not piece:
            raise ConnectionError("closed")
        data += piece
    return bytes(data)


def frame(request: Message, version: int) -> bytes:
    """A request as a client sends it, its length in front."""
    return encode_request(7, "hostile", request, version)


def make_topics(address: Address) -> None:
    """The topics that attacks write to."""
    compact = [CreatableTopicConfig("cleanup.policy", "compact")]
    broker = BrokerSocket(*address)
    request = CreateTopicsRequest(
        [
            CreatableTopic(PLAIN, BATCHES_PER_REQUEST, 1),
            CreatableTopic(COMPACTED, BATCHES_PER_REQUEST, 1, configs=compact),
        ]
    )
    for result in broker.request(request).topics:
        check(result.error_code, result.error_message)
    broker.close()


def _produce(topic: str, *batches: bytes) -> bytes:
    """One request, a partition for each batch."""
    data = [PartitionProduceData(index, batch) for index, batch in enumerate(batches)]
    return frame(ProduceRequest(None, -1, 10_000, [TopicProduceData(topic, partition_data=data)]), PRODUCE_VERSION)


# -- bytes ------------------------------------------------------------------------------------------------------------


def random_frames(address: Address, amount: int, rng: random.Random) -> str:
    """Right headers with random bodies, wild sizes, and plain noise."""
    served = [
        (key, version) for key, api in APIS.items() for version in range(api.advertised.first, api.advertised.last)
    ]
    closed = 0
    for _ in range(amount):
        s = socket.create_connection(address, RESPONSE_S)
        body = rng.randbytes(rng.randrange(0, 60))
        if rng.random() < 0.8:
            key, version = rng.choice(served)
            body = struct.pack(">hhih", key, version, 1, -1) + rng.choice((b"", b"\0")) + body
        size = rng.choice((len(body),) * 8 + (2**31 - 1, -1))
        if send(s, struct.pack(">i", size) + body):
            s.settimeout(0.002)
            with contextlib.suppress(OSError):
                closed += s.recv(64) == b""
        s.close()
    return f"{closed} connections closed at once"


def lying_batches(address: Address, amount: int, rng: random.Random) -> str:
    """Batches whose bytes were changed and whose checksums are right, a hundred in a request."""
    whole = encode_batch([(1, b"key", b"value" * 5, (("header", b"x"),)) for _ in range(3)])
    requests = 0
    s = socket.create_connection(address, RESPONSE_S)
    for _ in range(0, amount, BATCHES_PER_REQUEST):
        batches = [_lie(whole, rng) for _ in range(BATCHES_PER_REQUEST)]
        if not send(s, _produce(rng.choice((PLAIN, COMPACTED)), *batches)) or receive(s) is None:
            s.close()
            s = socket.create_connection(address, RESPONSE_S)
        requests += 1
    send(s, frame(_by_time(COMPACTED), LIST_VERSION))
    receive(s)
    s.close()
    return f"{requests} requests"


def _lie(batch: bytes, rng: random.Random) -> bytes:
    changed = bytearray(batch)
    for _ in range(rng.randrange(1, 4)):
        changed[rng.randrange(_ATTRIBUTES_AT, len(changed))] = rng.choice(
            (0, 1, 0x7F, 0x80, 0xFE, 0xFF, rng.randrange(256))
        )
    struct.pack_into(">I", changed, _CRC_AT, google_crc32c.value(bytes(changed[_ATTRIBUTES_AT:])))
    return bytes(changed)


def bombs(address: Address, amount: int, rng: random.Random) -> str:
    """A few kilobytes that unpack to ``amount`` MB of zeros, to both topics, and searched by time."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    packed = b"".join(packer.compress(bytes(1 << 20)) for _ in range(amount)) + packer.flush()
    responded = 0
    for topic in (PLAIN, COMPACTED):
        for codec, data in ((GZIP, packed), (ZSTD, rng.randbytes(200))):
            batch = bytearray(encode_batch([(1, b"k", b"v", ())])[:61]) + data
            struct.pack_into(">i", batch, 8, len(batch) - 12)
            struct.pack_into(">h", batch, _ATTRIBUTES_AT, codec)
            struct.pack_into(">I", batch, _CRC_AT, google_crc32c.value(bytes(batch[_ATTRIBUTES_AT:])))
            with sockets(address, 1) as (s,):
                send(s, _produce(topic, bytes(batch)) + frame(_by_time(topic), LIST_VERSION))
                responded += (receive(s) is not None) + (receive(s) is not None)
    return f"{responded} of 8 requests answered"


def _by_time(topic: str) -> ListOffsetsRequest:
    return ListOffsetsRequest(topics=[ListOffsetsTopic(topic, [ListOffsetsPartition(0, timestamp=0)])])


# -- connections ------------------------------------------------------------------------------------------------------


def unread_responses(address: Address, amount: int, rng: random.Random) -> str:
    """``amount`` connections that ask for 50 MB twelve times over and read nothing."""
    batch = encode_batch([(1, b"k", rng.randbytes(900_000), ())])
    with sockets(address, 1) as (s,):
        for _ in range(55):
            send(s, _produce(PLAIN, batch))
            receive(s)
    with sockets(address, amount) as opened:
        for s in opened:
            send(s, frame(_fetch(0), FETCH_VERSION) * 12)
        time.sleep(5)
    return f"{amount * 12} fetches"


def _fetch(wait_ms: int, offset: int = 0, min_bytes: int = 1) -> FetchRequest:
    requested = FetchPartition(0, fetch_offset=offset, partition_max_bytes=2**31 - 1)
    return FetchRequest(max_wait_ms=wait_ms, min_bytes=min_bytes, topics=[FetchTopic(PLAIN, partitions=[requested])])


def slow_writers(address: Address, amount: int, rng: random.Random) -> str:
    """Requests of 100 MB of which half is sent, and others a byte at a time."""
    piece = bytes(1 << 20)
    with sockets(address, amount) as opened:
        large, small = opened[: max(1, amount // 10)], opened[max(1, amount // 10) :]
        for s in opened:
            send(s, struct.pack(">i", 100_000_000 if s in large else 10_000))
        for s in large:
            s.setblocking(False)
        ends_s = time.monotonic() + 8
        sent = dict.fromkeys(large, 0)
        while time.monotonic() < ends_s:
            for s in select.select([], [s for s in large if sent[s] < 50_000_000], [], 0.1)[1]:
                try:
                    sent[s] += s.send(piece)
                except OSError:
                    sent[s] = 50_000_000
            for s in small:
                send(s, b"\0")
    return f"{sum(sent.values()) / 1e6:.0f} MB sent by {len(large)}"


def connections(address: Address, amount: int, rng: random.Random) -> str:
    """Connections that do nothing, some of which have sent half a header."""
    with sockets(address, amount) as opened:
        for s in opened[::10]:
            send(s, b"\0\0\0")
        time.sleep(1)
        return f"{len(opened)} open at once"


def abandoned_fetches(address: Address, amount: int, rng: random.Random) -> str:
    """Fetches that wait for weeks, their connections closed at once; and as many that stay, with records produced meanwhile."""
    with sockets(address, 1) as (producer,):
        waits_ms = []
        for opened_for_good in (False, True):
            with sockets(address, amount) as opened:
                for s in opened:
                    send(s, frame(_fetch(2**31 - 1, _end_offset(address), 2**31 - 1), FETCH_VERSION))
                if not opened_for_good:
                    for s in opened:
                        s.close()
                for _ in range(20):
                    started_s = time.perf_counter()
                    send(producer, _produce(PLAIN, encode_batch([(1, b"k", bytes(1000), ())])))
                    receive(producer)
                    waits_ms.append((time.perf_counter() - started_s) * 1000)
    return f"a produce took {sorted(waits_ms)[len(waits_ms) // 2]:.1f} ms, at most {max(waits_ms):.0f} ms"


def _end_offset(address: Address) -> int:
    broker = BrokerSocket(*address)
    try:
        requested = ListOffsetsRequest(topics=[ListOffsetsTopic(PLAIN, [ListOffsetsPartition(0, timestamp=-1)])])
        offset: int = broker.request(requested).topics[0].partitions[0].offset
        return offset
    finally:
        broker.close()


# -- groups -----------------------------------------------------------------------------------------------------------


def member_ids(address: Address, amount: int, rng: random.Random) -> str:
    """Members of one group that take an id each and never come back."""
    join = JoinGroupRequest(
        "hostile-members",
        6_000,
        rebalance_timeout_ms=6_000,
        member_id="",
        group_instance_id=None,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol("range", b"")],
    )
    return _pipelined(address, (frame(join, JOIN_VERSION) for _ in range(amount)))


def groups(address: Address, amount: int, rng: random.Random) -> str:
    """A group with one commit each."""
    offsets = [
        OffsetCommitRequestTopic(PLAIN, partitions=[OffsetCommitRequestPartition(0, 1, -1, committed_metadata="")])
    ]
    commits = (frame(OffsetCommitRequest(f"hostile-{n}", topics=offsets), COMMIT_VERSION) for n in range(amount))
    return _pipelined(address, commits)


def _pipelined(address: Address, frames: Iterator[bytes], at_once: int = 50) -> str:
    """Sends frames over one connection, up to ``at_once`` unanswered ones."""
    responded = owed = 0
    with sockets(address, 1) as (s,):
        for data in frames:
            if not send(s, data):
                break
            owed += 1
            if owed >= at_once:
                while owed and receive(s) is not None:
                    owed, responded = owed - 1, responded + 1
        while owed and receive(s) is not None:
            owed, responded = owed - 1, responded + 1
    return f"{responded} answered"


def large_metadata(address: Address, amount: int, rng: random.Random) -> str:
    """A member whose metadata has ``amount`` MB."""
    protocols = [JoinGroupRequestProtocol("range", bytes(amount * 1_000_000))]
    join = JoinGroupRequest(
        "hostile-large",
        6_000,
        rebalance_timeout_ms=6_000,
        member_id="",
        group_instance_id=None,
        protocol_type="consumer",
        protocols=protocols,
    )
    return _pipelined(address, iter([frame(join, 3)]))


# -- many small things ------------------------------------------------------------------------------------------------


def many_small_things(address: Address, amount: int, rng: random.Random) -> str:
    """Requests of ``amount`` elements each: names, partitions, resources, tagged fields."""
    responded = 0
    requests = _many(amount)
    for data in requests:
        with sockets(address, 1) as (s,):
            if send(s, data):
                responded += receive(s) is not None
    return f"{responded} of {len(requests)} answered, the others' connections closed"


def _many(amount: int) -> list[bytes]:
    names = struct.pack(">hhih", 3, 1, 1, -1) + struct.pack(">i", amount) + b"\0\0" * amount
    tags = struct.pack(">hhih", 3, 9, 1, -1) + write_unsigned_varint(amount) + b"\x07\0" * amount
    resources = DescribeConfigsRequest([DescribeConfigsResource(4, "1")] * amount)
    listed = [ListOffsetsPartition(p, timestamp=0) for p in range(amount)]
    committed = [OffsetCommitRequestPartition(p, 1, -1, committed_metadata="") for p in range(amount)]
    return [
        struct.pack(">i", len(names)) + names,
        struct.pack(">i", len(tags)) + tags,
        frame(resources, 4),
        frame(ListOffsetsRequest(topics=[ListOffsetsTopic(PLAIN, listed)]), LIST_VERSION),
        frame(OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic(PLAIN, partitions=committed)]), COMMIT_VERSION),
        frame(CreateTopicsRequest([CreatableTopic(f"../{n}", 1, 1) for n in range(amount)]), 7),
    ]


def large_topics(address: Address, amount: int, rng: random.Random) -> str:
    """A topic of ``amount`` partitions, made and deleted; and one of more than there are descriptors."""
    broker = BrokerSocket(*address, timeout_s=RESPONSE_S)
    codes = []
    for count in (amount, 100_000):
        with contextlib.suppress(KafkaError):
            made = broker.request(CreateTopicsRequest([CreatableTopic("hostile-large", count, 1)], timeout_ms=60_000))
            codes.append(made.topics[0].error_code)
            broker.request(DeleteTopicsRequest([DeleteTopicState("hostile-large")], timeout_ms=60_000))
    broker.close()
    return f"error codes {codes}"


# Attacks that leave much behind (groups, member ids) come last, so that memory is that of each attack.
ATTACKS = (
    Attack("random frames", random_frames, 100_000, 100),
    Attack("batches that lie", lying_batches, 900_000, 1_000),
    Attack("bombs, in MB", bombs, 1_024, 64),
    Attack("connections that read nothing", unread_responses, 20, 3),
    Attack("connections that send slowly", slow_writers, 500, 20),
    Attack("connections", connections, 10_000, 100),
    Attack("abandoned fetches", abandoned_fetches, 2_000, 50),
    Attack("a member's metadata, in MB", large_metadata, 95, 2),
    Attack("elements in a request", many_small_things, 99_000, 5_000),
    Attack("elements beyond the limit", many_small_things, 1_000_000, 250_000, on_kafka=False),
    Attack("partitions of a topic", large_topics, 9_999, 100, on_kafka=False),
    Attack("member ids", member_ids, 100_000, 500),
    Attack("groups", groups, 80_000, 500),
)
