"""The comparison itself, with a second coterie in Kafka's place: equal brokers agree, an unequal one is found out."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from coterie.broker.broker import Broker
from coterie.broker.settings import BrokerSettings
from coterie_conformance.groups import story
from coterie_conformance.groups.differential import SETTINGS, STEPS_PER_STORY, make_topics
from coterie_conformance.groups.story import GroupStory, StoryResult


async def _tell(seed: int, kind: str, steps: int, **changed: str) -> StoryResult:
    brokers = [Broker(BrokerSettings(SETTINGS)), Broker(BrokerSettings(SETTINGS | changed))]
    addresses = [await broker.start("127.0.0.1", 0) for broker in brokers]
    try:
        for address in addresses:
            await asyncio.to_thread(make_topics, address)
        return await GroupStory(seed, kind, "4.3.0", *addresses).run(steps)
    finally:
        for broker in brokers:
            await broker.stop()


def _run(*args: Any, **changed: Any) -> StoryResult:
    return asyncio.run(_tell(*args, **changed))


def test_equal_brokers_agree_in_every_kind_of_story() -> None:
    for seed, kind, steps in ((1, "calm", STEPS_PER_STORY), (2, "calm", STEPS_PER_STORY), (3, "rebalance", 25)):
        result = _run(seed, kind, steps)
        assert not result.difference, result.difference
        assert result.steps == steps


def test_a_member_that_falls_silent_is_waited_for_on_both_sides() -> None:
    result = _run(1, "session", 40)
    assert not result.difference, result.difference
    assert any("falls silent" in line for line in result.log)


def test_an_unequal_broker_is_found_out() -> None:
    result = _run(1, "calm", STEPS_PER_STORY, **{"group.max.size": "1"})
    assert "GROUP_MAX_SIZE_REACHED" in result.difference
    result = _run(2, "calm", STEPS_PER_STORY, **{"offset.metadata.max.bytes": "4096"})
    assert "OFFSET_METADATA_TOO_LARGE" in result.difference


def test_a_difference_that_a_slow_judge_may_have_made_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session of 1.5 s ends at one side alone where responses take longer than the margin."""
    monkeypatch.setattr(story, "MARGIN_S", 0.0)
    assert "run it at rest" in _run(2, "rebalance", 25, **{"group.max.size": "1"}).difference
    assert "run it at rest" not in _run(1, "calm", STEPS_PER_STORY, **{"group.max.size": "1"}).difference
