"""A broker that misbehaves: a socket that answers as a table of tests says, and honestly otherwise."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from coterie.wire.apis import APIS
from coterie.wire.declaration import Message
from coterie.wire.framing import encode_response, read_head
from coterie.wire.messages.clients.api_versions import ApiVersion, ApiVersionsResponse
from coterie.wire.messages.groups.find_coordinator import Coordinator, FindCoordinatorResponse
from coterie.wire.messages.topics.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from coterie_conformance.fuzzing.inputs import random_struct

API_VERSIONS, METADATA, FIND_COORDINATOR, PRODUCE = 18, 3, 10, 0
WAYS = frozenset({API_VERSIONS, METADATA, FIND_COORDINATOR})  # by which a client gets to the other requests


class Close(Exception):
    """Ends the connection instead of a response."""


@dataclass(frozen=True, slots=True)
class Requested:
    """A request, and where the broker is."""

    api_key: int
    version: int
    correlation_id: int
    address: tuple[str, int]

    def honest(self) -> Message:
        """A right response that says little."""
        host, port = self.address
        if self.api_key == API_VERSIONS:
            return ApiVersionsResponse(
                api_keys=[ApiVersion(key, a.request.versions.first, a.request.versions.last) for key, a in APIS.items()]
            )
        if self.api_key == METADATA:
            topic = MetadataResponseTopic(name="t", partitions=[MetadataResponsePartition(leader_id=0)])
            return MetadataResponse(brokers=[MetadataResponseBroker(0, host, port)], topics=[topic])
        if self.api_key == FIND_COORDINATOR:
            return FindCoordinatorResponse(
                node_id=0, host=host, port=port, coordinators=[Coordinator("g", 0, host, port)]
            )
        return self.nonsense(random.Random(1), errors=False)

    def nonsense(self, rng: random.Random, *, errors: bool = True) -> Message:
        """A response of the right shape with anything in it."""
        message: Message = random_struct(APIS[self.api_key].response, self.version, rng)
        if not errors and hasattr(message, "error_code"):
            message.error_code = 0
        return message

    def frame(self, message: Message) -> bytes:
        return encode_response(self.correlation_id, message, self.version)


Response = Callable[[Requested], bytes]


@dataclass(slots=True)
class FakeBroker:
    """``answer`` gives the raw bytes; ``requested`` counts requests by API."""

    response: Response
    greeting: bytes = b""
    closes_at_once: bool = False
    address: tuple[str, int] = ("", 0)
    requested: dict[int, int] = field(default_factory=dict)
    _serving: dict[asyncio.StreamWriter, asyncio.Task[None]] = field(default_factory=dict)

    @property
    def bootstrap_servers(self) -> str:
        return f"{self.address[0]}:{self.address[1]}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving[writer] = task
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, Close):
            writer.write(self.greeting)
            while not self.closes_at_once:
                frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
                head = read_head(frame)
                self.requested[head.api_key] = self.requested.get(head.api_key, 0) + 1
                requested = Requested(head.api_key, head.api_version, head.correlation_id, self.address)
                writer.write(self.response(requested))
                await writer.drain()
        writer.close()
        del self._serving[writer]

    async def end(self) -> None:
        """Drops every connection."""
        for writer in self._serving:
            writer.transport.abort()
        if self._serving:
            await asyncio.wait(self._serving.values())


@asynccontextmanager
async def misbehaving(broker: FakeBroker) -> AsyncIterator[FakeBroker]:
    server = await asyncio.start_server(broker.serve, "127.0.0.1", 0)
    broker.address = server.sockets[0].getsockname()
    try:
        yield broker
    finally:
        server.close()
        await broker.end()


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


def numbered(requested: Requested, rest: bytes) -> bytes:
    """A frame with the right correlation id and anything behind it."""
    return framed(requested.correlation_id.to_bytes(4, "big") + rest)


def honest(requested: Requested) -> bytes:
    return requested.frame(requested.honest())


def _close(requested: Requested) -> bytes:
    raise Close


def _half(requested: Requested) -> bytes:
    frame = honest(requested)
    return frame[: len(frame) // 2]


def _seeded(seed: int) -> Response:
    rng = random.Random(seed)
    return lambda requested: requested.frame(requested.nonsense(rng))


def _random_body(requested: Requested) -> bytes:
    return numbered(requested, random.Random(requested.correlation_id).randbytes(300))


def sized(size: int) -> Response:
    return lambda requested: (
        size.to_bytes(4, "big", signed=True) + requested.correlation_id.to_bytes(4, "big") + bytes(100)
    )


RESPONSES: dict[str, Response] = {
    "silence": lambda requested: b"",
    "close": _close,
    "half an answer": _half,
    "a size of 2^31-1": sized(2**31 - 1),
    "a size of 500 MB": sized(500_000_000),
    "a size of -1": sized(-1),
    "a size of 0": sized(0),
    "a size of 3": sized(3),
    "the wrong correlation id": lambda requested: encode_response(
        requested.correlation_id + 7, requested.honest(), requested.version
    ),
    "the answer twice": lambda requested: honest(requested) * 2,
    "an empty body": lambda requested: numbered(requested, b""),
    "zeros": lambda requested: numbered(requested, bytes(300)),
    "random bytes": _random_body,
    "arrays of 2^31": lambda requested: numbered(requested, b"\0\0\0\0" + b"\x7f\xff\xff\xff" * 60),
    "arrays of 2^31 in varints": lambda requested: numbered(requested, b"\0\0\0" + b"\xff\xff\xff\xff\x07" * 60),
    "varints without end": lambda requested: numbered(requested, b"\xff" * 300),
    **{f"nonsense of the right shape {seed}": _seeded(seed) for seed in range(6)},
}


def _versions(*versions: tuple[int, int]) -> Response:
    def respond(requested: Requested) -> bytes:
        if requested.api_key != API_VERSIONS:
            return honest(requested)
        return requested.frame(ApiVersionsResponse(api_keys=[ApiVersion(k, *v) for k in APIS for v in versions]))

    return respond


def _metadata(host: str = "", port: int = 0, leader: int = 0, brokers: int = 1) -> Response:
    def respond(requested: Requested) -> bytes:
        there = (host or requested.address[0], port or requested.address[1])
        message: Any = requested.honest()
        if requested.api_key == METADATA:
            message.brokers = [MetadataResponseBroker(0, *there)] * brokers
            message.topics[0].partitions[0].leader_id = leader
        if requested.api_key == FIND_COORDINATOR:
            message.host, message.port = there
            message.coordinators[0].host, message.coordinators[0].port = there
        return requested.frame(message)

    return respond


LIES: dict[str, Response] = {
    "no versions": _versions(),
    "future versions": _versions((1_000, 2_000)),
    "versions the wrong way round": _versions((9, 2)),
    "a port of 99999": _metadata(port=99_999),
    "a negative port": _metadata(port=-5),
    "a host with NUL": _metadata(host="a\0b"),
    "a host beyond IDNA": _metadata(host="a" * 300 + ".b"),
    "a host of bad IDNA": _metadata(host="\u2488com..x"),
    "a leader that is no broker": _metadata(leader=77),
    "no leader": _metadata(leader=-1),
    "no brokers": _metadata(brokers=0),
}
