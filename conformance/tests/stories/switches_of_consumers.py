"""Rules of consumers, of their groups and of read-process-write, each switched off by a function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from coterie.client.consumer import committer, poll_loop
from coterie.client.consumer.auto_commit import AutoCommit
from coterie.client.consumer.callbacks import Callbacks
from coterie.client.consumer.fetcher import Fetcher
from coterie.client.consumer.membership import Membership
from coterie.client.consumer.poll_loop import StartingPositions
from coterie.client.errors import check
from coterie.client.producer.producer import Producer
from coterie.client.settings.settings import ClientSettings
from coterie.client.types import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from coterie.consuming.commits import commits
from coterie.consuming.commits import offset_commit as commit_requests
from coterie.consuming.committed_offsets import PendingOffsets
from coterie.consuming.effects import SendValidation
from coterie.consuming.fetching.fetching import Fetching
from coterie.consuming.fetching.position import Position
from coterie.consuming.record import Record
from coterie.coordinator.consumer import convert, steps, target
from coterie.coordinator.consumer.offsets import any_partition
from coterie.coordinator.consumer.state import ConsumerMember, CurrentAssignment
from coterie.coordinator.consumer.target import Reconciliation
from coterie.coordinator.offsets import commit, transactional
from coterie.log.leader_epochs import EndOfEpoch, LeaderEpochCache
from coterie.member.consumer.machine import ConsumerMemberMachine
from coterie.member.effects import Revoke
from coterie.member.machine import MemberMachine
from coterie.producing.transactions import requests as transaction_requests
from coterie.producing.transactions import transactions
from coterie.wire.messages.groups.offset_commit import OffsetCommitResponse
from coterie_conformance.stories import members

Patch = pytest.MonkeyPatch
Partition = tuple[str, int]
Committed = tuple[int, int, str]  # offset, leader epoch, metadata
Starts = Mapping[TopicPartition, OffsetAndMetadata]


# -- what is polled and committed -------------------------------------------------------------------------------------------


def a_record_is_left_out(patch: Patch) -> None:
    take = Position.take

    def taken(position: Position, limit: int) -> list[Record[Any, Any]]:
        return [record for record in take(position, limit) if record.offset % 50 != 7]

    patch.setattr(Position, "take", taken)


def a_record_comes_twice(patch: Patch) -> None:
    take = Position.take

    def taken(position: Position, limit: int) -> list[Record[Any, Any]]:
        records = take(position, limit)
        return records + records[-1:] if records and records[0].offset % 20 == 3 else records

    patch.setattr(Position, "take", taken)


def commits_are_ahead(patch: Patch) -> None:
    request: Callable[..., Any] = commit_requests.commit_request

    def ahead(group_id: str, offsets: Mapping[Partition, Committed], *identity: Any) -> Any:
        return request(group_id, {tp: (offset + 3, *more) for tp, (offset, *more) in offsets.items()}, *identity)

    patch.setattr(commits, "commit_request", ahead)


def _begins(patch: Patch, changed: Callable[[OffsetAndMetadata], OffsetAndMetadata]) -> None:
    begin = StartingPositions._begin

    def elsewhere(self: StartingPositions, due: Any, starts: Starts) -> None:
        begin(self, due, {tp: changed(at) for tp, at in starts.items()})

    patch.setattr(StartingPositions, "_begin", elsewhere)


def reading_begins_behind_the_committed_offset(patch: Patch) -> None:
    _begins(patch, lambda at: OffsetAndMetadata(at.offset + (at.offset > 0), at.leader_epoch))


def the_epoch_of_a_committed_offset_is_forgotten(patch: Patch) -> None:
    _begins(patch, lambda at: OffsetAndMetadata(at.offset))


def a_reset_begins_at_the_end(patch: Patch) -> None:
    """Without any complaint of the consumer: auto.offset.reset=latest."""
    patch.setitem(poll_loop._RESET, "earliest", -1)


def commits_name_no_leader_epoch(patch: Patch) -> None:
    request: Callable[..., Any] = commit_requests.commit_request

    def without(group_id: str, offsets: Mapping[Partition, Committed], *identity: Any) -> Any:
        return request(group_id, {tp: (at[0], -1, at[2]) for tp, at in offsets.items()}, *identity)

    patch.setattr(commits, "commit_request", without)


def an_epoch_ends_before_its_last_records(patch: Patch) -> None:
    end_of = LeaderEpochCache.end_of

    def early(epochs: LeaderEpochCache, epoch: int, log_end_offset: int) -> EndOfEpoch:
        end = end_of(epochs, epoch, log_end_offset)
        return replace(end, end_offset=max(end.end_offset - 3, 0))

    patch.setattr(LeaderEpochCache, "end_of", early)


def a_validation_has_no_result(patch: Patch) -> None:
    def ended(fetching: Fetching, sent: SendValidation, *args: Any) -> bool:
        fetching._validation_ended(sent)
        return False

    patch.setattr(Fetching, "validated", ended)


# -- groups -----------------------------------------------------------------------------------------------------------------


def a_former_epoch_may_commit(patch: Patch) -> None:
    patch.setattr(commit, "check_commit", lambda *args: any_partition)


def a_revoked_partition_is_read_on(patch: Patch) -> None:
    patch.setattr(Fetcher, "drop", lambda fetcher, partitions: None)


def lost_partitions_are_read_on(patch: Patch) -> None:
    """Of a member that is fenced, or has left because it did not poll: its listener hears nothing of it."""

    async def keep(callbacks: Callbacks, effect: Revoke, membership: Membership) -> None:
        if effect.lost or membership.machine.lost:
            membership.listener_returned(effect, failed=False)
        else:
            await revoke(callbacks, effect, membership)

    revoke = Callbacks._revoke
    patch.setattr(Callbacks, "_revoke", keep)


def a_revocation_is_acknowledged_before_its_commit(patch: Patch) -> None:
    async def at_once(auto_commit: AutoCommit, timeout_s: float) -> None:
        auto_commit.give_up()

    patch.setattr(AutoCommit, "now", at_once)


def positions_outlast_a_revocation(patch: Patch) -> None:
    """What another member has read meanwhile is read again from the old position on."""
    kept: dict[tuple[int, TopicPartition], Position] = {}
    drop, assign = Fetching.drop, Fetching.assign

    def dropped(fetching: Fetching, partitions: Any) -> None:
        partitions = list(partitions)
        kept.update({(id(fetching), tp): p for tp in partitions if (p := fetching.positions.get(tp)) is not None})
        drop(fetching, partitions)

    def assigned(fetching: Fetching, partitions: Any) -> None:
        partitions = [TopicPartition(*tp) for tp in partitions]
        assign(fetching, partitions)
        for tp in partitions:
            position = kept.pop((id(fetching), tp), None)
            if position is not None and position.offset >= 0:
                fetching.seek(tp, position.offset)

    patch.setattr(Fetching, "drop", dropped)
    patch.setattr(Fetching, "assign", assigned)


def a_partition_is_given_before_it_is_released(patch: Patch) -> None:
    def without_owners(current: CurrentAssignment, given: Reconciliation) -> CurrentAssignment:
        return target.reconcile(current, replace(given, owners={}))

    patch.setattr(steps, "reconcile", without_owners)


def no_report_acknowledges_a_revocation(patch: Patch) -> None:
    def still_has(revoked: Mapping[Any, int], given: Reconciliation) -> bool:
        return given.owned is not None and any(partition in revoked for partition in given.owned)

    patch.setattr(target, "_still_has", still_has)


def an_upgrade_forgets_who_owns_what(patch: Patch) -> None:
    upgraded = convert._upgraded

    def without_assignment(*args: Any) -> ConsumerMember:
        member = upgraded(*args)
        return replace(member, current=replace(member.current, assigned={}))

    patch.setattr(convert, "_upgraded", without_assignment)


# -- read, process, write ---------------------------------------------------------------------------------------------------


def a_former_generation_may_commit_in_a_transaction(patch: Patch) -> None:
    patch.setattr(transactional, "validate_commit", lambda *args, **kwargs: None)


def a_lost_membership_commits_without_one(patch: Patch) -> None:
    """As group_metadata had it."""
    patch.setattr(MemberMachine, "committing_as", property(lambda machine: (machine.member_id, machine.generation)))


def a_former_epoch_may_commit_in_a_transaction(patch: Patch) -> None:
    """Of a group of the consumer protocol."""
    patch.setattr(transactional, "check_commit", lambda *args, **kwargs: any_partition)


def a_lost_membership_of_the_consumer_protocol_commits_without_one(patch: Patch) -> None:
    patch.setattr(ConsumerMemberMachine, "committing_as", property(lambda machine: ("", -1)))


def offsets_are_committed_outside_the_transaction(patch: Patch) -> None:
    async def send(producer: Producer[Any, Any], offsets: Any, group: ConsumerGroupMetadata) -> None:
        cluster = producer._cluster
        node_id = await cluster.find_coordinator(group.group_id)
        connection = await cluster.coordinator_connection(node_id)
        every = {tp: at if isinstance(at, OffsetAndMetadata) else OffsetAndMetadata(at) for tp, at in offsets.items()}
        plain = {tuple(tp): (at.offset, at.leader_epoch, "") for tp, at in every.items()}
        member = group.generation_id, group.member_id, group.group_instance_id
        request = commit_requests.commit_request(group.group_id, plain, *member)
        response = await connection.request(request, OffsetCommitResponse, cluster.timeout_s, highest=9)
        check(commit_requests.first_error(response)[0])

    patch.setattr(Producer, "send_offsets_to_transaction", send)


def members_read_what_is_not_committed(patch: Patch) -> None:
    patch.setattr(ClientSettings, "committed_only", property(lambda settings: False))


def positions_are_those_before_an_open_transaction(patch: Patch) -> None:
    ignored = SimpleNamespace(AWAITED=PendingOffsets.IGNORED, IGNORED=PendingOffsets.IGNORED)
    patch.setattr(committer, "PendingOffsets", ignored)


def nothing_is_read_again_after_an_abort(patch: Patch) -> None:
    patch.setattr(members, "_read_again", lambda: None)


def a_transaction_commits_without_leader_epochs(patch: Patch) -> None:
    request: Callable[..., Any] = transaction_requests.offsets_request

    def without(name: str, producer_id: int, epoch: int, offsets: Mapping[Any, Committed], member: Any) -> Any:
        return request(name, producer_id, epoch, {tp: at[0] for tp, at in offsets.items()}, member)

    patch.setattr(transactions, "offsets_request", without)


def a_revocation_does_not_wait_for_the_transaction(patch: Patch) -> None:
    carry_out = Membership._carry_out

    def at_once(membership: Membership, effect: Any) -> None:
        if isinstance(effect, Revoke) and not effect.lost:
            membership.listener_returned(effect, failed=False)
        carry_out(membership, effect)

    patch.setattr(Membership, "_carry_out", at_once)
