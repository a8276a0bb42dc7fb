"""What clients from before record batches get: message sets by version, old-style offsets, records without a timestamp;
and what a Produce is told about records that are refused."""

from __future__ import annotations

import time

import pytest
from kafka.record.legacy_records import LegacyRecordBatchBuilder
from kafka.record.memory_records import MemoryRecords

from coterie.records.batch import batches
from coterie.records.compression import GZIP, ZSTD
from coterie.records.decoding import decode_records
from coterie.records.encoding import encode_batch
from coterie.records.message_sets import OVERSIZED
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.logs.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from coterie.wire.messages.logs.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from coterie.wire.messages.logs.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from coterie.wire.messages.topics.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tests.broker.connections.test_server import Client, broker

NOW = 1_700_000_000_000


async def create(client: Client, name: str, **settings: str) -> None:
    configs = [CreatableTopicConfig(key.replace("_", "."), value) for key, value in settings.items()]
    request = CreateTopicsRequest([CreatableTopic(name, 1, 1, configs=configs)])
    assert (await client.ask(request, CreateTopicsResponse, 4)).topics[0].error_code == ErrorCode.NONE


async def append(client: Client, records: bytes, version: int = 9, acks: int = -1) -> PartitionProduceResponse:
    data = [TopicProduceData("t", partition_data=[PartitionProduceData(0, records)])]
    response = await client.ask(ProduceRequest(None, acks, 1000, data), ProduceResponse, version)
    return response.responses[0].partition_responses[0]


async def fetch(
    client: Client, version: int, offset: int = 0, partition_max_bytes: int = 100_000, max_wait_ms: int = 0
) -> PartitionData:
    topics = [
        FetchTopic("t", partitions=[FetchPartition(0, fetch_offset=offset, partition_max_bytes=partition_max_bytes)])
    ]
    request = FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, topics=topics)
    response = await client.ask(request, FetchResponse, version)
    return response.responses[0].partitions[0]


def messages(data: PartitionData) -> list[tuple[int, int | None, bytes | None]]:
    """(offset, timestamp, value) as kafka-python reads them."""
    assert data.error_code == ErrorCode.NONE
    decoded, records = [], MemoryRecords(data.records)
    while records.has_next():
        decoded += [(r.offset, r.timestamp, r.value) for r in records.next_batch()]
    return decoded


def batch(*values: bytes, codec: int = 0) -> bytes:
    # The headers make the batch larger than what becomes of it, so that nothing is cut short.
    return encode_batch(
        [(NOW + n, b"k", value, [("h", bytes(range(80)))]) for n, value in enumerate(values)], codec=codec
    )


@pytest.mark.parametrize("version", range(4))
@pytest.mark.parametrize("codec", [0, GZIP])
async def test_an_old_fetch_reads_what_was_written_as_batches(version: int, codec: int) -> None:
    async with broker() as connect:
        client = await connect()
        await create(client, "t")
        await append(client, batch(b"a", b"b", codec=codec))
        await append(client, batch(b"c", codec=codec))
        data = await fetch(client, version)
        assert data.records is not None
        assert (data.records[16], data.high_watermark) == (version // 2, 3)
        times = [None] * 3 if version < 2 else [NOW, NOW + 1, NOW]
        assert messages(data) == list(zip(range(3), times, (b"a", b"b", b"c"), strict=True))
        assert messages(await fetch(client, version, 2)) == [(2, times[2], b"c")]
        assert (await fetch(client, version, 3)).records == b""
        beyond = await fetch(client, version, 4)
        assert (beyond.error_code, beyond.high_watermark) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)


async def test_an_old_fetch_waits_for_records() -> None:
    async with broker() as connect:
        client, other = await connect(), await connect()
        await create(client, "t")
        topics = [FetchTopic("t", partitions=[FetchPartition(0, fetch_offset=0, partition_max_bytes=1000)])]
        client.send(FetchRequest(max_wait_ms=20_000, min_bytes=1, topics=topics), 1)
        await append(other, batch(b"a"))
        await client.frame()


