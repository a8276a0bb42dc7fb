"""The short way of a heartbeat that changes nothing has the outcome of the long one, wherever stories of brokers and their
consumers take it: mixed groups, conversions and static members, under every fault."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import pytest

from coterie.coordinator import dispatch
from coterie.coordinator.consumer import heartbeat
from coterie.coordinator.consumer.state import ConsumerGroup
from coterie.coordinator.outcome import Context, CoordinatorConfig, Outcome
from coterie.wire.messages.groups.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from coterie_conformance.stories.plan import CONSUMER, MIXED
from coterie_conformance.stories.story import FuzzFailure, run_story_seed

SEEDS, MOST_SEEDS, MINUTES = 4, 20, 0.5
PLAN = {"plain_producers": 0, "idempotent_producers": 1, "transactional_producers": 0, "readers": 3, "pace": 0.4}


def _run(seed: int) -> None:
    run_story_seed(seed, MINUTES, brokers=1, kind=(CONSUMER, MIXED)[seed % 2], **PLAN)


def _compare(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Decides each heartbeat both ways; returns the list that takes for each of the short ones whether both agree."""
    agree: list[bool] = []
    is_short, decide = heartbeat._changes_nothing, heartbeat.decide_consumer_heartbeat

    def both(
        group: ConsumerGroup,
        exists: bool,
        request: ConsumerGroupHeartbeatRequest,
        ctx: Context,
        config: CoordinatorConfig,
    ) -> Outcome:
        outcome = decide(group, exists, request, ctx, config)
        if is_short(group, request, ctx):
            with monkeypatch.context() as without:
                without.setattr(heartbeat, "_changes_nothing", lambda *_: False)
                agree.append(outcome == decide(group, exists, request, ctx, config))
        return outcome

    monkeypatch.setattr(dispatch, "decide_consumer_heartbeat", both)
    return agree


def test_the_short_way_is_the_long_way(monkeypatch: pytest.MonkeyPatch) -> None:
    agree = _compare(monkeypatch)
    for seed in range(SEEDS):
        _run(seed)
    assert len(agree) > 20 * SEEDS, "the stories have too few heartbeats at rest to say anything"
    assert all(agree)


Arguments = tuple[ConsumerGroup, ConsumerGroupHeartbeatRequest, Context]


def _any_topics(group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, ctx: Context) -> Arguments:
    return replace(group, topics_version=ctx.topics.version), request, ctx


def _any_epoch(group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, ctx: Context) -> Arguments:
    return replace(group, group_epoch=group.assignment_epoch), request, ctx


def _any_report(group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, ctx: Context) -> Arguments:
    return group, replace(request, topic_partitions=None, rebalance_timeout_ms=-1, subscribed_topic_names=None), ctx


@pytest.mark.parametrize("overlooking", [_any_topics, _any_epoch, _any_report])
def test_a_short_way_that_overlooks_a_change_is_noticed(
    overlooking: Callable[..., Arguments], monkeypatch: pytest.MonkeyPatch
) -> None:
    is_short = heartbeat._changes_nothing
    monkeypatch.setattr(heartbeat, "_changes_nothing", lambda *arguments: is_short(*overlooking(*arguments)))
    agree = _compare(monkeypatch)
    for seed in range(MOST_SEEDS):
        with suppress(FuzzFailure):  # the group does not come to rest
            _run(seed)
        if not all(agree):
            return
    pytest.fail("no story shows it")
