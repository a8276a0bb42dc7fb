"""A proxy before a broker that keeps the requests of transactions, and strikes at a chosen one."""

from __future__ import annotations

import asyncio
import struct
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from coterie.wire.apis import APIS
from coterie.wire.codec import decode
from coterie.wire.declaration import Message
from coterie.wire.framing import decode_response, read_head, skip_tags

PRODUCE, INIT_PRODUCER_ID, ADD_PARTITIONS, ADD_OFFSETS, END_TXN, TXN_OFFSET_COMMIT = 0, 22, 24, 25, 26, 28
KEPT = frozenset({PRODUCE, INIT_PRODUCER_ID, ADD_PARTITIONS, ADD_OFFSETS, END_TXN, TXN_OFFSET_COMMIT})
READ_BYTES = 1 << 22
_SIZE = struct.Struct(">i")


class Moment(Enum):
    """When a strike comes."""

    BEFORE = "before the broker has the request"
    AFTER = "once the broker may have the request"
    RESPONSE = "before the client has the response"


@dataclass(slots=True)
class Strike:
    """``work`` is called at the ``count``-th request of the API, and from then on all connections are cut and refused."""

    api_key: int
    count: int
    moment: Moment
    work: Callable[[], object]


@dataclass(slots=True)
class Exchange:
    """A request of a transaction and its response; None where it was lost."""

    api_key: int
    request: Any
    response: Any = None


@dataclass(slots=True, eq=False)
class _Connection:
    """``waiting``: by correlation id the exchange and its version."""

    waiting: dict[int, tuple[Exchange, int]] = field(default_factory=dict)


class RecordingProxy:
    """On a port of 127.0.0.1, in a thread; ``exchanges`` in the order of the requests. Close it."""

    def __init__(self, port: int, broker_port: int) -> None:
        self._port, self._broker_port = port, broker_port
        self.exchanges: list[Exchange] = []
        self.struck = threading.Event()
        self._strike: Strike | None = None
        self._struck_at: tuple[_Connection, int] | None = None  # of a strike at the response
        self._writers = set[asyncio.StreamWriter]()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self.accept()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port}"

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        done: Future[None] = asyncio.run_coroutine_threadsafe(work, self._loop)
        done.result(20)

    def accept(self) -> None:
        """Connections, after a strike too."""

        async def accepted() -> None:
            self.struck.clear()
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port)

        self._run(accepted())

    def strike_at(self, strike: Strike) -> None:
        async def noted() -> None:
            self._strike, self._struck_at = strike, None

        self._run(noted())

    def refuse(self) -> None:
        """Cuts and refuses all connections, where no strike has done so."""

        async def refused() -> None:
            self._strike = None
            self._cut()

        self._run(refused())

    def close(self) -> None:
        self.refuse()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    # -- in the thread --------------------------------------------------------------------------------------------------

    def _cut(self) -> None:
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()

    def _hit(self) -> None:
        strike, self._strike = self._strike, None
        if strike is not None:
            strike.work()
            self._cut()
            self.struck.set()

    async def _serve(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        try:
            broker, to_broker = await asyncio.open_connection("127.0.0.1", self._broker_port)
        except OSError:
            to_client.close()
            return
        connection, writers = _Connection(), {to_client, to_broker}
        self._writers |= writers
        both = [
            asyncio.ensure_future(self._pump(client, to_broker, lambda frame: self._asked(connection, frame))),
            asyncio.ensure_future(self._pump(broker, to_client, lambda frame: self._answered(connection, frame))),
        ]
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        for writer in writers:
            writer.transport.abort()
        await asyncio.gather(*both)
        self._writers -= writers

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, passes: Callable[[bytes], bool]
    ) -> None:
        try:
            while True:
                size = await reader.readexactly(_SIZE.size)
                frame = await reader.readexactly(*_SIZE.unpack(size))
                if not passes(frame):
                    return
                writer.write(size + frame)
                await writer.drain()
        except (asyncio.IncompleteReadError, OSError):
            return

    def _asked(self, connection: _Connection, frame: bytes) -> bool:
        """Whether the broker gets the request."""
        head = read_head(frame)
        if head.api_key not in KEPT:
            return True
        cls = APIS[head.api_key].request
        start = skip_tags(frame, head.body_at) if head.api_version in cls.flexible else head.body_at
        request: Message = decode(cls, frame, head.api_version, start)[0]
        exchange = Exchange(head.api_key, request)
        self.exchanges.append(exchange)
        connection.waiting[head.correlation_id] = exchange, head.api_version
        strike = self._strike
        if strike is None or head.api_key != strike.api_key:
            return True
        strike.count -= 1
        if strike.count:
            return True
        if strike.moment is Moment.RESPONSE:
            self._struck_at = connection, head.correlation_id
        elif strike.moment is Moment.AFTER:
            self._loop.call_later(0.001, self._hit)
        else:
            self._hit()
        return strike.moment is not Moment.BEFORE

    def _answered(self, connection: _Connection, frame: bytes) -> bool:
        """Whether the client gets the response."""
        (correlation_id,) = _SIZE.unpack_from(frame)
        if self._struck_at == (connection, correlation_id):
            self._struck_at = None
            self._hit()
            return False
        kept = connection.waiting.pop(correlation_id, None)
        if kept is not None:
            exchange, version = kept
            exchange.response = decode_response(APIS[exchange.api_key].response, frame, version)
        return True
