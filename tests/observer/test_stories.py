"""What the observer concludes of each story, beside the broker's own journal: its causes by name, and none that is marked
observed and is not the broker's. The rules as a table, and what no scenario of tests/spec/observe has the words for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from coterie.assignors.blobs import encode_subscription
from coterie.coordinator.journal.generations import stored_change
from coterie.coordinator.journal.line import CAUSES, EVENTS, JournalLine
from coterie.observer.machine.rules import DEPARTURE_RULES, RULES
from coterie.testing import ErrorCode, simulate
from coterie.testing.simulated import SimulatedWorld
from coterie.wire.messages.stored.consumer_offsets import GroupMetadataValue, MemberMetadata
from coterie_conformance.scenarios.observer_scenario import SightedGroup
from tests.observer import modern_stories, stories
from tests.observer.stories import GROUP, Crew

Tell = Callable[[SimulatedWorld], Crew]
COMPARED = ("stable", "empty", "epoch_raised", "member_replaced", "member_removed", "group_removed")
# The observer's name of a cause, and the names that the broker has for the same.
SAME = {
    "tombstone": {"deleted", "expired"},
    "topic_metadata_changed": {"subscription_changed", "leader_rejoined"},
    "regex_resolved": {"subscription_changed"},
}
# One of each way to leave, and of each kind of group; the rules themselves are scenarios of tests/spec/observe.
QUICK = {"kill", "clean_leave", "static_restart", "regex_gains_topic", "consumer_leave", "upgrade", "deleted"}
SPEC = Path(__file__).parents[1] / "spec" / "observe"


class Story(NamedTuple):
    """``kind`` and ``evidence`` of the cause that the story is about, in a line of that ``event``."""

    tell: Tell
    event: str
    kind: str
    evidence: str


STORIES = [
    Story(stories.kill, "stable", "session_timeout", "inferred"),
    Story(stories.clean_leave, "stable", "member_left", "inferred"),
    Story(stories.slow_poll, "stable", "member_left", "inferred"),
    Story(stories.paused, "stable", "session_timeout", "inferred"),
    Story(stories.deploy, "pattern_seen", "deploy", "inferred"),
    Story(stories.flapping, "pattern_seen", "member_flaps", "inferred"),
    Story(stories.static_restart, "member_replaced", "static_member_returned", "observed"),
    Story(stories.static_death, "stable", "session_timeout", "inferred"),
    Story(stories.fenced_instance, "pattern_seen", "instance_fenced", "inferred"),
    Story(stories.added_partitions, "stable", "topic_metadata_changed", "inferred"),
    Story(stories.regex_gains_topic, "stable", "regex_resolved", "inferred"),
    Story(stories.changed_subscription, "stable", "subscription_changed", "observed"),
    Story(stories.cooperative_join, "stable", "subscription_changed", "inferred"),
    Story(stories.commit_by_stranger, "pattern_seen", "commit_by_stranger", "inferred"),
    Story(stories.consumer_commit_by_stranger, "pattern_seen", "commit_by_stranger", "inferred"),
    Story(stories.consumer_kill, "epoch_raised", "session_timeout", "inferred"),
    Story(stories.consumer_leave, "epoch_raised", "member_left", "inferred"),
    Story(stories.consumer_added_partitions, "epoch_raised", "topic_metadata_changed", "observed"),
    Story(stories.consumer_static_restart, "member_replaced", "member_replaced", "observed"),
    Story(stories.upgrade, "epoch_raised", "upgraded", "observed"),
    Story(stories.downgrade, "group_removed", "downgraded", "observed"),
    Story(stories.slow_join, "pattern_seen", "slow_join", "inferred"),
    Story(stories.stuck_sync, "pattern_seen", "slow_sync", "observed"),
    Story(stories.deleted, "group_removed", "tombstone", "observed"),
    Story(modern_stories.share_joins, "epoch_raised", "states_initialized", "observed"),
    Story(modern_stories.share_leave, "epoch_raised", "member_left", "inferred"),
    Story(modern_stories.share_kill, "epoch_raised", "member_gone", "unknown"),
    Story(modern_stories.share_subscription, "epoch_raised", "subscription_changed", "observed"),
    Story(modern_stories.share_added_partitions, "epoch_raised", "topic_metadata_changed", "observed"),
    Story(modern_stories.share_deleted, "group_removed", "tombstone", "observed"),
    Story(modern_stories.streams_joins, "epoch_raised", "member_joined", "observed"),
    Story(modern_stories.streams_leave, "epoch_raised", "member_left", "inferred"),
    Story(modern_stories.streams_kill, "epoch_raised", "session_timeout", "inferred"),
    Story(modern_stories.streams_added_partitions, "epoch_raised", "topic_metadata_changed", "observed"),
]
QUICK |= {"share_joins", "streams_kill"}


def of_group(lines: list[JournalLine]) -> list[JournalLine]:
    return [line for line in lines if line.group == GROUP and line.event in COMPARED]


def disagreements(crew: Crew) -> list[tuple[int, str, dict[str, str]]]:
    """The observer's causes that the broker does not have in its line of the same event; unknown ones are none."""
    true: dict[tuple[int, str], set[tuple[str, str]]] = {}
    for line in of_group(list(crew.broker.journal)):
        kinds = true.setdefault((line.generation, line.event), set())
        kinds |= {(c["kind"], c.get("member_id", "")) for c in line.causes}
    wrong = []
    for line in of_group(crew.lines):
        causes = true.get((line.generation, line.event), set())
        names = {kind for kind, _ in causes}
        for cause in line.causes:
            kind, member_id = cause["kind"], cause.get("member_id", "")
            is_right = (kind, member_id) in causes or (not member_id and names & {kind, *SAME.get(kind, ())})
            if not is_right and cause["evidence"] != "unknown":
                wrong.append((line.generation, line.event, cause))
    return wrong


