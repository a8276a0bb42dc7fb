"""ShareFetch and ShareAcknowledge of several members, groups and partitions, in virtual time. Names are those of Kafka's
ShareFetchAcknowledgeRequestTest and ShareConsumerDeliveryTest. READ of the group and of each topic, for ShareFetch and
ShareAcknowledge."""

from __future__ import annotations

import pytest

from coterie.authorizer.acls import AclOperation
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.share.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from coterie.wire.messages.share.share_acknowledge import (
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from coterie.wire.messages.share.share_fetch import ShareFetchPartition, ShareFetchRequest, ShareFetchTopic
from tests.broker.access.restricted_broker import GROUP, TOPIC, RestrictedBroker
from tests.broker.share.framed_share import FramedShare, acquired, rows_of_response, shared

ACCEPT, RELEASE, REJECT = 1, 2, 3


def lag(broker: FramedShare) -> int:
    topics = [DescribeShareGroupOffsetsRequestTopic("t", [0])]
    request = DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequestGroup("g", topics)])
    (group,) = broker.ask(request).groups
    value: int = group.topics[0].partitions[0].lag
    return value


@pytest.mark.parametrize("piggybacked", [False, True], ids=["acknowledge", "fetch"])
@pytest.mark.parametrize(("kind", "again"), [(ACCEPT, []), (RELEASE, [(0, 4, 2)]), (REJECT, [])])
def test_records_are_acknowledged(kind: int, again: list[tuple[int, int, int]], piggybacked: bool) -> None:
    """testShareAcknowledgeRequestSuccessAccept, testShareFetchRequestPiggybackedAccept,
    testShareAcknowledgeRequestSuccessRelease, testShareFetchRequestPiggybackedRelease,
    testShareAcknowledgeRequestSuccessReject, testShareFetchRequestPiggybackedReject,
    testSharePartitionLagForSingleShareConsumer, testSharePartitionLagWithReleaseAcknowledgement,
    testSharePartitionLagWithRejectAcknowledgement"""
    broker = shared(5)
    assert acquired(broker.fetched("c1", 0)[0]) == [(0, 4, 1)]
    assert lag(broker) in (5, -1)
    epoch = 1
    if piggybacked:
        row = broker.fetched("c1", epoch=1, acks=[(0, 4, kind)], max_wait_ms=100)[0]
        assert row.acknowledge_error_code == 0
        assert acquired(row) in (again, [])
        if acquired(row):
            return
    else:
        assert rows_of_response(broker.acknowledge("c1", 0, 4, kind).response)[0].error_code == 0
    rows = broker.fetched("c1", epoch=epoch + 1)
    assert [part for row in rows.values() for part in acquired(row)] == again
    assert lag(broker) == (5 if kind == RELEASE else 0)
    broker.produce(3)
    rows = broker.fetched("c2", 0)
    assert acquired(rows[0]) == [(5, 7, 1)]


def test_several_partitions() -> None:
    """testShareFetchRequestSuccessMultiplePartitions, testAcknowledgeMultiplePartition"""
    broker = shared(3)
    broker.produce(2, partition=1)
    rows = broker.fetched("c1", 0, 1)
    assert {p: acquired(row) for p, row in rows.items()} == {0: [(0, 2, 1)], 1: [(0, 1, 1)]}
    for partition, epoch in ((0, 1), (1, 2)):
        pending = broker.acknowledge("c1", 0, 1, epoch=epoch, partition=partition)
        assert rows_of_response(pending.response)[partition].error_code == 0
    assert broker.share.start_offsets("g") == {0: 2, 1: 2}


def test_members_of_a_group_share_and_groups_do_not() -> None:
    """testShareFetchRequestSuccessfulSharingBetweenMultipleConsumers,
    testShareFetchRequestNoSharingBetweenMultipleConsumersFromDifferentGroups,
    testShareAutoOffsetResetMultipleGroupsWithDifferentValue:
    each group begins by its own setting"""
    broker = shared(*[2] * 3)
    given = [acquired(broker.fetched(member, 0, max_records=2)[0]) for member in ("c1", "c2", "c3")]
    assert given == [[(0, 1, 1)], [(2, 3, 1)], [(4, 5, 1)]]
    for group, reset in (("early", "earliest"), ("late", "latest")):
        broker.initialize(-1, group=group)
        broker.share.configure(group, {"share.auto.offset.reset": reset})
    assert acquired(broker.fetched("c4", 0, group="early")[0]) == [(0, 5, 1)]
    late = broker.fetch("c5", 0, group="late", max_wait_ms=5_000)
    assert late.response is None
    broker.produce(1)
    broker.advance(10)
    assert acquired(rows_of_response(late.response)[0]) == [(6, 6, 1)]


