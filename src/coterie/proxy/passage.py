"""A client's connection and the one to its broker, joined: bytes pass both ways, with back-pressure, until either ends.

Each side reads only while the other takes what it is given. A request that is held stops its client's later ones, as a broker
that works on it would.
"""

from __future__ import annotations

import asyncio
import logging
from enum import Enum
from typing import Protocol

from coterie.client.errors import KafkaError
from coterie.proxy.exchanges import Exchange, Exchanges, has_tokens_behind
from coterie.proxy.frames import FrameStream, HeadBytes, PartKind, UnfitFrame
from coterie.proxy.heads import request_head, request_head_bytes, response_head_bytes
from coterie.proxy.rewriting import Address, NamedBrokers, named_brokers, names_brokers
from coterie.runtime.receiver import Receiver
from coterie.wire.framing import read_head
from coterie.wire.messages.security.sasl_handshake import SaslHandshakeRequest
from coterie.wire.primitives import WireError

logger = logging.getLogger("coterie.proxy")

WRITE_AHEAD_BYTES = 1 << 20  # that a side may be behind before the other one stops reading
MAX_WAITING = 1000  # requests of a connection without a response
MAX_REQUEST_BYTES = 100 * 1024 * 1024  # Kafka's socket.request.max.bytes
MAX_RESPONSE_BYTES = 512 * 1024 * 1024


class Stop(Enum):
    """Why a side does not read."""

    CONNECTING = "the broker's side is not open yet"
    PEER_SLOW = "the other side does not read"
    WAITING = "too many requests wait for responses"
    HELD = "a request is held"
    LISTENING = "a listener for a new broker is opened"


class Brokers(Protocol):
    """What a passage uses of its proxy."""

    addresses: dict[Address, Address]

    async def connect(self, side: BrokerSide, upstreams: list[Address]) -> None:
        """Opens the connection to the first that can be reached. Raises OSError, KafkaError."""

    async def listen_for(self, addresses: list[Address]) -> None:
        """Adds listeners. Raises OSError."""

    def ended(self, passage: Passage) -> None:
        """Both sides are closed."""


class Side(Receiver):
    """One of the two connections."""

    def __init__(self, passage: Passage, head_bytes: HeadBytes, max_frame_bytes: int) -> None:
        super().__init__()
        self.stream = FrameStream(head_bytes, max_frame_bytes)
        self.transport: asyncio.Transport | None = None
        self.is_closed = False
        self._passage = passage
        self._stops = set[Stop]()

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


