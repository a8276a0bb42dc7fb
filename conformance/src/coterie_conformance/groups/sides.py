"""Two brokers asked the same: one connection per actor on each, and answers in words that can be compared.

Member ids are random, so each side keeps a table of real id <-> symbol: the second id that actor b was given is b~2
on both. What differs by nature (throttle times, texts, topic ids) is left out; lists without an order are sorted.
"""

from __future__ import annotations

import asyncio
import dataclasses
import re
from collections.abc import Callable
from typing import Any

from coterie.assignors.blobs import decode_subscription
from coterie.client.connection.connection import Connection
from coterie.client.connection.handshake import response_type
from coterie.wire.declaration import Message, Struct
from coterie.wire.errors import ErrorCode, error_of
from coterie.wire.messages.groups.join_group import JoinGroupResponse
from coterie_conformance.groups.transactions import StoryTransactions

# Fields that group stories leave out, each with its reason.
LEFT_OUT = {
    "throttle_time_ms": "0 unless a quota throttles; compared by everything",
    "error_message": "its words are Kafka's own; that there are some is compared by everything",
    "topic_id": "random; compared by everything, as a symbol",
    "authorized_operations": "asked for, and compared, by everything",
    "client_host": "where the judge's own connections come from",
}
RESPONSE_S = 20.0
SHARED = ""  # the connection for what never waits

_FRESH_ID = re.compile(r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")  # of a member without a response yet

MakeRequest = Callable[["GroupStorySide"], Message]


class GroupStorySide:
    """One of the two brokers, as one story sees it."""

    def __init__(self, name: str, address: tuple[str, int], transactions: StoryTransactions) -> None:
        self.name, self.address, self.transactions = name, address, transactions
        self.parked: dict[str, asyncio.Task[Message]] = {}
        self._connections: dict[str, Connection] = {}
        self._real: dict[str, str] = {}
        self._symbol: dict[str, str] = {}

    async def connection(self, actor: str) -> Connection:
        """The actor's connection, opened at its first use and after it was closed."""
        connection = self._connections.get(actor)
        if connection is None or connection.closed:
            connection = self._connections[actor] = await Connection.connect(
                *self.address, actor or "shared", RESPONSE_S
            )
        return connection

    def close(self) -> None:
        """Ends the connections and the requests that still wait."""
        for task in self.parked.values():
            task.cancel()
        for connection in self._connections.values():
            connection.close()

    def real(self, symbol: str) -> str:
        """The member id behind a symbol; anything else is itself."""
        return self._real.get(symbol, symbol)

    def learn(self, actor: str, response: Message) -> str | None:
        """Names the member id that a response to JoinGroup gave the actor; returns its symbol."""
        if not isinstance(response, JoinGroupResponse) or not response.member_id:
            return None
        if response.error_code not in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
            return None
        known = self._symbol.get(response.member_id)
        if known is None:
            count = sum(1 for symbol in self._real if symbol.startswith(f"{actor}~"))
            known = f"{actor}~{count + 1}"
            self._real[known], self._symbol[response.member_id] = response.member_id, known
        return known

    async def park(self, actor: str, request: Message, version: int) -> None:
        """Sends what may wait for its response; it has left when this returns."""
        await self.connection(actor)
        self.parked[actor] = asyncio.create_task(self.ask(actor, request, version))
        await asyncio.sleep(0)

    async def ask(self, actor: str, request: Message, version: int) -> Message:
        connection = await self.connection(actor)
        response: Message = await connection.request(request, response_type(request), RESPONSE_S * 10, highest=version)
        return response

    def plain(self, value: Any, name: str = "") -> Any:
        """A response as dictionaries and lists with symbols for member ids."""
        if isinstance(value, Struct):
            fields = dataclasses.fields(value)  # type: ignore[arg-type]
            return {f.name: self.plain(getattr(value, f.name), f.name) for f in fields if f.name not in LEFT_OUT}
        if isinstance(value, list):
            return sorted((self.plain(item, name) for item in value), key=repr)
        if name == "error_code":
            return error_of(value).name
        if isinstance(value, str):
            return self._symbol.get(value) or _FRESH_ID.sub("~?", value)
        return _metadata(value) if name in ("metadata", "member_metadata") and isinstance(value, bytes) else value


def _metadata(value: bytes) -> Any:
    """A subscription in words, so that a difference can be read."""
    if not value:
        return value
    return " ".join(sorted(decode_subscription(value).topics))


def common_version(sides: tuple[Connection, Connection], request: type[Message]) -> tuple[int, int]:
    """The oldest and the newest version of an API that both brokers and we speak; newest < oldest: none."""
    oldest, newest = request.versions.first, request.versions.last
    for connection in sides:
        assert connection.versions is not None
        first, last = connection.versions.range(request.api_key)
        oldest, newest = max(oldest, first), min(newest, last)
    return oldest, newest
