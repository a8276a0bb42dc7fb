"""Assignments of a coordinator with replicas reach a member once all replicas in sync have the group's record: before that the
next coordinator may lack it, and give the same partitions to others in the same generation (the laboratory's seed 100,003)."""

from __future__ import annotations

from functools import partial

import pytest

from coterie.broker.broker import Broker
from coterie.broker.requests.pending import Pending
from coterie.coordinator.commands import Command
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.groups.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from coterie.wire.messages.groups.heartbeat import HeartbeatRequest, HeartbeatResponse
from coterie.wire.messages.groups.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from coterie.wire.messages.groups.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from tests.awaiting import quiet, until
from tests.broker.cluster.replicas.test_replicated_writes import ME, OTHER, act, fetched, follow, lead, one_of_two

LONG_MS = 60_000


def submit(broker: Broker, command: Command) -> Pending:
    pending = Pending()
    broker.groups.submit(command, pending, 3, "c", "/h")
    return pending


async def joined(broker: Broker) -> JoinGroupResponse:
    """A member that leads, in generation 1."""
    await broker.groups.loaded()
    request = JoinGroupRequest(
        "g", LONG_MS, LONG_MS, protocol_type="consumer", protocols=[JoinGroupRequestProtocol("range", b"")]
    )
    pending = submit(broker, request)
    await until(lambda: pending.response is not None)
    assert isinstance(pending.response, JoinGroupResponse)
    return pending.response


def sync(broker: Broker, member: JoinGroupResponse) -> Pending:
    assignments = [SyncGroupRequestAssignment(member.member_id, b"all")]
    return submit(broker, SyncGroupRequest("g", member.generation_id, member.member_id, assignments=assignments))


def heartbeat(broker: Broker) -> Pending:
    """That of a member of a consumer group which joins, or whose response was lost."""
    request = ConsumerGroupHeartbeatRequest(
        "g", "m", 0, rebalance_timeout_ms=LONG_MS, subscribed_topic_names=["t"], topic_partitions=[]
    )
    return submit(broker, request)


def error(response: Message | None) -> int | None:
    return None if response is None else response.error_code  # type: ignore[attr-defined]


async def test_a_repeated_sync_waits_for_the_replicas_too() -> None:
    async with one_of_two() as (broker, _, _, offsets):
        leader = lead(broker, offsets, (ME, OTHER))
        member = await joined(broker)
        first = sync(broker, member)
        await until(lambda: offsets.log.end_offset == 1)
        again = sync(broker, member)
        await quiet()
        assert (first.response, again.response) == (None, None)
        beat = submit(broker, HeartbeatRequest("g", member.generation_id, member.member_id))
        assert beat.response == HeartbeatResponse()  # which has nothing to hide
        fetched(broker, leader)
        for pending in (first, again, sync(broker, member)):
            assert isinstance(pending.response, SyncGroupResponse)
            assert (pending.response.error_code, pending.response.assignment) == (ErrorCode.NONE, b"all")
        assert not offsets.watchers


async def test_a_repeated_heartbeat_of_a_consumer_waits_too() -> None:
    async with one_of_two() as (broker, _, _, offsets):
        leader = lead(broker, offsets, (ME, OTHER))
        await broker.groups.loaded()
        first = heartbeat(broker)
        await until(lambda: offsets.log.end_offset > 0)
        again = heartbeat(broker)
        await quiet()
        assert (first.response, again.response) == (None, None)
        fetched(broker, leader)
        await until(lambda: again.response is not None)
        assert (error(first.response), error(again.response)) == (ErrorCode.NONE, ErrorCode.NONE)


@pytest.mark.parametrize("is_classic", [True, False])
async def test_a_leader_that_resigns_refuses_the_assignments_that_wait(is_classic: bool) -> None:
    async with one_of_two() as (broker, _, _, offsets):
        lead(broker, offsets, (ME, OTHER))
        await broker.groups.loaded()
        send = partial(sync, broker, await joined(broker)) if is_classic else partial(heartbeat, broker)
        first = send()
        await until(lambda: offsets.log.end_offset > 0)
        again = send()
        follow(broker, offsets)
        assert {error(first.response), error(again.response)} == {ErrorCode.NOT_COORDINATOR}


@pytest.mark.parametrize("is_classic", [True, False])
async def test_what_waits_for_the_end_of_the_turn_is_not_written_by_a_broker_without_a_role(is_classic: bool) -> None:
    """Its session with ZooKeeper has expired, and it registers again in the turn in which the request came (the laboratory's
    seed 195,137). It wrote to its log alone, and the member received an assignment that no other broker has."""
    async with one_of_two() as (broker, _, _, offsets):
        lead(broker, offsets, (ME, OTHER))
        await broker.groups.loaded()
        send = partial(sync, broker, await joined(broker)) if is_classic else partial(heartbeat, broker)
        pending = send()
        assert pending.response is None
        assert offsets.replica is not None
        effects, offsets.replica = offsets.replica.stop(), None
        broker.role_changed(offsets)
        act(broker, effects)
        assert error(pending.response) == ErrorCode.NOT_COORDINATOR
        assert offsets.log.end_offset == 0


async def test_an_assignment_that_is_not_replicated_in_time_is_unavailable_and_comes_later() -> None:
    async with one_of_two(offsets_commit_timeout_ms="20") as (broker, _, _, offsets):
        leader = lead(broker, offsets, (ME, OTHER))
        member = await joined(broker)
        first = sync(broker, member)
        await until(lambda: offsets.log.end_offset == 1)
        again = sync(broker, member)
        await until(lambda: first.response is not None and again.response is not None)
        assert {error(first.response), error(again.response)} == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
        third = sync(broker, member)
        assert third.response is None
        fetched(broker, leader)
        assert error(third.response) == ErrorCode.NONE


async def test_what_a_new_coordinator_has_loaded_waits_for_its_replicas() -> None:
    async with one_of_two() as (broker, _, _, offsets):
        lead(broker, offsets, (ME, OTHER))
        member = await joined(broker)
        sync(broker, member)
        await until(lambda: offsets.log.end_offset == 1)
        follow(broker, offsets)
        broker.groups.elect(offsets.index, 9)
        await broker.groups.loaded()
        offsets.log.replicas_high_watermark = 0
        assert sync(broker, member).response is None
