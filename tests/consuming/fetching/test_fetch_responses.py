"""What the rows of a Fetch response mean, with and without errors, and the errors that poll raises; tests named as in Kafka's
FetchRequestManagerTest and FetchCollectorTest are in brackets."""

from __future__ import annotations

import pytest

from coterie.consuming.effects import PartitionFailed, SendFetch
from coterie.consuming.fetching.outcomes import REMEDIES
from coterie.consuming.fetching.position import FetchState
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.logs.fetch import PartitionData
from tests.consuming.cluster import T0, T1, U0
from tests.consuming.driven import Driven, buffered, failed, records

E = ErrorCode
OUT_OF_RANGE = E.OFFSET_OUT_OF_RANGE

# -- errors ---------------------------------------------------------------------------------------------------------------

REFRESHED = [
    E.NOT_LEADER_OR_FOLLOWER,
    E.UNKNOWN_TOPIC_OR_PARTITION,
    E.UNKNOWN_TOPIC_ID,
    E.INCONSISTENT_TOPIC_ID,
    E.FENCED_LEADER_EPOCH,
]


@pytest.mark.parametrize(
    ("code", "is_of_all", "refreshes"),
    [(code, False, True) for code in REFRESHED]
    + [
        (E.FETCH_SESSION_TOPIC_ID_ERROR, True, True),
        (E.UNKNOWN_LEADER_EPOCH, False, True),  # Kafka leaves the metadata as it is: see fetch_errors
        (E.UNKNOWN_SERVER_ERROR, False, False),
    ],
)
def test_an_error_that_passes_changes_nothing_but_the_metadata(
    code: ErrorCode, is_of_all: bool, refreshes: bool
) -> None:
    """[testHandleFetchResponseError, testFetchSessionIdError, testFetchError, testFetchWithUnknownLeaderEpoch,
    testFetchWithUnknownServerError]"""
    driven = Driven({T0: 0})
    sent = driven.sent()
    if is_of_all:
        driven.respond(sent, {T0: failed(code)}, error_code=code)
    else:
        assert not driven.respond(sent, {T0: failed(code)})
    assert driven.offsets() == {}
    position = driven.machine.positions[T0]
    assert (position.offset, position.state) == (0, FetchState.FETCHING)
    assert driven.effects() == []
    driven.wait()
    if refreshes:
        driven.refresh()
    assert driven.sent().wanted == {T0: (0, 0)}


@pytest.mark.parametrize("code", [E.TOPIC_AUTHORIZATION_FAILED, E.CORRUPT_MESSAGE])
def test_an_error_that_lasts_is_raised_by_poll(code: ErrorCode) -> None:
    """[testFetchWithTopicAuthorizationFailed, testFetchWithCorruptMessage]"""
    driven = Driven({T0: 0})
    assert driven.respond(driven.sent(), {T0: failed(code)})
    assert driven.failure() == PartitionFailed(T0, code)


@pytest.mark.parametrize("code", [code for code in E if code not in REMEDIES and code is not E.NONE])
def test_an_error_that_no_broker_returns_here(code: ErrorCode) -> None:
    """[testFetchWithOtherErrors] Raised, as in Kafka, unless its name says that it passes: then Kafka's consumer raises an
    IllegalStateException, and this one tries again."""
    driven = Driven({T0: 0})
    assert driven.respond(driven.sent(), {T0: failed(code)}) is not code.retriable
    if code.retriable:
        driven.wait()
        driven.refresh()
        driven.sent()
    else:
        assert driven.failure() == PartitionFailed(T0, code)
    assert driven.machine.positions[T0].offset == 0


@pytest.mark.parametrize("count", [10, 0])
def test_what_cannot_be_read_stays_and_an_error_without_records_goes(count: int) -> None:
    """[testErrorInInitialize]"""
    driven = Driven({T0: 0})
    if count:
        damaged = bytearray(records(count).records or b"")
        damaged[-1] ^= 1
        driven.respond(driven.sent(), {T0: PartitionData(records=bytes(damaged))})
    else:
        driven.respond(driven.sent(), {T0: failed(E.INVALID_REQUEST)})
        driven.failure()
    for _ in range(2):
        assert driven.offsets() == {}
        assert (driven.machine.damage_due() is None) is (count == 0)


