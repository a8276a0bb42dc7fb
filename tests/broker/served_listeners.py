"""A broker with listeners, and who its handlers take the clients for."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from coterie.authentication.principal import Principal
from coterie.broker.broker import Broker
from coterie.broker.clients.scram_credentials import Credential
from coterie.broker.requests.calls import Call
from coterie.broker.requests.turns import finish
from coterie.broker.settings import BrokerSettings

METADATA = 3


@contextlib.asynccontextmanager
async def serving(settings: dict[str, object], *users: Credential) -> AsyncIterator[tuple[Broker, int]]:
    """With the port of its first listener."""
    broker = Broker(BrokerSettings(settings | {"offsets.topic.num.partitions": "1"}))
    _, port = await broker.start()
    for user in users:
        finish(broker.clients.scram_credentials.altering([user]))
    try:
        yield broker, port
    finally:
        await broker.stop()


def record_principals(broker: Broker) -> list[Principal]:
    """The principals of requests for metadata from now on."""
    principals: list[Principal] = []
    handler = broker.handlers[METADATA]

    def recording(services: Any, request: Any, call: Call) -> Any:
        principals.append(call.connection.principal)
        return handler(services, request, call)

    broker.handlers = {**broker.handlers, METADATA: recording}
    return principals
