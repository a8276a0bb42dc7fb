"""A client's connections in the laboratory: to the one broker of a node's story, or to those of a cluster."""

from __future__ import annotations

from collections.abc import Callable

from coterie.laboratory.node.connection import ConnectedBroker, LaboratoryConnection
from coterie.laboratory.world import World
from coterie.wire.declaration import Message

LEADERS, LOOKUPS, COORDINATORS = 0, 1, 2  # what a connection is for: each has its own
Chosen = tuple[int, ConnectedBroker]


class ClientConnections:
    """``choose`` gives the broker of a node id with its number, or some broker for None."""

    def __init__(self, world: World, client_id: str, choose: Callable[[int | None], Chosen]) -> None:
        self._world, self._client_id, self._choose = world, client_id, choose
        self._open: dict[tuple[int, int], LaboratoryConnection] = {}

    def forget(self) -> None:
        """A process begins, without any; what the former one has sent may still arrive."""
        self._open.clear()

    def request(
        self,
        purpose: int,
        node_id: int | None,
        request: Message,
        version: int,
        received: Callable[[Message | None], None],
        timeout_ms: int,
    ) -> None:
        """None is received where the connection breaks, or the broker cannot be reached."""
        number, broker = self._choose(node_id)
        if not broker.up:
            self._world.after(self._world.faults.notice_ms, lambda: received(None))
            return
        connection = self._open.get((purpose, number))
        if connection is None or connection.broken:
            connection = LaboratoryConnection(self._world, broker, self._client_id)
            self._open[purpose, number] = connection
        connection.send(request, version, received, timeout_ms)
