"""Connections of one thread read into one buffer: each receives its own bytes, of any size."""

from __future__ import annotations

import asyncio
import socket
import tracemalloc

import pytest

from coterie.runtime.receiver import RECEIVE_BYTES, Receiver


class Kept(Receiver):
    def __init__(self) -> None:
        super().__init__()
        self.received = bytearray()
        self.largest = 0
        self.ended = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        self.received += data
        self.largest = max(self.largest, len(data))

    def connection_lost(self, error: Exception | None) -> None:
        self.ended.set_result(None)


async def connected() -> tuple[Kept, socket.socket]:
    near, far = socket.socketpair()
    _, kept = await asyncio.get_running_loop().create_connection(Kept, sock=near)
    far.setblocking(False)
    return kept, far


@pytest.mark.parametrize("size", [1, 1_000, RECEIVE_BYTES, 3 * RECEIVE_BYTES + 7])
async def test_each_connection_receives_its_own_bytes(size: int) -> None:
    loop = asyncio.get_running_loop()
    pairs = [await connected() for _ in range(3)]
    sent = [bytes([number]) * size for number in range(3)]
    await asyncio.gather(*(loop.sock_sendall(far, each) for (_, far), each in zip(pairs, sent, strict=True)))
    for (kept, far), each in zip(pairs, sent, strict=True):
        far.close()
        await kept.ended
        assert bytes(kept.received) == each
        assert kept.largest <= RECEIVE_BYTES


def test_a_small_message_allocates_little() -> None:
    """asyncio.Protocol: 256 KiB for each."""

    async def story() -> int:
        kept, far = await connected()
        loop = asyncio.get_running_loop()
        for number in range(20):
            if number == 10:
                tracemalloc.start()
            await loop.sock_sendall(far, b"x" * 100)
            while len(kept.received) < 100 * (number + 1):
                await asyncio.sleep(0)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        far.close()
        await kept.ended
        return peak

    assert asyncio.run(story()) < RECEIVE_BYTES // 4
