"""A broker that has pages, for tests of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from coterie.broker.broker import Broker
from coterie.broker.settings import BrokerSettings
from coterie.broker.web.http import HttpServer
from coterie.cli.broker_pages import console_of
from tests.async_tests import AsyncTest, run_by


def with_pages(*names: str, has_console: bool = False) -> Callable[[AsyncTest], Callable[..., None]]:
    """Decorates a test with a broker, its address and that of its pages, which may also be found under ``names``."""

    async def run(test: AsyncTest) -> None:
        broker = Broker(BrokerSettings({"group.initial.rebalance.delay.ms": "0"}))
        host, port = await broker.start("127.0.0.1", 0)
        try:
            server = HttpServer(broker, names, console_of(broker, host, port) if has_console else None)
            address = await broker.serve_http(server, "127.0.0.1", 0)
            await test(broker, f"{host}:{port}", f"http://{address[0]}:{address[1]}")
        finally:
            await broker.stop()

    return run_by(lambda test: asyncio.run(run(test)), given=3)
