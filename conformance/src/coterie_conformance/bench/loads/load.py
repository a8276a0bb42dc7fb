"""Load on a broker from one process: raw frames over a selector, so that the driver costs less than what it measures."""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Iterable, Sequence

from coterie.client.connection.blocking_socket import BrokerSocket
from coterie.client.errors import KafkaError, check
from coterie.records.encoding import encode_batch
from coterie.wire.declaration import Message
from coterie.wire.framing import decode_response, encode_request
from coterie.wire.messages.groups.heartbeat import HeartbeatRequest
from coterie.wire.messages.groups.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from coterie.wire.messages.groups.leave_group import LeaveGroupRequest
from coterie.wire.messages.groups.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from coterie.wire.messages.groups.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from coterie.wire.messages.logs.fetch import FetchPartition, FetchRequest, FetchTopic
from coterie.wire.messages.logs.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from coterie.wire.messages.topics.create_topics import CreatableTopic, CreateTopicsRequest
from coterie_conformance.bench.measurement import NO_WINDOW, Window

TOPIC, SMALL_TOPIC = "bench", "bench-small"
SMALL_RECORD = b"x" * 100
JOIN_VERSION, SYNC_VERSION, HEARTBEAT_VERSION, COMMIT_VERSION, LEAVE_VERSION = 3, 3, 4, 8, 2
PRODUCE_VERSION, FETCH_VERSION = 9, 12
BATCH_BYTES = 1_000_000
LEADERS_WITHIN_S = 30.0  # of the partitions of a new topic


def create_topic(address: tuple[str, int], partitions: int = 1, name: str = TOPIC) -> None:
    """The topic that `produce` and `fetch` use, and group members subscribe to. Raises KafkaError."""
    broker = BrokerSocket(*address)
    for result in broker.request(CreateTopicsRequest([CreatableTopic(name, partitions, -1)])).topics:
        check(result.error_code, result.error_message)
    broker.close()


def closed_loop(address: tuple[str, int], frames: list[bytes], seconds: float, window: Window = NO_WINDOW) -> float:
    """`closed_loops` to one broker."""
    return closed_loops([(address, frame) for frame in frames], seconds, window)


def closed_loops(targets: Sequence[tuple[tuple[str, int], bytes]], seconds: float, window: Window = NO_WINDOW) -> float:
    """One connection per frame, each sending its frame again as soon as it is answered; returns answers/s. It counts from when
    there are as many answers as connections: until then the brokers accept them."""
    selector = selectors.DefaultSelector()
    for address, frame in targets:
        s = socket.create_connection(address)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        s.setblocking(False)
        selector.register(s, selectors.EVENT_READ, (s, frame))
        s.send(frame)
    responses = 0
    while responses < len(targets):
        responses += _responded(selector)
    window.begin()
    responses, started = 0, time.perf_counter()
    while time.perf_counter() < started + seconds:
        responses += _responded(selector)
    took_s = time.perf_counter() - started
    window.end(responses)
    for key in list(selector.get_map().values()):
        key.data[0].close()
    selector.close()
    return responses / took_s


def _responded(selector: selectors.BaseSelector) -> int:
    """Sends the next request of each connection that has its response; returns how many had."""
    ready = selector.select(0.5)
    for key, _ in ready:
        s, frame = key.data
        if not s.recv(65_536):
            raise ConnectionError("the broker closed a connection under load")
        s.send(frame)
    return len(ready)


def groups_of_one(address: tuple[str, int], count: int, prefix: str = "g") -> list[str]:
    """``count`` groups with one settled member each; returns the member ids, the groups being g0, g1, ..."""
    broker, members = BrokerSocket(*address), []
    for n in range(count):
        join = JoinGroupRequest(
            f"{prefix}{n}",
            300_000,
            rebalance_timeout_ms=300_000,
            member_id="",
            group_instance_id=None,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol("range", b"")],
        )
        joined = broker.request(join, highest=JOIN_VERSION)
        check(joined.error_code)
        assignment = [SyncGroupRequestAssignment(joined.member_id, b"")]
        sync = SyncGroupRequest(f"{prefix}{n}", joined.generation_id, joined.member_id, assignments=assignment)
        check(broker.request(sync, highest=SYNC_VERSION).error_code)
        members.append(joined.member_id)
    broker.close()
    return members


