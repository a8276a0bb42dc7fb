"""Which commits and fetches of offsets a group of the consumer protocol takes (Kafka's ConsumerGroup.validateOffsetCommit)."""

from __future__ import annotations

from collections.abc import Callable

from coterie.coordinator.consumer.member_checks import known_member
from coterie.coordinator.consumer.state import ConsumerGroup, ConsumerMember
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
