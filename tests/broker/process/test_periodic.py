"""What a broker does again and again, in virtual time."""

from __future__ import annotations

import logging

import pytest

from coterie.broker.process.scheduling import Periodic
from coterie.simulation import Simulation


def test_each_function_is_called_at_its_interval_until_the_stop() -> None:
    calls: list[tuple[str, float]] = []
    with Simulation() as world:

        def call(name: str) -> None:
            calls.append((name, round(world.now_s)))

        periodic = Periodic(
            world.loop, [(1000, lambda: call("a")), (3000, lambda: call("b")), (1000, lambda: call("c"))]
        )
        world.advance(3.5)
        periodic.stop()
        world.advance(10)
    assert calls == [("a", 1), ("c", 1), ("a", 2), ("c", 2), ("b", 3), ("a", 3), ("c", 3)]


def test_one_that_fails_is_called_again_and_holds_up_no_other(caplog: pytest.LogCaptureFixture) -> None:
    calls: list[str] = []

    def fails() -> None:
        calls.append("fails")
        raise OSError(28, "No space left on device") if len(calls) == 1 else KeyError("b")

    with Simulation() as world:
        Periodic(world.loop, [(1000, fails), (1000, lambda: calls.append("next"))])
        with caplog.at_level(logging.ERROR):
            world.advance(2.5)
    assert calls == ["fails", "next", "fails", "next"]
    assert [record.getMessage() for record in caplog.records] == [
        "fails failed: [Errno 28] No space left on device; it will be tried again",
        "fails failed; it will be tried again",
    ]


def test_a_function_may_stop_them_all() -> None:
    calls: list[str] = []
    with Simulation() as world:
        periodic = Periodic(world.loop, [(1000, lambda: periodic.stop()), (1000, lambda: calls.append("next"))])
        world.advance(5)
    assert calls == []
