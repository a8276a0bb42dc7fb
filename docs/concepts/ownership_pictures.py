"""Draws who owns which partition during one event, for the concept pages: the laboratory runs the event in virtual time.

    python docs/concepts/ownership_pictures.py      writes docs/concepts/ownership-*.svg

The same seed gives the same pictures; tests/docs/test_ownership_pictures.py draws them again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from coterie.console.svg import Mark, Stretch, timeline
from coterie.laboratory.experiments import ExperimentGroup
from coterie.laboratory.ownership import Ownership, TopicPartition

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
        marks.append(Mark(at_ms / 1000, label))
    end_ms = start_ms + scene.shown_ms
    group.world.run_until(end_ms)
    stretches = [
        Stretch(partition, max(since_ms - start_ms, 0) / 1000, (until_ms - start_ms) / 1000, name)
        for (_, partition), name, since_ms, until_ms in recorded.until(end_ms)
        if until_ms > start_ms
    ]
    rows = [f"t-{n}" for n in range(PARTITIONS)]
    return timeline(rows, stretches, marks, scene.shown_ms / 1000, scene.title) + "\n"


if __name__ == "__main__":
    for name, scene in SCENES.items():
        (HERE / f"{name}.svg").write_text(draw(scene))
