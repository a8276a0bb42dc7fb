"""The proxy's journal beside the broker's own: the same churn, the same causes, members and generations."""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Callable, Collection
from typing import Any

import pytest

from coterie.client import Admin, Consumer, GroupExplanation
from coterie.coordinator.journal.line import JournalLine
from coterie.proxy.observed.groups import UNSEEN
from coterie.simulation import SimulatedProcess
from coterie.testing.faults import FaultRule
from coterie.testing.simulated import SimulatedWorld, WorldBroker, simulate
from tests.proxy.worlds import WorldProxy, consume

Row = tuple[Any, ...]
CLOSE_MS = 1500  # a session's restart and a request's way lie between the two clocks
CONSUMER_EVENTS = ("epoch_raised", "member_replaced")
ENDS = ("generation_formed", "stable", "empty")


def causes(line: JournalLine) -> list[Row]:
    """In no order: what happens to several members at once reaches the proxy and the broker in orders of their own."""
    names = ("kind", "member_id", "client_id", "group_instance_id", "reason")
    return sorted(tuple(str(cause.get(name, "")) for name in names) for cause in line.causes)


def rows(lines: list[JournalLine]) -> list[Row]:
    """What both journals must agree on: of each line its event and causes; where a phase ends, the whole group too."""
    steps: list[Row] = []
    between: list[Row] = []
    for line in lines:
        if line.event in ("join_extended", "pattern_seen"):
            continue  # a timer of the coordinator's, of which nothing passes; the proxy's alone
        if line.event not in ENDS:
            # Of members that join or expire in the same moment either may be first; the phase's end has them all.
            between.append((line.event, *([] if line.event == "rebalance_started" else causes(line))))
            continue
        states = line.state_from, line.state_to
        steps += sorted(between)
        steps.append((line.event, line.generation, line.members, line.protocol, states, *causes(line)))
        between = []
    return steps + sorted(between)


def moved(line: JournalLine) -> Row:
    return (
        line.moved_count,
        line.unowned_count,
        tuple(sorted((m["partition"], str(m["from"]), m["to"]) for m in line.moved)),
    )


class Churn:
    """A group's members in a world, all through the proxy."""

    def __init__(self, world: SimulatedWorld, broker: WorldBroker, proxied: WorldProxy) -> None:
        self.world, self.broker, self.proxied = world, broker, proxied
        self.seen: list[bytes] = []

    def member(self, name: str, **settings: str) -> SimulatedProcess:
        settings = {"client_id": name} | settings
        work = self.proxied.bootstrap_servers, "crew", "orders", self.seen
        return self.world.spawn(name, _consume, *work, settings)

    def stable(self, members: int) -> None:
        self.broker.until_stable("crew", members=members)
        self.world.advance(1)


async def _consume(servers: str, group: str, topic: str, seen: list[bytes], settings: dict[str, str]) -> None:
    await consume(servers, group, topic, seen, **settings)


async def leave_after(servers: str, seconds: float, settings: dict[str, str]) -> None:
    given = {"bootstrap.servers": servers, "group.id": "crew"}
    async with Consumer(given | {name.replace("_", "."): value for name, value in settings.items()}) as consumer:
        consumer.subscribe(["orders"])
        try:
            async with asyncio.timeout(seconds):
                while True:
                    await consumer.poll(100)
        except TimeoutError:
            pass


def joins_and_kill(churn: Churn) -> None:
    churn.member("anna")
    churn.stable(1)
    ben = churn.member("ben")
    churn.stable(2)
    churn.member("cleo")
    churn.stable(3)
    ben.kill()
    churn.world.advance(60)
    churn.stable(2)


def together_and_all_killed(churn: Churn) -> None:
    members = [churn.member(name) for name in ("anna", "ben", "cleo")]
    churn.stable(3)
    for member in members:
        member.kill()
    churn.world.advance(120)


def clean_leaves(churn: Churn) -> None:
    churn.member("anna")
    churn.stable(1)
    churn.world.spawn("ben", leave_after, churn.proxied.bootstrap_servers, 20.0, {"client_id": "ben"})
    churn.stable(2)
    churn.world.advance(60)
    churn.stable(1)


