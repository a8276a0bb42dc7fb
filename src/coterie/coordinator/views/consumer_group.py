"""A group of the consumer protocol as others see it: why it stands where it stands (who has not released what, for how long,
and until when), and ConsumerGroupDescribe (KIP-848) with its epochs, and of each member what it has and is to have.

A pure look at the state. Times in ms; the explanation has the fields of `classic_group`, and the epochs beside them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from coterie.coordinator.consumer.image import TopicsImage
from coterie.coordinator.consumer.state import (
    LEAVE_GROUP_STATIC_EPOCH,
    ConsumerGroup,
    ConsumerGroupState,
    ConsumerMember,
    ConsumerMemberState,
    TopicId,
    TopicIdPartition,
)
from coterie.coordinator.consumer.stored import partitions_by_topic
from coterie.coordinator.consumer.target import NO_PARTITIONS, assignor_wishes, preferred_assignor, time_to_target_ms
from coterie.coordinator.outcome import CoordinatorConfig
from coterie.coordinator.state import GroupOffsets
from coterie.coordinator.views.classic_group import empty_group
from coterie.coordinator.views.modern_explanation import (
    awaited_member,
    awaited_of_holders,
    computes_target,
    explained,
    freed,
    member_session,
    next_timeout,
    owed_release,
    reconciling,
    seconds,
)
from coterie.text.phrase import Phrase, phrase_fields, read_phrase
from coterie.wire.errors import ErrorCode, short_text
from coterie.wire.messages.groups.consumer_group_describe import Assignment, DescribedGroup, Member, TopicPartitions

CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1  # member types (KIP-1099)


def explain_consumer_group(
    group: ConsumerGroup, now_ms: int, config: CoordinatorConfig, topics: TopicsImage
) -> dict[str, Any]:
    """The group as JSON-ready values; ``generation`` is the group epoch."""
    names = _Names(topics)
    waiting_for = [w for m in group.members.values() if (w := _waits(group, m, now_ms, names)) is not None]
    assignors = list(config.consumer_group_assignors)
    protocol = preferred_assignor(assignor_wishes(group.members.values()), assignors) if assignors else None
    return explained(group, now_ms, "consumer", protocol, waiting_for) | {
        "next_timeout": next_timeout(group, now_ms, lambda member_id: _freed(group, member_id)),
        **phrase_fields("verdict", _verdict(group, waiting_for, now_ms, config)),
        "members": [_member(group, m, now_ms, config, names) for m in group.members.values()],
    }


class _Names:
    """Partitions in words; a topic that is gone by the hexadecimal digits of its id."""

    def __init__(self, topics: TopicsImage) -> None:
        self._names = {image.topic_id: image.name for image in topics.topics.values()}

    def all(self, partitions: Iterable[TopicIdPartition]) -> list[str]:
        return sorted(f"{self._names.get(topic, topic.hex())}-{number}" for topic, number in partitions)


def _waits(group: ConsumerGroup, member: ConsumerMember, now_ms: int, names: _Names) -> dict[str, Any] | None:
    """What keeps a member from its target; None for one that has it."""
    current = member.current
    if current.member_epoch == LEAVE_GROUP_STATIC_EPOCH:
        owes = Phrase("is_away", {})
    elif current.state == ConsumerMemberState.UNREVOKED_PARTITIONS:
        owes = owed_release(names.all(current.pending_revocation), _revoking_since_ms(group, member), now_ms)
    elif current.state == ConsumerMemberState.UNRELEASED_PARTITIONS:
        missing = group.target.get(member.member_id, NO_PARTITIONS).difference(current.assigned)
        owners = sorted({group.owners[p] for p in missing if p in group.owners})
        owes = awaited_of_holders(names.all(missing), owners) if owners else Phrase("gets_partitions", {})
    elif current.is_reconciled_to(group.assignment_epoch):
        return None
    else:
        owes = Phrase("owes_heartbeat", {"epoch": group.assignment_epoch})
    return awaited_member(member.member_id, member.subscription.client_id, owes)


def _revoking_since_ms(group: ConsumerGroup, member: ConsumerMember) -> int | None:
    ends_ms = group.timers[member.member_id].rebalance_ms
    return None if ends_ms is None else ends_ms - member.subscription.rebalance_timeout_ms


def _freed(group: ConsumerGroup, member_id: str) -> Phrase:
    current = group.members[member_id].current
    return freed("then_partitions_freed", len(current.assigned) + len(current.pending_revocation))


def _verdict(group: ConsumerGroup, waiting_for: list[dict[str, Any]], now_ms: int, config: CoordinatorConfig) -> Phrase:
    """One sentence for a person."""
    match group.phase:
        case ConsumerGroupState.STABLE:
            return Phrase("stable_epoch", {"members": len(group.members), "epoch": group.assignment_epoch})
        case ConsumerGroupState.ASSIGNING:
            interval_ms = config.group_consumer_assignment_interval_ms
            left_ms = time_to_target_ms(group.assignment_timestamp_ms, interval_ms, now_ms)
            return computes_target(group.group_epoch, left_ms, "group.consumer.assignment.interval.ms")
        case ConsumerGroupState.RECONCILING:
            # The members that hold partitions up come first: the others wait for them.
            revoking = [w for w in waiting_for if group.timers[w["member_id"]].rebalance_ms is not None]
            return reconciling([_late(group, awaited, now_ms) for awaited in revoking or waiting_for])
    return empty_group(group.offsets)


def _late(group: ConsumerGroup, awaited: dict[str, Any], now_ms: int) -> Phrase:
    ends_ms = group.timers[awaited["member_id"]].rebalance_ms
    values = {"member": awaited["member_id"], "owes": read_phrase(awaited["owes_phrase"])}
    if ends_ms is None:
        return Phrase("late", values)
    return Phrase("late_until", values | {"seconds": seconds(ends_ms - now_ms)})


def _member(
    group: ConsumerGroup, member: ConsumerMember, now_ms: int, config: CoordinatorConfig, names: _Names
) -> dict[str, Any]:
    subscription, current, timers = member.subscription, member.current, group.timers[member.member_id]
    session_ms = session_timeout_ms(member, config)
    return {
        "member_id": member.member_id,
        "group_instance_id": subscription.instance_id,
        "client_id": subscription.client_id,
        "assignors": [subscription.server_assignor] if subscription.server_assignor is not None else [],
        "host": subscription.client_host,
        **member_session(timers.session_ms, session_ms, now_ms),
        "heartbeat_interval_ms": None if subscription.classic else config.group_consumer_heartbeat_interval_ms,
        "rebalance_timeout_ms": subscription.rebalance_timeout_ms,
        "member_epoch": current.member_epoch,
        "state": current.state.name,
        "assigned": names.all(current.assigned),
        "revokes": names.all(current.pending_revocation),
        "target": names.all(group.target.get(member.member_id, NO_PARTITIONS)),
    }


def session_timeout_ms(member: ConsumerMember, config: CoordinatorConfig) -> int:
    """The broker's setting; of a member that uses the classic protocol its own."""
    classic = member.subscription.classic
    return config.group_consumer_session_timeout_ms if classic is None else classic.session_timeout_ms


