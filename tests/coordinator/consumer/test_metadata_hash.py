"""The hash of a group's topics: XXH3 by its published vectors, and what Apache Kafka 4.3.0 computes and stored."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest

from coterie.coordinator.consumer.events import (
    CurrentRemoved,
    GroupEpochStored,
    SubscriptionRemoved,
    TargetEpochStored,
    TargetRemoved,
)
from coterie.coordinator.consumer.image import NO_TOPICS_HASH, TopicImage, TopicsImage
from coterie.coordinator.consumer.state import ConsumerGroup
from coterie.coordinator.consumer.xxh3 import xxh3_64
from coterie.coordinator.outcome import Context, CoordinatorConfig
from coterie.coordinator.shard import Shard
from coterie.coordinator.write_queue import drive
from coterie.records.batch import batches
from coterie.records.decoding import decode_records
from coterie.wire.messages.groups.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from tests.coordinator.consumer.test_kafkas_own_records import Coordinator, image_of, recorded
from tests.coordinator.kafka_records import RECORDED, member_id

# Length of xxHash's sanity buffer -> XXH3_64bits of it, at each border between its ways to hash (of xxHash 0.8:
# its sanity test vectors, and others by its library).
VECTORS = {
    0: 0x2D06800538D394C2,
    1: 0xC44BDFF4074EECDB,
    3: 0x54247382A8D6B94D,
    4: 0xE5DC74BC51848A51,
    8: 0x24CCC9ACAA9F65E4,
    9: 0x14D5001C15DD3F2B,
    12: 0xA713DAF0DFBB77E7,
    16: 0x981B17D36C7498C9,
    17: 0x796F5ACD3A60F862,
    32: 0x9FEADDBDBF57EED3,
    33: 0xABFB2D081B400A10,
    64: 0x9CB48487720EC49D,
    96: 0x935A769A7F94776F,
    128: 0xFCFF24126754D861,
    129: 0x98F1B0A679A2CA29,
    195: 0xCD94217EE362EC3A,
    240: 0x81C3C2B67F568CCF,
    241: 0xC5A639ECD2030E5E,
    403: 0xCDEB804D65C6DEA4,
    512: 0x617E49599013CB6B,
    1024: 0xDD85C9B5C1109C5C,
    1025: 0xD870C0FA13211C6A,
    2048: 0xDD59E2C3A5F038E0,
    2367: 0xCB37AEB9E5D361ED,
}


def sanity_buffer(size: int) -> bytes:
    """xxHash's: the highest byte of a number that is multiplied at each step."""
    made, number = bytearray(), 2_654_435_761
    for _ in range(size):
        made.append(number >> 56)
        number = number * 11_400_714_785_074_694_797 % 2**64
    return bytes(made)


@pytest.mark.parametrize("length", VECTORS)
def test_the_published_vectors(length: int) -> None:
    assert xxh3_64(sanity_buffer(length)) == VECTORS[length]


def topic(name: str, high: int, low: int, racks: list[list[str]]) -> TopicImage:
    return TopicImage(name, struct.pack(">qq", high, low), len(racks), tuple(map(frozenset, racks)))


# By Kafka's own Utils.computeGroupHash over Utils.computeTopicHash, of these topics.
OF_KAFKA = [
    topic("t", 1, 2, [[]]),
    topic("racked", -5, -(2**63), [["b", "a"], ["rack-1"], []]),
    topic("many.partitions_of-a-topic", 7, -1, [[]] * 300),
    topic("racks", 0x0123456789ABCDEF, 9, [["eu-west-1" + "abc"[p % 3]] for p in range(60)]),
]


def test_the_hash_is_that_of_kafka() -> None:
    """testComputeMetadataHash, testComputeMetadataHashIgnoreTopicHashIfItIsNotInMetadataImage"""
    image = TopicsImage({t.name: t for t in OF_KAFKA})
    assert image.metadata_hash(["t"]) == 8_175_066_812_797_282_553
    assert image.metadata_hash(image.topics) == 6_922_896_735_868_129_150
    assert image.metadata_hash([*image.topics, "nowhere"]) == 6_922_896_735_868_129_150
    assert image.metadata_hash(["nowhere"]) == NO_TOPICS_HASH


def test_partitions_without_known_racks_have_none() -> None:
    bare = TopicsImage({"t": TopicImage("t", struct.pack(">qq", 1, 2), 1)})
    assert bare.metadata_hash(["t"]) == 8_175_066_812_797_282_553


def test_a_group_that_is_taken_over_from_kafka_keeps_its_epoch() -> None:
    """The first heartbeat compares the hash that Kafka stored with that of the same topics here."""
    data, shard = RECORDED.read_bytes(), Shard(CoordinatorConfig(group_consumer_assignment_interval_ms=0))
    for position, header in batches(data):
        for record in decode_records(data, position, header):
            shard.load(record.key, record.value, record.timestamp)
    group = shard.group("mixed")
    assert isinstance(group, ConsumerGroup)
    epoch, member = group.group_epoch, group.members[member_id(4)]
    owned: dict[bytes, list[int]] = {}
    for topic_id, partition in member.current.assigned:
        owned.setdefault(topic_id, []).append(partition)
    report = [TopicPartitions(topic_id, partitions) for topic_id, partitions in owned.items()]
    request = ConsumerGroupHeartbeatRequest("mixed", member_id(4), member.current.member_epoch, topic_partitions=report)
    ctx = Context(10**13, "token", "", 1, "c", "/h", image_of(recorded()))
    drive(shard, shard.decide(request, ctx), lambda decision: None, lambda decision, steps: None)
    assert group.topics_version == 1, "the topics were compared"
    assert group.group_epoch == epoch


def test_a_group_without_topics_has_no_hash() -> None:
    """testTopicHashIsRemoveFromCacheIfNoGroupSubscribesIt, testRemoveTopicCleanupTopicHash, as far as a hash is stored: 0 once
    the last member has left, or the only topic is deleted. The hashes of topics are kept by their content, so that one under
    a name that was used before is not that of the earlier topic."""
    foo = TopicImage("foo", bytes(15) + b"\1", 6)
    here = Coordinator(TopicsImage({"foo": foo}, 1, 1))
    owned = here.join("g", "m", subscribed_topic_names=["foo"]).assignment.topic_partitions
    assert [t.partitions for t in owned] == [[0, 1, 2, 3, 4, 5]]
    group = here.shard.of_kind(ConsumerGroup)["g"]
    assert (group.group_epoch, group.metadata_hash) == (2, here.topics.metadata_hash(["foo"]))
    here.topics = TopicsImage({}, 2, 1)
    assert here.send("g", "m", 2).assignment.topic_partitions == []
    assert (group.group_epoch, group.assignment_epoch, group.metadata_hash) == (3, 3, NO_TOPICS_HASH)
    assert len(group.members["m"].current.pending_revocation) == 6
    again = TopicsImage({"foo": replace(foo, topic_id=bytes(15) + b"\2")}, 3, 2)
    assert again.metadata_hash(["foo"]) not in (NO_TOPICS_HASH, TopicsImage({"foo": foo}).metadata_hash(["foo"]))
    here.topics = again
    here.send("g", "m", 2, topic_partitions=[])
    assert (group.group_epoch, group.metadata_hash) == (4, again.metadata_hash(["foo"]))
    here.send("g", "m", -1)
    assert here.stored[-5:] == [
        ("g", CurrentRemoved("m")),
        ("g", TargetRemoved("m")),
        ("g", SubscriptionRemoved("m")),
        ("g", GroupEpochStored(5, NO_TOPICS_HASH)),
        ("g", TargetEpochStored(5, 0)),
    ]
