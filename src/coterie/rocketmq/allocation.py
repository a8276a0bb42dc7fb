"""RocketMQ's allocation: every client computes its own share of a topic's queues out of two sorted lists.

Clients do not exchange results: these are consistent when the lists are the same. Checked against RocketMQ's own class on
random inputs (`./run conformance --part rocketmq`), with the other strategies.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import NamedTuple


class MessageQueue(NamedTuple):
    """One queue. They sort as RocketMQ's compareTo does: topic, broker's name, number."""

    topic: str
    broker_name: str
    queue_id: int

    def __str__(self) -> str:
        """The text of RocketMQ's toString, since consistent hashing hashes that."""
        return f"MessageQueue [topic={self.topic}, brokerName={self.broker_name}, queueId={self.queue_id}]"


Queues = Sequence[MessageQueue]
Strategy = Callable[[str, Queues, Sequence[str]], list[MessageQueue]]


class AllocationError(ValueError):
    """Client id, queues or clients do not allow an allocation."""


def client_index(client_id: str, queues: Queues, clients: Sequence[str]) -> int | None:
    """The client's index among the sorted clients; None where it is not among them. Raises AllocationError for empty lists."""
    if not client_id or not queues or not clients:
        raise AllocationError("a client id, queues and clients are needed")
    index = bisect_left(clients, client_id)
    return index if index < len(clients) and clients[index] == client_id else None


def averagely(client_id: str, queues: Queues, clients: Sequence[str]) -> list[MessageQueue]:
    """Neighbours together, the remainder one each to the first clients: 8 queues, 3 clients: q0-q2, q3-q5, q6-q7."""
    index = client_index(client_id, queues, clients)
    if index is None:
        return []
    each, more = divmod(len(queues), len(clients))
    begin = each * index + min(index, more)
    return list(queues[begin : begin + each + (index < more)])
