"""The start of a connection, as bytes without IO: ApiVersions, in its oldest version where the broker refuses the newer one
(KIP-511), then the login; and the error of one that could not be opened. `connection` carries it out on an event loop,
`blocking_socket` in a thread. `ssl` is imported where there is an error to look at: a connection without TLS does without
it."""

from __future__ import annotations

import os
import re
import socket
import struct
import sys
from typing import Any

from coterie import __version__
from coterie.client.errors import KafkaError, SslAuthenticationError
from coterie.client.security import Login
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode, error_of
from coterie.wire.framing import decode_response, encode_request
from coterie.wire.messages.clients.api_versions import ApiVersionsRequest, ApiVersionsResponse
from coterie.wire.primitives import WireError

SOFTWARE_NAME = "coterie"
MAX_RESPONSE_BYTES = 512 * 1024 * 1024
_API_VERSIONS_FIRST_TRY = 3  # the first that names the software
# What encoding a request raises for a value that the wire cannot carry: text that is no Unicode or too long (ValueError),
# numbers out of range (struct.error), other types.
_NOT_ENCODED = (ValueError, TypeError, AttributeError, OverflowError, struct.error)
# What opening a connection and the first responses may raise. Of a host or port that is none: ValueError (a NUL, no IDNA) and
# OverflowError; of responses that cannot be read: WireError, a ValueError.
UNREACHABLE = (OSError, OverflowError, ValueError)
_NO_SUCH_HOST = {socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)}
_ERRNO = re.compile(r"\[Errno (-?\d+)\]")
# The oldest Apache Kafka that serves each API, by API key. APIs that Kafka 0.11, the oldest version this client works with,
# already had under their present meaning are left out (source: the KIPs, and `ApiKeys` of each release of kafka-clients).
FIRST_KAFKA: dict[int, str] = {
    34: "1.0",  # AlterReplicaLogDirs, KIP-113
    35: "1.0",  # DescribeLogDirs, KIP-113
    36: "1.0",  # SaslAuthenticate, KIP-152
    37: "1.0",  # CreatePartitions, KIP-195
    38: "1.1",  # CreateDelegationToken, KIP-48
    39: "1.1",  # RenewDelegationToken
    40: "1.1",  # ExpireDelegationToken
    41: "1.1",  # DescribeDelegationToken
    42: "1.1",  # DeleteGroups, KIP-229
    43: "2.2",  # ElectLeaders, KIP-183: of preferred leaders
    44: "2.3",  # IncrementalAlterConfigs, KIP-339
    45: "2.4",  # AlterPartitionReassignments, KIP-455
    46: "2.4",  # ListPartitionReassignments
    47: "2.4",  # OffsetDelete, KIP-496
    48: "2.6",  # DescribeClientQuotas, KIP-546
    49: "2.6",  # AlterClientQuotas
    50: "2.7",  # DescribeUserScramCredentials, KIP-554
    51: "2.7",  # AlterUserScramCredentials
    57: "2.7",  # UpdateFeatures, KIP-584
    60: "2.8",  # DescribeCluster, KIP-700
    61: "2.8",  # DescribeProducers, KIP-664
    64: "2.8",  # UnregisterBroker, KIP-500
    65: "3.0",  # DescribeTransactions, KIP-664
    66: "3.0",  # ListTransactions
    68: "4.0",  # ConsumerGroupHeartbeat, KIP-848; in 3.7 to 3.9 where it is switched on
    69: "4.0",  # ConsumerGroupDescribe
    71: "3.7",  # GetTelemetrySubscriptions, KIP-714
    72: "3.7",  # PushTelemetry
    74: "4.1",  # ListConfigResources, KIP-1142; before it of client metrics alone
    75: "3.8",  # DescribeTopicPartitions, KIP-966
    76: "4.1",  # ShareGroupHeartbeat, KIP-932; here and of the next ones the version that is no early access
    77: "4.1",  # ShareGroupDescribe
    78: "4.1",  # ShareFetch
    79: "4.1",  # ShareAcknowledge
    83: "4.1",  # InitializeShareGroupState
    84: "4.1",  # ReadShareGroupState
    85: "4.1",  # WriteShareGroupState
    86: "4.1",  # DeleteShareGroupState
    87: "4.1",  # ReadShareGroupStateSummary
    88: "4.1",  # StreamsGroupHeartbeat, KIP-1071
    89: "4.1",  # StreamsGroupDescribe
    90: "4.1",  # DescribeShareGroupOffsets
    91: "4.1",  # AlterShareGroupOffsets
    92: "4.1",  # DeleteShareGroupOffsets
    93: "4.4",  # StreamsGroupTopologyDescriptionUpdate, KIP-1331
    94: "4.4",  # UnregisterController
}


def encoded(correlation_id: int, client_id: str, request: Message, version: int) -> bytes:
    """The request's frame, size included. Raises KafkaError INVALID_REQUEST for a value that the wire cannot carry."""
    try:
        return encode_request(correlation_id, client_id, request, version)
    except _NOT_ENCODED as error:
        text = f"{type(request).__name__} holds a value that cannot be sent: {error}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, text) from error


def response_type(request: Message) -> Any:
    """The class of a request's response, which is of the same module."""
    kind = type(request)
    return getattr(sys.modules[kind.__module__], f"{kind.__name__.removesuffix('Request')}Response")


