"""Calls that are repeated as a whole, as by Kafka's KafkaAdminClient."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Protocol, TypeVar, cast

from coterie.client.connection.cluster import Cluster
from coterie.client.errors import KafkaError
from coterie.client.pauses.loop_clock import pause
from coterie.client.pauses.retrying import NO_SUCH_TOPIC, Retrying
from coterie.wire.errors import ErrorCode


class _WithCluster(Protocol):
    _cluster: Cluster


R = TypeVar("R")
Method = TypeVar("Method", bound=Callable[..., Awaitable[Any]])


async def until_done(
    cluster: Cluster, work: Callable[[], Awaitable[R]], *, final: frozenset[ErrorCode] = frozenset()
) -> R:
    """What ``work`` returns, which begins again after errors that pass, but for those in ``final``, until
    default.api.timeout.ms; leaders and coordinators are looked up again then. Before the client has reached any broker a lost
    connection is final too: the address may be wrong. Raises KafkaError."""
    retrying = Retrying(cluster.settings, cluster.settings.default_api_timeout_ms / 1000)
    while True:
        try:
            return await work()
        except KafkaError as error:
            is_lost = error.code == ErrorCode.NETWORK_EXCEPTION
            if cluster.is_closed or (is_lost and not cluster.has_connected):
                raise
            pause_s = retrying.pause_after_s(error, final=final)
        cluster.known.forget_leaders()
        await pause(pause_s)


def repeated(method: Method) -> Method:
    """A method of an admin that is run by `until_done`; a topic that no broker knows is final. Where only the response was
    lost, a repeated call meets what the first one did, such as TOPIC_ALREADY_EXISTS, as in Kafka."""

    @functools.wraps(method)
    async def call(self: _WithCluster, /, *args: Any, **by_name: Any) -> Any:
        values = [list(value) if isinstance(value, Iterator) else value for value in args]
        named = {name: list(value) if isinstance(value, Iterator) else value for name, value in by_name.items()}
        return await until_done(self._cluster, lambda: method(self, *values, **named), final=NO_SUCH_TOPIC)

    return cast(Method, call)


def or_each(method: Method) -> Method:
    """A method of an admin on many things, for which `Each` has a future each: with ``errors`` its futures are awaited, the
    result has what succeeded, if the method returns any, and ``errors`` receives the error of each of the others."""

    @functools.wraps(method)
    async def call(self: Any, /, *args: Any, errors: dict[Any, KafkaError] | None = None, **by_name: Any) -> Any:
        if errors is None:
            return await method(self, *args, **by_name)
        results = {}
        for key, future in getattr(self.each, method.__name__)(*args, **by_name).items():
            try:
                results[key] = await future
            except KafkaError as error:
                errors[key] = error
        return None if method.__annotations__["return"] == "None" else results

    return cast(Method, call)
