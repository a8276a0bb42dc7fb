"""A client's connection and the one to its broker, joined: bytes pass both ways, with back-pressure, until either ends.

Each side reads only while the other takes what it is given. A request that is held stops its client's later ones, as a broker
that works on it would.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from typing import Any, Protocol

from coterie.client.errors import KafkaError
from coterie.proxy.frames import FramePart, PartKind, UnfitFrame
from coterie.proxy.requests import (
    FETCH,
    Exchange,
    Exchanges,
    RequestHead,
    decoded_request,
    has_tokens_behind,
    request_head,
    request_head_bytes,
    response_head_bytes,
)
from coterie.proxy.rewriting import Address, FetchTail, NamedBrokers, NamedTail, named_brokers, names_brokers
from coterie.proxy.sides import BrokerSide, ClientSide, Side, Stop
from coterie.wire.apis import API_NAMES, APIS
from coterie.wire.declaration import Message
from coterie.wire.framing import decode_response, encode_response
from coterie.wire.messages.security.sasl_handshake import SaslHandshakeRequest
from coterie.wire.primitives import WireError

logger = logging.getLogger("coterie.proxy")

MAX_WAITING = 1000  # requests of a connection without a response
MAX_REQUEST_BYTES = 100 * 1024 * 1024  # Kafka's socket.request.max.bytes
MAX_RESPONSE_BYTES = 512 * 1024 * 1024


class FaultOfRequest(Protocol):
    """What becomes of a request (`coterie.testing.faults`): it fails with ``code``, comes ``delay_s`` later, has no response,
    ends its connection, or, with none of these, is held."""

    code: Any
    delay_s: float
    lost: bool
    is_cut: bool
    held: list[Callable[[], None]]

    def response(self, request: Any) -> Message | None:
        """That of a rule with a code."""


class FaultRules(Protocol):
    """The rules in force."""

    requested: Counter[str]

    def concern(self, api: str, client_id: str) -> bool:
        """Whether a request of that API and client must be looked at."""

    def taken(self, api: str, request: Any, client_id: str) -> FaultOfRequest | None:
        """The rule for a request, which has one time less now."""


class RequestWatcher(Protocol):
    """Who looks at requests and their responses (`observation`)."""

    def watches(self, api_key: int) -> bool:
        """Whether requests of the API are looked at."""

    def sent(self, head: RequestHead, request: Any, client_host: str) -> Any:
        """A request goes to the broker; what stands for it, None where its response does not matter."""

    def responded(self, seen: Any, response: Any) -> None:
        """The response to what `sent` returned; None where there will be none."""

    def named(self, head: RequestHead, request: Any, response: Any) -> None:
        """A response that names brokers; ``request`` None unless `watches` has its API."""

    def own_response(self, request: Any) -> Message | None:
        """In place of the broker's; None: the broker has the request."""


