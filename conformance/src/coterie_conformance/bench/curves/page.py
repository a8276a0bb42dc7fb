"""Cost as it grows, as a page: a picture and a table for each measure over each axis, and the slope of each curve.

The page is a function of the points that `bench/curves/growth` measured.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from coterie.console.growth_chart import Growth, growth_chart
from coterie.console.study_page import number
from coterie.text.quantity import quantity

FITTED = 3  # of a curve's largest sizes: below them the fixed part of a cost hides its growth
CONSTANT, LINEAR = 0.1, (0.9, 1.1)  # exponents


@dataclass(frozen=True, slots=True)
class CostPoint:
    """What one size costs one broker; MEASURES has the meanings of ``costs``."""

    axis: str
    broker: str
    size: int
    costs: dict[str, float]


@dataclass(frozen=True, slots=True)
class CurveEnd:
    """A curve has no point from ``size`` on."""

    axis: str
    broker: str
    size: int
    reason: str


@dataclass(frozen=True, slots=True)
class AxisText:
    """What grows, and the load at each size."""

    noun: str
    load: str


AXIS_TEXTS = {
    "connections": AxisText("connection", "Each connection sends heartbeats of a group of its own."),
    "members": AxisText("member", "One more member joins a group of so many, each with a connection."),
    "groups": AxisText(
        "group", "Each group has a committed offset; a hundred of them commit, and all of them are listed."
    ),
    "partitions": AxisText("partition", "Topics of up to 1,000 partitions are created, and all of them are described."),
    "bytes": AxisText("byte", "One record of so many bytes is produced and fetched, in a request of its own."),
}
MEASURES = {
    "heartbeat_us": ("processor time of a heartbeat", "µs"),
    "join_us": ("processor time of a member's part in a rebalance", "µs"),
    "rebalance_ms": ("duration of a rebalance", "ms"),
    "commit_us": ("processor time of a commit", "µs"),
    "group_listed_us": ("processor time of a group in a response to ListGroups", "µs"),
    "partition_created_us": ("processor time of a partition's creation", "µs"),
    "partition_described_us": ("processor time of a partition in a response to Metadata", "µs"),
    "produce_us": ("processor time of a Produce request", "µs"),
    "fetch_us": ("processor time of a Fetch request", "µs"),
    "memory_mb": ("resident memory of the broker", "MB"),
}
# By the first word of a broker's name: what its costs leave out.
BROKER_NOTES = {
    "kfake": "kfake, the broker of franz-go's tests, keeps everything in memory: no file stands behind a commit."
}
Pairs = Sequence[tuple[float, float]]


def slope(points: Pairs) -> float | None:
    """The exponent with which values grow over the largest FITTED sizes, by least squares of their logarithms; None with fewer
    than two points. Sizes and values are above zero."""
    fitted = [(math.log(size), math.log(value)) for size, value in sorted(points)[-FITTED:]]
    if len(fitted) < 2:
        return None
    x_mean, y_mean = (sum(values) / len(fitted) for values in zip(*fitted, strict=True))
    variance: float = sum((x - x_mean) ** 2 for x, _ in fitted)
    covariance: float = sum((x - x_mean) * (y - y_mean) for x, y in fitted)
    return covariance / variance


def slope_text(exponent: float | None) -> str:
    """An exponent with its name."""
    if exponent is None:
        return "too few points"
    if abs(exponent) < CONSTANT:
        name = "constant"
    elif exponent < 0:
        name = "falls"
    elif exponent < LINEAR[0]:
        name = "less than linear"
    else:
        name = "linear" if exponent <= LINEAR[1] else "more than linear"
    return f"{name} ({exponent:.2f})"


def markdown(results: Mapping[str, Any], folder: str) -> str:
    """The whole page from the results; its pictures are in ``folder``."""
    points = [CostPoint(**point) for point in results["points"]]
    ends = [CurveEnd(**end) for end in results["ends"]]
    machine = results["machine"]
    parts = [
        "# Cost as it grows\n",
        (
            "What a broker costs as members, connections, groups, partitions and records grow: one core for each broker, the "
            f"same driver on another, both in one run. By `{results['command']}` on {results['date']}: "
            f"{quantity(machine['cores'], 'core')}, {machine['system']}, Python {machine['python']}; load averages of "
            f"{results['load'][0]:g} at the start and {results['load'][1]:g} at the end, with other work beside it, which "
            "makes figures larger. Processor time is that of "
            "the broker's process, all its threads, divided by the units of work. A slope is the exponent by which a curve "
            f"grows over its largest {quantity(FITTED, 'size')}: 0 is constant, 1 linear. Where the cost of each unit is "
            "constant, the whole grows linearly.\n"
        ),
        _sentences(points),
        _slopes(points),
        *(f"{note}\n" for note in _notes(points)),
    ]
    for axis in dict.fromkeys(point.axis for point in points):
        mine = [point for point in points if point.axis == axis]
        parts += [f"## {axis.capitalize()}\n", f"{AXIS_TEXTS[axis].load}\n"]
        parts += [
            f"![{MEASURES[measure][0]}, over {axis}]({folder}/{picture_name(axis, measure)}.svg)\n\n"
            f"*{_sentence(mine, axis, measure)}*\n"
            for measure in _measures(mine, axis)
        ]
        parts += [_table(mine), *(_end(end) for end in ends if end.axis == axis)]
    return "\n".join(parts).rstrip() + "\n"


def picture_name(axis: str, measure: str) -> str:
    """The file name of a curve's picture, without its ending."""
    return f"{axis}-{measure}".replace("_", "-")


