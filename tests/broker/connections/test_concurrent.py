"""Many members of many groups at once on real sockets. Names are those of GroupCoordinatorConcurrencyTest; here one loop
does all the work, so what is looked for is order: every response right whatever arrives between.
"""

from __future__ import annotations

import asyncio
import random

import pytest

from coterie.broker.broker import Broker
from coterie.broker.settings import BrokerSettings
from coterie.coordinator.journal.line import JournalLine
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.groups.heartbeat import HeartbeatRequest, HeartbeatResponse
from coterie.wire.messages.groups.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from coterie.wire.messages.groups.leave_group import LeaveGroupRequest, LeaveGroupResponse
from coterie.wire.messages.groups.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from coterie.wire.messages.groups.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic, OffsetFetchResponse
from coterie.wire.messages.groups.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from coterie.wire.messages.topics.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from coterie.wire.messages.transactions.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from coterie.wire.messages.transactions.end_txn import EndTxnRequest, EndTxnResponse
from coterie.wire.messages.transactions.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from coterie.wire.messages.transactions.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from tests.awaiting import until
from tests.broker.connections.test_server import FAST, Client, run

GROUPS, MEMBERS = 8, 5
SETTINGS = FAST | {"offsets.topic.num.partitions": "1", "group.initial.rebalance.delay.ms": "100"}


async def serving(**changed: str) -> tuple[Broker, list[Client]]:
    broker = Broker(BrokerSettings(SETTINGS | changed))
    address = await broker.start("127.0.0.1", 0)
    clients = [Client(*await asyncio.open_connection(*address)) for _ in range(GROUPS * MEMBERS)]
    await clients[0].ask(CreateTopicsRequest([CreatableTopic("t", MEMBERS, 1)]), CreateTopicsResponse, 7)
    return broker, clients


async def stop(broker: Broker, clients: list[Client]) -> None:
    for client in clients:
        client.writer.close()
    await broker.stop()


def join(group: str, member: str = "", rebalance_ms: int = 10_000) -> JoinGroupRequest:
    protocols = [JoinGroupRequestProtocol("range", b"")]
    return JoinGroupRequest(group, 10_000, rebalance_ms, member, None, "consumer", protocols)


async def enter(client: Client, group: str) -> tuple[str, int, bytes]:
    """Joins and syncs; returns member id, generation and assignment."""
    joined = await client.ask(join(group), JoinGroupResponse, 3)
    assert joined.error_code == ErrorCode.NONE
    assert len(joined.members) == (MEMBERS if joined.leader == joined.member_id else 0)
    shares = [SyncGroupRequestAssignment(m.member_id, m.member_id.encode()) for m in joined.members]
    sync = SyncGroupRequest(group, joined.generation_id, joined.member_id, assignments=shares)
    synced = await client.ask(sync, SyncGroupResponse, 3)
    assert synced.error_code == ErrorCode.NONE
    return joined.member_id, joined.generation_id, synced.assignment


async def commit_in_transaction(client: Client, transactional_id: str, commit: TxnOffsetCommitRequest) -> None:
    """A transaction of these offsets alone, from its producer's id to its end."""
    init = InitProducerIdRequest(transactional_id, 60_000)
    known = await client.ask(init, InitProducerIdResponse, 4)
    identity = (transactional_id, known.producer_id, known.producer_epoch)
    added = await client.ask(AddOffsetsToTxnRequest(*identity, commit.group_id), AddOffsetsToTxnResponse, 3)
    assert added.error_code == ErrorCode.NONE
    commit.transactional_id, commit.producer_id, commit.producer_epoch = identity
    responded = await client.ask(commit, TxnOffsetCommitResponse, 3)
    assert responded.topics[0].partitions[0].error_code == ErrorCode.NONE
    ended = await client.ask(EndTxnRequest(*identity, True), EndTxnResponse, 3)
    assert ended.error_code == ErrorCode.NONE


async def good_path(client: Client, number: int, transactional: bool) -> None:
    group = f"g{number % GROUPS}"
    member, generation, share = await enter(client, group)
    assert share == member.encode()
    beat = await client.ask(HeartbeatRequest(group, generation, member), HeartbeatResponse, 4)
    assert beat.error_code == ErrorCode.NONE
    partition = number // GROUPS
    if transactional:
        await commit_in_transaction(
            client,
            f"x{number}",
            TxnOffsetCommitRequest(
                group_id=group,
                generation_id_or_member_epoch=generation,
                member_id=member,
                topics=[
                    TxnOffsetCommitRequestTopic("t", partitions=[TxnOffsetCommitRequestPartition(partition, number)])
                ],
            ),
        )
    else:
        topics = [OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(partition, number)])]
        commit = OffsetCommitRequest(group, generation, member, topics=topics)
        responded = await client.ask(commit, OffsetCommitResponse, 8)
        assert responded.topics[0].partitions[0].error_code == ErrorCode.NONE
    fetch = OffsetFetchRequest(group, [OffsetFetchRequestTopic("t", [partition])], require_stable=True)
    fetched = await client.ask(fetch, OffsetFetchResponse, 7)
    assert fetched.topics[0].partitions[0].committed_offset == number
    assert (await client.ask(LeaveGroupRequest(group, member), LeaveGroupResponse, 2)).error_code == ErrorCode.NONE


