"""A chart with both axes logarithmic: how something grows, with its spread."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from coterie.console.page import WIDTH, Markup, markup_text
from coterie.console.svg import LEFT, RIGHT, caption, colours, short, svg
from coterie.text.quantity import quantity

Scale = Callable[[float], float]
TOP, BOTTOM, HEIGHT = 40, 300, 344
END = 130  # for the curves' names, at their right ends
MARKERS = ("circle", "square", "diamond", "triangle", "circle", "square")


@dataclass(frozen=True, slots=True)
class Growth:
    """A curve: (size, mean, lowest, highest); what is not above zero is left out."""

    name: str
    points: Sequence[tuple[float, float, float, float]]


def growth_chart(
    curves: Sequence[Growth],
    title: str,
    unit: str,
    sizes: Sequence[int],
    known: Sequence[str] = (),
    noun: str = "member",
) -> Markup:
    """Sizes to the right, values up, each a tenfold per step. ``known``: curves that have their colours in every picture;
    ``noun``: what a size counts."""
    colour = colours([*known, *(curve.name for curve in curves)])
    values = [v for curve in curves for _, *spread in curve.points for v in spread if v > 0]
    low = 10 ** math.floor(math.log10(min(values, default=1)))
    high = 10 ** math.ceil(math.log10(max(values, default=10)) + 1e-9)
    high = max(high, low * 10)

    def x(size: float) -> float:
        share = math.log10(size / sizes[0]) / max(math.log10(sizes[-1] / sizes[0]), 1e-9)
        return LEFT + (WIDTH - LEFT - RIGHT - END) * share

    def y(value: float) -> float:
        return BOTTOM - (BOTTOM - TOP) * math.log10(max(value, low) / low) / math.log10(high / low)

    parts: list[str] = [
        caption(4, 20, unit, css="small"),
        caption(x(sizes[-1]), HEIGHT - 6, f"{noun}s", "end", "small"),
    ]
    value = low
    while value <= high * 1.0001:
        parts.append(
            f'<line x1="{LEFT}" y1="{y(value):.1f}" x2="{x(sizes[-1]):.1f}" y2="{y(value):.1f}" class="grid"/>'
        )
        parts.append(caption(LEFT - 8, y(value) + 4, short(value), "end", "small"))
        value *= 10
    for size in sizes:
        parts.append(f'<line x1="{x(size):.1f}" y1="{BOTTOM}" x2="{x(size):.1f}" y2="{BOTTOM + 4}" class="axis"/>')
        parts.append(caption(x(size), BOTTOM + 18, f"{size:,}", "middle", "small"))
    for index, curve in enumerate(curves):
        parts += _curve(curve, x, y, colour[curve.name], MARKERS[index % len(MARKERS)], noun)
    return svg(HEIGHT, title, [*parts, *_names(curves, x, y, colour)])


def _names(curves: Sequence[Growth], x: Scale, y: Scale, colour: Mapping[str, str]) -> list[str]:
    """At the right ends of the curves, one below the other where they would overlap."""
    ends = []
    for curve in curves:
        shown = [point for point in curve.points if point[1] > 0]
        if shown:
            ends.append((y(shown[-1][1]), x(shown[-1][0]), curve.name))
    parts, last = [], float("-inf")
    for at, end, name in sorted(ends):
        last = max(at, last + 15)
        parts.append(f'<rect x="{end + 10:.1f}" y="{last - 5:.1f}" width="10" height="10" fill="{colour[name]}"/>')
        parts.append(caption(end + 25, last + 4, name, css="small bold"))
    return parts


def _curve(curve: Growth, x: Scale, y: Scale, colour: str, marker: str, noun: str) -> list[str]:
    shown = [point for point in curve.points if point[1] > 0]
    if not shown:
        return []
    path = " ".join(f"{x(size):.1f},{y(mean):.1f}" for size, mean, _, _ in shown)
    parts = [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>']
    for size, mean, lowest, highest in shown:
        counted = quantity(round(size), noun)
        tooltip = f"<title>{markup_text(curve.name)}, {counted}: {mean:,.2f} ({lowest:,.2f} to {highest:,.2f})</title>"
        parts.append(
            f'<line x1="{x(size):.1f}" y1="{y(lowest):.1f}" x2="{x(size):.1f}" y2="{y(highest):.1f}" '
            f'stroke="{colour}" stroke-width="1.5"/>'
        )
        parts.append(_marker(marker, x(size), y(mean), colour, tooltip))
    return parts


def _marker(kind: str, x: float, y: float, colour: str, tooltip: str) -> str:
    shapes = {
        "circle": f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4"',
        "square": f'<rect x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8"',
        "diamond": f'<path d="M{x:.1f} {y - 5:.1f} L{x + 5:.1f} {y:.1f} L{x:.1f} {y + 5:.1f} L{x - 5:.1f} {y:.1f} Z"',
        "triangle": f'<path d="M{x:.1f} {y - 5:.1f} L{x + 5:.1f} {y + 4:.1f} L{x - 5:.1f} {y + 4:.1f} Z"',
    }
    return f'{shapes[kind]} fill="{colour}">{tooltip}</{shapes[kind].split(" ", 1)[0][1:]}>'
