"""What a rolling restart is predicted to cost: known costs of small groups, and the recommendation that follows from
them. A rebalance of twenty partitions under each protocol, and the rolling migration between them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from coterie.laboratory.experiments import handover, migration
from coterie.laboratory.predicted_timeline import predicted_timeline
from coterie.laboratory.prediction import (
    NETWORK_MS,
    Alternative,
    Deploy,
    DeployedGroup,
    PredictedCost,
    Prediction,
    changed,
    clock_drift,
    named,
    predict,
    usual_alternatives,
)
from coterie.laboratory.study.group import StudySetting

TODAY = named(
    StudySetting(
        "", "eager", assignor="range", session_timeout_ms=6_000, heartbeat_interval_ms=1_000, network_ms=NETWORK_MS
    )
)
DEPLOY = Deploy(pause_ms=2_000, gap_ms=5_000)
GROUP = DeployedGroup(2, 4, 100.0, TODAY)


def predicted(*alternatives: Alternative, deploy: Deploy = DEPLOY, group: DeployedGroup = GROUP) -> Prediction:
    return predict(group, deploy, alternatives, seeds=2)


def test_a_clean_restart_of_an_eager_group_costs_two_rebalances_of_each_member_and_no_duplicates() -> None:
    (today,) = predicted().costs
    assert today.rebalances.lowest == today.rebalances.highest == 4
    assert 0 < today.longest_unowned_s.highest < 1.5  # a heartbeat interval, and the way to and fro
    assert today.duplicates.mean == 0


def test_a_static_member_is_missed_for_its_pause_and_nothing_else_moves() -> None:
    static = changed(TODAY, static=True, protocol=None, session_timeout_ms=None)
    cost = predicted(static).costs[1]
    assert (cost.change, cost.setting) == ("give every member a group.instance.id", "range, static, session 6.0 s")
    assert (cost.rebalances.mean, cost.moved.mean) == (0, 0)
    assert 2.0 <= cost.unowned_s.lowest <= cost.unowned_s.highest < 2.1


def test_partitions_of_a_lone_member_are_unowned_while_it_is_away() -> None:
    for removal in ("leave", "kill"):
        static = changed(TODAY, static=True, protocol=None, session_timeout_ms=None)
        cost = predicted(static, deploy=replace(DEPLOY, removal=removal), group=replace(GROUP, members=1)).costs
        assert cost[0].unowned_s.lowest >= 2.0  # of which 2 s are the pause
        assert 2.0 <= cost[1].unowned_s.lowest <= cost[1].unowned_s.highest < 2.2


def test_a_kill_costs_duplicates_in_proportion_to_the_rate_of_records() -> None:
    kill = replace(DEPLOY, removal="kill")
    (slow,) = predicted(deploy=kill).costs
    (fast,) = predicted(deploy=kill, group=replace(GROUP, records_per_s=1_000.0)).costs
    assert slow.duplicates.mean > 0
    assert abs(fast.duplicates.mean - 10 * slow.duplicates.mean) < 0.1


def test_a_rebalance_waits_for_the_next_poll_of_slow_code() -> None:
    slow = replace(TODAY, poll_ms=3_000)
    before, after = predicted().costs[0], predicted(group=replace(GROUP, setting=slow)).costs[0]
    # The member that left is waited for by the other, which reads on until its next poll.
    assert after.longest_unowned_s.highest > before.longest_unowned_s.highest + 1


def slow(protocol: str, assignor: str, *, joins_in_polls: bool) -> PredictedCost:
    """With code of 3 s for the records of a poll."""
    setting = replace(TODAY, protocol=protocol, assignor=assignor, poll_ms=3_000, joins_in_polls=joins_in_polls)
    return predicted(group=replace(GROUP, setting=setting)).costs[0]


def test_members_that_keep_partitions_take_the_responses_of_a_rebalance_in_their_next_polls() -> None:
    """Java's classic consumer: while it reads on, its commit, its JoinGroup and its assignment each wait for a poll, so that a
    member that left is back before the others have joined."""
    others, java = (slow("cooperative", "cooperative-sticky", joins_in_polls=j) for j in (False, True))
    assert java.unowned_s.lowest > others.unowned_s.highest
    assert java.rebalances.highest < others.rebalances.lowest


def test_members_that_own_nothing_wait_in_their_polls() -> None:
    assert slow("eager", "range", joins_in_polls=True) == slow("eager", "range", joins_in_polls=False)


@pytest.mark.slow
def test_large_groups_are_restarted_in_part_and_the_costs_scaled() -> None:
    whole = predicted(group=replace(GROUP, members=4))
    part = predicted(group=replace(GROUP, members=30, partitions=30))
    assert (whole.restarts, part.restarts) == (4, 3)
    assert part.costs[0].rebalances.mean == 60


@pytest.mark.slow
def test_the_recommendation_is_one_sentence_about_the_smallest_change_among_the_best() -> None:
    deploy = replace(DEPLOY, removal="kill", pause_ms=1_000)
    static = changed(TODAY, static=True, protocol=None, session_timeout_ms=None)
    both = changed(TODAY, static=True, protocol="cooperative", session_timeout_ms=None)
    text = predicted(static, both, deploy=deploy).recommendation
    assert text.startswith("Give every member a group.instance.id: 1.0 s unowned per partition instead of ")
    assert text.endswith("and 0 rebalances instead of 2.")
    assert predicted(static, deploy=replace(DEPLOY, pause_ms=5_000)).recommendation.startswith("Leave the settings")
    assert predicted().recommendation.startswith("The deploy costs ")


def test_a_session_that_ends_before_the_member_is_back_is_made_longer() -> None:
    alternatives = usual_alternatives(TODAY, Deploy(pause_ms=8_000), serves_consumer=False)
    assert [a.change for a in alternatives] == [
        "give every member a group.instance.id and set session.timeout.ms=12000",
        "move to the cooperative-sticky assignor",
        "move to the cooperative-sticky assignor and give every member a group.instance.id and set session.timeout.ms=12000",
    ]
    assert len(usual_alternatives(TODAY, DEPLOY, serves_consumer=True)) == 5
    consumer = changed(TODAY, static=None, protocol="consumer", session_timeout_ms=None).setting
    assert usual_alternatives(named(replace(consumer, static=True)), DEPLOY, serves_consumer=True) == []


@pytest.mark.slow
def test_heartbeats_that_a_rebalance_put_into_step_are_in_step_for_a_while() -> None:
    young, old = clock_drift(60_000, 3_000), clock_drift(3_600_000, 3_000)
    assert 0 < young < old == clock_drift(None, 3_000) == 0.01
    means = []
    for drift in (young, old):
        setting = replace(TODAY, heartbeat_interval_ms=2_000, clock_drift=drift)
        means.append(predict(DeployedGroup(4, 4, 1.0, setting), DEPLOY, (), 4).costs[0].unowned_s.mean)
    assert means[0] < means[1]


@pytest.mark.parametrize("removal", ["leave", "kill"])
def test_a_timeline_draws_what_its_prediction_counts(removal: str) -> None:
    """Unowned times and rebalances of one seed, of each setting, with the group's own names."""
    deploy, members = replace(DEPLOY, removal=removal), ["anna-1", "ben-2"]
    alternatives = usual_alternatives(TODAY, deploy, serves_consumer=True)
    costs = predict(GROUP, deploy, alternatives, seeds=1).costs
    partitions = [("flights", number) for number in range(4)]
    for cost, setting in zip(costs, [TODAY, *(other.setting for other in alternatives)], strict=True):
        drawn = predicted_timeline(GROUP, deploy, setting, members, partitions, begins_ms=1_000_000)
        unowned_ms = sum(
            (lanes.until_ms - lanes.since_ms) * (last - first + 1)
            for lanes in drawn.unowned
            for first, last in zip(lanes.ranges[::2], lanes.ranges[1::2], strict=True)
        )
        assert abs(unowned_ms / 1000 / 4 - cost.unowned_s.mean) < 0.01, cost.setting
        assert len(drawn.rebalances) == cost.rebalances.mean, cost.setting
        assert drawn.owners == members
        assert sorted(drawn.lanes) == partitions
        assert drawn.begin_ms is not None
        assert 1_000_000 - 6_000 < drawn.begin_ms < 1_000_000 < min(moment.time_ms for moment in drawn.moments) + 1
        assert all(spell.from_ms >= drawn.begin_ms for spell in drawn.owned)
        undetected = [lanes for lanes in drawn.unowned if lanes.detected_ms > lanes.since_ms]
        assert bool(undetected) == (removal == "kill"), "grey, where a dead owner was taken for alive"


