"""Every message in every version: round trips, agreement with an independent implementation, refusal of bad bytes. The
versions that Apache Kafka 4 has dropped, and kio with it, beside kafka-python's older codec."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import inspect
import io
import pkgutil
import random
from typing import Any

import kafka.protocol.old
import pytest

from coterie.wire.apis import APIS, CLUSTER_APIS
from coterie.wire.codec import source
from coterie.wire.declaration import Message, Struct, array, field, int32, string, struct
from coterie.wire.messages.groups.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from coterie.wire.messages.groups.heartbeat import HeartbeatRequest
from coterie.wire.messages.groups.join_group import JoinGroupResponse
from coterie.wire.messages.stored.consumer_offsets import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from coterie.wire.messages.stored.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from coterie.wire.primitives import WireError
from coterie_conformance.fuzzing.inputs import random_struct

REQUESTS = [m for api in APIS.values() for m in (api.request, api.response)]
EVERY: list[type[Message]] = [
    *REQUESTS,
    *[m for api in CLUSTER_APIS.values() for m in (api.request, api.response)],
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    GroupMetadataValue,
    OffsetCommitValue,
    OffsetCommitKey,
    GroupMetadataKey,
]
every_message = pytest.mark.parametrize("message", EVERY, ids=lambda message: message.__name__)
SINCE_KIO = (93, 94)  # APIs of Kafka 4.4, which `test_kafka_schemas` compares
OLD_APIS = {0: 2, 1: 3, 2: 0, 19: 1, 20: 0, 32: 0, 23: 1}  # api key -> the newest version that kio lacks
MODULES = [
    importlib.import_module(f"{kafka.protocol.old.__name__}.{module.name}")
    for module in pkgutil.iter_modules(kafka.protocol.old.__path__)
]
VERSIONS = [
    (message, version)
    for key, newest in OLD_APIS.items()
    for message in (APIS[key].request, APIS[key].response)
    for version in range(newest + 1)
]


def versions(message: type[Message]) -> range:
    return range(message.versions.first, message.versions.last + 1)


@every_message
def test_round_trip_and_every_cut(message: type[Message]) -> None:
    for version in versions(message):
        print(f"v{version}")  # of a failure, the last
        rng = random.Random(f"{message.__name__}-{version}")
        for _ in range(5):
            value = random_struct(message, version, rng)
            data = value.encode(version)
            assert message.decode(data, version) == value
            for cut in range(0, len(data), max(1, len(data) // 40)):
                with pytest.raises(WireError):
                    message.decode(data[:cut], version)


def kio_type(message: type[Message], version: int) -> type[Any] | None:
    name = message.__name__
    stem = name.removesuffix("Request").removesuffix("Response")
    package = "".join("_" + c.lower() if c.isupper() else c for c in stem).strip("_")
    part = "request" if name.endswith("Request") else "response" if name.endswith("Response") else "data"
    try:
        module = importlib.import_module(f"kio.schema.{package}.v{version}.{part}")
    except ModuleNotFoundError:
        return None
    message_class: type[Any] = getattr(module, name)
    return message_class


@every_message
def test_an_independent_codec_reads_and_writes_the_same_bytes(message: type[Message]) -> None:
    from kio.serial import entity_reader, entity_writer

    for version in versions(message):
        print(f"v{version}")  # of a failure, the last
        other = kio_type(message, version)
        if other is None:
            continue
        rng = random.Random(f"kio-{message.__name__}-{version}")
        for _ in range(5):
            data = random_struct(message, version, rng).encode(version)
            read = entity_reader(other)(data, 0)
            entity = read[0] if isinstance(read, tuple) else read
            out = io.BytesIO()
            entity_writer(other)(out, entity)
            assert out.getvalue() == data


def test_the_comparison_covers_the_apis() -> None:
    """kio lacks nothing but what it dropped and what came later: most versions of all requests and responses must have been
    compared."""
    compared = sum(kio_type(message, version) is not None for message in EVERY for version in versions(message))
    wanted = [message for message in REQUESTS if message.api_key not in SINCE_KIO]
    assert compared > 0.9 * sum(len(versions(message)) for message in wanted)


def test_golden_offset_commit_record() -> None:
    """The record of group "g", topic "t", partition 5, byte by byte as Apache Kafka's OffsetCommitKey and -Value say."""
    key = OffsetCommitKey("g", "t", 5).encode(1)
    assert key.hex() == "0001" + "67" + "0001" + "74" + "00000005"
    value = OffsetCommitValue(42, 7, "m", 1_700_000_000_000).encode(3)
    assert value.hex() == "000000000000002a" + "00000007" + "0001" + "6d" + "0000018bcfe56800"
    with_expiry = OffsetCommitValue(42, 7, "m", 1_700_000_000_000, 1_700_000_000_001).encode(1)
    assert with_expiry.hex() == "000000000000002a" + "0001" + "6d" + "0000018bcfe56800" + "0000018bcfe56801"


def test_golden_group_metadata_record() -> None:
    assert GroupMetadataKey("g").encode(2).hex() == "0001" + "67"
    member = MemberMetadata("m-1", None, "c", "/h", 60_000, 10_000, b"\x01", b"\x02\x03")
    value = GroupMetadataValue("consumer", 3, "range", "m-1", 1_700_000_000_000, [member]).encode(3)
    expected = (
        "0008"
        + b"consumer".hex()
        + "00000003"
        + "0005"
        + b"range".hex()
        + "0003"
        + b"m-1".hex()
        + "0000018bcfe56800"
        + "00000001"
        + "0003"
        + b"m-1".hex()
        + "ffff"
        + "0001"
        + "63"
        + "0002"
        + "2f68"
        + "0000ea60"
        + "00002710"
        + "00000001"
        + "01"
        + "00000002"
        + "0203"
    )
    assert value.hex() == expected


