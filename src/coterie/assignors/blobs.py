"""The bytes that consumers put into JoinGroup and SyncGroup: int16 version, then the message of that version.

A version newer than ours is read as ours: Kafka only ever adds fields at the end.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping

from coterie.assignors.assignor import Owned, Subscriber
from coterie.wire.codec import decode
from coterie.wire.messages.stored.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartitions,
)
from coterie.wire.primitives import WireError

_SUBSCRIPTION_VERSION = 3
MAX_SUBSCRIBED_TOPICS = 100_000  # that a coordinator reads
_ASSIGNMENT_VERSION = 3


def encode_subscription(
    topics: Iterable[str],
    owned: Owned | None = None,
    generation: int = -1,
    rack: str | None = None,
    user_data: bytes | None = None,
    version: int = _SUBSCRIPTION_VERSION,
) -> bytes:
    """Topics and partitions go sorted, so that equal subscriptions are equal bytes: the coordinator compares them."""
    partitions = [TopicPartitions(t, sorted(ps)) for t, ps in sorted((owned or {}).items())]
    message = ConsumerProtocolSubscription(sorted(topics), user_data, partitions, generation, rack)
    return struct.pack(">h", version) + message.encode(version)


def decode_subscription(data: bytes, member_id: str = "", group_instance_id: str | None = None) -> Subscriber:
    """Raises WireError for bytes that are not a subscription."""
    s = ConsumerProtocolSubscription.decode(data, _version(data, _SUBSCRIPTION_VERSION), 2)
    owned = {tp.topic: tuple(tp.partitions) for tp in s.owned_partitions}
    return Subscriber(
        member_id,
        frozenset(s.topics),
        group_instance_id,
        owned,
        generation=s.generation_id,
        rack=s.rack_id,
        user_data=s.user_data,
    )


def decode_subscribed_topics(data: bytes) -> frozenset[str]:
    """The topics alone, out of the fields of version 0: a coordinator reads no others, whatever version the subscription
    names, and what follows them may be cut off (Kafka: ConsumerProtocol.deserializeConsumerProtocolSubscription). Raises
    WireError where topics or user data are not whole, or the topics are too many."""
    if len(data) < 2:
        raise WireError("too short for the version of a consumer's subscription")
    return frozenset(decode(ConsumerProtocolSubscription, data, 0, 2, MAX_SUBSCRIBED_TOPICS)[0].topics)


def encode_assignment(partitions: Mapping[str, list[int]]) -> bytes:
    """A member's partitions (topic -> numbers) as the bytes of a SyncGroup assignment: version, then
    ConsumerProtocolAssignment without user data."""
    message = ConsumerProtocolAssignment([TopicPartitions(t, p) for t, p in sorted(partitions.items())])
    return struct.pack(">h", _ASSIGNMENT_VERSION) + message.encode(_ASSIGNMENT_VERSION)


def decode_assignment(data: bytes) -> list[tuple[str, int]]:
    """The (topic, partition) pairs assigned; no bytes at all mean none. Raises WireError."""
    if not data:
        return []
    message = ConsumerProtocolAssignment.decode(data, _version(data, _ASSIGNMENT_VERSION), 2)
    return [(tp.topic, p) for tp in message.assigned_partitions for p in tp.partitions]


def _version(data: bytes, newest: int) -> int:
    if len(data) < 2:
        raise WireError("too short for the version of a consumer's subscription or assignment")
    version = int.from_bytes(data[:2], "big", signed=True)
    if version < 0:
        raise WireError(f"version {version} of a consumer's subscription or assignment")
    return min(version, newest)
