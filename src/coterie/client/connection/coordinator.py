"""Where the coordinator of a group or a transactional id is, as long as that is right."""

from __future__ import annotations

from coterie.client.connection.cluster import GROUP, Cluster
from coterie.client.connection.shared_work import Shared


class Coordinator:
    """Looked up at first use, and again after `forget`."""

    def __init__(self, cluster: Cluster, key: str, kind: int = GROUP) -> None:
        self.cluster, self.key, self._kind = cluster, key, kind
        self._lookup: Shared[int] = Shared()

    async def node(self) -> int:
        """The coordinator's node id, looked up where it is unknown. Raises KafkaError."""
        node = self.cluster.known.coordinator(self.key, self._kind)
        if node is None:
            node = await self._lookup.result(None, lambda: self.cluster.find_coordinator(self.key, self._kind))
        return node

    def forget(self) -> None:
        """The next request looks it up again."""
        self.cluster.known.forget_coordinator(self.key, self._kind)
