"""What `__consumer_offsets` still has of a group that nobody watched."""

from __future__ import annotations

import pytest

from coterie.observer.past import past_lines
from coterie.testing import simulate
from tests.observer import stories
from tests.observer.stories import GROUP
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
