"""A difference made short: fewer questions first, then fewer fields, as long as the same kind of difference is met.

Every attempt is told on fresh names, to both brokers.
"""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from coterie.conformance.everything.question import Question, Tale, Value
from coterie.conformance.everything.telling import Difference, Told

ATTEMPTS = 120
Tell = Callable[[Tale], Awaitable[Told]]


async def shrink(difference: Difference, tell: Tell, attempts: int = ATTEMPTS) -> Difference:
    """The shortest tale found that still ends in this kind of difference; the given one when it is not met again."""
    tale = difference.tale
    at = next(n for n, q in enumerate(tale.questions) if q.name == difference.question.name)
    kept = await _again(Tale(tale.name, tale.questions[: at + 1]), difference.signature(), tell)
    if kept is None:
        return difference
    best, tried = kept, 0
    size = max(1, len(best.tale.questions) // 2)
    while tried < attempts:
        shorter = None
        for tale in _without(best.tale, size):
            tried += 1
            shorter = await _again(tale, difference.signature(), tell)
            if shorter is not None or tried >= attempts:
                break
        if shorter is not None:
            best = shorter
        elif size == 1:
            break
        size = max(1, min(size // (1 if shorter else 2), len(best.tale.questions) - 1))
    return await _simpler(best, difference.signature(), tell, attempts)


async def _simpler(best: Difference, kind: str, tell: Tell, attempts: int) -> Difference:
    """With fields of the last question at their defaults, one after the other."""
    for _ in range(attempts):
        for question in _simplified(best.question):
            shorter = await _again(Tale(best.tale.name, [*best.tale.questions[:-1], question]), kind, tell)
            if shorter is not None:
                best = shorter
                break
        else:
            break
    return best


async def _again(tale: Tale, kind: str, tell: Tell) -> Difference | None:
    """The same kind of difference at the tale's last question, or None."""
    told = await tell(Tale(tale.name, tale.questions, strict=False))
    last = tale.questions[-1].name
    return next((d for d in told.differences if d.signature() == kind and d.question.name == last), None)


def _without(tale: Tale, size: int) -> Iterator[Tale]:
    """The tale less some neighbours, the latest first; its last question stays."""
    before, last = tale.questions[:-1], tale.questions[-1]
    for start in range(len(before) - size, -size, -size):
        left = before[: max(start, 0)] + before[max(start, 0) + size + min(start, 0) :]
        if len(left) < len(before):
            yield Tale(tale.name, [*left, last])


def _simplified(question: Question) -> Iterator[Question]:
    """The question less one field, anywhere in its body."""
    for way in _ways(question.body):
        body = copy.deepcopy(question.body)
        at: Any = body
        for step in way[:-1]:
            at = at[step]
        del at[way[-1]]
        yield Question(question.name, question.api, question.version, body, question.connection, question.covers)


def _ways(value: Value, way: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if isinstance(value, dict) and "@" not in value:
        for name, inner in value.items():
            yield (*way, name)
            yield from _ways(inner, (*way, name))
    elif isinstance(value, list):
        for n, inner in enumerate(value):
            yield (*way, n)
            yield from _ways(inner, (*way, n))
