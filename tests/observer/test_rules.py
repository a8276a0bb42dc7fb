"""Each rule of the observer: sights in, lines out, and a neighbour of the story in which the rule must not conclude."""

from __future__ import annotations

import pytest

from coterie.coordinator.journal.line import CAUSES, EVENTS
from coterie.observer.machine.rules import DEPARTURE_RULES, RULES
from tests.observer.sighted_group import SightedGroup, causes


def crew(*names: str, **settings: bool) -> SightedGroup:
    """Generation 1 is stored at 0 s; member N owns partition N."""
    group = SightedGroup(**settings)
    group.tick(0)
    group.seen_topics(0)
    group.stored(0, 1, *names)
    return group


def test_the_first_members_joined() -> None:
    group = crew("anna-1", "ben-1")
    assert causes(group.lines) == [("member_joined", "anna", "observed", ""), ("member_joined", "ben", "observed", "")]
    (line,) = group.lines
    assert (line.event, line.generation, line.members, line.leader, line.protocol) == (
        "stable",
        1,
        2,
        "anna-1",
        "range",
    )
    assert line.owners == {"anna-1": {"orders": [0, 2, 4]}, "ben-1": {"orders": [1, 3, 5]}}


def test_a_generation_without_one_before_it_has_no_known_cause() -> None:
    group = SightedGroup()
    assert causes(group.stored(0, 9, "anna-1")) == [("not_seen", "", "unknown", "")]


def test_a_member_that_has_just_committed_left() -> None:
    group = crew("anna-1", "ben-1")
    group.commits(60, 1)
    assert causes(group.stored(63, 2, "anna-1")) == [("member_left", "ben", "inferred", "alive_within_session")]


@pytest.mark.parametrize(("gone_s", "kind"), [(106, "session_timeout"), (150, "member_gone"), (104, "member_left")])
def test_a_member_whose_commits_stopped_a_session_ago_expired(gone_s: float, kind: str) -> None:
    group = crew("anna-1", "ben-1")
    group.commits(60, 1)
    ((concluded, client, evidence, rule),) = causes(group.stored(gone_s, 2, "anna-1"))
    assert (concluded, client) == (kind, "ben")
    assert evidence == ("unknown" if kind == "member_gone" else "inferred")
    assert rule == {"session_timeout": "silent_for_session", "member_left": "alive_within_session"}.get(kind, "")


def test_a_member_that_never_committed_is_gone_for_an_unknown_reason() -> None:
    """But for one that joined the last generation less than a session ago."""
    group = crew("anna-1", "ben-1", "cleo-1")
    assert causes(group.stored(50, 2, "anna-1", "cleo-1")) == [("member_gone", "ben", "unknown", "")]
    assert causes(group.stored(90, 3, "anna-1")) == [("member_left", "cleo", "inferred", "alive_within_session")]


def test_a_description_bounds_when_the_member_was_gone() -> None:
    """The others may take long to rejoin: it is the moment of the removal that counts."""
    group = crew("anna-1", "ben-1")
    group.described(1, "Stable", "anna-1", "ben-1")
    group.commits(60, 1)
    group.described(62, "Stable", "anna-1", "ben-1")
    group.described(63, "PreparingRebalance", "anna-1")
    assert causes(group.stored(150, 2, "anna-1")) == [("member_left", "ben", "inferred", "alive_within_session")]


def test_a_member_that_does_not_poll_leaves() -> None:
    group = crew("anna-1", "ben-1")
    group.commits(60, 1)
    assert causes(group.stored(361, 2, "anna-1")) == [("member_left", "ben", "inferred", "poll_interval_passed")]


def test_a_member_that_does_not_rejoin_in_time() -> None:
    group = crew("anna-1", "ben-1")
    group.described(1, "Stable", "anna-1", "ben-1")
    group.commits(60, 1)
    group.described(63, "PreparingRebalance", "anna-1", "ben-1", "cleo-1")
    group.described(362, "PreparingRebalance", "anna-1", "ben-1", "cleo-1")
    concluded = causes(group.stored(363.5, 2, "anna-1", "cleo-1"))
    assert concluded == [
        ("rebalance_timeout", "ben", "inferred", "rebalance_timeout_passed"),
        ("member_joined", "cleo", "observed", ""),
    ]


def test_a_static_member_does_not_leave() -> None:
    group = SightedGroup()
    group.static = {"anna", "ben"}
    group.stored(0, 1, "anna-1", "ben-1")
    group.commit(60, 1)
    assert causes(group.stored(200, 2, "anna-1")) == [("session_timeout", "ben", "inferred", "static_members_stay")]


