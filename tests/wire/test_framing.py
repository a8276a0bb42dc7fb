"""Frames, headers and varints: what is written is read; of other bytes nothing but WireError; numbers as Kafka's
ByteUtils. The table of versions that name topics agrees with the declared messages."""

from __future__ import annotations

import dataclasses
import random
import struct
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.wire import topic_names
from coterie.wire.apis import APIS, CLUSTER_APIS, Api
from coterie.wire.framing import MAX_HEADER_TAGS, decode_response, encode_request, encode_response, read_head, skip_tags
from coterie.wire.messages.groups.offset_commit import OffsetCommitRequestTopic
from coterie.wire.messages.groups.offset_fetch import OffsetFetchRequestTopics
from coterie.wire.messages.logs.fetch import FetchTopic
from coterie.wire.messages.logs.produce import TopicProduceData
from coterie.wire.primitives import (
    WireError,
    java_long,
    read_unsigned_varint,
    read_varint,
    read_varlong,
    write_unsigned_varint,
    write_varint,
)
from coterie_conformance.fuzzing.target import mutated
from tests.wire import reference
from tests.wire.messages import made

VERSIONS = [
    (api, version)
    for api in [*APIS.values(), *CLUSTER_APIS.values()]
    for version in range(api.request.versions.first, api.request.versions.last + 1)
]
INT32 = st.integers(-(2**31), 2**31 - 1)
API_VERSIONS = 18


@pytest.mark.parametrize(("api", "version"), VERSIONS, ids=lambda x: getattr(x, "name", x))
def test_requests_and_responses_in_their_frames(api: Api, version: int) -> None:
    """Header 1, or 2 with tagged fields where the version is flexible; responses of ApiVersions always have header 0."""
    rng = random.Random(f"{api.name} {version}")
    request, response = made(api.request, version, rng), made(api.response, version, rng)
    flexible = version in api.request.flexible
    for client_id in (None, "", "ä-client"):
        frame = encode_request(77, client_id, request, version)
        assert struct.unpack(">i", frame[:4])[0] == len(frame) - 4
        head = read_head(frame[4:])
        assert (head.api_key, head.api_version, head.correlation_id, head.client_id) == (
            api.key,
            version,
            77,
            client_id,
        )
        body_at = skip_tags(frame[4:], head.body_at) if flexible else head.body_at
        assert frame[4 + body_at :] == reference.encode(request, version)
    frame = encode_response(78, response, version)
    tagged = b"\0" if version in api.response.flexible and api.key != API_VERSIONS else b""
    assert frame == struct.pack(">ii", len(frame) - 4, 78) + tagged + reference.encode(response, version)
    assert decode_response(api.response, frame[4:], version) == response


@given(st.randoms(use_true_random=False))
def test_damaged_headers(rng: random.Random) -> None:
    """A header is read, and its body begins within the frame, or it is refused with WireError."""
    tags = b"".join(bytes((n, n)) + rng.randbytes(n) for n in range(rng.randrange(4)))
    frame = struct.pack(">hhih", 12, 4, 5, 3) + b"abc" + bytes((len(tags) and 1,)) + tags
    damaged = mutated(frame, rng)
    try:
        body_at = skip_tags(damaged, read_head(damaged).body_at)
    except WireError:
        return
    assert 0 < body_at <= len(damaged)


def test_a_header_of_too_many_tagged_fields_is_refused() -> None:
    allowed = write_unsigned_varint(MAX_HEADER_TAGS) + b"\x05\0" * MAX_HEADER_TAGS
    assert skip_tags(allowed, 0) == len(allowed)
    with pytest.raises(WireError, match="tagged fields"):
        skip_tags(write_unsigned_varint(MAX_HEADER_TAGS + 1) + b"\x05\0" * (MAX_HEADER_TAGS + 1), 0)


@given(st.integers(0, 2**32 - 1), st.binary(max_size=3))
def test_unsigned_varints(value: int, around: bytes) -> None:
    data = write_unsigned_varint(value)
    assert data == reference.unsigned_varint(value)
    assert read_unsigned_varint(around + data + around, len(around)) == (value, len(around) + len(data))
    for cut in range(len(data)):
        with pytest.raises(IndexError):
            read_unsigned_varint(data[:cut], 0)


@given(st.integers(-(2**63), 2**63 - 1), INT32)
def test_zigzag_varints(long: int, short: int) -> None:
    for value in (long, short):
        data = write_varint(value)
        assert data == reference.unsigned_varint(2 * value if value >= 0 else -2 * value - 1)
        assert read_varlong(data, 0) == (value, len(data))
    data = write_varint(short)
    assert read_varint(data, 0) == (short, len(data))
    for cut in range(len(data)):
        with pytest.raises(IndexError):
            read_varint(data[:cut], 0)


@given(st.integers(-(2**70), 2**70))
def test_numbers_beyond_64_bits_wrap_as_javas(value: int) -> None:
    wrapped = int.from_bytes((value % 2**64).to_bytes(8, "big"), "big", signed=True)
    assert java_long(value) == wrapped
    assert read_varlong(write_varint(value), 0)[0] == wrapped


@pytest.mark.parametrize(("read", "most"), [(read_unsigned_varint, 5), (read_varint, 5), (read_varlong, 10)])
def test_varints_that_are_too_long_are_refused(read: Callable[[bytes, int], object], most: int) -> None:
    """Zeros in redundant groups are read, as by Kafka, up to the most bytes that there may be."""
    assert read(b"\x80" * (most - 1) + b"\0", 0) == (0, most)
    with pytest.raises(WireError, match=f"longer than {most} bytes"):
        read(b"\x80" * most + b"\0", 0)


@pytest.mark.parametrize(
    ("data", "short", "long"),
    [
        (b"\xfe\xff\xff\xff\x0f", 2**31 - 1, 2**31 - 1),
        (b"\xff\xff\xff\xff\x0f", -(2**31), -(2**31)),
        (b"\xfe\xff\xff\xff\x7f", 2**31 - 1, 2**34 - 1),  # the fifth byte of an int gives 4 bits
        (b"\x80\x80\x80\x80\x10", 0, 2**31),
    ],
)
def test_bits_beyond_an_int_are_dropped(data: bytes, short: int, long: int) -> None:
    assert read_varint(data, 0) == (short, 5)
    assert read_varlong(data, 0) == (long, 5)


@pytest.mark.parametrize(
    ("topic", "last"),
    [
        (FetchTopic, topic_names.FETCH),
        (TopicProduceData, topic_names.PRODUCE),
        (OffsetCommitRequestTopic, topic_names.OFFSET_COMMIT),
        (OffsetFetchRequestTopics, topic_names.OFFSET_FETCH),
    ],
)
def test_ids_follow_names(topic: Any, last: int) -> None:
    fields = {field.name: field.metadata["versions"] for field in dataclasses.fields(topic)}
    names = fields.get("topic") or fields["name"]
    assert last in names
    assert last + 1 not in names
    assert last not in fields["topic_id"]
    assert last + 1 in fields["topic_id"]
