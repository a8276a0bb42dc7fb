"""The delegation tokens of a cluster in ZooKeeper (Kafka's DelegationTokenManager 2.6 and ZkData): their nodes, and a machine
that reads all at the start, and each again when a notification names it.

/delegation_token/tokens/ID                     the token, `delegation_tokens.to_row` with sanitized principals
/delegation_token/token_changes/token_change_N  sequential: the id of a token that was written or deleted
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from coterie.authentication.delegation_tokens import DelegationToken, of_row, to_row
from coterie.controller import nodes
from coterie.controller.session_script import NotificationScript
from coterie.machines.script import Steps, Wait
from coterie.zookeeper.operations import Corrupt, List, Read, Znode

TOKENS, CHANGES = "/delegation_token/tokens", "/delegation_token/token_changes"
CHANGE = f"{CHANGES}/token_change_"
_PRINCIPALS = ("owner", "tokenRequester")


def path_of(token_id: str) -> str:
    """The node of a token."""
    return f"{TOKENS}/{token_id}"


def to_data(token: DelegationToken) -> str:
    """What the node of a token holds."""
    return json.dumps(_with_names(to_row(token), nodes.sanitized), separators=(",", ":"))


def of_data(data: str) -> DelegationToken:
    """Raises Corrupt."""
    try:
        return of_row(_with_names(json.loads(data), nodes.unsanitized))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Corrupt("the node of a delegation token holds none") from error


def _with_names(row: dict[str, Any], change: Callable[[str], str]) -> dict[str, Any]:
    names = {key: change(row[key]) for key in _PRINCIPALS if key in row}
    return row | names | {"renewers": [change(renewer) for renewer in row["renewers"]]}


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
        yield from self._watch(CHANGES)
        ids = yield from self.perform(List(TOKENS))
        yield from self._read(ids, is_all=True)

    def _step(self) -> Steps[None]:
        if not self._is_changed:
            yield Wait(None)
            return
        self._is_changed = False
        notified = yield from self._notified(CHANGES)
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
            node: Znode | None = yield from self.perform(Read(path_of(token_id)))
            tokens[token_id] = None if node is None else _token(token_id, node.data)
        yield TokensRead(tokens, is_all)


def _token(token_id: str, data: str) -> DelegationToken | None:
    try:
        token = of_data(data)
    except Corrupt:
        return None
    return token if token.token_id == token_id else None
