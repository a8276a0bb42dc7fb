"""An admin's calls about delegation tokens (KIP-48, KIP-373). The admin has logged in, and not by a token."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from coterie.client import arguments
from coterie.client.admin.calls import repeated
from coterie.client.admin.cluster_types import TokenDescription
from coterie.client.connection.cluster import Cluster
from coterie.client.errors import check
from coterie.wire.messages.security.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from coterie.wire.messages.security.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from coterie.wire.messages.security.expire_delegation_token import ExpireDelegationTokenRequest
from coterie.wire.messages.security.renew_delegation_token import RenewDelegationTokenRequest

INT64 = (-(2**63), 2**63 - 1)


class TokenCalls:
    """Of `Admin`."""

    _cluster: Cluster

    @repeated
    async def create_delegation_token(
        self, *, owner: str | None = None, renewers: Iterable[str] = (), max_lifetime_ms: int = -1
    ) -> TokenDescription:
        """A new token of the admin's own user, or of ``owner`` ("User:alice"; Kafka 3.3), which ``renewers`` may renew and
        expire too. ``max_lifetime_ms`` -1: the broker's delegation.token.max.lifetime.ms. Raises KafkaError
        DELEGATION_TOKEN_AUTH_DISABLED, DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, INVALID_PRINCIPAL_TYPE,
        DELEGATION_TOKEN_AUTHORIZATION_FAILED."""
        may_renew = arguments.principals(renewers, "renewers")
        owner_type, owner_name = (None, None) if owner is None else arguments.principal(owner, "owner")
        lifetime_ms = arguments.whole_number(max_lifetime_ms, "max_lifetime_ms", *INT64)
        request = CreateDelegationTokenRequest(
            owner_type, owner_name, [CreatableRenewers(*renewer) for renewer in may_renew], lifetime_ms
        )
        r = await self._cluster.request_controller(request, lambda responded: [responded])
        check(r.error_code)
        return TokenDescription(
            r.token_id,
            r.hmac,
            *_owner_and_requester(r),
            tuple(":".join(renewer) for renewer in may_renew),
            r.issue_timestamp_ms,
            r.expiry_timestamp_ms,
            r.max_timestamp_ms,
        )

    @repeated
    async def renew_delegation_token(self, hmac: bytes, renew_period_ms: int = -1) -> int:
        """Moves the end of a token to so many ms from now (-1: the broker's delegation.token.expiry.time.ms); returns it, in ms
        since 1970. Raises KafkaError DELEGATION_TOKEN_NOT_FOUND, DELEGATION_TOKEN_EXPIRED, DELEGATION_TOKEN_OWNER_MISMATCH,
        and as `create_delegation_token`."""
        period_ms = arguments.whole_number(renew_period_ms, "renew_period_ms", *INT64)
        return await self._end_of(RenewDelegationTokenRequest(arguments.secret(hmac, "hmac"), period_ms))

    @repeated
    async def expire_delegation_token(self, hmac: bytes, expiry_period_ms: int = -1) -> int:
        """Has a token end in so many ms (negative: now); returns when, in ms since 1970. Raises as `renew_delegation_token`."""
        period_ms = arguments.whole_number(expiry_period_ms, "expiry_period_ms", *INT64)
        return await self._end_of(ExpireDelegationTokenRequest(arguments.secret(hmac, "hmac"), period_ms))

    async def _end_of(self, request: RenewDelegationTokenRequest | ExpireDelegationTokenRequest) -> int:
        """When the token ends then, in ms since 1970."""
        response = await self._cluster.request_controller(request, lambda responded: [responded])
        check(response.error_code)
        return int(response.expiry_timestamp_ms)

    @repeated
    async def describe_delegation_token(self, owners: Iterable[str] | None = None) -> list[TokenDescription]:
        """The tokens that the admin's user may see, by token id: all, or those of ``owners`` ("User:alice"). Raises KafkaError
        DELEGATION_TOKEN_AUTH_DISABLED, DELEGATION_TOKEN_REQUEST_NOT_ALLOWED."""
        wanted = None
        if owners is not None:
            wanted = [DescribeDelegationTokenOwner(*owner) for owner in arguments.principals(owners, "owners")]
        response = await self._cluster.request(DescribeDelegationTokenRequest(wanted))
        check(response.error_code)
        tokens = [
            TokenDescription(
                t.token_id,
                t.hmac,
                *_owner_and_requester(t),
                tuple(f"{renewer.principal_type}:{renewer.principal_name}" for renewer in t.renewers),
                t.issue_timestamp,
                t.expiry_timestamp,
                t.max_timestamp,
            )
            for t in response.tokens
        ]
        return sorted(tokens, key=lambda token: token.token_id)


def _owner_and_requester(token: Any) -> tuple[str, str]:
    """The requester is the owner before Kafka 3.3."""
    owner = f"{token.principal_type}:{token.principal_name}"
    name = token.token_requester_principal_name
    return owner, f"{token.token_requester_principal_type}:{name}" if name else owner
