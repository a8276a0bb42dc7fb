"""Keys and values as text: by what they are, and by schemas of a registry."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from coterie.web.records.payloads import SHOWN_BYTES, payload
from coterie.web.records.schema_registry import HEAD, SchemaRegistry

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "to", "type": "string"}],
}
LINE = {"type": "record", "name": "Line", "fields": [{"name": "order", "type": "Order"}]}


def test_what_a_payload_is_without_a_schema() -> None:
    kinds = {
        None: "null",
        b"": "text",
        b"flights": "text",
        "航班".encode(): "text",
        b'{"a": 1}': "json",
        b"[1, 2]": "json",
        b"{not json": "text",
        b"12": "text",
        b"\x00\x01\x02": "hex",
        b"\xff\xfe": "hex",
        b"\x1b[31mred": "hex",
        b"[" * 100_000: "text",
    }
    assert {data: payload(data).kind for data in kinds} == kinds
    assert payload(b"\x00AB").text == f"00000000  {'00 41 42':<47}  .AB"
    assert payload(b'{"a":1}').text == '{\n  "a": 1\n}'
    long = payload("é".encode() * SHOWN_BYTES)
    assert (long.kind, long.size, long.is_cut) == ("text", 2 * SHOWN_BYTES, True)
    assert payload(b"a" + "é".encode() * SHOWN_BYTES).kind == "text"  # its last character is cut


@given(st.binary(max_size=64))
def test_any_bytes_are_some_payload(data: bytes) -> None:
    made = payload(data)
    assert made.size == len(data)
    assert not any(ord(c) < 32 and c not in "\t\n\r" for c in made.text)


def _avro(schema: Any, value: Any, schema_id: int) -> bytes:
    import io

    from fastavro import parse_schema, schemaless_writer

    out = io.BytesIO()
    named: dict[str, Any] = {}
    parse_schema(ORDER, named)
    schemaless_writer(out, parse_schema(schema, named if schema is LINE else {}), value)
    return HEAD.pack(0, schema_id) + out.getvalue()


def _protobuf_file() -> tuple[str, bytes]:
    """A file with a message and one within it, in base64; and the second one's bytes with its indexes."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="flight.proto", syntax="proto3", package="air")
    file.dependency.append("google/protobuf/timestamp.proto")
    file.message_type.add(name="Other")
    flight = file.message_type.add(name="Flight")
    seat = flight.nested_type.add(name="Seat")
    seat.field.add(name="row", number=1, type=5, label=1)
    seat.field.add(name="taken_at", number=2, type=11, label=1, type_name=".google.protobuf.Timestamp")
    pool = descriptor_pool.DescriptorPool()
    from google.protobuf import timestamp_pb2

    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(file.SerializeToString())
    message = message_factory.GetMessageClass(pool.FindMessageTypeByName("air.Flight.Seat"))()
    message.row = 12
    message.taken_at.FromJsonString("2026-11-28T10:00:00Z")
    path = bytes([4, 2, 0])  # zigzag: two indexes, 1 and 0
    return base64.b64encode(file.SerializeToString()).decode(), path + message.SerializeToString()


@pytest.mark.slow  # a process of its own reads the values
async def test_values_by_the_schemas_of_a_registry() -> None:
    descriptor, seat = _protobuf_file()
    documents: dict[str, dict[str, Any]] = {
        "/schemas/ids/1": {"schema": json.dumps(ORDER)},
        "/schemas/ids/2": {
            "schema": json.dumps(LINE),
            "references": [{"name": "Order", "subject": "orders/x", "version": 3}],
        },
        "/subjects/orders%2Fx/versions/3": {"schema": json.dumps(ORDER)},
        "/schemas/ids/3": {"schemaType": "PROTOBUF", "schema": "syntax …"},
        "/schemas/ids/3?format=serialized": {"schemaType": "PROTOBUF", "schema": descriptor},
        "/schemas/ids/4": {"schemaType": "JSON", "schema": "{}"},
        "/schemas/ids/5": {"schemaType": "THRIFT", "schema": ""},
        "/schemas/ids/6": {"schema": json.dumps({"type": "array", "items": "null"})},
    }
    requests: list[str] = []

    async def serve(request: web.Request) -> web.Response:
        requests.append(request.raw_path)
        document = documents.get(request.raw_path)
        return web.json_response(document) if document is not None else web.Response(status=404)

    app = web.Application()
    app.router.add_get("/{path:.*}", serve)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    registry = SchemaRegistry(f"http://127.0.0.1:{runner.addresses[0][1]}/")
    try:
        for data, kind, shown in (
            (_avro(ORDER, {"id": 7, "to": "JFK"}, 1), "avro", {"id": 7, "to": "JFK"}),
            (_avro(LINE, {"order": {"id": 7, "to": "JFK"}}, 2), "avro", {"order": {"id": 7, "to": "JFK"}}),
            (HEAD.pack(0, 3) + seat, "protobuf", {"row": 12, "taken_at": "2026-11-28T10:00:00Z"}),
            (HEAD.pack(0, 4) + b'{"a": 1}', "json_schema", {"a": 1}),
        ):
            read = await registry.payload(data)
            assert (read.kind, json.loads(read.text)) == (kind, shown)
            assert read.schema == HEAD.unpack_from(data)[1]
        requested = len(requests)
        assert (await registry.payload(_avro(ORDER, {"id": 8, "to": "LGA"}, 1))).kind == "avro"
        assert len(requests) == requested, "a schema is requested once"
        for data, problem in (
            (HEAD.pack(0, 5) + b"x", "UnreadableValue: schema 5 is of the type THRIFT"),
            (HEAD.pack(0, 99) + b"x", "UnreadableValue: the registry responded 404 for /schemas/ids/99"),
            (HEAD.pack(0, 1) + b"\xff", ("EOFError", "IndexError")),
            (HEAD.pack(0, 3) + b"\xff" * 12, "UnreadableValue"),
        ):
            read = await registry.payload(data)
            assert read.kind == "hex"
            assert (read.problem or "").startswith(problem), read.problem
        # Ten bytes that stand for an array of 2^40 nulls end the process that reads them, and nothing else waits for them.
        endless = HEAD.pack(0, 6) + b"\x80\x80\x80\x80\x80\x40" + b"\0"
        read = await registry.payload(endless)
        assert read.kind == "hex"
        assert "takes more than 1 s to read" in (read.problem or "") or "MemoryError" in (read.problem or "")
        assert (await registry.payload(_avro(ORDER, {"id": 9, "to": "LGA"}, 1))).kind == "avro", "by another process"
        assert (await registry.payload(b"flights")).kind == "text"
        assert (await registry.payload(None)).kind == "null"
    finally:
        await runner.cleanup()
