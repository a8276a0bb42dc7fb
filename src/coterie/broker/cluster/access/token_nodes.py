"""The delegation tokens of a cluster altered in ZooKeeper, for every broker of it, Apache Kafka's included."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress

from coterie.authentication.delegation_tokens import DelegationToken
from coterie.controller.changes import token_changes
from coterie.zookeeper.operations import Create, Delete, NoNode, Operation, Write, ZooKeeperError

logger = logging.getLogger(__name__)


class TokenNodes:
    """``apply`` carries an operation out in ZooKeeper; ``written`` gets a token that was written, None for one that was
    removed: it is in force here at once."""

    def __init__(
        self,
        apply: Callable[[Operation], Awaitable[object]],
        written: Callable[[str, DelegationToken | None], None],
    ) -> None:
        self._apply, self._written = apply, written
        self._removal: asyncio.Task[None] | None = None

    async def write(self, token_id: str, token: DelegationToken | None) -> None:
        """``token``: None removes it. Raises ZooKeeperError."""
        path = token_changes.path_of(token_id)
        if token is not None:
            await self._apply(Write(path, token_changes.to_data(token)))
        else:
            with suppress(NoNode):
                await self._apply(Delete(path))
        await self._apply(Create(token_changes.CHANGE, token_id, ephemeral=False, sequential=True))
        self._written(token_id, token)

    def remove_soon(self, token_ids: Iterable[str]) -> None:
        """Of tokens whose time is over, as the controller; where ZooKeeper cannot be reached, the next time."""
        ids = list(token_ids)
        if ids and (self._removal is None or self._removal.done()):
            self._removal = asyncio.get_running_loop().create_task(self._remove(ids))

    async def _remove(self, token_ids: list[str]) -> None:
        try:
            for token_id in token_ids:
                await self.write(token_id, None)
        except ZooKeeperError as error:
            logger.info("delegation tokens that have ended could not be removed: %r", error)