def describe_consumer_group(
    group: GroupOffsets | None, group_id: str, topics: TopicsImage, assignors: Iterable[str]
) -> DescribedGroup:
    """GROUP_ID_NOT_FOUND where there is none, or one of the classic protocol. Topics that are deleted are left out.
    ``assignors`` are the broker's, the default one first; members may request others, where an earlier broker had them."""
    if not isinstance(group, ConsumerGroup):
        missing = f"Group {group_id} not found." if group is None else f"Group {group_id} is not a consumer group."
        return DescribedGroup(ErrorCode.GROUP_ID_NOT_FOUND, short_text(missing), group_id)
    names = {image.topic_id: image.name for image in topics.topics.values()}
    wishes = assignor_wishes(group.members.values())
    return DescribedGroup(
        ErrorCode.NONE,
        None,
        group_id,
        group_state=group.phase.value,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=preferred_assignor(wishes, list(dict.fromkeys([*assignors, *filter(None, wishes)]))),
        members=[_member_described(group, member, names) for member in group.members.values()],
    )


def _member_described(group: ConsumerGroup, member: ConsumerMember, names: Mapping[TopicId, str]) -> Member:
    subscription, current = member.subscription, member.current
    return Member(
        member.member_id,
        subscription.instance_id,
        subscription.rack_id,
        current.member_epoch,
        client_id=subscription.client_id,
        client_host=subscription.client_host,
        subscribed_topic_names=sorted(subscription.topic_names),
        subscribed_topic_regex=subscription.topic_regex,
        # The member owns what it is to revoke until it has revoked it.
        assignment=_assignment((*current.assigned, *current.pending_revocation), names),
        target_assignment=_assignment(group.target.get(member.member_id, NO_PARTITIONS), names),
        member_type=CONSUMER_MEMBER if subscription.classic is None else CLASSIC_MEMBER,
    )


def _assignment(partitions: Iterable[TopicIdPartition], names: Mapping[TopicId, str]) -> Assignment:
    grouped = partitions_by_topic(partitions)
    return Assignment([TopicPartitions(topic, names[topic], numbers) for topic, numbers in grouped if topic in names])
