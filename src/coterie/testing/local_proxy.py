"""A proxy in this process before any Kafka: what a test may do to the requests of its clients, on a real cluster."""

from __future__ import annotations

from collections.abc import Mapping

from coterie.client.settings.settings import client_settings
from coterie.proxy.proxy import Proxy
from coterie.testing.argument_checks import checked_arguments
from coterie.testing.fault_controls import FaultControls
from coterie.testing.faults import Faults
from coterie.testing.loop_thread import START_S, LoopThread
from coterie.text.addresses import format_address

__tracebackhide__ = True  # for pytest: a failure is shown where the test called


@checked_arguments
class LocalProxy(LoopThread, FaultControls):
    """``upstream``: the bootstrap.servers of the cluster; ``settings`` for TLS and SASL towards it, by the names that clients
    have for them. Use as a context manager, or `start` and `stop`."""

    def __init__(self, upstream: str, settings: Mapping[str, object] | None = None) -> None:
        super().__init__("proxy")
        self.faults = Faults()
        self._settings = client_settings({**(settings or {}), "bootstrap.servers": upstream})
        self._address = ("", 0)

    def start(self) -> LocalProxy:
        """Starts the proxy on a free port of 127.0.0.1; returns itself once it accepts connections."""
        self._begin()
        self._address = self._on_loop(self._start(), START_S)
        return self

    async def _start(self) -> tuple[str, int]:
        self._proxy = Proxy(self._settings.bootstrap(), self._settings.security(), self.faults)
        return await self._proxy.start("127.0.0.1", 0)

    def stop(self) -> None:
        """Closes every connection and ends the proxy's thread."""
        self._on_loop(self._proxy.stop(), START_S)
        self._end()

    def __enter__(self) -> LocalProxy:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def bootstrap_servers(self) -> str:
        """HOST:PORT, as every client takes it."""
        self._require_running()
        return format_address(*self._address)

    def drop_connections(self, client_id: str | None = None) -> int:
        """Cuts every connection, or those of one client; returns how many."""
        return self._call(lambda: self._proxy.drop_connections(client_id))