async def test_the_first_batch_is_larger_than_the_limit() -> None:
    """Before v3 a limit holds, and a message that is cut short says that there is more; from v3 on the batch comes."""
    async with broker() as connect:
        client = await connect()
        await create(client, "t")
        await append(client, batch(b"a" * 2000))
        for version in (0, 1, 2):
            assert (await fetch(client, version, partition_max_bytes=500)).records == OVERSIZED
        assert messages(await fetch(client, 3, partition_max_bytes=500)) == [(0, NOW, b"a" * 2000)]


async def test_batches_of_zstd_become_no_old_messages() -> None:
    async with broker() as connect:
        client = await connect()
        await create(client, "t")
        await append(client, batch(b"a", codec=ZSTD))
        assert (await fetch(client, 3)).error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        assert (await fetch(client, 4)).error_code == ErrorCode.NONE


async def test_no_conversion_where_the_topic_forbids_it() -> None:
    async with broker() as connect:
        client = await connect()
        await create(client, "t", message_downconversion_enable="false")
        await append(client, batch(b"a"))
        refused = await fetch(client, 3)
        assert (refused.error_code, refused.high_watermark) == (ErrorCode.UNSUPPORTED_VERSION, -1)
        assert refused.records is None
        assert (await fetch(client, 4)).error_code == ErrorCode.NONE


async def test_offsets_as_list_offsets_0_returns_them() -> None:
    """The start of each segment and the end, the newest first, of those last written by that time."""

    async def offsets(client: Client, timestamp: int, limit: int, topic: str = "t") -> tuple[int, list[int]]:
        requested = [ListOffsetsTopic(topic, [ListOffsetsPartition(0, timestamp=timestamp, max_num_offsets=limit)])]
        response = await client.ask(ListOffsetsRequest(topics=requested), ListOffsetsResponse, 0)
        partition = response.topics[0].partitions[0]
        return partition.error_code, partition.old_style_offsets

    async with broker() as connect:
        client = await connect()
        await create(client, "t", segment_bytes="1000")
        assert await offsets(client, -1, 5) == (0, [0])
        assert await offsets(client, 5, 10) == (0, []), "the empty segment was made later"
        for _ in range(3):
            await append(client, batch(b"a" * 600))
        assert await offsets(client, -1, 1) == (0, [3])
        assert await offsets(client, -1, 10) == (0, [3, 2, 1, 0])
        assert await offsets(client, -1, 0) == (0, [])
        assert await offsets(client, -2, 10) == (0, [0])
        assert await offsets(client, 5, 10) == (0, [])
        assert await offsets(client, 2**62, 2) == (0, [3, 2])
        assert await offsets(client, -1, -1) == (ErrorCode.UNKNOWN_SERVER_ERROR, [])
        assert await offsets(client, -1, 1, "nowhere") == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])


@pytest.mark.parametrize(("version", "magic"), [(0, 0), (1, 0), (2, 1)])
@pytest.mark.parametrize("append_time", [False, True])
async def test_messages_of_format_0_have_no_timestamp(version: int, magic: int, append_time: bool) -> None:
    async with broker() as connect:
        client = await connect()
        await create(client, "t", message_timestamp_type="LogAppendTime" if append_time else "CreateTime")
        builder = LegacyRecordBatchBuilder(magic=magic, compression_type=0, batch_size=10_000)
        builder.append(0, timestamp=NOW, key=b"k", value=b"v")
        assert (await append(client, bytes(builder.build()), version)).error_code == ErrorCode.NONE
        records = (await fetch(client, 4)).records or b""
        ((position, header),) = batches(records)
        (record,) = decode_records(records, position, header)
        if append_time:
            assert record.timestamp == header.max_timestamp > NOW
        else:
            assert record.timestamp == header.max_timestamp == (NOW if magic else -1)


