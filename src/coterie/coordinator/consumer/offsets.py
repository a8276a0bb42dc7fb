"""The offsets of a group of the consumer protocol: which commits and fetches it takes (Kafka's
ConsumerGroup.validateOffsetCommit), which offsets go while it lives, and its end."""

from __future__ import annotations

from collections.abc import Callable

from coterie.coordinator import events as e
from coterie.coordinator.consumer import events as c
from coterie.coordinator.consumer.member_checks import known_member
from coterie.coordinator.consumer.state import ConsumerGroup, ConsumerMember
from coterie.coordinator.consumer.target import subscribed_with
from coterie.coordinator.outcome import CoordinatorConfig, Outcome
from coterie.coordinator.state import Cause, GroupOffsets
from coterie.coordinator.streams.state import StreamsGroup
from coterie.wire.errors import ErrorCode, Refusal

MEMBER_EPOCH_FROM = 9  # the version of OffsetCommit whose generation may be a member epoch
TXN_MEMBER_EPOCH_FROM = (
    6  # the version of TxnOffsetCommit that knows the errors of groups and of member epochs (KIP-1319)
)
PartitionCheck = Callable[[str, bytes, int], None]  # of a topic, its id and a partition; raises Refusal


def any_partition(topic: str, topic_id: bytes, partition: int) -> None:
    """Accepts every partition."""


def check_commit(
    group: ConsumerGroup,
    member_id: str,
    instance_id: str | None,
    epoch: int,
    api_version: int,
    *,
    transactional: bool = False,
) -> PartitionCheck:
    """The check of each partition. A member's own epoch commits any; an older one only a partition that it has had since then
    or before (KIP-1251). Raises Refusal where the sender may commit nothing."""
    if epoch < 0 and not group.members:
        return any_partition
    if transactional and epoch < 0 and not member_id and instance_id is None:
        return any_partition
    member = known_member(group, member_id)
    if not transactional and member.subscription.classic is None and api_version < MEMBER_EPOCH_FROM:
        text = "OffsetCommit version 9 or above must be used by members using the consumer group protocol"
        raise Refusal(ErrorCode.UNSUPPORTED_VERSION, text)
    if epoch == member.current.member_epoch:
        return any_partition
    stale = _stale(member, transactional and api_version < TXN_MEMBER_EPOCH_FROM)
    if epoch > member.current.member_epoch:
        raise Refusal(stale)

    def since_assignment(topic: str, topic_id: bytes, partition: int) -> None:
        assigned_epoch = member.current.assignment_epoch((topic_id, partition))
        if assigned_epoch is None or epoch < assigned_epoch:
            raise Refusal(stale)

    return since_assignment


def check_fetch(group: ConsumerGroup | StreamsGroup, member_id: str | None, epoch: int) -> None:
    """OffsetFetch v9 of a member must have its epoch; others give none. Raises Refusal."""
    if member_id is None and epoch < 0:
        return
    if isinstance(group, StreamsGroup):
        if epoch != known_member(group, member_id or "").current.member_epoch:
            raise Refusal(ErrorCode.STALE_MEMBER_EPOCH)
        return
    member = known_member(group, member_id or "")
    if epoch != member.current.member_epoch:
        raise Refusal(_stale(member))


def _stale(member: ConsumerMember, of_generations: bool = False) -> ErrorCode:
    """A member of the classic protocol knows generations only, and so does ``of_generations`` an older request."""
    of_generations = of_generations or member.subscription.classic is not None
    return ErrorCode.ILLEGAL_GENERATION if of_generations else ErrorCode.STALE_MEMBER_EPOCH


def subscribed_topics_of(group: ConsumerGroup) -> frozenset[str]:
    """The topics that some member subscribes to, regular expressions resolved."""
    return frozenset(subscribed_with(group, (), None, group.regexes))


def tombstones(group: ConsumerGroup, cause: Cause) -> list[e.Event]:
    """All that removes the records of a group without members; the group's own tombstone is the last."""
    events: list[e.Event] = [c.TargetEpochRemoved()]
    events += [c.RegexRemoved(regex) for regex in group.regexes]
    return [*events, c.PartitionMetadataRemoved(), c.GroupEpochRemoved(cause)]


def decide_delete_consumer_group(group: ConsumerGroup, exists: bool) -> Outcome:
    """DeleteGroups: a group without members goes with its offsets. Raises Refusal."""
    check_deletable(exists and not group.is_dead, bool(group.members))
    return Outcome([*offset_tombstones(group), *tombstones(group, Cause("deleted"))], divisible=True)


def check_deletable(exists: bool, has_members: bool) -> None:
    """Raises Refusal GROUP_ID_NOT_FOUND or NON_EMPTY_GROUP."""
    if not exists:
        raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND)
    if has_members:
        raise Refusal(ErrorCode.NON_EMPTY_GROUP)


def offset_tombstones(group: GroupOffsets) -> list[e.Event]:
    """The removal of every offset, pending ones too."""
    pending = (tp for offsets in group.pending_offsets.values() for tp in offsets)
    return [e.OffsetRemoved(t, p) for t, p in dict.fromkeys([*group.offsets, *pending])]


def decide_expire_consumer_offsets(group: ConsumerGroup, now_ms: int, config: CoordinatorConfig) -> Outcome:
    """Offsets of topics without a subscriber go when they are old, and with the last one an empty group."""
    gone = expired_offsets(group, subscribed_topics_of(group), now_ms, config)
    outcome = Outcome([*gone], divisible=True)
    if not group.members and len(gone) == len(group.offsets) and not group.pending_offsets:
        outcome.events += tombstones(group, Cause("expired"))
    return outcome


def expired_offsets(
    group: GroupOffsets, subscribed: frozenset[str], now_ms: int, config: CoordinatorConfig
) -> list[e.OffsetRemoved]:
    """The removal of the offsets of topics without a subscriber that are past their retention."""
    return [
        e.OffsetRemoved(topic, partition)
        for (topic, partition), committed in group.offsets.items()
        if topic not in subscribed
        and not group.has_pending_offset((topic, partition))
        and now_ms >= _expires_ms(committed.commit_timestamp_ms, committed.expire_timestamp_ms, config)
    ]


def _expires_ms(committed_ms: int, expire_ms: int, config: CoordinatorConfig) -> int:
    return expire_ms if expire_ms >= 0 else committed_ms + config.offsets_retention_ms
