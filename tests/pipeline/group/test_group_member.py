"""The member of a group that a Spark stream is, beside a broker whose responses are in the test's hands."""

from __future__ import annotations

import pytest

from coterie.member.effects import TopicPartition
from coterie.pipeline.options.options import source_options
from coterie.pipeline.streaming.group_member import GroupMember
from coterie.testing import ErrorCode, LocalBroker

T0 = ("t", 0)


def beginning(partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
    return dict.fromkeys(partitions, 0)


@pytest.mark.parametrize("code", [ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])
def test_what_was_processed_is_committed_though_the_epoch_changes(coterie_broker: LocalBroker, code: ErrorCode) -> None:
    """A consumer's own commit would end with a stale epoch, and its next owner would read the batch again."""
    coterie_broker.create_topic("t")
    coterie_broker.produce("t", b"a", b"b")
    options = {
        "kafka.bootstrap.servers": coterie_broker.bootstrap_servers,
        "kafka.group.id": "g",
        "kafka.group.protocol": "consumer",
        "subscribe": "t",
        "mode": "group",
    }
    member = GroupMember(source_options(options, streaming=True).settings(), beginning)
    member.join(["t"], None)
    try:
        assert member.settle({}, 20)
        assert coterie_broker.committed("g") == {T0: 0}, "where it starts"
        member.positions[T0] = 2
        coterie_broker.fail("OffsetCommit", code, times=2)
        assert member.settle({T0: 2}, 20)
        assert coterie_broker.committed("g") == {T0: 2}
        assert coterie_broker.requested("OffsetCommit") == 1 + 3
    finally:
        member.leave("the test ends")
