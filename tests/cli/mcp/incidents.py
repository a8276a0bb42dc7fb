"""Planted incidents with their right response: what happened to a group, which tool an agent asks, and what its response has to
say.

As on any Kafka the broker explains nothing: an observer's journal lies in a folder, or there is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from coterie.testing import ErrorCode
from coterie.testing.simulated import SimulatedWorld
from tests.observer import stories
from tests.observer.stories import GROUP, Crew

AGENT = "agent"


class Incident(NamedTuple):
    """``reads``: the words of the response in which the ``answer`` has to be; ``evidence``: how sure its event is."""

    tell: Callable[[SimulatedWorld], Crew]
    tool: str
    reads: Callable[[dict[str, Any]], list[str]]
    response: str
    arguments: dict[str, Any] = {"group": GROUP}


def events(document: dict[str, Any]) -> list[str]:
    """Each event as EVENT, EVIDENCE, of CLIENTS: WHY."""
    return [
        f"{e['event']}, {e.get('evidence')}, of {', '.join(e.get('clients', []))}: {e['why']}"
        for e in document["events"]
        if "why" in e
    ]


def recent(document: dict[str, Any]) -> list[str]:
    return events({"events": document["recent_events"]})


def verdict(document: dict[str, Any]) -> list[str]:
    return [f"{document['state']}: {document['verdict']}"]


def furthest_behind(document: dict[str, Any]) -> list[str]:
    """The owner with the greatest lag, and its share of all."""
    owner = document["owners"][0]
    return [f"{owner.get('owner')} has {100 * owner['lag'] // max(document['lag'], 1)} %"]


def listed(document: dict[str, Any]) -> list[str]:
    rows = document["groups"]
    return [f"{row['group']}: {row['state']}, {row['members']} members, lag {row['lag'] > 0}" for row in rows]


def changes(document: dict[str, Any]) -> list[str]:
    return [f"{change['change']}: {change['safe']}, {change['why']}" for change in document["changes"]]


def recommendation(document: dict[str, Any]) -> list[str]:
    """And each setting with its cost."""
    return [document["recommendation"], *(f"{cost['setting']}: {cost['unowned_s']}" for cost in document["costs"])]


# -- what stories.py does not have ------------------------------------------------------------------------------------------


def stuck_member(world: SimulatedWorld) -> Crew:
    """A member handles one record for minutes, and stays in the group."""
    crew = stories.three_members(world)
    crew.controls["ben"].sleeps_s = 250
    world.advance(120)
    return crew


def nobody_reads(world: SimulatedWorld) -> Crew:
    """The last members left, and records still come."""
    crew = Crew(world)
    crew.join("anna")
    crew.settle(1)
    crew.controls["anna"].leaves = True
    world.advance(60)
    return crew


def stuck_sync_now(world: SimulatedWorld) -> Crew:
    """The leader's assignment is still awaited."""
    crew = Crew(world)
    crew.join("anna")
    crew.settle(1)
    crew.broker.delay("SyncGroup", 60_000, client_id="anna")
    crew.join("ben")
    world.advance(25)
    return crew


def slow_join_now(world: SimulatedWorld) -> Crew:
    """A member has not joined yet."""
    crew = Crew(world)
    for name in ("anna", "ben"):
        crew.join(name)
    crew.settle(2)
    crew.controls["ben"].sleeps_s = 90
    world.advance(20)
    crew.join("cleo")
    world.advance(20)
    return crew


def no_right_to_read(world: SimulatedWorld) -> Crew:
    """The agent's credentials may not read `__consumer_offsets`."""
    crew = stories.three_members(world)
    crew.broker.fail("Fetch", ErrorCode.TOPIC_AUTHORIZATION_FAILED, client_id=AGENT, times=10**9)
    return crew


def kill_that_nobody_saw(world: SimulatedWorld) -> Crew:
    """There is no observer, and the broker keeps no journal."""
    crew = Crew(world, watched=False, settings={"coterie.journal.enable": False})
    for name in ("anna", "ben", "cleo"):
        crew.join(name)
    crew.settle(3)
    crew.process("ben").kill()
    crew.settle(2, 60)
    return crew


def mixed_assignors(world: SimulatedWorld) -> Crew:
    """Half of the members list a cooperative assignor."""
    crew = Crew(world)
    crew.join("anna", partition_assignment_strategy="cooperative-sticky,range")
    crew.join("ben", partition_assignment_strategy="range")
    crew.settle(2)
    return crew


INCIDENTS = [
    Incident(stories.kill, "history", events, "stable, inferred, of ben: "),
    Incident(stories.kill, "why", recent, "was silent for its session timeout"),
    Incident(kill_that_nobody_saw, "history", events, "was silent for its session timeout (inferred: silent for"),
    Incident(kill_that_nobody_saw, "why", recent, "was silent for its session timeout"),
    Incident(stories.clean_leave, "history", events, "left (inferred: alive within session)"),
    Incident(stories.slow_poll, "history", events, "left (inferred: poll interval passed)"),
    Incident(stories.paused, "history", events, "was silent for its session timeout (inferred: silent for session)"),
    Incident(stories.deploy, "history", events, "pattern_seen, inferred, of : a deploy"),
    Incident(stories.flapping, "history", events, "pattern_seen, inferred, of ben: ben comes and goes again and again"),
    Incident(
        stories.static_restart, "history", events, "member_replaced, observed, of ben: ben returned as a static member"
    ),
    Incident(
        stories.static_death, "history", events, "stable, inferred, of ben: ben was silent for its session timeout"
    ),
    Incident(stories.fenced_instance, "history", events, "ben another process has the same group.instance.id"),
    Incident(
        stories.added_partitions, "history", events, "inferred, of : the partitions of a subscribed topic changed"
    ),
    Incident(stories.regex_gains_topic, "history", events, "a regular expression matches other topics"),
    Incident(stories.changed_subscription, "history", events, "changed its subscription"),
    Incident(stories.coordinator_moved, "history", events, "the coordinator moved from broker"),
    Incident(stories.commit_by_stranger, "history", events, "a commit by no member"),
    Incident(stories.slow_join, "history", events, "the join phase is long (inferred: commits stopped first)"),
    Incident(slow_join_now, "why", verdict, "PreparingRebalance: a rebalance waits for members to join"),
    Incident(
        stories.stuck_sync, "history", events, "pattern_seen, observed, of : the leader has not sent the assignment"
    ),
    Incident(stuck_sync_now, "why", verdict, "the leader has not sent the assignment yet"),
    Incident(stories.consumer_kill, "history", events, "epoch_raised, inferred, of ben: "),
    Incident(stories.upgrade, "history", events, "became a group of the consumer protocol"),
    Incident(stories.deleted, "history", events, "group_removed, observed, of : a tombstone in the log"),
    Incident(stuck_member, "lag", furthest_behind, "ben-"),
    Incident(nobody_reads, "lag", furthest_behind, "None has 100 %"),
    Incident(nobody_reads, "groups", listed, "crew: Empty, 0 members, lag True", {}),
    Incident(no_right_to_read, "why", verdict, "Stable: the group is stable with 3 members"),
    Incident(stories.three_members, "predict", recommendation, "Leave the settings as they are: the deploy costs"),
    Incident(
        mixed_assignors, "lint", changes, "(second rolling bounce): False", {"group": GROUP, "change": "cooperative"}
    ),
]
