"""A coroutine test that goes on step by step may take longer than one that stands still."""

from __future__ import annotations

import asyncio

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
