"""What a response about offsets, or the broker's version of a request, refuses."""

from __future__ import annotations

from coterie.client.errors import CommitFailedError, KafkaError, RebalanceInProgressError, check
from coterie.consuming.commits.offset_commit import Verdict, first_error
from coterie.consuming.committed_offsets import STABLE_FROM
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.groups.offset_commit import OffsetCommitResponse
from coterie.wire.messages.groups.offset_fetch import OffsetFetchRequest

NO_STABLE = "offsets without pending ones need OffsetFetch version 7, which Apache Kafka has from 2.5 on"


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
