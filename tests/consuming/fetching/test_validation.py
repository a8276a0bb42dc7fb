"""Positions after an election (KIP-320), a rule at a time; tests named as in Kafka's OffsetFetcherTest and
SubscriptionStateTest are in brackets."""

from __future__ import annotations

import pytest

from coterie.consuming.effects import LogTruncated, PartitionFailed, RefreshMetadata, SendFetch, SendValidation
from coterie.consuming.fetching.position import UNKNOWN, FetchState
from coterie.wire.errors import ErrorCode
from tests.consuming.cluster import NO_LEADER, T0, T1, U0
from tests.consuming.driven import Driven

E = ErrorCode


class Validating(Driven):
    """Has read ``read`` records of T0, all of epoch 0, and has learned that its broker was elected again since; the new
    leader's log ends at ``end``."""

    def __init__(self, read: int = 5, end: int = 5, **config: object) -> None:
        super().__init__({T0: 0}, validates=True, **config)
        self.cluster.logs[T0].plain(3)
        self.cluster.logs[T0].plain(3)
        self.serve(self.sent())
        assert self.offsets(read) == {T0: list(range(read))}
        self.cluster.unclean_election(T0, 1, end)
        self.cluster.metadata(self.known)

    def validation(self) -> SendValidation:
        effects = [effect for effect in self.effects() if not isinstance(effect, SendFetch)]
        (effect,) = effects
        assert isinstance(effect, SendValidation)
        return effect

    def ends(self, sent: SendValidation) -> bool:
        return self.machine.validated(sent, self.cluster.epoch_ends(sent.node_id, sent.request), self.now_ms, 0.0)

    @property
    def state(self) -> FetchState:
        return self.machine.positions[T0].state


def test_a_position_of_an_older_epoch_is_validated_before_it_is_fetched() -> None:
    """[testOffsetValidationAwaitsNodeApiVersion, testMaybeValidatePositionForCurrentLeader, testValidatePositionsSuccess,
    testValidatePositionsAbortIfNoApiVersionsToCheckAgainstThenRecovers, testMaybeCompleteValidation,
    testCompleteValidationShouldClearAwaitingValidation]"""
    driven = Validating(read=5, end=6)
    sent = driven.validation()
    assert driven.state is FetchState.AWAIT_VALIDATION
    assert sent.node_id == 1
    (topic,) = sent.request.topics
    assert [(p.partition, p.current_leader_epoch, p.leader_epoch) for p in topic.partitions] == [(0, 1, 0)]
    assert sent.request.replica_id == -2, "a consumer"
    assert not [e for e in driven.effects() if isinstance(e, SendFetch | SendValidation)]
    assert driven.offsets() == {}, "what was fetched from the former leader may not be there any more"
    assert not driven.ends(sent)
    assert driven.state is FetchState.FETCHING
    driven.serve(driven.sent())
    assert driven.offsets() == {T0: [5]}


def test_each_leader_is_asked_for_all_of_its_partitions() -> None:
    """[testOffsetValidationRequestGrouping]"""
    driven = Driven({T0: 0, T1: 0, U0: 0}, validates=True)
    for tp in (T0, T1, U0):
        driven.cluster.logs[tp].plain(2)
    for sent in driven.effects():
        assert isinstance(sent, SendFetch)
        driven.serve(sent)
    driven.offsets()
    for tp in (T0, T1, U0):
        driven.cluster.move(tp, driven.cluster.leaders[tp])
    driven.cluster.metadata(driven.known)
    sends = [effect for effect in driven.effects() if isinstance(effect, SendValidation)]
    assert {sent.node_id: set(sent.positions) for sent in sends} == {1: {T0, U0}, 2: {T1}}


def test_a_leader_is_asked_once() -> None:
    """[testSubscriptionPositionUpdatedWithEpoch]"""
    driven = Validating(end=6)
    driven.ends(driven.validation())
    driven.cluster.metadata(driven.known)
    driven.sent()
    driven.cluster.move(T0, 1)
    driven.cluster.metadata(driven.known)
    driven.validation()


