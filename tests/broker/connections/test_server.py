"""The server under odd clients: bad bytes end only their own connection, answers keep their order, limits hold."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import TypeVar

import pytest

from coterie.broker.broker import Broker
from coterie.broker.connections.accepted_connection import AcceptedConnection
from coterie.broker.settings import BrokerSettings
from coterie.records.encoding import encode_batch
from coterie.wire.apis import APIS
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode, error_of
from coterie.wire.framing import decode_response, encode_request
from coterie.wire.messages.clients.api_versions import ApiVersionsRequest, ApiVersionsResponse
from coterie.wire.messages.groups.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from coterie.wire.messages.groups.heartbeat import HeartbeatRequest, HeartbeatResponse
from coterie.wire.messages.groups.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from coterie.wire.messages.groups.leave_group import LeaveGroupRequest, LeaveGroupResponse
from coterie.wire.messages.groups.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from coterie.wire.messages.groups.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from coterie.wire.messages.logs.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from coterie.wire.messages.logs.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from coterie.wire.messages.logs.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from coterie.wire.messages.topics.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from coterie.wire.messages.topics.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from coterie.wire.messages.transactions.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tests.awaiting import LoopClock, quiet

M = TypeVar("M", bound=Message)
TELEMETRY = (71, 72)  # offered once somebody wants metrics: `test_telemetry`
SERVED = [api for api in APIS.values() if not api.hidden and api.key not in TELEMETRY]
FAST = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "2"}


class Client:
    """A raw connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.correlation_id = 0

    def send(self, request: Message, version: int) -> int:
        self.correlation_id += 1
        self.writer.write(encode_request(self.correlation_id, "raw", request, version))
        return self.correlation_id

    async def frame(self) -> bytes:
        size = int.from_bytes(await self.reader.readexactly(4), "big")
        return await self.reader.readexactly(size)

    async def ask(self, request: Message, response: type[M], version: int) -> M:
        sent = self.send(request, version)
        frame = await self.frame()
        assert int.from_bytes(frame[:4], "big") == sent
        return decode_response(response, frame, version)

    async def is_closed(self) -> bool:
        return await self.reader.read(1) == b""


@asynccontextmanager
async def broker(**settings: str) -> AsyncIterator[Callable[[], Awaitable[Client]]]:
    running = Broker(BrokerSettings(FAST | {k.replace("_", "."): v for k, v in settings.items()}))
    host, port = await running.start("127.0.0.1", 0)
    clients: list[Client] = []

    async def connect() -> Client:
        client = Client(*await asyncio.open_connection(host, port))
        clients.append(client)
        return client

    try:
        yield connect
    finally:
        for client in clients:
            client.writer.close()
        await running.stop()


