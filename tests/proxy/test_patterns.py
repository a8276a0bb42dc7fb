"""What the proxy's journal has beside generations: patterns, commits by no member, and moved coordinators."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from coterie.client import Admin, TopicPartition
from coterie.client.errors import FencedInstanceIdError
from coterie.coordinator.journal.line import JournalLine
from coterie.testing.faults import FaultRule
from coterie.testing.simulated import SimulatedWorld, WorldBroker, simulate
from tests.proxy.test_observing import Churn, epochs, slow_rejoin
from tests.proxy.worlds import WorldProxy, consume

Shown = tuple[str, str, str, str]


def shown(lines: list[JournalLine]) -> list[Shown]:
    """Each pattern: kind, client, evidence and rule of its cause."""
    causes = [cause for line in lines if line.event == "pattern_seen" for cause in line.causes]
    return [(c["kind"], c.get("client_id", ""), c["evidence"], c.get("rule", "")) for c in causes]


def journal_of(story: Callable[[Churn], None], seed: int = 21) -> WorldProxy:
    with simulate(seed) as world:
        return of_story(world, world.broker(), story)


def of_story(world: SimulatedWorld, broker: WorldBroker, story: Callable[[Churn], None]) -> WorldProxy:
    broker.create_topic("orders", 6)
    proxied = WorldProxy(world, broker)
    story(Churn(world, broker, proxied))
    world.advance(2)
    return proxied


def restarted(churn: Churn, names: list[str]) -> None:
    """Each is killed, and comes back once its session is over."""
    members = {name: churn.member(name, session_timeout_ms="6000") for name in ("anna", "ben", "cleo")}
    churn.stable(3)
    for name in names:
        members[name].kill()
        churn.stable(2)
        members[name] = churn.member(name, session_timeout_ms="6000")
        churn.stable(3)


def test_members_restarted_in_turn_are_a_deploy() -> None:
    lines = journal_of(lambda churn: restarted(churn, ["anna", "ben", "cleo"])).lines
    assert shown(lines) == [("deploy", "", "inferred", "restarted_in_turn")]


def test_a_client_that_comes_and_goes_flaps() -> None:
    lines = journal_of(lambda churn: restarted(churn, ["ben"] * 3)).lines
    assert shown(lines) == [("member_flaps", "ben", "inferred", "restarted_again")]


def test_a_long_join_phase_names_the_member_that_it_waits_for() -> None:
    assert shown(journal_of(slow_rejoin, 7).lines) == [("slow_join", "ben", "observed", "")]


def test_a_leader_that_does_not_send_the_assignment_is_named() -> None:
    def story(churn: Churn) -> None:
        churn.proxied.faults.rules.append(FaultRule("SyncGroup", None, "anna", 1, delay_s=15.0))
        churn.member("anna")
        churn.stable(1)

    assert shown(journal_of(story).lines) == [("slow_sync", "anna", "observed", "")]


def test_two_processes_with_one_group_instance_id_are_named_by_the_refusal_of_one() -> None:
    def story(churn: Churn) -> None:
        churn.world.spawn("anna", until_fenced, churn.proxied.bootstrap_servers)
        churn.stable(1)
        churn.member("ben", group_instance_id="seat")
        churn.world.advance(20)

    assert shown(journal_of(story).lines) == [("instance_fenced", "anna", "observed", "")]


async def until_fenced(servers: str) -> None:
    with pytest.raises(FencedInstanceIdError):
        await consume(servers, "crew", "orders", [], client_id="anna", group_instance_id="seat")


def test_a_commit_by_no_member_is_observed_once() -> None:
    def story(churn: Churn) -> None:
        churn.member("anna", session_timeout_ms="6000").kill()
        anna = churn.member("anna", session_timeout_ms="6000")
        churn.stable(1)
        anna.kill()
        churn.world.advance(10)
        for offset in (1, 2):
            churn.world.run(altered(churn.proxied.bootstrap_servers, offset))

    assert shown(journal_of(story).lines) == [("commit_by_stranger", "operator", "observed", "")]


async def altered(servers: str, offset: int) -> None:
    async with Admin({"bootstrap.servers": servers, "client.id": "operator"}) as admin:
        await admin.alter_consumer_group_offsets("crew", {TopicPartition("orders", 0): offset})


def test_a_commit_of_a_group_that_never_had_a_member_is_no_stranger_s() -> None:
    lines = journal_of(lambda churn: churn.world.run(altered(churn.proxied.bootstrap_servers, 1))).lines
    assert lines == []


def test_another_broker_that_coordinates_the_group_is_a_line() -> None:
    with simulate(22) as world:
        broker = world.broker(brokers=3)
        moved = []

        def story(churn: Churn) -> None:
            churn.member("anna")
            churn.stable(1)
            coordinator = world.run(coordinator_of(broker.bootstrap_servers))
            broker.kill(coordinator)
            world.advance(60)
            moved.append((coordinator, world.run(coordinator_of(broker.bootstrap_servers))))

        lines = of_story(world, broker, story).lines
    moves = [(line.coordinator_from, line.coordinator) for line in lines if line.event == "coordinator_moved"]
    assert moves == moved
    assert moves[0][0] != moves[0][1]


async def coordinator_of(servers: str) -> int:
    async with Admin({"bootstrap.servers": servers}) as admin:
        return (await admin.describe_consumer_group("crew")).coordinator.id


def test_a_group_that_becomes_one_of_the_consumer_protocol_is_a_line_as_the_broker_s() -> None:
    with simulate(23) as world:
        broker = world.broker()

        def story(churn: Churn) -> None:
            churn.member("anna")
            churn.stable(1)
            churn.member("ben", group_protocol="consumer")
            churn.world.advance(20)

        proxied = of_story(world, broker, story)
        upgrades = [
            [(line.event, line.generation, line.causes[0]["kind"]) for line in lines if line.event == "group_removed"]
            for lines in (proxied.lines, broker.journal)
        ]
        assert upgrades[0] == upgrades[1] == [("group_removed", 1, "upgraded")]
        assert epochs(proxied.lines)[-1:] == epochs(broker.journal)[-1:]