@pytest.mark.parametrize("by_fetch", [True, False])
def test_a_session_ends_with_its_last_acknowledgements(by_fetch: bool) -> None:
    """testShareSessionCloseWithShareFetch, testShareSessionCloseWithShareAcknowledge,
    testDeliveryCountDifferentBehaviorWhenClosingSessionWithExplicitAcknowledgement"""
    broker = shared(5)
    broker.fetched("c1", 0)
    if by_fetch:
        assert broker.fetch("c1", epoch=-1, acks=[(0, 1, ACCEPT)]).response.error_code == 0
    else:
        assert broker.acknowledge("c1", 0, 1, epoch=-1).response.error_code == 0
    assert acquired(broker.fetched("c2", 0)[0]) == [(2, 4, 2)]
    gone = broker.fetch("c1", epoch=2)
    assert getattr(gone, "response", gone).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ({"max_records": 3, "batch_size": 1}, [(0, 4, 1)]),
        ({"max_records": 6, "batch_size": 1}, [(0, 4, 1), (5, 9, 1)]),
        ({"max_records": 20, "batch_size": 10}, [(0, 9, 1), (10, 14, 1)]),
        ({"max_records": 20, "batch_size": 500}, [(0, 14, 1)]),
        ({"max_records": 3, "batch_size": 1, "share_acquire_mode": 1}, [(0, 2, 1)]),
        ({"max_records": 7, "batch_size": 500, "share_acquire_mode": 1}, [(0, 6, 1)]),
    ],
)
def test_max_records_and_batch_size(options: dict[str, int], parts: list[tuple[int, int, int]]) -> None:
    """testShareFetchRequestWithMaxRecordsAndBatchSize, testShareFetchRequestMultipleBatchesWithMaxRecordsAndBatchSize,
    testPollInBatchOptimizedMode, testPollInRecordLimitMode: whole batches, unless the limit is strict (KIP-1206)"""
    broker = shared(5, 5, 5)
    assert acquired(broker.fetched("c1", 0, **options)[0]) == parts


def test_records_one_by_one() -> None:
    """testPollAndExplicitAcknowledgeSingleMessageInRecordLimitMode, testExplicitAcknowledgeSuccessInRecordLimitMode,
    testExplicitAcknowledgeReleaseAcceptInRecordLimitMode"""
    broker, epoch = shared(3), 0
    for offset, kind in ((0, ACCEPT), (1, RELEASE), (1, ACCEPT), (2, ACCEPT)):
        partitions = () if epoch else (0,)
        row = broker.fetched("c1", *partitions, epoch=epoch, max_records=1, share_acquire_mode=1)[0]
        assert [(first, last) for first, last, _ in acquired(row)] == [(offset, offset)]
        broker.acknowledge("c1", offset, offset, kind, epoch=epoch + 1)
        epoch += 2
    assert broker.share.start_offsets("g") == {0: 3}


@pytest.mark.parametrize(("limit", "deliveries"), [(2, 2), (5, 5), (8, 8)])
def test_a_record_is_delivered_as_often_as_the_limit_says(limit: int, deliveries: int) -> None:
    """testShareAcknowledgeRequestMaxDeliveryAttemptExhausted, testBehaviorOnDeliveryCountBoundary,
    testFetchWithThrottledDeliveryValidateDeliveryCount"""
    broker, epoch, counts = shared(1), 0, list[int]()
    broker.share.configure("g", {"share.delivery.count.limit": str(limit)})
    for _ in range(limit + 2):
        rows = broker.fetched("c1", *(() if epoch else (0,)), epoch=epoch, max_wait_ms=100)
        epoch += 1
        given = [part for row in rows.values() for part in acquired(row)]
        counts += [count for _, _, count in given]
        if given:
            broker.acknowledge("c1", 0, 0, RELEASE, epoch=epoch)
            epoch += 1
    assert counts == list(range(1, deliveries + 1))
    assert broker.share.start_offsets("g") == {0: 1}


