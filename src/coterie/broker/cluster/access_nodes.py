"""The ACLs and the delegation tokens of a cluster altered in ZooKeeper, for every broker of it, Apache Kafka's included
(Kafka's AclAuthorizer 2.6)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable
from contextlib import suppress

from coterie.authentication.delegation_tokens import DelegationToken
from coterie.authorizer.acls import Acl
from coterie.controller.changes import acl_changes, token_changes
from coterie.controller.changes.acl_changes import AclResource
from coterie.zookeeper.operations import (
    BadVersion,
    Create,
    Delete,
    NodeExists,
    NoNode,
    Operation,
    Read,
    Write,
    Znode,
    ZooKeeperError,
)

logger = logging.getLogger(__name__)


class AclNodes:
    """``apply`` carries an operation out in ZooKeeper; ``written`` gets what a resource has then, which is in force here at
    once."""

    def __init__(
        self,
        apply: Callable[[Operation], Awaitable[object]],
        written: Callable[[AclResource, list[Acl]], None],
    ) -> None:
        self._apply, self._written = apply, written

    async def alter(self, added: Iterable[Acl] = (), removed: Collection[Acl] = ()) -> None:
        """Each resource for itself, beside what others alter meanwhile. Raises ZooKeeperError, and then some may be altered."""
        changes: dict[AclResource, tuple[set[Acl], set[Acl]]] = {}
        for which, acls in enumerate((added, removed)):
            for acl in acls:
                changes.setdefault(acl_changes.resource_of(acl), (set(), set()))[which].add(acl)
        for resource, (new, old) in changes.items():
            while not await self._alter(resource, new, old):
                pass
            path, data = resource.change
            await self._apply(Create(path, data, ephemeral=False, sequential=True))

    async def _alter(self, resource: AclResource, added: set[Acl], removed: set[Acl]) -> bool:
        """False, without effect, where the node was altered since it was read. Raises ZooKeeperError."""
        node = await self._apply(Read(resource.path))
        acls = set(acl_changes.of_data(resource, node.data)) if isinstance(node, Znode) else set()
        after = sorted((acls | added) - removed)
        try:
            if not isinstance(node, Znode):
                if after:
                    await self._apply(Create(resource.path, acl_changes.to_data(after), ephemeral=False))
            elif after:
                await self._apply(Write(resource.path, acl_changes.to_data(after), node.version))
            else:
                await self._apply(Delete(resource.path))
        except (BadVersion, NodeExists, NoNode):
            return False
        self._written(resource, after)
        return True


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