class VersionTable:
    """The versions that a broker and we both speak; ``features``: the finalized level of each (KIP-584), of
    that epoch, -1 where the broker reports none."""

    def __init__(self, response: ApiVersionsResponse) -> None:
        self._broker = {a.api_key: (a.min_version, a.max_version) for a in response.api_keys}
        self.features = {f.name: f.max_version_level for f in response.finalized_features}
        self._chosen: dict[tuple[type[Message], int | None], int] = {}
        self.features_epoch = response.finalized_features_epoch

    def range(self, api_key: int) -> tuple[int, int]:
        """The broker's oldest and newest version of an API; (0, -1) where it has none."""
        return self._broker.get(api_key, (0, -1))

    def serves(self, request: type[Message]) -> bool:
        """Whether the broker has a version of this request that we speak."""
        first, last = self.range(request.api_key)
        return max(first, request.versions.first) <= min(last, request.versions.last)

    def choose(self, request: type[Message], highest: int | None = None) -> int:
        """The newest common version, at most ``highest``. Raises KafkaError UNSUPPORTED_VERSION."""
        chosen = self._chosen.get((request, highest))
        if chosen is None:
            chosen = self._chosen[request, highest] = self._choose(request, highest)
        return chosen

    def _choose(self, request: type[Message], highest: int | None) -> int:
        first, last = self.range(request.api_key)
        ours = request.versions
        version = min(last, ours.last, ours.last if highest is None else highest)
        if version < max(first, ours.first):
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, self._not_served(request, first, last))
        return version

    @staticmethod
    def _not_served(request: type[Message], first: int, last: int) -> str:
        name, ours = request.__name__.removesuffix("Request"), request.versions
        if last >= first:
            return (
                f"the broker serves {name} in versions {first} to {last}, this client needs {ours.first} to {ours.last}"
            )
        since = FIRST_KAFKA.get(request.api_key)
        return f"the broker does not serve {name}" + (f", which Apache Kafka has from {since} on" if since else "")


class Handshake:
    """Begin with `start`, then pass each response to `response` until it returns None. ``correlation_id`` is the last
    request's; ``versions`` is None until the broker has reported its own; ``session_ms``: how long the login lasts, 0 for
    ever (KIP-368)."""

    def __init__(self, client_id: str, login: Login) -> None:
        self.versions: VersionTable | None = None
        self.correlation_id = self.session_ms = 0
        self._client_id, self._login = client_id, login
        self._version = _API_VERSIONS_FIRST_TRY  # of the request under way
        self._response: type[Message] = ApiVersionsResponse

    def start(self) -> bytes:
        """The first request's frame, size included."""
        return self._frame(ApiVersionsRequest(SOFTWARE_NAME, __version__), self._version)

    def response(self, frame: bytes) -> bytes | None:
        """Takes the response to the last request, without its size, and returns the next request's frame, or None: the
        connection is ready. Raises KafkaError, WireError."""
        if self.versions is not None:
            return self._next_of_login(decode_response(self._response, frame, self._version))
        code = error_of(int.from_bytes(frame[4:6], "big", signed=True))  # where each version has it
        if code == ErrorCode.UNSUPPORTED_VERSION and self._version > 0:
            return self._frame(ApiVersionsRequest(SOFTWARE_NAME, __version__), 0)
        if code:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, f"ApiVersions failed with {code.name}")
        self.versions = VersionTable(decode_response(ApiVersionsResponse, frame, self._version))
        return self._next_of_login(None)

    def _next_of_login(self, response: Message | None) -> bytes | None:
        assert self.versions is not None
        try:
            request, self._response = next(self._login) if response is None else self._login.send(response)
        except StopIteration as end:
            self.session_ms = end.value
            return None
        return self._frame(request, self.versions.choose(type(request)))

    def _frame(self, request: Message, version: int) -> bytes:
        self.correlation_id += 1
        self._version = version
        return encoded(self.correlation_id, self._client_id, request, version)


def not_opened(host: str, port: int, error: Exception, timeout_s: float) -> KafkaError:
    """The error of a connection that could not be opened. A failed TLS handshake is not retried (SslTransportLayer)."""
    address = f"{host if host.isprintable() else repr(host)}:{port}"
    if is_tls_error(error) and not _is_lost_connection(error):
        return SslAuthenticationError(ErrorCode.NETWORK_EXCEPTION, f"the TLS handshake with {address} failed: {error}")
    if isinstance(error, WireError):
        why = f"what answers is no Kafka broker ({error})"
    elif isinstance(error, TimeoutError):
        why = f"no response within {timeout_s:g} s"
    else:
        why = _reason(error)
    return KafkaError(ErrorCode.NETWORK_EXCEPTION, f"no broker answers at {address}: {why}")


def is_unresolved(error: KafkaError) -> bool:
    """Whether it is `not_opened`'s, of a host that no name service knows."""
    cause = error.__cause__
    return isinstance(cause, socket.gaierror) and cause.errno in _NO_SUCH_HOST


def is_tls_error(error: Exception) -> bool:
    """Whether TLS raised it."""
    import ssl

    return isinstance(error, ssl.SSLError)


def _is_lost_connection(error: Exception) -> bool:
    """Of TLS's errors, those of a lost connection, not of a refusal."""
    import ssl

    return isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError | ssl.SSLSyscallError)


def _reason(error: Exception) -> str:
    """The system's words for an error of asyncio's, which names each address and number; of several addresses, all reasons."""
    numbers = dict.fromkeys(int(number) for number in _ERRNO.findall(str(error)))
    if numbers and all(number > 0 for number in numbers):
        return ", ".join(map(os.strerror, numbers))
    strerror = error.strerror if isinstance(error, OSError) else None
    return strerror or str(error) or type(error).__name__
