"""RocketMQ's other allocation strategies; the one of its default is the laboratory's (`coterie.rocketmq.allocation`)."""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TypeVar

from coterie.rocketmq.allocation import AllocationError, MessageQueue, Queues, Strategy, averagely, client_index

T = TypeVar("T")
VIRTUAL_NODES = 10


def averagely_by_circle(client_id: str, queues: Queues, clients: Sequence[str]) -> list[MessageQueue]:
    """One to each client in turn."""
    index = client_index(client_id, queues, clients)
    return [] if index is None else list(queues[index :: len(clients)])


def by_config(mine: Iterable[MessageQueue]) -> Strategy:
    """The configured queues, whatever other clients exist."""
    fixed = list(mine)

    def allocate(client_id: str, queues: Queues, clients: Sequence[str]) -> list[MessageQueue]:
        return list(fixed)

    return allocate


def by_machine_room(rooms: Iterable[str]) -> Strategy:
    """Only queues of brokers named ROOM@BROKER of these rooms, an equal number each; the remainder from the end of them."""
    wanted = frozenset(rooms)

    def allocate(client_id: str, queues: Queues, clients: Sequence[str]) -> list[MessageQueue]:
        index = client_index(client_id, queues, clients)
        if index is None:
            return []
        near = [q for q in queues if q.broker_name.count("@") == 1 and q.broker_name.partition("@")[0] in wanted]
        near = [q for q in near if not q.broker_name.endswith("@")]
        each, more = divmod(len(near), len(clients))
        mine = near[each * index : each * (index + 1)]
        return mine + ([near[index + each * len(clients)]] if more > index else [])

    return allocate


def machine_room_nearby(
    inner: Strategy, room_of_broker: Callable[[MessageQueue], str], room_of_client: Callable[[str], str]
) -> Strategy:
    """The queues of a room to its clients, by another strategy; those of rooms without a client to everyone."""

    def allocate(client_id: str, queues: Queues, clients: Sequence[str]) -> list[MessageQueue]:
        if client_index(client_id, queues, clients) is None:
            return []
        queues_in = _grouped(queues, room_of_broker)
        clients_in = _grouped(clients, room_of_client)
        here = room_of_client(client_id)
        allocated = inner(client_id, queues_in.pop(here), clients_in[here]) if here in queues_in else []
        for room in sorted(queues_in.keys() - clients_in.keys()):
            allocated += inner(client_id, queues_in[room], clients)
        return allocated

    return allocate


def _grouped(items: Iterable[T], room_of: Callable[[T], str]) -> dict[str, list[T]]:
    groups: dict[str, list[T]] = {}
    for item in items:
        room = room_of(item)
        if not room:
            raise AllocationError(f"the machine room of {item} is not known")
        groups.setdefault(room, []).append(item)
    return groups


def consistent_hash(virtual_nodes: int = VIRTUAL_NODES) -> Strategy:
    """A ring of virtual nodes: a client that comes or goes moves only queues next to its own."""

    def allocate(client_id: str, queues: Queues, clients: Sequence[str]) -> list[MessageQueue]:
        if client_index(client_id, queues, clients) is None:
            return []
        points, owners = _ring(tuple(clients), virtual_nodes)
        return [q for q in queues if owners[bisect_left(points, _hash(str(q))) % len(points)] == client_id]

    return allocate


@lru_cache(maxsize=64)
def _ring(clients: tuple[str, ...], virtual_nodes: int) -> tuple[list[int], list[str]]:
    """The sorted hashes of the virtual nodes, and the client of each. Of two equal hashes the later client counts."""
    ring: dict[int, str] = {}
    for client in clients:
        for number in range(virtual_nodes):
            ring[_hash(f"{client}-{number}")] = client
    points = sorted(ring)
    return points, [ring[point] for point in points]


@lru_cache(maxsize=65_536)
def _hash(key: str) -> int:
    return int.from_bytes(hashlib.md5(key.encode(), usedforsecurity=False).digest()[:4], "big")


# The strategies that need nothing but the two lists, by RocketMQ's names for them.
STRATEGIES: Mapping[str, Strategy] = {
    "AVG": averagely,
    "AVG_BY_CIRCLE": averagely_by_circle,
    "CONSISTENT_HASH": consistent_hash(),
}
