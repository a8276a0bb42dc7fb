"""Leader epochs over the processes of brokers: Kafka's LeaderEpochIntegrationTest, EpochDrivenReplicationProtocolAcceptanceTest
and OffsetsForLeaderEpochRequestTest, by name."""

from __future__ import annotations

from coterie.client.consumer.consumer import Consumer
from coterie.log.leader_epochs import EndOfEpoch
from coterie.testing.cluster_brokers import ClusteredBroker
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.logs.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderPartitionResult,
    OffsetForLeaderTopic,
)
from tests.awaiting import until
from tests.broker.cluster.brokers_in_memory import (
    TOPIC,
    all_in_sync,
    bounce,
    clustered,
    create,
    cut_the_log,
    epochs,
    equal_logs,
    headers,
    led_by,
    log_of,
    produce,
    requested,
)

SMALL, LARGE = bytes(1_000), bytes(10_000)
NO_EPOCH = -1
TOGETHER = {"linger.ms": "10000", "batch.size": "100000", "compression.type": "gzip"}


async def look_up(
    broker: ClusteredBroker, epoch: int, current: int = NO_EPOCH, topic: str = TOPIC
) -> OffsetForLeaderPartitionResult:
    """OffsetForLeaderEpoch, as a follower sends it."""
    rows = [OffsetForLeaderTopic(topic, [OffsetForLeaderPartition(0, current, epoch)])]
    response = await requested(broker, OffsetForLeaderEpochRequest(1, rows), OffsetForLeaderEpochResponse, 3)
    return response.topics[0].partitions[0]


async def end_of(broker: ClusteredBroker, epoch: int) -> EndOfEpoch:
    row = await look_up(broker, epoch)
    assert row.error_code == ErrorCode.NONE
    return EndOfEpoch(row.leader_epoch, row.end_offset)


def batch_epochs(broker: ClusteredBroker, topic: str = TOPIC) -> list[int]:
    return [header.leader_epoch for header in headers(broker, topic)]


async def test_should_add_current_leader_epoch_to_messages_as_they_are_written_to_leader() -> None:
    """shouldAddCurrentLeaderEpochToMessagesAsTheyAreWrittenToLeader"""
    async with clustered() as cluster:
        first, written = cluster.brokers[1], list[int]()
        for topic in (TOPIC, "other"):
            await create(cluster, name=topic)
        for epoch in (0, 1):
            for topic in (TOPIC, "other"):
                await produce(cluster, b"1", b"2", b"3", b"4", name=topic)
            written += [epoch] * 4
            for broker in cluster.live():
                assert [batch_epochs(broker, topic) for topic in (TOPIC, "other")] == [written] * 2
            if epoch == 0:
                await bounce(first)
                await all_in_sync(cluster, 1, 2)


async def test_should_send_leader_epoch_request_and_get_a_response() -> None:
    """shouldSendLeaderEpochRequestAndGetAResponse"""
    async with clustered(3) as cluster:
        await create(cluster, [1])
        await create(cluster, [2], name="other")
        await produce(cluster, *[b"I heart logs"] * 10)
        await produce(cluster, *[b"Oh are they"] * 20, name="other")
        first, second = cluster.brokers[1], cluster.brokers[2]
        assert await end_of(first, 0) == EndOfEpoch(0, 10)
        assert (await look_up(second, 0, topic="other")).end_offset == 20
        elsewhere = await look_up(first, 0, topic="other")
        assert (elsewhere.error_code, elsewhere.end_offset) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)


