"""Twelve lessons: a group, what happens to it, and when. Their texts are ``lesson.NAME.title`` and ``lesson.NAME.text``.

`tests/laboratory/test_lessons.py` checks what each text states.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from coterie.laboratory.study.workload import Event


@dataclass(frozen=True, slots=True)
class Lesson:
    """``settings``: those of the page's form; ``speed``: how many virtual seconds go by in one; ``end_ms``: where it stops."""

    name: str
    settings: Mapping[str, object]
    actions: tuple[Event, ...]
    end_ms: int
    speed: float = 2


def _restarts(names: tuple[str, ...], first_ms: int, down_ms: int, gap_ms: int) -> tuple[Event, ...]:
    """Each in turn leaves and comes back."""
    return tuple(
        event
        for number, name in enumerate(names)
        for event in (
            Event(first_ms + number * gap_ms, "leave", name),
            Event(first_ms + number * gap_ms + down_ms, "join", name),
        )
    )


THREE = ("m1", "m2", "m3")
LESSONS = (
    Lesson("eager", {"protocol": "eager"}, (Event(20_000, "join", "m4"),), 35_000),
    Lesson(
        "initial-delay",
        {"protocol": "eager", "members": 0},
        tuple(Event(1_000 + 700 * n, "join", f"m{n + 1}") for n in range(6)),
        20_000,
    ),
    Lesson("death", {"protocol": "eager"}, (Event(20_000, "kill", "m2"),), 90_000, 5),
    Lesson("rolling-restart", {"protocol": "eager"}, _restarts(THREE, 20_000, 8_000, 25_000), 110_000, 5),
    Lesson(
        "static",
        {"protocol": "static"},
        (
            Event(20_000, "kill", "m2"),
            Event(40_000, "join", "m2"),
            Event(60_000, "kill", "m3"),
            Event(120_000, "join", "m3"),
        ),
        150_000,
        5,
    ),
    Lesson("cooperative", {"protocol": "cooperative"}, (Event(20_000, "join", "m4"),), 35_000),
    Lesson(
        "slow-poll",
        {"protocol": "eager", "max.poll.interval.ms": 30_000},
        (Event(20_000, "slow", "m1", 60_000),),
        110_000,
        5,
    ),
    Lesson(
        "stalled",
        {"protocol": "eager", "session.timeout.ms": 10_000},
        (Event(20_000, "pause", "m1", 25_000),),
        60_000,
        3,
    ),
    Lesson(
        "zookeeper",
        {"protocol": "zookeeper"},
        (Event(15_000, "join", "m4"), Event(30_000, "kill", "m1")),
        50_000,
    ),
    Lesson(
        "rocketmq", {"protocol": "rocketmq"}, (Event(20_000, "join", "m4"), Event(40_000, "vanish", "m1")), 220_000, 8
    ),
    Lesson("rocketmq-orderly", {"protocol": "rocketmq-orderly"}, (Event(30_000, "kill", "m1"),), 120_000, 5),
    Lesson(
        "consumer", {"protocol": "consumer"}, (Event(25_000, "join", "m4"), Event(50_000, "kill", "m1")), 120_000, 4
    ),
)
