"""How an admin's calls are made: repeated as a whole, as by Kafka's KafkaAdminClient, and where one is about many things with a
future per key, so that the failure of one leaves the others as they are."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar, cast

from coterie.client.connection.cluster import Cluster
from coterie.client.errors import ClientBugError, KafkaError, check
from coterie.client.pauses.loop_clock import pause
from coterie.client.pauses.retrying import NO_SUCH_TOPIC, Retrying
from coterie.client.types import TopicPartition
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode

R = TypeVar("R")
Method = TypeVar("Method", bound=Callable[..., Awaitable[Any]])
K = TypeVar("K")
P = TypeVar("P")
V = TypeVar("V")
Futures = dict[K, asyncio.Future[V]]


class _WithCluster(Protocol):
    _cluster: Cluster


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


def nothing(part: object) -> None:
    """The result of an operation that returns none."""


def only(parts: Sequence[P], name: str) -> P:
    """The one part that the response to a request about ``name`` has. Raises KafkaError."""
    if len(parts) != 1:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the broker's response has {len(parts)} parts for {name}")
    return parts[0]


def subject(key: object) -> str:
    """As an error names it."""
    return f"{key.topic}-{key.partition}" if isinstance(key, TopicPartition) else f"topic {key}"


def reported(
    results: Mapping[K, Any], errors: dict[Any, KafkaError] | None, name: Callable[[K], str] = subject
) -> list[K]:
    """The keys without an error, in order; ``errors`` receives those of the others. Raises the first KafkaError where there is
    no ``errors``. A result has error_code, and in some APIs error_message; ``name`` names a key in an error."""
    succeeded = []
    for key, result in results.items():
        try:
            check(result.error_code, getattr(result, "error_message", None), subject=name(key))
        except KafkaError as error:
            if errors is None:
                raise
            errors[key] = error
        else:
            succeeded.append(key)
    return succeeded


class KeyedFutures:
    """What `Each` makes its futures with."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._tasks: set[asyncio.Task[None]] = set()

    @repeated
    async def _request(self, request: Message, node_id: int | None = None) -> Any:
        if node_id is not None and self._cluster.address(node_id) is None:
            await self._cluster.refresh(())
            if self._cluster.address(node_id) is None:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"the cluster has no broker {node_id}")
        return await self._cluster.request(request, node_id)

    @repeated
    async def _request_controller(self, request: Message, results: Callable[[Any], Iterable[Any]]) -> Any:
        return await self._cluster.request_controller(request, results)

    def _together(
        self,
        keys: Iterable[K],
        response: Awaitable[Any],
        parts: Callable[[Any], Mapping[K, Any]],
        result: Callable[[Any], V],
    ) -> Futures[K, V]:
        """One request; each key's part of the response has its own error."""

        async def work() -> dict[K, Any]:
            results: dict[K, Any] = {}
            for key, part in parts(await response).items():
                try:
                    check(part.error_code, part.error_message, subject=subject(key))
                    results[key] = result(part)
                except KafkaError as error:
                    results[key] = error
            return results

        return self._resolved(list(keys), work())

    def _resolved(self, keys: list[K], work: Awaitable[dict[K, Any]]) -> Futures[K, Any]:
        loop = asyncio.get_running_loop()
        futures: Futures[K, Any] = {key: loop.create_future() for key in keys}
        for future in futures.values():
            future.add_done_callback(lambda f: f.cancelled() or f.exception())

        async def resolve() -> None:
            try:
                results = await work
            except (KafkaError, RuntimeError) as error:  # RuntimeError: the admin is closed
                results = dict.fromkeys(keys, error)
            except asyncio.CancelledError:
                for future in futures.values():
                    future.cancel()
                raise
            except Exception as error:  # a future without an end would hide it
                results = dict.fromkeys(keys, ClientBugError(error))
            for key, future in futures.items():
                missing = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the broker's response does not name {key}")
                value = results.get(key, missing)
                if not future.done():
                    future.set_exception(value) if isinstance(value, Exception) else future.set_result(value)

        task = asyncio.ensure_future(resolve())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return futures

    def _apart(self, work: Mapping[K, Awaitable[V]]) -> Futures[K, V]:
        """A request for each."""
        futures: Futures[K, V] = {key: asyncio.ensure_future(one) for key, one in work.items()}
        for future in futures.values():
            future.add_done_callback(lambda f: f.cancelled() or f.exception())
        return futures