def last_one_leaves(churn: Churn) -> None:
    churn.world.spawn("ben", leave_after, churn.proxied.bootstrap_servers, 20.0, {"client_id": "ben"})
    churn.stable(1)
    churn.world.advance(60)


def static_restart(churn: Churn) -> None:
    churn.member("anna", group_instance_id="a")
    ben = churn.member("ben", group_instance_id="b")
    churn.stable(2)
    ben.kill()
    churn.world.advance(5)
    churn.member("ben", group_instance_id="b")
    churn.world.advance(20)
    churn.stable(2)


def paused_member(churn: Churn) -> None:
    churn.member("anna")
    ben = churn.member("ben")
    churn.stable(2)
    ben.pause()
    churn.world.advance(60)
    ben.resume()
    churn.world.advance(60)
    churn.stable(2)


def cooperative(churn: Churn) -> None:
    settings = {"partition_assignment_strategy": "cooperative-sticky"}
    churn.member("anna", **settings)
    churn.stable(1)
    ben = churn.member("ben", **settings)
    churn.stable(2)
    churn.world.advance(10)
    ben.kill()
    churn.world.advance(60)
    churn.stable(1)


def slow_rejoin(churn: Churn) -> None:
    """Ben's machine is away during the rebalance that Cleo starts, and back before its session ends."""
    churn.member("anna", max_poll_interval_ms="20000")
    ben = churn.member("ben", max_poll_interval_ms="20000")
    churn.stable(2)
    churn.proxied.faults.rules = []
    ben.pause()
    churn.member("cleo", max_poll_interval_ms="20000")
    churn.world.advance(30)
    ben.resume()
    churn.world.advance(60)
    churn.stable(3)


STORIES = [
    joins_and_kill,
    together_and_all_killed,
    clean_leaves,
    last_one_leaves,
    static_restart,
    paused_member,
    cooperative,
    slow_rejoin,
]


@pytest.mark.parametrize("brokers", [1, 3])
@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_the_proxy_s_journal_is_the_broker_s(story: Callable[[Churn], None], brokers: int) -> None:
    with simulate(7) as world:
        broker = world.broker(brokers=brokers)
        broker.create_topic("orders", 6)
        proxied = WorldProxy(world, broker)
        story(Churn(world, broker, proxied))
        world.advance(2)
        assert rows(proxied.lines) == rows(broker.journal)
        for ours, theirs in zip(ended(proxied.lines), ended(broker.journal), strict=True):
            assert abs(ours.time_ms - theirs.time_ms) < CLOSE_MS
            assert abs((ours.join_ms or 0) - (theirs.join_ms or 0)) < CLOSE_MS
            assert (ours.owners, ours.leader, moved(ours)) == (theirs.owners, theirs.leader, moved(theirs))
        assert {cause["evidence"] for line in proxied.lines for cause in line.causes} <= {"observed", "inferred"}


def ended(lines: list[JournalLine]) -> list[JournalLine]:
    return [line for line in lines if line.event in ENDS]


def epochs(lines: list[JournalLine]) -> list[Row]:
    return [
        (line.event, line.generation, line.members, [(c["kind"], c.get("client_id")) for c in line.causes])
        for line in lines
        if line.event in CONSUMER_EVENTS
    ]


@pytest.mark.parametrize("story", [joins_and_kill], ids=lambda story: story.__name__)
def test_epochs_of_a_consumer_group_have_the_broker_s_causes(story: Callable[[Churn], None]) -> None:
    with simulate(8) as world:
        broker = world.broker()
        broker.create_topic("orders", 6)
        proxied = WorldProxy(world, broker)
        churn = Churn(world, broker, proxied)
        member = churn.member
        churn.member = lambda name, **settings: member(name, group_protocol="consumer", **settings)  # type: ignore[method-assign]
        story(churn)
        world.advance(10)
        assert epochs(proxied.lines) == epochs(broker.journal)
        assert all(moved["topic"] == "orders" for line in proxied.lines for moved in line.moved)


