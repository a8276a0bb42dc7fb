"""Dead letters at a broker (KIP-1191): which records go to the topic, what is in it, and what happens where it is not there.
Names in the texts are those of Kafka's ShareConsumerDLQTest and ShareGroupDLQStateManagerTest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from coterie.log.retention import delete_records
from coterie.records.batch import BatchRecord, batches
from coterie.records.decoding import decode_records
from coterie.records.encoding import encode_batch
from coterie.wire.messages.share.write_share_group_state import (
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
    WrittenPartitionState,
    WrittenTopicState,
)
from coterie.wire.messages.stored.share_group_state import StateBatch
from coterie_conformance.share_stories.raw_member import ACCEPT, REJECT, RELEASE, RawShareMember, acknowledged
from tests.broker.share.share_world import GROUP, TOPIC, ShareWorld, in_share_world

LETTERS = "dlq.orders"
NAME, COPY = "errors.deadletterqueue.topic.name", "errors.deadletterqueue.copy.record.enable"
ENABLED = {"errors.deadletterqueue.group.enable": "true"}
CREATES = {"errors.deadletterqueue.auto.create.topics.enable": "true"}


def letters(share: ShareWorld, topic: str = LETTERS) -> list[BatchRecord]:
    """The records of the dead letter topic, partition by partition."""
    made = share.broker.broker.topics.by_name.get(topic)
    return [
        record
        for partition in (made.partitions if made else ())
        for data in [partition.log.read(0, 2**30, at_least_one=True) if partition.log.end_offset else b""]
        for position, header in batches(data)
        for record in decode_records(data, position, header)
    ]


def offsets(written: Sequence[BatchRecord]) -> list[int]:
    return [int(dict(record.headers)["__dlq.errors.offset"] or b"") for record in written]


def configure(share: ShareWorld, configs: Mapping[str, str] | None = None) -> None:
    share.broker.broker.share.configure(GROUP, {NAME: LETTERS, **(configs or {})})


def create_topic(share: ShareWorld, partitions: int = 1, **configs: str) -> None:
    named = {name.replace("_", "."): value for name, value in configs.items()}
    share.broker.broker.topics.create(LETTERS, partitions, {**ENABLED, **named})


async def rejected(share: ShareWorld, first: int, last: int, partition: int = 0) -> RawShareMember:
    """A member has acquired all, and rejected these."""
    member = await share.member()
    await member.acquired([partition])
    response = acknowledged(await member.acknowledge({partition: [(first, last, REJECT)]}))
    assert response[partition].error_code == 0
    await settled(share)
    return member


async def settled(share: ShareWorld) -> None:
    """What the acknowledgements have begun has ended."""
    connection = await share.connect()
    connection.close()


def reasons(share: ShareWorld) -> list[str]:
    return [line.why() for line in share.broker.journal if line.event == "records_archived"]


def start_offset(share: ShareWorld, partition: int = 0) -> int:
    return share.broker.broker.share.start_offsets(GROUP)[partition]


@in_share_world(records=2)
async def test_a_rejected_record_is_a_letter_with_its_context(share: ShareWorld) -> None:
    """testRejectedRecordsWrittenToDlqWithCopyRecordDisabled"""
    configure(share)
    create_topic(share)
    await rejected(share, 0, 0)
    (letter,) = letters(share)
    assert (letter.key, letter.value) == (None, None)
    assert letter.headers == (
        ("__dlq.errors.topic", b"orders"),
        ("__dlq.errors.partition", b"0"),
        ("__dlq.errors.offset", b"0"),
        ("__dlq.errors.group", b"billing"),
        ("__dlq.errors.delivery.count", b"1"),
        ("__dlq.errors.message", b"Offset rejected by client."),
    )
    assert start_offset(share) == 1
    text = "record 0 of orders-0 was delivered once, last to raw (c1), and is in the dead letter topic dlq.orders"
    assert reasons(share) == [f"a member rejected records ({text})"]


@in_share_world(records=100)
async def test_a_letter_may_have_key_and_value_of_its_record(share: ShareWorld) -> None:
    """testRejectedRecordsWrittenToDlqWithCopyRecordEnabled, testManyRejectedRecordsAllWrittenToDlq"""
    configure(share, {COPY: "true"})
    create_topic(share)
    await rejected(share, 0, 99)
    assert [(letter.key, letter.value) for letter in letters(share)] == [(None, b"%d" % n) for n in range(100)]


@in_share_world(records=1)
async def test_a_record_that_is_delivered_too_often_is_a_letter(share: ShareWorld) -> None:
    """testReleasedRecordsExceedingDeliveryCountWrittenToDlq"""
    configure(share)
    create_topic(share)
    member = await share.member()
    for turn in range(5):
        await member.acquired([] if turn else [0])
        await member.acknowledge({0: [(0, 0, RELEASE)]})
    await settled(share)
    (letter,) = letters(share)
    headers = dict(letter.headers)
    assert headers["__dlq.errors.delivery.count"] == b"5"
    assert headers["__dlq.errors.message"] == b"Offset delivery count exceeded the threshold."


@in_share_world(records=6)
async def test_only_dead_records_are_letters(share: ShareWorld) -> None:
    """testMixedAcknowledgementTypesWrittenToDlq"""
    configure(share)
    create_topic(share)
    member = await share.member()
    await member.acquired([0])
    await member.acknowledge({0: [(0, 1, ACCEPT), (2, 2, REJECT), (3, 3, RELEASE), (4, 5, REJECT)]})
    await settled(share)
    assert offsets(letters(share)) == [2, 4, 5]
    assert start_offset(share) == 3


@in_share_world(records=1, partitions=3)
async def test_a_letter_goes_to_the_partition_of_its_record(share: ShareWorld) -> None:
    """testDlqRecordsRoutedToCorrectDlqPartition: modulo the partitions of the topic"""
    configure(share)
    create_topic(share, partitions=2)
    for partition in (1, 2):
        share.broker.broker.topics.partition(TOPIC, partition).log.append_records([(0, None, b"x", ())], 0)
    for partition in range(3):
        await rejected(share, 0, 0, partition)
    logs = [partition.log.end_offset for partition in share.broker.broker.topics.by_name[LETTERS].partitions]
    assert logs == [2, 1]


@in_share_world(records=1, settings={**CREATES, "num.partitions": "3"})
async def test_the_topic_is_created_where_the_broker_may(share: ShareWorld) -> None:
    """testRejectedRecordsWrittenToAutoCreatedDlq, testCreateTopicBuilderPinsCreateTimeAlongsideDlqEnableConfig"""
    configure(share)
    await rejected(share, 0, 0)
    assert offsets(letters(share)) == [0]
    topic = share.broker.broker.topics.by_name[LETTERS]
    assert topic.configs == {**ENABLED, "message.timestamp.type": "CreateTime"}
    assert len(topic.partitions) == 3


@pytest.mark.parametrize(
    ("topic", "problem"),
    [
        ("dlq.none", "there is no topic dlq.none, and errors.deadletterqueue.auto.create.topics.enable is false"),
        ("orders", "errors.deadletterqueue.group.enable of topic orders is false"),
        ("dead", "there is no topic dead, and errors.deadletterqueue.auto.create.topics.enable is false"),
    ],
)
@in_share_world(records=2)
async def test_a_topic_that_cannot_be_written_holds_nothing_up(share: ShareWorld, topic: str, problem: str) -> None:
    """testDlqNotTriggeredWhenGatedOff: the record is archived, and the journal says that it has no letter"""
    configure(share, {NAME: topic})
    await rejected(share, 0, 0)
    assert start_offset(share) == 1
    (reason,) = reasons(share)
    assert f"is archived without a dead letter: {problem}" in reason


@in_share_world(records=3)
async def test_a_group_may_stop_its_letters(share: ShareWorld) -> None:
    """testDlqStopsAfterDisablingForGroup"""
    configure(share)
    create_topic(share)
    member = await rejected(share, 0, 0)
    configure(share, {NAME: ""})
    await member.acknowledge({0: [(1, 1, REJECT)]})
    await settled(share)
    assert offsets(letters(share)) == [0]
    assert start_offset(share) == 2


@in_share_world(records=2)
async def test_share_version_1_has_no_dead_letters(share: ShareWorld) -> None:
    """testDlqNotTriggeredWhenGatedOff, by the feature"""
    configure(share)
    create_topic(share)
    share.broker.broker.features.replace({"share.version": "1"})
    await rejected(share, 0, 0)
    assert letters(share) == []
    share.broker.broker.features.replace({"share.version": "2"})
    await rejected(share, 1, 1)
    assert offsets(letters(share)) == [1]


@in_share_world(records=20)
async def test_letters_that_are_too_large_for_one_batch_are_several(share: ShareWorld) -> None:
    """testDlqRespectsDlqTopicMaxMessageBytesNotEqToSourceTopic"""
    configure(share, {COPY: "true"})
    create_topic(share, max_message_bytes="1000")
    await rejected(share, 0, 19)
    assert offsets(letters(share)) == list(range(20))
    log = share.broker.broker.topics.by_name[LETTERS].partitions[0].log
    sizes = [header.size for _, header in batches(log.read(0, 2**20, at_least_one=True))]
    assert len(sizes) > 3
    assert max(sizes) <= 1000


@in_share_world(records=3)
async def test_a_record_on_its_way_is_sent_by_the_leader_that_loads_it(share: ShareWorld) -> None:
    """At least once, also where the former leader went (testMaybeInitializeArchivingStateWithDlqEnabled)"""
    configure(share)
    create_topic(share)
    member = await rejected(share, 0, 0)
    hosting = share.broker.broker.share
    (key,) = hosting._hosted
    await write_archiving(share)
    hosting.drop(key)
    await member.fetch(max_wait_ms=0)
    await settled(share)
    assert offsets(letters(share)) == [0, 1]
    assert start_offset(share) == 2


@in_share_world(records=4)
async def test_records_that_are_gone_have_letters_without_key_and_value(share: ShareWorld) -> None:
    """testReadErrorYieldsNoRecords, testReadErrorMidRangeReturnsRecordsReadSoFar, testNoProgressYieldsNoRecords,
    testDLQRecordCopyEnabledWithErrorOnLogRead, testDlqTwoEnqueuedRecordsBothComplete: DeleteRecords took the first two"""
    configure(share, {COPY: "true"})
    create_topic(share)
    member = await share.member()
    await member.acquired([0])
    log = share.broker.broker.topics.partition(TOPIC, 0).log
    delete_records(log, 2)
    await member.acknowledge({0: [(0, 0, REJECT), (1, 1, ACCEPT), (2, 3, REJECT)]})
    await settled(share)
    assert [letter.value for letter in letters(share)] == [None, b"2", b"3"]


@in_share_world(records=1)
async def test_groups_have_topics_of_their_own(share: ShareWorld) -> None:
    """testDlqMultipleGroupsWithMixedOutcomes, testShareGroupDLQTopicWithGroupConfig,
    testShareGroupDLQTopicWithoutGroupConfig"""
    configure(share)
    create_topic(share)
    hosting = share.broker.broker.share
    hosting.configure("other", {NAME: "dlq.none"})
    names = [hosting.settings_of(group).dead_letter_topic for group in (GROUP, "other", "third")]
    assert names == [LETTERS, "dlq.none", ""]
    limits = [hosting.limits(group).dead_letters for group in (GROUP, "other", "third")]
    assert limits == [True, True, False]
    await rejected(share, 0, 0)
    assert offsets(letters(share)) == [0]


@in_share_world()
async def test_a_compressed_batch_that_unfolds_to_more_than_the_topic_takes_is_not_copied(share: ShareWorld) -> None:
    """testDlqCopyRecordSkippedWhenDecompressedSizeExceedsDlqMaxMessageBytes"""
    configure(share, {COPY: "true"})
    create_topic(share, max_message_bytes="1000")
    log = share.broker.broker.topics.partition(TOPIC, 0).log
    log.append(encode_batch([(0, b"k", b"a" * 800, ())] * 3, codec=1), 0)
    await rejected(share, 0, 2)
    assert [(letter.key, letter.value) for letter in letters(share)] == [(None, None)] * 3


async def write_archiving(share: ShareWorld) -> None:
    """Record 1 is rejected, and its leader dies before the letter is sent."""
    state = WrittenPartitionState(0, 1, 0, 1, 0, [StateBatch(1, 1, 3, 1)])
    request = WriteShareGroupStateRequest(GROUP, [WrittenTopicState(share.topic_id, [state])])
    connection = await share.connect()
    response = await connection.request(request, WriteShareGroupStateResponse, 20.0)
    assert response.results[0].partitions[0].error_code == 0
    connection.close()