def heartbeats(
    address: tuple[str, int], members: list[str], seconds: float, window: Window = NO_WINDOW, prefix: str = "g"
) -> float:
    """Heartbeats/s over one connection per member."""
    frames = [_frame(HeartbeatRequest(f"{prefix}{n}", 1, m), HEARTBEAT_VERSION) for n, m in enumerate(members)]
    return closed_loop(address, frames, seconds, window)


def commits(address: tuple[str, int], members: list[str], seconds: float) -> float:
    """Commits/s of one partition each, over one connection per member."""
    frames = [
        _frame(OffsetCommitRequest(f"g{n}", 1, m, topics=[_one_offset(5)]), COMMIT_VERSION)
        for n, m in enumerate(members)
    ]
    return closed_loop(address, frames, seconds)


def _one_offset(offset: int) -> OffsetCommitRequestTopic:
    return OffsetCommitRequestTopic(
        TOPIC, partitions=[OffsetCommitRequestPartition(0, offset, -1, committed_metadata="")]
    )


def commits_of_many(address: tuple[str, int], groups: int, seconds: float, window: Window = NO_WINDOW) -> float:
    """Commits/s of so many of the groups that `commit_many` made, over a connection each."""
    frames = [_frame(OffsetCommitRequest(f"many-{n}", topics=[_one_offset(5)]), COMMIT_VERSION) for n in range(groups)]
    return closed_loop(address, frames, seconds, window)


def joins(address: tuple[str, int], groups: int, seconds: float, prefix: str = "j") -> float:
    """Joins/s: in each group a member joins, and leaves as soon as it is let in. The last ones stay: a further run needs groups
    of another ``prefix``, or it waits for them."""
    selector, responded = selectors.DefaultSelector(), 0
    for n in range(groups):
        s = socket.create_connection(address)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        protocols = [JoinGroupRequestProtocol("range", b"")]
        group = f"{prefix}{n}"
        join = _frame(
            JoinGroupRequest(
                group,
                300_000,
                rebalance_timeout_ms=300_000,
                member_id="",
                group_instance_id=None,
                protocol_type="consumer",
                protocols=protocols,
            ),
            JOIN_VERSION,
        )
        selector.register(s, selectors.EVENT_READ, (s, group, join))
        s.sendall(join)
    inside: dict[socket.socket, bool] = {}
    started = time.perf_counter()
    while time.perf_counter() < started + seconds:
        for key, _ in selector.select(0.5):
            s, group, join = key.data
            response = s.recv(65_536)
            if inside.pop(s, False):
                s.sendall(join)
                continue
            joined = decode_response(JoinGroupResponse, response[4:], JOIN_VERSION)
            check(joined.error_code)
            responded += 1
            inside[s] = True
            s.sendall(_frame(LeaveGroupRequest(group, joined.member_id), LEAVE_VERSION))
    rate = responded / (time.perf_counter() - started)
    for key in list(selector.get_map().values()):
        key.data[0].close()
    selector.close()
    return rate


def commit_many(address: tuple[str, int], groups: int, partitions: int) -> None:
    """Commits every partition of the topic in each of so many groups of simple consumers."""
    broker = BrokerSocket(*address)
    for group in range(groups):
        offsets = [
            OffsetCommitRequestPartition(p, group * 1000 + p, -1, committed_metadata="") for p in range(partitions)
        ]
        topics = [OffsetCommitRequestTopic(TOPIC, partitions=offsets)]
        for topic in broker.request(OffsetCommitRequest(f"many-{group}", topics=topics), highest=8).topics:
            check(topic.partitions[0].error_code)
    broker.close()


def _frame(request: Message, version: int) -> bytes:
    return encode_request(1, "bench", request, version)


