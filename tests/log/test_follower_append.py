"""A follower's appends where the leader's log starts within a batch, which DeleteRecords brings about."""

from __future__ import annotations

import pytest

from coterie.log.config import LogConfig
from coterie.log.filesystem import MemoryFileSystem
from coterie.log.follower_log import append_as_follower, start_anew_at
from coterie.log.partition_log import PartitionLog
from coterie.log.retention import advance_start_offset
from coterie.records.batch import stamp
from coterie.records.encoding import encode_batch
from coterie.replication.follower import Follower
from coterie.replication.leader import Leader
from coterie.replication.states import EpochLookup, PartitionState, ReplicaFetch, ReplicaRefusal, ReplicationConfig
from coterie.replication.stored_log import StoredReplicaLog
from coterie.wire.errors import ErrorCode, Refusal

NOW = 1_700_000_000_000


def batch(base_offset: int, count: int) -> bytes:
    data = bytearray(encode_batch([(NOW, b"k", b"v", ())] * count))
    stamp(data, 0, base_offset, 0)
    return bytes(data)


def opened() -> PartitionLog:
    return PartitionLog.open(MemoryFileSystem(), "t-0", LogConfig(), clean=True, high_watermark=0)


BELOW_START = [  # base offset and count of a batch, whether it is refused, and where the log starts and ends then
    (3, 1, True, (5, 5)),
    (4, 3, False, (4, 7)),  # an empty log may begin earlier, with the batch that holds its start
    (7, 1, False, (4, 8)),
    (3, 2, True, (4, 8)),
    (8, 1, False, (4, 9)),
]


def test_batches_below_the_start_of_a_followers_log() -> None:
    """testAppendRecordsAsFollowerBelowLogStartOffset"""
    log = opened()
    start_anew_at(log, 5)
    for base_offset, count, is_refused, (start_offset, end_offset) in BELOW_START:
        if is_refused:
            with pytest.raises(Refusal) as refused:
                append_as_follower(log, batch(base_offset, count), NOW)
            assert refused.value.code == ErrorCode.CORRUPT_MESSAGE
        else:
            append_as_follower(log, batch(base_offset, count), NOW)
        assert (log.log_start_offset, log.end_offset) == (start_offset, end_offset)
    assert len(log.read(4, 10_000)) == len(batch(4, 3) + batch(7, 1) + batch(8, 1))


def test_a_new_follower_of_a_log_that_starts_within_a_batch() -> None:
    """It takes the whole batch, and its log starts where the leader's does."""
    state, config = PartitionState(1, 0, (1,), 1, 0, (1, 2)), ReplicationConfig()
    leaders = StoredReplicaLog(opened(), 0, lambda: NOW)
    append_as_follower(leaders.log, batch(0, 4) + batch(4, 3), NOW)
    leader = Leader(1, ("t", 0), leaders, config, state, 0, NOW)
    leader.begin(NOW)
    advance_start_offset(leaders.log, 5)
    log = StoredReplicaLog(opened(), 0, lambda: NOW)
    follower = Follower(2, log, config, state, 0)
    while log.end_offset < 7:
        request = follower.next_request(NOW)
        assert request is not None
        assert not isinstance(request, EpochLookup)
        try:
            result, _ = leader.fetch(request, NOW)
            follower.fetched(request, result)
        except ReplicaRefusal:
            follower.out_of_range(request, leaders.start_offset, leaders.end_offset)
    assert (log.start_offset, log.end_offset, follower.high_watermark) == (5, 7, 7)
    assert log.read(5, 7) == leaders.read(5, 7)


def test_a_follower_with_other_records_of_which_the_leader_has_deleted_its_own() -> None:
    """An unclean election left it with a batch that ends where the leader's log starts, within one of the leader's. It fetched
    that batch again and again, and never came back into the ISR (as in Kafka, which stops the replica's fetcher)."""
    state, config = PartitionState(1, 6, (1,), 6, 0, (1, 2)), ReplicationConfig()
    leaders = StoredReplicaLog(opened(), 0, lambda: NOW)
    log = StoredReplicaLog(opened(), 0, lambda: NOW)
    append_as_follower(leaders.log, batch(0, 4) + batch(4, 3), NOW)
    append_as_follower(log.log, batch(0, 3) + batch(3, 2), NOW)
    leader = Leader(1, ("t", 0), leaders, config, state, 0, NOW)
    leader.begin(NOW)
    advance_start_offset(leaders.log, 5)
    follower = Follower(2, log, config, state, 0)
    follower.truncates = False  # the leader has no epoch before its start any more
    request = follower.next_request(NOW)
    assert isinstance(request, ReplicaFetch)
    follower.fetched(request, leader.fetch(request, NOW)[0])
    assert (log.start_offset, log.end_offset, follower.high_watermark) == (5, 7, 7)
    assert log.read(5, 7) == leaders.read(5, 7)