def run(story: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(30):
            await story()

    asyncio.run(bounded())


@pytest.mark.parametrize("version", range(6))
async def test_api_versions_says_what_is_served(version: int) -> None:
    async with broker() as connect:
        response = await (await connect()).ask(ApiVersionsRequest("x", "1"), ApiVersionsResponse, version)
        assert response.error_code == 0
        assert {a.api_key: (a.min_version, a.max_version) for a in response.api_keys} == {
            api.key: (api.advertised.first, api.advertised.last) for api in SERVED
        }


async def test_a_too_new_api_versions_is_answered_in_version_0() -> None:
    async with broker() as connect:
        client = await connect()
        client.writer.write(struct.pack(">ihhih", 14, 18, 99, 7, 3) + b"raw" + b"\x00")
        frame = await client.frame()
        response = decode_response(ApiVersionsResponse, frame, 0)
        assert int.from_bytes(frame[:4], "big") == 7
        assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert len(response.api_keys) == len(SERVED)
        assert (await client.ask(ApiVersionsRequest(), ApiVersionsResponse, 0)).error_code == 0


BAD = {
    "no api of that key": struct.pack(">ihhih", 10, 999, 0, 1, -1),
    "a version not served": struct.pack(">ihhih", 10, 1, 0, 1, -1),
    "a body cut short": struct.pack(">ihhih", 10, 3, 9, 1, -1),
    "a negative size": struct.pack(">i", -5),
    "a size beyond the limit": struct.pack(">i", 2_000_000),
    "a client id that is not UTF-8": struct.pack(">ihhih", 12, 18, 0, 1, 2) + b"\xff\xff",
    "a client id beyond the end": struct.pack(">ihhih", 12, 18, 0, 1, 500) + b"ab",
    "an HTTP request": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a huge array": struct.pack(">ihhih", 14, 3, 1, 1, -1) + b"\x7f\xff\xff\xff",
}


@pytest.mark.parametrize("bad", BAD)
async def test_bytes_that_cannot_be_read_harm_no_other_connection(bad: str, caplog: pytest.LogCaptureFixture) -> None:
    async with broker(socket_request_max_bytes="1000000") as connect:
        good, evil = await connect(), await connect()
        evil.writer.write(BAD[bad])
        assert await evil.is_closed()
        assert (await good.ask(ApiVersionsRequest(), ApiVersionsResponse, 0)).error_code == 0
    assert "closing the connection" in caplog.text


async def test_requests_may_come_byte_by_byte_or_all_at_once() -> None:
    async with broker() as connect:
        client = await connect()
        data = b"".join(encode_request(n, "raw", ApiVersionsRequest(), 0) for n in range(20))
        for byte in data[:60]:
            client.writer.write(bytes([byte]))
            await client.writer.drain()
            await quiet()
        client.writer.write(data[60:])
        assert [int.from_bytes((await client.frame())[:4], "big") for _ in range(20)] == list(range(20))


async def make_topic(client: Client, name: str = "t", partitions: int = 1) -> None:
    created = await client.ask(CreateTopicsRequest([CreatableTopic(name, partitions, 1)]), CreateTopicsResponse, 7)
    assert created.topics[0].error_code == 0


def produce(value: bytes = b"v", topic: str = "t", acks: int = -1) -> ProduceRequest:
    batch = encode_batch([(1, b"k", value, ())])
    return ProduceRequest(None, acks, 1000, [TopicProduceData(topic, partition_data=[PartitionProduceData(0, batch)])])


def fetch(offset: int, wait_ms: int, min_bytes: int = 1) -> FetchRequest:
    requested = FetchPartition(0, fetch_offset=offset, partition_max_bytes=1_000_000)
    return FetchRequest(max_wait_ms=wait_ms, min_bytes=min_bytes, topics=[FetchTopic("t", partitions=[requested])])


async def test_answers_leave_in_the_order_of_the_requests() -> None:
    async with broker() as connect:
        client, other = await connect(), await connect()
        await make_topic(client)
        waiting = client.send(fetch(0, 10_000), 11)
        quick = client.send(ApiVersionsRequest(), 0)
        await other.ask(produce(), ProduceResponse, 9)
        frames = [await client.frame(), await client.frame()]
        assert [int.from_bytes(f[:4], "big") for f in frames] == [waiting, quick]
        assert decode_response(FetchResponse, frames[0], 11).responses[0].partitions[0].records


async def test_the_answer_to_a_too_new_api_versions_waits_for_those_before_it() -> None:
    async with broker() as connect:
        client, other = await connect(), await connect()
        await make_topic(client)
        waiting = client.send(fetch(0, 10_000), 11)
        client.writer.write(struct.pack(">ihhih", 14, 18, 99, 7, 3) + b"raw" + b"\x00")
        await other.ask(produce(), ProduceResponse, 9)
        frames = [await client.frame(), await client.frame()]
        assert [int.from_bytes(f[:4], "big") for f in frames] == [waiting, 7]
        assert decode_response(ApiVersionsResponse, frames[1], 0).error_code == ErrorCode.UNSUPPORTED_VERSION


async def test_a_fetch_waits_for_min_bytes_or_its_time() -> None:
    async with broker() as connect:
        client = await connect()
        await make_topic(client)
        loop = asyncio.get_running_loop()
        started = loop.time()
        response = await client.ask(fetch(0, 300), FetchResponse, 12)
        assert loop.time() - started >= 0.25
        assert response.responses[0].partitions[0].records == b""


async def test_acks_0_has_no_answer() -> None:
    async with broker() as connect:
        client = await connect()
        await make_topic(client)
        client.send(produce(acks=0), 9)
        assert (await client.ask(ApiVersionsRequest(), ApiVersionsResponse, 0)).error_code == 0
        assert (await client.ask(fetch(0, 0), FetchResponse, 12)).responses[0].partitions[0].high_watermark == 1


async def test_what_a_topic_may_not_be_is_refused() -> None:
    async with broker() as connect:
        client = await connect()
        requested = [
            CreatableTopic("bad/name", 1, 1),
            CreatableTopic("two-replicas", 1, 2),
            CreatableTopic("none", 0, 1),
            CreatableTopic("twice", 1, 1),
            CreatableTopic("twice", 1, 1),
            CreatableTopic("good", -1, -1),
        ]
        created = await client.ask(CreateTopicsRequest(requested), CreateTopicsResponse, 7)
        assert [error_of(t.error_code).name for t in created.topics] == [
            "INVALID_TOPIC_EXCEPTION",
            "INVALID_REPLICATION_FACTOR",
            "INVALID_PARTITIONS",
            "INVALID_REQUEST",  # one result for the topic that is named twice
            "NONE",
        ]
        await client.ask(FindCoordinatorRequest("g"), FindCoordinatorResponse, 3)  # creates the offsets topic
        written = await client.ask(produce(topic="__consumer_offsets"), ProduceResponse, 9)
        assert written.responses[0].partition_responses[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("version", range(14))
async def test_metadata_in_every_version(version: int) -> None:
    async with broker() as connect:
        client = await connect()
        await make_topic(client, "t", 3)
        requested = [MetadataRequestTopic(name="t")]
        response = await client.ask(MetadataRequest(requested), MetadataResponse, version)
        assert [(t.name, len(t.partitions)) for t in response.topics] == [("t", 3)]
        everything = await client.ask(MetadataRequest([] if version == 0 else None), MetadataResponse, version)
        assert [t.name for t in everything.topics] == ["t"]
        if version >= 12:
            by_id = [MetadataRequestTopic(response.topics[0].topic_id, None)]
            assert (await client.ask(MetadataRequest(by_id), MetadataResponse, version)).topics[0].name == "t"


@pytest.mark.parametrize("version", range(3, 14))
async def test_produce_and_fetch_in_every_version(version: int) -> None:
    async with broker() as connect:
        client = await connect()
        created = await client.ask(CreateTopicsRequest([CreatableTopic("t", 1, 1)]), CreateTopicsResponse, 7)
        topic_id = created.topics[0].topic_id
        request = produce(b"hello")
        request.topic_data[0].topic_id = topic_id
        written = await client.ask(request, ProduceResponse, version)
        assert written.responses[0].partition_responses[0].error_code == 0
        for fetch_version in (version + 1, min(version + 5, 18)):
            requested = fetch(0, 0)
            requested.topics[0].topic_id = topic_id
            read = await client.ask(requested, FetchResponse, fetch_version)
            assert b"hello" in (read.responses[0].partitions[0].records or b"")


@pytest.mark.parametrize("version", range(10))
async def test_join_group_in_every_version(version: int) -> None:
    """JoinGroupRequestTest: below v4 a newcomer is let in at once; a refusal has an empty protocol name below v7."""
    async with broker() as connect:
        client = await connect()
        protocols = [JoinGroupRequestProtocol("range", b"m")]
        request = JoinGroupRequest("g", 10_000, 10_000, "", None, "consumer", protocols)
        joined = await client.ask(request, JoinGroupResponse, version)
        if version >= 4:
            assert joined.error_code == ErrorCode.MEMBER_ID_REQUIRED
            assert joined.protocol_name == ("" if version < 7 else None)
            request.member_id = joined.member_id
            joined = await client.ask(request, JoinGroupResponse, version)
        assert (joined.error_code, joined.generation_id, joined.protocol_name) == (0, 1, "range")
        assert joined.protocol_type == ("consumer" if version >= 7 else None)
        assert joined.leader == joined.member_id
        beat = HeartbeatRequest("g", 1, joined.member_id)
        assert (await client.ask(beat, HeartbeatResponse, min(version, 4))).error_code == 0
        left = await client.ask(LeaveGroupRequest("g", joined.member_id), LeaveGroupResponse, min(version, 2))
        assert left.error_code == 0


async def test_idempotent_producers_get_ids_of_their_own() -> None:
    async with broker() as connect:
        client = await connect()
        ids = [(await client.ask(InitProducerIdRequest(None), InitProducerIdResponse, 4)).producer_id for _ in range(3)]
        assert len(set(ids)) == 3
        declined = await client.ask(InitProducerIdRequest("tx"), InitProducerIdResponse, 4)
        assert declined.error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT
        for kind, code in ((1, ErrorCode.NONE), (2, ErrorCode.INVALID_REQUEST)):
            response = await client.ask(FindCoordinatorRequest("", kind, ["tx"]), FindCoordinatorResponse, 4)
            assert response.coordinators[0].error_code == code


async def test_max_connections() -> None:
    async with broker(max_connections="1") as connect:
        first, second = await connect(), await connect()
        assert (await first.ask(ApiVersionsRequest(), ApiVersionsResponse, 0)).error_code == 0
        with suppress(ConnectionResetError):
            assert await second.is_closed()


async def test_a_client_that_does_not_read_stops_being_read() -> None:
    """Back-pressure: megabytes of responses that nobody takes must not pile up in the broker."""
    async with broker() as connect:
        client, other = await connect(), await connect()
        await make_topic(client)
        await client.ask(produce(b"x" * 900_000), ProduceResponse, 9)
        for _ in range(300):
            client.send(fetch(0, 0), 12)
        await quiet()
        assert (await other.ask(ApiVersionsRequest(), ApiVersionsResponse, 0)).error_code == 0
        for _ in range(300):
            assert len(await client.frame()) > 900_000


async def test_unknown_topic_in_list_offsets() -> None:
    async with broker() as connect:
        client = await connect()
        from coterie.wire.messages.logs.list_offsets import ListOffsetsPartition, ListOffsetsTopic

        requested = ListOffsetsRequest(topics=[ListOffsetsTopic("nowhere", [ListOffsetsPartition(0, timestamp=-1)])])
        response = await client.ask(requested, ListOffsetsResponse, 7)
        assert response.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("version", range(11))
async def test_offsets_committed_in_any_version_are_fetched_in_every_version(version: int) -> None:
    """OffsetCommitRequestTest, OffsetFetchRequestTest, testFetchOffsetsWithTopicIds. v10 of both speaks of topic ids: franz-go
    found that a commit by id was kept under no name."""
    async with broker() as connect:
        client = await connect()
        created = await client.ask(CreateTopicsRequest([CreatableTopic("t", 2, 1)]), CreateTopicsResponse, 7)
        topic_id = created.topics[0].topic_id
        partitions = [
            OffsetCommitRequestPartition(0, 42, -1, committed_metadata="note"),
            OffsetCommitRequestPartition(9, 1, -1, committed_metadata=""),
        ]
        commit = OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic("t", topic_id, partitions)])
        response = await client.ask(commit, OffsetCommitResponse, version)
        assert {p.partition_index: p.error_code for p in response.topics[0].partitions} == {
            0: ErrorCode.NONE,
            9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
        commit.topics[0].partitions = partitions[:1]
        again = await client.ask(commit, OffsetCommitResponse, version)
        assert again.topics[0].topic_id == (topic_id if version >= 10 else bytes(16))
        for fetch_version in range(11):
            old = OffsetFetchRequestTopic("t", [0, 1])
            new = OffsetFetchRequestTopics("t", topic_id, [0, 1])
            requested = OffsetFetchRequest("g", [old], [OffsetFetchRequestGroup("g", topics=[new])])
            fetched = await client.ask(requested, OffsetFetchResponse, fetch_version)
            topics = fetched.groups[0].topics if fetch_version >= 8 else fetched.topics
            got = [(p.partition_index, p.committed_offset, p.metadata) for t in topics for p in t.partitions]
            assert got == [(0, 42, "note"), (1, -1, "")], f"OffsetFetch v{fetch_version}"
            if fetch_version >= 10:
                assert [t.topic_id for t in fetched.groups[0].topics] == [topic_id]
            if fetch_version >= 2:
                everything = OffsetFetchRequest("g", None, [OffsetFetchRequestGroup("g", topics=None)])
                fetched = await client.ask(everything, OffsetFetchResponse, fetch_version)
                topics = fetched.groups[0].topics if fetch_version >= 8 else fetched.topics
                assert [p.committed_offset for t in topics for p in t.partitions] == [42]


async def test_an_unknown_topic_id_is_refused() -> None:
    async with broker() as connect:
        client = await connect()
        unknown = OffsetCommitRequestTopic(
            "", b"x" * 16, [OffsetCommitRequestPartition(0, 1, -1, committed_metadata="")]
        )
        response = await client.ask(OffsetCommitRequest("g", topics=[unknown]), OffsetCommitResponse, 10)
        assert response.topics[0].topic_id == b"x" * 16
        assert response.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


async def test_idle_connections_are_closed_but_not_those_that_wait() -> None:
    running = Broker(BrokerSettings(FAST | {"connections.max.idle.ms": "100"}))
    host, port = await running.start("127.0.0.1", 0)
    idle = Client(*await asyncio.open_connection(host, port))
    waiting = Client(*await asyncio.open_connection(host, port))
    await make_topic(waiting)
    await idle.ask(ApiVersionsRequest(), ApiVersionsResponse, 0)
    clock = LoopClock()
    waiting.send(fetch(0, 20_000), 12)
    await quiet()
    clock.jump(0.3)
    running.connections.close_idle()
    assert await idle.is_closed()
    assert not waiting.reader.at_eof()
    idle.writer.close()
    waiting.writer.close()
    await running.stop()


class BrokenTransport(asyncio.Transport):
    """The client has gone: the first write meets it. ``writes`` counts them."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 2)})
        self.writes = 0

    def write(self, data: object) -> None:
        self.writes += 1

    def is_closing(self) -> bool:
        return self.writes > 0

    def get_write_buffer_size(self) -> int:
        return 0

    def abort(self) -> None: ...
    def close(self) -> None: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...


def test_nothing_is_written_for_a_client_that_has_gone() -> None:
    """asyncio logged "socket.send() raised exception" for each further write."""

    async def story() -> int:
        running = Broker(BrokerSettings(FAST))
        await running.start("127.0.0.1", 0)
        try:
            await quiet()
            connection, transport = AcceptedConnection(running), BrokenTransport()
            connection.connection_made(transport)
            connection.data_received(encode_request(1, "raw", ApiVersionsRequest("raw", "1"), 3) * 1_000)
            connection.connection_lost(None)
            return transport.writes
        finally:
            await running.stop()

    assert asyncio.run(story()) == 1
