"""Draws who owns which partition during one event, for the concept pages: the laboratory runs the event in virtual time.

    python docs/concepts/ownership_pictures.py      writes docs/concepts/ownership-*.svg

The same seed gives the same pictures; tests/docs/test_ownership_pictures.py draws them again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from coterie.console.page import WIDTH, Markup, markup_text
from coterie.console.svg import LEFT, RIGHT, caption, colours, svg, time_axis, x_of
from coterie.laboratory.deliveries import Ownership, TopicPartition
from coterie.laboratory.experiments import ExperimentGroup

HERE = Path(__file__).parent
MEMBERS, PARTITIONS, SEED = 3, 12, 2
LISTENER_MS = 100
LEAD_MS = 2_000  # shown before the event
AWAY_MS = 4_000


@dataclass(slots=True)
class RecordedOwnership(Ownership):
    """Keeps each stretch of time for which a member owned a partition: (partition, member, from ms, until ms)."""

    stretches: list[tuple[TopicPartition, str, int, int]] = field(default_factory=list)
    owned_since_ms: dict[tuple[TopicPartition, str], int] = field(default_factory=dict)

    def changed(self, name: str, before: set[TopicPartition], after: set[TopicPartition], now_ms: int) -> None:
        Ownership.changed(self, name, before, after, now_ms)
        for partition in before - after:
            self.stretches.append((partition, name, self.owned_since_ms.pop((partition, name)), now_ms))
        for partition in after - before:
            self.owned_since_ms[partition, name] = now_ms

    def until(self, now_ms: int) -> list[tuple[TopicPartition, str, int, int]]:
        """All stretches; one that has not ended is cut off at ``now_ms``."""
        lasting = [(partition, name, since_ms, now_ms) for (partition, name), since_ms in self.owned_since_ms.items()]
        return sorted(self.stretches + lasting)


def _one_joins(group: ExperimentGroup, assignor: str) -> Iterator[tuple[int, str, Callable[[], None]]]:
    yield LEAD_MS, "m003 joins", group.add((assignor,)).start


def _one_restarts(group: ExperimentGroup, assignor: str) -> Iterator[tuple[int, str, Callable[[], None]]]:
    member = group.members[1]

    def stop() -> None:
        # A static member sends no LeaveGroup when it closes.
        member.crash() if member.config.group_instance_id else member.leave()

    yield LEAD_MS, "m001 stops", stop
    yield LEAD_MS + AWAY_MS, "m001 is back", member.start


@dataclass(frozen=True, slots=True)
class Scene:
    """An event and the settings under which it happens; ``shown_ms``: the length of the picture."""

    title: str
    assignor: str
    event: Callable[[ExperimentGroup, str], Iterator[tuple[int, str, Callable[[], None]]]]
    shown_ms: int
    static: bool = False


SCENES = {
    "ownership-eager": Scene("One member joins, eager (sticky)", "sticky", _one_joins, 12_000),
    "ownership-cooperative": Scene("One member joins, cooperative", "cooperative-sticky", _one_joins, 12_000),
    "ownership-dynamic": Scene("A dynamic member restarts, eager (sticky)", "sticky", _one_restarts, 16_000),
    "ownership-static": Scene("A static member restarts", "sticky", _one_restarts, 16_000, static=True),
}


def draw(scene: Scene) -> str:
    """The picture as SVG: a row for each partition, a colour for each member, light grey where it is unowned."""
    group = ExperimentGroup(PARTITIONS, LISTENER_MS, SEED)
    recorded = group.ownership = RecordedOwnership()
    for n in range(MEMBERS):
        member = group.add((scene.assignor,))
        if scene.static:
            member.config.group_instance_id = f"instance-{n}"
        member.start()
    assert group.settle(), "the group did not come to rest"
    start_ms = group.world.now_ms
    marks = []
    for at_ms, label, action in scene.event(group, scene.assignor):
        group.world.run_until(start_ms + at_ms)
        action()
        marks.append((at_ms / 1000, label))
    end_ms = start_ms + scene.shown_ms
    group.world.run_until(end_ms)
    stretches = [
        (partition, max(since_ms - start_ms, 0) / 1000, (until_ms - start_ms) / 1000, name)
        for (_, partition), name, since_ms, until_ms in recorded.until(end_ms)
        if until_ms > start_ms
    ]
    return _picture(stretches, marks, scene.shown_ms / 1000, scene.title) + "\n"


def _picture(
    stretches: list[tuple[int, float, float, str]], marks: list[tuple[float, str]], end_s: float, title: str
) -> Markup:
    """``stretches``: partition, start, end, owner."""
    colour = colours([name for *_, name in stretches])
    top, row_height, parts = 44, 20, list[str]()
    height = top + PARTITIONS * row_height + 30
    for index, (name, fill) in enumerate(colour.items()):
        x = LEFT + index * 140
        parts += [f'<rect x="{x}" y="4" width="14" height="14" fill="{fill}"/>', caption(x + 20, 16, name)]
    for row in range(PARTITIONS):
        y = top + row * row_height
        parts.append(caption(LEFT - 8, y + 14, f"t-{row}", "end", "small"))
        parts.append(f'<rect x="{LEFT}" y="{y}" width="{WIDTH - LEFT - RIGHT}" height="17" class="unowned"/>')
    for row, start_s, until_s, name in stretches:
        x, y = x_of(start_s, end_s), top + row * row_height
        times = f"{start_s:.1f} to {until_s:.1f} s"
        parts.append(
            f'<rect x="{x:.1f}" y="{y}" width="{max(x_of(until_s, end_s) - x, 0.5):.1f}" height="17" fill="{colour[name]}">'
            f"<title>{markup_text(name)}: t-{row}, {times}</title></rect>"
        )
    for time_s, label in marks:
        x = x_of(time_s, end_s)
        line = f'x1="{x:.1f}" y1="{top - 8}" x2="{x:.1f}" y2="{height - 28}"'
        parts.append(f'<line {line} class="spread" stroke-dasharray="3 3"/>')
        parts.append(caption(x, top - 12, label, "middle", "small bold"))
    return svg(height, title, [*parts, time_axis(height - 26, end_s)])


if __name__ == "__main__":
    for name, scene in SCENES.items():
        (HERE / f"{name}.svg").write_text(draw(scene))
