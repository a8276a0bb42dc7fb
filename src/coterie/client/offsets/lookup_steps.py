"""Lookups of offsets (`consuming/offset_lookup`, `consuming/committed_offsets`) as courses of steps, for an event loop and for
threads alike; and what a response about offsets, or the broker's version of a request, refuses. A step is an effect, whose
response or KafkaError is sent back, or a `Pause`."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from coterie.client.errors import CommitFailedError, KafkaError, RebalanceInProgressError, check, error_about
from coterie.client.pauses.clock import Waits, jitter, now_ms, until_due_thread
from coterie.consuming.commits.offset_commit import Verdict, first_error
from coterie.consuming.committed_offsets import (
    STABLE_FROM,
    CommittedFailure,
    CommittedLookup,
    CommittedPosition,
    SendOffsetFetch,
)
from coterie.consuming.effects import LookUpCoordinator, RefreshMetadata
from coterie.consuming.offset_lookup import LookupFailure, OffsetLookup, SendListOffsets
from coterie.consuming.record import TopicPartition
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.groups.offset_commit import OffsetCommitResponse
from coterie.wire.messages.groups.offset_fetch import OffsetFetchRequest

R = TypeVar("R")
NO_STABLE = "offsets without pending ones need OffsetFetch version 7, which Apache Kafka has from 2.5 on"


@dataclass(frozen=True, slots=True)
class Pause:
    """Before the next step, until that time, because of an error; nothing is sent back."""

    due_ms: float
    code: ErrorCode
    why: str


_OfListOffsets = SendListOffsets | RefreshMetadata
_OfOffsetFetch = SendOffsetFetch | LookUpCoordinator


def list_offsets_steps(
    lookup: OffsetLookup, arrived: Callable[[dict[TopicPartition, int]], None] | None = None
) -> Generator[_OfListOffsets | Pause, Any, dict[TopicPartition, int]]:
    """Returns the offsets; ``arrived`` is called with those of each response. Raises KafkaError, but for the partitions in the
    lookup's ``errors``."""
    errors: dict[ErrorCode, KafkaError] = {}  # the last one of each code that a request as a whole ended with
    while not lookup.is_done:
        for effect in lookup.next(now_ms()):
            code, response = ErrorCode.NONE, None
            try:
                response = yield effect
            except KafkaError as error:
                if not error.retriable:
                    raise
                code, errors[error.code] = error.code, error
            if isinstance(effect, RefreshMetadata):
                lookup.metadata_refreshed(effect, now_ms(), jitter(), code)
            elif response is None:
                lookup.failed(effect, code, now_ms(), jitter())
            else:
                lookup.responded(effect, response, now_ms(), jitter())
                if arrived is not None:
                    arrived({tp: lookup.offsets[tp] for tp in effect.partitions if tp in lookup.offsets})
        due_ms = lookup.next_deadline_ms()
        if due_ms is not None:
            yield _pause(due_ms, lookup.passing, errors)
    if lookup.failure is not None:
        code, partition = lookup.failure.code, lookup.failure.where
        raise error_about(code, partition) if partition else errors.get(code) or KafkaError(code)
    return lookup.offsets


def offset_fetch_steps(
    lookup: CommittedLookup, group: str
) -> Generator[_OfOffsetFetch | Pause, Any, Mapping[TopicPartition, CommittedPosition]]:
    """Returns the offsets. ``group``: as an error names it. Raises KafkaError."""
    failed: KafkaError | None = None  # the last attempt, where it had no response
    errors: dict[ErrorCode, KafkaError] = {}
    while not lookup.is_done:
        effect = lookup.next(now_ms())
        if effect is None:
            due_ms = lookup.next_deadline_ms()
            assert due_ms is not None
            yield _pause(due_ms, lookup.passing, errors)
            continue
        failed, response = None, None
        try:
            response = yield effect
        except KafkaError as error:
            failed = errors[error.code] = error
        code = ErrorCode.NONE if failed is None else failed.code
        is_final = failed is not None and not failed.retriable
        if isinstance(effect, LookUpCoordinator):
            lookup.coordinator_looked_up(code, now_ms(), jitter(), is_final=is_final)
        elif response is None:
            lookup.failed(effect, code, now_ms(), jitter(), is_final=is_final)
        else:
            lookup.responded(effect, response, now_ms(), jitter())
    if lookup.failure is not None:
        raise failed or error_about(lookup.failure.code, lookup.failure.where or f"group {group}")
    return lookup.offsets


def _pause(
    due_ms: float, failure: LookupFailure | CommittedFailure | None, errors: Mapping[ErrorCode, KafkaError]
) -> Pause:
    """With the error of a request as a whole, or that of a partition in its response."""
    assert failure is not None, "a pause without a failure"
    if failure.where:
        return Pause(due_ms, failure.code, f"{failure.where}: {failure.code.text}")
    return Pause(due_ms, failure.code, str(errors.get(failure.code, failure.code.text)))


def run_steps_blocking(steps: Generator[Any, Any, R], carry_out: Callable[[Any], Any], what: str, waits: Waits) -> R:
    """Carries a course out in a thread, and returns its result. ``what``: what it looks up. Raises KafkaError."""
    response, error = None, None
    while True:
        try:
            step = steps.send(response) if error is None else steps.throw(error)
        except StopIteration as end:
            waits.succeeded(what)
            result: R = end.value
            return result
        response, error = None, None
        if isinstance(step, Pause):
            waits.failed(what, step.why)
            until_due_thread(step.due_ms)
            continue
        try:
            response = carry_out(step)
        except KafkaError as failed:
            error = failed


def check_stable(request: OffsetFetchRequest, version: int) -> None:
    """Raises KafkaError UNSUPPORTED_VERSION where the request needs a newer version than the connection has."""
    if request.require_stable and version < STABLE_FROM:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, NO_STABLE)


def commit_error(what: Verdict, code: ErrorCode, message: str | None) -> KafkaError:
    """What the caller of a commit hears that ended with another verdict than DONE."""
    match what:
        case Verdict.REBALANCING:
            return RebalanceInProgressError()
        case Verdict.COMMIT_FAILED:
            return CommitFailedError(code)
        case _:
            return KafkaError(code, message)


def check_committed(response: OffsetCommitResponse) -> None:
    """Raises KafkaError with the first partition's error."""
    code, partition = first_error(response)
    check(code, subject=partition)
