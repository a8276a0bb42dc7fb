"""Virtual time: the earliest of several times that were set."""

from __future__ import annotations

from coterie.laboratory.earliest_timer import EarliestTimer
from coterie.laboratory.world import World


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
