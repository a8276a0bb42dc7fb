"""A stream to another broker: responses of any size, in any pieces; what is no response ends it with an error."""

from __future__ import annotations

import asyncio
import contextlib
import random
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from coterie.broker.cluster.peers.connections import MAX_RESPONSE_BYTES, PeerStream, open_stream
from coterie.simulation import Simulation
from coterie.wire.primitives import WireError

REQUEST = b"request"


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


class Peer:
    """Answers each request with the next of ``responses``, each in its pieces; then closes the connection."""

    def __init__(self, *responses: list[bytes]) -> None:
        self.responses = list(responses)
        self.has_ended = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, EOFError):
            for pieces in self.responses:
                await reader.readexactly(len(REQUEST))
                for piece in pieces:
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0)
            await reader.read(1)
        writer.close()
        self.has_ended.set()


@asynccontextmanager
async def served(peer: Peer) -> AsyncIterator[PeerStream]:
    server = await asyncio.start_server(peer.serve, "127.0.0.1", 0)
    async with server, asyncio.timeout(20):
        stream = await open_stream(*server.sockets[0].getsockname())
        try:
            yield stream
        finally:
            stream.abort()
            await peer.has_ended.wait()


@pytest.mark.parametrize("seed", range(10))
async def test_responses_arrive_whole(seed: int) -> None:
    rng = random.Random(seed)
    bodies = [rng.randbytes(rng.choice((4, 5, 100, 70_000, 1_000_000))) for _ in range(5)]
    responses = []
    for body in bodies:
        sent = frame(body)
        cuts = sorted(rng.choices(range(1, min(len(sent), 300_000)), k=rng.randrange(4)))
        responses.append([sent[at:end] for at, end in zip([0, *cuts], [*cuts, len(sent)], strict=True)])
    async with served(Peer(*responses)) as stream:
        for body in bodies:
            assert await stream.exchange(REQUEST) == body


async def test_a_size_in_single_bytes() -> None:
    async with served(Peer([])) as stream:
        response = asyncio.ensure_future(stream.exchange(REQUEST))
        await asyncio.sleep(0)
        for byte in frame(b"body"):
            stream.data_received(bytes([byte]))
        assert await response == b"body"


@pytest.mark.parametrize(
    ("response", "error", "text"),
    [
        (struct.pack(">i", 3), WireError, "claims a size of 3 bytes"),
        (struct.pack(">i", MAX_RESPONSE_BYTES + 1), WireError, "claims a size of"),
        (frame(b"body") + b"x", WireError, "more bytes than the size"),
    ],
)
async def test_what_is_no_response_ends_the_stream(response: bytes, error: type[Exception], text: str) -> None:
    async with served(Peer([response])) as stream:
        for _ in range(2):
            with pytest.raises(error, match=text):
                await stream.exchange(REQUEST)


async def test_a_response_that_nobody_asked_for_ends_the_stream() -> None:
    async with served(Peer([])) as stream:
        stream.data_received(frame(b"body"))
        with pytest.raises(WireError, match="a response to no request"):
            await stream.exchange(REQUEST)


async def test_a_peer_that_closes_the_connection() -> None:
    async with served(Peer([frame(b"body")])) as stream:
        assert await stream.exchange(REQUEST) == b"body"
        for _ in range(2):
            with pytest.raises(OSError, match="closed the connection"):
                await stream.exchange(b"x")


def test_a_peer_that_does_not_respond_in_time() -> None:
    """In virtual time. The exchanges share one timer, and each has its own 30 s."""
    with Simulation() as world:

        async def serve() -> None:
            async def pair(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                for pause_s in (20, 20, 29, 31):
                    await reader.readexactly(len(REQUEST))
                    await asyncio.sleep(pause_s)
                    writer.write(frame(b"body"))

            await (await asyncio.start_server(pair, "peer", 9092)).serve_forever()

        async def exchange() -> float:
            stream = await open_stream("peer", 9092)
            for _ in range(3):
                assert await stream.exchange(REQUEST, 30) == b"body"
            began_s = asyncio.get_running_loop().time()
            with pytest.raises(TimeoutError):
                await stream.exchange(REQUEST, 30)
            return asyncio.get_running_loop().time() - began_s

        world.spawn("peer", serve)
        world.advance(1)
        assert 30 <= world.run(exchange()) < 30.01
