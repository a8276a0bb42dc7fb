"""The responses that name brokers by HOST:PORT, in every version, and the same responses with the proxy's addresses.

Metadata, FindCoordinator and DescribeCluster (KIP-700), and, of leaders that have moved, the endpoints in Produce and Fetch
(KIP-951). Of a Fetch only what lies behind its records is read.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from coterie.proxy.heads import DESCRIBE_CLUSTER, FETCH, FIND_COORDINATOR, METADATA, PRODUCE
from coterie.wire.apis import APIS
from coterie.wire.framing import decode_response, encode_response, skip_tags
from coterie.wire.primitives import WireError, read_unsigned_varint

Address = tuple[str, int]

_FETCH_PARTITION_BYTES = 4 + 2 + 8 + 8 + 8  # index, error, high watermark, last stable offset, log start
_ABORTED_BYTES = 8 + 8
_UNREADABLE = (WireError, struct.error, IndexError)


def _coordinators(response: Any) -> list[Any]:
    return [response, *response.coordinators]  # until version 3 the response itself is the one coordinator


# By API key: the first version that names brokers, and the parts of a response that have ``host`` and ``port``.
_ENDPOINTS: dict[int, tuple[int, Callable[[Any], Iterable[Any]]]] = {
    PRODUCE: (10, lambda response: response.node_endpoints),
    FETCH: (16, lambda response: response.node_endpoints),
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
    if api_key == FETCH and not _has_endpoints(frame):
        return None
    cls = APIS[api_key].response
    if version not in cls.versions:
        raise WireError(f"{APIS[api_key].name} has no version {version} here")
    response = decode_response(cls, frame[4:], version)
    endpoints = [endpoint for endpoint in _ENDPOINTS[api_key][1](response) if endpoint.host and endpoint.port > 0]
    if not endpoints:
        return None
    return NamedBrokers(int.from_bytes(frame[4:8], "big", signed=True), version, response, endpoints)


def _has_endpoints(frame: bytes) -> bool:
    """Whether a Fetch response of version 16 or later has tagged fields, of which the endpoints are the only one: found behind
    its records, which are not read. Raises WireError."""
    try:
        at = skip_tags(frame, 8) + 4 + 2 + 4  # throttle time, error, session
        topics, at = read_unsigned_varint(frame, at)
        for _ in range(topics - 1):
            partitions, at = read_unsigned_varint(frame, at + 16)
            for _ in range(partitions - 1):
                at = _behind_partition(frame, at)
            at = skip_tags(frame, at)
        return frame[at] != 0
    except _UNREADABLE as error:
        raise WireError(f"a Fetch response that cannot be read: {error}") from error


def _behind_partition(frame: bytes, at: int) -> int:
    aborted, at = read_unsigned_varint(frame, at + _FETCH_PARTITION_BYTES)
    for _ in range(aborted - 1):
        at = skip_tags(frame, at + _ABORTED_BYTES)
    size, at = read_unsigned_varint(frame, at + 4)  # behind the preferred read replica
    return skip_tags(frame, at + max(size - 1, 0))