class Passage:
    """Made by a listener for each client's connection; ``upstreams``: the addresses of its broker."""

    def __init__(self, brokers: Brokers, upstreams: list[Address]) -> None:
        self._brokers, self._upstreams = brokers, upstreams
        self.client = ClientSide(self, request_head_bytes, MAX_REQUEST_BYTES)
        self.broker = BrokerSide(self, response_head_bytes, MAX_RESPONSE_BYTES)
        self.exchanges = Exchanges()
        self.client_id = ""  # of the latest request
        self._task: asyncio.Task[None] | None = None
        self._present: Exchange | None = None  # whose response passes
        self._present_request: Exchange | None = None
        self._client_ended = False

    # -- opening and closing ------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """The client's connection is accepted."""
        self._task = asyncio.get_running_loop().create_task(self._open())

    async def _open(self) -> None:
        try:
            await self._brokers.connect(self.broker, self._upstreams)
        except (OSError, KafkaError):
            self.close()
            return
        self.client.resume(Stop.CONNECTING)
        if self._client_ended:
            self.client_ended()

    def close(self, *, now: bool = False) -> None:
        """Ends both connections."""
        self.client.close(now=now)
        self.broker.close(now=now)

    def client_ended(self) -> None:
        """The broker's side ends too, once all is written that came before."""
        self._client_ended = True
        transport = self.broker.transport
        if transport is None or self.client.is_stopped or transport.is_closing():
            return  # later
        if transport.can_write_eof():
            transport.write_eof()
        elif not self.exchanges.waiting:
            transport.close()

    def side_lost(self, other: Side, error: Exception | None) -> None:
        """One connection has ended: so does the other, after what was written, or now where it ended by an error."""
        if self._task is not None:
            self._task.cancel()
        other.close(now=error is not None)
        if self.client.is_closed and (self.broker.is_closed or self.broker.transport is None):
            self._brokers.ended(self)

    def _refuse(self, error: Exception) -> None:
        logger.warning("closing the connection of client %r: %s", self.client_id, error)
        self.close()

    # -- requests -----------------------------------------------------------------------------------------------------

    def take_requests(self) -> None:
        """Passes on what the client has sent, while it is not stopped."""
        out: list[bytes] = []
        try:
            while not self.client.is_stopped and (part := self.client.stream.next()) is not None:
                if part.kind is PartKind.HEAD:
                    self._begin_request(part.data)
                elif part.kind is PartKind.PIECE:
                    out.append(part.data)
                else:
                    self._pass_request(part.data, out)
        except (UnfitFrame, WireError) as error:
            self._refuse(error)
        self.broker.write(out)
        if self._client_ended:
            self.client_ended()

    def _begin_request(self, data: bytes) -> None:
        exchanges, stream = self.exchanges, self.client.stream
        if exchanges.tokens_left:
            exchanges.token_sent()
            stream.pass_on()
            return
        head = request_head(data)
        if head is None:
            raise UnfitFrame(f"a request of {len(data) - 4} bytes is too short for its header")
        self.client_id = head.client_id
        exchange = Exchange(head)
        if has_tokens_behind(head):
            self._present_request = exchange
            stream.collect()
            return
        stream.pass_on()
        self._sent(exchange)

    def _pass_request(self, frame: bytes, out: list[bytes]) -> None:
        exchange, self._present_request = self._present_request, None
        assert exchange is not None, "a request was collected, and nobody wanted it"
        if has_tokens_behind(exchange.head):
            handshake = SaslHandshakeRequest.decode(frame, 0, read_head(frame, 4).body_at)
            self.exchanges.tokens_follow(handshake)
        out.append(frame)
        self._sent(exchange)

    def _sent(self, exchange: Exchange) -> None:
        self.exchanges.sent(exchange)
        if len(self.exchanges.waiting) >= MAX_WAITING:
            self.client.stop(Stop.WAITING)

    # -- responses ----------------------------------------------------------------------------------------------------

    def take_responses(self) -> None:
        """Passes on what the broker has sent, while it is not stopped."""
        out: list[bytes] = []
        try:
            while not self.broker.is_stopped and (part := self.broker.stream.next()) is not None:
                if part.kind is PartKind.HEAD:
                    self._begin_response(part.data)
                elif part.kind is PartKind.PIECE:
                    out.append(part.data)
                else:
                    self._pass_response(part.data, out)
        except UnfitFrame as error:
            self._refuse(error)
        self.client.write(out)
        if len(self.exchanges.waiting) < MAX_WAITING:
            self.client.resume(Stop.WAITING)
            if not self.client.is_stopped and (self._client_ended or self.client.stream.has_bytes):
                self.take_requests()

    def _begin_response(self, data: bytes) -> None:
        exchange = self._present = self.exchanges.answered(int.from_bytes(data[4:8], "big", signed=True))
        if exchange is not None and names_brokers(exchange.head.api_key, exchange.head.api_version):
            self.broker.stream.collect()
        else:
            self.broker.stream.pass_on()

    def _pass_response(self, frame: bytes, out: list[bytes]) -> None:
        assert self._present is not None, "a response was collected, and nobody wanted it"
        head = self._present.head
        try:
            named = named_brokers(head.api_key, head.api_version, frame)
        except WireError as error:
            logger.warning("addresses of brokers are passed on as they are: %s", error)
            named = None
        if named is None:
            out.append(frame)
            return
        missing = [address for address in named.addresses() if address not in self._brokers.addresses]
        if not missing:
            out.append(named.frame(self._brokers.addresses))
            return
        self.broker.stop(Stop.LISTENING)
        self._task = asyncio.get_running_loop().create_task(self._rewrite(named, missing))

    async def _rewrite(self, named: NamedBrokers, missing: list[Address]) -> None:
        try:
            await self._brokers.listen_for(missing)
        except OSError as error:
            self._refuse(error)
            return
        self.client.write([named.frame(self._brokers.addresses)])
        self.broker.resume(Stop.LISTENING)
        self.take_responses()