@pytest.mark.parametrize("is_validating", [False, True])
@pytest.mark.parametrize("epoch", [-1, 1])
def test_a_seek_without_an_epoch_or_with_the_leaders_own_is_not_validated(epoch: int, is_validating: bool) -> None:
    """[testSeekUnvalidatedWithNoOffsetEpoch, testSeekUnvalidatedWithNoEpochClearsAwaitingValidation,
    testSeekValidatedShouldClearAwaitingValidation]"""
    driven = Validating(read=5, end=6)
    if is_validating:
        driven.validation()
    driven.machine.seek(T0, 2, epoch)
    assert driven.state is FetchState.FETCHING
    driven.sent()
    driven.cluster.metadata(driven.known)
    assert driven.effects() == []
    assert (driven.state, driven.machine.positions[T0].offset) == (FetchState.FETCHING, 2)


def test_a_reset_ends_a_validation() -> None:
    """[testOffsetResetWhileAwaitingValidation, testMaybeCompleteValidationAfterOffsetReset]"""
    driven = Validating(read=5, end=6)
    sent = driven.validation()
    driven.machine.seek(T0, UNKNOWN)
    assert not driven.ends(sent)
    assert (driven.machine.initializing(), driven.machine.positions[T0].offset) == ([T0], UNKNOWN)


def test_metadata_without_epochs_ends_a_validation() -> None:
    """[testSeekUnvalidatedWithOffsetEpoch, testOffsetValidationSkippedForOldResponse] Nor is a response taken that comes after
    it."""
    driven = Validating(read=5, end=3)
    sent = driven.validation()
    driven.cluster.metadata(driven.known, version=8)
    assert [type(effect) for effect in driven.effects()] == [SendFetch]
    assert driven.state is FetchState.FETCHING
    assert not driven.ends(sent)
    assert driven.machine.positions[T0].offset == 5


@pytest.mark.parametrize("epoch", [-1, 0])
def test_a_reset_beside_a_broker_that_cannot_tell(epoch: int) -> None:
    """[resetOffsetNoValidation]"""
    driven = Validating(read=6, end=6)
    driven.machine.positions[T0].state = FetchState.AWAIT_RESET
    assert driven.effects() == []
    assert driven.machine.resets_due() == [T0]
    driven.machine.seek(T0, 4, epoch)
    assert driven.machine.resets_due() == []
    if epoch >= 0:
        driven.machine.validation_unserved(driven.validation())
    driven.sent()
    driven.cluster.metadata(driven.known)
    assert driven.effects() == []


def test_a_committed_offset_of_an_older_epoch_is_validated() -> None:
    """[testRefreshOffsetWithValidation, testSeekUnvalidatedWithOffsetEpoch]"""
    driven = Validating(read=5, end=6)
    driven.machine.seek(T0, 4, 0)
    driven.validation()


@pytest.mark.parametrize("elected", [1, 2], ids=["the same broker", "another broker"])
def test_a_position_of_a_newer_epoch_has_its_leader_looked_up_first(elected: int) -> None:
    """A committed offset, or a seek (SubscriptionState.maybeValidatePositionForCurrentLeader, Metadata's
    updateLastSeenEpochIfNewer): metadata that is behind is not taken."""
    driven = Driven({T0: 0}, validates=True)
    driven.cluster.logs[T0].plain(5)
    driven.cluster.topic_ids["t"] = b"t" * 16
    driven.cluster.metadata(driven.known)
    driven.machine.seek(T0, 3, 1)
    driven.refresh()
    assert driven.effects() == [], "after a pause, since the metadata that came is older"
    driven.wait()
    driven.cluster.move(T0, elected)
    driven.refresh()
    sent = driven.sent()
    assert (sent.node_id, sent.wanted) == (elected, {T0: (3, 1)})


def test_a_position_of_an_older_epoch_than_a_response_named_waits_for_the_leader() -> None:
    """Another offset of the partition named a newer epoch: the position is validated once the leader is known."""
    driven = Driven({T0: 0}, validates=True)
    driven.cluster.logs[T0].plain(5)
    driven.machine.seek(T0, 3, 0)
    driven.known.epochs_seen({T0: (9, 1, ""), T1: (9, -1, "")})
    driven.cluster.move(T0, 2)
    driven.refresh()
    (sent,) = driven.effects()
    assert isinstance(sent, SendValidation)
    assert (sent.node_id, driven.known.leader(*T1)) == (2, 2)


def test_a_cut_log_is_read_again_from_where_the_logs_agree() -> None:
    """[testTruncationDetected, testTruncationDetectionWithResetPolicy]"""
    driven = Validating(read=5, end=3)
    assert driven.ends(driven.validation())
    cut, fetch = driven.effects()
    assert cut == LogTruncated(T0, 5, 3, 0)
    assert isinstance(fetch, SendFetch)
    assert fetch.wanted == {T0: (3, 1)}
    assert driven.machine.positions[T0].offset == 3


