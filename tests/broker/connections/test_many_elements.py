"""Requests of many small things: counted before they are read, and each thing answered once."""

from __future__ import annotations

import random
import tracemalloc

import pytest

from coterie.assignors.blobs import MAX_SUBSCRIBED_TOPICS, decode_subscribed_topics, encode_subscription
from coterie.broker.requests.turns import REPEATED_AT_MOST, distinct
from coterie.wire.apis import APIS
from coterie.wire.codec import decode
from coterie.wire.declaration import Message, Struct
from coterie.wire.errors import ErrorCode
from coterie.wire.framing import MAX_HEADER_TAGS
from coterie.wire.messages.groups.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from coterie.wire.messages.settings.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from coterie.wire.messages.topics.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from coterie.wire.primitives import TooManyElements, WireError, write_unsigned_varint
from coterie_conformance.fuzzing.inputs import random_struct
from tests.broker.connections.test_bounds import running

REQUESTS = [(a.request, v) for a in APIS.values() for v in range(a.advertised.first, a.advertised.last + 1)]


def elements(value: object, version: int) -> int:
    """How many elements the arrays of a message have, in all, as that version carries them."""
    count = 0
    assert isinstance(value, Struct)
    for spec in value.fields:
        part = getattr(value, spec.name)
        if version not in spec.versions or part is None:
            continue
        if spec.kind.name == "array":
            assert spec.kind.element is not None
            count += len(part)
            if spec.kind.element.shape is not None:
                count += sum(elements(item, version) for item in part)
        elif spec.kind.shape is not None:
            count += elements(part, version)
    return count


@pytest.mark.parametrize(("message", "version"), REQUESTS, ids=lambda of: getattr(of, "__name__", str(of)))
def test_every_element_is_counted(message: type[Message], version: int) -> None:
    for seed in range(5):
        made = random_struct(message, version, random.Random(seed))
        data, count = made.encode(version), elements(made, version)
        tagged = sum(s.tag is not None and version in s.versions for s in message.fields)
        # A tagged field counts as well, where it is there.
        assert any(decodes(message, data, version, count + more) for more in range(tagged + 50)), count
        if count:
            assert not decodes(message, data, version, count - 1)


def decodes(message: type[Message], data: bytes, version: int, room: int) -> bool:
    try:
        decode(message, data, version, 0, room)
    except TooManyElements:
        return False
    return True


@pytest.mark.parametrize("version", [1, 9])
def test_too_many_elements_are_refused_before_any_is_made(version: int) -> None:
    count = 5_000_000
    length = write_unsigned_varint(count + 1) if version == 9 else count.to_bytes(4, "big")
    data = length + (b"\x01\0" if version == 9 else b"\0\0") * count
    decode(MetadataRequest, MetadataRequest([]).encode(version), version)  # compiles the codec
    tracemalloc.start()
    with pytest.raises(TooManyElements, match="topics"):
        decode(MetadataRequest, data, version, 0, 200_000)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak_bytes < 100_000


def test_unknown_tagged_fields_are_counted() -> None:
    many = write_unsigned_varint(1_000_000) + b"\x07\0" * 1_000_000
    with pytest.raises(TooManyElements):
        decode(MetadataRequest, b"\x01\0\0\0" + many, 9, 0, 200_000)


async def test_a_connection_with_too_many_elements_is_closed(caplog: pytest.LogCaptureFixture) -> None:
    async with running(coterie_request_max_elements="1000") as at:
        good, evil, header = await at.connect(), await at.connect(), await at.connect()
        requested = MetadataRequest([MetadataRequestTopic(name=f"n{n}") for n in range(1000)], False)
        assert len((await good.ask(requested, MetadataResponse, 9)).topics) == 1000
        requested.topics.append(MetadataRequestTopic(name="one more"))
        evil.send(requested, 9)
        assert await evil.is_closed()
        tags = write_unsigned_varint(MAX_HEADER_TAGS + 1) + b"\x07\0" * (MAX_HEADER_TAGS + 1)
        frame = b"\0\x03\0\x09\0\0\0\x01\xff\xff" + tags
        header.writer.write(len(frame).to_bytes(4, "big") + frame)
        assert await header.is_closed()
    assert "with topics it has more elements than are allowed" in caplog.text
    assert "1001 tagged fields" in caplog.text


async def test_metadata_answers_each_name_once() -> None:
    """As Kafka: half a million empty names are one INVALID_TOPIC_EXCEPTION."""
    async with running() as at:
        client = await at.connect()
        requested = MetadataRequest([MetadataRequestTopic(name=n) for n in ("", "t", "..")] * 33_000)
        response = await client.ask(requested, MetadataResponse, 9)
        assert [(t.name, t.error_code) for t in response.topics] == [
            ("", ErrorCode.INVALID_TOPIC_EXCEPTION),
            ("t", ErrorCode.NONE),
            ("..", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ]


async def test_what_is_named_over_and_over_is_described_once() -> None:
    async with running() as at:
        client = await at.connect()
        requested = DescribeConfigsRequest([DescribeConfigsResource(4, "1") for _ in range(90_000)])
        assert len((await client.ask(requested, DescribeConfigsResponse, 4)).results) == 1


def test_a_few_repeated_names_stay() -> None:
    few = ["a"] * REPEATED_AT_MOST
    assert distinct(few, str) == few
    assert distinct([*few, "b"], str) == ["a", "b"]


async def test_a_commit_of_many_partitions_that_do_not_exist_takes_no_square_of_the_time() -> None:
    """45,000 of each would have been compared with each other: minutes."""
    async with running() as at:
        client = await at.connect()
        unknown = [OffsetCommitRequestPartition(p % 2 * p, 1, -1, committed_metadata="") for p in range(90_000)]
        requested = OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic("t", partitions=unknown)])
        response = await client.ask(requested, OffsetCommitResponse, 8)
        codes = [p.error_code for t in response.topics for p in t.partitions]
        assert (len(codes), codes.count(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)) == (90_000, 45_000)


def test_a_subscription_of_too_many_topics_is_not_read() -> None:
    few = encode_subscription(["a", "b"])
    assert decode_subscribed_topics(few) == {"a", "b"}
    count = MAX_SUBSCRIBED_TOPICS + 1
    with pytest.raises(WireError):
        decode_subscribed_topics(b"\0\0" + count.to_bytes(4, "big") + b"\0\0" * count + b"\xff\xff\xff\xff")
