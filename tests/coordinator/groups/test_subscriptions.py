"""What a coordinator reads of a subscription: answers of OffsetDelete recorded from Apache Kafka 3.9.1."""

from __future__ import annotations

import struct

import pytest

from coterie.coordinator.state import CONSUMER, Group, subscribed_topics

TOPICS = struct.pack(">i", 1) + struct.pack(">h1s", 1, b"t")
NO_USER_DATA = struct.pack(">i", -1)
WHOLE = TOPICS + NO_USER_DATA
NO_OWNED = struct.pack(">i", 0)

# (version named, the bytes after it)
READ = {
    "version 0": (0, WHOLE),
    "version 0 and more": (0, WHOLE + b"zzzz"),
    "version 1, cut after the user data": (1, WHOLE),
    "version 1, cut in the owned partitions": (1, WHOLE + b"\0\0"),
    "version 2, cut after the user data": (2, WHOLE),
    "version 2, cut after the owned partitions": (2, WHOLE + NO_OWNED),
    "version 2, cut in the generation": (2, WHOLE + NO_OWNED + b"\0\0"),
    "version 3, cut after the user data": (3, WHOLE),
    "version 3, cut after the generation": (3, WHOLE + NO_OWNED + struct.pack(">i", 1)),
    "version 9": (9, WHOLE),
    "version -1": (-1, WHOLE),
}
UNREADABLE = {
    "version 0, cut before the user data": struct.pack(">h", 0) + TOPICS,
    "version 1, cut before the user data": struct.pack(">h", 1) + TOPICS,
    "half a version": b"\0",
    "nothing": b"",
}


def topics_of(subscription: bytes) -> frozenset[str] | None:
    return subscribed_topics(Group("g", protocol_type=CONSUMER, subscriptions=(subscription,)))


@pytest.mark.parametrize("name", READ)
def test_the_fields_of_version_0_are_read_whatever_version_is_named(name: str) -> None:
    version, rest = READ[name]
    assert topics_of(struct.pack(">h", version) + rest) == {"t"}


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_subscription_without_those_fields_cannot_be_read(name: str) -> None:
    assert topics_of(UNREADABLE[name]) is None
