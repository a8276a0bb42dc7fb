"""A machine that reads the notifications of a cluster's changes in ZooKeeper, from the start again in each session. It deletes
each notification that every broker had time to read (Kafka's ZkNodeChangeNotificationListener).
"""

from __future__ import annotations

from abc import abstractmethod
from contextlib import suppress

from coterie.controller.session_script import SessionScript
from coterie.machines.script import Steps, Wait
from coterie.zookeeper.operations import Delete, List, NoNode, Read, SessionExpired, Znode

KEPT_MS = 15 * 60_000  # as Kafka


class NotificationScript(SessionScript):
    """Inputs beside those of a SessionScript: `expired`."""

    def __init__(self, now_ms: int) -> None:
        super().__init__(self._life(), now_ms)
        self._has_expired = False
        self._read_ms: dict[str, int] = {}  # when each notification was read that is not deleted, by path
        self._last_read: dict[str, str] = {}  # the last notification that was read, by folder

    def expired(self) -> None:
        self._has_expired = True
        self.nudge()

    def is_over(self) -> bool:
        return self._has_expired

    def _life(self) -> Steps[None]:
        while True:
            self._has_expired = False
            with suppress(SessionExpired):
                yield from self._read_at_start()
                while not self._has_expired:
                    yield from self._step()
            while not self._connected:
                yield Wait(None)

    @abstractmethod
    def _read_at_start(self) -> Steps[None]:
        """All there is, at the start of a session, which has no watches yet."""

    @abstractmethod
    def _step(self) -> Steps[None]:
        """What has changed, or a wait."""

    def _watch(self, folder: str) -> Steps[None]:
        """Watches a folder of notifications. The present ones count as read: what they are about is read afterwards."""
        names = yield from self.perform(List(folder, watch=True))
        self._last_read[folder] = max(names, default="")

    def _notified(self, folder: str) -> Steps[list[str]]:
        """What each new notification of the folder holds, in order; the folder is watched again."""
        names = yield from self.perform(List(folder, watch=True))
        notified = []
        for name in sorted(name for name in names if name > self._last_read[folder]):
            path = f"{folder}/{name}"
            node: Znode | None = yield from self.perform(Read(path))
            if node is not None:
                self._read_ms[path] = self.now_ms
                notified.append(node.data)
            self._last_read[folder] = name
        return notified

    def _delete_old(self) -> Steps[None]:
        for path in [path for path, ms in self._read_ms.items() if self.now_ms - ms > KEPT_MS]:
            with suppress(NoNode):
                yield from self.perform(Delete(path))
            del self._read_ms[path]