def batch_of(record_bytes: int) -> tuple[bytes, int]:
    """A batch of about a megabyte of records of that size, and how many are in it."""
    count = BATCH_BYTES // (record_bytes + 8)
    value = bytes(range(256)) * (record_bytes // 256 + 1)
    return encode_batch([(1_700_000_000_000, None, value[:record_bytes], ())] * count), count


def produce(address: tuple[str, int], batch: bytes, seconds: float, in_flight: int = 4) -> float:
    """MB/s taken in over one connection, ``in_flight`` requests ahead of their responses."""
    return produce_ahead(address, produce_frame(TOPIC, 0, batch), seconds, in_flight) * len(batch) / 1e6


def produce_frame(topic: str, partition: int, batch: bytes, version: int = PRODUCE_VERSION) -> bytes:
    """A request with acks=all."""
    data = [TopicProduceData(topic, partition_data=[PartitionProduceData(partition, batch)])]
    return _frame(ProduceRequest(None, -1, 30_000, data), version)


def produce_ahead(address: tuple[str, int], frame: bytes, seconds: float, in_flight: int) -> float:
    """Answers/s over one connection, ``in_flight`` requests ahead of them."""
    s = socket.create_connection(address)
    ahead = responded = 0
    started = time.perf_counter()
    end = started + seconds
    while time.perf_counter() < end:
        while ahead < in_flight:
            s.sendall(frame)
            ahead += 1
        _read_frame(s)
        ahead, responded = ahead - 1, responded + 1
    rate = responded / (time.perf_counter() - started)
    s.close()
    return rate


def fill(address: tuple[str, int], batches: int) -> int:
    """Appends batches of a megabyte of 100-byte records; returns the number of records. Raises KafkaError."""
    batch, records = batch_of(len(SMALL_RECORD))
    broker = BrokerSocket(*address)
    for _ in range(batches):
        _append(broker, TOPIC, [0], batch)
    broker.close()
    return batches * records


def fill_topic(address: str, topic: str, partitions: int, records: int) -> None:
    """A topic of 100-byte values with keys, and headers on every third record of a small one."""
    import asyncio

    from coterie.client import Admin, Producer

    async def go() -> None:
        async with Admin({"bootstrap.servers": address}) as admin:
            await admin.create_topic(topic, partitions)
        async with Producer({"bootstrap.servers": address, "batch.size": 500_000}) as producer:
            small = records < 100_000
            for n in range(records):
                key = b"%08d" % n if n % 7 else None
                headers = [("h", b"x"), ("n", None)] if small and n % 3 == 0 else ()
                await producer.send(topic, b"v" * 100, key, partition=n % partitions, headers=headers)

    asyncio.run(go())


def _append(broker: BrokerSocket, topic: str, partitions: Iterable[int], batch: bytes) -> None:
    """Raises KafkaError for the first partition that refuses the batch."""
    data = TopicProduceData(topic, partition_data=[PartitionProduceData(n, batch) for n in partitions])
    request = ProduceRequest(None, -1, 30_000, [data])
    for partition in broker.request(request, highest=PRODUCE_VERSION).responses[0].partition_responses:
        check(partition.error_code, partition.error_message)


def _in_turn(address: tuple[str, int], frame: bytes, seconds: float, window: Window) -> float:
    """Requests/s over one connection, each sent when the one before is answered; the first tenth of the time does not count."""
    s, responded = socket.create_connection(address), 0
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for part, part_s in ((None, seconds / 10), (window, seconds)):
        if part is not None:
            part.begin()
        responded, started = 0, time.perf_counter()
        while (took_s := time.perf_counter() - started) < part_s:
            s.sendall(frame)
            _read_frame(s)
            responded += 1
    window.end(responded)
    s.close()
    return responded / took_s


def produce_records(
    address: tuple[str, int], topic: str, record_bytes: int, seconds: float, window: Window = NO_WINDOW
) -> float:
    """Produce requests/s with one record of that size each. The topic has a partition."""
    data = [TopicProduceData(topic, partition_data=[PartitionProduceData(0, one_record(record_bytes))])]
    return _in_turn(address, _frame(ProduceRequest(None, -1, 30_000, data), PRODUCE_VERSION), seconds, window)


def fetch_records(
    address: tuple[str, int], topic: str, record_bytes: int, seconds: float, window: Window = NO_WINDOW
) -> float:
    """Fetch requests/s for the first record of a topic of such records."""
    limit = len(one_record(record_bytes))
    wanted = [FetchPartition(0, fetch_offset=0, partition_max_bytes=limit)]
    topics = [FetchTopic(topic, partitions=wanted)]
    request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=limit, topics=topics)
    return _in_turn(address, _frame(request, FETCH_VERSION), seconds, window)