def test_without_a_policy_the_cut_is_reported_with_every_poll() -> None:
    """[testOffsetValidationTriggerLogTruncationForBadOffsetWithUndefinedResetPolicy,
    testTruncationDetectionWithoutResetPolicy]"""
    driven = Validating(read=5, end=3, has_reset_policy=False)
    for _ in range(2):
        assert driven.ends(driven.validation())
        assert driven.effects() == [LogTruncated(T0, 5, 3, 0)]
        assert driven.effects() == []
        driven.machine.polled()
    driven.machine.seek(T0, 3)
    assert [type(effect) for effect in driven.effects()] == [SendFetch]


@pytest.mark.parametrize("end", [(-1, -1), (-1, 0), (2, -1)])
@pytest.mark.parametrize("has_policy", [True, False])
def test_a_leader_that_has_nothing_of_the_epoch(has_policy: bool, end: tuple[int, int]) -> None:
    """[testTruncationDetectionUnknownDivergentOffsetWithResetPolicy,
    testTruncationDetectionUnknownDivergentOffsetWithoutResetPolicy,
    testOffsetValidationresetPositionForUndefinedEpochWithDefinedResetPolicy,
    testOffsetValidationresetPositionForUndefinedOffsetWithDefinedResetPolicy,
    testOffsetValidationresetPositionForUndefinedEpochWithUndefinedResetPolicy,
    testOffsetValidationresetPositionForUndefinedOffsetWithUndefinedResetPolicy]"""
    driven = Validating(has_reset_policy=has_policy)
    sent = driven.validation()
    response = driven.cluster.epoch_ends(sent.node_id, sent.request)
    result = response.topics[0].partitions[0]
    result.leader_epoch, result.end_offset = end
    assert driven.machine.validated(sent, response, 0.0, 0.0)
    assert driven.effects() == [LogTruncated(T0, 5, -1, -1)]
    assert driven.machine.resets_due() == ([T0] if has_policy else [])
    assert driven.state is (FetchState.AWAIT_RESET if has_policy else FetchState.AWAIT_VALIDATION)


def test_a_response_to_an_older_position_is_dropped() -> None:
    """[testOffsetValidationHandlesSeekWithInflightOffsetForLeaderRequest, testMaybeCompleteValidationAfterPositionChange]"""
    driven = Validating(read=5, end=3)
    sent = driven.validation()
    driven.machine.seek(T0, 1)
    assert not driven.ends(sent)
    assert driven.machine.positions[T0].offset == 1


def test_a_response_of_a_leader_that_has_been_replaced_is_dropped() -> None:
    """[testOffsetValidationFencing]"""
    driven = Validating(read=5, end=6)
    sent = driven.validation()
    response = driven.cluster.epoch_ends(sent.node_id, sent.request)
    driven.cluster.unclean_election(T0, 1, 3)
    driven.cluster.metadata(driven.known)
    assert not driven.machine.validated(sent, response, 0.0, 0.0)
    assert driven.ends(driven.validation())
    assert driven.machine.positions[T0].offset == 3


@pytest.mark.parametrize(
    "code", [E.NOT_LEADER_OR_FOLLOWER, E.FENCED_LEADER_EPOCH, E.UNKNOWN_LEADER_EPOCH, E.UNKNOWN_SERVER_ERROR]
)
def test_an_error_that_passes_is_retried_with_new_metadata(code: ErrorCode) -> None:
    """[testOffsetValidationFencing]"""
    driven = Validating(read=5, end=3)
    driven.cluster.errors[T0].append(code)
    assert not driven.ends(driven.validation())
    driven.wait()
    assert driven.now_ms == 100
    driven.refresh()
    driven.ends(driven.validation())
    assert driven.machine.positions[T0].offset == 3


def test_an_error_that_lasts_is_reported_once_a_poll() -> None:
    """[testValidatePositionsFailureWithUnrecoverableAuthException]"""
    driven = Validating()
    driven.cluster.errors[T0].append(E.TOPIC_AUTHORIZATION_FAILED)
    assert driven.ends(driven.validation())
    assert driven.effects() == [PartitionFailed(T0, E.TOPIC_AUTHORIZATION_FAILED)]
    assert driven.effects() == []
    driven.machine.polled()
    driven.validation()


