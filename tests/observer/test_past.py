"""What `__consumer_offsets` still has of a group that nobody watched."""

from __future__ import annotations

import pytest

from coterie.client import Admin, TopicPartition
from coterie.coordinator.partitioning import partition_for
from coterie.observer.internal_topics import offsets_tail, stored_before
from coterie.observer.observation import past_lines
from coterie.testing import simulate
from tests.observer import stories
from tests.observer.stories import GROUP, Crew
from tests.observer.test_stories import Tell


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
