"""Rules of a broker's logs and disk, each switched off by a function: planted defects that seeds of the stories must
find. Rules of the coordinator's and the members' machines, each switched off by a function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from coterie.broker.handlers.logs import running_fetch
from coterie.broker.storage.flusher import Flusher
from coterie.broker.storage.topic import Partition
from coterie.broker.storage.topics import Topics
from coterie.coordinator.classic import settle
from coterie.coordinator.outcome import Outcome
from coterie.log.log_state import Appended, Flushing
from coterie.log.partition_log import PartitionLog
from coterie.log.producer_states import Aborted, Producers
from coterie.log.reading import read_committed
from coterie.member import events, replay
from coterie.member.machine import MemberMachine
from coterie.member.state import MemberState
from coterie.records.batch import BatchHeader

Patch = pytest.MonkeyPatch


def no_response_waits_for_a_sync(patch: Patch) -> None:
    patch.setattr(Partition, "sync_due", lambda partition: False)


def a_failed_sync_counts_as_done(patch: Patch) -> None:
    end = Flusher._end
    patch.setattr(Flusher, "_end", lambda flusher, ends, waiting, error: end(flusher, ends, waiting, None))


def readers_do_not_wait_for_a_sync(patch: Patch) -> None:
    patch.setattr(Flushing, "high_watermark", lambda flushing, end_offset: end_offset)


def a_full_segment_that_cannot_be_synced_is_no_fault(patch: Patch) -> None:
    patch.setattr(Topics, "sync_failed", lambda topics, error: None)


def transactions_are_not_synced(patch: Patch) -> None:
    patch.setattr(Partition, "sync_if_due", lambda partition: None)


def a_repeated_batch_is_appended(patch: Patch) -> None:
    patch.setattr(Producers, "check", lambda producers, header, *, must_begin=False: None)


def a_repeated_batch_is_appended_and_a_gap_is_not(patch: Patch) -> None:
    check = Producers.check

    def unseen(producers: Producers, header: BatchHeader, *, must_begin: bool = False) -> None:
        check(producers, header, must_begin=must_begin)

    patch.setattr(Producers, "check", unseen)


def aborted_transactions_are_not_listed(patch: Patch) -> None:
    def read(log: PartitionLog, offset: int, size: int, *, at_least_one: bool) -> tuple[bytes, list[Aborted]]:
        return read_committed(log, offset, size, at_least_one=at_least_one)[0], []

    patch.setattr(running_fetch, "read_committed", read)


def deleted_records_come_back(patch: Patch) -> None:
    patch.setattr(Topics, "save_start_offsets", lambda topics: None)


def an_offset_is_left_out(patch: Patch) -> None:
    append: Callable[..., Appended] = PartitionLog.append

    def leave_out(log: PartitionLog, *args: object, **kwargs: object) -> Appended:
        appended = append(log, *args, **kwargs)
        if appended.base_offset % 97 == 5:
            log.segments[-1].next_offset += 1
        return appended

    patch.setattr(PartitionLog, "append", leave_out)


def a_sync_gets_no_response_when_a_rebalance_begins(patch: Patch) -> None:
    begin: Callable[..., Outcome] = settle._start_rebalance

    def forgetful(*arguments: object) -> Outcome:
        outcome = begin(*arguments)
        return replace(outcome, replies=outcome.replies[1:])

    patch.setattr(settle, "_start_rebalance", forgetful)


def a_deadline_is_always_past(patch: Patch) -> None:
    patch.setattr(MemberMachine, "next_deadline_ms", lambda self: 0)


def what_is_assigned_is_owned_twice(patch: Patch) -> None:
    take = replay._APPLY[events.AssignmentTaken]

    def take_twice(state: MemberState, event: events.Event) -> MemberState:
        state = take(state, event)
        return replace(state, ownership=replace(state.ownership, owned=state.ownership.owned * 2))

    patch.setitem(replay._APPLY, events.AssignmentTaken, take_twice)
