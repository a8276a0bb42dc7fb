"""The responses that name brokers by HOST:PORT, in every version, and the same responses with the proxy's addresses.

Metadata, FindCoordinator and DescribeCluster (KIP-700), and, of leaders that have moved, the endpoints in Produce and Fetch
(KIP-951), ShareFetch and ShareAcknowledge.

Of a Fetch as it passes (version 16 and later) the records go on as they come, and only the endpoints behind them are read. The
size of the frame is sent by then: other addresses take the same number of bytes, filled up by a tagged field that no client
knows (KIP-482), or, where they are longer, the field is left out and the client requests the metadata.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from coterie.proxy.requests import (
    DESCRIBE_CLUSTER,
    FETCH,
    FIND_COORDINATOR,
    METADATA,
    PRODUCE,
    SHARE_ACKNOWLEDGE,
    SHARE_FETCH,
)
from coterie.wire.apis import APIS
from coterie.wire.framing import decode_response, encode_response
from coterie.wire.primitives import WireError, read_unsigned_varint, write_unsigned_varint

Address = tuple[str, int]
_HEAD_BYTES = 4 + 4  # size, correlation id
_TOP_BYTES = 4 + 2 + 4  # throttle time, error, session
_PARTITION_BYTES = 4 + 2 + 8 + 8 + 8  # index, error, high watermark, last stable offset, log start
_ABORTED_BYTES, _TOPIC_ID_BYTES, _REPLICA_BYTES = 8 + 8, 16, 4
_FILLING_TAGS = (100, 101)  # beyond any that Fetch has, of one byte
MAX_TAIL_BYTES = 1 << 20
MAX_PART_BYTES = 1 << 20  # of what is read at once: a partition without its records


def _coordinators(response: Any) -> list[Any]:
    return [response, *response.coordinators]  # until version 3 the response itself is the one coordinator


# By API key: the first version that names brokers, and the parts of a response that have ``host`` and ``port``.
_ENDPOINTS: dict[int, tuple[int, Callable[[Any], Iterable[Any]]]] = {
    PRODUCE: (10, lambda response: response.node_endpoints),
    FETCH: (16, lambda response: response.node_endpoints),
    SHARE_FETCH: (1, lambda response: response.node_endpoints),
    SHARE_ACKNOWLEDGE: (1, lambda response: response.node_endpoints),
    METADATA: (0, lambda response: response.brokers),
    FIND_COORDINATOR: (0, _coordinators),
    DESCRIBE_CLUSTER: (0, lambda response: response.brokers),
}


@dataclass(slots=True)
class NamedBrokers:
    """A response, decoded, that names brokers."""

    correlation_id: int
    version: int
    response: Any
    endpoints: list[Any] = field(default_factory=list)

    def addresses(self) -> list[Address]:
        """Of the brokers, each once."""
        return list(dict.fromkeys((endpoint.host, endpoint.port) for endpoint in self.endpoints))

    def frame(self, addresses: Mapping[Address, Address]) -> bytes:
        """The response's frame with other addresses; one that is not in the mapping stays."""
        for endpoint in self.endpoints:
            key = endpoint.host, endpoint.port
            endpoint.host, endpoint.port = addresses.get(key, key)
        return encode_response(self.correlation_id, self.response, self.version)


def names_brokers(api_key: int, version: int) -> bool:
    """Whether responses of the API have addresses in that version."""
    row = _ENDPOINTS.get(api_key)
    return row is not None and version >= row[0]


def named_brokers(api_key: int, version: int, frame: bytes) -> NamedBrokers | None:
    """Of a response's frame, its size included; None where it names none. Raises WireError for one that cannot be read, as of a
    version that is not known here."""
    cls = APIS[api_key].response
    if version not in cls.versions:
        raise WireError(f"{APIS[api_key].name} has no version {version} here")
    response = decode_response(cls, frame[4:], version)
    endpoints = [endpoint for endpoint in _ENDPOINTS[api_key][1](response) if endpoint.host and endpoint.port > 0]
    if not endpoints:
        return None
    return NamedBrokers(int.from_bytes(frame[4:8], "big", signed=True), version, response, endpoints)


