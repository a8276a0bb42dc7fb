"""A `ScriptMachine` over a session with ZooKeeper: operations are repeated while the connection is lost."""

from __future__ import annotations

from typing import Any

from coterie.machines.script import ScriptMachine, Steps, Wait
from coterie.zookeeper.operations import ConnectionLost, Operation, SessionExpired


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
