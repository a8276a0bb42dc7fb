"""The subscribed topics of a consumer group's members, as far as the coordinator can read them."""

from __future__ import annotations

from coterie.assignors.blobs import decode_subscribed_topics
from coterie.coordinator.state import Group
from coterie.wire.primitives import WireError

CONSUMER = "consumer"


def subscribed_topics(group: Group) -> frozenset[str] | None:
    """The union of the topics subscribed to when the generation was formed: who joins since is not counted yet. None
    if the group is not a consumer group, has no generation yet, or a subscription cannot be read (scenarios
    testSubscribedTopics, testSubscribedTopicsNonConsumerGroup)."""
    if group.protocol_type != CONSUMER or group.subscriptions is None:
        return None
    topics: set[str] = set()
    for subscription in group.subscriptions:
        try:
            topics |= decode_subscribed_topics(subscription)
        except WireError:
            return None
    return frozenset(topics)
