"""What leaves a simulation is an error, what is random comes from the seed, and the real functions are back afterwards."""

from __future__ import annotations

import asyncio
import os
import random
import secrets
import socket
import sys
import threading
import time
import types
import uuid
from collections.abc import Callable
from time import monotonic as clock_by_name

import pytest

from coterie.simulation import Escaped, Simulation


@pytest.mark.parametrize(
    ("escape", "text"),
    [
        (lambda: threading.Thread(target=print).start(), "a thread was started"),
        (lambda: socket.socket(), "a real socket was opened"),
        (lambda: time.sleep(0), "time.sleep was called"),
    ],
)
def test_an_escape_is_an_error(escape: Callable[[], object], text: str) -> None:
    async def escapes() -> None:
        escape()

    with Simulation() as world, pytest.raises(Escaped, match=text):
        world.run(escapes())
    escape()


def _numbers() -> list[object]:
    return [
        random.random(),
        random.Random().random(),
        random.SystemRandom().random(),
        uuid.uuid4(),
        uuid.uuid1(),
        secrets.token_hex(8),
        os.urandom(4),
    ]


async def numbers() -> list[object]:
    return _numbers()


def test_all_that_is_random_comes_from_the_seed() -> None:
    drawn = []
    for seed in (1, 1, 2):
        with Simulation(seed) as world:
            drawn.append(world.run(numbers()) + world.run(numbers()))
    assert drawn[0] == drawn[1]
    assert all(one != other for one, other in zip(drawn[1], drawn[2], strict=True))
    assert len(set(map(str, drawn[0]))) == len(drawn[0])


def test_what_is_drawn_outside_is_as_it_was() -> None:
    random.seed(5)
    expected = [random.random(), random.random()]
    random.seed(5)
    drawn = [random.random()]
    with Simulation() as world:
        world.run(numbers())
        drawn.append(random.random())
    assert drawn == expected


def test_a_function_that_was_imported_by_name_is_virtual_too() -> None:
    async def ask() -> float:
        started = clock_by_name()
        await asyncio.sleep(100)
        return clock_by_name() - started

    with Simulation() as world:
        assert world.run(ask()) == pytest.approx(100, abs=0.01)


def test_what_a_module_has_by_name_only_after_the_first_world_is_virtual_too(monkeypatch: pytest.MonkeyPatch) -> None:
    real, module = time.monotonic, types.ModuleType("late")
    vars(module)["monotonic"] = None
    monkeypatch.setitem(sys.modules, "late", module)
    with Simulation():
        assert vars(module)["monotonic"] is None
    for name in ("monotonic", "another"):  # as many names as before, and one more
        vars(module)[name] = real
        with Simulation():
            assert vars(module)[name] is time.monotonic
            assert time.monotonic is not real
        assert vars(module)[name] is real


def test_other_threads_and_the_time_between_runs_are_real() -> None:
    with Simulation() as world:
        world.advance(1000)
        assert abs(time.time() - _real_time()) < 100
        seen: list[float] = []
        thread = threading.Thread(target=lambda: seen.append(time.time()))
        thread.start()
        thread.join()
        assert abs(seen[0] - _real_time()) < 100


def _real_time() -> float:
    return float(getattr(time.time, "__wrapped__", time.time)())


def test_the_real_functions_are_back_afterwards() -> None:
    before = time.time, time.monotonic, os.urandom, threading.Thread.start, socket.socket.__init__, clock_by_name
    with Simulation():
        assert time.time is not before[0]
    assert before == (
        time.time,
        time.monotonic,
        os.urandom,
        threading.Thread.start,
        socket.socket.__init__,
        clock_by_name,
    )


def test_a_function_for_a_thread_runs_in_the_loop() -> None:
    async def ask() -> tuple[int, float]:
        started = time.monotonic()
        number = await asyncio.to_thread(threading.get_ident)
        return number, time.monotonic() - started

    with Simulation() as world:
        number, took_s = world.run(ask())
        assert number == threading.get_ident()
        assert 0 < took_s < 0.01


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
def test_one_world_cannot_run_another() -> None:
    async def nested() -> None:
        with Simulation() as inner:
            inner.advance(1)

    with Simulation() as world, pytest.raises(Escaped, match="one simulation cannot run another"):
        world.run(nested())
