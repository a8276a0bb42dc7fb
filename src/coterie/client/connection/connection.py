"""One connection to one broker: requests out, responses matched by correlation id, versions agreed on first."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import TypeVar

from coterie.client.connection.handshake import (
    MAX_RESPONSE_BYTES,
    UNREACHABLE,
    Handshake,
    VersionTable,
    encoded,
    not_opened,
)
from coterie.client.errors import KafkaError
from coterie.client.security import PLAINTEXT, Security
from coterie.runtime.receiver import FrameReceiver
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode
from coterie.wire.framing import decode_response
from coterie.wire.primitives import WireError

M = TypeVar("M", bound=Message)
Responded = Callable[[bytes], object]
NEVER_S = float("inf")

RETIRED_AFTER = 0.85  # of the time that a login lasts
RETIRE_AGAIN_S = 0.02
LINGER_S = 5.0  # in which a broker must read what was sent before a close


class _Callee:
    """The functions that take a request's response, or its error, where no task waits for it. ``set_result`` is called with the
    frame as it arrives, which spares a future and a turn of the loop, and must not raise. An error comes in a turn of its own,
    since the owner of the functions may be sending."""

    __slots__ = ("_failed", "_is_done", "set_result")

    def __init__(self, responded: Responded, failed: Callable[[Exception], object]) -> None:
        self.set_result = responded
        self._failed, self._is_done = failed, False

    def done(self) -> bool:
        return self._is_done

    def set_exception(self, error: Exception) -> None:
        self._is_done = True
        asyncio.get_running_loop().call_soon(self._failed, error)


class Connection(FrameReceiver):
    """Use `connect`; then `request`. Broken or closed, every waiting request gets KafkaError NETWORK_EXCEPTION."""

    def __init__(self, client_id: str) -> None:
        super().__init__(MAX_RESPONSE_BYTES)
        self.client_id = client_id
        self.versions: VersionTable | None = None
        self.closed = False
        self._transport: asyncio.Transport | None = None
        self._waiting: dict[int, asyncio.Future[bytes] | _Callee] = {}
        self._deadlines: dict[int, tuple[float, float]] = {}  # when, by the loop's clock, and after how many seconds
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due_s = NEVER_S
        self._correlation_id = 0

    @classmethod
    async def connect(
        cls, host: str, port: int, client_id: str, timeout_s: float, security: Security = PLAINTEXT
    ) -> Connection:
        """Raises KafkaError NETWORK_EXCEPTION when nobody responds there, or what responds is no broker, and what a login is
        refused with."""
        loop, connection, context = asyncio.get_running_loop(), cls(client_id), security.context()
        try:
            async with asyncio.timeout(timeout_s):
                await loop.create_connection(lambda: connection, host, port, ssl=context)
                await connection._shake_hands(security)
        except UNREACHABLE as error:
            connection.abort()
            raise not_opened(host, port, error, timeout_s) from error
        except BaseException:
            connection.abort()
            raise
        return connection

    async def _shake_hands(self, security: Security) -> None:
        handshake = Handshake(self.client_id, security.login())
        frame: bytes | None = handshake.start()
        while frame is not None:
            response = await self._exchange(handshake.correlation_id, frame)
            # A login in a thread: the iterations that a SCRAM server requests would hold the loop.
            is_login = handshake.versions is not None
            frame = await asyncio.to_thread(handshake.response, response) if is_login else handshake.response(response)
            self.versions = handshake.versions
        if handshake.session_ms:
            self._retire_in(handshake.session_ms / 1000 * RETIRED_AFTER)

    def _retire_in(self, delay_s: float) -> None:
        """The login ends: the owner opens another connection, and logs in there, once this one is closed between two requests.
        (To log in again on it, as Java's client does, would hold its requests back.)"""
        asyncio.get_running_loop().call_later(delay_s, self._retire)

    def _retire(self) -> None:
        if self.closed:
            return
        if self.is_waiting:
            self._retire_in(RETIRE_AGAIN_S)
        else:
            self.close()

    # -- FrameReceiver ------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio, before any other method."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        """The connection has ended: every request without a response fails."""
        self.closed = True
        if self.versions is None and isinstance(error, ssl.SSLError):
            self._fail_waiting(error)  # in TLS 1.3 a broker refuses a certificate after the client's handshake
        else:
            self._fail_waiting(None if error is None else f"the connection was lost: {error}")

    def _fail_waiting(self, why: Exception | str | None) -> None:
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(
                    why if isinstance(why, Exception) else KafkaError(ErrorCode.NETWORK_EXCEPTION, why)
                )
        self._waiting.clear()
        self._deadlines.clear()
        if self._timer is not None:
            self._timer.cancel()

    def size_refused(self, size: int) -> None:
        """A response that is longer than any can be: the connection is of no more use."""
        self.abort(f"a response claims a size of {size} bytes")

    def frame_received(self, frame: bytes) -> None:
        """A whole response, for the request that has its correlation id; without one the connection ends."""
        correlation_id = int.from_bytes(frame[:4], "big", signed=True)
        future = self._waiting.pop(correlation_id, None)
        self._deadlines.pop(correlation_id, None)
        if future is None:
            self.abort(f"the broker answered a request {correlation_id} that was not sent")
        elif not future.done():
            future.set_result(frame)

    def serves(self, request: type[Message]) -> bool:
        """Whether the broker has a version of this request that we speak."""
        assert self.versions is not None
        return self.versions.serves(request)

    @property
    def is_waiting(self) -> bool:
        """Whether a response is still to come."""
        return any(not future.done() for future in self._waiting.values())

    def version_of(self, request: type[Message], highest: int | None = None) -> int:
        """The version in which such a request goes out. Raises KafkaError UNSUPPORTED_VERSION."""
        assert self.versions is not None
        return self.versions.choose(request, highest)

    # -- requests -----------------------------------------------------------------------------------------------------

    def _send(self, request: Message, version: int) -> asyncio.Future[bytes]:
        correlation_id = self._next_id()
        return self._exchange(correlation_id, encoded(correlation_id, self.client_id, request, version))

    def _exchange(self, correlation_id: int, frame: bytes) -> asyncio.Future[bytes]:
        """The response to a request that is encoded under the next correlation id."""
        self._write(correlation_id, frame)
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting[correlation_id] = future
        return future

    def _next_id(self) -> int:
        return (self._correlation_id + 1) & 0x7FFF_FFFF

    def _write(self, correlation_id: int, frame: bytes) -> None:
        if self.closed or self._transport is None:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION)
        self._correlation_id = correlation_id
        self._transport.write(frame)

    async def request(self, request: Message, response: type[M], timeout_s: float, *, highest: int | None = None) -> M:
        """The response. Raises KafkaError: NETWORK_EXCEPTION, REQUEST_TIMED_OUT or UNSUPPORTED_VERSION."""
        return await self.request_version(request, response, self.version_of(type(request), highest), timeout_s)

    async def request_version(self, request: Message, response: type[M], version: int, timeout_s: float) -> M:
        """The response to a request in just that version. Raises KafkaError NETWORK_EXCEPTION or REQUEST_TIMED_OUT."""
        future = self._send(request, version)
        self._expect(self._correlation_id, timeout_s)
        return self.decoded(response, await future, version)

    def begin(
        self,
        request: Message,
        version: int,
        timeout_s: float,
        responded: Responded,
        failed: Callable[[Exception], object],
    ) -> None:
        """Sends a request; no task awaits its response. Calls ``responded`` with the frame, for `decoded`, or ``failed`` with
        KafkaError NETWORK_EXCEPTION or REQUEST_TIMED_OUT. Raises KafkaError for a request that cannot be sent."""
        correlation_id = self._next_id()
        self._write(correlation_id, encoded(correlation_id, self.client_id, request, version))
        self._waiting[correlation_id] = _Callee(responded, failed)
        self._expect(correlation_id, timeout_s)

    def decoded(self, response: type[M], frame: bytes, version: int) -> M:
        """Raises KafkaError NETWORK_EXCEPTION."""
        try:
            return decode_response(response, frame, version)
        except WireError as error:
            self.abort("the broker sent a response that cannot be read")
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, f"a response that cannot be read: {error}") from error

    # -- timeouts -----------------------------------------------------------------------------------------------------

    def _expect(self, correlation_id: int, timeout_s: float) -> None:
        """One timer serves all requests: most have their responses long before it fires, and it then looks again."""
        loop = asyncio.get_running_loop()
        due_s = loop.time() + timeout_s
        self._deadlines[correlation_id] = due_s, timeout_s
        if due_s < self._timer_due_s:
            self._arm(loop, due_s)

    def _arm(self, loop: asyncio.AbstractEventLoop, due_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_due_s = due_s
        self._timer = loop.call_at(due_s, self._look_for_overdue)

    def _look_for_overdue(self) -> None:
        """As in Kafka's NetworkClient, what is silent for so long may be half-open and never respond again: one request that is
        overdue ends the connection, also one whose caller was cancelled."""
        loop = asyncio.get_running_loop()
        self._timer, self._timer_due_s = None, NEVER_S
        overdue = [each for each, (due_s, _) in self._deadlines.items() if due_s <= loop.time()]
        for waiting, timeout_s in [(self._waiting[each], self._deadlines[each][1]) for each in overdue]:
            if not waiting.done():
                text = f"no response within {timeout_s:g} s"
                waiting.set_exception(KafkaError(ErrorCode.REQUEST_TIMED_OUT, text))
        if overdue:
            self.abort("another request on the connection was not answered in time")
        elif self._deadlines:
            self._arm(loop, min(self._deadlines.values())[0])

    def tell(self, request: Message) -> None:
        """Sends a request that has no response (Produce with acks=0). Raises KafkaError NETWORK_EXCEPTION."""
        assert self.versions is not None
        correlation_id, version = self._next_id(), self.versions.choose(type(request))
        self._write(correlation_id, encoded(correlation_id, self.client_id, request, version))

    def close(self) -> None:
        """Lets what was sent go out, within LINGER_S; responses are not waited for."""
        self.closed = True
        self._fail_waiting("the connection was closed")
        if self._transport is not None and not self._transport.is_closing():  # asyncio's TLS is not to be closed twice
            self._transport.close()
            if self._transport.get_write_buffer_size():
                asyncio.get_running_loop().call_later(LINGER_S, self._transport.abort)

    def detach(self) -> asyncio.Transport:
        """The transport, whose handshakes and login are done, for another protocol. The connection itself is of no further
        use."""
        assert self._transport is not None, "it is not connected"
        self.closed = True
        return self._transport

    def abort(self, why: str | None = None) -> None:
        """Drops the connection at once."""
        self.closed = True
        self._fail_waiting(why)
        if self._transport is not None:
            self._transport.abort()
