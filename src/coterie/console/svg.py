"""Pictures as SVG text: lines over time, bars. Colours that colour-blind people tell apart."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from coterie.console.page import SVG_STYLE, WIDTH, Chart, Markup, markup_text

# Okabe and Ito's palette, and three of Paul Tol's.
PALETTE = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#CC79A7",
    "#56B4E9",
    "#D55E00",
    "#F0E442",
    "#999999",
    "#882255",
    "#117733",
    "#661100",
)
LEFT, RIGHT = 110, 20
PHONE_LEFT = 60
MARGIN = 12  # around each picture, which may be shown on any background
CURVE_WIDTH = 220  # of a line chart's names
LONGEST_BAR_NAME, LONGEST_ON_A_PHONE = 64, 48  # characters; of longer names the tooltip has the rest


@dataclass(frozen=True, slots=True)
class Line:
    """A curve: (seconds, value)."""

    name: str
    points: Sequence[tuple[float, float]]


def x_of(time_s: float, end_s: float, left: float = LEFT, whole: float = WIDTH) -> float:
    """The position of a time on an axis from ``left`` to the right end of a picture that is ``whole`` wide."""
    return left + (whole - left - RIGHT) * time_s / max(end_s, 0.001)


def caption(x: float, y: float, text: str, anchor: str = "start", css: str = "") -> Markup:
    """A text; ``anchor`` start, middle or end."""
    return Markup(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{css}">{markup_text(text)}</text>')


def time_axis(y: float, end_s: float, left: float = LEFT, whole: float = WIDTH) -> str:
    """Labels of whole seconds, minutes or hours below ``y``."""
    most = int((whole - left) // 60)
    step = next((s for s in _STEPS_S if end_s / s <= most), int(end_s // most) + 1)
    parts = []
    for second in range(0, int(end_s) + 1, step):
        x = x_of(second, end_s, left, whole)
        parts.append(f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{x:.1f}" y2="{y + 4:.1f}" class="axis"/>')
        parts.append(caption(x, y + 16, _time_text(second, step), "middle", "small"))
    return "".join(parts)


def _time_text(second: int, step: int) -> str:
    if step < 60:
        return f"{second} s"
    return f"{second // 60} min" if step < 3600 else f"{second / 3600:g} h"


_STEPS_S = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14_400, 43_200, 86_400)


def svg(height: float, title: str, parts: Sequence[str], whole: int = WIDTH) -> Markup:
    """A picture: the parts within 0 to ``whole`` and 0 to ``height``, and a margin."""
    x, width, full_height = -MARGIN, whole + 2 * MARGIN, f"{height + 2 * MARGIN:.0f}"
    return Markup(
        f'<svg viewBox="{x} {x} {width} {full_height}" role="img" aria-label="{markup_text(title)}" '
        f'xmlns="http://www.w3.org/2000/svg"><title>{markup_text(title)}</title><style>{SVG_STYLE}</style>'
        f'<rect x="{x}" y="{x}" width="{width}" height="{full_height}" class="paper"/>{"".join(parts)}</svg>'
    )


def colours(names: Sequence[str]) -> dict[str, str]:
    """A colour for each name, in order of first appearance; the twelfth is the first again."""
    return {name: PALETTE[index % len(PALETTE)] for index, name in enumerate(dict.fromkeys(names))}


def round_step(highest: float) -> int:
    """The distance of an axis' labels: 1, 2 or 5 times a power of ten, so that four of them reach ``highest``."""
    power: int = 10 ** max(math.floor(math.log10(max(highest, 1) / 4)), 0)
    return next(power * factor for factor in (1, 2, 5, 10) if 4 * power * factor >= highest)


def line_chart(lines: Sequence[Line], end_s: float, title: str, unit: str) -> Chart:
    """Curves over time from zero up."""
    return Chart.of(lambda whole: _curves(lines, end_s, title, unit, whole))


