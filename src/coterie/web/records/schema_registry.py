"""Values with the id of a schema before them (Confluent's wire format), read by the schemas of a registry.

Avro, Protobuf and JSON Schema; needs the extra coterie[schemas].
"""

from __future__ import annotations

import asyncio
import multiprocessing
import struct
from collections import OrderedDict
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any
from urllib.parse import quote

import aiohttp

from coterie.runtime.extras import require
from coterie.web.records.payloads import (
    DECODING_S,
    SCHEMAS_KEPT,
    Payload,
    Schema,
    UnreadableValue,
    hexadecimal,
    limit_memory,
    payload,
    read_value,
)

MAGIC, HEAD = 0, struct.Struct(">bI")
READ_BYTES = 1024 * 1024  # of a value, at most
TIMEOUT = aiohttp.ClientTimeout(total=5)


class SchemaRegistry:
    """Over HTTP, at that URL. Keeps the schemas, which never change. A process of its own reads the values, each within
    `DECODING_S`: a few bytes may stand for an array of a billion nulls."""

    def __init__(self, url: str) -> None:
        require("schemas", "--schema-registry")
        self._url = url.rstrip("/")
        self._schemas: OrderedDict[int, Schema] = OrderedDict()
        self._process: ProcessPoolExecutor | None = None

    async def payload(self, data: bytes | None) -> Payload:
        """By its schema where it begins with the id of one; else as it is."""
        if data is None or len(data) < HEAD.size or data[0] != MAGIC:
            return payload(data)
        _, schema_id = HEAD.unpack_from(data)
        try:
            schema = await self._schema(schema_id)
            if len(data) > READ_BYTES:
                raise UnreadableValue(f"it has over {READ_BYTES} bytes")
            return Payload(schema.kind, await self._read(schema, data[HEAD.size :]), len(data), schema=schema_id)
        except Exception as error:  # whatever the bytes make of the libraries
            return hexadecimal(data, schema_id, f"{type(error).__name__}: {error}"[:300])

    async def _read(self, schema: Schema, data: bytes) -> str:
        """Raises UnreadableValue where the process did not outlive the value, and what the libraries raise."""
        if self._process is None:
            self._process = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), limit_memory)
        process = self._process
        try:
            return await asyncio.get_running_loop().run_in_executor(process, read_value, schema, data)
        except BrokenProcessPool:
            if self._process is process:
                self._process = None
            raise UnreadableValue(f"it takes more than {DECODING_S:g} s to read") from None

    async def _schema(self, schema_id: int) -> Schema:
        schema = self._schemas.get(schema_id)
        if schema is None:
            schema = self._schemas[schema_id] = await self._fetched(schema_id)
            while len(self._schemas) > SCHEMAS_KEPT:
                self._schemas.popitem(last=False)
        return schema

    async def _fetched(self, schema_id: int) -> Schema:
        async with aiohttp.ClientSession(timeout=TIMEOUT) as session:
            document = await self._get(session, f"/schemas/ids/{schema_id}")
            kind = document.get("schemaType", "AVRO")
            if kind == "JSON":
                return Schema("json_schema")
            if kind == "AVRO":
                needed = await self._references(session, document)
                return Schema("avro", document["schema"], tuple((r["name"], r["schema"]) for r in needed))
            if kind == "PROTOBUF":
                own = await self._get(session, f"/schemas/ids/{schema_id}?format=serialized")
                needed = await self._references(session, document, "?format=serialized")
                return Schema("protobuf", own["schema"], tuple((r["name"], r["schema"]) for r in needed))
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
