"""Messages as the compiled edition has them, run by the interpreter: the same classes to a user, and codecs that read and
write what the generated text does. The tests of `wire` ask the compiled ones the same (tests/compiled.txt)."""

from __future__ import annotations

import dataclasses
import random
import struct
from functools import cache
from types import ModuleType
from typing import Any

import pytest

import compiled_messages
import compiled_modules
from coterie.wire import codec
from coterie.wire.fields import Struct, VersionedStruct
from coterie.wire.primitives import TooManyElements, WireError
from coterie_conformance.fuzzing.target import mutated
from tests.wire.messages import made

FILES = [file for file in compiled_modules.module_files() if compiled_modules.is_of_messages(file)]
EACH_FILE = pytest.mark.parametrize("file", FILES)
UNREADABLE = (WireError, struct.error, IndexError, UnicodeDecodeError, OverflowError)


@cache
def native(file: str) -> ModuleType:
    """The text that the build compiles, run as it is."""
    source = (compiled_modules.SOURCE / file).read_text("utf-8")
    module = ModuleType(f"native.{file}")
    exec(compile(compiled_messages.native_module(file, source), file, "exec"), module.__dict__)
    return module


def twins(file: str) -> list[tuple[type[Struct], Any]]:
    """Each class that the file declares, and the native one of the same name."""
    name = f"coterie.{file.removesuffix('.py').replace('/', '.')}"
    module = __import__(name, fromlist=["_"])
    declared = [
        c for c in vars(module).values() if isinstance(c, type) and issubclass(c, Struct) and c.__module__ == name
    ]
    return [(cls, getattr(native(file), cls.__name__)) for cls in declared]


def codecs(file: str) -> list[tuple[type[VersionedStruct], Any, int]]:
    """Each message, the native one, and each version in use."""
    return [
        (cls, twin, version)
        for cls, twin in twins(file)
        if issubclass(cls, VersionedStruct)
        for version in compiled_messages.versions_in_use(cls)
    ]


def native_codec(file: str, cls: type[VersionedStruct], version: int) -> tuple[codec.Encoder, codec.Decoder]:
    return tuple(getattr(native(file), f"{verb}_{cls.__name__}_v{version}") for verb in ("encode", "decode"))  # type: ignore[return-value]


@EACH_FILE
def test_a_native_class_is_declared_and_made_as_the_other(file: str) -> None:
    for cls, twin in twins(file):
        assert [(s.name, s.kind.name, s.versions, s.nullable, s.tag, s.null_as) for s in cls.fields] == [
            (s.name, s.kind.name, s.versions, s.nullable, s.tag, s.null_as) for s in twin.fields
        ]
        assert repr(cls()) == repr(twin()), "the defaults"
        if issubclass(cls, VersionedStruct):
            assert (cls.api_key, cls.versions, cls.flexible) == (twin.api_key, twin.versions, twin.flexible)
        one, other = twin(), twin()
        nullable = [f.name for f in dataclasses.fields(cls) if "None" in str(f.type)]  # type: ignore[arg-type]
        for name in nullable:
            assert getattr(twin(**{name: None}), name) is None
        for spec in cls.fields:
            value = object()
            assert getattr(twin(**{spec.name: value}), spec.name) is value
            assert one == other
            setattr(one, spec.name, value)
            assert one != other, f"{spec.name} is compared"
            setattr(other, spec.name, value)
        assert list(twin(*range(len(cls.fields))).__dict__.values()) == list(range(len(cls.fields)))


@EACH_FILE
def test_a_native_codec_writes_and_reads_the_same(file: str) -> None:
    for cls, twin, version in codecs(file):
        encode, decode = native_codec(file, cls, version)
        for seed in range(12):
            value, pieces = made(cls, version, random.Random(seed)), list[bytes]()
            encode(made(twin, version, random.Random(seed)), pieces)
            data = b"".join(pieces)
            assert data == codec.encode(value, version)
            read, at = decode(b"before" + data + b"after", 6)
            assert (repr(read), at) == (repr(value), 6 + len(data))


@EACH_FILE
def test_a_native_codec_refuses_the_same_bytes(file: str) -> None:
    """And allows as many elements."""
    for cls, _, version in codecs(file):
        rng, (_, native_decode) = random.Random(f"{cls.__name__} {version}"), native_codec(file, cls, version)
        for _ in range(12):
            data = codec.encode(made(cls, version, rng), version)
            for damaged in (data[: rng.randrange(len(data) + 1)], *(mutated(data, rng) for _ in range(8))):
                room = rng.choice((1, 5, codec.MAX_ELEMENTS))
                expected = verdict(codec.decoder(cls, version), damaged, room)
                assert verdict(native_decode, damaged, room) == expected, damaged.hex()


def verdict(decode: codec.Decoder, data: bytes, room: int) -> str:
    try:
        return repr(decode(data, 0, room))
    except TooManyElements:
        return "too many"
    except UNREADABLE:
        return "refused"


def test_a_field_that_its_version_cannot_carry_as_null_is_refused() -> None:
    """A topic of a Metadata response has a name before version 12."""
    module = native("wire/messages/metadata.py")
    with pytest.raises(TypeError, match="must not be null"):
        module.encode_MetadataResponse_v8(module.MetadataResponse(topics=[module.MetadataResponseTopic(name=None)]), [])


def test_versions_in_use() -> None:
    """The newest that is served, the newest with names, the newest that is not flexible; of what is stored, all."""

    def of(name: str, file: str) -> list[int]:
        return compiled_messages.versions_in_use(getattr(native(f"wire/messages/{file}.py"), name))

    assert of("FetchRequest", "fetch") == [11, 12, 18]
    assert of("HeartbeatRequest", "heartbeat") == [3, 4]
    assert of("ConsumerGroupHeartbeatRequest", "consumer_group_heartbeat") == [1]
    assert of("ConsumerProtocolSubscription", "consumer_protocol") == [0, 1, 2, 3]
    assert of("ListOffsetsRequest", "list_offsets") == [5, 10], "11 exists, and no broker of ours serves it"
