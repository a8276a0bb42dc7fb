"""Rates over samples and how long they throttle, and whose quota counts (Kafka's ClientQuotaManagerTest, RateTest)."""

from __future__ import annotations

import pytest

from coterie.quotas import MOST_REMEMBERED, Entity, Limit, Rate, Rates, limit_of, limit_of_address

BYTES = "producer_byte_rate"


def test_quota_violation() -> None:
    """testQuotaViolation: 400 B in each of ten windows of 1 s are within 500 B/s, and 2,300 B more are too many."""
    rate, now_ms = Rate(), 0
    for _ in range(10):
        rate.record(400, now_ms)
        assert rate.throttle_ms(500, now_ms) == 0
        now_ms += 1_000
    # Half a window later: (4,000 + 2,300) B over 10.5 s are 600 B/s.
    now_ms += 500
    rate.record(2_300, now_ms)
    assert rate.per_second(now_ms) == pytest.approx(600)
    assert rate.throttle_ms(500, now_ms) == 2_100  # (600 - 500) / 500 * 10.5 s
    # As windows go by the burst is forgotten.
    for _ in range(11):
        now_ms += 1_000
        rate.record(400, now_ms)
    assert rate.throttle_ms(500, now_ms) == 0


def test_a_first_burst_is_over_ten_windows() -> None:
    rate = Rate()
    rate.record(5_000, 0)
    assert rate.throttle_ms(500, 0) == 0
    rate.record(500, 0)
    assert rate.throttle_ms(500, 0) == 1_000


def test_what_is_old_is_forgotten() -> None:
    rate = Rate()
    rate.record(10**9, 0)
    assert rate.throttle_ms(1, 11_000) == 0
    assert not rate.samples


def test_rates_are_kept_apart_and_bounded() -> None:
    rates = Rates()
    assert rates.record("a", 100_000, 1_000, 0) > 0
    assert rates.record("b", 100, 1_000, 0) == 0
    for n in range(2 * MOST_REMEMBERED):
        rates.record(n, 1, 1_000, 0)
    assert len(rates._rates) <= MOST_REMEMBERED


U, C = "alice", "app"
PRECEDENCE: list[tuple[Entity, tuple[str, str]]] = [
    ((("client-id", C), ("user", U)), (U, C)),
    ((("client-id", None), ("user", U)), (U, C)),
    ((("user", U),), (U, "")),
    ((("client-id", C), ("user", None)), (U, C)),
    ((("client-id", None), ("user", None)), (U, C)),
    ((("user", None),), (U, "")),
    ((("client-id", C),), ("", C)),
    ((("client-id", None),), ("", C)),
]


def test_quota_precedence() -> None:
    """The more special quota counts, and says who shares it.

    testUserClientIdQuotaParsing and its table, testClientIdQuotaParsing, testUserQuotaParsing, testQuotaConfigPrecedence,
    testUserQuotaParsingWithDefaultClientIdQuota, testUserClientQuotaParsingIdWithDefaultClientIdQuota.
    """
    quotas: dict[Entity, dict[str, float]] = {entity: {BYTES: float(n + 1)} for n, (entity, _) in enumerate(PRECEDENCE)}
    for n, (entity, shared_by) in enumerate(PRECEDENCE):
        assert limit_of(quotas, BYTES, U, C) == Limit(n + 1, shared_by)
        assert limit_of(quotas, "consumer_byte_rate", U, C) is None
        del quotas[entity]
    assert limit_of(quotas, BYTES, U, C) is None


def test_an_address_has_its_own_quota_or_the_default() -> None:
    key = "connection_creation_rate"
    quotas: dict[Entity, dict[str, float]] = {(("ip", None),): {key: 5.0}, (("ip", "10.0.0.1"),): {key: 1.0}}
    assert limit_of_address(quotas, key, "10.0.0.1") == 1.0
    assert limit_of_address(quotas, key, "10.0.0.2") == 5.0
    assert limit_of_address({}, key, "10.0.0.1") is None


@pytest.mark.parametrize(
    ("default", "own"),
    [
        ((("user", None),), (("user", U),)),
        ((("user", U),), (("client-id", C), ("user", U))),
    ],
)
def test_a_quota_that_is_set_and_removed(default: Entity, own: Entity) -> None:
    """testSetAndRemoveDefaultUserQuota, testSetAndRemoveUserQuota, testSetAndRemoveUserClientQuota."""
    quotas: dict[Entity, dict[str, float]] = {}

    def rate() -> float | None:
        limit = limit_of(quotas, BYTES, U, C)
        return None if limit is None else limit.rate

    assert rate() is None
    quotas[default] = {BYTES: 100.0}
    assert rate() == 100
    quotas[own] = {BYTES: 200.0}
    assert rate() == 200
    del quotas[own]
    assert rate() == 100
    del quotas[default]
    assert rate() is None
