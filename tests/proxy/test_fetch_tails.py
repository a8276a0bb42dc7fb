"""A Fetch response in pieces: what is passed on at once, and the endpoints behind its records."""

from __future__ import annotations

import asyncio
import itertools
import random
from typing import Any

import pytest

from coterie.proxy.proxy import Proxy
from coterie.proxy.rewriting import MAX_PART_BYTES, FetchTail
from coterie.testing.simulated import simulate
from coterie.wire.framing import decode_response, encode_request, encode_response
from coterie.wire.messages.logs.fetch import FetchRequest, FetchResponse
from coterie.wire.messages.logs.produce import NodeEndpoint
from tests.proxy.test_rewriting import filled

VERSIONS = [16, 17, 18]
every_version = pytest.mark.parametrize("version", VERSIONS)
UPSTREAM = "kafka-1.example.com"


def response_with(*endpoints: NodeEndpoint, version: int, seed: int = 1) -> FetchResponse:
    response: Any = filled(FetchResponse, version, random.Random(seed))
    response.node_endpoints = list(endpoints)
    return response  # type: ignore[no-any-return]


def pieces_of(frame: bytes, rng: random.Random) -> list[bytes]:
    cuts = sorted({0, len(frame), *(rng.randrange(len(frame)) for _ in range(rng.choice((0, 1, 5, 200))))})
    return [frame[start:end] for start, end in itertools.pairwise(cuts)]


def passed(tail: FetchTail, pieces: list[bytes]) -> bytes:
    out = b""
    for number, piece in enumerate(pieces, 1):
        out += tail.passed(piece, number == len(pieces))
    return out


@every_version
@pytest.mark.parametrize("seed", range(10))
def test_a_response_without_endpoints_passes_byte_for_byte(version: int, seed: int) -> None:
    frame = encode_response(9, response_with(version=version, seed=seed), version)
    tail = FetchTail(version)
    assert passed(tail, pieces_of(frame, random.Random(seed))) == frame
    assert (tail.named, tail.unreadable) == (None, "")


@every_version
@pytest.mark.parametrize("seed", range(10))
def test_endpoints_become_others_in_as_many_bytes(version: int, seed: int) -> None:
    response = response_with(NodeEndpoint(1, UPSTREAM, 9092), NodeEndpoint(2, "b", 9093), version=version, seed=seed)
    frame = encode_response(9, response, version)
    tail = FetchTail(version)
    begun = passed(tail, pieces_of(frame, random.Random(seed)))
    assert tail.named is not None
    assert tail.named.addresses() == [(UPSTREAM, 9092), ("b", 9093)]
    ours = {(UPSTREAM, 9092): ("127.0.0.1", 40_001), ("b", 9093): ("127.0.0.1", 40_002)}
    whole = begun + tail.named.frame(ours)
    assert len(whole) == len(frame)
    read = decode_response(FetchResponse, whole[4:], version)
    assert read.responses == response.responses
    assert [(e.node_id, e.host, e.port) for e in read.node_endpoints] == [
        (1, "127.0.0.1", 40_001),
        (2, "127.0.0.1", 40_002),
    ]


@pytest.mark.parametrize("length", range(1, 300))
def test_addresses_of_any_length_fit_or_are_left_out(length: int) -> None:
    frame = encode_response(9, response_with(NodeEndpoint(1, "k" * length, 9092), version=17), 17)
    tail = FetchTail(17)
    begun = tail.passed(frame, True)
    assert tail.named is not None
    whole = begun + tail.named.frame({("k" * length, 9092): ("127.0.0.1", 40_001)})
    assert len(whole) == len(frame)
    hosts = [endpoint.host for endpoint in decode_response(FetchResponse, whole[4:], 17).node_endpoints]
    assert hosts == ([] if length < 9 or length == 10 else ["127.0.0.1"])  # one byte cannot be filled up


def test_records_are_not_kept() -> None:
    response = response_with(NodeEndpoint(1, UPSTREAM, 9092), version=17)
    response.responses[0].partitions[0].records = bytes(20_000_000)
    frame = encode_response(9, response, 17)
    tail, kept = FetchTail(17), 0
    for start in range(0, len(frame), 65_536):
        tail.passed(frame[start : start + 65_536], start + 65_536 >= len(frame))
        kept = max(kept, tail.held_bytes)
    assert kept < 10_000


def test_what_cannot_be_read_passes_as_it_is() -> None:
    frame = encode_response(9, response_with(NodeEndpoint(1, UPSTREAM, 9092), version=17), 17)
    for seed in range(200):
        rng = random.Random(seed)
        spoilt = bytearray(frame)
        for _ in range(rng.randint(1, 8)):
            spoilt[rng.randrange(8, len(frame))] = rng.randrange(256)
        tail = FetchTail(17)
        begun = passed(tail, pieces_of(bytes(spoilt), rng))
        if tail.named is None:
            assert begun == bytes(spoilt)
        else:
            assert len(begun) + len(tail.named.frame({})) == len(spoilt)


def test_a_version_that_is_not_known_passes_as_it_is() -> None:
    frame = encode_response(9, response_with(NodeEndpoint(1, UPSTREAM, 9092), version=17), 17)
    tail = FetchTail(99)
    assert passed(tail, [frame[:50], frame[50:]]) == frame
    assert tail.unreadable


def test_a_partition_without_an_end_is_not_kept_for_ever() -> None:
    aborted = b"\xff\xff\xff\xff\x07"  # two thousand millions of them
    head = bytes(4 + 4) + b"\0" + bytes(10) + b"\x02" + bytes(16) + b"\x02" + bytes(30) + aborted
    tail, sent = FetchTail(17), 0
    for piece in [head, *[b"\0" * 65_536] * 40]:
        sent += len(tail.passed(piece, False))
    assert tail.unreadable
    assert tail.held_bytes == 0
    assert sent == len(head) + 40 * 65_536
    assert MAX_PART_BYTES < 40 * 65_536


def test_a_moved_leader_has_a_listener_of_the_proxy_s() -> None:
    response = response_with(NodeEndpoint(2, UPSTREAM, 9092), version=17)
    with simulate(3) as world:

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            request = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
            for piece in pieces_of(
                encode_response(int.from_bytes(request[4:8], "big"), response, 17), random.Random(5)
            ):
                writer.write(piece)
                await asyncio.sleep(0.1)

        async def start(proxy: Proxy | None) -> int:
            if proxy is not None:
                return (await proxy.start("proxy", 0))[1]
            server = await asyncio.start_server(serve, "upstream", 0)
            return int(server.sockets[0].getsockname()[1])

        upstream = world.run_in(world.process("upstream"), start(None))
        proxy = Proxy([("upstream", upstream)])
        port = world.run_in(world.process("proxy"), start(proxy))

        async def fetched() -> FetchResponse:
            reader, writer = await asyncio.open_connection("proxy", port)
            writer.write(encode_request(7, "c", FetchRequest(), 17))
            frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
            return decode_response(FetchResponse, frame, 17)

        read = world.run(fetched())
        assert read.responses == response.responses
        assert [(e.host, e.port) for e in read.node_endpoints] == [proxy.addresses[UPSTREAM, 9092]]
