"""The responses that name brokers by HOST:PORT, in every version, and the same responses with the proxy's addresses.

Metadata, FindCoordinator and DescribeCluster (KIP-700), and, of leaders that have moved, the endpoints in Produce and Fetch
(KIP-951; `fetch_tails` reads these as the Fetch passes), ShareFetch and ShareAcknowledge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from coterie.proxy.heads import (
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
from coterie.wire.primitives import WireError

Address = tuple[str, int]


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
