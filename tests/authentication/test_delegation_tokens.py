"""Delegation tokens as values: what Kafka's DelegationTokenControlManager allows, by a table, and how a token is kept."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.authentication.delegation_tokens import DelegationToken, TokenLimits, of_row, to_row
from coterie.authentication.principal import USER, Principal
from coterie.wire.errors import ErrorCode, Refusal

ALICE, BOB, CAROL = (Principal(USER, name) for name in ("alice", "bob", "carol"))
LIMITS = TokenLimits(b"secret", max_lifetime_ms=1_000, renewed_ms=100)
NOW_MS = 10_000
TOKEN = LIMITS.created("id", ALICE, ALICE, [BOB], lifetime_ms=-1, now_ms=NOW_MS)


def code_of(refusal: pytest.ExceptionInfo[Refusal]) -> ErrorCode:
    return refusal.value.code


@pytest.mark.parametrize(
    ("lifetime_ms", "max_ms", "expires_ms"),
    [(-1, 11_000, 10_100), (0, 11_000, 10_100), (500, 10_500, 10_100), (50, 10_050, 10_050), (9_000, 11_000, 10_100)],
)
def test_a_token_lives_for_what_was_requested_at_most(lifetime_ms: int, max_ms: int, expires_ms: int) -> None:
    token = LIMITS.created("id", ALICE, BOB, [CAROL], lifetime_ms=lifetime_ms, now_ms=NOW_MS)
    assert token == DelegationToken("id", ALICE, BOB, (CAROL,), NOW_MS, max_ms, expires_ms)


def test_times_end_with_the_largest_number() -> None:
    forever = TokenLimits(b"s", 2**63 - 1, 2**63 - 1)
    token = forever.created("id", ALICE, ALICE, [], lifetime_ms=-1, now_ms=NOW_MS)
    assert (token.max_ms, token.expires_ms) == (2**63 - 1, 2**63 - 1)
    assert forever.expired(token, ALICE, 2**63 - 1, NOW_MS)[1] == token


def test_renewers_are_users() -> None:
    with pytest.raises(Refusal) as refused:
        LIMITS.created("id", ALICE, ALICE, [Principal("Group", "g")], lifetime_ms=-1, now_ms=NOW_MS)
    assert code_of(refused) is ErrorCode.INVALID_PRINCIPAL_TYPE


@pytest.mark.parametrize(("period_ms", "expires_ms"), [(-1, 10_150), (0, 10_150), (20, 10_070), (500, 10_150)])
@pytest.mark.parametrize("principal", [ALICE, BOB])
def test_owner_and_renewers_renew(principal: Principal, period_ms: int, expires_ms: int) -> None:
    assert LIMITS.renewed(TOKEN, principal, period_ms, NOW_MS + 50) == replace(TOKEN, expires_ms=expires_ms)


def test_no_renewal_goes_past_the_longest_life() -> None:
    token = replace(TOKEN, expires_ms=TOKEN.max_ms)
    assert LIMITS.renewed(token, ALICE, -1, TOKEN.max_ms - 1).expires_ms == TOKEN.max_ms


@pytest.mark.parametrize(("period_ms", "after"), [(-1, None), (0, NOW_MS), (30, 10_030), (9_999, 11_000)])
def test_owner_and_renewers_expire(period_ms: int, after: int | None) -> None:
    _, kept = LIMITS.expired(TOKEN, BOB, period_ms, NOW_MS)
    assert kept == (None if after is None else replace(TOKEN, expires_ms=after))


def test_what_is_refused_and_in_which_order() -> None:
    """Renewing looks at the time first, expiring at the owner; one that has ended can still be removed."""
    ended_ms = TOKEN.expires_ms + 1
    disabled = TokenLimits(b"", 1, 1)
    rows = [
        (
            disabled,
            TOKEN,
            ALICE,
            NOW_MS,
            ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED,
            ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED,
        ),
        (LIMITS, None, ALICE, NOW_MS, ErrorCode.DELEGATION_TOKEN_NOT_FOUND, ErrorCode.DELEGATION_TOKEN_NOT_FOUND),
        (
            LIMITS,
            TOKEN,
            CAROL,
            NOW_MS,
            ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH,
            ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH,
        ),
        (LIMITS, TOKEN, ALICE, ended_ms, ErrorCode.DELEGATION_TOKEN_EXPIRED, ErrorCode.DELEGATION_TOKEN_EXPIRED),
        (LIMITS, TOKEN, CAROL, ended_ms, ErrorCode.DELEGATION_TOKEN_EXPIRED, ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH),
    ]
    for limits, token, principal, now_ms, renewing, expiring in rows:
        with pytest.raises(Refusal) as refused:
            limits.renewed(token, principal, -1, now_ms)
        assert code_of(refused) is renewing
        with pytest.raises(Refusal) as refused:
            limits.expired(token, principal, 5, now_ms)
        assert code_of(refused) is expiring
    assert LIMITS.expired(TOKEN, ALICE, -1, ended_ms) == (TOKEN, None)


def test_an_end_counts_once_it_is_past() -> None:
    assert not TOKEN.is_expired(TOKEN.expires_ms)
    assert TOKEN.is_expired(TOKEN.expires_ms + 1)
    assert replace(TOKEN, max_ms=NOW_MS).is_expired(NOW_MS + 1)


def test_who_may_describe_a_token_without_an_acl() -> None:
    token = replace(TOKEN, requester=CAROL)
    assert [token.is_shown_to(p) for p in (ALICE, BOB, CAROL, Principal(USER, "dave"))] == [True, True, True, False]
    assert [token.may_be_renewed_by(p) for p in (ALICE, BOB, CAROL)] == [True, True, False]


_PRINCIPALS = st.builds(Principal, st.just(USER), st.text(min_size=1))
_TIMES = st.integers(0, 2**63 - 1)


@given(
    st.builds(
        DelegationToken,
        st.text(min_size=1),
        _PRINCIPALS,
        _PRINCIPALS,
        st.lists(_PRINCIPALS).map(tuple),
        _TIMES,
        _TIMES,
        _TIMES,
    )
)
def test_a_token_is_kept_as_it_is(token: DelegationToken) -> None:
    assert of_row(to_row(token)) == token


def test_a_row_is_one_that_kafka_reads() -> None:
    """Kafka before 3.3 reads version 1 alone, which has no requester."""
    assert to_row(TOKEN) == {
        "version": 1,
        "owner": "User:alice",
        "renewers": ["User:bob"],
        "issueTimestamp": NOW_MS,
        "maxTimestamp": 11_000,
        "expiryTimestamp": 10_100,
        "tokenId": "id",
    }
    assert to_row(replace(TOKEN, requester=BOB)) == to_row(TOKEN) | {"version": 3, "tokenRequester": "User:bob"}
    for damage in ({"version": 4}, {"owner": "alice"}, {"renewers": 1}, {"issueTimestamp": "x"}):
        with pytest.raises((ValueError, TypeError)):
            of_row(to_row(TOKEN) | damage)


def test_the_secret_is_not_shown() -> None:
    assert "secret" not in repr(LIMITS)
    assert LIMITS.hmac_of("id") != TokenLimits(b"other", 1, 1).hmac_of("id")
