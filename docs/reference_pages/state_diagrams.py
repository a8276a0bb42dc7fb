"""The states of a group and the stages of a member as pictures: the arrows are the tables that the code checks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html import escape

from coterie.coordinator.state import LEGAL_PREDECESSORS, Phase
from coterie.member.consumer.state import CONSUMER_SUCCESSORS, ConsumerStage
from coterie.member.state import KAFKA_STATES, LEGAL_SUCCESSORS, NOT_TAKING_PART, Stage
from reference_pages.markdown import code, table

Edge = tuple[str, str]
BOX_WIDTH, BOX_HEIGHT = 168.0, 38.0
COLUMN, ROW = 240.0, 104.0

_ARROW_HEAD = (
    '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path d="M0,0 L8,4 L0,8 Z" fill="currentColor"/></marker></defs>'
)

# Where each state stands in its picture: column and row.
GROUP_LAYOUT: dict[Phase, tuple[float, float]] = {
    Phase.EMPTY: (0, 0),
    Phase.PREPARING: (1, 0),
    Phase.COMPLETING: (2, 0),
    Phase.STABLE: (2, 1),
    Phase.DEAD: (0, 1),
}
MEMBER_LAYOUT = {
    Stage.UNJOINED: (0.0, 1.2),
    Stage.FAILED: (0.0, 2.4),
    Stage.REJOIN_NEEDED: (1.4, 1.2),
    Stage.REVOKING: (0.0, 0.0),
    Stage.READY: (1.0, 0.0),
    Stage.JOINING: (2.0, 0.0),
    Stage.ASSIGNING: (3.0, 0.5),
    Stage.SYNCING: (3.0, 1.5),
    Stage.RELEASING: (3.0, 2.4),
    Stage.STABLE: (1.8, 2.4),
}
CONSUMER_MEMBER_LAYOUT = {
    ConsumerStage.FENCED: (0.6, 0.0),
    ConsumerStage.UNSUBSCRIBED: (0.0, 1.0),
    ConsumerStage.JOINING: (1.0, 1.0),
    ConsumerStage.RECONCILING: (2.0, 1.0),
    ConsumerStage.ACKNOWLEDGING: (3.0, 1.0),
    ConsumerStage.STABLE: (2.5, 2.0),
    ConsumerStage.STALE: (0.8, 2.0),
    ConsumerStage.LEAVING: (0.0, 3.0),
    ConsumerStage.PREPARE_LEAVING: (1.0, 3.0),
}
# Reached from every stage of `TAKES_TARGETS`.
CONSUMER_MEMBER_EXITS = frozenset({ConsumerStage.FENCED, ConsumerStage.PREPARE_LEAVING, ConsumerStage.FATAL})


@dataclass(frozen=True, slots=True)
class _Box:
    name: str
    x: float  # of its middle
    y: float


def group_edges() -> list[Edge]:
    """(from, to) of every legal transition of a classic group, by the names that Kafka gives the states."""
    return [(before.value, after.value) for after, befores in LEGAL_PREDECESSORS.items() for before in sorted(befores)]


def member_edges() -> list[Edge]:
    """(from, to) of every transition of a member, except to the stages in which it takes no part."""
    return [
        (before.name, after.name)
        for before, afters in LEGAL_SUCCESSORS.items()
        for after in sorted(afters - NOT_TAKING_PART, key=lambda stage: stage.name)
    ]


def consumer_member_edges() -> list[Edge]:
    """(from, to) of every transition of a member of the consumer protocol, except to `CONSUMER_MEMBER_EXITS`."""
    return [
        (before.name, after.name)
        for before, afters in CONSUMER_SUCCESSORS.items()
        for after in sorted(afters - CONSUMER_MEMBER_EXITS, key=lambda stage: stage.name)
    ]


def _boxes(layout: Mapping[str, tuple[float, float]]) -> dict[str, _Box]:
    return {
        name: _Box(name, 20 + BOX_WIDTH / 2 + column * COLUMN, 24 + BOX_HEIGHT / 2 + row * ROW)
        for name, (column, row) in layout.items()
    }


def _border(box: _Box, towards_x: float, towards_y: float) -> tuple[float, float]:
    """The point of a box's border on the way from its middle to another point."""
    dx, dy = towards_x - box.x, towards_y - box.y
    half_width, half_height = BOX_WIDTH / 2 + 3, BOX_HEIGHT / 2 + 3
    scale = min(half_width / abs(dx) if dx else float("inf"), half_height / abs(dy) if dy else float("inf"))
    return box.x + dx * scale, box.y + dy * scale