def one_record(record_bytes: int) -> bytes:
    """A batch of one record of that size."""
    return encode_batch([(1_700_000_000_000, None, b"x" * record_bytes, ())])


def produce_singles(address: tuple[str, int], connections: int, seconds: float) -> float:
    """Records/s of requests with one record each, over so many connections."""
    batch = encode_batch([(1_700_000_000_000, None, SMALL_RECORD, ())])
    data = [TopicProduceData(TOPIC, partition_data=[PartitionProduceData(0, batch)])]
    frame = _frame(ProduceRequest(None, -1, 30_000, data), PRODUCE_VERSION)
    return closed_loop(address, [frame] * connections, seconds)


def create_small_partitions(address: tuple[str, int], count: int) -> None:
    """A topic with one record in each of its partitions, for `fetch_small_partitions`. Raises KafkaError."""
    create_topic(address, count, SMALL_TOPIC)
    append_first(address, SMALL_TOPIC, count, encode_batch([(1_700_000_000_000, None, SMALL_RECORD, ())]))


def append_first(address: tuple[str, int], topic: str, count: int, batch: bytes) -> None:
    """The batch to each of a new topic's partitions, as soon as it has its leader. Raises KafkaError."""
    broker, end = BrokerSocket(*address), time.perf_counter() + LEADERS_WITHIN_S
    for partition in range(count):
        while True:
            try:
                _append(broker, topic, [partition], batch)
            except KafkaError:
                if time.perf_counter() > end:
                    raise
                time.sleep(0.1)
            else:
                break
    broker.close()


def fetch_small_partitions(address: tuple[str, int], count: int, seconds: float) -> float:
    """Fetches/s over one connection, without a session: each returns the record of every partition. Raises KafkaError."""
    wanted = [FetchPartition(n, fetch_offset=0, partition_max_bytes=BATCH_BYTES) for n in range(count)]
    request = FetchRequest(
        max_wait_ms=0, min_bytes=0, max_bytes=50_000_000, topics=[FetchTopic(SMALL_TOPIC, partitions=wanted)]
    )
    broker = BrokerSocket(*address)
    for partition in broker.request(request, highest=FETCH_VERSION).responses[0].partitions:
        check(partition.error_code)
        assert partition.records, f"{SMALL_TOPIC}-{partition.partition_index} has no record"
    broker.close()
    frame, s, responded = _frame(request, FETCH_VERSION), socket.create_connection(address), 0
    started = time.perf_counter()
    while time.perf_counter() < started + seconds:
        s.sendall(frame)
        _read_frame(s)
        responded += 1
    rate = responded / (time.perf_counter() - started)
    s.close()
    return rate


def fetch(address: tuple[str, int], seconds: float) -> float:
    """MB/s of Fetch responses over one connection, a megabyte at a time from the start of the topic."""
    broker = BrokerSocket(*address)
    size = position = 0
    started = time.perf_counter()
    end = started + seconds
    while time.perf_counter() < end:
        requested = FetchPartition(0, fetch_offset=position, partition_max_bytes=1_100_000)
        request = FetchRequest(
            max_wait_ms=0, min_bytes=0, max_bytes=50_000_000, topics=[FetchTopic(TOPIC, partitions=[requested])]
        )
        data = broker.request(request, highest=FETCH_VERSION).responses[0].partitions[0]
        check(data.error_code)
        if not data.records:
            position = 0
            continue
        size += len(data.records)
        position = int.from_bytes(data.records[:8], "big") + int.from_bytes(data.records[23:27], "big") + 1
    rate = size / (time.perf_counter() - started) / 1e6
    broker.close()
    return rate


def _read_frame(s: socket.socket) -> None:
    size = int.from_bytes(read_exactly(s, 4), "big")
    read_exactly(s, size)


def read_exactly(s: socket.socket, size: int) -> bytes:
    """Raises ConnectionError."""
    data = b""
    while len(data) < size:
        got = s.recv(size - len(data))
        if not got:
            raise ConnectionError("the broker closed the connection")
        data += got
    return data
