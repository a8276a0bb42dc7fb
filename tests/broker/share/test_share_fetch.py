"""ShareFetch and ShareAcknowledge at a broker, in virtual time; names are those of Kafka's ShareFetchAcknowledgeRequestTest and
SharePartitionManagerTest."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest

from coterie.broker.share import waiting_share_fetch
from coterie.client import Admin, Producer
from coterie.client.connection.connection import Connection
from coterie.log.reading import read_visible
from coterie.testing import simulate
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.groups.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from coterie_conformance.share_stories.raw_member import (
    ACCEPT,
    LIMIT_S,
    REJECT,
    RELEASE,
    RENEW,
    RawShareMember,
    acknowledged,
    acquired,
    initialize_states,
    parts,
)
from tests.broker.share.share_world import GROUP, TOPIC, ShareWorld, in_share_world, values

LOCK_MS = 30_000


@in_share_world(records=3)
async def test_share_fetch_request_success(share: ShareWorld) -> None:
    """testShareFetchRequestSuccess"""
    member = await share.member()
    response = await member.fetch([0])
    data = parts(response)[0]
    assert (response.error_code, response.acquisition_lock_timeout_ms) == (0, LOCK_MS)
    assert acquired(response) == [(0, 0, 2, 1)]
    assert values(data) == [b"0", b"1", b"2"]


@in_share_world(records=4)
async def test_acknowledged_records_are_not_delivered_again(share: ShareWorld) -> None:
    """testShareAcknowledgeRequestSuccess, testShareFetchWithAcknowledgements: accepted in one request, released in another"""
    member = await share.member()
    assert await member.acquired([0]) == [(0, 0, 3, 1)]
    response = await member.acknowledge({0: [(0, 1, ACCEPT), (2, 2, RELEASE), (3, 3, REJECT)]})
    assert (response.error_code, response.acquisition_lock_timeout_ms) == (0, LOCK_MS)
    assert acknowledged(response)[0].error_code == 0
    assert await member.acquired() == [(0, 2, 2, 2)]
    response2 = await member.fetch(acks={0: [(2, 2, ACCEPT)]})
    assert [(p, d.acknowledge_error_code) for p, d in parts(response2).items()] == [(0, 0)]
    other = await share.member("c2")
    assert await other.acquired([0]) == []


def test_the_state_outlives_the_broker() -> None:
    """What was acknowledged before the broker died is not delivered again; what was not, is."""

    async def before(share: ShareWorld) -> None:
        await share.initialize()
        member = await share.member()
        assert await member.acquired([0]) == [(0, 0, 4, 1)]
        assert acknowledged(await member.acknowledge({0: [(1, 2, ACCEPT)]}))[0].error_code == 0

    async def after(share: ShareWorld) -> None:
        member = await share.member()
        assert await member.acquired([0]) == [(0, 0, 0, 1), (0, 3, 4, 1)]

    with simulate(3) as world:
        share = ShareWorld(world, world.broker(), 1)
        share.broker.produce(TOPIC, *[b"%d" % n for n in range(5)], partition=0)
        world.run(before(share), LIMIT_S)
        share.broker.kill()
        share.broker.restart()
        world.run(after(share), LIMIT_S)


@in_share_world()
async def test_a_fetch_waits_for_records(share: ShareWorld) -> None:
    """testShareFetchShouldWaitForMinBytes: until there are any, and at most max.wait.ms"""
    loop = asyncio.get_running_loop()
    member = await share.member()
    start = loop.time()
    assert await member.acquired([0], max_wait_ms=700) == []
    assert 0.7 <= loop.time() - start < 0.8
    waiting = asyncio.ensure_future(member.acquired(max_wait_ms=5_000))
    await asyncio.sleep(1)
    async with Producer({"bootstrap.servers": share.broker.bootstrap_servers}) as producer:
        await producer.send(TOPIC, b"late", partition=0)
        await producer.flush()
    assert await waiting == [(0, 0, 0, 1)]


@in_share_world(records=3)
async def test_a_lock_ends(share: ShareWorld) -> None:
    """Another member gets the records, with a delivery count of 2, and the first cannot accept them"""
    one, two = await share.member("c1"), await share.member("c2")
    assert await one.acquired([0]) == [(0, 0, 2, 1)]
    assert await two.acquired([0], max_wait_ms=LOCK_MS - 1_000) == []
    assert await two.acquired(max_wait_ms=5_000) == [(0, 0, 2, 2)]
    response = acknowledged(await one.acknowledge({0: [(0, 2, ACCEPT)]}))[0]
    assert response.error_code == ErrorCode.INVALID_RECORD_STATE
    assert response.error_message == "Member is not the owner of batch record"


@in_share_world(records=1)
async def test_a_renewed_lock_lasts(share: ShareWorld) -> None:
    """A renewal must not fetch (KIP-1222)."""
    one, two = await share.member("c1"), await share.member("c2")
    assert await one.acquired([0]) == [(0, 0, 0, 1)]
    await asyncio.sleep(20)
    refused = await one.fetch(acks={0: [(0, 0, RENEW)]}, is_renew_ack=True)
    assert refused.error_code == ErrorCode.INVALID_REQUEST
    nothing: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 0, "max_records": 0, "max_bytes": 0}
    renewed = await one.fetch(acks={0: [(0, 0, RENEW)]}, is_renew_ack=True, **nothing)
    assert parts(renewed)[0].acknowledge_error_code == 0
    assert await two.acquired([0], max_wait_ms=20_000) == []
    assert acknowledged(await one.acknowledge({0: [(0, 0, ACCEPT)]}))[0].error_code == 0


@in_share_world(records=2)
async def test_a_lost_connection_releases(share: ShareWorld) -> None:
    """testReleaseSessionOnConnectionDisconnect, testShareSessionEvictedOnConnectionDrop: what the member had goes to another
    at once"""
    one, two = await share.member("c1"), await share.member("c2")
    assert await one.acquired([0]) == [(0, 0, 1, 1)]
    waiting = asyncio.ensure_future(two.acquired([0], max_wait_ms=20_000))
    await asyncio.sleep(1)
    one.connection.abort()
    assert await waiting == [(0, 0, 1, 2)]


@in_share_world(records=3)
async def test_a_closed_session_releases(share: ShareWorld) -> None:
    """testReleaseSessionSuccess: with epoch -1, after its last acknowledgements"""
    one, two = await share.member("c1"), await share.member("c2")
    assert await one.acquired([0]) == [(0, 0, 2, 1)]
    response = await one.acknowledge({0: [(0, 0, ACCEPT)]}, epoch=-1)
    assert response.error_code == 0
    assert await two.acquired([0]) == [(0, 1, 2, 2)]
    gone = await one.fetch(epoch=1)
    assert gone.error_code == ErrorCode.SHARE_SESSION_NOT_FOUND


@pytest.mark.parametrize(
    ("epoch", "code"),
    [
        (1, ErrorCode.SHARE_SESSION_NOT_FOUND),
        (-1, ErrorCode.SHARE_SESSION_NOT_FOUND),
    ],
)
@in_share_world(records=1)
async def test_share_fetch_request_invalid_share_session_epoch(share: ShareWorld, epoch: int, code: ErrorCode) -> None:
    """testShareFetchRequestInvalidShareSessionEpoch, testShareFetchRequestShareSessionNotFound,
    testShareAcknowledgeRequestShareSessionNotFound"""
    member = await share.member()
    assert (await member.fetch([0], epoch=epoch)).error_code == code
    assert (await member.acknowledge({0: [(0, 0, ACCEPT)]}, epoch=epoch)).error_code == code


@in_share_world(records=1, partitions=2)
async def test_an_epoch_out_of_order_is_refused(share: ShareWorld) -> None:
    """testShareFetchRequestForgetTopicPartitions, testShareAcknowledgeRequestInvalidShareSessionEpoch,
    testShareFetchInitialEpochWithAcknowledgements, testShareAcknowledgeInitialRequestError,
    testNewContextThrowsErrorWhenAcknowledgeDataPresentOnInitialEpoch"""
    member = await share.member()
    assert (await member.fetch([0], acks={0: [(0, 0, ACCEPT)]})).error_code == ErrorCode.INVALID_REQUEST
    assert await member.acquired([0, 1]) == [(0, 0, 0, 1)]
    assert (await member.fetch(epoch=3)).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    ack = await member.acknowledge({0: [(0, 0, ACCEPT)]}, epoch=0)
    assert ack.error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert parts(await member.fetch(forget=[0], max_wait_ms=0)) == {}
    assert (await member.fetch(epoch=0, partitions=[1], max_wait_ms=0)).error_code == 0


@in_share_world()
async def test_requests_without_group_or_member_are_invalid(share: ShareWorld) -> None:
    """A member id has 36 characters at most."""
    for member_id in ("", "x" * 37):
        member = await share.member(member_id)
        assert (await member.fetch([0])).error_code == ErrorCode.INVALID_REQUEST
        assert (await member.acknowledge({0: []})).error_code == ErrorCode.INVALID_REQUEST
    member = await share.member()
    member.group_id = None
    assert (await member.fetch([0])).error_code == ErrorCode.INVALID_REQUEST


@in_share_world(records=1)
async def test_partitions_and_topics_that_do_not_exist(share: ShareWorld) -> None:
    """UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID; the others are fetched"""
    member = await share.member()
    data = parts(await member.fetch([0, 7]))
    assert data[0].error_code == 0
    assert data[7].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    member = await share.member("c2")
    member.topic_id = bytes(range(16))
    assert parts(await member.fetch([0]))[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    acks = acknowledged(await member.acknowledge({0: [(0, 0, ACCEPT)]}))
    assert acks[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


@in_share_world(records=2, partitions=2)
async def test_partitions_without_acknowledgements_are_in_the_response_beside_others_alone(share: ShareWorld) -> None:
    """Kafka's KafkaApis.handleAcknowledgements; and the error of a partition that nobody has fetched has a text"""
    member = await share.member()
    assert await member.acquired([0]) == [(0, 0, 1, 1)]
    assert acknowledged(await member.acknowledge({0: []})) == {}
    acks = acknowledged(await member.acknowledge({0: [], 1: [(0, 0, ACCEPT)]}))
    assert [(p, acks[p].error_code) for p in sorted(acks)] == [(0, 0), (1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
    assert acks[1].error_message


@pytest.mark.parametrize(
    "batches",
    [
        [(3, 1, ACCEPT)],
        [(0, 1, 5)],
        [(0, 1, -1)],
        [(0, 1, RENEW)],
        [(2, 3, ACCEPT), (0, 1, ACCEPT)],
    ],
)
@in_share_world(records=4)
async def test_invalid_acknowledgement_batches(share: ShareWorld, batches: list[tuple[int, int, int]]) -> None:
    """testValidateAcknowledgementBatches testFetchAckTypeMapForBatch: nothing of the partition is done"""
    member = await share.member()
    assert await member.acquired([0]) == [(0, 0, 3, 1)]
    assert acknowledged(await member.acknowledge({0: batches}))[0].error_code == ErrorCode.INVALID_REQUEST
    assert acknowledged(await member.acknowledge({0: [(0, 3, ACCEPT)]}))[0].error_code == 0


@in_share_world(records=1)
async def test_the_delivery_limit_archives(share: ShareWorld) -> None:
    """testShareFetchRequest with rejected deliveries: five times, then never again"""
    member = await share.member()
    partitions = [0]
    for count in range(1, 6):
        assert await member.acquired(partitions) == [(0, 0, 0, count)]
        assert acknowledged(await member.acknowledge({0: [(0, 0, RELEASE)]}))[0].error_code == 0
        partitions = []
    assert await member.acquired() == []
    (line,) = [line for line in share.broker.journal if line.event == "records_archived"]
    text = "record 0 of orders-0 was delivered 5 times, last to raw (c1), and is archived"
    assert (line.member, line.why()) == ("c1", f"no delivery is left ({text})")


@in_share_world(records=3, start_offset=-1)
async def test_new_groups_begin_by_share_auto_offset_reset(share: ShareWorld) -> None:
    """testMaybeInitializeDefaultStartEpochGroupConfigNotPresent: latest, which is the end"""
    member = await share.member()
    assert await member.acquired([0], max_wait_ms=0) == []
    assert await (await share.member("c2")).acquired([0], max_wait_ms=0) == []


@in_share_world(records=1, start_offset=None)
async def test_a_group_without_state_is_refused(share: ShareWorld) -> None:
    """The group coordinator initializes the state when a member joins."""
    member = await share.member()
    refused = parts(await member.fetch([0]))[0]
    assert (refused.error_code, refused.error_message) == (ErrorCode.UNKNOWN_SERVER_ERROR, None)


@in_share_world(records=4)
async def test_record_limit_mode_delivers_no_more(share: ShareWorld) -> None:
    """KIP-1206"""
    one, two = await share.member("c1"), await share.member("c2")
    assert await one.acquired([0], max_records=2, share_acquire_mode=1) == [(0, 0, 1, 1)]
    assert await two.acquired([0], max_records=2, share_acquire_mode=1) == [(0, 2, 3, 1)]


@in_share_world(settings={"group.share.max.share.sessions": "1"})
async def test_too_many_sessions(share: ShareWorld) -> None:
    """testCreateIdleShareFetchTask: beyond group.share.max.share.sessions, refused after max.wait.ms"""
    loop = asyncio.get_running_loop()
    assert (await (await share.member("c1")).fetch([0], max_wait_ms=0)).error_code == 0
    start = loop.time()
    refused = await (await share.member("c2")).fetch([0], max_wait_ms=400)
    assert refused.error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert loop.time() - start >= 0.4


@in_share_world()
async def test_without_the_feature_nothing_is_served(share: ShareWorld) -> None:
    """testShareFetchRequestIsInAccessibleWhenConfigsDisabled, testShareAcknowledgeRequestIsInAccessibleWhenConfigsDisabled"""
    share.broker.broker.features.replace({"share.version": "0"})
    member = await share.member()
    assert (await member.fetch([0])).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert (await member.acknowledge({0: []})).error_code == ErrorCode.UNSUPPORTED_VERSION


@in_share_world(records=400)
async def test_a_fetch_reads_little_more_than_it_acquires(share: ShareWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fetch names no limit in bytes: of 400 batches one acquires five and does not read the rest; records beyond the first
    piece are found."""
    read: list[int] = []

    def counted(*arguments: Any, **options: Any) -> bytes:
        records = read_visible(*arguments, **options)
        read.append(len(records))
        return records

    monkeypatch.setattr(waiting_share_fetch, "read_visible", counted)
    monkeypatch.setattr(waiting_share_fetch, "FIRST_READ_BYTES", 512, raising=False)
    member = await share.member(max_records=5, batch_size=5)
    assert await member.acquired([0]) == [(0, 0, 4, 1)]
    assert sum(read) < 1_000
    everything = await share.member("c2", max_records=500)
    assert await everything.acquired([0]) == [(0, 5, 399, 1)]
    assert max(read) > 20_000


@in_share_world(records=1, partitions=2)
async def test_a_session_keeps_the_partitions_that_it_cannot_read(share: ShareWorld) -> None:
    """testGetErroneousAndValidTopicIdPartitions: each response has them with their error, until they are forgotten"""
    member = await share.member()
    known = member.topic_id
    await member.fetch([0, 1])
    member.topic_id = bytes(range(16))
    for partitions in ([0, 1], []):
        response = await member.fetch(partitions)
        rows = {(t.topic_id, p.partition_index): p.error_code for t in response.responses for p in t.partitions}
        assert [rows[member.topic_id, number] for number in (0, 1)] == [ErrorCode.UNKNOWN_TOPIC_ID] * 2
        assert rows.get((known, 0), 0) == 0
    forgotten = await member.fetch([], forget=[0, 1])
    assert not any(p.error_code for t in forgotten.responses for p in t.partitions)


@in_share_world(records=1)
async def test_a_topic_that_is_made_again_is_unknown_to_the_session(share: ShareWorld) -> None:
    """testShareSessionUpdateTopicIdsBrokerSide; Kafka 4.4.0 has UNKNOWN_SERVER_ERROR, as the former id has no state"""
    member = await share.member()
    assert await member.acquired([0]) == [(0, 0, 0, 1)]
    async with Admin({"bootstrap.servers": share.broker.bootstrap_servers}) as admin:
        await admin.delete_topic(TOPIC)
        await admin.create_topic(TOPIC, 1)
    assert parts(await member.fetch())[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@in_share_world(records=6, partitions=2)
async def test_offsets_are_acknowledged_one_by_one(share: ShareWorld) -> None:
    """testAcknowledgeIndividualOffsets: a batch has the types of its offsets, each partition of a request its batches"""
    async with Producer({"bootstrap.servers": share.broker.bootstrap_servers}) as producer:
        await (await producer.send(TOPIC, b"other", partition=1))
    member = await share.member()
    assert await member.acquired([0, 1]) == [(0, 0, 5, 1), (1, 0, 0, 1)]
    one_by_one = [(0, 0, ACCEPT), (1, 2, RELEASE, REJECT), (4, 4, RELEASE)]
    acks = acknowledged(await member.acknowledge({0: one_by_one, 1: [(0, 0, ACCEPT)]}))
    assert (acks[0].error_code, acks[1].error_code) == (0, 0)
    assert await member.acquired([0]) == [(0, 1, 1, 2), (0, 4, 4, 2)]
    assert acknowledged(await member.acknowledge({0: [(3, 3, ACCEPT), (5, 5, ACCEPT)]}))[0].error_code == 0
    assert acknowledged(await member.acknowledge({0: [(3, 3, ACCEPT)]}))[0].error_code != 0


def test_a_broker_that_does_not_lead_names_the_leader() -> None:
    """testShareFetchRequestToNonLeaderReplica, testShareFetchRequestSuccessMultiplePartitionsMultipleBrokers: each broker
    delivers the records of the partitions that it leads"""
    with simulate(1) as world:
        broker = world.broker(
            {
                "default.replication.factor": 1,
                "share.coordinator.state.topic.replication.factor": 1,
                "share.coordinator.state.topic.num.partitions": 1,
            },
            brokers=2,
        )
        broker.create_topic(TOPIC, 2)
        for number in range(2):
            broker.produce(TOPIC, b"%d" % number, partition=number)

        async def run() -> None:
            async with Admin({"bootstrap.servers": broker.bootstrap_servers}) as admin:
                described = (await admin.describe_topics([TOPIC]))[TOPIC]
            leaders = {each.partition: each.leader for each in described.partitions}
            topic_id = base64.urlsafe_b64decode(f"{described.topic_id}==")
            connections = {
                leader.id: await Connection.connect(leader.host, leader.port, "raw", 30.0)
                for leader in leaders.values()
            }
            assert len(connections) == 2
            for number in leaders:  # the topic of states is created with this request
                key = f"{GROUP}:{described.topic_id}:{number}"
                at_nodes = []
                while not at_nodes:
                    request = FindCoordinatorRequest(key_type=2, coordinator_keys=[key])
                    response = await connections[1].request(request, FindCoordinatorResponse, 30.0)
                    at_nodes = [each.node_id for each in response.coordinators if not each.error_code]
                    await asyncio.sleep(1)
            assert await initialize_states(connections[at_nodes[0]], GROUP, topic_id, 2, 0, 1) == [0, 0]
            for number, leader in leaders.items():
                member = RawShareMember(connections[leader.id], topic_id, "c1", GROUP)
                fetched = await member.fetch([0, 1], max_wait_ms=5_000)
                assert fetched.acquisition_lock_timeout_ms == LOCK_MS
                data = parts(fetched)
                assert values(data[number]) == [b"%d" % number]
                other = data[1 - number]
                assert other.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
                assert other.current_leader.leader_id == leaders[1 - number].id

        world.run(run(), LIMIT_S)