@pytest.mark.parametrize(
    "story",
    [
        pytest.param(story, id=name, marks=() if name in QUICK else pytest.mark.slow)
        for name, story in ((story.tell.__name__, story) for story in STORIES)
    ],
)
def test_the_cause_is_the_brokers(story: Story) -> None:
    with simulate(seed=1) as world:
        crew = story.tell(world)
        concluded = [
            (cause["kind"], cause["evidence"])
            for line in crew.lines
            if line.event == story.event and line.group == GROUP
            for cause in line.causes
        ]
        assert (story.kind, story.evidence) in concluded
        assert disagreements(crew) == []
        assert crew.notices == []
        lines = {(line.generation, line.event) for line in of_group(crew.lines)} - {(1, "member_removed")}
        # A line without a cause is the stored state of a group that changed its protocol.
        every = {(line.generation, line.event) for line in of_group(list(crew.broker.journal)) if line.causes}
        assert lines <= every
        assert {line for line in every if line[1] in ("stable", "empty", "epoch_raised")} <= lines


def test_a_coordinator_that_moved() -> None:
    with simulate(seed=1) as world:
        crew = stories.coordinator_moved(world)
        (true,) = [line for line in crew.broker.journal if line.event == "coordinator_moved" and line.group == GROUP]
        (seen,) = [line for line in crew.lines if line.event == "coordinator_moved"]
        assert (seen.coordinator, seen.coordinator_epoch) == (true.coordinator, true.coordinator_epoch)
        assert disagreements(crew) == []


def test_without_the_right_to_read_the_groups_are_described() -> None:
    with simulate(seed=1) as world:
        crew = Crew(world, watched=False)
        crew.broker.fail("Fetch", ErrorCode.TOPIC_AUTHORIZATION_FAILED, client_id="observer", times=10**9)
        crew.join("anna")
        crew.settle(1)
        crew.watch()
        crew.join("ben")
        crew.settle(2)
        crew.controls["ben"].leaves = True
        world.advance(10)
        crew.settle(1)
        (notice,) = crew.notices
        assert "grant READ" in notice
        seen = [(line.event, [(c["kind"], c["evidence"]) for c in line.causes]) for line in crew.lines]
        generations = [causes for event, causes in seen if event == "stable"]
        assert generations == [[("member_joined", "observed")], [("member_gone", "unknown")]]