def test_without_a_leader_nothing_is_validated() -> None:
    """[testValidatePositionsMissingLeader]"""
    driven = Validating(read=5, end=6)
    driven.cluster.move(T0, NO_LEADER)
    driven.cluster.metadata(driven.known)
    (refresh,) = driven.effects()
    assert refresh == RefreshMetadata(frozenset("t"))
    driven.cluster.move(T0, 2)
    driven.cluster.metadata(driven.known)
    driven.machine.metadata_refreshed(refresh, driven.now_ms, 0.0)
    assert driven.validation().node_id == 2


def test_a_lost_connection_is_retried() -> None:
    driven = Validating()
    driven.machine.validation_failed(driven.validation(), E.NETWORK_EXCEPTION, 0.0, 0.0)
    driven.wait()
    (refresh,) = driven.effects()
    assert isinstance(refresh, RefreshMetadata)


def test_a_broker_that_cannot_tell_is_fetched_from() -> None:
    """[testOffsetValidationSkippedForOldBroker]"""
    driven = Validating(read=5, end=6)
    driven.machine.validation_unserved(driven.validation())
    driven.serve(driven.sent())
    assert driven.offsets() == {T0: [5]}
    driven.cluster.metadata(driven.known)
    driven.sent()


def test_a_fenced_fetch_ends_in_a_validation() -> None:
    """[testFetchFencedLeaderEpoch] The client learns of the election by it."""
    driven = Driven({T0: 0}, validates=True)
    driven.cluster.logs[T0].plain(3)
    driven.serve(driven.sent())
    driven.offsets()
    driven.cluster.unclean_election(T0, 1, 0)
    driven.serve(driven.sent())
    driven.wait()
    driven.refresh()
    assert [type(effect) for effect in driven.effects()] == [SendValidation]


def test_a_fetch_in_flight_to_the_former_leader_is_dropped() -> None:
    """Its records may be cut off."""
    driven = Validating(read=3, end=3)
    driven.cluster.logs[T0].plain(1)
    assert driven.machine.positions[T0].fetch_offset == 6
    sent = driven.validation()
    assert driven.machine.positions[T0].fetch_offset == 3
    driven.ends(sent)
    driven.serve(driven.sent())
    (record,) = driven.machine.take(10)[T0]
    assert (record.offset, record.value) == (3, b"3 of 1")


def test_a_paused_partition_is_validated_too() -> None:
    driven = Validating()
    driven.machine.positions[T0].paused = True
    driven.validation()


def test_where_it_is_switched_off_nothing_is_validated() -> None:
    driven = Driven({T0: 0})
    driven.cluster.logs[T0].plain(3)
    driven.serve(driven.sent())
    driven.offsets()
    driven.cluster.move(T0, 1)
    driven.cluster.metadata(driven.known)
    driven.sent()


def test_older_records_of_the_current_leader_need_no_validation() -> None:
    driven = Validating(read=5, end=6)
    driven.machine.seek(T0, 0)
    driven.serve(driven.sent())
    driven.offsets(1)
    driven.cluster.metadata(driven.known)
    assert driven.machine.positions[T0].offset_epoch == 0
    driven.sent()


def test_records_of_the_former_leader_that_come_after_the_election_are_dropped() -> None:
    """The position has no epoch yet, so that no validation would find out."""
    driven = Driven({T0: 0}, validates=True)
    driven.cluster.logs[T0].plain(3)
    sent = driven.sent()
    response, _ = driven.cluster.fetch(sent.node_id, sent.request)
    driven.cluster.unclean_election(T0, 2, 0)
    driven.cluster.logs[T0].plain(1)
    driven.cluster.metadata(driven.known)
    assert not driven.machine.responded(sent, response, 0.0, 0.0)
    driven.serve(driven.sent())
    ((record,),) = driven.machine.take(10).values()
    assert record.value == b"0 of 1"


def test_records_that_were_fetched_and_not_polled_before_the_election_are_fetched_again() -> None:
    driven = Driven({T0: 0}, validates=True)
    driven.cluster.logs[T0].plain(3)
    driven.serve(driven.sent())
    driven.cluster.unclean_election(T0, 1, 0)
    driven.cluster.logs[T0].plain(1)
    driven.cluster.metadata(driven.known)
    (sent,) = driven.effects()
    assert isinstance(sent, SendValidation)
    driven.machine.validated(sent, driven.cluster.epoch_ends(1, sent.request), 0.0, 0.0)
    driven.serve(driven.sent())
    ((record,),) = driven.machine.take(10).values()
    assert record.value == b"0 of 1"