def test_good_paths_side_by_side() -> None:
    """testConcurrentGoodPathSequence, testConcurrentTxnGoodPathSequence"""
    for transactional in (False, True):

        async def story(transactional: bool = transactional) -> None:
            broker, clients = await serving()
            await asyncio.gather(*(good_path(c, n, transactional) for n, c in enumerate(clients)))
            assert all(not g.members and len(g.offsets) == MEMBERS for g in broker.groups.groups())
            await stop(broker, clients)

        run(story)


async def test_random_requests_neither_hang_nor_break() -> None:
    """testConcurrentRandomSequence"""

    async def at_random(client: Client, number: int) -> None:
        rng, group = random.Random(number), f"g{number % 2}"
        member, generation = "", -1
        for _ in range(30):
            match rng.choice(["join", "sync", "heartbeat", "leave"]):
                case "join":
                    joined = await client.ask(join(group, member, 150), JoinGroupResponse, 3)
                    member, generation = (joined.member_id, joined.generation_id) if not joined.error_code else ("", -1)
                case "sync":
                    await client.ask(SyncGroupRequest(group, generation, member), SyncGroupResponse, 3)
                case "heartbeat":
                    await client.ask(HeartbeatRequest(group, generation, member), HeartbeatResponse, 3)
                case _:
                    await client.ask(LeaveGroupRequest(group, member), LeaveGroupResponse, 2)
                    member, generation = "", -1
        await client.ask(LeaveGroupRequest(group, member), LeaveGroupResponse, 2)

    # The short rebalance timeout ends the wait for a member that sends no requests any more.
    broker, clients = await serving()
    await asyncio.gather(*(at_random(c, n) for n, c in enumerate(clients[:12])))
    await stop(broker, clients)


async def test_no_more_members_than_the_limit_get_in() -> None:
    """testConcurrentJoinGroupEnforceGroupMaxSize"""
    broker, clients = await serving(**{"group.max.size": "3"})
    joined = await asyncio.gather(*(c.ask(join("g"), JoinGroupResponse, 3) for c in clients))
    codes = [j.error_code for j in joined]
    assert codes.count(ErrorCode.NONE) == 3
    assert codes.count(ErrorCode.GROUP_MAX_SIZE_REACHED) == len(clients) - 3
    await stop(broker, clients)


async def test_one_answer_that_cannot_be_said_costs_nobody_else_theirs() -> None:
    """testInvokeJoinCallbackFails, testInvokeSyncCallbackFails: UNKNOWN_SERVER_ERROR instead of waiting for ever."""
    broker, clients = await serving()
    first, second = clients[:2]
    waiting = asyncio.gather(*(c.ask(join("g"), JoinGroupResponse, 3) for c in (first, second)))
    await until(lambda: len(getattr(broker.groups.group("g"), "members", ())) == 2, "both have joined")
    group = broker.groups.group("g")
    assert group is not None
    spoiled = next(iter(group.waiting_joins.values()))
    notify = spoiled.notify  # type: ignore[attr-defined]

    def spoil() -> None:
        spoiled.response.generation_id = "not a number"  # type: ignore[attr-defined]
        notify()

    spoiled.notify = spoil  # type: ignore[attr-defined]
    joined = await waiting
    assert sorted(t.error_code for t in joined) == [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NONE]
    await stop(broker, clients)


async def test_a_journal_that_cannot_be_created_is_reported(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The groups continue, and the broker stops in order."""
    broker, clients = await serving()

    def refuse() -> None:
        raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is full")

    monkeypatch.setattr(broker.topics, "journal_topic", refuse)
    broker.groups.journal.add([JournalLine(1, "g", 1, "member_joined", "Stable", "Stable")])
    broker.groups.journal.write()
    await stop(broker, clients)
    assert "the journal cannot be written: the disk is full" in caplog.text


async def test_the_lines_of_a_turn_are_journalled_whole_in_several_batches(caplog: pytest.LogCaptureFixture) -> None:
    """Thousands of members that join in one turn of the loop have more lines than one batch holds."""
    broker, clients = await serving()
    count = 12_000
    lines = [JournalLine(1, f"g{n}", 1, "member_joined", "Stable", "Stable") for n in range(count)]
    lines[7].moved = [{"topic": "x" * 100, "partition": n} for n in range(1_000)]
    broker.groups.journal.add(lines)
    broker.groups.journal.write()
    (partition,) = broker.topics.journal_topic().partitions
    assert partition.log.end_offset == count
    assert not broker.groups.journal._unwritten
    await stop(broker, clients)
    assert "cannot be written" not in caplog.text