async def test_a_refused_batch_names_its_records() -> None:
    """KIP-467: from Produce 8 on. As Kafka: the log's start comes with it, and no message that the code says already."""
    async with broker() as connect:
        client = await connect()
        await create(client, "t", cleanup_policy="compact")
        keys = (b"k", None, b"k", None)
        records = encode_batch([(NOW, key, b"v", ()) for key in keys])
        refused = await append(client, records, 8)
        assert (refused.error_code, refused.base_offset) == (ErrorCode.INVALID_RECORD, -1)
        assert refused.log_start_offset == 0
        assert [e.batch_index for e in refused.record_errors] == [1, 3]
        assert all(e.batch_index_error_message for e in refused.record_errors)
        assert "record 1" in (refused.error_message or "")
        old = await append(client, records, 7)
        assert (old.error_code, old.record_errors, old.error_message) == (ErrorCode.INVALID_RECORD, [], None)
        damaged = await append(client, records[:-1] + b"x", 8)
        assert (damaged.error_code, damaged.error_message) == (ErrorCode.CORRUPT_MESSAGE, None)
        assert damaged.log_start_offset == -1
        empty = await append(client, b"", 8)
        assert (empty.error_code, empty.log_start_offset) == (ErrorCode.INVALID_RECORD, -1)


@pytest.mark.parametrize(
    ("settings", "offset_ms", "code"),
    [
        ({"message_timestamp_before_max_ms": "1000"}, -60_000, ErrorCode.INVALID_TIMESTAMP),
        ({"message_timestamp_after_max_ms": "1000"}, -60_000, ErrorCode.NONE),
        ({"message_timestamp_after_max_ms": "1000"}, 60_000, ErrorCode.INVALID_TIMESTAMP),
        ({"message_timestamp_difference_max_ms": "1000"}, 60_000, ErrorCode.INVALID_TIMESTAMP),
        ({"message_timestamp_difference_max_ms": "1000"}, -60_000, ErrorCode.INVALID_TIMESTAMP),
        (
            {"message_timestamp_difference_max_ms": "1000", "message_timestamp_before_max_ms": "90000"},
            -60_000,
            ErrorCode.NONE,
        ),
    ],
)
async def test_limits_of_timestamps(settings: dict[str, str], offset_ms: int, code: ErrorCode) -> None:
    async with broker() as connect:
        client = await connect()
        await create(client, "t", **settings)
        records = encode_batch([(int(time.time() * 1000) + offset_ms, b"k", b"v", ())])
        assert (await append(client, records)).error_code == code


@pytest.mark.parametrize("name", ["uncompressed", "gzip", "snappy", "lz4", "zstd", "producer"])
async def test_compression_type(name: str) -> None:
    async with broker() as connect:
        client = await connect()
        await create(client, "t", compression_type=name)
        await append(client, batch(b"a" * 500, codec=GZIP))
        ((_, header),) = batches((await fetch(client, 11)).records or b"")
        codec = ["uncompressed", "gzip", "snappy", "lz4", "zstd"].index("gzip" if name == "producer" else name)
        assert header.codec == codec
        assert (await fetch(client, 4)).error_code == ErrorCode.NONE
        old = await fetch(client, 3)
        assert old.error_code == (ErrorCode.UNSUPPORTED_COMPRESSION_TYPE if name == "zstd" else ErrorCode.NONE)


async def test_min_insync_replicas_waits_for_no_more_replicas_than_there_are() -> None:
    """As Apache Kafka 3.9.1 and 4.3.0 answer with one replica; 2.6.3 refuses acks=all with NOT_ENOUGH_REPLICAS."""
    async with broker() as connect:
        client = await connect()
        await create(client, "t", min_insync_replicas="2")
        for acks in (-1, 1):
            assert (await append(client, batch(b"a"), acks=acks)).error_code == ErrorCode.NONE


async def test_a_produce_that_wants_no_answer_loses_its_connection_when_it_fails() -> None:
    """As Kafka does, so that the client looks for its leader again."""
    async with broker() as connect:
        client = await connect()
        await create(client, "t")
        for records, closed in ((batch(b"a"), False), (batch(b"a")[:-1] + b"x", True)):
            data = [TopicProduceData("t", partition_data=[PartitionProduceData(0, records)])]
            client.send(ProduceRequest(None, 0, 1000, data), 9)
            if not closed:
                assert messages(await fetch(client, 4)) == [(0, NOW, b"a")]
        assert await client.is_closed()