def _arrow(start: _Box, end: _Box) -> str:
    """A curve that bends to its left, so that the arrow back is another one."""
    dx, dy = end.x - start.x, end.y - start.y
    length = (dx * dx + dy * dy) ** 0.5
    bend = 18 if length < 1.5 * COLUMN else 62
    middle_x, middle_y = (start.x + end.x) / 2 + dy / length * bend, (start.y + end.y) / 2 - dx / length * bend
    (x1, y1), (x2, y2) = _border(start, middle_x, middle_y), _border(end, middle_x, middle_y)
    return (
        f'<path class="edge" data-from="{escape(start.name)}" data-to="{escape(end.name)}" fill="none" '
        f'stroke="currentColor" marker-end="url(#arrow)" '
        f'd="M{x1:.0f},{y1:.0f} Q{middle_x:.0f},{middle_y:.0f} {x2:.0f},{y2:.0f}"/>'
    )


def svg(title: str, layout: Mapping[str, tuple[float, float]], edges: Iterable[Edge]) -> str:
    """One picture, in the colours of the page; every edge's path names its ends in data-from and data-to."""
    boxes = _boxes(layout)
    width = 40 + BOX_WIDTH + max(column for column, _ in layout.values()) * COLUMN
    height = 48 + BOX_HEIGHT + max(row for _, row in layout.values()) * ROW
    size = f'viewBox="0 0 {width:.0f} {height:.0f}" style="max-width:{width:.0f}px;width:100%;font:14px sans-serif"'
    parts = [f'<svg role="img" aria-label="{escape(title)}" {size}>', f"<title>{escape(title)}</title>", _ARROW_HEAD]
    parts += [_arrow(boxes[before], boxes[after]) for before, after in edges]
    for box in boxes.values():
        left, top = box.x - BOX_WIDTH / 2, box.y - BOX_HEIGHT / 2
        parts.append(
            f'<rect x="{left:.0f}" y="{top:.0f}" width="{BOX_WIDTH:.0f}" height="{BOX_HEIGHT:.0f}" rx="6" '
            f'fill="none" stroke="currentColor"/>'
            f'<text x="{box.x:.0f}" y="{box.y + 5:.0f}" text-anchor="middle" fill="currentColor">{escape(box.name)}</text>'
        )
    return "\n".join([*parts, "</svg>"]) + "\n"


def group_states() -> str:
    """The picture, and the same as a table."""
    layout = {phase.value: cell for phase, cell in GROUP_LAYOUT.items()}
    rows = (
        (code(after.value), ", ".join(code(before.value) for before in sorted(befores)))
        for after, befores in LEGAL_PREDECESSORS.items()
    )
    return svg("States of a group", layout, group_edges()) + "\n" + table(("state", "reached from"), rows)


def member_stages() -> str:
    """The picture without the ways out, and all of them as a table."""
    layout = {stage.name: cell for stage, cell in MEMBER_LAYOUT.items()}
    rows = (
        (
            code(before.name),
            ", ".join(code(after.name) for after in sorted(afters, key=lambda stage: stage.name)),
            ", ".join(code(state) for state in KAFKA_STATES[before]),
        )
        for before, afters in LEGAL_SUCCESSORS.items()
    )
    return (
        svg("Stages of a member", layout, member_edges())
        + "\n"
        + table(("stage", "leads to", "in Kafka's client"), rows)
    )


def consumer_member_stages() -> str:
    """The picture without the exits, and all of them as a table."""
    layout = {stage.name: cell for stage, cell in CONSUMER_MEMBER_LAYOUT.items()}
    rows = (
        (code(before.name), ", ".join(code(after.name) for after in sorted(afters, key=lambda stage: stage.name)))
        for before, afters in CONSUMER_SUCCESSORS.items()
    )
    picture = svg("Stages of a member of the consumer protocol", layout, consumer_member_edges())
    return picture + "\n" + table(("stage", "leads to"), rows)
