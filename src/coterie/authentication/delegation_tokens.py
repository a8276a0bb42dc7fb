"""Delegation tokens (KIP-48, KIP-373) as values, and what a user may do with one (Kafka's DelegationTokenControlManager).

A token is a user and a password for SCRAM: its id, and the HMAC of its id by a secret that all brokers of a cluster have. What
a broker keeps of a token has no secret in it: an id alone is no login. Time is an argument, in ms since the epoch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from coterie.authentication.principal import USER, Principal
from coterie.wire.errors import ErrorCode, Refusal

VERSION, VERSION_WITH_REQUESTER = 1, 3  # of a row; 3 since Kafka 3.3
_MAX_MS = 2**63 - 1


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """``owner``: whose a login by it is; ``requester``: who created it; ``renewers``: who else may renew or expire it. It ends
    at ``expires_ms``, which no renewal moves past ``max_ms``."""

    token_id: str
    owner: Principal
    requester: Principal
    renewers: tuple[Principal, ...]
    issued_ms: int
    max_ms: int
    expires_ms: int

    def is_expired(self, now_ms: int) -> bool:
        return min(self.max_ms, self.expires_ms) < now_ms

    def may_be_renewed_by(self, principal: Principal) -> bool:
        """Whether the principal may renew and expire it."""
        return principal == self.owner or principal in self.renewers

    def is_shown_to(self, principal: Principal) -> bool:
        """Whether the principal may describe it without an ACL."""
        return principal == self.requester or self.may_be_renewed_by(principal)


@dataclass(frozen=True, slots=True)
class TokenLimits:
    """The settings delegation.token.*. ``secret``: empty where there are no tokens."""

    secret: bytes = field(repr=False)
    max_lifetime_ms: int
    renewed_ms: int

    def hmac_of(self, token_id: str) -> bytes:
        """The password of a token is its base64."""
        import hmac  # with OpenSSL's digests: 1.5 ms of a start

        return hmac.digest(self.secret, token_id.encode(), "sha512")

    def check_enabled(self) -> None:
        """Raises Refusal: DELEGATION_TOKEN_AUTH_DISABLED."""
        if not self.secret:
            raise Refusal(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)

    def created(
        self,
        token_id: str,
        owner: Principal,
        requester: Principal,
        renewers: Iterable[Principal],
        *,
        lifetime_ms: int,
        now_ms: int,
    ) -> DelegationToken:
        """``lifetime_ms``: at most; from 0 down the limit alone. Raises Refusal: INVALID_PRINCIPAL_TYPE for a renewer that is
        not a user."""
        allowed = tuple(renewers)
        if any(renewer.type != USER for renewer in allowed):
            raise Refusal(ErrorCode.INVALID_PRINCIPAL_TYPE)
        max_ms = _later(now_ms, _at_most(self.max_lifetime_ms, lifetime_ms))
        expires_ms = min(max_ms, _later(now_ms, self.renewed_ms))
        return DelegationToken(token_id, owner, requester, allowed, now_ms, max_ms, expires_ms)

    def renewed(
        self, token: DelegationToken | None, principal: Principal, period_ms: int, now_ms: int
    ) -> DelegationToken:
        """``period_ms``: at most; from 0 down the limit alone. Raises Refusal."""
        known = self._known(token)
        if known.is_expired(now_ms):
            raise Refusal(ErrorCode.DELEGATION_TOKEN_EXPIRED)
        _check_owner(known, principal)
        expires_ms = min(known.max_ms, _later(now_ms, _at_most(self.renewed_ms, period_ms)))
        return replace(known, expires_ms=expires_ms)

    def expired(
        self, token: DelegationToken | None, principal: Principal, period_ms: int, now_ms: int
    ) -> tuple[DelegationToken, DelegationToken | None]:
        """The token before and after: None where it ends now, which a negative ``period_ms`` requests. Raises Refusal."""
        known = self._known(token)
        _check_owner(known, principal)
        if period_ms < 0:
            return known, None
        if known.is_expired(now_ms):
            raise Refusal(ErrorCode.DELEGATION_TOKEN_EXPIRED)
        return known, replace(known, expires_ms=min(known.max_ms, _later(now_ms, period_ms)))

    def _known(self, token: DelegationToken | None) -> DelegationToken:
        self.check_enabled()
        if token is None:
            raise Refusal(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
        return token


def _check_owner(token: DelegationToken, principal: Principal) -> None:
    if not token.may_be_renewed_by(principal):
        raise Refusal(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)


def _at_most(limit_ms: int, requested_ms: int) -> int:
    return min(limit_ms, requested_ms) if requested_ms > 0 else limit_ms


def _later(now_ms: int, duration_ms: int) -> int:
    return min(now_ms + duration_ms, _MAX_MS)


# -- as it is kept ----------------------------------------------------------------------------------------------------


def to_row(token: DelegationToken) -> dict[str, Any]:
    """The token as Kafka's DelegationTokenManager keeps it in ZooKeeper; of version 1 where Kafka before 3.3 can read it."""
    has_requester = token.requester != token.owner
    return {
        "version": VERSION_WITH_REQUESTER if has_requester else VERSION,
        "owner": token.owner.text,
        **({"tokenRequester": token.requester.text} if has_requester else {}),
        "renewers": [renewer.text for renewer in token.renewers],
        "issueTimestamp": token.issued_ms,
        "maxTimestamp": token.max_ms,
        "expiryTimestamp": token.expires_ms,
        "tokenId": token.token_id,
    }


def of_row(row: Mapping[str, Any]) -> DelegationToken:
    """Raises KeyError, TypeError or ValueError for one that is not a token's."""
    if row["version"] not in range(VERSION, VERSION_WITH_REQUESTER + 1):
        raise ValueError(row["version"])
    owner = _principal(row["owner"])
    return DelegationToken(
        str(row["tokenId"]),
        owner,
        _principal(row["tokenRequester"]) if "tokenRequester" in row else owner,
        tuple(map(_principal, row["renewers"])),
        int(row["issueTimestamp"]),
        int(row["maxTimestamp"]),
        int(row["expiryTimestamp"]),
    )


def _principal(text: str) -> Principal:
    kind, colon, name = text.partition(":")
    if not colon:
        raise ValueError(text)
    return Principal(kind, name)
