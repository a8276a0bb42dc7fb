"""retry.backoff.ms and retry.backoff.max.ms as Kafka's clients apply them (KIP-580)."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.machines.backoff import JITTER, Backoff, Retries

MS = st.integers(0, 2**63 - 1)
BACKOFFS = st.builds(Backoff, MS, MS) | st.builds(Backoff, st.integers(0, 2_000), st.integers(0, 10_000))
JITTERS = st.floats(-1, 1)
TRIES = (0, 1, 2, 3, 4, 5, 10, 25, 100)
# ExponentialBackoff(initial, 2, max, 0).backoff(attempts) of kafka-clients 3.9.1 and 4.3.0, called for each of TRIES.
KAFKA = {
    (100, 1_000): (100, 200, 400, 800, 1_000, 1_000, 1_000, 1_000, 1_000),
    (100, 100): (100,) * 9,
    (1_000, 100): (100,) * 9,
    (0, 1_000): (0,) * 9,
    (50, 0): (0,) * 9,
    (7, 1_000): (7, 14, 28, 56, 112, 224, 999, 999, 999),
    (30, 86_400_000): (30, 60, 120, 240, 480, 960, 30_720, 86_400_000, 86_400_000),
    (1, 1): (1,) * 9,
    (100, 1_500): (100, 200, 400, 800, 1_500, 1_500, 1_500, 1_500, 1_500),
}
# The least and greatest of 2,000,000 calls of ExponentialBackoff(100, 2, 1000, 0.2) for each of 0 to 6 attempts.
KAFKA_JITTERED = ((80, 119), (160, 239), (320, 479), (640, 959), (800, 1_000), (800, 1_000), (800, 1_000))


def kafka_formula_ms(initial_ms: int, max_ms: int, attempts: int, factor: float) -> int:
    """ExponentialBackoff as it is written: the exponent is what is bounded. ``factor`` is what it draws."""
    first_ms = min(initial_ms, max_ms)
    if max_ms <= initial_ms:
        return first_ms
    most = math.log(max_ms / max(initial_ms, 1)) / math.log(2)
    return min(int(factor * first_ms * 2 ** min(attempts, most)), max_ms)


@pytest.mark.parametrize(("setting", "pauses_ms"), KAFKA.items())
def test_the_figures_of_kafkas_class(setting: tuple[int, int], pauses_ms: tuple[int, ...]) -> None:
    """A millisecond less than the maximum is what its logarithm loses."""
    ours = [Backoff(*setting).pause_ms(n) for n in TRIES]
    assert all(abs(a - b) <= (b == 999) for a, b in zip(ours, pauses_ms, strict=True)), (ours, pauses_ms)


def test_the_jitter_of_kafkas_class() -> None:
    backoff = Backoff(100, 1_000)
    extremes = tuple((backoff.pause_ms(n, -1), backoff.pause_ms(n, 0.9999)) for n in range(7))
    assert extremes == KAFKA_JITTERED
    assert {Backoff(1_000, 100).pause_ms(3, jitter) for jitter in (-1, 0, 1)} == {100}


@given(st.integers(0, 100_000), st.integers(0, 10_000_000), st.integers(0, 200), JITTERS)
def test_beside_kafkas_formula(initial_ms: int, max_ms: int, failures: int, jitter: float) -> None:
    kafka_ms = kafka_formula_ms(initial_ms, max_ms, failures, 1 + JITTER * jitter)
    assert abs(Backoff(initial_ms, max_ms).pause_ms(failures, jitter) - kafka_ms) <= 1


@given(BACKOFFS)
def test_pauses_double_until_the_maximum(backoff: Backoff) -> None:
    pauses_ms = [backoff.pause_ms(n) for n in range(70)]
    assert pauses_ms[0] == min(backoff.initial_ms, backoff.max_ms)
    assert pauses_ms[-1] == (backoff.max_ms if backoff.initial_ms else 0)
    assert all(later == min(2 * ms, backoff.max_ms) for ms, later in pairwise(pauses_ms))


@given(BACKOFFS, st.integers(0, 10_000), JITTERS)
def test_jitter_is_a_fifth_and_never_exceeds_the_maximum(backoff: Backoff, failures: int, jitter: float) -> None:
    plain_ms, pause_ms = backoff.pause_ms(failures), backoff.pause_ms(failures, jitter)
    assert 0 <= pause_ms <= backoff.max_ms
    rounding_ms = 1 + plain_ms / 2**50  # a factor is a float
    assert abs(pause_ms - plain_ms) <= JITTER * abs(jitter) * plain_ms + rounding_ms


@given(BACKOFFS, st.floats(0, 100_000), st.lists(st.tuples(st.floats(0, 5_000), JITTERS), max_size=40))
def test_attempts_end_with_the_timeout(
    backoff: Backoff, timeout_ms: float, attempts: list[tuple[float, float]]
) -> None:
    """Each attempt takes its time and fails. No pause runs past the timeout, and after it there is none."""
    now_ms = start_ms = 1_000.0
    retries = Retries(backoff, start_ms)
    for number, (took_ms, jitter) in enumerate(attempts):
        now_ms += took_ms
        pause_ms = retries.failed(now_ms, timeout_ms, jitter)
        left_ms = start_ms + timeout_ms - now_ms
        assert (pause_ms is None) == (left_ms <= 0)
        if pause_ms is None:
            return
        assert pause_ms == min(backoff.pause_ms(number, jitter), left_ms)
        now_ms += pause_ms


def test_a_success_begins_anew() -> None:
    retries = Retries(Backoff(100, 1_000), 0)
    assert [retries.failed(now_ms, 500, 0) for now_ms in (0, 100, 300)] == [100, 200, 200]
    retries.succeeded()
    assert retries.failed(10_000, 500, 0) == 100, "the timeout begins with this failure"
    assert [retries.failed(10_000 + ms, 500, 0) for ms in (100, 300, 500)] == [200, 200, None]
