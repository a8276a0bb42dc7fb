"""The documents of `--json` about access: of `coterie acls`, `users` and `quotas`. `json_documents` has the table of all."""

from __future__ import annotations

from typing import TypedDict


class AclRow(TypedDict):
    """An ACL, in Kafka's words: ``permission`` ALLOW or DENY, ``resource`` its type, ``pattern`` LITERAL or PREFIXED."""

    permission: str
    principal: str
    operation: str
    resource: str
    name: str
    pattern: str
    host: str


class AccessRuling(TypedDict):
    """``reason``: super_user, denied, allowed, no_acl or no_allowing_acl; ``acl``: the one that decides, if one does."""

    allowed: bool
    reason: str
    acl: AclRow | None


class QuotaRow(TypedDict):
    """``entity``: user, client-id or ip, or two of them, and the name of each; null is the default of all."""

    entity: dict[str, str | None]
    quota: str
    value: float


class AlteredQuotas(TypedDict):
    """``quotas``: the values that were set; null where one was removed."""

    entity: dict[str, str | None]
    quotas: dict[str, float | None]


class ScramUserRow(TypedDict):
    """A user's login by one mechanism."""

    user: str
    mechanism: str
    iterations: int
