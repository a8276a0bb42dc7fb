"""A heartbeat of the consumer protocol looks at its own member: what it costs does not grow with the group."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, ValuesView

import pytest

from coterie.coordinator.consumer.image import TopicImage, TopicsImage
from coterie.coordinator.consumer.state import ConsumerGroup, ConsumerMember
from coterie.coordinator.outcome import Context, CoordinatorConfig
from coterie.coordinator.shard import Shard
from coterie.wire.messages.groups.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

ORDERS = TopicImage("orders", b"orders".ljust(16), 8)
TOPICS = TopicsImage({"orders": ORDERS}, 1, 1)


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