def _curves(lines: Sequence[Line], end_s: float, title: str, unit: str, whole: int) -> Markup:
    colour = colours([line.name for line in lines])
    left = LEFT if whole == WIDTH else PHONE_LEFT
    names_per_line = max((whole - left) // CURVE_WIDTH, 1)
    below = 20 * max((len(lines) - 1) // names_per_line, 0)  # for more lines of names
    top, bottom, height = 30 + below, 230 + below, 262 + below
    largest = max((v for line in lines for _, v in line.points), default=0)
    step = round_step(largest)
    count = max(math.ceil(largest / step), 1)
    highest = step * count
    parts = []
    for part in range(count + 1):
        value = step * part
        y = bottom - (bottom - top) * part / count
        parts.append(f'<line x1="{left}" y1="{y:.1f}" x2="{whole - RIGHT}" y2="{y:.1f}" class="grid"/>')
        parts.append(caption(left - 8, y + 4, f"{value:,.0f}", "end", "small"))
    parts.append(caption(left - 8, 16, unit, "end", "small"))
    for index, line in enumerate(lines):
        path = " ".join(
            f"{x_of(t, end_s, left, whole):.1f},{bottom - (bottom - top) * v / highest:.1f}" for t, v in line.points
        )
        dash = ' stroke-dasharray="6 3"' if index % 2 else ""
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour[line.name]}" stroke-width="2"{dash}/>')
        name_x, name_y = left + index % names_per_line * CURVE_WIDTH, 11 + 20 * (index // names_per_line)
        dash = f'stroke="{colour[line.name]}" stroke-width="3"{dash}'
        parts.append(f'<line x1="{name_x}" y1="{name_y}" x2="{name_x + 24}" y2="{name_y}" {dash}/>')
        parts.append(caption(name_x + 30, name_y + 5, line.name))
    parts.append(time_axis(bottom + 4, end_s, left, whole))
    return svg(height, title, parts, whole)


def bars(values: Sequence[tuple[str, float]], title: str, unit: str) -> Chart:
    """Horizontal bars, labelled with name and value; on a phone the names are above them."""
    return Chart.of(lambda whole: _bars(values, title, unit, whole))


def _bars(values: Sequence[tuple[str, float]], title: str, unit: str, whole: int) -> Markup:
    is_wide = whole == WIDTH
    row_height, above, most = (22, 0, LONGEST_BAR_NAME) if is_wide else (42, 18, LONGEST_ON_A_PHONE)
    longest = max((len(name) for name, _ in values), default=0)
    left = max(LEFT, 8 + 7 * min(longest, most)) if is_wide else 0
    height = len(values) * row_height + 24
    highest = max((abs(v) for _, v in values), default=0) or 1
    are_counts = all(value == int(value) for _, value in values)
    parts: list[str] = [caption(left, 12, unit, css="small")]
    for index, (name, value) in enumerate(values):
        y = 20 + index * row_height
        width = max(value, 0) / highest * (whole - left - RIGHT - 90)
        shown = name if len(name) <= most else name[: most - 1] + "…"
        parts.append(caption(left - 8 if is_wide else 0, y + 14, shown, "end" if is_wide else "start", "small"))
        y += above
        parts.append(
            f'<rect x="{left}" y="{y}" width="{width:.1f}" height="17" fill="{PALETTE[0]}">'
            f"<title>{markup_text(name)}</title></rect>"
        )
        label = f"{value:,.0f}" if are_counts else f"{value:,.1f}"
        parts.append(caption(left + width + 6, y + 13, label, css="small"))
    return svg(height, title, parts, whole)


@dataclass(frozen=True, slots=True)
class Spread:
    """A bar: its group, a mean, and between which values it was."""

    name: str
    group: str
    mean: float
    low: float
    high: float


def small_multiples(
    panels: Sequence[tuple[str, str, Sequence[Spread]]], title: str, columns: int = 2, known: Sequence[str] = ()
) -> Markup:
    """A panel per measure (name, unit, bars), all with the same rows: bars coloured by group, with the spread as a line.
    ``known``: groups that have their colours in every picture, shown here or not."""
    groups = dict.fromkeys(s.group for _, _, spreads in panels for s in spreads)
    of_all = colours([*known, *groups])
    colour = {group: of_all[group] for group in groups}
    rows = max((len(spreads) for _, _, spreads in panels), default=0)
    label, row_height, gap = 190, 18, 26
    width = (WIDTH - gap * (columns - 1)) / columns
    height = rows * row_height + 52
    parts, begin = _legend(colour)
    for index, (name, unit, spreads) in enumerate(panels):
        left, top = (index % columns) * (width + gap), begin + (index // columns) * height
        highest = max((s.high for s in spreads), default=0) or 1
        parts.append(caption(left, top + 12, name, css="bold") + caption(left + width, top + 12, unit, "end", "small"))
        for row, s in enumerate(spreads):
            y = top + 22 + row * row_height
            scale = (width - label - 70) / highest
            parts.append(caption(left + label - 6, y + 11, s.name, "end", "small"))
            parts.append(
                f'<rect x="{left + label:.1f}" y="{y:.1f}" width="{max(s.mean * scale, 0.5):.1f}" height="{row_height - 5}" '
                f'fill="{colour[s.group]}"><title>{markup_text(s.name)}: {s.mean:,.1f} ({s.low:,.1f} to {s.high:,.1f})'
                "</title></rect>"
            )
            middle = y + (row_height - 5) / 2
            if s.high > s.low:
                ends = left + label + s.low * scale, left + label + s.high * scale
                parts.append(
                    f'<line x1="{ends[0]:.1f}" y1="{middle:.1f}" x2="{ends[1]:.1f}" y2="{middle:.1f}" class="spread"/>'
                )
            parts.append(caption(left + label + max(s.mean, s.high) * scale + 5, y + 11, short(s.mean), css="small"))
    lines = -(-len(panels) // columns)
    return svg(begin + lines * height, title, parts)


def _legend(colour: Mapping[str, str]) -> tuple[list[str], float]:
    """The groups' colours, in as many lines as they need; and where the panels begin below them."""
    parts, x, y = [], 0.0, 2.0
    for name, fill in colour.items():
        needed = 40.0 + 8 * len(name)
        if x and x + needed > WIDTH:
            x, y = 0.0, y + 20
        parts.append(f'<rect x="{x:.0f}" y="{y:.0f}" width="14" height="14" fill="{fill}"/>')
        parts.append(caption(x + 20, y + 12, name))
        x += needed
    return parts, y + 28


def short(value: float) -> str:
    """Three digits that matter."""
    if value >= 1_000_000:
        return f"{value / 1_000_000:.3g} M"
    if value >= 10_000:
        return f"{value / 1000:.3g} k"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
