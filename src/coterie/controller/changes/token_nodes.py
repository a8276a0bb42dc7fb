"""The nodes of delegation tokens in ZooKeeper, as Kafka's DelegationTokenManager has them (ZkData).

/delegation_token/tokens/ID                     the token, `delegation_tokens.to_row` with sanitized principals
/delegation_token/token_changes/token_change_N  sequential: the id of a token that was written or deleted
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from coterie.authentication.delegation_tokens import DelegationToken, of_row, to_row
from coterie.controller import nodes
from coterie.zookeeper.operations import Corrupt

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