@pytest.mark.slow
def test_requests_stay_below_the_rate() -> None:
    with simulate(seed=1) as world:
        crew = Crew(world, brokers=3, watched=False)
        for name in ("anna", "ben"):
            crew.join(name)
        crew.settle(2)
        crew.watch(requests_per_s=2.0)
        world.advance(5)
        before = sum(map(crew.broker.requested, stories.DESCRIPTIONS))
        world.advance(100)
        requested = sum(map(crew.broker.requested, stories.DESCRIPTIONS)) - before
        assert 90 <= requested <= 2 * 100 + 2


@pytest.mark.parametrize("from_beginning", [False, True])
def test_a_broker_that_is_away_for_a_while(from_beginning: bool) -> None:
    """The tail goes on where it was: no line is lost or written twice."""
    with simulate(seed=1) as world:
        crew = Crew(world, watched=False)
        crew.watch(from_beginning=from_beginning)
        crew.join("anna")
        crew.settle(1)
        crew.broker.kill()
        world.advance(20)
        crew.broker.restart()
        crew.join("ben")
        crew.settle(2)
        seen = [(line.generation, line.event) for line in of_group(crew.lines)]
        assert seen == [(line.generation, line.event) for line in of_group(list(crew.broker.journal)) if line.causes]
        assert disagreements(crew) == []


@pytest.mark.slow
def test_session_timeouts_of_generations_before_the_observer() -> None:
    """The last generation in the log has them: the first departure is explained as any other."""
    with simulate(seed=1) as world:
        crew = Crew(world, watched=False)
        for name in ("anna", "ben", "cleo"):
            crew.join(name, session_timeout_ms="20000")
        crew.settle(3)
        crew.watch()
        world.advance(20)
        crew.process("ben").kill()
        crew.settle(2, 40)
        (line,) = [line for line in crew.lines if line.event == "stable"]
        causes = [(cause["kind"], cause.get("rule")) for cause in line.causes]
        assert causes == [("session_timeout", "silent_for_session")]
        assert (line.generation, disagreements(crew)) == (2, [])


def test_every_rule_has_a_scenario_of_its_name_that_concludes_it() -> None:
    scenarios = [part for path in SPEC.glob("*.txt") for part in path.read_text().split("\n== ")[1:]]
    traces = {name: trace for name, _, trace in (part.partition("\n") for part in scenarios)}
    assert [rule for rule in RULES if f"(inferred, {rule})" not in traces.get(rule, "")] == []


def test_every_rule_has_its_words_and_every_kind_is_the_journals() -> None:
    assert DEPARTURE_RULES.keys() < RULES.keys()
    kinds = {"deploy", "member_flaps", "slow_join", "slow_sync", "instance_fenced", "commit_by_stranger"}
    assert kinds | {"member_gone", "not_seen", "coordinator_lost"} < CAUSES.keys()
    assert "pattern_seen" in EVENTS


def test_what_a_cooperative_member_owned_is_no_change_of_its_subscription() -> None:
    """Its subscription's bytes hold the partitions that it owned; only the topics count."""

    def value(owned: dict[str, list[int]]) -> GroupMetadataValue:
        member = MemberMetadata("anna-1", None, "anna", "/h", 1, 1, encode_subscription(["orders"], owned), b"")
        return GroupMetadataValue("consumer", 1, "cooperative-sticky", "anna-1", -1, [member])

    assert value({"orders": [1]}) != value({})
    assert stored_change(value({"orders": [1]}), value({})).resubscribed == []


def test_the_groups_worth_a_description() -> None:
    group = SightedGroup()
    group.stored(0, 1, "anna-1")
    group.observer.listed(["a", "b"])
    assert group.observer.worth_describing(1_000_000, 2) == ["a", "b"]
    group.described(1, "PreparingRebalance", "anna-1")
    assert "crew" in group.observer.worth_describing(1_001_000, 1)
