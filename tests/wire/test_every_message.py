"""Every message in every version, with values made from its schema, beside the interpreter of Kafka's protocol guide
(`reference`): the same bytes, the same values, and of bytes that are damaged the same verdict. Messages between brokers
and their controller: bytes that Apache Kafka 2.6.3's own classes read and write alike."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from coterie.wire.apis import APIS, CLUSTER_APIS, advertised_versions
from coterie.wire.codec import decode
from coterie.wire.declaration import Message, Struct, array, field, int32, message, string, struct
from coterie.wire.messages.brokers.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse
from coterie.wire.messages.brokers.controlled_shutdown import RemainingPartition as Remaining
from coterie.wire.messages.brokers.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from coterie.wire.messages.brokers.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from coterie.wire.messages.brokers.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from coterie.wire.primitives import TooManyElements, WireError
from coterie_conformance.fuzzing.target import mutated
from tests.wire import reference
from tests.wire.messages import EVERY, made
from tests.wire.reference import Refused

EXAMPLES_OF_A_VERSION = 6
every_message = pytest.mark.parametrize("cls", EVERY, ids=lambda cls: cls.__name__)
GOLDEN: list[tuple[Message, int, str]] = [
    (
        LeaderAndIsrRequest(
            1,
            2,
            3,
            topic_states=[
                LeaderAndIsrTopicState(
                    "t", [LeaderAndIsrPartitionState("", 4, 5, 6, 7, [8], 9, [10, 11], [12], [13], True)]
                )
            ],
            live_leaders=[LeaderAndIsrLiveLeader(14, "h", 15)],
        ),
        4,
        "000000010000000200000000000000030202740200000004000000050000000600000007020000000800000009030000000a0000000b020000000c020000000d010000020000000e02680000000f0000",
    ),
    (
        LeaderAndIsrRequest(
            1,
            2,
            ungrouped_partition_states=[LeaderAndIsrPartitionState("t", 4, 5, 6, 7, [8], 9, [10, 11], is_new=True)],
            live_leaders=[LeaderAndIsrLiveLeader(14, "h", 15)],
        ),
        1,
        "00000001000000020000000100017400000004000000050000000600000007000000010000000800000009000000020000000a0000000b01000000010000000e0001680000000f",
    ),
    (
        StopReplicaRequest(1, 2, 3, topic_states=[StopReplicaTopicState("t", [StopReplicaPartitionState(4, 5, True)])]),
        3,
        "0000000100000002000000000000000302027402000000040000000501000000",
    ),
    (
        UpdateMetadataRequest(
            1,
            2,
            3,
            topic_states=[
                UpdateMetadataTopicState("t", [UpdateMetadataPartitionState("", 4, 5, 6, 7, [8], 9, [10], [11])])
            ],
            live_brokers=[UpdateMetadataBroker(12, endpoints=[UpdateMetadataEndpoint(13, "h", "L", 0)], rack="r")],
        ),
        6,
        "000000010000000200000000000000030202740200000004000000050000000600000007020000000800000009020000000a020000000b0000020000000c020000000d0268024c00000002720000",
    ),
    (ControlledShutdownRequest(1, 2), 3, "00000001000000000000000200"),
    (ControlledShutdownResponse(3, [Remaining("t", 4)]), 3, "0003020274000000040000"),
]


def for_every_version(cls: type[Message], check: Callable[[int, Any, random.Random], None]) -> None:
    """Carries out ``check(version, value, rng)`` for values of each version, the same in each run."""
    for version in range(cls.versions.first, cls.versions.last + 1):
        rng = random.Random(f"{cls.__name__} {version}")
        for _ in range(EXAMPLES_OF_A_VERSION):
            check(version, made(cls, version, rng), rng)


@every_message
def test_the_bytes_are_those_of_the_protocol_guide(cls: type[Message]) -> None:
    """And what stands before and after the message is left alone: the position after it is its last byte's."""

    def check(version: int, value: Any, rng: random.Random) -> None:
        data = value.encode(version)
        assert data == reference.encode(value, version)
        before, after = rng.randbytes(rng.randrange(4)), rng.randbytes(rng.randrange(4))
        whole = before + data + after
        assert decode(cls, whole, version, len(before)) == (value, len(before) + len(data))

    for_every_version(cls, check)


@every_message
def test_unknown_tagged_fields_are_skipped_in_every_struct(cls: type[Message]) -> None:
    """KIP-482: a newer peer's fields, in each flexible struct, before, between and after the known ones."""

    def check(version: int, value: Any, rng: random.Random) -> None:
        def unknown(shape: type[Struct]) -> list[tuple[int, bytes]]:
            known = {spec.tag for spec in shape.fields}
            tags = {rng.choice((1, 5, 100, 127, 128, 20_000, 2**31 - 1)) for _ in range(rng.randrange(3))} - known
            return [(tag, rng.randbytes(rng.choice((0, 1, 130)))) for tag in tags]

        data = reference.encode(value, version, unknown)
        assert decode(cls, data, version) == (value, len(data))

    for_every_version(cls, check)


