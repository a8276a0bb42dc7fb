"""A test that is a coroutine function runs in an event loop of its own, for `LIMIT_S` at most; one marked `virtual_time` in
the virtual time of `tests/awaiting`."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable

import pytest

from tests.awaiting import run_in_virtual_time

LIMIT_S = 240  # a test that hangs ends with the lines in which it waits


async def _bounded(test: Awaitable[None]) -> None:
    async with asyncio.timeout(LIMIT_S):
        await test


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = inspect.signature(pyfuncitem.obj).parameters
    test = _bounded(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in arguments}))
    if pyfuncitem.get_closest_marker("virtual_time"):
        run_in_virtual_time(test)
    else:
        asyncio.run(test)
    return True
