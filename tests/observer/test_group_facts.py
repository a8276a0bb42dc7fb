"""What is known of a group from outside, and what has to be assumed for a prediction."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from coterie.client import GroupExplanation
from coterie.client.admin.group_explanation import MemberExplanation, PushedMetric
from coterie.client.admin_types import GroupType
from coterie.client.lint.lint import AS_IS
from coterie.client.lint.rule import MemberFacts
from coterie.observer.deploys import PredictableGroup, UnpredictableGroup, predictable
from coterie.observer.group_facts import METRICS, KnownGroupNow, facts_of, known_group, linted
from coterie.testing import ErrorCode, simulate
from coterie.testing.simulated import SimulatedWorld
from tests.observer.stories import GROUP, Crew, three_members

SETTINGS = {"session_timeout_ms": 8_000, "heartbeat_interval_ms": 1_000, "auto_commit_interval_ms": 2_000}


def known_of(world: SimulatedWorld, crew: Crew) -> KnownGroupNow:
    return world.run(known_group({"bootstrap.servers": crew.broker.bootstrap_servers}, GROUP))


def of_another_broker(crew: Crew) -> None:
    crew.broker.fail("ExplainGroup", ErrorCode.UNSUPPORTED_VERSION, times=10**9)


def test_the_records_have_the_timeouts_the_cadence_of_commits_and_the_rate() -> None:
    with simulate(seed=1) as world:
        crew = three_members(world, **SETTINGS)
        of_another_broker(crew)
        known = known_of(world, crew)
        assert len(known.facts.members) == 3
        for member in known.facts.members.values():
            assert member.session_timeout_ms == 8_000
            assert member.max_poll_interval_ms == 300_000
            assert member.heartbeat_interval_ms is None
            assert member.commit_every_ms == pytest.approx(2_000, abs=300)
        assert known.facts.records_per_s == pytest.approx(1.0, abs=0.2)
        group = predictable(known)
        setting = group.deployed.setting
        assert (group.deployed.members, group.deployed.partitions) == (3, 6)
        assert (setting.name, setting.heartbeat_interval_ms) == ("range, session 8.0 s", 2_666)
        assert list(map(str, group.assumed)) == [
            "heartbeat.interval.ms is not known: 2666 is assumed, a third of the session timeout",
            "the time between two polls is not known: it is assumed to be short",
        ]


@pytest.mark.slow
def test_a_coterie_broker_also_knows_the_heartbeats() -> None:
    with simulate(seed=1) as world:
        crew = three_members(world, **SETTINGS)
        known = known_of(world, crew)
        assert all(1_000 <= (m.heartbeat_interval_ms or 0) < 1_300 for m in known.facts.members.values())


def explained(**pushed: float) -> GroupExplanation:
    """A member that pushes these metrics, of those about polls."""
    metrics = tuple(PushedMetric(METRICS + name.replace("_", "."), (), value) for name, value in pushed.items())
    unknown: Any = dict.fromkeys(
        ("waits_in", "last_heard_ms", "session_timeout_ms", "session_left_ms", "rebalance_timeout_ms", "last_fetch_ms")
    )
    member = MemberExplanation(
        "anna-1", None, "anna", (), "/h", leader=True, client_software=None, pushed=metrics, **unknown
    )
    nothing: Any = dict.fromkeys(field.name for field in fields(GroupExplanation))
    return GroupExplanation(**nothing | {"members": (member,)})


def test_what_the_code_takes_between_two_polls_is_without_the_time_in_a_poll() -> None:
    pushed = explained(time_between_poll_max=900.0, time_between_poll_avg=200.0, poll_idle_ratio_avg=0.75)
    (member,) = facts_of([], {}, pushed).members.values()
    assert (member.longest_poll_ms, member.poll_ms) == (900, 50)
    (member,) = facts_of([], {}, explained(time_between_poll_avg=200.0)).members.values()
    assert member.poll_ms == 200
    (member,) = facts_of([], {}, explained(poll_idle_ratio_avg=0.5)).members.values()  # as librdkafka
    assert member.poll_ms is None


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (GroupType.SHARE, "is a share group: its members own records"),
        (GroupType.STREAMS, "is a streams group: no deploy is predicted"),
        (GroupType.CLASSIC, "has no members to restart"),
    ],
)
def test_a_group_whose_deploys_cannot_be_predicted_is_refused_in_a_sentence(kind: GroupType, why: str) -> None:
    with simulate(seed=1) as world:
        crew = Crew(world, watched=False)
        crew.join("anna")
        crew.settle(1, 1)
        known = known_of(world, crew)
    description = replace(known.description, type=kind, members=())
    with pytest.raises(UnpredictableGroup, match=f"^crew {why}"):
        predictable(known._replace(description=description))


def test_the_time_between_two_polls_can_be_given() -> None:
    with simulate(seed=1) as world:
        crew = Crew(world, watched=False)
        crew.join("anna")
        crew.settle(1, 1)
        group = predictable(known_of(world, crew), 3_000)
    assert group.deployed.setting.poll_ms == 3_000
    assert not any("between two polls" in str(phrase) for phrase in group.assumed)


JAVA, OURS = "apache-kafka-java 3.9.1", "coterie 1.0"


@pytest.mark.parametrize(
    ("software", "is_given", "joins_in_polls"),
    [([JAVA], None, True), ([OURS], None, False), ([OURS, JAVA], None, True), ([], None, True), ([JAVA], False, False)],
)
def test_java_s_members_take_part_in_a_rebalance_in_their_polls(
    software: list[str], is_given: bool | None, joins_in_polls: bool
) -> None:
    with simulate(seed=1) as world:
        crew = Crew(world, watched=False)
        crew.join("anna")
        crew.settle(1, 1)
        known = known_of(world, crew)
    known = known._replace(support=replace(known.support, software={str(n): s for n, s in enumerate(software)}))
    group = predictable(known, 3_000, is_given)
    assert group.deployed.setting.joins_in_polls is joins_in_polls
    assert any("taken for Java's" in str(phrase) for phrase in group.assumed) is (not software)
    assert not predictable(known).deployed.setting.joins_in_polls  # polls follow each other at once


@pytest.mark.slow
def test_what_may_not_be_read_is_assumed_and_named() -> None:
    with simulate(seed=1) as world:
        crew = three_members(world, **SETTINGS)
        of_another_broker(crew)
        crew.broker.fail("Fetch", ErrorCode.TOPIC_AUTHORIZATION_FAILED, times=10**9)
        known = known_of(world, crew)
        assert set(known.facts.members.values()) == {MemberFacts()}
        group = predictable(known)
        assert group.deployed.setting.session_timeout_ms == 45_000
        assert list(map(str, group.assumed[:2])) == [
            "__consumer_offsets cannot be read: grant READ on the topic",
            "session.timeout.ms is not known: 45000 is assumed, the default",
        ]


@pytest.mark.slow
def test_members_that_differ_are_named() -> None:
    with simulate(seed=1) as world:
        crew = Crew(world, watched=False)
        crew.join("anna", **SETTINGS)
        crew.join("ben", **SETTINGS | {"session_timeout_ms": 10_000, "group_instance_id": "b"})
        crew.settle(2)
        group: PredictableGroup = predictable(known_of(world, crew))
        assert group.deployed.setting.session_timeout_ms == 10_000
        assert not group.deployed.setting.static
        assert "1 of 2 members are static: all are taken for dynamic" in map(str, group.assumed)
        assert any(str(p).startswith("session.timeout.ms differs between members: 10000") for p in group.assumed)


@pytest.mark.slow
def test_a_consumer_group_has_the_settings_of_its_broker() -> None:
    with simulate(seed=1) as world:
        crew = Crew(world, watched=False)
        crew.join("anna", group_protocol="consumer")
        crew.settle(1, 20)
        group = predictable(known_of(world, crew))
        setting = group.deployed.setting
        assert (setting.protocol, setting.name) == ("consumer", "consumer protocol, session 45 s")
        assert (setting.session_timeout_ms, setting.heartbeat_interval_ms) == (45_000, 5_000)
        assert group.serves_consumer


@pytest.mark.slow
def test_two_processes_with_one_instance_id_are_found_in_the_records() -> None:
    with simulate(seed=1) as world:
        crew = Crew(world, watched=False)
        crew.join("anna", **SETTINGS, group_instance_id="seat-1")
        crew.settle(1, 5)
        for _ in range(3):
            crew.join("anna", **SETTINGS, group_instance_id="seat-1")
            world.advance(4)
        crew.join("ben", **SETTINGS, group_instance_id="seat-2")
        crew.settle(2, 10)
        of_another_broker(crew)
        advices = world.run(linted({"bootstrap.servers": crew.broker.bootstrap_servers}, GROUP))
        (as_is,) = (advice for advice in advices if advice.change == AS_IS)
        (finding,) = (f for f in as_is.findings if f.rule == "colliding_instances")
        assert (finding.members, as_is.safe) == (("seat-1",), False)
