"""Every decoder of bytes from outside as a fuzz target: records, compression, requests and responses, the files of a data
folder, the records of internal topics.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress

from coterie.assignors.blobs import decode_assignment, decode_subscribed_topics
from coterie.broker.clients.otlp import NoMetrics, pushed_metrics
from coterie.broker.connections.request_queue import UNREADABLE
from coterie.coordinator.journal.line import JournalLine
from coterie.coordinator.stored_records.stored import from_record
from coterie.coordinator.stored_records.stored_consumer_groups import RECORD_KINDS
from coterie.coordinator.transactions.state import decode_transaction
from coterie.records import batch as batches
from coterie.records import compiled, compression, markers
from coterie.records.batch import BatchError
from coterie.records.decoding import decode_keys_and_values, decode_records
from coterie.records.message_sets import readable, to_batch
from coterie.records.walking import walk, walk_each
from coterie.runtime.extras import is_installed
from coterie.wire.apis import APIS, CLUSTER_APIS
from coterie.wire.codec import MAX_ELEMENTS, decode, decoder
from coterie.wire.declaration import Message
from coterie.wire.errors import Refusal
from coterie.wire.framing import read_head, skip_tags
from coterie.wire.messages.stored.consumer_offsets import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from coterie.wire.messages.stored.transaction_state import TransactionLogKey, TransactionLogValue
from coterie.wire.primitives import WireError
from coterie_conformance.fuzzing.files import FILE_TARGETS, small_file_targets
from coterie_conformance.fuzzing.inputs import malformed_batch, malformed_message_set, random_struct
from coterie_conformance.fuzzing.target import Target

UNFOLDED_BYTES = 8 * 1024 * 1024  # the bound of targets that decompress, so that a bomb is found cheaply
_UNREADABLE = (BatchError, compression.CompressionError)


def _first_batch(data: bytes) -> batches.BatchHeader:
    header = batches.read_header(data)
    if header.size < batches.HEADER_BYTES or header.size > len(data):
        raise BatchError("not one whole batch")
    return header


def _some_metrics(rng: random.Random) -> bytes:
    """Fields nested as in OTLP (resource, scope, metric, gauge, point), their kinds and lengths now and then wrong."""

    def field(number: int, value: bytes) -> bytes:
        kind = 2 if rng.random() < 0.97 else rng.randrange(8)
        return bytes([number << 3 | kind, *_short_varint(len(value) + (rng.random() < 0.03))]) + value

    point = bytes([4 << 3 | 1]) + rng.randbytes(8) + field(7, field(1, b"topic") + field(2, field(1, b"orders")))
    metrics = b"".join(field(2, field(1, b"lag") + field(rng.choice((5, 7, 9)), field(1, point))) for _ in range(3))
    return field(1, field(2, metrics))


def _short_varint(value: int) -> bytes:
    return bytes([value]) if value < 0x80 else bytes([value & 0x7F | 0x80, value >> 7])


def _records(data: bytes) -> object:
    return decode_records(data, 0, _first_batch(data))


def _records_interpreted(data: bytes) -> object:
    before, compiled.ROWS_COMPILED = compiled.ROWS_COMPILED, False
    try:
        return _records(data)
    finally:
        compiled.ROWS_COMPILED = before


def _keys_and_values(data: bytes) -> object:
    return decode_keys_and_values(data, 0, _first_batch(data))


def _walk(data: bytes) -> object:
    return walk(data, _first_batch(data))


def _walk_in_python(data: bytes) -> object:
    header = _first_batch(data)
    return walk_each(data, batches.HEADER_BYTES, header.size, header.record_count, header.base_timestamp)


def _marker(data: bytes) -> object:
    header = _first_batch(data)
    return markers.marker_of(data, 0, header), markers.coordinator_epoch_of(data, 0, header)


def _fetched(data: bytes) -> object:
    pieces = readable(data, 0, check_crcs=True)
    return [decode_records(piece, at, header) for piece in pieces for at, header in batches.batches(piece)]


def _columns(is_compiled: bool) -> Callable[[bytes], object]:
    def decode_them(data: bytes) -> object:
        from coterie.records import columnar

        before, columnar.COMPILED = columnar.COMPILED, is_compiled
        try:
            return columnar.decode_columns(data, with_headers=len(data) % 2 == 0)
        finally:
            columnar.COMPILED = before

    return decode_them


def _plain_batch(rng: random.Random) -> bytes:
    return malformed_batch(rng, compression.NONE)


def _record_targets() -> Iterator[Target]:
    yield Target("records", "a batch into records", _records, _UNREADABLE, malformed_batch, "records")
    yield Target(
        "records-interpreted",
        "the same without the compiled part, with numpy from 32 on",
        _records_interpreted,
        _UNREADABLE,
        malformed_batch,
        "records",
    )
    yield Target(
        "records-pairs", "a batch into keys and values", _keys_and_values, _UNREADABLE, malformed_batch, "records"
    )
    yield Target("records-walk", "a batch checked before it is stored", _walk, _UNREADABLE, malformed_batch, "records")
    yield Target(
        "records-walk-python",
        "the same without the compiled part",
        _walk_in_python,
        _UNREADABLE,
        _plain_batch,
        "records",
    )
    if is_installed("pyarrow"):
        yield Target(
            "records-columns",
            "batches into columns, with numpy",
            _columns(False),
            _UNREADABLE,
            malformed_batch,
            "records",
        )
    if is_installed("pyarrow") and compiled.COMPILED:
        yield Target(
            "records-compiled",
            "batches into columns, compiled",
            _columns(True),
            _UNREADABLE,
            malformed_batch,
            "records",
        )
    yield Target("records-marker", "the end of a transaction", _marker, _UNREADABLE, malformed_batch, "records")
    yield Target("otlp", "metrics that a client pushed", pushed_metrics, (NoMetrics,), _some_metrics)
    yield Target("legacy", "message sets of formats 0 and 1", to_batch, (Refusal,), malformed_message_set)
    yield Target(
        "old-messages-fetched",
        "message sets of formats 0 and 1, as a consumer reads them",
        _fetched,
        _UNREADABLE,
        malformed_message_set,
    )
    for name, codec in compression.CODEC_BY_NAME.items():
        if codec:
            yield _compression_target(name, codec)


def _compression_target(name: str, codec: int) -> Target:
    def make(rng: random.Random) -> bytes:
        return compression.compress(codec, rng.randbytes(rng.randrange(50)) * rng.randrange(1, 50))

    def unfold(data: bytes) -> object:
        return compression.decompress(codec, data, UNFOLDED_BYTES)

    return Target(
        f"compression-{name}", f"what {name} compressed", unfold, (compression.CompressionError,), make, "compression"
    )


# -- requests and responses: the first byte chooses a version -------------------------------------------------------------


def _request_target(name: str, shape: type[Message]) -> Target:
    versions = list(range(shape.versions.first, shape.versions.last + 1))

    def read(data: bytes) -> object:
        version = versions[data[0] % len(versions)] if data else versions[0]
        return decoder(shape, version)(data, 1, MAX_ELEMENTS)

    return Target(f"request-{name}", f"{name} requests", read, UNREADABLE, _message_maker(shape, versions))


def _response_target(name: str, shape: type[Message]) -> Target:
    versions = list(range(shape.versions.first, shape.versions.last + 1))

    def read(data: bytes) -> object:
        return decode(shape, data, versions[data[0] % len(versions)] if data else versions[0], 1)

    return Target(f"response-{name}", f"{name} responses", read, (WireError,), _message_maker(shape, versions))


def _message_maker(shape: type[Message], versions: list[int]) -> Callable[[random.Random], bytes]:
    def make(rng: random.Random) -> bytes:
        index = rng.randrange(len(versions))
        body: bytes = random_struct(shape, versions[index], rng).encode(versions[index])
        return bytes((index,)) + body

    return make


def _head(data: bytes) -> object:
    return skip_tags(data, read_head(data).body_at)


def _make_head(rng: random.Random) -> bytes:
    name = b"client"[: rng.randrange(7)]
    return struct.pack(">hhih", rng.randrange(-1, 70), rng.randrange(15), 7, len(name)) + name + b"\x01\x05\x02xy"


# -- records of internal topics: key and value, each after its int32 length ------------------------------------------------


def _pair(data: bytes) -> tuple[bytes, bytes | None]:
    size = struct.unpack_from(">I", data)[0] % (len(data) + 1) if len(data) >= 4 else 0
    return data[4 : 4 + size], data[4 + size :] or None


def _stored(data: bytes) -> object:
    key, value = _pair(data)
    return from_record(key, value)


def _transaction(data: bytes) -> object:
    key, value = _pair(data)
    return decode_transaction(key, value or b"")


def _make_stored(rng: random.Random) -> bytes:
    if rng.random() < 0.4:
        key, value = rng.choice(RECORD_KINDS)
        return _joined(key, key.versions.first, value, 0, rng)
    if rng.random() < 0.5:
        return _joined(OffsetCommitKey, 1, OffsetCommitValue, rng.choice((0, 1, 2, 3, 4)), rng)
    return _joined(GroupMetadataKey, 2, GroupMetadataValue, rng.choice((0, 1, 2, 3)), rng)


def _make_transaction(rng: random.Random) -> bytes:
    return _joined(TransactionLogKey, 0, TransactionLogValue, 0, rng)


def _joined(key: type[Message], key_version: int, value: type[Message], version: int, rng: random.Random) -> bytes:
    version = version if version in value.versions else value.versions.last
    first: bytes = struct.pack(">h", key_version) + random_struct(key, key_version, rng).encode(key_version)
    rest: bytes = struct.pack(">h", version) + random_struct(value, version, rng).encode(version)
    return struct.pack(">I", len(first)) + first + rest


def _make_journal(rng: random.Random) -> bytes:
    line = JournalLine(
        5,
        "crew",
        generation=1,
        event="stable",
        state_from="Empty",
        state_to="Stable",
        causes=[{"kind": "member_left"}],
        members=rng.randrange(5),
    )
    return line.to_json().encode()


def _journal(data: bytes) -> object:
    return JournalLine.from_json(data).why()


def _blobs(data: bytes) -> object:
    with suppress(WireError):
        decode_assignment(data)
    return decode_subscribed_topics(data)


def _make_blob(rng: random.Random) -> bytes:
    topics = [b"\0\x01t"] * rng.randrange(4)
    return struct.pack(">hi", rng.randrange(4), len(topics)) + b"".join(topics) + b"\xff\xff\xff\xff"


def _all() -> Iterator[Target]:
    yield from _record_targets()
    yield from FILE_TARGETS
    yield from small_file_targets()
    yield Target("topic-offsets", "records of __consumer_offsets", _stored, (WireError,), _make_stored)
    yield Target(
        "topic-transactions", "records of __transaction_state", _transaction, (WireError, ValueError), _make_transaction
    )
    yield Target("topic-journal", "lines of the journal", _journal, (ValueError,), _make_journal)
    yield Target("member-blobs", "subscriptions and assignments", _blobs, (WireError,), _make_blob)
    yield Target("request-header", "the header of a request", _head, (WireError,), _make_head)
    for api in sorted([*APIS.values(), *CLUSTER_APIS.values()], key=lambda api: api.key):
        yield _request_target(api.name, api.request)
        yield _response_target(api.name, api.response)


TARGETS: dict[str, Target] = {target.name: target for target in _all()}