def test_one_member_alone_is_restarted() -> None:
    (today,) = predicted(deploy=replace(DEPLOY, only_one=True)).costs
    assert today.rebalances.lowest == today.rebalances.highest == 2
    drawn = predicted_timeline(GROUP, replace(DEPLOY, only_one=True), TODAY)
    assert [moment.text for moment in drawn.moments] == ["leave: m00000", "join: m00000"]


@pytest.mark.parametrize("assignor", ["range", "sticky"])
def test_eager_everybody_pauses(assignor: str) -> None:
    cost = handover(assignor)
    assert (cost.protocol, cost.paused, cost.unowned, cost.rebalances) == ("eager", 19, 20, 1)
    assert cost.longest_ms >= 100
    assert len(cost.unowned_ms_by_partition) == 20
    assert min(cost.unowned_ms_by_partition.values()) >= 100


def test_cooperative_nobody_pauses() -> None:
    """The member that gives one of its two partitions up reads the other."""
    cost = handover("cooperative-sticky")
    assert (cost.protocol, cost.paused, cost.unowned, cost.moved, cost.rebalances) == ("cooperative", 0, 1, 1, 2)
    assert cost.unowned_ms < handover("sticky").unowned_ms / 10


def test_two_rolling_bounces() -> None:
    steps = list(migration())
    assert [(s.assignor, s.protocol, s.members, s.refused, s.complete) for s in steps] == [
        ("range", "eager", 3, 0, True),
        ("cooperative-sticky", "eager", 3, 0, True),
        ("cooperative-sticky", "cooperative", 3, 0, True),
    ]


def test_one_bounce_is_too_few() -> None:
    """Members that list only the new assignor are refused while one of the others is still there."""
    steps = list(migration(bounces=1))
    assert steps[-1].refused == 2