def test_golden_heartbeat_request() -> None:
    data = HeartbeatRequest("group", 5, "member", None).encode(4)
    assert data.hex() == "06" + b"group".hex() + "00000005" + "07" + b"member".hex() + "00" + "00"


def test_golden_consumer_group_heartbeat() -> None:
    """A member of group "g" leaves partition 1 of a topic and stays in epoch 7; the response lets it have partition 2."""
    topic = bytes(range(16))
    request = ConsumerGroupHeartbeatRequest("g", "m", 7, topic_partitions=[TopicPartitions(topic, [1])])
    unchanged = "00" + "00" + "ffffffff" + "00"  # instance, rack, rebalance timeout, names
    owned = "02" + topic.hex() + "02" + "00000001" + "00"
    ends = "00" + owned + "00"  # the assignor, what is owned, tags
    assert request.encode(0).hex() == "0267" + "026d" + "00000007" + unchanged + ends
    assert request.encode(1).hex() == "0267" + "026d" + "00000007" + unchanged + "00" + ends
    response = ConsumerGroupHeartbeatResponse(0, 0, None, "m", 8, 5000, Assignment([TopicPartitions(topic, [2])]))
    assigned = "01" + "02" + topic.hex() + "02" + "00000002" + "00" + "00"  # not null, the array, two ends
    assert response.encode(1).hex() == "00000000" + "0000" + "00" + "026d" + "00000008" + "00001388" + assigned + "00"


def test_a_huge_count_is_refused_before_anything_is_made() -> None:
    with pytest.raises(WireError, match="more elements"):
        APIS[3].request.decode(b"\x7f\xff\xff\xff", 1)


def test_unknown_tagged_fields_are_passed_over() -> None:
    data = HeartbeatRequest("g", 1, "m").encode(4)
    tagged = data[:-1] + b"\x01" + b"\x63" + b"\x03abc"
    assert HeartbeatRequest.decode(tagged, 4) == HeartbeatRequest("g", 1, "m")


def test_null_where_it_may_not_be() -> None:
    with pytest.raises(WireError, match="group_id must not be null"):
        HeartbeatRequest.decode(b"\xff\xff", 3)


@pytest.mark.parametrize("version", range(10))
def test_a_generation_without_a_protocol_is_empty_where_it_may_not_be_null(version: int) -> None:
    """Kafka's JoinGroupResponse turns a null protocol name into "" below v7."""
    data = JoinGroupResponse(protocol_name=None).encode(version)
    assert JoinGroupResponse.decode(data, version).protocol_name == ("" if version < 7 else None)


def test_messages_are_compared_and_shown_by_their_fields() -> None:
    partitions = TopicPartitions(bytes(16), [1, 2])
    assert partitions == TopicPartitions(bytes(16), [1, 2])
    assert partitions != TopicPartitions(bytes(16), [1])
    assert Assignment([partitions]) == Assignment([TopicPartitions(bytes(16), [1, 2])])
    assert HeartbeatRequest("g", 1, "m") != OffsetCommitKey("g", "m", 1)
    assert repr(HeartbeatRequest("g", 1, "m")) == (
        "HeartbeatRequest(group_id='g', generation_id=1, member_id='m', group_instance_id=None)"
    )
    with pytest.raises(TypeError):
        hash(partitions)


def test_the_generated_code_can_be_read() -> None:
    text = source(HeartbeatRequest, 4)
    assert "def decode_HeartbeatRequest_v4(data, at, room=" in text
    assert "def encode_HeartbeatRequest_v4(m, out):" in text


def test_the_constructor_made_at_first_use_is_that_of_a_dataclass() -> None:
    """By order and by name, with defaults, a list and a struct of its own for each; what is too much is refused."""

    @struct
    class Part(Struct):
        number: int = field(int32, default=-1)

    @struct
    class Whole(Struct):
        name: str = field(string)
        parts: list[Part] = field(array(Part))
        part: Part = field(Part)

    @struct
    class Nothing(Struct):
        pass

    first, second = Whole("a", part=Part(5)), Whole()
    assert (first.name, first.parts, first.part) == ("a", [], Part(5))
    assert (second.name, second.parts, second.part) == ("", [], Part(-1))
    assert second.parts is not Whole().parts
    assert second.part is not Whole().part
    assert dataclasses.replace(first, name="b") == Whole("b", part=Part(5))
    assert copy.deepcopy(first) == first
    assert list(inspect.signature(Whole.__init__).parameters) == ["self", "name", "parts", "part"]
    for wrong in (lambda: Whole("a", [], Part(), 4), lambda: Whole(unknown=1), lambda: Nothing(1)):  # type: ignore[call-arg]
        with pytest.raises(TypeError):
            wrong()


def their_type(message: type[Message], version: int) -> Any:
    name = f"{message.__name__}_v{version}"
    return next(getattr(module, name) for module in MODULES if hasattr(module, name))


@pytest.mark.parametrize(("message", "version"), VERSIONS, ids=lambda x: x.__name__ if isinstance(x, type) else f"v{x}")
def test_another_codec_reads_and_writes_the_same_bytes(message: type[Message], version: int) -> None:
    other = their_type(message, version)
    rng = random.Random(f"old-{message.__name__}-{version}")
    for _ in range(5):
        value = random_struct(message, version, rng)
        data = value.encode(version)
        assert other.decode(io.BytesIO(data)).encode() == data
        assert message.decode(data, version) == value


def test_kio_does_not_have_these() -> None:
    assert [(m.__name__, v) for m, v in VERSIONS if kio_type(m, v) is not None] == []
