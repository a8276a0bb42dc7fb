"""A heartbeat of the consumer protocol looks at its own member: what it costs does not grow with the group. The short way
of a heartbeat that changes nothing has the outcome of the long one, wherever stories of brokers and their consumers take
it: mixed groups, conversions and static members, under every fault."""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterator, ValuesView
from contextlib import suppress
from dataclasses import replace

import pytest

from coterie.coordinator import dispatch
from coterie.coordinator.consumer import heartbeat
from coterie.coordinator.consumer.image import TopicImage, TopicsImage
from coterie.coordinator.consumer.state import ConsumerGroup, ConsumerMember
from coterie.coordinator.outcome import Context, CoordinatorConfig, Outcome
from coterie.coordinator.shard import Shard
from coterie.wire.messages.groups.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from coterie_conformance.stories.plan import CONSUMER, MIXED
from coterie_conformance.stories.story import FuzzFailure, run_story_seed

ORDERS = TopicImage("orders", b"orders".ljust(16), 8)
TOPICS = TopicsImage({"orders": ORDERS}, 1, 1)
SEEDS, MOST_SEEDS, MINUTES = 4, 20, 0.5
PLAN = {"plain_producers": 0, "idempotent_producers": 1, "transactional_producers": 0, "readers": 3, "pace": 0.4}


class Unlisted(dict[str, ConsumerMember]):
    """Members that may be looked up and not gone through."""

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("went through all members")

    def values(self) -> ValuesView[ConsumerMember]:  # type: ignore[override]
        raise AssertionError("went through all members")

    def items(self) -> ItemsView[str, ConsumerMember]:  # type: ignore[override]
        raise AssertionError("went through all members")

    keys = __iter__  # type: ignore[assignment]


class Members:
    """A group of four members, settled; from then on its members may only be looked up."""

    def __init__(self) -> None:
        self.shard, self.now_ms = Shard(CoordinatorConfig()), 1_000
        self.epochs: dict[str, int] = {}
        for name in ("a", "b", "c", "d"):
            self.join(name)
        for _ in range(2):
            self.now_ms += 2_000
            for name in self.epochs:
                self.heartbeat(name)
        self.group.members = Unlisted(self.group.members)

    @property
    def group(self) -> ConsumerGroup:
        return self.shard.of_kind(ConsumerGroup)["g"]

    def send(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        decision = self.shard.decide(request, Context(self.now_ms, api_version=1, topics=TOPICS))
        self.shard.commit(decision)
        response = decision.outcome.replies[0].response
        assert isinstance(response, ConsumerGroupHeartbeatResponse)
        assert not response.error_code, response
        self.epochs[request.member_id] = response.member_epoch
        return response

    def join(self, name: str, regex: str | None = None) -> None:
        names = ["orders"] if regex is None else None
        self.send(
            ConsumerGroupHeartbeatRequest(
                "g",
                name,
                0,
                rebalance_timeout_ms=60_000,
                subscribed_topic_names=names,
                subscribed_topic_regex=regex,
                topic_partitions=[],
            )
        )

    def heartbeat(self, name: str) -> None:
        """And what it has to acknowledge."""
        response = self.send(ConsumerGroupHeartbeatRequest("g", name, self.epochs[name]))
        while response.assignment is not None:
            owned: list[TopicPartitions] = response.assignment.topic_partitions
            response = self.send(ConsumerGroupHeartbeatRequest("g", name, self.epochs[name], topic_partitions=owned))


def test_a_heartbeat_of_a_settled_member() -> None:
    members = Members()
    members.heartbeat("a")
    assert members.group.phase == "Stable"


def test_a_member_that_joins_within_the_interval_of_assignments() -> None:
    """testUpdatingMemberTriggersNewTargetAssignment computes one; within the interval the last one stays (KIP-1263)."""
    members = Members()
    members.group.assignment_timestamp_ms = members.now_ms
    members.join("e")
    assert members.group.topic_subscribers == {"orders": 5}
    assert members.group.phase == "Assigning"


def test_a_member_with_a_regular_expression() -> None:
    members = Members()
    members.group.assignment_timestamp_ms = members.now_ms
    members.join("e", "ord.*")
    members.heartbeat("e")
    assert members.group.regex_subscribers == {"ord.*": 1}


def test_the_guard_sees_a_look_at_all_members() -> None:
    with pytest.raises(AssertionError, match="went through all members"):
        list(Members().group.members)


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
