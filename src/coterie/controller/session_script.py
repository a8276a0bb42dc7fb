"""A `ScriptMachine` over a session with ZooKeeper: operations are repeated while the connection is lost. One of them reads the
notifications of a cluster's changes, from the start again in each session, and deletes each notification that every broker had
time to read (Kafka's ZkNodeChangeNotificationListener)."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import suppress
from typing import Any

from coterie.machines.script import ScriptMachine, Steps, Wait
from coterie.zookeeper.operations import ConnectionLost, Delete, List, NoNode, Operation, Read, SessionExpired, Znode

KEPT_MS = 15 * 60_000  # as Kafka


class SessionScript(ScriptMachine):
    """Inputs beside those of a ScriptMachine: `suspended` and `connected`."""

    def __init__(self, steps: Steps[None], now_ms: int) -> None:
        super().__init__(steps, now_ms)
        self._connected = True

    def suspended(self) -> None:
        """The connection is lost; the session may live on."""
        self._connected = False

    def connected(self) -> None:
        """The connection is back, of the old session or of a new one."""
        self._connected = True
        self.nudge()

    def is_over(self) -> bool:
        """Whether nothing more is requested in this session."""
        return False

    def perform(self, operation: Operation) -> Steps[Any]:
        """Repeated while the connection is lost: whether the first try was done shows in what the next one meets. Raises
        SessionExpired, and what ZooKeeper refuses with."""
        while not self.is_over():
            try:
                return (yield operation)
            except ConnectionLost:
                while not (self._connected or self.is_over()):
                    yield Wait(None)
        raise SessionExpired


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
