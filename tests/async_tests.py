"""A test that is a coroutine function runs in an event loop of its own; it may stand still for `LIMIT_S`. One marked
`virtual_time` runs in the virtual time of `tests/awaiting`, one with the fixture `coterie_world`, or with one that has a
``world``, in that world."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable

import pytest

from coterie.testing.simulated import SimulatedWorld
from tests.awaiting import run_in_virtual_time

LIMIT_S = 240  # a test that hangs ends with the lines in which it waits
WORLD_LIMIT_S = 1_200.0  # of virtual time
_bounds: list[asyncio.Timeout] = []
AsyncTest = Callable[..., Awaitable[None]]


async def _bounded(test: Awaitable[None]) -> None:
    async with asyncio.timeout(LIMIT_S) as bound:
        _bounds[:] = [bound]
        await test


def went_on() -> None:
    """The running test is a step further, and has `LIMIT_S` again: a long one on a machine with other work does not hang."""
    _bounds[-1].reschedule(asyncio.get_running_loop().time() + LIMIT_S)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = inspect.signature(pyfuncitem.obj).parameters
    given = {name: pyfuncitem.funcargs[name] for name in arguments}
    worlds = (getattr(value, "world", value) for value in given.values())
    world = next((each for each in worlds if isinstance(each, SimulatedWorld)), None)
    if world is not None:
        world.run(pyfuncitem.obj(**given), WORLD_LIMIT_S)
    elif pyfuncitem.get_closest_marker("virtual_time"):
        run_in_virtual_time(_bounded(pyfuncitem.obj(**given)))
    else:
        asyncio.run(_bounded(pyfuncitem.obj(**given)))
    return True


def run_by(run: Callable[[AsyncTest], object], given: int = 1) -> Callable[[AsyncTest], Callable[..., None]]:
    """Decorates a coroutine function: the test is ``run`` of it, which calls it with its first ``given`` parameters; the others
    are fixtures."""

    def decorated(test: AsyncTest) -> Callable[..., None]:
        @functools.wraps(test)
        def run_test(**fixtures: object) -> None:
            run(functools.partial(test, **fixtures))

        parameters = list(inspect.signature(test).parameters.values())[given:]
        run_test.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return run_test

    return decorated
