"""Requests that each broker of a cluster responds to for itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import TypeVar

from coterie.client.admin_types import Node
from coterie.client.connection.cluster import Cluster
from coterie.client.errors import KafkaError

R = TypeVar("R")


async def of_each_broker(
    cluster: Cluster,
    one: Callable[[int], Awaitable[R]],
    errors: dict[Node, KafkaError] | None,
    node_ids: Collection[int] | None = None,
) -> dict[int, R]:
    """What ``one`` returns of each broker of the newest metadata, or of those named. Raises KafkaError; ``errors`` receives
    that of a broker instead."""
    await cluster.refresh(())
    wanted = list(cluster.node_ids() if node_ids is None else node_ids)
    results: dict[int, R] = {}
    for node_id, result in zip(wanted, await asyncio.gather(*map(one, wanted), return_exceptions=True), strict=True):
        if not isinstance(result, BaseException):
            results[node_id] = result
        elif errors is None or not isinstance(result, KafkaError):
            raise result
        else:
            errors[Node(node_id, *(cluster.address(node_id) or ("", -1)))] = result
    return results
