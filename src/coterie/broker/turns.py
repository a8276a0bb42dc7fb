"""Work for one request that may take long: some milliseconds of it in each turn of the loop, so that others go on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator, Hashable, Iterable
from typing import TypeVar

from coterie.broker.pending import Pending
from coterie.wire.declaration import Message

logger = logging.getLogger(__name__)

MAX_TURN_S = 0.010
REPEATED_AT_MOST = 20
T = TypeVar("T")
R = TypeVar("R")


def in_turns(loop: asyncio.AbstractEventLoop, work: Generator[None, None, Message]) -> Message | Pending:
    """Runs ``work`` up to its return value, the answer; each of its yields may be the end of a turn. What takes no longer
    than a turn is answered at once. A bug in a later turn ends the connection, as it does in the first."""
    answer = _turn(loop, work)
    if answer is not None:
        return answer
    pending = Pending()

    def go_on() -> None:
        try:
            answer = _turn(loop, work)
        except Exception:
            logger.exception("a request failed; its connection is closed")
            pending.fail()
            return
        if answer is None:
            loop.call_soon(go_on)
        else:
            pending.answer(answer)

    loop.call_soon(go_on)
    return pending


def _turn(loop: asyncio.AbstractEventLoop, work: Generator[None, None, Message]) -> Message | None:
    ends_s = loop.time() + MAX_TURN_S
    try:
        while loop.time() <= ends_s:
            next(work)
    except StopIteration as end:
        answer: Message = end.value
        return answer
    return None


def finish(work: Generator[None, None, R]) -> R:
    """Runs ``work`` to its end at once."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: R = end.value
            return result


def distinct(items: Iterable[T], key: Callable[[T], Hashable]) -> list[T]:
    """The items as a request names them; of more than twenty each is taken once, so that a request of one name over and
    over is not answered with a copy of the same for each."""
    every = list(items)
    if len(every) <= REPEATED_AT_MOST:
        return every
    return list({key(item): item for item in every}.values())
