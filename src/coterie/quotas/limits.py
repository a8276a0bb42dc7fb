"""Which quota applies to a user and client id, and with whom it is shared (Kafka's DefaultQuotaCallback, KIP-55).

The first that is set counts: of the user and client id, of the user with any client id, of the user; then the same of any user;
then of the client id, and of any client id.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

USER, CLIENT_ID, IP = "user", "client-id", "ip"
Entity = tuple[tuple[str, str | None], ...]  # (type, name), sorted by type; None is the default of the type
Quotas = Mapping[Entity, Mapping[str, float]]


class Limit(NamedTuple):
    """``shared_by``: the user and the client id that it is measured for; "" where all of them share it."""

    rate: float
    shared_by: tuple[str, str]


def _entity(user: str | None, client_id: str | None) -> Entity:
    return ((CLIENT_ID, client_id), (USER, user))


def limit_of(quotas: Quotas, key: str, user: str, client_id: str) -> Limit | None:
    """None where nothing limits them."""
    for entity, shared_by in (
        (_entity(user, client_id), (user, client_id)),
        (_entity(user, None), (user, client_id)),
        (((USER, user),), (user, "")),
        (_entity(None, client_id), (user, client_id)),
        (_entity(None, None), (user, client_id)),
        (((USER, None),), (user, "")),
        (((CLIENT_ID, client_id),), ("", client_id)),
        (((CLIENT_ID, None),), ("", client_id)),
    ):
        rate = quotas.get(entity, {}).get(key)
        if rate is not None:
            return Limit(rate, shared_by)
    return None


def limit_of_address(quotas: Quotas, key: str, address: str) -> float | None:
    """None where nothing limits it."""
    for name in (address, None):
        rate = quotas.get(((IP, name),), {}).get(key)
        if rate is not None:
            return rate
    return None
