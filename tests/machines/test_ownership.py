"""One definition of moved, unowned and pause: each face shows the same of the same churn."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from coterie.cli.groups.groups import history_row
from coterie.console import history_page
from coterie.coordinator import events as e
from coterie.coordinator.journal.journal_timeline import JournalTimeline
from coterie.coordinator.journal.line import JournalLine
from coterie.coordinator.journal.lines import JournalLines
from coterie.coordinator.journal.timeline import Timeline
from coterie.coordinator.outcome import CoordinatorConfig
from coterie.coordinator.shard import Decision, Step
from coterie.coordinator.stored_records.stored import to_record
from coterie.laboratory.brokers.broker_actor import WatchingBroker
from coterie.laboratory.deliveries import Delivered, Ownership
from coterie.laboratory.members.reading_member import TOPIC, ReadingMember, Workload
from coterie.laboratory.world import World
from coterie.machines.ownership import OwnershipMeter, UnownedSpell, UnownedTimes, has_moved
from coterie.member.config import MemberConfig
from coterie.observer.logs.server_log import rebalances
from coterie.pipeline.history.rebalances import generation_rows, journal_log_events, journal_rows, unowned_spells

PARTITIONS = 12
HEARTBEAT_MS, SESSION_MS = 1_000, 6_000
# (time in ms, what, member): a dynamic and a static member join, one more, one is killed, one leaves, all end.
CHURN = (
    (0, "join", "a"),
    (500, "join", "s"),
    (20_000, "join", "c"),
    (40_000, "kill", "c"),
    (60_000, "kill", "s"),
    (61_000, "join", "s"),
    (80_000, "join", "d"),
    (100_000, "kill", "a"),
    (120_000, "leave", "d"),
    (140_000, "kill", "s"),
)


def test_a_partition_moves_to_another_owner_only() -> None:
    assert [has_moved(*change) for change in ((None, "a"), ("a", None), ("a", "a"), ("a", "b"))] == [False] * 3 + [True]


def test_unowned_time_has_the_part_before_the_death_was_noticed() -> None:
    times = UnownedTimes()
    times.lost(("t", 0), 4_000, detected_ms=10_000)
    times.regained(("t", 0), 12_000)
    assert (times.unowned_ms, times.undetected_ms) == ({("t", 0): 8_000}, 6_000)
    times.lost(("t", 1), 20_000)  # revoked from an eager member that was dead already
    times.lost(("t", 1), 17_000, detected_ms=23_000)
    times.regained(("t", 1), 25_000)
    assert (times.unowned_ms["t", 1], times.undetected_ms) == (8_000, 6_000 + 3_000)


def test_without_live_members_nothing_is_unowned() -> None:
    meter = OwnershipMeter()
    meter.came([("t", 0)], 0)
    meter.changed("a", set(), {("t", 0)}, 3_000)
    meter.changed("a", {("t", 0)}, set(), 5_000)
    meter.emptied(5_000)
    meter.came([("t", 0)], 60_000)
    meter.changed("b", set(), {("t", 0)}, 61_000)
    assert (meter.unowned_ms, meter.moves) == ({("t", 0): 4_000}, 1)


class _TellingBroker(WatchingBroker):
    """Keeps the journal, the stored states and Kafka's log of a group."""

    def __init__(self, world: World, config: CoordinatorConfig, partitions: dict[str, int]) -> None:
        self.journal, self.states, self.log_lines = list[JournalLine](), list[dict[str, Any]](), list[str]()
        self._lines = JournalLines()
        super().__init__(world, config, partitions)

    def _committed(self, decision: Decision, steps: list[Step]) -> None:
        for step in steps:
            line = self._lines.line(step, decision.group, decision.now_ms)
            self.journal += [] if line is None else [line]
            self._tell(step, decision.now_ms)
        super()._committed(decision, steps)

    def _tell(self, step: Step, now_ms: int) -> None:
        event, group = step.event, step.group_id
        of_group, text = f"group {group} ", ""
        match event:
            case e.GroupStored(value):
                record = to_record(group, event)
                assert record is not None
                position = {"time_ms": now_ms, "log_offset": len(self.states)}
                self.states.append({"group": group, "kind": "group", "value": record.value} | position)
                text = f"Assignment received from leader {value.leader} for {of_group}for generation {step.generation}"
                if not value.members:
                    text = f"Group {group} with generation {step.generation} is now empty"
                elif step.phase_before == step.phase_after:
                    text = ""
            case e.RebalanceStarted():
                reason = "removing member x on heartbeat expiration"
                text = f"Preparing to rebalance {of_group}in state Stable with old generation 0 (reason: {reason})"
            case e.GenerationFormed():
                text = f"Stabilized {of_group}generation {step.generation} (x) with {len(self.shard.groups)} members"
            case e.MemberRemoved(member_id, cause) if cause.kind == "session_timeout":
                text = f"Member {member_id} in {of_group}has failed, removing it from the group"
            case e.MemberRemoved(member_id, cause):
                text = f"[Group {group}] Member {member_id} has left group through explicit `LeaveGroup` request"
        if text:
            at = datetime.datetime.fromtimestamp(now_ms / 1000, datetime.UTC)
            self.log_lines.append(f"[{at:%Y-%m-%d %H:%M:%S},{now_ms % 1000:03}] INFO {text}")


