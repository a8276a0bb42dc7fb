"""Keys, values and headers as text for people: JSON, text, or hexadecimal where they are neither; and JSON of values that
have a schema, read in a process that a hostile value may end."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import signal
from functools import lru_cache
from typing import Any, NamedTuple

SHOWN_BYTES = 64 * 1024
HEX_BYTES = 1024
_PRINTABLE_CONTROLS = "\t\n\r"
DECODING_S = 1.0  # of processor time, for a value
MEMORY_BYTES = 2 * 1024**3  # of the process
SCHEMAS_KEPT = 1_000


class Payload(NamedTuple):
    """``kind``: null, json, text, hex, or the kind of a schema, avro, protobuf or json_schema, with its ``schema``, an id.
    ``size`` in bytes; ``is_cut``: the text is of the first bytes alone. ``problem``: why a schema did not read it."""

    kind: str
    text: str
    size: int
    is_cut: bool = False
    schema: int | None = None
    problem: str | None = None


def payload(data: bytes | None) -> Payload:
    """Without a schema."""
    if data is None:
        return Payload("null", "", 0)
    is_cut = len(data) > SHOWN_BYTES
    try:
        text = data[:SHOWN_BYTES].decode()
    except UnicodeDecodeError as error:
        if not (is_cut and error.start > SHOWN_BYTES - 4):
            return _hexadecimal(data)
        text = data[: error.start].decode()  # a character that is cut
    if any(ord(c) < 32 and c not in _PRINTABLE_CONTROLS for c in text):
        return _hexadecimal(data)
    document = None if is_cut else _document(text)
    if document is not None:
        return Payload("json", document, len(data))
    return Payload("text", text, len(data), is_cut)


def _document(text: str) -> str | None:
    """An object or an array, indented."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return indented(json.loads(text))
    except (ValueError, RecursionError):
        return None


def indented(value: Any) -> str:
    """JSON for people; what JSON does not have is written as text."""
    return json.dumps(value, ensure_ascii=False, indent=2, default=_text_of)


def _text_of(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


def _hexadecimal(data: bytes) -> Payload:
    """Rows of sixteen bytes, each with its position, and as ASCII."""
    rows = []
    for position in range(0, min(len(data), HEX_BYTES), 16):
        row = data[position : position + 16]
        shown = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        rows.append(f"{position:08x}  {row.hex(' '):<47}  {shown}")
    return Payload("hex", "\n".join(rows), len(data), len(data) > HEX_BYTES)


def hexadecimal(data: bytes, schema: int, problem: str) -> Payload:
    """What the schema of that id could not read."""
    return _hexadecimal(data)._replace(schema=schema, problem=problem)


Needed = tuple[tuple[str, str], ...]


class UnreadableValue(Exception):
    """A schema or a value that cannot be read; the text says why."""


class Schema(NamedTuple):
    """``kind``: json_schema, avro or protobuf. ``needed``: the schemas that this one refers to, each after its own, with the
    names of their imports."""

    kind: str
    text: str = ""
    needed: Needed = ()


def limit_memory() -> None:
    """At the start of the process."""
    import resource

    with contextlib.suppress(OSError, ValueError):  # where the system has a lower limit, or none
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))


def read_value(schema: Schema, data: bytes) -> str:
    """The value as JSON, indented. The process ends after `DECODING_S`: no Python runs while a library is in its own code.
    Raises any exception for bytes that are none of the schema's."""
    reader = _reader(schema)
    signal.setitimer(signal.ITIMER_PROF, DECODING_S)
    try:
        return indented(reader.read(data))
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


class JsonReader:
    """JSON Schema: the value is JSON already."""

    def __init__(self, schema: str, needed: Needed) -> None: ...

    def read(self, data: bytes) -> Any:
        return json.loads(data)


class AvroReader:
    """By fastavro. ``needed``: the schemas that this one refers to, each after its own."""

    def __init__(self, schema: str, needed: Needed) -> None:
        from fastavro import parse_schema

        named: dict[str, Any] = {}
        for _, text in needed:
            parse_schema(json.loads(text), named)
        self._schema = parse_schema(json.loads(schema), named)

    def read(self, data: bytes) -> Any:
        from fastavro import schemaless_reader

        return schemaless_reader(io.BytesIO(data), self._schema, None)


class ProtobufReader:
    """By protobuf. ``file`` and ``needed`` (by the names of their imports): descriptors of files, in base64."""

    def __init__(self, file: str, needed: Needed) -> None:
        from google.protobuf import (  # noqa: F401  # the files of Google's own types, which need no reference
            any_pb2,
            descriptor_pb2,
            descriptor_pool,
            duration_pb2,
            struct_pb2,
            timestamp_pb2,
            wrappers_pb2,
        )

        self._pool = descriptor_pool.DescriptorPool()
        own = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(file))
        own.name = own.name or "value.proto"
        files = {name: descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(d)) for name, d in needed}
        for name, described in files.items():
            described.name = name
        for described in (*files.values(), own):
            for name in described.dependency:
                if name not in files:
                    default = descriptor_pool.Default().FindFileByName(name)
                    self._pool.AddSerializedFile(default.serialized_pb)
            self._pool.AddSerializedFile(described.SerializeToString())
        self._file = self._pool.FindFileByName(own.name)

    def read(self, data: bytes) -> Any:
        """The message, by the names of its fields."""
        from google.protobuf import json_format, message_factory

        path, position = _message_indexes(data)
        messages = list(self._file.message_types_by_name.values())
        described = messages[path[0]]
        for index in path[1:]:
            described = described.nested_types[index]
        message = message_factory.GetMessageClass(described)()
        message.ParseFromString(data[position:])
        return json_format.MessageToDict(message, preserving_proto_field_name=True)


_READERS: dict[str, type[JsonReader | AvroReader | ProtobufReader]] = {
    "json_schema": JsonReader,
    "avro": AvroReader,
    "protobuf": ProtobufReader,
}


@lru_cache(SCHEMAS_KEPT)
def _reader(schema: Schema) -> JsonReader | AvroReader | ProtobufReader:
    return _READERS[schema.kind](schema.text, schema.needed)


def _message_indexes(data: bytes) -> tuple[list[int], int]:
    """Which message of the file the value is, from the outermost inwards, and where the message begins."""
    count, position = _zigzag(data, 0)
    if count == 0:
        return [0], position
    if not 0 < count <= 32:
        raise UnreadableValue(f"{count} message indexes")
    path = []
    for _ in range(count):
        index, position = _zigzag(data, position)
        path.append(index)
    return path, position


def _zigzag(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position
        if shift > 63:
            raise UnreadableValue("a message index that is too long")