class Brokers(Protocol):
    """What a passage uses of its proxy."""

    addresses: dict[Address, Address]
    rules: FaultRules | None
    watcher: RequestWatcher | None

    async def connect(self, side: BrokerSide, upstreams: list[Address]) -> None:
        """Opens the connection to the first that can be reached. Raises OSError, KafkaError."""

    async def listen_for(self, addresses: list[Address]) -> None:
        """Adds listeners. Raises OSError."""

    def ended(self, passage: Passage) -> None:
        """Both sides are closed."""


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
        self._response_passes = False  # part of one was passed on
        self._tail: FetchTail | None = None  # of the Fetch response that passes
        self._is_silent = False  # the client gets no further response
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
        self.take_requests()  # asyncio of Python 3.11.2 reads a connection that was paused as it was made

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
        watcher = self._brokers.watcher
        for exchange in [*self.exchanges.waiting, *([] if self._present is None else [self._present])]:
            if watcher is not None and exchange.ticket is not None:
                ticket, exchange.ticket = exchange.ticket, None
                watcher.responded(ticket, None)
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
        rules = self._brokers.rules
        api = API_NAMES.get(head.api_key, "")
        if rules is not None:
            rules.requested[api] += 1
        watcher = self._brokers.watcher
        is_watched = watcher is not None and watcher.watches(head.api_key)
        if is_watched or has_tokens_behind(head) or (rules is not None and rules.concern(api, head.client_id)):
            self._present_request = exchange
            stream.collect()
            return
        stream.pass_on()
        self._sent(exchange)

    def _pass_request(self, frame: bytes, out: list[bytes]) -> None:
        exchange, self._present_request = self._present_request, None
        assert exchange is not None, "a request was collected, and nobody wanted it"
        head, rules = exchange.head, self._brokers.rules
        exchange.request = decoded_request(head, frame)
        if isinstance(exchange.request, SaslHandshakeRequest) and has_tokens_behind(head):
            self.exchanges.tokens_follow(exchange.request)
        api = API_NAMES.get(head.api_key, "")
        rule = None if rules is None else rules.taken(api, exchange.request, head.client_id)
        own = None if self._brokers.watcher is None else self._brokers.watcher.own_response(exchange.request)
        if rule is not None:
            self._apply(rule, exchange, frame, out)
        elif own is not None:
            self._respond(exchange, own)
        else:
            self._watch(exchange)
            out.append(frame)
            self._sent(exchange)

    def _watch(self, exchange: Exchange) -> None:
        if self._brokers.watcher is not None and exchange.request is not None:
            exchange.ticket = self._brokers.watcher.sent(exchange.head, exchange.request, self.client.host)

    def _respond(self, exchange: Exchange, response: Message) -> None:
        """By the proxy itself, once the requests before have their responses. Raises WireError."""
        head = exchange.head
        exchange.own_response = encode_response(head.correlation_id, response, head.api_version)
        self._sent(exchange)
        self._write_own()

    def _apply(self, rule: FaultOfRequest, exchange: Exchange, frame: bytes, out: list[bytes]) -> None:
        """Raises WireError for a response that the request's version cannot have."""
        if rule.is_cut:
            self.close(now=True)
        elif rule.code is not None:
            if exchange.request is None:
                raise WireError(f"{API_NAMES[exchange.head.api_key]} {exchange.head.api_version} is not known here")
            response = rule.response(exchange.request)
            if response is not None:
                self._respond(exchange, response)
        elif rule.lost:
            exchange.is_lost = True
            self._watch(exchange)
            out.append(frame)
            self._sent(exchange)
        else:
            self.client.stop(Stop.HELD)
            if rule.delay_s:
                asyncio.get_running_loop().call_later(rule.delay_s, self._release, exchange, frame)
            else:
                rule.held.append(lambda: self._release(exchange, frame))

    def _release(self, exchange: Exchange, frame: bytes) -> None:
        """A request that was held goes on."""
        if self.client.is_closed or self.broker.is_closed:
            return
        self._watch(exchange)
        self.broker.write([frame])
        self._sent(exchange)
        self.client.resume(Stop.HELD)
        self.take_requests()

    def _write_own(self) -> None:
        """The proxy's own responses that are due."""
        if not (self._response_passes or self._is_silent or self.broker.is_stopped_for(Stop.LISTENING)):
            self.client.write(list(self.exchanges.own_responses()))

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
                elif part.kind is PartKind.FRAME:
                    self._pass_response(part.data, out)
                elif self._tail is not None:
                    self._pass_fetch(self._tail, part, out)
                elif not self._is_silent:
                    out.append(part.data)
                if part.is_last:
                    self._response_passes, self._tail = False, None
                    if not self.broker.is_stopped_for(Stop.LISTENING):
                        out += self.exchanges.own_responses()
        except UnfitFrame as error:
            self._refuse(error)
        self.client.write(out)
        if len(self.exchanges.waiting) < MAX_WAITING:
            self.client.resume(Stop.WAITING)
            if not self.client.is_stopped and (self._client_ended or self.client.stream.has_bytes):
                self.take_requests()

    def _begin_response(self, data: bytes) -> None:
        exchange = self._present = self.exchanges.responded(int.from_bytes(data[4:8], "big", signed=True))
        self._response_passes = True
        if exchange is not None and exchange.is_lost:
            self._is_silent = True  # a later response before it would be taken for it
        is_named = exchange is not None and names_brokers(exchange.head.api_key, exchange.head.api_version)
        if exchange is not None and is_named and exchange.head.api_key == FETCH and not self._is_silent:
            self._tail = FetchTail(exchange.head.api_version)
            self.broker.stream.pass_on()
        elif exchange is not None and (exchange.ticket is not None or is_named):
            self.broker.stream.collect()
        else:
            self.broker.stream.pass_on()

    def _pass_fetch(self, tail: FetchTail, part: FramePart, out: list[bytes]) -> None:
        was_readable = not tail.unreadable
        out.append(tail.passed(part.data, part.is_last))
        if tail.unreadable and was_readable:
            logger.warning("a response is passed on as it is: %s", tail.unreadable)
        if tail.named is not None:
            self._pass_named(tail.named, out)

    def _pass_response(self, frame: bytes, out: list[bytes]) -> None:
        assert self._present is not None, "a response was collected, and nobody wanted it"
        named = self._read_response(self._present, frame)
        if self._is_silent:
            return
        if named is None:
            out.append(frame)
            return
        self._pass_named(named, out)

    def _pass_named(self, named: NamedBrokers | NamedTail, out: list[bytes]) -> None:
        missing = [address for address in named.addresses() if address not in self._brokers.addresses]
        if not missing:
            out.append(named.frame(self._brokers.addresses))
            return
        self.broker.stop(Stop.LISTENING)
        self._task = asyncio.get_running_loop().create_task(self._rewrite(named, missing))

    def _read_response(self, exchange: Exchange, frame: bytes) -> NamedBrokers | None:
        head, watcher = exchange.head, self._brokers.watcher
        try:
            if exchange.ticket is not None and watcher is not None:
                cls = APIS[head.api_key].response
                ticket, exchange.ticket = exchange.ticket, None
                watcher.responded(ticket, decode_response(cls, frame[4:], head.api_version))
                return None
            named = named_brokers(head.api_key, head.api_version, frame)
        except WireError as error:
            logger.warning("a response is passed on as it is: %s", error)
            return None
        if named is not None and watcher is not None:
            watcher.named(head, exchange.request, named.response)
        return named

    async def _rewrite(self, named: NamedBrokers | NamedTail, missing: list[Address]) -> None:
        try:
            await self._brokers.listen_for(missing)
        except OSError as error:
            self._refuse(error)
            return
        self.client.write([named.frame(self._brokers.addresses)])
        self.broker.resume(Stop.LISTENING)
        self._write_own()
        self.take_responses()