def test_a_classic_member_beside_consumers_is_one_of_the_same_group() -> None:
    with simulate(9) as world:
        broker = world.broker()
        broker.create_topic("orders", 6)
        proxied = WorldProxy(world, broker)
        churn = Churn(world, broker, proxied)
        churn.member("anna", group_protocol="consumer")
        churn.stable(1)
        churn.world.spawn("ben", leave_after, churn.proxied.bootstrap_servers, 20.0, {"client_id": "ben"})
        churn.stable(2)
        churn.world.advance(60)
        assert epochs(proxied.lines) == epochs(broker.journal)
        assert {cause["evidence"] for line in proxied.lines for cause in line.causes} == {"observed"}


def test_why_through_the_proxy_is_the_broker_s_own_answer() -> None:
    with simulate(10) as world:
        broker = world.broker()
        broker.create_topic("orders", 6)
        proxied = WorldProxy(world, broker)
        churn = Churn(world, broker, proxied)
        churn.member("anna")
        churn.stable(1)
        proxied.faults.rules.append(FaultRule("SyncGroup", None, None, 9))
        churn.member("ben")
        world.advance(10)

        async def explained(servers: str) -> GroupExplanation:
            async with Admin({"bootstrap.servers": servers}) as admin:
                return await admin.explain_group("crew")

        theirs, ours = (world.run(explained(one)) for one in (broker.bootstrap_servers, proxied.bootstrap_servers))
        assert (ours.unseen, theirs.unseen) == (str(UNSEEN), None)
        assert ours.verdict == theirs.verdict
        assert ours.verdict.endswith("has not sent the assignment yet")
        assert (ours.state, ours.generation, ours.leader) == (theirs.state, theirs.generation, theirs.leader)
        assert {m.member_id for m in ours.members} == {m.member_id for m in theirs.members}


def test_a_member_that_does_not_pass_the_proxy_is_never_an_observed_cause() -> None:
    with simulate(11) as world:
        broker = world.broker()
        broker.create_topic("orders", 6)
        proxied = WorldProxy(world, broker)
        churn = Churn(world, broker, proxied)
        churn.member("anna")
        churn.stable(1)
        work = broker.bootstrap_servers, "crew", "orders", churn.seen, {"client_id": "stranger"}
        stranger = world.spawn("stranger", _consume, *work)
        churn.stable(2)
        stranger.kill()
        world.advance(60)
        churn.stable(1)
        generations = [line for line in proxied.lines if line.event == "stable"]
        assert [line.generation for line in generations] == [
            line.generation for line in broker.journal if line.event == "stable"
        ]
        assert [line.members for line in generations] == [1, 2, 1]
        for line in generations[1:]:
            assert {cause["evidence"] for cause in line.causes} <= {"inferred", "unknown"}, line.causes


def test_a_proxy_that_comes_later_sees_the_next_generation_whole() -> None:
    with simulate(12) as world:
        broker = world.broker()
        broker.create_topic("orders", 6)
        proxied = WorldProxy(world, broker)
        churn = Churn(world, broker, proxied)
        churn.member("anna")
        churn.member("ben")
        churn.stable(2)
        proxied.observation.groups.forget("crew")
        proxied.lines.clear()
        before = len(broker.journal)
        churn.member("cleo")
        churn.stable(3)
        theirs = [line for line in broker.journal[before:] if line.event == "stable"]
        ours = [line for line in proxied.lines if line.event == "stable"]
        assert [(line.generation, line.members, line.owners) for line in ours] == [
            (line.generation, line.members, line.owners) for line in theirs
        ]
        observed = [c for line in ours for c in line.causes if c["evidence"] == "observed"]
        assert [cause["client_id"] for cause in observed] == ["cleo"]


