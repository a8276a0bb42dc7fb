"""The ways of a client of the laboratory's cluster to its brokers, which the network may cut."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from coterie.laboratory.client_connections import ClientConnections
from coterie.laboratory.cluster.handling_broker import HandlingBroker
from coterie.laboratory.cluster.process import Network
from coterie.wire.declaration import Message


class _Link:
    """A `ConnectedBroker`: the broker as one client reaches it. A response that is cut off closes its connection."""

    def __init__(self, network: Network, client: str, broker: HandlingBroker) -> None:
        self._network, self._client, self._broker = network, client, broker

    @property
    def up(self) -> bool:
        return self._broker.alive and not self._network.is_cut(self._client, self._broker.name)

    @property
    def incarnation(self) -> int:
        return self._broker.life

    def handle(
        self, request: Message, version: int, client_id: str, answered: Callable[[Message | None], None]
    ) -> None:
        """See `ConnectedBroker`."""

        def respond(response: Message | None) -> None:
            is_cut = self._network.is_cut(self._client, self._broker.name)
            answered(None if is_cut else response)

        self._broker.handle(request, version, client_id, respond)
        self._broker.acted()


def connections_to(network: Network, client: str, brokers: Mapping[int, HandlingBroker]) -> ClientConnections:
    """The connections of a client of that name; it looks things up at any broker."""
    links = {number: _Link(network, client, broker) for number, broker in brokers.items()}

    def choose(node_id: int | None) -> tuple[int, _Link]:
        number = network.world.random.choice(sorted(links)) if node_id is None else node_id
        return number, links[number]

    return ClientConnections(network.world, client, choose)
