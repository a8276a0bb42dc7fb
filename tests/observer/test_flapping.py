"""Who comes and goes, and what it cost: from written lines, and from what the observer writes of a member that flaps.
What `__consumer_offsets` still has of a group that nobody watched."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from coterie.cli import main
from coterie.client import Admin, TopicPartition
from coterie.coordinator.journal.line import JournalLine
from coterie.coordinator.partitioning import partition_for
from coterie.observer.flapping import FlappingMember, flapping_members
from coterie.observer.internal_topics import offsets_tail, stored_before
from coterie.observer.journal_sinks import FolderJournal
from coterie.observer.observation import past_lines
from coterie.testing import simulate
from tests.observer import stories
from tests.observer.stories import GROUP, Crew
from tests.observer.test_stories import Tell


def line(time_ms: int, event: str, *causes: tuple[str, str], group: str = "crew", **fields: object) -> JournalLine:
    made = JournalLine(time_ms, group, 1, event, "Stable", "Stable")
    made.causes = [{"kind": kind, "member_id": f"{name}-{time_ms}", "client_id": name} for kind, name in causes]
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def test_the_cost_of_a_rebalance_is_shared_by_the_members_that_caused_it() -> None:
    lines = [
        line(1, "stable", ("member_joined", "anna"), ("member_joined", "ben")),
        line(2, "stable", ("member_left", "ben"), unowned_ms=4_000, moved_count=3),
        line(3, "stable", ("member_joined", "ben"), ("session_timeout", "anna"), unowned_ms=10_000, moved_count=2),
        line(4, "rebalance_started", ("member_joined", "ben")),  # the causes of the generation that follows
        line(5, "stable", ("topic_metadata_changed", "x"), unowned_ms=7_000),
    ]
    ben, anna = flapping_members(lines)
    assert (ben.name, ben.joins, ben.departures, ben.rebalances) == ("ben", 2, 1, 3)
    assert (ben.unowned_ms, ben.moved_count) == (9_000, 4)
    assert (anna.name, anna.joins, anna.departures) == ("anna", 1, 1)
    assert (anna.unowned_ms, anna.moved_count) == (5_000, 1)
    assert ben.causes == {"member_joined": 2, "member_left": 1}
    assert (ben.first_ms, ben.last_ms, ben.members) == (1, 3, 3)


def test_a_static_member_is_one_over_its_returns_and_groups_are_apart() -> None:
    returned = line(2, "member_replaced", ("static_member_returned", "c"))
    returned.causes[0]["group_instance_id"] = "seat-1"
    (seat, other) = flapping_members([returned, line(1, "stable", ("member_joined", "c"), group="other")])
    assert (seat.name, seat.is_static, seat.joins, seat.rebalances, seat.unowned_ms) == ("seat-1", True, 1, 0, None)
    assert (other.group, other.name) == ("other", "c")


def test_a_consumer_group_is_charged_what_follows_its_epoch() -> None:
    lines = [
        line(1, "epoch_raised", ("member_left", "anna")),
        line(2, "target_computed", moved_count=2),
        line(3, "assigned", unowned_ms=1_500),
    ]
    assert [(m.unowned_ms, m.moved_count, m.rebalances) for m in flapping_members(lines)] == [(1_500, 2, 1)]


@pytest.mark.slow
def test_the_member_that_flaps_is_first_from_an_observers_journal(tmp_path: object) -> None:
    with simulate(seed=1) as world:
        crew = stories.flapping(world)
    journal = FolderJournal(tmp_path)  # type: ignore[arg-type]
    for written in crew.lines:
        journal.write(written)
    worst: FlappingMember = flapping_members(crew.lines)[0]
    assert (worst.name, worst.departures) == ("ben", 4)
    assert worst.joins >= 4
    assert worst.unowned_ms
    done = CliRunner().invoke(main, ["groups", "flapping", "--journal", str(tmp_path)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    first = done.stdout.splitlines()[1].split()
    assert first[:2] == ["crew", "ben"]
    assert "left 4x" in done.stdout


@pytest.mark.parametrize(
    "tell", [stories.kill, pytest.param(stories.deploy, marks=pytest.mark.slow), stories.consumer_leave]
)
def test_the_generations_have_the_causes_of_an_observer(tell: Tell) -> None:
    """Of another group in the same partition there is nothing."""
    with simulate(seed=1) as world:
        crew = tell(world)
        client = {"bootstrap.servers": crew.broker.bootstrap_servers}
        seen = [line for line in crew.lines if line.event in ("stable", "empty", "epoch_raised")]
        past = world.run(past_lines(client, GROUP))
        assert {line.group for line in past} == {GROUP}
        events = {line.event for line in seen}
        assert [(line.generation, line.causes) for line in past if line.event in events] == [
            (line.generation, line.causes) for line in seen
        ]
        assert world.run(past_lines(client, "nobody")) == []


def test_of_named_groups_their_partitions_alone_are_read() -> None:
    with simulate(seed=1) as world:
        crew = Crew(world, watched=False, settings={"offsets.topic.num.partitions": 50})
        crew.join("anna")
        crew.settle(1)
        client = {"bootstrap.servers": crew.broker.bootstrap_servers}

        async def positions(*groups: str) -> set[int]:
            read: dict[TopicPartition, int] = {}
            async for sights in offsets_tail(client, read, groups, from_beginning=True):
                if not sights and read:
                    break
            return {partition for _, partition in read}

        world.run(committed(crew.broker.bootstrap_servers, "other"))
        every = {partition_for(GROUP, 50), partition_for("other", 50)}
        assert len(every) == 2
        assert world.run(positions()) == every
        assert world.run(positions(GROUP)) == {partition_for(GROUP, 50)}


async def committed(servers: str, group: str) -> None:
    async with Admin({"bootstrap.servers": servers}) as admin:
        await admin.alter_consumer_group_offsets(group, {("orders", 0): 1})


def test_an_older_part_of_the_log_has_the_last_generation_of_each_group() -> None:
    with simulate(seed=1) as world:
        crew = stories.clean_leave(world)

        async def before(*groups: str) -> dict[str, int]:
            read = stored_before({"bootstrap.servers": crew.broker.bootstrap_servers}, groups)
            return {sight.group: sight.value.generation async for sights in read for sight in sights}

        assert world.run(before()) == world.run(before(GROUP)) == {GROUP: 2}
