"""Tests that are coroutine functions: their limit, and their parameters by a decorator."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable

import pytest

from tests import async_tests
from tests.awaiting import run_in_virtual_time


def test_only_a_test_that_stands_still_is_ended() -> None:
    async def steps() -> None:
        for _ in range(3):
            await asyncio.sleep(async_tests.LIMIT_S - 1)
            async_tests.went_on()

    run_in_virtual_time(async_tests._bounded(steps()))
    with pytest.raises(TimeoutError):
        run_in_virtual_time(async_tests._bounded(asyncio.sleep(async_tests.LIMIT_S + 1)))


def test_a_decorated_test_gets_its_first_parameters_by_the_decorator_and_the_others_as_fixtures() -> None:
    async def test(first: int, second: int, fixture: int) -> None:
        assert (first, second, fixture) == (1, 2, 3)

    decorated = async_tests.run_by(lambda test: asyncio.run(_awaited(test(1, 2))), given=2)(test)
    assert list(inspect.signature(decorated).parameters) == ["fixture"]
    decorated(fixture=3)
    with pytest.raises(AssertionError):
        decorated(fixture=4)


async def _awaited(awaitable: Awaitable[None]) -> None:
    await awaitable