def test_a_static_member_that_restarts_makes_no_generation() -> None:
    group = SightedGroup()
    group.static = {"anna", "ben"}
    group.stored(0, 1, "anna-1", "ben-1")
    lines = group.stored(20, 1, "anna-1", "ben-2")
    assert [line.event for line in lines] == ["member_replaced"]
    assert causes(lines) == [("static_member_returned", "ben", "observed", "")]
    assert not causes(group.stored(200, 1, "anna-1", "ben-3"), "pattern_seen")


def test_two_processes_with_one_instance_id_fence_each_other() -> None:
    group = SightedGroup()
    group.static = {"anna", "ben"}
    group.stored(0, 1, "anna-1", "ben-1")
    group.stored(20, 1, "anna-1", "ben-2")
    lines = group.stored(22, 1, "anna-1", "ben-3")
    assert causes(lines, "pattern_seen") == [("instance_fenced", "ben", "inferred", "instance_replaced_again")]


def test_added_partitions() -> None:
    group = crew("anna-1", "ben-1")
    group.topics["orders"] = 8
    concluded = causes(group.stored(60, 2, "anna-1", "ben-1"))
    assert concluded == [("topic_metadata_changed", "", "inferred", "partitions_added")]


@pytest.mark.parametrize("is_new", [True, False])
def test_a_subscription_that_grew(is_new: bool) -> None:
    group = SightedGroup()
    if not is_new:
        group.topics["audits"] = 2
    group.seen_topics(0)
    group.stored(0, 1, "anna-1", "ben-1")
    group.seen_topics(30)
    group.topics["audits"] = 2
    group.subscription = ["audits", "orders"]
    concluded = causes(group.stored(60, 2, "anna-1", "ben-1"))
    if is_new:
        assert concluded == [("regex_resolved", "", "inferred", "topic_gained")]
    else:
        assert concluded == [
            ("subscription_changed", "anna", "observed", ""),
            ("subscription_changed", "ben", "observed", ""),
        ]


def test_the_second_round_of_a_cooperative_rebalance() -> None:
    group = SightedGroup()
    group.protocol = "cooperative-sticky"
    group.seen_topics(0)
    group.stored(0, 1, "anna-1")
    group.topics["orders"] = 4  # the first round takes two away
    group.stored(20, 2, "anna-1", "ben-1")
    group.topics["orders"] = 6
    concluded = causes(group.stored(21, 3, "anna-1", "ben-1"))
    assert concluded == [("subscription_changed", "", "inferred", "cooperative_second_round")]


def test_what_a_cooperative_member_owned_is_no_change_of_its_subscription() -> None:
    """Its subscription's bytes hold the partitions that it owned; only the topics count."""
    from coterie.assignors.blobs import encode_subscription
    from coterie.coordinator.journal.stored_changes import stored_change
    from coterie.wire.messages.stored.consumer_offsets import GroupMetadataValue, MemberMetadata

    def value(owned: dict[str, list[int]]) -> GroupMetadataValue:
        member = MemberMetadata("anna-1", None, "anna", "/h", 1, 1, encode_subscription(["orders"], owned), b"")
        return GroupMetadataValue("consumer", 1, "cooperative-sticky", "anna-1", -1, [member])

    assert value({"orders": [1]}) != value({})
    assert stored_change(value({"orders": [1]}), value({})).resubscribed == []


def test_the_same_members_and_topics() -> None:
    group = crew("anna-1", "ben-1")
    concluded = causes(group.stored(60, 2, "anna-1", "ben-1"))
    assert concluded == [("leader_rejoined", "anna", "inferred", "same_members")]


def test_a_deploy() -> None:
    group = crew("anna-1", "ben-1", "cleo-1")
    time_s, generation, now = 60.0, 1, ["anna-1", "ben-1", "cleo-1"]
    seen = []
    for name in ("anna", "ben", "cleo"):
        now.remove(f"{name}-1")
        seen += causes(group.stored(time_s, generation + 1, *now), "pattern_seen")
        now.append(f"{name}-2")
        seen += causes(group.stored(time_s + 10, generation + 2, *now), "pattern_seen")
        time_s, generation = time_s + 20, generation + 2
    assert seen == [("deploy", "", "inferred", "restarted_in_turn")]


def test_one_member_that_flaps_is_no_deploy() -> None:
    group = crew("anna-1", "ben-1")
    seen, generation = [], 1
    for life in range(2, 6):
        seen += causes(group.stored(life * 30, generation + 1, "anna-1"), "pattern_seen")
        seen += causes(group.stored(life * 30 + 15, generation + 2, "anna-1", f"ben-{life}"), "pattern_seen")
        generation += 2
    assert seen == [("member_flaps", "ben", "inferred", "restarted_again")]