@pytest.mark.parametrize(("before", "after", "delivered"), [(5, 2, 2), (2, 5, 5)])
def test_the_limit_of_deliveries_changes(before: int, after: int, delivered: int) -> None:
    """testDynamicDeliveryCountLimitDecreaseArchivesRecords, testDynamicDeliveryCountLimitIncreaseAllowsMoreDeliveries,
    testFetchWithThrottledDeliveryBatchesWithIncreasedDeliveryLimit,
    testFetchWithThrottledDeliveryBatchesWithDecreasedDeliveryLimit"""
    broker, epoch, count = shared(1), 0, 0
    broker.share.configure("g", {"share.delivery.count.limit": str(before)})
    for turn in range(7):
        if turn == 1:
            broker.share.configure("g", {"share.delivery.count.limit": str(after)})
        rows = broker.fetched("c1", *(() if epoch else (0,)), epoch=epoch, max_wait_ms=100)
        epoch += 1
        if any(acquired(row) for row in rows.values()):
            count += 1
            broker.acknowledge("c1", 0, 0, RELEASE, epoch=epoch)
            epoch += 1
    assert count == delivered


def test_the_limit_of_records_in_flight_changes() -> None:
    """testDynamicPartitionMaxRecordLocks"""
    broker = shared(*[100] * 4)
    for locks, parts in (("100", [(0, 99, 1)]), ("300", [(100, 299, 1)]), ("100", []), ("500", [(300, 399, 1)])):
        broker.share.configure("g", {"share.partition.max.record.locks": locks})
        rows = broker.fetched(f"c{locks}{parts}"[:36], 0, max_wait_ms=10)
        assert [part for row in rows.values() for part in acquired(row)] == parts


def test_bad_records_are_delivered_in_ever_smaller_numbers() -> None:
    """testFetchWithThrottledDelivery, testFetchWithThrottledDeliveryBatchesMultipleConsumers: from the third of five
    deliveries on a
    half, a quarter, and at the last one record"""
    broker, epoch, sizes = shared(8), 0, list[list[int]]()
    for _ in range(5):
        rows = broker.fetched("c1", *(() if epoch else (0,)), epoch=epoch)
        parts = acquired(rows[0])
        sizes.append([last - first + 1 for first, last, _ in parts])
        broker.acknowledge("c1", parts[0][0], parts[-1][1], RELEASE, epoch=epoch + 1)
        epoch += 2
    assert sizes == [[8], [8], [8], [4], [1]]


def fetch(topic_id: bytes, epoch: int = 0) -> ShareFetchRequest:
    topics = [ShareFetchTopic(topic_id, [ShareFetchPartition(0)])]
    return ShareFetchRequest("g", "m", epoch, max_bytes=100, max_records=1, topics=topics)


def test_a_topic_that_may_not_be_read() -> None:
    broker = RestrictedBroker()
    topic_id = broker.topics.by_name["t"].topic_id
    assert broker.ask("alice", fetch(topic_id), 2).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    broker.allow("alice", AclOperation.READ, GROUP, "g")
    refused = broker.ask("alice", fetch(topic_id), 2).responses[0].partitions[0]
    assert refused.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    topics = [AcknowledgeTopic(topic_id, [AcknowledgePartition(0)])]
    acknowledge = ShareAcknowledgeRequest("g", "m", 1, topics=topics)
    denied = broker.ask("alice", acknowledge, 2).responses[0].partitions[0]
    assert denied.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    broker.allow("alice", AclOperation.READ, TOPIC, "t")
    allowed = broker.ask("alice", fetch(topic_id), 2).responses[0].partitions[0]
    assert allowed.error_code != ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_a_request_without_a_group_is_not_checked() -> None:
    """It is invalid, as in Kafka."""
    request = ShareFetchRequest(None, "m", 0)
    assert RestrictedBroker().ask("alice", request, 2).error_code == ErrorCode.INVALID_REQUEST