class FetchTail:
    """Give it the frame in pieces by `passed`. ``named`` is set with the last one where the response names brokers: the rest of
    the frame is then `NamedTail.frame`. ``unreadable``: why a response passes as it is."""

    def __init__(self, version: int) -> None:
        self.named: NamedTail | None = None
        self.unreadable = ""
        self._version = version
        self._rest = b""  # of a part that is not read yet, and was passed on
        self._skipped = _HEAD_BYTES  # bytes that are still to be passed unread
        self._topics = self._partitions = 0
        self._read: Callable[[bytes, int], int] | None = self._top  # the next part; None behind the last
        self._tail = b""

    @property
    def held_bytes(self) -> int:
        """What it keeps."""
        return len(self._rest) + len(self._tail)

    def passed(self, piece: bytes, is_last: bool) -> bytes:
        """What of the next piece goes on now."""
        if self.unreadable:
            return piece
        held = self._tail
        try:
            return self._passed(piece, is_last)
        except WireError as error:
            self.unreadable, self._tail, self._rest = f"a Fetch response that cannot be read: {error}", b"", b""
            return held + piece

    def _passed(self, piece: bytes, is_last: bool) -> bytes:
        if self._read is None:
            return self._behind(b"", piece, is_last)
        if self._skipped >= len(piece):
            self._skipped -= len(piece)
            return piece
        before = len(self._rest)
        data, at = self._rest + piece, self._skipped
        self._rest, self._skipped = b"", 0
        while self._read is not None:
            try:
                at = self._read(data, at)
            except IndexError:  # the part goes on in the next piece
                break
            if at >= len(data):
                break
        if self._read is None:
            tail_at = max(at, before)
            return self._behind(data[before:tail_at], data[tail_at:], is_last)
        if at >= len(data):
            self._skipped = at - len(data)
        else:
            self._rest = data[at:]
        if len(self._rest) > MAX_PART_BYTES:
            raise WireError(f"a partition of {len(self._rest)} bytes without its records")
        return piece

    def _behind(self, passed: bytes, tail: bytes, is_last: bool) -> bytes:
        """The tagged fields at the end; without any it is one byte, 0."""
        self._tail += tail
        if len(self._tail) > MAX_TAIL_BYTES:
            raise WireError(f"{len(self._tail)} bytes behind its records")
        if not is_last:
            return passed
        tail, self._tail = self._tail, b""
        if tail == b"\0":
            return passed + tail
        named = named_brokers(FETCH, self._version, _without_topics(tail))
        if named is None:
            return passed + tail
        self.named = NamedTail(named, len(tail))
        return passed

    # -- parts: each returns where the next one begins, and raises IndexError where it goes on behind the data ---------

    def _top(self, data: bytes, at: int) -> int:
        topics, at = read_unsigned_varint(data, _behind_tags(data, at) + _TOP_BYTES)
        self._topics = topics - 1
        self._read = self._topic if self._topics > 0 else None
        return at

    def _topic(self, data: bytes, at: int) -> int:
        partitions, at = read_unsigned_varint(data, at + _TOPIC_ID_BYTES)
        self._partitions = partitions - 1
        self._read = self._partition if self._partitions > 0 else self._topic_end
        return at

    def _partition(self, data: bytes, at: int) -> int:
        aborted, at = read_unsigned_varint(data, at + _PARTITION_BYTES)
        for _ in range(aborted - 1):
            at = _behind_tags(data, at + _ABORTED_BYTES)
        size, at = read_unsigned_varint(data, at + _REPLICA_BYTES)
        self._read = self._partition_end
        return at + max(size - 1, 0)

    def _partition_end(self, data: bytes, at: int) -> int:
        at = _behind_tags(data, at)
        self._partitions -= 1
        self._read = self._partition if self._partitions else self._topic_end
        return at

    def _topic_end(self, data: bytes, at: int) -> int:
        at = _behind_tags(data, at)
        self._topics -= 1
        self._read = self._topic if self._topics else None
        return at


def _behind_tags(data: bytes, at: int) -> int:
    """The position behind tagged fields, which may lie behind the data. Raises IndexError where they are not whole."""
    count, at = read_unsigned_varint(data, at)
    for _ in range(count):
        _, at = read_unsigned_varint(data, at)
        size, at = read_unsigned_varint(data, at)
        at += size
    return at


class NamedTail:
    """The end of a response that names brokers, of ``size`` bytes."""

    def __init__(self, named: NamedBrokers, size: int) -> None:
        self._named, self._size = named, size
        self.response = named.response

    def addresses(self) -> list[Address]:
        """Of the brokers, each once."""
        return self._named.addresses()

    def frame(self, addresses: Mapping[Address, Address]) -> bytes:
        """The end with other addresses, in as many bytes."""
        fields = self._named.frame(addresses)[len(_without_topics(b"")) :]
        missing = self._size - len(fields)
        if missing == 0:
            return fields
        if missing < 2:
            fields, missing = b"\0", self._size - 1
        filling = _filling(missing)
        return bytes([fields[0] + len(filling)]) + fields[1:] + b"".join(filling)


def _filling(size: int) -> list[bytes]:
    """Tagged fields of so many bytes together, at least two; one field cannot have every size."""
    for first in (size, size - 2):
        for length_bytes in (1, 2, 3):
            length = first - 1 - length_bytes
            header = write_unsigned_varint(max(length, 0))
            if length >= 0 and len(header) == length_bytes:
                field = bytes([_FILLING_TAGS[0]]) + header + bytes(length)
                return [field] if first == size else [field, bytes([_FILLING_TAGS[1], 0])]
    raise AssertionError(f"{size} bytes are a tagged field, or two")


def _without_topics(tail: bytes) -> bytes:
    """The frame of a response with that end and no topics."""
    content = bytes(4) + b"\0" + bytes(_TOP_BYTES) + b"\x01" + tail
    return struct.pack(">i", len(content)) + content