@every_message
def test_damaged_bytes_have_the_verdict_of_the_protocol_guide(cls: type[Message]) -> None:
    """Read with the same value and length, or WireError: never another error, never a value that is cut short."""

    def check(version: int, value: Any, rng: random.Random) -> None:
        data = value.encode(version)
        for _ in range(8):
            damaged = mutated(data, rng)
            try:
                expected = reference.decode(cls, damaged, version)
            except Refused:
                with pytest.raises(WireError):
                    decode(cls, damaged, version)
            else:
                assert same(decode(cls, damaged, version), expected), damaged.hex()

    for_every_version(cls, check)


def same(one: Any, other: Any) -> bool:
    """Equal, where a NaN of damaged bytes equals itself."""
    return one == other or repr(one) == repr(other)


@every_message
def test_elements_are_counted_before_they_are_read(cls: type[Message]) -> None:
    """A reader that allows as many elements as there are reads the message; one that allows one fewer refuses it."""

    def check(version: int, value: Any, _rng: random.Random) -> None:
        data, elements = value.encode(version), reference.elements(value, version)
        assert decode(cls, data, version, max_elements=elements)[0] == value
        if elements:
            with pytest.raises(TooManyElements):
                decode(cls, data, version, max_elements=elements - 1)

    for_every_version(cls, check)


@every_message
def test_a_number_beyond_its_field_is_a_wire_error(cls: type[Message]) -> None:
    for spec in cls.fields:
        kind = spec.kind.name
        if not kind.startswith(("int", "uint")) or spec.tag is not None:
            continue
        bits = int(kind.removeprefix("u").removeprefix("int"))
        beyond = (1 << bits, -1) if kind.startswith("u") else (1 << (bits - 1), -(1 << (bits - 1)) - 1)
        for value in beyond:
            with pytest.raises(WireError, match=cls.__name__):
                cls(**{spec.name: value}).encode(min(spec.versions.last, cls.versions.last))


def test_text_that_is_not_unicode_is_a_wire_error() -> None:
    heartbeat: Any = next(cls for cls in EVERY if cls.__name__ == "HeartbeatRequest")
    with pytest.raises(WireError, match="HeartbeatRequest"):
        heartbeat(group_id="\udcff").encode(4)
    with pytest.raises(WireError, match="group_id is longer than 32767 bytes"):
        heartbeat(group_id="ä" * 16_384).encode(4)


# -- the shapes that few messages have ---------------------------------------------------------------------------------------


@struct
class Inner(Struct):
    name: str = field(string)
    note: str | None = field(string, "1+", nullable="1+", tag=0, default=None)


@message(versions="0-2", flexible="1+")
class Outer(Message):
    number: int = field(int32)
    inner: Inner | None = field(Inner, "1+", nullable="1+", tag=3)
    inners: list[Inner] = field(array(Inner), "2+", tag=7)


def test_tagged_structs_and_arrays() -> None:
    for_every_version(Outer, lambda version, value, _rng: _round_trip(version, value))


def _round_trip(version: int, value: Any) -> None:
    data = value.encode(version)
    assert data == reference.encode(value, version)
    assert decode(Outer, data, version) == reference.decode(Outer, data, version) == (value, len(data))


def test_a_tagged_value_that_runs_past_the_end_is_refused() -> None:
    """Its size says one byte, its own length a hundred: Kafka's generated classes read the value and find no such bytes."""
    # The name "n"; tag 0 of size 1: a string of 100 bytes, one is there.
    inner = b"\x02n" + b"\x01" + b"\x00\x01" + b"\x65x"
    data = b"\0\0\0\x07" + b"\x01" + b"\x03" + bytes([len(inner) + 1]) + b"\x01" + inner
    with pytest.raises(Refused):
        reference.decode(Outer, data, 1)
    with pytest.raises(WireError):
        Outer.decode(data, 1)


@pytest.mark.parametrize(("value", "version", "data"), GOLDEN, ids=lambda x: type(x).__name__)
def test_the_bytes_are_those_of_kafka_2_6(value: Message, version: int, data: str) -> None:
    assert value.encode(version).hex() == data
    assert type(value).decode(bytes.fromhex(data), version) == value


def test_a_broker_alone_does_not_advertise_them() -> None:
    alone = {row.api_key for row in advertised_versions()}
    assert not alone & set(CLUSTER_APIS)
    in_cluster = {row.api_key: (row.min_version, row.max_version) for row in advertised_versions(in_cluster=True)}
    assert set(in_cluster) == alone | set(CLUSTER_APIS)
    assert not set(APIS) & set(CLUSTER_APIS)
    assert [in_cluster[key] for key in (4, 5, 6, 7)] == [(0, 4), (0, 3), (0, 6), (1, 3)]
