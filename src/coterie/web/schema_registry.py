"""Values with the id of a schema before them (Confluent's wire format), read by the schemas of a registry.

Avro, Protobuf and JSON Schema; needs the extra coterie[schemas].
"""

from __future__ import annotations

import base64
import io
import json
import struct
from collections import OrderedDict
from typing import Any, Protocol
from urllib.parse import quote

import aiohttp

from coterie.runtime.extras import require
from coterie.web.payloads import Payload, hexadecimal, indented, payload

MAGIC, HEAD = 0, struct.Struct(">bI")
READ_BYTES = 1024 * 1024  # of a value, at most
TIMEOUT = aiohttp.ClientTimeout(total=5)
SCHEMAS_KEPT = 1_000


class UnreadableValue(Exception):
    """A schema or a value that cannot be read; the text says why."""


class SchemaReader(Protocol):
    """Reads the values of one schema."""

    kind: str

    def read(self, data: bytes) -> Any:
        """A value for JSON. Raises any exception for bytes that are none of the schema's."""


class SchemaRegistry:
    """Over HTTP, at that URL. Keeps the schemas, which never change."""

    def __init__(self, url: str) -> None:
        require("schemas", "--schema-registry")
        self._url = url.rstrip("/")
        self._readers: OrderedDict[int, SchemaReader] = OrderedDict()

    async def payload(self, data: bytes | None) -> Payload:
        """By its schema where it begins with the id of one; else as it is."""
        if data is None or len(data) < HEAD.size or data[0] != MAGIC:
            return payload(data)
        _, schema_id = HEAD.unpack_from(data)
        try:
            reader = await self._reader(schema_id)
            if len(data) > READ_BYTES:
                raise UnreadableValue(f"it has over {READ_BYTES} bytes")
            return Payload(reader.kind, indented(reader.read(data[HEAD.size :])), len(data), schema=schema_id)
        except Exception as error:  # whatever the bytes make of the libraries
            return hexadecimal(data, schema_id, f"{type(error).__name__}: {error}"[:300])

    async def _reader(self, schema_id: int) -> SchemaReader:
        reader = self._readers.get(schema_id)
        if reader is None:
            reader = self._readers[schema_id] = await self._fetched(schema_id)
            while len(self._readers) > SCHEMAS_KEPT:
                self._readers.popitem(last=False)
        return reader

    async def _fetched(self, schema_id: int) -> SchemaReader:
        async with aiohttp.ClientSession(timeout=TIMEOUT) as session:
            document = await self._get(session, f"/schemas/ids/{schema_id}")
            kind = document.get("schemaType", "AVRO")
            if kind == "JSON":
                return JsonReader()
            if kind == "AVRO":
                return AvroReader(document["schema"], [r["schema"] for r in await self._references(session, document)])
            if kind == "PROTOBUF":
                own = await self._get(session, f"/schemas/ids/{schema_id}?format=serialized")
                needed = await self._references(session, document, "?format=serialized")
                return ProtobufReader(own["schema"], {r["name"]: r["schema"] for r in needed})
        raise UnreadableValue(f"schema {schema_id} is of the type {kind}")

    async def _references(
        self, session: aiohttp.ClientSession, document: dict[str, Any], form: str = ""
    ) -> list[dict[str, Any]]:
        """What the schema refers to, each after what it refers to itself, with its ``name``."""
        ordered: list[dict[str, Any]] = []
        for reference in document.get("references", ()):
            path = f"/subjects/{quote(reference['subject'], safe='')}/versions/{int(reference['version'])}{form}"
            needed = await self._get(session, path)
            ordered += await self._references(session, needed, form)
            ordered.append(needed | {"name": reference["name"]})
        return ordered

    async def _get(self, session: aiohttp.ClientSession, path: str) -> dict[str, Any]:
        async with session.get(self._url + path) as response:
            if response.status != 200:
                raise UnreadableValue(f"the registry responded {response.status} for {path}")
            document: dict[str, Any] = await response.json(content_type=None)
            return document


class JsonReader:
    """JSON Schema: the value is JSON already."""

    kind = "json_schema"

    def read(self, data: bytes) -> Any:
        return json.loads(data)


class AvroReader:
    """By fastavro. ``needed``: the schemas that this one refers to, each after its own."""

    kind = "avro"

    def __init__(self, schema: str, needed: list[str]) -> None:
        from fastavro import parse_schema

        named: dict[str, Any] = {}
        for text in needed:
            parse_schema(json.loads(text), named)
        self._schema = parse_schema(json.loads(schema), named)

    def read(self, data: bytes) -> Any:
        from fastavro import schemaless_reader

        return schemaless_reader(io.BytesIO(data), self._schema, None)


class ProtobufReader:
    """By protobuf. ``file`` and ``needed`` (by the names of their imports): descriptors of files, in base64."""

    kind = "protobuf"

    def __init__(self, file: str, needed: dict[str, str]) -> None:
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
        files = {name: descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(d)) for name, d in needed.items()}
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
