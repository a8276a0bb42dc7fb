"""What the records of a log make of a share group; names are those of Kafka's GroupMetadataManagerTest."""

from __future__ import annotations

from coterie.coordinator.share import events as s
from coterie.coordinator.share.replay import replay_share
from coterie.coordinator.share.state import ShareGroup


def test_the_tombstone_of_a_target_assignment() -> None:
    """testReplayShareGroupTargetAssignmentMetadataTombstoneExisting: the next target is due at once, whatever the interval"""
    group = ShareGroup("foo")
    replay_share(group, s.ShareTargetEpochStored(10, 12345), 0)
    assert (group.assignment_epoch, group.assignment_timestamp_ms) == (10, 12345)
    replay_share(group, s.ShareTargetEpochRemoved(), 0)
    assert (group.assignment_epoch, group.assignment_timestamp_ms) == (-1, 0)
