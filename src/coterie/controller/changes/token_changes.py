"""The delegation tokens of a cluster: all are read at the start, and each again when a notification names it (Kafka's
DelegationTokenManager 2.6). Notifications that every broker had time to read are deleted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from coterie.authentication.delegation_tokens import DelegationToken
from coterie.controller.changes import token_nodes
from coterie.controller.changes.notifications import NotificationScript
from coterie.machines.script import Steps, Wait
from coterie.zookeeper.operations import Corrupt, List, Read, Znode


@dataclass(frozen=True, slots=True)
class TokensRead:
    """Effect: the tokens by their ids; None for one that has ended. ``is_all``: there are no others."""

    tokens: dict[str, DelegationToken | None]
    is_all: bool = False


class TokenChanges(NotificationScript):
    """One for each broker with a secret for tokens. Input beside those of a NotificationScript: `changed`, its watch fired."""

    def __init__(self, now_ms: int) -> None:
        super().__init__(now_ms)
        self._is_changed = False

    def changed(self) -> None:
        self._is_changed = True
        self.nudge()

    def _read_at_start(self) -> Steps[None]:
        """The watch is set before the tokens are read, so that no change is missed."""
        self._is_changed = False
        yield from self._watch(token_nodes.CHANGES)
        ids = yield from self.perform(List(token_nodes.TOKENS))
        yield from self._read(ids, is_all=True)

    def _step(self) -> Steps[None]:
        if not self._is_changed:
            yield Wait(None)
            return
        self._is_changed = False
        notified = yield from self._notified(token_nodes.CHANGES)
        ids = dict.fromkeys(
            token_id for token_id in notified if token_id and "/" not in token_id
        )  # else a tool's mistake
        if ids:
            yield from self._read(ids, is_all=False)
        yield from self._delete_old()

    def _read(self, ids: Iterable[str], *, is_all: bool) -> Steps[None]:
        """A node that is a tool's mistake is no token."""
        tokens: dict[str, DelegationToken | None] = {}
        for token_id in ids:
            node: Znode | None = yield from self.perform(Read(token_nodes.path_of(token_id)))
            tokens[token_id] = None if node is None else _token(token_id, node.data)
        yield TokensRead(tokens, is_all)


def _token(token_id: str, data: str) -> DelegationToken | None:
    try:
        token = token_nodes.of_data(data)
    except Corrupt:
        return None
    return token if token.token_id == token_id else None
