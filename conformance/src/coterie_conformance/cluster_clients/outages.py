"""What clients see of a broker's death, as figures: of each group how long it was without a coordinator and without records.

Whether one side is slower is decided by the notches of box plots (McGill, Tukey and Larsen 1978: median ± 1.57 IQR/√n): where
the notches of two samples do not overlap, their medians differ with about 95 % confidence.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, sqrt
from statistics import median, quantiles

LEAST_VALUES = 4  # that have quartiles


@dataclass(frozen=True, slots=True)
class ObservedKill:
    """``at_s`` and the others are seconds of one clock; ``expired_s``: the end of the broker's session with ZooKeeper.
    ``coordinated``: the groups whose coordinator it was. ``led``: groups of whose topic it led a partition."""

    broker_id: int
    role: str
    at_s: float
    expired_s: float
    coordinated: frozenset[str]
    led: frozenset[str] = frozenset()


@dataclass(slots=True)
class GroupTimes:
    """The times of a group: when the members' commits were accepted, and when they had records of each partition,
    ascending."""

    commits: list[float] = field(default_factory=list)
    reads: dict[int, list[float]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GroupOutage:
    """Seconds from a kill on. ``coordinator_s``: to the first commit that another coordinator accepted, None where the
    coordinator lived. ``records_s``: until each partition had a record. inf: never."""

    group: str
    kill: int
    coordinator_s: float | None
    after_expiry_s: float | None
    records_s: float


def _first(times: Sequence[float], from_s: float) -> float:
    index = bisect_left(times, from_s)
    return times[index] if index < len(times) else inf


def outages(kills: Sequence[ObservedKill], groups: Mapping[str, GroupTimes], partitions: int) -> list[GroupOutage]:
    """Of each kill and each group that it concerned. Before the session's end no other broker leads: what a client reports
    until then, the dead broker had done."""
    rows = []
    for number, kill in enumerate(kills):
        for group, times in groups.items():
            if group not in kill.coordinated | kill.led:
                continue
            commit_s = _first(times.commits, kill.expired_s)
            records_s = max(_first(times.reads.get(p, ()), kill.expired_s) for p in range(partitions))
            is_struck = group in kill.coordinated
            rows.append(
                GroupOutage(
                    group,
                    number,
                    commit_s - kill.at_s if is_struck else None,
                    commit_s - kill.expired_s if is_struck else None,
                    records_s - kill.at_s,
                )
            )
    return rows


def slowest_by_kill(rows: Sequence[GroupOutage]) -> list[float]:
    """Of each kill of a coordinator the longest time of a group without one: groups of one kill are no independent samples."""
    by_kill: dict[int, float] = {}
    for row in rows:
        if row.coordinator_s is not None:
            by_kill[row.kill] = max(row.coordinator_s, by_kill.get(row.kill, 0.0))
    return list(by_kill.values())


@dataclass(frozen=True, slots=True)
class OutageFigure:
    """Figures of a sample of seconds; ``notch``: half the width of the interval around the median."""

    median: float
    worst: float
    notch: float
    count: int


def figure(sample: Sequence[float]) -> OutageFigure | None:
    """None of an empty sample."""
    return OutageFigure(median(sample), max(sample), notch(sample), len(sample)) if sample else None


def notch(sample: Sequence[float]) -> float:
    """Half the width around the median. Of fewer than `LEAST_VALUES`: the whole range."""
    if len(sample) < LEAST_VALUES:
        return max(sample) - min(sample)
    first, _, third = quantiles(sample, n=4, method="inclusive")
    return 1.57 * (third - first) / sqrt(len(sample))


def is_slower(ours: OutageFigure, theirs: OutageFigure) -> bool:
    """Whether our median is above theirs by more than the spread from kill to kill allows. False where there are too few kills
    to know that spread."""
    if min(ours.count, theirs.count) < LEAST_VALUES:
        return False
    return ours.median - ours.notch > theirs.median + theirs.notch
