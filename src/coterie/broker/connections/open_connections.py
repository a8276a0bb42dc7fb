"""The open connections of a broker: at most max.connections of them, and which are ended because they are idle or stalled."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Protocol

from coterie.broker.clients.clients import Clients
from coterie.broker.process.loggers import LogLines
from coterie.broker.process.scheduling import Clock
from coterie.broker.requests.calls import ClientConnection
from coterie.broker.requests.memory import RequestMemory, ResponseMemory
from coterie.broker.settings import BrokerSettings
from coterie.broker.settings.address_counts import counts_of

STOP_GRACE_S = 2.0


class OpenConnection(Protocol):
    """A connection as its broker ends it. ``last_used_s``: on the loop's clock."""

    connection: ClientConnection
    last_used_s: float

    @property
    def client_id(self) -> str: ...
    def is_waiting(self) -> bool: ...
    def stalled_s(self, now_s: float) -> float | None: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...


class Accepting(Protocol):
    """What the open connections use of their broker."""

    settings: BrokerSettings
    clients: Clients
    clock: Clock
    log_lines: LogLines
    request_memory: RequestMemory
    response_memory: ResponseMemory
    loop: asyncio.AbstractEventLoop
    max_idle_ms: int


class OpenConnections:
    """In the order in which they were accepted. ``holding``: connections that may hold bytes of the two memories;
    ``unauthenticated``: the ones whose TLS or login is not done, with the time (s) of their begin; ``on_closed`` is called
    after each end."""

    def __init__(self, broker: Accepting) -> None:
        self._broker = broker
        self._open: dict[OpenConnection, None] = {}
        self._by_host: Counter[str] = Counter()
        self.holding: set[OpenConnection] = set()
        self.unauthenticated: dict[OpenConnection, float] = {}
        self.on_closed: Callable[[], object] = lambda: None

    def __iter__(self) -> Iterator[OpenConnection]:
        """Those of this moment."""
        return iter(list(self._open))

    def __len__(self) -> int:
        return len(self._open)

    def add(self, connection: OpenConnection) -> bool:
        """False when there are max.connections already, or too many of its address, or they come too fast."""
        broker, host = self._broker, connection.connection.host
        if len(self._open) >= broker.settings.current.max_connections:
            broker.log_lines.warning("refusing a connection: there are max.connections already")
            return False
        if self._by_host[host] >= self._most_of(host.lstrip("/")):
            broker.log_lines.warning("refusing a connection from %s: it has max.connections.per.ip already", host)
            return False
        if broker.clients.throttling.connected(host.lstrip("/"), broker.clock.now_ms()):
            broker.log_lines.warning("refusing a connection from %s: more than its connection_creation_rate", host)
            return False
        self._by_host[host] += 1
        self._open[connection] = None
        return True

    def _most_of(self, address: str) -> int:
        current = self._broker.settings.current
        counts = counts_of(current.max_connections_per_ip_overrides)
        return counts.get(address, current.max_connections_per_ip)

    def remove(self, connection: OpenConnection) -> None:
        """The connection has ended, and waits for memory no more."""
        if connection in self._open:
            del self._open[connection]
            host = connection.connection.host
            self._by_host[host] -= 1
            if not self._by_host[host]:
                del self._by_host[host]
        self.unauthenticated.pop(connection, None)
        self.holding.discard(connection)
        self.on_closed()

    def close_idle(self) -> None:
        """Ends the connections without a request for connections.max.idle.ms."""
        if self._broker.max_idle_ms < 0:
            return
        oldest_s = self._broker.loop.time() - self._broker.max_idle_ms / 1000
        for connection in self:
            if connection.last_used_s < oldest_s and not connection.is_waiting():
                connection.abort()

    def abort_stalled(self) -> None:
        """Aborts stalled connections that hold memory while other connections wait for memory."""
        broker = self._broker
        lacking = broker.request_memory.short or broker.response_memory.short
        limit_s = broker.settings.current.coterie_connections_max_stalled_ms / 1000
        now_s = broker.loop.time()
        for connection in sorted(self.holding, key=lambda connection: connection.last_used_s):
            stalled_s = connection.stalled_s(now_s)
            if stalled_s is None:
                self.holding.discard(connection)
            elif lacking and stalled_s >= limit_s:
                text = "aborting a connection from %s, stalled for %d s, because other requests wait for memory"
                broker.log_lines.warning(text, connection.connection.host, stalled_s)
                connection.abort()

    def abort_unauthenticated(self) -> None:
        """Aborts the connections whose TLS and login have taken coterie.connections.max.unauthenticated.ms."""
        if not self.unauthenticated:
            return
        limit_ms = self._broker.settings.security("").coterie_connections_max_unauthenticated_ms
        oldest_s = self._broker.loop.time() - limit_ms / 1000
        for connection, began_s in list(self.unauthenticated.items()):
            if began_s > oldest_s:
                return  # they are in the order of their begin
            text = "aborting a connection from %s without authentication after %d ms"
            self._broker.log_lines.warning(text, connection.connection.host, limit_ms)
            connection.abort()

    async def close(self) -> None:
        """Ends all; lets clients read their last responses for `STOP_GRACE_S` at most."""
        for connection in self:
            connection.close()
        await asyncio.sleep(0)
        deadline_s = self._broker.loop.time() + STOP_GRACE_S
        while self._open and self._broker.loop.time() < deadline_s:
            await asyncio.sleep(0.01)
        for connection in self:
            connection.abort()