def _churned(assignor: str, seed: int) -> tuple[_TellingBroker, Ownership]:
    world, ownership = World(seed), Ownership()
    config = CoordinatorConfig(group_initial_rebalance_delay_ms=500)
    broker = _TellingBroker(world, config, {TOPIC: PARTITIONS})
    delivered, members = Delivered(), dict[str, ReadingMember]()
    load = Workload(partitions=PARTITIONS, records_per_s=1, listener_ms=0)

    def apply(what: str, name: str) -> None:
        if what == "join":
            if not any(member.alive for member in members.values()):
                ownership.came([(TOPIC, p) for p in range(PARTITIONS)], world.now_ms)
            instance_id = "s" if name == "s" else None
            config = MemberConfig("g", instance_id, SESSION_MS, HEARTBEAT_MS, assignors=(assignor,))
            members[name] = ReadingMember(
                world, broker, name, config, ownership=ownership, load=load, delivered=delivered
            )
            members[name].start()
        elif what == "leave":
            members[name].leave()
        else:
            members[name].crash()
            if not any(member.alive for member in members.values()):
                ownership.emptied(world.now_ms)

    for time_ms, what, name in CHURN:
        world.at(world.start_ms + time_ms, lambda what=what, name=name: apply(what, name))  # type: ignore[misc]
    world.run_until(world.start_ms + CHURN[-1][0] + 30_000)
    return broker, ownership


def _figures(rows: Iterable[dict[str, Any]]) -> list[tuple[Any, ...]]:
    names = ("generation", "event", "moved", "unowned", "unowned_ms", "undetected_ms")
    return [tuple(row[name] for name in names) for row in rows]


@pytest.mark.parametrize("assignor", ["range", "sticky", "cooperative-sticky"])
@pytest.mark.parametrize("seed", range(3))
def test_every_face_shows_the_same_churn_alike(
    assignor: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker, ownership = _churned(assignor, seed)
    ends = [line for line in broker.journal if line.event in ("stable", "empty")]
    of_journal = [row for line in ends for row in journal_rows(line.to_json().encode(), 0, "journal")]
    log_events = list(rebalances(broker.log_lines))
    of_offsets = list(generation_rows(broker.states, log_events))
    figures = _figures(of_journal)
    assert _figures(of_offsets) == figures, "the stored states and a broker's log tell what the journal tells"

    events = [{k: v for k, v in asdict(line).items() if v is not None} | {"why": line.why()} for line in ends]
    commands = [history_row(event)[6:8] for event in events]  # type: ignore[arg-type]
    assert [moved for moved, _ in commands] == [row["moved"] for row in of_journal]
    monkeypatch.setattr(
        history_page, "rows_of", lambda folder, group: of_journal if folder.name == "rebalances" else []
    )
    [table] = [s for s in history_page.sections(tmp_path, "g") if s.heading == "Rebalances"]
    for _, unowned in commands:
        assert f">{unowned}<" in table.body, "the page and `groups history` write it alike"

    # The page's picture: the same times, partition by partition.
    spells = unowned_spells(broker.states, log_events)
    assert unowned_spells(broker.states, journal_log_events(broker.journal)) == spells
    assert sum(s.until_ms - s.since_ms for s in spells) == sum(row["unowned_ms"] for row in of_journal)
    assert sum(s.detected_ms - s.since_ms for s in spells) == sum(row["undetected_ms"] for row in of_journal)

    # The timeline that `groups watch` and the live page draw: the spells that a coordinator knows, from the journal alone.
    timeline = JournalTimeline("g")
    for line in broker.journal:
        timeline.add(line)
    assert sorted(_expanded(timeline.timeline)) == sorted(spells)
    _check_covered(timeline.timeline)

    # The actors' own view: the same moves, and unowned times that differ by what a coordinator cannot see: the time since a
    # dead member's last heartbeat, and that until a member hears of a rebalance or of its assignment.
    _check_by(ownership, of_journal)
    assert sum(row["undetected_ms"] for row in of_journal) > 0
    last = of_journal[-1]
    assert (last["event"], last["moved"], last["unowned"], last["unowned_ms"]) == ("empty", 0, PARTITIONS, 0)


def _expanded(timeline: Timeline) -> list[UnownedSpell]:
    return [
        UnownedSpell(timeline.lanes[lane], *times)
        for ranges, *times in timeline.unowned
        for first, last in zip(ranges[::2], ranges[1::2], strict=True)
        for lane in range(first, last + 1)
    ]


def _check_covered(timeline: Timeline) -> None:
    """No partition has two owners at a time, and from its first owner on it has one, or is unowned, while there are members."""
    unowned = _expanded(timeline)
    for lane, partition in enumerate(timeline.lanes):
        spells = [spell for spell in timeline.owned if spell.lane == lane]
        for earlier, later in pairwise(spells):
            assert earlier.until_ms is not None
            assert earlier.until_ms <= later.from_ms
            assert earlier.until_ms == later.from_ms or any(
                (s.partition, s.since_ms, s.until_ms) == (partition, earlier.until_ms, later.from_ms) for s in unowned
            )
    for band in timeline.rebalances:
        assert band.phases[0].state == "PreparingRebalance"
        assert all(one.until_ms == other.from_ms for one, other in pairwise(band.phases))


def _check_by(ownership: Ownership, of_journal: Sequence[dict[str, Any]]) -> None:
    assert sum(row["moved"] for row in of_journal) == ownership.moves
    seen_ms, known_ms = sum(ownership.unowned_ms.values()), sum(row["unowned_ms"] for row in of_journal)
    assert abs(seen_ms - known_ms) < len(of_journal) * PARTITIONS * (HEARTBEAT_MS + 200)
