"""The study's questions: for each the workloads, the settings, and how many seeds each.

The questions come from the literature on rebalances. Settings are each system's defaults unless the
name has another value, except that offsets are kept every 5 s everywhere: ZooKeeper's consumer of Kafka 0.8 does so every
60 s by default, which would only multiply its duplicates by twelve.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from coterie.laboratory.churn import MembershipChange
from coterie.laboratory.study import workload as w
from coterie.laboratory.study.group import StudySetting
from coterie.laboratory.study.run import run
from coterie.laboratory.study.workload import Plan

MEMBERS, PARTITIONS = 12, 48
SIZES = (3, 10, 30, 100, 300, 1_000, 3_000, 10_000)
GROWTH_PARTITIONS = 2  # of each member
COMPARED_MEMBERS, COMPARED_PARTITIONS, GROWN_PARTITIONS = 10, 900, 1_000
PUBLISHED = 6  # the published comparison of KIP-848, after the five questions
TRACES = 7

EAGER = StudySetting("eager", "eager")
COOPERATIVE = StudySetting("cooperative", "cooperative")
STATIC = StudySetting("static", "eager", static=True)
STATIC_COOPERATIVE = StudySetting("static, cooperative", "cooperative", static=True)
ZOOKEEPER = StudySetting("ZooKeeper", "zookeeper", session_timeout_ms=6_000)
ROCKETMQ = StudySetting("RocketMQ", "rocketmq")
ORDERLY = StudySetting("RocketMQ, orderly", "rocketmq", orderly=True)
CONSUMER = StudySetting("consumer", "consumer", heartbeat_interval_ms=5_000)
STATIC_CONSUMER = StudySetting("static, consumer", "consumer", static=True, heartbeat_interval_ms=5_000)
STREAMS = StudySetting("streams", "streams", heartbeat_interval_ms=5_000)
EVERY = (
    EAGER,
    COOPERATIVE,
    STATIC,
    STATIC_COOPERATIVE,
    CONSUMER,
    STATIC_CONSUMER,
    STREAMS,
    ZOOKEEPER,
    ROCKETMQ,
    ORDERLY,
)

LOSSY = 0.02  # of the requests lose their connection, in the question about the join protocol
_BARE = replace(EAGER, name="no member ids, no delay", initial_delay_ms=0, member_id_required=False, lossy=LOSSY)
LADDER = (
    _BARE,
    replace(_BARE, name="+ member id required", member_id_required=True),
    replace(EAGER, name="+ initial delay 3 s", lossy=LOSSY),
    replace(COOPERATIVE, name="+ cooperative", lossy=LOSSY),
    replace(STATIC, name="+ static (eager)", lossy=LOSSY),
    replace(STATIC_COOPERATIVE, name="+ static, cooperative", lossy=LOSSY),
    replace(CONSUMER, lossy=LOSSY),
    replace(STATIC_CONSUMER, lossy=LOSSY),
    ZOOKEEPER,
    ROCKETMQ,
)


@dataclass(frozen=True, slots=True)
class Point:
    """One cell of the study: a workload by name, a setting, and the plan for each seed."""

    question: int
    workload: str
    setting: StudySetting
    members: int
    plan: Callable[[int], Plan]
    seeds: int


@dataclass(frozen=True, slots=True)
class StudyRow:
    """One run of a point."""

    question: int
    workload: str
    setting: str
    members: int
    seed: int
    measures: dict[str, float]


def _always(plan: Plan) -> Callable[[int], Plan]:
    return lambda seed: plan


def blocking(seeds: int) -> Iterator[Point]:
    """1. Does a rebalance block consumption, for how long, and for whom?"""
    plans = {
        "one joins": w.one_joins(MEMBERS, PARTITIONS),
        "one leaves": w.one_departs(MEMBERS, PARTITIONS, "leave"),
        "one is killed": w.one_departs(MEMBERS, PARTITIONS, "kill"),
        "one machine is lost": w.one_departs(MEMBERS, PARTITIONS, "vanish"),
        "rolling restart": w.rolling_restart(MEMBERS, PARTITIONS),
    }
    for name, plan in plans.items():
        for setting in EVERY:
            yield Point(1, name, setting, MEMBERS, _always(plan), seeds)


def join_protocol(seeds: int) -> Iterator[Point]:
    """2. Which changes of the join protocol really reduce rebalances, and by how much, on the same churn?"""
    plans: dict[str, Callable[[int], Plan]] = {
        "deployment": _always(w.deployment(MEMBERS, PARTITIONS)),
        "rolling restart": _always(w.rolling_restart(MEMBERS, PARTITIONS)),
        "crashes, 4 hours": lambda seed: w.crashes(MEMBERS, PARTITIONS, 4, 6, seed),
    }
    for name, plan in plans.items():
        few = max(seeds // 3, 1) if "hours" in name else seeds  # many changes in each
        for setting in LADDER:
            yield Point(2, name, setting, MEMBERS, plan, few)


def kafka_and_rocketmq(seeds: int) -> Iterator[Point]:
    """3. What are Kafka's and RocketMQ's rebalance each better and worse at?"""
    plans = {
        "rolling restart": w.rolling_restart(MEMBERS, PARTITIONS),
        "one is killed": w.one_departs(MEMBERS, PARTITIONS, "kill"),
        "one machine is lost": w.one_departs(MEMBERS, PARTITIONS, "vanish"),
        "one joins, notices lost": w.unheard_join(MEMBERS, PARTITIONS),
        "one stands still, 20 s": w.one_held_up(MEMBERS, PARTITIONS, "pause", 20_000),
        "one stands still, 80 s": w.one_held_up(MEMBERS, PARTITIONS, "pause", 80_000),
        "one is cut off, 80 s": w.one_held_up(MEMBERS, PARTITIONS, "cut", 80_000),
    }
    for name, plan in plans.items():
        for setting in (EAGER, COOPERATIVE, CONSUMER, ZOOKEEPER, ROCKETMQ, ORDERLY):
            yield Point(3, name, setting, MEMBERS, _always(plan), seeds)


def timeouts(seeds: int) -> Iterator[Point]:
    """4. How do session timeout, heartbeat interval, max poll interval and initial delay trade detection time for false
    alarms?"""

    def standing_still(seed: int) -> Plan:
        return w.pauses(MEMBERS, PARTITIONS, hours=1, per_hour=3, mean_ms=8_000, seed=seed)

    few = max(seeds // 2, 1)  # an hour with some forty changes in each
    for seconds in (6, 10, 20, 30, 45, 90):
        for base in (EAGER, CONSUMER, ZOOKEEPER):
            interval_ms = min(base.heartbeat_interval_ms, seconds * 1000 // 3)
            setting = replace(base, session_timeout_ms=seconds * 1000, heartbeat_interval_ms=interval_ms)
            yield Point(4, f"session {seconds} s", setting, MEMBERS, standing_still, few)
    yield Point(4, "connections, 120 s", ROCKETMQ, MEMBERS, standing_still, few)
    joins = _always(w.one_joins(MEMBERS, PARTITIONS))
    for seconds in (1, 3, 5, 10):
        for base in (EAGER, CONSUMER):
            setting = replace(base, heartbeat_interval_ms=seconds * 1000)
            yield Point(4, f"heartbeat {seconds} s", setting, MEMBERS, joins, seeds)
    slow = _always(w.one_held_up(MEMBERS, PARTITIONS, "slow", 400_000))
    for seconds in (60, 300, 900):
        for base in (EAGER, CONSUMER):
            setting = replace(base, max_poll_interval_ms=seconds * 1000)
            yield Point(4, f"max poll interval {seconds} s", setting, MEMBERS, slow, seeds)
    deployment = _always(w.deployment(MEMBERS, PARTITIONS))
    for seconds in (0, 1, 3, 10):
        setting = replace(EAGER, initial_delay_ms=seconds * 1000)
        yield Point(4, f"initial delay {seconds} s", setting, MEMBERS, deployment, seeds)
    yield Point(4, "initial delay none", CONSUMER, MEMBERS, deployment, seeds)  # a setting of the classic protocol


def growth(seeds: int, largest: int) -> Iterator[Point]:
    """5. How does each grow with members and partitions?"""
    for members in (n for n in SIZES if n <= largest):
        partitions = GROWTH_PARTITIONS * members
        few = max(min(seeds, 1_000 // members), 1)  # the larger the group, the less its runs differ
        plans = {
            "one joins": w.one_joins(members, partitions, tail_ms=60_000),
            "one is killed": w.one_departs(members, partitions, "kill", tail_ms=90_000),
        }
        for name, plan in plans.items():
            for setting in (EAGER, COOPERATIVE, CONSUMER, STREAMS, ZOOKEEPER, ROCKETMQ):
                yield Point(5, name, setting, members, _always(plan), few)


def published_comparison(seeds: int) -> Iterator[Point]:
    """The published comparison of KIP-848, of which only its size is known: 10 consumers and 900 partitions (docs/study.md)."""
    members, partitions = COMPARED_MEMBERS, COMPARED_PARTITIONS
    plans = {
        "900 partitions are added": w.topic_grows(members, GROWN_PARTITIONS - partitions, GROWN_PARTITIONS),
        "one joins": w.one_joins(members, partitions),
        "all come up": w.deployment(members, partitions),
        "rolling restart": w.rolling_restart(members, partitions),
    }
    for name, plan in plans.items():
        many = 4 * seeds if "added" in name else seeds  # any moment of five minutes
        for setting in (EAGER, COOPERATIVE, CONSUMER):
            yield Point(PUBLISHED, name, setting, members, _always(plan), many)


def traces(changes: dict[str, Sequence[MembershipChange]], seeds: int) -> Iterator[Point]:
    """Churn as it was somewhere: each trace under each protocol."""
    for name, churn in changes.items():
        plan = w.from_trace(churn, PARTITIONS)
        for setting in EVERY:
            yield Point(TRACES, name, setting, len({c.member for c in churn}), _always(plan), seeds)


def points(seeds: int, largest: int, changes: dict[str, Sequence[MembershipChange]] | None = None) -> list[Point]:
    """All of them; ``largest``: the largest group of the question about growth."""
    points = [*blocking(seeds), *join_protocol(seeds), *kafka_and_rocketmq(seeds), *timeouts(seeds)]
    return [*points, *growth(seeds, largest), *published_comparison(seeds), *traces(changes or {}, seeds)]


def run_point(point: Point, seed: int) -> StudyRow:
    """One run of it. The first seed of each point runs under the laboratory's checks."""
    measures: dict[str, Any] = asdict(run(point.setting, point.plan(seed), seed, checks=seed == 0))
    return StudyRow(point.question, point.workload, point.setting.name, point.members, seed, measures)