def test_a_slow_joiner() -> None:
    group = crew("anna-1", "ben-1")
    group.described(1, "Stable", "anna-1", "ben-1")
    group.commits(60, 0)
    group.commits(30, 1)
    lines = group.described(62, "PreparingRebalance", "anna-1", "ben-1", "cleo-1")
    assert [(line.event, line.state_from, line.state_to) for line in lines] == [
        ("rebalance_started", "Stable", "PreparingRebalance")
    ]
    assert group.described(71, "PreparingRebalance", "anna-1", "ben-1", "cleo-1") == []
    lines = group.described(73, "PreparingRebalance", "anna-1", "ben-1", "cleo-1")
    assert causes(lines) == [("slow_join", "ben", "inferred", "commits_stopped_first")]
    assert group.described(90, "PreparingRebalance", "anna-1", "ben-1", "cleo-1") == []


def test_a_stuck_sync_and_the_lengths_of_the_phases() -> None:
    group = crew("anna-1", "ben-1")
    group.described(1, "Stable", "anna-1", "ben-1")
    group.described(60, "PreparingRebalance", "anna-1", "ben-1")
    group.described(63, "CompletingRebalance", "anna-1", "ben-1")
    lines = group.described(74, "CompletingRebalance", "anna-1", "ben-1")
    assert causes(lines) == [("slow_sync", "", "observed", "")]
    line = group.stored(75, 2, "anna-1", "ben-1")[0]
    assert (line.join_ms, line.sync_ms, line.unowned_ms) == (3_000, 12_000, 6 * 15_000)


def test_a_commit_of_no_member() -> None:
    group = crew("anna-1")
    assert group.commit(10, 3) == []
    concluded = causes(group.commit(11, 0, "audits"))
    assert concluded == [("commit_by_stranger", "", "inferred", "commit_of_no_member")]
    assert group.commit(12, 0, "audits") == []


def test_another_coordinator_and_none() -> None:
    from coterie.observer.machine import sights
    from tests.observer.sighted_group import GROUP, at

    group = crew("anna-1")
    group.described(1, "Stable", "anna-1")
    (line,) = group.described(9, "Stable", "anna-1", coordinator=2)
    assert (line.event, line.coordinator_from, line.coordinator, line.coordinator_epoch) == (
        "coordinator_moved",
        1,
        2,
        7,
    )
    assert causes(group.see(sights.NoCoordinatorSeen(at(20), GROUP))) == [("coordinator_lost", "", "observed", "")]
    assert group.see(sights.NoCoordinatorSeen(at(21), GROUP)) == []


def test_a_tombstone_is_a_line_once_nothing_follows() -> None:
    group = crew("anna-1")
    group.stored(60, 2)
    assert group.removed(70) == []
    assert causes(group.tick(72)) == [("tombstone", "", "observed", "")]


def test_without_records_descriptions_are_the_generations() -> None:
    group = SightedGroup(reads_records=False)
    assert group.described(0, "Stable", "anna-1", "ben-1") == []
    (line,) = group.described(5, "Stable", "anna-1")
    assert (line.event, line.generation, line.members) == ("stable", -1, 1)
    assert causes([line]) == [("member_gone", "ben", "unknown", "")]
    assert group.described(6, "Stable", "anna-1") == []
    assert causes(group.described(9, "Empty")) == [("member_gone", "anna", "unknown", "")]


def test_what_was_described_first_is_what_the_first_record_is_compared_with() -> None:
    group = SightedGroup()
    group.described(0, "Stable", "anna-1", "ben-1")
    assert causes(group.stored(5, 9, "anna-1")) == [("member_gone", "ben", "unknown", "")]


def test_every_rule_has_its_words_and_every_kind_is_the_journals() -> None:
    assert DEPARTURE_RULES.keys() < RULES.keys()
    kinds = {"deploy", "member_flaps", "slow_join", "slow_sync", "instance_fenced", "commit_by_stranger"}
    assert kinds | {"member_gone", "not_seen", "coordinator_lost"} < CAUSES.keys()
    assert "pattern_seen" in EVENTS


def test_the_groups_worth_a_description() -> None:
    group = crew("anna-1")
    group.observer.listed(["a", "b"])
    assert group.observer.worth_describing(1_000_000, 2) == ["a", "b"]
    group.described(1, "PreparingRebalance", "anna-1")
    assert "crew" in group.observer.worth_describing(1_001_000, 1)
