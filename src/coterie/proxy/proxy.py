"""The proxy: a listener for each broker that it has learned of, and the connections that pass."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Sequence

from coterie.client.connection.connection import Connection
from coterie.client.errors import KafkaError
from coterie.client.security import PLAINTEXT, Security
from coterie.proxy.passage import FaultRules, Passage, RequestWatcher
from coterie.proxy.rewriting import Address
from coterie.proxy.sides import BrokerSide
from coterie.text.addresses import format_address

logger = logging.getLogger("coterie.proxy")
CONNECT_TIMEOUT_S = 10.0  # Kafka's socket.connection.setup.timeout.ms
CLIENT_ID = "coterie-proxy"


class Proxy:
    """``upstream``: the addresses that clients of the cluster would begin with; ``rules``: what becomes of requests;
    ``watcher`` looks at those of groups. ``addresses`` has the proxy's own for each broker, which stay while it runs."""

    def __init__(
        self,
        upstream: Sequence[Address],
        security: Security = PLAINTEXT,
        rules: FaultRules | None = None,
        watcher: RequestWatcher | None = None,
    ) -> None:
        self._upstream = list(upstream)
        self._security = security
        self.rules, self.watcher = rules, watcher
        self._context: ssl.SSLContext | None = security.context()
        self._host = ""
        self._servers: list[asyncio.Server] = []
        self._opening = asyncio.Lock()
        self.addresses: dict[Address, Address] = {}
        self.passages = set[Passage]()
        self._away = set[Address]()  # brokers that could not be reached when they were last tried

    async def start(self, host: str, port: int) -> Address:
        """Listens, and returns the address. Raises OSError."""
        self._host = host
        address = await self._listen(self._upstream, port)
        if len(self._upstream) == 1:  # of several no one broker is behind it
            self.addresses[self._upstream[0]] = address
        return address

    async def stop(self) -> None:
        """Closes every listener and every connection."""
        for server in self._servers:
            server.close()
        for passage in list(self.passages):
            passage.close(now=True)

    def drop_connections(self, client_id: str | None) -> int:
        """Cuts every connection, or those of one client; returns how many."""
        dropped = [passage for passage in self.passages if client_id in (None, passage.client_id)]
        for passage in dropped:
            passage.close(now=True)
        return len(dropped)

    async def _listen(self, upstreams: list[Address], port: int) -> Address:
        def accepted() -> asyncio.BaseProtocol:
            passage = Passage(self, upstreams)
            self.passages.add(passage)
            return passage.client

        server = await asyncio.get_running_loop().create_server(accepted, self._host, port)
        self._servers.append(server)
        bound_host, bound_port = server.sockets[0].getsockname()[:2]
        return str(bound_host), int(bound_port)

    # -- Brokers ------------------------------------------------------------------------------------------------------

    async def listen_for(self, addresses: list[Address]) -> None:
        """One listener for each that has none, on a free port. Raises OSError."""
        async with self._opening:
            for address in addresses:
                if address not in self.addresses:
                    self.addresses[address] = await self._listen([address], 0)

    async def connect(self, side: BrokerSide, upstreams: list[Address]) -> None:
        """With TLS and a login by the settings. The log has a line where a broker goes away, and one where it is back. Raises
        OSError, KafkaError: of the last that was tried."""
        for tried, address in enumerate(upstreams, 1):
            name = format_address(*address)
            try:
                await self._connect(side, *address)
            except (OSError, KafkaError) as error:
                if address not in self._away:
                    logger.warning("%s cannot be reached; its clients' connections are closed: %s", name, error)
                self._away.add(address)
                if tried == len(upstreams):
                    raise
            else:
                if address in self._away:
                    logger.warning("%s can be reached again", name)
                self._away.discard(address)
                return

    async def _connect(self, side: BrokerSide, host: str, port: int) -> None:
        if self._security.has_login:
            connection = await Connection.connect(host, port, CLIENT_ID, CONNECT_TIMEOUT_S, self._security)
            transport = connection.detach()
            transport.set_protocol(side)
            side.connection_made(transport)
            return
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            await asyncio.get_running_loop().create_connection(lambda: side, host, port, ssl=self._context)

    def ended(self, passage: Passage) -> None:
        """Forgets it."""
        self.passages.discard(passage)