async def test_should_increase_leader_epoch_between_leader_restarts() -> None:
    """shouldIncreaseLeaderEpochBetweenLeaderRestarts: by two, since the partition has no leader in between; the controller is
    another broker. Epochs that the leader does not have end where the next one begins."""
    async with clustered() as cluster:
        controller = cluster.controller()
        assert controller is not None
        assert controller.broker_id == 1
        await create(cluster, [2])
        leader, ends = cluster.brokers[2], dict[int, EndOfEpoch]()
        for epoch in (0, 2, 4):
            if epoch:
                await bounce(leader)
                await led_by(cluster, 2)
            await produce(cluster, b"I heart logs")
            ends[epoch] = EndOfEpoch(epoch, epoch // 2 + 1)
            assert log_of(leader).end_offset == epoch // 2 + 1
            assert {known: await end_of(leader, known) for known in ends} == ends
            assert epoch == 0 or await end_of(leader, epoch - 1) == ends[epoch - 2]
            assert await end_of(leader, epoch + 1) == EndOfEpoch(-1, -1)


async def test_should_follow_leader_epoch_basic_workflow() -> None:
    """shouldFollowLeaderEpochBasicWorkflow: an epoch begins at the leader at once, and at a follower with its first record."""
    async with clustered() as cluster:
        await create(cluster)
        leader, follower = cluster.brokers[1], cluster.brokers[2]
        await produce(cluster, SMALL)
        known = [(0, 0)]
        assert (batch_epochs(leader), batch_epochs(follower)) == ([0], [0])
        assert (epochs(leader), epochs(follower)) == (known, known)
        for epoch, bounced in ((1, follower), (2, leader)):
            await bounce(bounced)
            await all_in_sync(cluster, 1, 2)
            state = cluster.state(TOPIC, 0)
            assert state is not None
            leader = cluster.brokers[state.leader]
            follower = cluster.brokers[3 - state.leader]
            assert (epochs(leader), epochs(follower)) == ([*known, (epoch, epoch)], known)
            await produce(cluster, SMALL)
            known.append((epoch, epoch))
            assert (epochs(leader), epochs(follower)) == (known, known)
            assert batch_epochs(leader) == batch_epochs(follower) == [*range(epoch + 1)]
        assert leader.broker_id == 2


async def test_should_not_allow_divergent_logs() -> None:
    """shouldNotAllowDivergentLogs: the leader lost half of its log in a crash, and what it appends instead counts."""
    async with clustered() as cluster:
        await create(cluster)
        first, second = cluster.brokers[1], cluster.brokers[2]
        await produce(cluster, *[b"%d" % number + SMALL for number in range(10)])
        await second.stop()
        await first.stop()
        cut_the_log(first, 0.45)
        await first.start()
        await led_by(cluster, 1)
        assert log_of(first).end_offset == 4
        await produce(cluster, *[b"%d" % number + SMALL for number in range(11, 20)])
        await second.start()
        await equal_logs(cluster)
        assert log_of(second).end_offset == 13
        assert batch_epochs(second)[:4] == [0] * 4
        assert min(batch_epochs(second)[4:]) > 0


async def test_offsets_should_not_go_backwards() -> None:
    """offsetsShouldNotGoBackwards: the follower's end is in the middle of a batch of the leader's."""
    async with clustered() as cluster:
        await create(cluster)
        first, second = cluster.brokers[1], cluster.brokers[2]
        await produce(cluster, *[SMALL] * 100)
        await second.stop()
        await first.stop()
        cut_the_log(first, 0.5)
        await first.start()
        await led_by(cluster, 1)
        for _ in range(2):
            await produce(cluster, *[SMALL] * 77, settings=TOGETHER)
        ends = [header.base_offset for header in headers(first)] + [log_of(first).end_offset]
        assert ends[-3:] == [50, 127, 204], "two batches, and 100 is in neither's beginning"
        await second.start()
        await equal_logs(cluster)
        await all_in_sync(cluster, 1, 2)
        await first.stop()
        await led_by(cluster, 2)
        offsets: list[int] = []
        async with Consumer({"bootstrap.servers": f"{second.host}:{second.port}"}) as consumer:
            await consumer.assign([(TOPIC, 0)])
            consumer.seek((TOPIC, 0), 0)
            while len(offsets) < 204:
                for records in (await consumer.poll(1_000)).values():
                    offsets += [record.offset for record in records]
        assert offsets == list(range(204))


async def test_should_survive_fast_leader_change() -> None:
    """shouldSurviveFastLeaderChange: the follower restarts, and then the leader; nothing is lost."""
    async with clustered() as cluster:
        await create(cluster)
        await produce(cluster, SMALL)
        for written in range(2, 7):
            leader = cluster.leader(TOPIC, 0)
            assert leader is not None
            await produce(cluster, SMALL)
            for bounced in (cluster.brokers[3 - leader.broker_id], leader):
                await bounce(bounced)
                await all_in_sync(cluster, 1, 2)
            assert {log_of(broker).end_offset for broker in cluster.live()} == {written}
            await equal_logs(cluster)


async def test_logs_should_not_diverge_on_unclean_leader_elections() -> None:
    """logsShouldNotDivergeOnUncleanLeaderElections: each broker in turn leads alone, without what the other has."""
    async with clustered() as cluster:
        await create(cluster, configs={"min.insync.replicas": "1", "unclean.leader.election.enable": "true"})
        first, second = cluster.brokers[1], cluster.brokers[2]
        await produce(cluster, SMALL, settings={"acks": "1"})
        await equal_logs(cluster)
        await first.stop()
        await led_by(cluster, 2)
        await produce(cluster, SMALL, settings={"acks": "1"})
        for down, up, values in (
            (second, first, [LARGE] * 3),
            (first, second, [SMALL]),
            (second, first, [LARGE] * 2),
        ):
            await down.stop()
            await up.start()
            await led_by(cluster, up.broker_id)
            await produce(cluster, *values, settings={"acks": "1"})
        await second.start()
        await equal_logs(cluster)
        assert [header.size > len(LARGE) for header in headers(second)] == [False, True, True, True, True, True]


async def test_offsets_for_leader_epoch_error_codes() -> None:
    """testOffsetsForLeaderEpochErrorCodes"""
    async with clustered(3) as cluster:
        unknown = await look_up(cluster.brokers[1], 0)
        assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        await create(cluster, [1, 2])
        for broker_id in (2, 3):
            row = await look_up(cluster.brokers[broker_id], 0)
            assert row.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_current_epoch_validation() -> None:
    """testCurrentEpochValidation: a leader and a follower each know the epoch, and check it first."""
    async with clustered(3) as cluster:
        await create(cluster, [1, 2, 3])
        await cluster.brokers[1].kill()
        leader, follower = await led_by(cluster, 2), cluster.brokers[3]
        replica = follower.broker.topics.partition(TOPIC, 0).replica
        assert replica is not None
        await until(lambda: replica.leader_epoch == log_of(leader).leader_epoch, "the follower's epoch")
        epoch = replica.leader_epoch
        errors = {
            current: [(await look_up(broker, 0, current)).error_code for broker in (leader, follower)]
            for current in (NO_EPOCH, epoch, epoch - 1, epoch + 1)
        }
        both = ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert errors == {
            NO_EPOCH: [*both],
            epoch: [*both],
            epoch - 1: [ErrorCode.FENCED_LEADER_EPOCH] * 2,
            epoch + 1: [ErrorCode.UNKNOWN_LEADER_EPOCH] * 2,
        }