def test_a_broker_that_cannot_be_reached_is_left_alone_for_the_pause() -> None:
    """[testFetchSkipsBlackedOutNodes]"""
    driven = Driven({T0: 0, U0: 0})
    driven.machine.failed(driven.sent(), E.NETWORK_EXCEPTION, driven.now_ms, 0.0)
    driven.now_ms = 99
    assert driven.effects() == []
    driven.now_ms = 100
    driven.refresh()
    assert set(driven.sent().wanted) == {T0, U0}


def test_a_connection_that_is_lost_before_the_second_request_is_sent() -> None:
    """[testFetchCompletedBeforeHandlerAdded] The broker is free for the next request."""
    driven = buffered(T0, count=1)
    assert driven.offsets() == {T0: [0]}
    driven.machine.failed(driven.sent(), E.NETWORK_EXCEPTION, driven.now_ms, 0.0)
    driven.wait()
    driven.refresh()
    assert driven.sent().wanted == {T0: (1, 0)}


# -- offsets out of range -------------------------------------------------------------------------------------------------


def test_an_offset_out_of_range_after_records_is_reset() -> None:
    """[testFetchWithOffsetOutOfRange, testCollectFetchInitializationOffsetOutOfRangeErrorWithOffsetReset]"""
    driven = buffered(T0)
    assert driven.offsets() == {T0: [0, 1, 2]}
    assert driven.respond(driven.sent(), {T0: failed(OUT_OF_RANGE)})
    assert driven.machine.resets_due() == [T0]
    for _ in range(2):
        assert driven.offsets() == {}
        assert driven.effects() == []


def test_without_a_policy_it_is_raised_again_and_again() -> None:
    """[testFetchOffsetOutOfRangeException]"""
    driven = Driven({T0: 0}, has_reset_policy=False)
    for _ in range(2):
        assert driven.respond(driven.sent(), {T0: failed(OUT_OF_RANGE)})
        assert driven.failure() == PartitionFailed(T0, OUT_OF_RANGE)
        assert driven.effects() == [], "until the next poll"
        assert driven.machine.resets_due() == []
        assert driven.machine.positions[T0].offset == 0
        assert driven.offsets() == {}


def test_records_of_the_neighbours_are_handed_out_before_and_after_the_error() -> None:
    """[testFetchPositionAfterException, testCompletedFetchRemoval] U0 is damaged, T0 is out of range."""
    driven = Driven({T0: 1, T1: 1, U0: 1}, has_reset_policy=False)
    sent = driven.sent_to()
    driven.respond(sent[2], {T1: records(3, 1)})
    driven.respond(sent[1], {T0: failed(OUT_OF_RANGE), U0: PartitionData(records=bytes(20))})
    positions = driven.machine.positions
    assert driven.offsets() == {T1: [1, 2, 3]}
    assert (positions[T0].offset, positions[T1].offset) == (1, 4)
    failure, *further = driven.effects()
    assert failure == PartitionFailed(T0, OUT_OF_RANGE)
    (sent_on,) = [effect for effect in further if isinstance(effect, SendFetch) and effect.node_id == 2]
    driven.respond(sent_on, {T1: records(2, 4)})
    for offsets in ({T1: [4, 5]}, {}, {}):
        assert driven.offsets() == offsets
        due = driven.machine.damage_due()
        assert due is not None
        assert (due[0], positions[U0].offset) == (U0, 1)


def test_records_fetched_before_are_handed_out_before_the_error() -> None:
    driven = buffered(T0, has_reset_policy=False)
    assert not driven.respond(driven.sent(), {T0: failed(OUT_OF_RANGE)})
    assert driven.effects() == [], "not asked again before the next poll"
    assert driven.offsets() == {T0: [0, 1, 2]}
    assert driven.respond(driven.sent(), {T0: failed(OUT_OF_RANGE)})
    assert driven.failure() == PartitionFailed(T0, OUT_OF_RANGE)


def test_a_seek_withdraws_the_error() -> None:
    """[testSeekBeforeException, testFetchedRecordsAfterSeek]"""
    driven = Driven({T0: 0}, has_reset_policy=False)
    driven.respond(driven.sent(), {T0: failed(OUT_OF_RANGE)})
    driven.machine.seek(T0, 2)
    assert driven.offsets() == {}
    assert driven.sent().wanted == {T0: (2, 0)}
    assert driven.machine.resets_due() == []
