"""A difference made short: fewer questions first, then fewer fields, as long as the same kind of difference is met.

Every attempt is asked on fresh names, of both brokers.
"""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

from coterie.certify.question import Question, Story, Value
from coterie_conformance.everything.comparison import Comparison, Difference
from coterie_conformance.everything.generated.domains import SHARED

ATTEMPTS = 120
Compare = Callable[[Story], Awaitable[Comparison]]


async def shrink(difference: Difference, compare: Compare, attempts: int = ATTEMPTS) -> AsyncIterator[Difference]:
    """Shorter and shorter stories that end in this kind of difference; none where it is not met again."""
    story, kind = difference.story, difference.signature()
    at = next(n for n, q in enumerate(story.questions) if q.name == difference.question.name)
    best = await _again(Story(story.name, story.questions[: at + 1]), kind, compare)
    if best is None:
        return
    yield best
    tried, size = 0, max(1, len(best.story.questions) // 2)
    while tried < attempts:
        shorter = None
        for story in _without(best.story, size):
            tried += 1
            shorter = await _again(story, kind, compare)
            if shorter is not None or tried >= attempts:
                break
        if shorter is not None:
            best = shorter
            yield best
        elif size == 1:
            break
        size = max(1, min(size // (1 if shorter else 2), len(best.story.questions) - 1))
    async for simpler in _simpler(best, kind, compare, attempts):
        yield simpler


async def _simpler(best: Difference, kind: str, compare: Compare, attempts: int) -> AsyncIterator[Difference]:
    """With fields of the last question at their defaults, one after the other."""
    for _ in range(attempts):
        for question in _simplified(best.question):
            shorter = await _again(Story(best.story.name, [*best.story.questions[:-1], question]), kind, compare)
            if shorter is not None:
                best = shorter
                yield best
                break
        else:
            break


async def _again(story: Story, kind: str, compare: Compare) -> Difference | None:
    """The same kind of difference at the story's last question, or None."""
    comparison = await compare(Story(story.name, story.questions, strict=False))
    last = story.questions[-1].name
    return next((d for d in comparison.differences if d.signature() == kind and d.question.name == last), None)


def _without(story: Story, size: int) -> Iterator[Story]:
    """The story less some neighbours, the latest first; its last question stays."""
    before, last = story.questions[:-1], story.questions[-1]
    for start in range(len(before) - size, -size, -size):
        left = before[: max(start, 0)] + before[max(start, 0) + size + min(start, 0) :]
        if len(left) < len(before):
            yield Story(story.name, [*left, last])


def _simplified(question: Question) -> Iterator[Question]:
    """The question less one field, anywhere in its body, except where that would be a question which is not asked."""
    for way in _ways(question.body):
        if not _may_go(question, way):
            continue
        body = copy.deepcopy(question.body)
        at: Any = body
        for step in way[:-1]:
            at = at[step]
        del at[way[-1]]
        yield Question(question.name, question.api, question.version, body, question.connection, question.covers)


def _may_go(question: Question, way: tuple[str | int, ...]) -> bool:
    """Whether the request less what stands there is one that stories ask: Kafka's response to another, or none, is of another
    cause."""
    at: Any = question.body
    for step in way[:-1]:
        at = at[step]
    if isinstance(at, list) and len(at) > 1:
        return True
    name = "no element" if isinstance(at, list) else "default"
    where = ".".join(step for step in way if isinstance(step, str))
    return not {(question.api, name), (question.api, f"{where}: {name}")} & SHARED.keys()


def _ways(value: Value, way: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if isinstance(value, dict) and "@" not in value:
        for name, inner in value.items():
            yield (*way, name)
            yield from _ways(inner, (*way, name))
    elif isinstance(value, list):
        for n, inner in enumerate(value):
            yield (*way, n)
            yield from _ways(inner, (*way, n))
