"""The course of a run: when members join, leave and stall; synthetic, or read from a trace."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from coterie.laboratory.churn import MembershipChange

HOUR_MS = 3_600_000
SPREAD_MS = 2_000  # within which the members of a new group come


@dataclass(frozen=True, slots=True)
class Event:
    """``kind``: join, leave (closes in order), kill (its process ends), vanish (its machine ends: no connection is
    closed), pause (its process is stalled for ``ms``), cut (for ``ms`` it does not reach the coordinators of the group;
    the brokers are the same ones for Kafka and RocketMQ, and others for ZooKeeper), slow (its code takes ``ms`` between two
    polls; only Kafka's members mind), deaf (RocketMQ's brokers' notices
    are lost for ``ms``; nothing for others), grow (the topic has ``partitions`` from now on; Kafka's protocols only)."""

    time_ms: int
    kind: str
    member: str = ""
    ms: int = 0
    partitions: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    """``members`` come within ``spread_ms``; measuring begins once they are at rest, ``settle_ms`` later at the earliest, or
    at once if that is 0; events count from there, and it ends ``tail_ms`` after the last."""

    members: int
    partitions: int
    events: tuple[Event, ...] = ()
    settle_ms: int = 120_000
    tail_ms: int = 120_000
    records_per_s: int = 100
    spread_ms: int = SPREAD_MS

    @property
    def names(self) -> list[str]:
        return [f"m{n:05}" for n in range(self.members)]


def one_joins(members: int, partitions: int, tail_ms: int = 120_000) -> Plan:
    """A stable group of ``members``, and one more that joins at 0 ms."""
    return Plan(members, partitions, (Event(0, "join", "newcomer"),), tail_ms=tail_ms)


def one_held_up(members: int, partitions: int, kind: str, ms: int) -> Plan:
    """``kind``: pause, cut or slow; the one in the middle. It ends long after it."""
    plan = Plan(members, partitions)
    return Plan(members, partitions, (Event(0, kind, plan.names[members // 2], ms),), tail_ms=ms + 160_000)


def topic_grows(members: int, partitions: int, grown: int) -> Plan:
    """The topic of a stable group has ``grown`` partitions at 0 ms. It ends after the oldest metadata is renewed."""
    return Plan(members, partitions, (Event(0, "grow", partitions=grown),), tail_ms=420_000)


def unheard_join(members: int, partitions: int) -> Plan:
    """One joins while the brokers' notices of changes are lost."""
    return Plan(members, partitions, (Event(0, "deaf", ms=60_000), Event(1_000, "join", "newcomer")))


def one_departs(members: int, partitions: int, kind: str, tail_ms: int = 240_000) -> Plan:
    """``kind``: leave, kill or vanish; the one in the middle."""
    plan = Plan(members, partitions)
    return Plan(members, partitions, (Event(0, kind, plan.names[members // 2]),), tail_ms=tail_ms)


def rolling_restart(
    members: int, partitions: int, kind: str = "leave", down_ms: int = 8_000, gap_ms: int = 40_000
) -> Plan:
    """Each in turn goes and comes back under its name."""
    events: list[Event] = []
    for n, name in enumerate(Plan(members, partitions).names):
        events += [Event(n * gap_ms, kind, name), Event(n * gap_ms + down_ms, "join", name)]
    return Plan(members, partitions, tuple(events))


def deployment(members: int, partitions: int) -> Plan:
    """A whole group comes up, one member every half second, and everything counts from the first."""
    events = tuple(Event(n * 500, "join", f"d{n:05}") for n in range(members))
    return Plan(0, partitions, events, settle_ms=0)


def crashes(members: int, partitions: int, hours: float, per_hour: float, seed: int) -> Plan:
    """Random members are killed and come back under their names after half a minute to two minutes."""
    rng = random.Random(f"crashes {seed}")
    names, events = Plan(members, partitions).names, list[Event]()
    back_ms = dict.fromkeys(names, 0)
    at_ms = 0.0
    while (at_ms := at_ms + rng.expovariate(per_hour / HOUR_MS)) < hours * HOUR_MS:
        up = [name for name in names if back_ms[name] < at_ms]
        if up:
            name, down_ms = rng.choice(up), rng.randint(30_000, 120_000)
            back_ms[name] = int(at_ms) + down_ms
            events += [Event(int(at_ms), "kill", name), Event(back_ms[name], "join", name)]
    return Plan(members, partitions, tuple(sorted(events, key=lambda e: e.time_ms)))


def pauses(members: int, partitions: int, hours: float, per_hour: float, mean_ms: int, seed: int) -> Plan:
    """Each member stalls so many times an hour, for a random time around the mean; and one in ten hours of its own
    ends for good, so that there is something to detect."""
    rng = random.Random(f"pauses {seed}")
    names, events = Plan(members, partitions).names, list[Event]()
    for name in names:
        at_ms = 0.0
        while (at_ms := at_ms + rng.expovariate(per_hour / HOUR_MS)) < hours * HOUR_MS:
            events.append(Event(int(at_ms), "pause", name, max(int(rng.expovariate(1 / mean_ms)), 1)))
    for name in rng.sample(names, max(members // 6, 1)):
        at = rng.randint(0, int(hours * HOUR_MS))
        events = [e for e in events if e.member != name or e.time_ms < at - 60_000]
        events += [Event(at, "kill", name), Event(at + 180_000, "join", name)]
    return Plan(members, partitions, tuple(sorted(events, key=lambda e: e.time_ms)))


def from_trace(changes: Sequence[MembershipChange], partitions: int) -> Plan:
    """A trace's joins as joins, its removals as processes that end. Those who are there at its beginning are the group."""
    first = [c for c in changes if c.time_ms == 0 and c.joins]
    later = changes[len(first) :]
    events = [Event(0, "join", c.member) for c in first]
    events += [Event(c.time_ms, "join" if c.joins else "kill", c.member) for c in later]
    return Plan(0, partitions, tuple(events), settle_ms=0)
