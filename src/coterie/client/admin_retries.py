"""How an admin's call is repeated, as by Kafka's KafkaAdminClient."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Protocol, TypeVar, cast

from coterie.client.cluster import Cluster
from coterie.client.errors import KafkaError
from coterie.client.retrying import Retrying
from coterie.wire.errors import ErrorCode


class _WithCluster(Protocol):
    _cluster: Cluster


Method = TypeVar("Method", bound=Callable[..., Awaitable[Any]])


def repeated(method: Method) -> Method:
    """A method that begins again after a lost connection, or where no broker can be reached, until default.api.timeout.ms.
    Before the client has reached any broker it fails at once: the address may be wrong. Where only the response was lost, a
    repeated call meets what the first one did, such as TOPIC_ALREADY_EXISTS, as in Kafka."""

    @functools.wraps(method)
    async def call(self: _WithCluster, /, *args: Any, **by_name: Any) -> Any:
        cluster = self._cluster
        timeout_s, retrying = cluster.settings.default_api_timeout_ms / 1000, Retrying(cluster.settings)
        values = [list(value) if isinstance(value, Iterator) else value for value in args]
        named = {name: list(value) if isinstance(value, Iterator) else value for name, value in by_name.items()}
        while True:
            try:
                return await method(self, *values, **named)
            except KafkaError as error:
                is_lost = error.code == ErrorCode.NETWORK_EXCEPTION and error.retriable
                if not is_lost or cluster.is_closed or not cluster.has_connected:
                    raise
                pause_s = retrying.next_pause_s(timeout_s)
                if pause_s is None:
                    raise
            await asyncio.sleep(pause_s)

    return cast(Method, call)
