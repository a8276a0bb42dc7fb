"""Virtual time: asyncio's order, timeouts that take no real time, deadlock and livelock as errors, clocks of processes."""

from __future__ import annotations

import asyncio
import time

import pytest

from coterie.simulation import Deadlock, Livelock, ProcessFailed, Simulation, SimulationError


def test_an_hour_takes_no_real_time() -> None:
    real_s = time.process_time()
    with Simulation() as world:
        world.advance(3600)
        assert world.now_s == pytest.approx(3600, abs=0.01)
    assert time.process_time() - real_s < 1.0


def test_timers_run_by_their_time_and_then_in_the_order_in_which_they_were_made() -> None:
    order: list[str] = []
    with Simulation() as world:
        loop = world.loop
        for name, when in [("b", 2.0), ("a", 1.0), ("c", 2.0), ("now", 0.0)]:
            loop.call_at(when, order.append, name)
        loop.call_at(1.5, order.append, "cancelled").cancel()
        world.advance(3)
    assert order == ["now", "a", "b", "c"]


def test_a_timeout_ends_at_its_virtual_time() -> None:
    with Simulation() as world, pytest.raises(TimeoutError):
        world.run(asyncio.Event().wait(), timeout_s=30)
    assert world.now_s == pytest.approx(30, abs=0.01)


def test_all_that_asks_a_clock_is_given_virtual_time() -> None:
    async def clocks() -> tuple[float, float, float, float]:
        started = time.monotonic(), time.time(), time.perf_counter(), time.time_ns() / 1e9
        await asyncio.sleep(45)
        ended = time.monotonic(), time.time(), time.perf_counter(), time.time_ns() / 1e9
        return tuple(end - start for start, end in zip(started, ended, strict=True))  # type: ignore[return-value]

    with Simulation() as world:
        assert world.run(clocks()) == pytest.approx((45, 45, 45, 45), abs=0.01)


def test_a_clock_that_is_fast_and_one_that_jumps() -> None:
    async def wait(seconds: float) -> tuple[float, float]:
        started = time.monotonic()
        await asyncio.sleep(seconds)
        return time.monotonic() - started, time.time()

    with Simulation() as world:
        fast = world.process("fast", rate=2.0)
        elapsed_s, _ = world.run_in(fast, wait(10))
        assert elapsed_s == pytest.approx(10, abs=0.01)
        assert world.now_s == pytest.approx(5, abs=0.01)
        right = world.process("right")
        _, before_s = world.run_in(right, wait(0))
        right.jump_clock(-100)
        elapsed_s, after_s = world.run_in(right, wait(1))
        assert elapsed_s == pytest.approx(1, abs=0.01)
        assert after_s - before_s == pytest.approx(-99, abs=0.01)


def test_where_nothing_is_scheduled_the_error_names_the_tasks_that_wait() -> None:
    async def waits_for_ever() -> None:
        await asyncio.get_running_loop().create_future()

    with Simulation() as world:
        world.spawn("stuck", waits_for_ever)
        world.loop.call_soon(lambda: None)
        with pytest.raises(Deadlock, match=r"stuck: .*test_loop\.py:\d+ in waits_for_ever"), world._escapes.running():
            world.loop.run_forever()


def test_a_program_that_spins_while_no_time_passes_is_a_livelock() -> None:
    async def spins() -> None:
        while True:
            await asyncio.sleep(0)

    async def waits_for_ever() -> None:
        await asyncio.get_running_loop().create_future()

    with Simulation() as world:
        for number in range(30):  # more than an error lists
            world.spawn(f"a bystander {number}", waits_for_ever)
        world.spawn("spinner", spins)
        with pytest.raises(
            Livelock, match=r"turns ran:\n  spinner: .*test_loop\.py:\d+ in spins \(1\d\d times\)\nWaiting"
        ):
            world.advance(1)


def test_callbacks_that_spin_without_a_task_are_named() -> None:
    def again() -> None:
        asyncio.get_running_loop().call_soon(again)

    with Simulation() as world:
        world.loop.call_soon(again)
        with pytest.raises(Livelock, match=r"a callback: .*again"):
            world.advance(1)


def test_a_pause_below_the_precision_of_the_clock_ends() -> None:
    """aiokafka waits for the rest of its heartbeat interval, which may be 1e-15 s."""

    async def waits() -> None:
        due_s = time.monotonic() + 0.01
        while time.monotonic() < due_s:
            await asyncio.sleep(1e-17)

    with Simulation() as world:
        world.advance(1000.1)
        world.run(waits())


def test_a_process_that_raises_ends_the_run_with_its_error() -> None:
    async def breaks() -> None:
        await asyncio.sleep(5)
        raise ValueError("broken")

    with Simulation(seed=7) as world:
        world.spawn("fragile", breaks)
        with pytest.raises(
            ProcessFailed, match=r"fragile failed at 5\.\d+ s \(seed 7\): ValueError\('broken'\)"
        ) as error:
            world.advance(10)
        assert isinstance(error.value.__cause__, ValueError)
        world.advance(10)  # once


def test_a_name_belongs_to_one_living_process() -> None:
    with Simulation() as world:
        one = world.process("one")
        with pytest.raises(SimulationError, match="there is a process one already"):
            world.process("one")
        one.kill()
        world.process("one")


def test_until_looks_after_each_turn_and_says_what_was_wanted() -> None:
    with Simulation() as world:
        done: list[float] = []
        world.loop.call_at(7.0, lambda: done.append(world.now_s))
        assert world.until(lambda: done, "the timer") == done
        assert world.now_s == pytest.approx(7, abs=0.01)
        with pytest.raises(TimeoutError, match="the moon after 20 s"):
            world.until(lambda: None, "the moon", timeout_s=20)
        assert world.now_s == pytest.approx(27, abs=0.01)