def random_churn(churn: Churn, rng: random.Random) -> None:
    """Members come, leave, die and stop for a while, at any moments."""
    members: list[SimulatedProcess] = []
    for number in range(12):
        alive = [member for member in members if member.is_alive]
        action = rng.choice(["join", "join", "visit", "kill", "pause"]) if alive else "join"
        name = f"m{number}"
        if action == "join":
            static = {"group_instance_id": f"i{number}"} if rng.random() < 0.3 else {}
            members.append(churn.member(name, **static))
        elif action == "visit":
            work = churn.proxied.bootstrap_servers, rng.uniform(1, 20), {"client_id": name}
            churn.world.spawn(name, leave_after, *work)
        elif action == "kill":
            rng.choice(alive).kill()
        else:
            stopped = rng.choice(alive)
            stopped.pause()
            churn.world.advance(rng.uniform(1, 70))
            stopped.resume()
        churn.world.advance(rng.choice([0.01, 1, 10, 60]))
    churn.world.advance(120)


def generations(lines: list[JournalLine], named: Collection[str | None]) -> list[Row]:
    """By generation its end, the number of members, and its causes about members that are ``named``, or about none. Of two
    members that join with other subscriptions within a millisecond, on two connections, the coordinator's first one is in no
    response: of these causes the kind is compared."""
    return [
        (
            line.generation,
            line.event,
            line.members,
            frozenset(_comparable(c) for c in causes(line) if c[1] in named or not c[1]),
        )
        for line in lines
        if line.event in ("stable", "empty")
    ]


def _comparable(cause: Row) -> Row:
    return cause[:1] if cause[0] == "subscription_changed" else cause[:2]


LOST_LEADERS = (7, 23, 32)  # whose response, with the list of the members, is lost
SAME_MOMENT = (12,)
JOINED_BESIDE_SYNC = (6,)  # while the response to the leader's SyncGroup is on its way
MISSED_GENERATIONS = (48, 53, 54)  # that formed after the connections of all their members had ended
SILENT_TOGETHER = (51,)  # several members, in a generation without its leader's response
RESERVED_TO_THE_END = (60,)  # of a phase, which the expiry of an id that nobody used ends
BUSY_NEWCOMER = (85,)  # whose JoinGroup has no id yet, while a member that was paused comes back
EMPTY_UNSEEN = (73, 148, 172)  # a missed generation, and whether the group was empty after it
LATE_NEWCOMER = (157,)  # whose response comes after the followers' SyncGroups
SLOW_SEEDS = (
    *range(2, 6),
    *LOST_LEADERS,
    *SAME_MOMENT,
    *MISSED_GENERATIONS,
    *SILENT_TOGETHER,
    *RESERVED_TO_THE_END,
    *BUSY_NEWCOMER,
    *EMPTY_UNSEEN,
    *LATE_NEWCOMER,
)


@pytest.mark.parametrize(
    "seed", [0, 1, *JOINED_BESIDE_SYNC, *(pytest.param(seed, marks=pytest.mark.slow) for seed in SLOW_SEEDS)]
)
def test_random_churn_has_the_broker_s_causes(seed: int) -> None:
    assert differences(seed) == []


def differences(seed: int) -> list[tuple[Row | None, Row | None]]:
    """By the broker's journal and the proxy's: generations that are not the same. A member whose first JoinGroup has no
    response has no name here; the end of a group is seen once somebody joins it again."""
    with simulate(seed) as world:
        broker = world.broker(brokers=1)
        broker.create_topic("orders", 6)
        proxied = WorldProxy(world, broker)
        random_churn(Churn(world, broker, proxied), random.Random(seed))
    named = {cause.get("member_id") for line in proxied.lines for cause in line.causes}
    theirs = {row[0]: row for row in generations(broker.journal, named)}
    ours = {row[0]: row for row in generations(proxied.lines, named)}
    last = max(ours, default=0)
    seen = [g for g in sorted(ours.keys() | theirs.keys()) if g <= last or theirs[g][1] != "empty"]
    return [(theirs.get(g), ours.get(g)) for g in seen if theirs.get(g) != ours.get(g)]


if __name__ == "__main__":
    for number in range(*map(int, sys.argv[1:])):
        print(number, differences(number) or "the same", flush=True)
