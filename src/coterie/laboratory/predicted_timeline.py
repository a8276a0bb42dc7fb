"""A deploy as a timeline: one run of its prediction, with the journal's rebalances over what the members read.

A coordinator sees neither a revocation nor a death, and of static members no pause: unowned is here what the figures of the
prediction count.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

from coterie.coordinator.journal.journal_timeline import JournalTimeline
from coterie.coordinator.journal.timeline import BandPhase, Spell, Timeline, TimelineMark
from coterie.coordinator.shard import Step
from coterie.laboratory.members.group_member_actor import GROUP
from coterie.laboratory.playground.playground import shown
from coterie.laboratory.playground.recording import SeenTimeline, WatchedOwnership
from coterie.laboratory.prediction import Deploy, DeployedGroup, DeployedOwnership, deploy_plan, run_restarts
from coterie.laboratory.study.classic import KafkaGroup
from coterie.laboratory.study.course import CourseJournal
from coterie.laboratory.study.group import StudySetting
from coterie.laboratory.study.run import StudyRun
from coterie.machines.ownership import Partition

BEFORE_MS = 5_000  # of the group at rest, ahead of the first restart
AFTER_MS = 10_000  # behind what happened last


class WatchedDeploy(WatchedOwnership, DeployedOwnership):
    """The meter of a prediction, with its spells."""


def predicted_timeline(
    group: DeployedGroup,
    deploy: Deploy,
    setting: StudySetting,
    members: Sequence[str] = (),
    partitions: Sequence[Partition] = (),
    *,
    begins_ms: int = 10**6,
    seed: int = 0,
) -> Timeline:
    """``members`` and ``partitions``: the group's own names, in any order; ``begins_ms``: when the deploy begins."""
    plan = deploy_plan(group, deploy, setting, run_restarts(group, deploy))
    meter = WatchedDeploy(lambda name, was, now, _: seen.owns(name, was, now, meter, group.partitions))
    run = StudyRun(setting, plan, seed, checks=False, meter=meter)
    seen = SeenTimeline(GROUP, run.world.start_ms, shown)
    assert isinstance(run.group, KafkaGroup), "a group of Kafka's"
    journal = CourseJournal(run.group.broker.shard.group)

    def happened(step: Step) -> None:
        journal.add(step, run.world.now_ms)

    run.group.broker.on_step = happened
    run.measures()
    known = JournalTimeline(GROUP)
    for line in journal.lines:
        known.add(line)
    timeline = seen.until(run.world.now_ms, meter)
    timeline.rebalances = known.timeline.rebalances
    _date_detections(timeline, {run.rest_ms + e.time_ms for e in plan.events if e.kind == "kill"}, journal)
    names = dict(zip(plan.names, members, strict=False))
    timeline.moments = [
        TimelineMark(run.rest_ms + event.time_ms, f"{event.kind}: {names.get(event.member, event.member)}")
        for event in plan.events
    ]
    return _since(timeline, run.rest_ms, begins_ms, names, list(partitions))


def _date_detections(timeline: Timeline, killed_ms: Set[int], journal: CourseJournal) -> None:
    """Partitions of a killed member are unowned unnoticed until the coordinator removes it, or until it is back."""
    removed_ms = [line.time_ms for line in journal.lines if line.event == "member_removed"]
    for number, lanes in enumerate(timeline.unowned):
        if lanes.since_ms in killed_ms:
            noticed = (ms for ms in removed_ms if lanes.since_ms <= ms <= lanes.until_ms)
            timeline.unowned[number] = lanes._replace(detected_ms=next(noticed, lanes.until_ms))


def _since(
    timeline: Timeline, rest_ms: int, begins_ms: int, names: dict[str, str], partitions: list[Partition]
) -> Timeline:
    """What there is from shortly before the deploy until shortly after the last change, in times that count from
    ``begins_ms``, with the group's own names."""
    by_ms, from_ms = begins_ms - rest_ms, rest_ms - BEFORE_MS
    made = Timeline(timeline.group, is_whole=timeline.is_whole)
    for _, number in timeline.lanes:
        made.lane(partitions[number] if number < len(partitions) else (GROUP, number))

    def moved(time_ms: int | None) -> Any:
        return None if time_ms is None else max(time_ms, from_ms) + by_ms

    def name(owner: str) -> str:
        process = shown(owner)
        return names.get(process, process)

    for spell in timeline.owned:
        if spell.until_ms is None or spell.until_ms > from_ms:
            owner = made.owner(name(timeline.owners[spell.owner]))
            made.owned.append(Spell(spell.lane, owner, moved(spell.from_ms), moved(spell.until_ms)))
    made.unowned = [
        lanes._replace(since_ms=moved(lanes[1]), detected_ms=moved(lanes[2]), until_ms=moved(lanes[3]))
        for lanes in timeline.unowned
        if lanes.until_ms > from_ms
    ]
    for band in timeline.rebalances:
        if band.until_ms is not None and band.until_ms <= from_ms:
            continue
        band.phases = [BandPhase(state, moved(since), moved(until)) for state, since, until in band.phases]
        band.why = shown(band.why)
        band.causes = [
            cause | {"member_id": name(cause.get("member_id", "")), "client_id": ""} for cause in band.causes
        ]
        made.rebalances.append(band)
    made.order_owners(list(names.values()))
    made.moments = [TimelineMark(moved(moment.time_ms), moment.text) for moment in timeline.moments]
    changes = [spell.from_ms for spell in made.owned] + [band.until_ms or 0 for band in made.rebalances]
    changes += [lanes.until_ms for lanes in made.unowned] + [moment.time_ms for moment in made.moments]
    made.reach(begins_ms - BEFORE_MS, max(changes) + AFTER_MS)
    return made
