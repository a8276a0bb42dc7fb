"""The two connections of a passage, each a protocol of asyncio: what arrives, when it is read, and its end."""

from __future__ import annotations

import asyncio
from enum import Enum
from typing import Protocol

from coterie.proxy.frames import FrameStream, HeadBytes
from coterie.runtime.receiver import Receiver

WRITE_AHEAD_BYTES = 1 << 20  # that a side may be behind before the other one stops reading


class Stop(Enum):
    """Why a side does not read."""

    CONNECTING = "the broker's side is not open yet"
    PEER_SLOW = "the other side does not read"
    WAITING = "too many requests wait for responses"
    HELD = "a request is held"
    LISTENING = "a listener for a new broker is opened"


class Joined(Protocol):
    """What a side uses of its passage."""

    client: ClientSide
    broker: BrokerSide

    def begin(self) -> None:
        """The client's connection is accepted."""

    def take_requests(self) -> None:
        """The client has sent something, or may be read again."""

    def take_responses(self) -> None:
        """The broker has sent something, or may be read again."""

    def client_ended(self) -> None:
        """The client sends no more."""

    def side_lost(self, other: Side, error: Exception | None) -> None:
        """A connection has ended; the other one is left."""


class Side(Receiver):
    """One of the two connections."""

    def __init__(self, passage: Joined, head_bytes: HeadBytes, max_frame_bytes: int) -> None:
        super().__init__()
        self.stream = FrameStream(head_bytes, max_frame_bytes)
        self.transport: asyncio.Transport | None = None
        self.is_closed = False
        self._passage = passage
        self._stops = set[Stop]()

    @property
    def host(self) -> str:
        """The peer's, as a coordinator has it of its members."""
        return "" if self.transport is None else f"/{self.transport.get_extra_info('peername')[0]}"

    @property
    def is_stopped(self) -> bool:
        """Whether it does not read now."""
        return bool(self._stops)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio, before any other method."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.set_write_buffer_limits(high=WRITE_AHEAD_BYTES)
        if self._stops:
            transport.pause_reading()

    def is_stopped_for(self, reason: Stop) -> bool:
        """Whether that is one of the reasons."""
        return reason in self._stops

    def stop(self, reason: Stop) -> None:
        """Reads no further until `resume` for the same reason."""
        if not self._stops and self.transport is not None:
            self.transport.pause_reading()
        self._stops.add(reason)

    def resume(self, reason: Stop) -> None:
        """Reads on, unless there is another reason not to."""
        if reason not in self._stops:
            return
        self._stops.discard(reason)
        if not self._stops and self.transport is not None and not self.is_closed:
            self.transport.resume_reading()

    def write(self, pieces: list[bytes]) -> None:
        """Sends them, if the side is still there."""
        if pieces and self.transport is not None and not self.transport.is_closing():
            self.transport.write(pieces[0] if len(pieces) == 1 else b"".join(pieces))

    def close(self, *, now: bool = False) -> None:
        """Ends the connection once everything is written, or ``now``."""
        if self.transport is not None:
            if now:
                self.transport.abort()
            else:
                self.transport.close()


class ClientSide(Side):
    """The connection that a listener has accepted."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.stop(Stop.CONNECTING)
        super().connection_made(transport)
        self._passage.begin()

    def data_received(self, data: bytes) -> None:
        self.stream.receive(data)
        self._passage.take_requests()

    def eof_received(self) -> bool:
        """The client sends no more, and may still read."""
        self._passage.client_ended()
        return True

    def pause_writing(self) -> None:
        self._passage.broker.stop(Stop.PEER_SLOW)

    def resume_writing(self) -> None:
        self._passage.broker.resume(Stop.PEER_SLOW)
        self._passage.take_responses()

    def connection_lost(self, error: Exception | None) -> None:
        self.is_closed = True
        self._passage.side_lost(self._passage.broker, error)


class BrokerSide(Side):
    """The connection to the broker."""

    def data_received(self, data: bytes) -> None:
        self.stream.receive(data)
        self._passage.take_responses()

    def pause_writing(self) -> None:
        self._passage.client.stop(Stop.PEER_SLOW)

    def resume_writing(self) -> None:
        self._passage.client.resume(Stop.PEER_SLOW)
        self._passage.take_requests()

    def connection_lost(self, error: Exception | None) -> None:
        self.is_closed = True
        self._passage.side_lost(self._passage.client, error)
