"""The offsets of a topic that is deleted, by the topic's id; Kafka's OffsetMetadataManagerTest by name. Apache Kafka 4.3 stores
an id with each offset, older brokers and this one store none."""

from __future__ import annotations

import pytest

from coterie.coordinator import events as e
from coterie.coordinator.consumer.state import ConsumerGroup
from coterie.coordinator.offsets.delete import decide_topics_deleted
from coterie.coordinator.offsets.replay import replay_offset
from coterie.coordinator.state import CommittedOffset, Group

NONE, OLD, NEW = bytes(16), b"o" * 16, b"n" * 16


def committed(topic_id: bytes) -> CommittedOffset:
    return CommittedOffset(100, 1, "", 0, topic_id=topic_id)


@pytest.mark.parametrize("kind", [Group, ConsumerGroup])
@pytest.mark.parametrize("is_pending", [False, True])
@pytest.mark.parametrize(
    ("ids", "gone"),
    [
        pytest.param((NONE, NONE, NONE), [1, 2, 3], id="testOnTopicsDeletedWithZeroTopicId"),
        pytest.param((OLD, OLD), [1, 2], id="testOnTopicsDeletedWithMatchingTopicId"),
        pytest.param((NEW, NEW), [], id="testOnTopicsDeletedWithMismatchedTopicId"),
        pytest.param((OLD, NONE, NEW), [1, 2], id="testOnTopicsDeletedWithMixedTopicIds"),
    ],
)
def test_offsets_of_a_deleted_topic(
    kind: type[Group | ConsumerGroup], is_pending: bool, ids: tuple[bytes, ...], gone: list[int]
) -> None:
    """The topic foo is deleted whose id is OLD; bar is not."""
    group = kind("g")
    for partition, topic_id in enumerate(ids, 1):
        for topic in ("foo", "bar"):
            offset = committed(topic_id)
            if is_pending:
                replay_offset(group, e.TransactionalOffsetStored(topic, partition, offset, 7))
            else:
                replay_offset(group, e.OffsetStored(topic, partition, offset))
    outcome = decide_topics_deleted(group, [("foo", OLD)])
    assert outcome.events == [e.OffsetRemoved("foo", partition) for partition in gone]
