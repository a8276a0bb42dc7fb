"""A test fails when asyncio complains behind its back: a task destroyed while pending, an exception never retrieved, one
raised in a callback. pytest itself fails tests on exceptions that Python could not raise (pyproject.toml)."""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator

import pytest


class Complaints(logging.Handler):
    """What asyncio's exception handlers logged, since the last look."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self._lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(self.format(record))

    def taken(self) -> list[str]:
        lines, self._lines = self._lines, []
        return lines


complaints = Complaints()


@pytest.fixture(autouse=True, scope="session")
def _asyncio_is_heard() -> Iterator[None]:
    logger = logging.getLogger("asyncio")
    logger.addHandler(complaints)
    yield
    gc.unfreeze()
    gc.collect()
    logger.removeHandler(complaints)
    lines = complaints.taken()
    assert not lines, "asyncio complained about what outlived its module:\n" + "\n".join(lines)


@pytest.fixture(autouse=True)
def _asyncio_does_not_complain(_asyncio_is_heard: None) -> Iterator[None]:
    yield
    lines = complaints.taken()
    assert not lines, "asyncio complained:\n" + "\n".join(lines)


@pytest.fixture(autouse=True, scope="module")
def _nor_about_what_a_module_leaves_behind(_asyncio_is_heard: None) -> Iterator[None]:
    yield
    gc.collect()  # tasks and futures that only the collector finds
    gc.freeze()  # what outlives a module, such as imports and caches, is collected at the end, not after each of 500 modules
    lines = complaints.taken()
    assert not lines, "asyncio complained about what this module left behind:\n" + "\n".join(lines)
