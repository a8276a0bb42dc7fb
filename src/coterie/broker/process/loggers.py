"""The broker's loggers and their levels by Kafka's names (KIP-412): root, and those of coterie's modules; and warnings about
clients, of which one client may cause any number: a few lines a second are written, the others counted."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Container

from coterie.broker.process.scheduling import Scheduler, Timer
from coterie.wire.errors import ErrorCode, Refusal

ROOT = "root"
_TRACE = 5
LEVELS = {
    "DEBUG": logging.DEBUG,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
    "INFO": logging.INFO,
    "TRACE": _TRACE,
    "WARN": logging.WARNING,
}
_NAMES = {level: name for name, level in LEVELS.items()}
LINES_PER_SECOND = 10  # of one kind


def logger_levels() -> dict[str, str]:
    """Each logger's level in force."""
    names = [name for name in logging.root.manager.loggerDict if name.partition(".")[0] == "coterie"]
    levels = {ROOT: logging.root.getEffectiveLevel()}
    levels |= {name: logging.getLogger(name).getEffectiveLevel() for name in sorted(names)}
    return {name: _NAMES.get(level, logging.getLevelName(level)) for name, level in levels.items()}


def check_level(name: str, level: str | None, known: Container[str]) -> None:
    """Whether the logger ``name`` of the ``known`` ones can get that level; None stands for its parent's. Raises Refusal."""
    if name not in known:
        raise Refusal(ErrorCode.INVALID_CONFIG, f"there is no logger {name}")
    if level is None and name == ROOT:
        raise Refusal(ErrorCode.INVALID_REQUEST, "the root logger needs a level")
    if level is not None and level not in LEVELS:
        raise Refusal(ErrorCode.INVALID_CONFIG, f"the level of {name} must be one of {', '.join(LEVELS)}, not {level}")


def set_level(name: str, level: str | None) -> None:
    """Gives a logger its level, or back that of its parent (None); `check_level` has accepted both names."""
    logger = logging.root if name == ROOT else logging.getLogger(name)
    logger.setLevel(logging.NOTSET if level is None else LEVELS[level])


class LogLines:
    """Writes warnings to a logger. Lines with the same format are of one kind."""

    def __init__(self, logger: logging.Logger, scheduler: Scheduler) -> None:
        self._logger, self._scheduler = logger, scheduler
        self._written: Counter[str] = Counter()
        self._timer: Timer | None = None

    def warning(self, text: str, *args: object) -> None:
        """Writes a line, or counts it where ten of its kind were written within this second."""
        self._written[text] += 1
        if self._written[text] <= LINES_PER_SECOND:
            self._logger.warning(text, *args)
        if self._timer is None:
            self._timer = self._scheduler.call_later(1.0, self.flush)

    def flush(self) -> None:
        """Ends the second and writes the counts."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        for text, count in self._written.items():
            if count > LINES_PER_SECOND:
                self._logger.warning("%d more lines within a second like: %s", count - LINES_PER_SECOND, text)
        self._written.clear()
