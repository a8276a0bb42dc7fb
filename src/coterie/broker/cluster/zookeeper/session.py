"""A session with ZooKeeper as the drivers of a cluster use it: of a real one (`kazoo_session`), or of one in the process
(`coterie.testing`)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from coterie.zookeeper.operations import Operation


class SessionEvents(Protocol):
    """What happens to a session; all of it in the event loop."""

    def changed(self, path: str) -> None:
        """A watch of that path fired."""

    def suspended(self) -> None:
        """The connection is lost; the session may live on."""

    def connected(self) -> None:
        """The connection is back, of the old session or of a new one."""

    def expired(self) -> None:
        """The session is over; what follows belongs to a new one."""


class ClusterSession(Protocol):
    """One broker's session; after an expiry, the next one."""

    async def apply(self, operation: Operation) -> object:
        """The result. Raises ZooKeeperError."""

    async def close(self) -> None:
        """Ends the session: its ephemeral nodes go at once."""


# Raises ZooKeeperError.
OpenSession = Callable[[SessionEvents], Awaitable[ClusterSession]]