def pictures(points: Sequence[CostPoint]) -> dict[str, str]:
    """File name without its ending -> SVG."""
    drawn: dict[str, str] = {}
    brokers = list(dict.fromkeys(point.broker for point in points))
    for axis in dict.fromkeys(point.axis for point in points):
        for measure in _measures(points, axis):
            heading, unit = MEASURES[measure]
            curves = [
                Growth(broker, [(size, value, value, value) for size, value in _pairs(points, axis, broker, measure)])
                for broker in brokers
            ]
            sizes = sorted({point.size for point in points if point.axis == axis})
            title, noun = f"{heading}, over {axis}", AXIS_TEXTS[axis].noun
            drawn[picture_name(axis, measure)] = growth_chart(curves, title, unit, sizes, brokers, noun)
    return drawn


def _measures(points: Iterable[CostPoint], axis: str) -> list[str]:
    measured = {name for point in points if point.axis == axis for name in point.costs}
    return [name for name in MEASURES if name in measured]


def _pairs(points: Iterable[CostPoint], axis: str, broker: str, measure: str) -> list[tuple[float, float]]:
    mine = [point for point in points if (point.axis, point.broker) == (axis, broker)]
    return [(point.size, point.costs[measure]) for point in mine if point.costs.get(measure, 0) > 0]


def _sentences(points: Sequence[CostPoint]) -> str:
    """One sentence for each picture."""
    lines = ["What the charts show, a sentence each:\n"]
    for axis in dict.fromkeys(point.axis for point in points):
        lines += [f"- {_sentence(points, axis, measure)}" for measure in _measures(points, axis)]
    return "\n".join(lines) + "\n"


def _sentence(points: Sequence[CostPoint], axis: str, measure: str) -> str:
    """What a picture shows: of each broker the value at its largest size, and how the curve grows."""
    heading, unit = MEASURES[measure]
    shares = []
    for broker in dict.fromkeys(point.broker for point in points):
        pairs = sorted(_pairs(points, axis, broker, measure))
        if pairs:
            size, value = pairs[-1]
            at = quantity(int(size), AXIS_TEXTS[axis].noun)
            name = slope_text(slope(pairs)).partition(" (")[0]
            shares.append(f"{broker} {number(value)} {unit} at {at} ({name})")
    return f"{heading[:1].upper()}{heading[1:]}, over {axis}: {'; '.join(shares)}."


def _notes(points: Iterable[CostPoint]) -> list[str]:
    names = {point.broker.split()[0] for point in points}
    return [note for name, note in BROKER_NOTES.items() if name in names]


def _slopes(points: Sequence[CostPoint]) -> str:
    brokers = list(dict.fromkeys(point.broker for point in points))
    lines = [f"| measure | over | {' | '.join(brokers)} |", f"|---|---|{'---|' * len(brokers)}"]
    for axis in dict.fromkeys(point.axis for point in points):
        for measure in _measures(points, axis):
            slopes = [slope_text(slope(_pairs(points, axis, broker, measure))) for broker in brokers]
            lines.append(f"| {MEASURES[measure][0]} | {axis} | {' | '.join(slopes)} |")
    return "\n".join(lines) + "\n"


def _table(points: Sequence[CostPoint]) -> str:
    axis, brokers = points[0].axis, list(dict.fromkeys(point.broker for point in points))
    measures = _measures(points, axis)
    costs = {(point.broker, point.size): point.costs for point in points}
    headings = [
        f"{MEASURES[measure][0]}, {MEASURES[measure][1]}: {broker}" for measure in measures for broker in brokers
    ]
    lines = ["<details><summary>In figures</summary>\n", f"| {axis} | {' | '.join(headings)} |"]
    lines.append(f"|---:|{'---:|' * len(headings)}")
    for size in sorted({point.size for point in points}):
        cells = [costs.get((broker, size), {}).get(measure) for measure in measures for broker in brokers]
        lines.append(f"| {size:,} | {' | '.join('–' if cell is None else number(cell) for cell in cells)} |")
    return "\n".join([*lines, "\n</details>\n"])


def _end(end: CurveEnd) -> str:
    return f"No point of {end.broker} with {quantity(end.size, AXIS_TEXTS[end.axis].noun)} or more: {end.reason}.\n"
