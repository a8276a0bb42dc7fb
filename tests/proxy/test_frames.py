"""A stream's frames do not depend on the pieces in which it arrives; the bytes that are passed on equal the received
ones. Which request a response belongs to."""

from __future__ import annotations

import random

import pytest

from coterie.proxy.frames import FrameStream, PartKind, UnfitFrame
from coterie.proxy.requests import (
    Exchange,
    Exchanges,
    RequestHead,
    request_head,
    request_head_bytes,
    response_head_bytes,
)
from coterie.wire.apis import APIS
from coterie.wire.framing import encode_request
from coterie.wire.messages.logs.produce import PartitionProduceData, ProduceRequest, TopicProduceData


def parts(stream: FrameStream, data: bytes, rng: random.Random, collected: set[int]) -> list[tuple[bytes, bytes]]:
    """Head and content of each frame; those with a number in ``collected`` come whole."""
    frames: list[tuple[bytes, bytes]] = []
    at = 0
    while at < len(data):
        step = rng.choice((1, 2, 3, 7, 20, 1000))
        stream.receive(data[at : at + step])
        at += step
        while (part := stream.next()) is not None:
            if part.kind is PartKind.HEAD:
                if len(frames) in collected:
                    stream.collect()
                else:
                    stream.pass_on()
                frames.append((part.data, b""))
            else:
                assert (part.kind is PartKind.FRAME) == (len(frames) - 1 in collected)
                frames[-1] = frames[-1][0], frames[-1][1] + part.data
    return frames


@pytest.mark.parametrize("seed", range(30))
def test_frames_come_out_as_they_went_in(seed: int) -> None:
    rng = random.Random(seed)
    bodies = [rng.randbytes(rng.choice((4, 5, 9, 100, 3000))) for _ in range(8)]
    sent = [len(body).to_bytes(4, "big") + body for body in bodies]
    stream = FrameStream(response_head_bytes, 10_000)
    out = parts(stream, b"".join(sent), rng, {n for n in range(8) if rng.random() < 0.5})
    assert [content for _, content in out] == sent
    assert [head[4:] for head, _ in out] == [body[:4] for body in bodies]
    assert not stream.has_bytes


@pytest.mark.parametrize("size", [-1, 101])
def test_a_size_that_none_may_have_is_an_error(size: int) -> None:
    stream = FrameStream(response_head_bytes, 100)
    stream.receive(size.to_bytes(4, "big", signed=True))
    with pytest.raises(UnfitFrame):
        stream.next()


@pytest.mark.parametrize("client_id", [None, "", "a client", "é" * 40])
@pytest.mark.parametrize("acks", [0, 1, -1])
@pytest.mark.parametrize("version", range(APIS[0].request.versions.last + 1))
def test_the_head_of_a_produce_says_whether_a_response_comes(version: int, acks: int, client_id: str | None) -> None:
    topic = TopicProduceData("t", partition_data=[PartitionProduceData(0, b"r" * 600)])
    frame = encode_request(5, client_id, ProduceRequest("x" if version > 2 else None, acks, 1, [topic]), version)
    stream = FrameStream(request_head_bytes, 10_000)
    rng = random.Random(version)
    ((head, _),) = parts(stream, frame, rng, set())
    read = request_head(head)
    assert read is not None
    assert (read.api_key, read.api_version, read.correlation_id) == (0, version, 5)
    assert read.client_id == (client_id or "")
    assert read.has_response == (acks != 0)


@pytest.mark.parametrize(
    "frame",
    [b"\0\0\0\0", b"\0\0\0\7\0\1\0\1\0\0\0", b"\0\0\0\10\0\1\0\1\0\0\0\1", b"\0\0\0\x0a\xff\xff\0\1\0\0\0\1\x7f\xff"],
)
def test_a_head_of_bytes_that_are_no_request_is_read_or_refused(frame: bytes) -> None:
    head = request_head(frame)
    assert (head is None) == (len(frame) < 12)
    assert head is None or head.client_id == ""


def exchange(correlation_id: int, *, has_response: bool = True) -> Exchange:
    return Exchange(RequestHead(0, 9, correlation_id, "c", has_response))


def test_requests_that_the_broker_passes_over_have_no_response_any_more() -> None:
    exchanges = Exchanges()
    passed_over, responded, later = exchange(1), exchange(2), exchange(3)
    for each in (passed_over, exchange(7, has_response=False), responded, later):
        exchanges.sent(each)
    assert exchanges.responded(7) is None
    assert exchanges.responded(2) is responded
    assert list(exchanges.waiting) == [later]


def test_a_response_that_nobody_asked_for_belongs_to_no_request() -> None:
    exchanges = Exchanges()
    exchanges.sent(exchange(1))
    assert exchanges.responded(9) is None
    assert len(exchanges.waiting) == 1
