"""Virtual time: how long a story waits until it is at rest."""

from __future__ import annotations

from coterie.laboratory.earliest_timer import EarliestTimer
from coterie.laboratory.world import REST_MS, WHOLE_EVERY, World

MOST_MS = 60_000


def waited_ms(seed: int, *, rests_from_ms: int, unrest_ms: int = -1) -> int:
    """How long a world whose story rests from then on runs; ``unrest_ms``: the one moment at which it does not."""
    world = World(seed)

    def is_at_rest() -> bool:
        passed_ms = world.now_ms - world.start_ms
        return passed_ms >= rests_from_ms and passed_ms != unrest_ms

    world.run_to_rest(MOST_MS, is_at_rest)
    return world.now_ms - world.start_ms


def test_a_story_ends_once_it_has_rested_for_some_time() -> None:
    assert waited_ms(1, rests_from_ms=10_000) == 10_000 + REST_MS


def test_rest_that_ends_does_not_count() -> None:
    assert waited_ms(1, rests_from_ms=10_000, unrest_ms=14_000) == 14_500 + REST_MS


def test_a_story_without_rest_goes_through_the_whole_time() -> None:
    assert waited_ms(1, rests_from_ms=10 * MOST_MS) == MOST_MS


def test_every_eighth_seed_goes_through_the_whole_time() -> None:
    assert [waited_ms(seed, rests_from_ms=0) == MOST_MS for seed in range(2 * WHOLE_EVERY)].count(True) == 2


def test_the_earliest_time_of_a_life_counts() -> None:
    world = World(1)
    start_ms, fired = world.now_ms, list[int]()
    timer = EarliestTimer(world, lambda: fired.append(world.now_ms - start_ms))
    timer.set(start_ms + 50)
    timer.set(start_ms + 90)  # the earlier one stays
    timer.set(start_ms + 20)
    world.run_until(start_ms + 100)
    assert fired == [20], "what was set before is no longer due"
    timer.set(start_ms + 120)
    timer.forget()
    timer.set(start_ms + 150)
    world.run_until(start_ms + 200)
    assert fired == [20, 150], "a time of the former life"
    timer.set(start_ms)
    world.run_until(start_ms + 200)
    assert fired == [20, 150, 200], "a time that is over"
