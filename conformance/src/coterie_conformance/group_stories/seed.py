"""How a seed that breaks a rule is reported: its number in the failure."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class FuzzFailure(AssertionError):
    """A checker's complaint, with the seed that brings it back."""


@contextmanager
def naming_seed(seed: int) -> Iterator[None]:
    """Raises FuzzFailure in the place of a checker's AssertionError, or of an error that the code under test lets out."""
    try:
        yield
    except AssertionError as error:
        raise FuzzFailure(f"seed {seed}: {error}") from error
    except Exception as error:
        raise FuzzFailure(f"seed {seed}: {type(error).__name__}: {error}") from error


@contextmanager
def without_log_lines(*names: str) -> Iterator[None]:
    """Without the lines of these loggers, the broker's by default: under faults it logs what fails."""
    loggers = [logging.getLogger(name) for name in names or ("coterie.broker",)]
    before = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.CRITICAL + 1)
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


def holds(check: Callable[[], object]) -> bool:
    """Whether a check raises no AssertionError."""
    try:
        check()
    except AssertionError:
        return False
    return True
