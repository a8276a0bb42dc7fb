"""The demo's chapter of several brokers, from what was seen to the checks and the report."""

from __future__ import annotations

import pytest

from coterie.client.admin_types import Node, TopicDescription, TopicPartitionInfo
from coterie.client.types import TopicPartition
from coterie.coordinator.journal.line import JournalLine
from coterie.coordinator.partitioning import partition_for
from coterie.demo.failover import (
    OFFSETS_TOPIC,
    BrokerKill,
    ClusterWatch,
    check_failover,
    leader_moves,
    leadership,
    moved_text,
)

CREW = partition_for("crew", 3)
OTHERS = [number for number in range(3) if number != CREW]
COMMITTED = {TopicPartition("flights", 0): 7, TopicPartition("flights", 1): 9}


def seen(leaders: dict[int, int | None], epoch: int, isr: tuple[int, ...] = (1, 2, 3)) -> dict[str, TopicDescription]:
    partitions = tuple(
        TopicPartitionInfo(
            number, None if leader is None else Node(leader), (Node(1), Node(2), Node(3)), tuple(map(Node, isr)), epoch
        )
        for number, leader in leaders.items()
    )
    return {OFFSETS_TOPIC: TopicDescription(OFFSETS_TOPIC, None, partitions, is_internal=True)}


def line(time_ms: int, group: str = "crew", coordinator: int = 3) -> JournalLine:
    return JournalLine(time_ms, group, 5, "coordinator_moved", "Stable", "Stable", coordinator=coordinator)


@pytest.fixture
def watch() -> ClusterWatch:
    """Broker 2 leads crew's partition and another one; it is killed at 10 s, and is back at 20 s."""
    watch = ClusterWatch()
    watch.look(1_000, seen({CREW: 2, OTHERS[0]: 2, OTHERS[1]: 1}, 0), frozenset({1, 2, 3}))
    assert watch.coordinator == 2
    watch.kill = BrokerKill(2, 10_000, watch.led_by(2), COMMITTED, COMMITTED, 20_000)
    return watch


def moved(watch: ClusterWatch) -> ClusterWatch:
    watch.look(13_000, seen({CREW: None, OTHERS[0]: 1, OTHERS[1]: 1}, 1, (1, 3)), frozenset({1, 3}))
    assert not watch.has_moved()
    watch.look(13_400, seen({CREW: 3, OTHERS[0]: 1, OTHERS[1]: 1}, 2, (1, 3)), frozenset({1, 3}))
    assert watch.has_moved()
    return watch


def test_the_group_goes_on(watch: ClusterWatch) -> None:
    moved(watch)
    assert (watch.under_replicated, watch.coordinator) == (3, 3)
    checks = check_failover(watch, [line(900), line(13_600, "other"), line(13_700)])
    assert [(check.name, check.right, check.detail) for check in checks] == [
        (
            "crew after the death of broker 2",
            True,
            "no coordinator for 3.7 s, then broker 3; crew is in generation 5",
        ),
        ("its committed offsets after that", True, "2 partitions, none went back"),
        ("offsets' partitions of broker 2", True, "2 of 2 have another leader, after 3.4 s at most"),
    ]
    assert moved_text(watch, [line(13_700)]) == (
        "2 partitions of the offsets moved; crew had no coordinator for 3.7 s, then broker 3"
    )


def test_each_check_fails(watch: ClusterWatch) -> None:
    assert watch.kill is not None
    watch.kill.kept = COMMITTED | {TopicPartition("flights", 1): 8}
    assert [check.right for check in check_failover(watch, [line(900)])] == [False, False, False]
    assert "1 went back" in check_failover(watch, [])[1].detail
    watch.kill.committed = {}
    assert not check_failover(watch, [])[1].right
    watch.kill = None
    assert [check.right for check in check_failover(watch, [])] == [False]


def test_an_older_view_of_another_broker_moves_nothing(watch: ClusterWatch) -> None:
    moved(watch)
    count = len(watch.changes)
    watch.look(13_500, seen({CREW: 2, OTHERS[0]: 2, OTHERS[1]: 1}, 0), frozenset({1, 3}))
    assert (watch.coordinator, len(watch.changes)) == (3, count)


def test_the_reports_part(watch: ClusterWatch) -> None:
    moved(watch)
    timeline = leadership(watch, 0, 30_000)
    of_crew = [s for s in timeline.owned if timeline.lanes[s.lane] == ("offsets", CREW)]
    spells = [(s.from_ms, s.until_ms, timeline.owners[s.owner]) for s in of_crew]
    assert spells == [(1_000, 10_000, "broker 2"), (13_400, 30_000, "broker 3")]
    lane = timeline.lane(("offsets", CREW))
    assert [s for s in timeline.unowned if lane in s.ranges] == [([lane, lane], 10_000, 10_000, 13_400)]
    assert timeline.moments == [(10_000, "broker 2 is killed"), (20_000, "it is back")]
    moves = [(m.time_s, m.partition, m.of_group, m.former, m.leader, m.without_s) for m in leader_moves(watch, 0)]
    assert moves == [(13.0, OTHERS[0], False, 2, 1, 3.0), (13.4, CREW, True, 2, 3, 3.4)]
