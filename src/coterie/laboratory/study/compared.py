"""The study's points that are also measured with real processes: the laboratory's side, with the settings of the measurement.

`coterie-conformance study` measures them; the page of `coterie lab study` shows both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from coterie.laboratory.study import workload as w
from coterie.laboratory.study.group import StudySetting
from coterie.laboratory.study.questions import (
    COMPARED_MEMBERS,
    COMPARED_PARTITIONS,
    CONSUMER,
    COOPERATIVE,
    EAGER,
    GROWN_PARTITIONS,
    ORDERLY,
    ROCKETMQ,
    STATIC,
    STATIC_CONSUMER,
    ZOOKEEPER,
)
from coterie.laboratory.study.run import run
from coterie.laboratory.study.workload import Event, Plan

SESSION_MS, INTERVAL_MS = 6_000, 2_000
MEMBERS, PARTITIONS = 4, 8
METADATA_MAX_AGE_MS = 60_000  # a fifth of the default, where the topic grows
SEEDS = 20
DOWN_S = 2.0


def _alike(setting: StudySetting) -> StudySetting:
    """As it is measured: no initial delay, a short session, a network of loopback, the clock of one machine."""
    return replace(
        setting,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=INTERVAL_MS,
        metadata_max_age_ms=METADATA_MAX_AGE_MS,
        initial_delay_ms=0,
        network_ms=(0, 1),
        clock_drift=0.0,
    )


@dataclass(frozen=True, slots=True)
class StudyPoint:
    """``event``: join, kill, restart or grow, which gives the topic ``grown`` partitions; ``measure``: which of the meter's
    figures is compared."""

    setting: StudySetting
    event: str
    measure: str
    note: str = ""
    members: int = MEMBERS
    partitions: int = PARTITIONS
    grown: int = 0

    @property
    def what(self) -> str:
        """For a reader."""
        if self.event != "grow":
            return _EVENTS[self.event]
        return f"{self.members} consumers, {self.grown - self.partitions} partitions are added"


def _grows(setting: StudySetting, note: str) -> StudyPoint:
    """At the size of the published comparison of KIP-848."""
    first = GROWN_PARTITIONS - COMPARED_PARTITIONS
    return StudyPoint(
        setting,
        "grow",
        measure="longest_unowned_s",
        note=note,
        members=COMPARED_MEMBERS,
        partitions=first,
        grown=GROWN_PARTITIONS,
    )


_EVENTS = {"join": "one joins", "kill": "one is killed", "restart": "one is killed, and is back after 2 s"}
MEASURES = {"unowned_s": "unowned per partition", "longest_unowned_s": "longest unowned"}
_OF_THE_LEADER = f"metadata.max.age.ms = {METADATA_MAX_AGE_MS}: until the leader renews its metadata"
QUESTIONS = (
    StudyPoint(EAGER, "join", "unowned_s", "heartbeats in step, since all came at once; in question 1 they are not"),
    StudyPoint(EAGER, "kill", "longest_unowned_s", "killed right after a heartbeat each time, which takes longest"),
    StudyPoint(COOPERATIVE, "join", "unowned_s", "two of eight partitions, for half a heartbeat interval"),
    StudyPoint(STATIC, "restart", "longest_unowned_s", "the consumer is away for 2 s; no rebalance follows"),
    StudyPoint(CONSUMER, "join", "unowned_s", "two of eight partitions, until the newcomer's next heartbeat"),
    StudyPoint(CONSUMER, "kill", "longest_unowned_s"),
    StudyPoint(
        STATIC_CONSUMER, "restart", "longest_unowned_s", "its name is refused until the killed one's session ends"
    ),
    _grows(EAGER, _OF_THE_LEADER),
    _grows(COOPERATIVE, _OF_THE_LEADER),
    _grows(CONSUMER, "the coordinator knows; until the next heartbeats"),
    StudyPoint(ZOOKEEPER, "join", "unowned_s"),
    StudyPoint(ZOOKEEPER, "kill", "longest_unowned_s"),
    StudyPoint(ROCKETMQ, "join", "unowned_s"),
    StudyPoint(ROCKETMQ, "kill", "longest_unowned_s"),
    StudyPoint(
        ORDERLY, "kill", "longest_unowned_s", "until the dead one's locks, some seconds old when it died, are 60 s old"
    ),
)


def simulated(question: StudyPoint) -> list[float]:
    """The measured figure of each of `SEEDS` runs in the laboratory, in seconds."""
    members, partitions = question.members, question.partitions
    plan = Plan(members, partitions)
    match question.event:
        case "join":
            plan = w.one_joins(members, partitions)
        case "kill":
            plan = w.one_departs(members, partitions, "kill")
        case "grow":
            plan = w.topic_grows(members, partitions, question.grown)
        case "restart":
            name = plan.names[1]
            plan = replace(plan, events=(Event(0, "kill", name), Event(int(DOWN_S * 1000), "join", name)))
    return [getattr(run(_alike(question.setting), plan, seed, checks=False), question.measure) for seed in range(SEEDS)]


def spread(values: Sequence[float]) -> tuple[float, float, float]:
    """Their mean, the least and the greatest."""
    return round(sum(values) / len(values), 3), round(min(values), 3), round(max(values), 3)
