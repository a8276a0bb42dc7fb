"""A group with members changes its protocol while it lives (KIP-848): up with the first member of the consumer protocol, down
with the departure of the last. Offsets stay; who owns what stays.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import replace

from coterie.assignors.assignor import Subscriber
from coterie.assignors.blobs import decode_subscription, encode_assignment
from coterie.coordinator import events as e
from coterie.coordinator.classic.sync import group_stored, sync_refused
from coterie.coordinator.consumer import events as c
from coterie.coordinator.consumer.image import TopicsImage
from coterie.coordinator.consumer.offsets import tombstones
from coterie.coordinator.consumer.state import (
    ClassicMetadata,
    ConsumerGroup,
    ConsumerMember,
    ConsumerMemberState,
    ConsumerSubscription,
    CurrentAssignment,
    TopicIdPartition,
)
from coterie.coordinator.consumer.target import target_of
from coterie.coordinator.outcome import CoordinatorConfig, Outcome, Reply
from coterie.coordinator.state import CONSUMER, Cause, Group, Member, count_protocols
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.groups.join_group import JoinGroupResponse
from coterie.wire.messages.stored.consumer_protocol import ConsumerProtocolAssignment
from coterie.wire.primitives import WireError

NEWEST_BLOB_VERSION = 3
CUSTOM_ASSIGNOR = (  # Kafka's words: tools show them
    "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default assignor before "
    "re-attempting the upgrade."
)
SHARED_PARTITION = (
    "a custom assignor is in use that assigns a partition to several members; switch to a default assignor."
)
COMPUTED_AT_ONCE_MS = 0  # the time of a target assignment that lets the next one be computed at once


def upgrade(group: Group, config: CoordinatorConfig, topics: TopicsImage, now_ms: int) -> Outcome:
    """The group's members as members of the classic protocol within a group of the consumer protocol: each in the generation as
    its epoch, with its assignment as target, and STABLE unless it has partitions to give up. Raises Refusal GROUP_ID_NOT_FOUND
    where it may not be."""
    protocol = _checked_protocol(group, config)
    try:
        members = [_upgraded(group, member, protocol, topics) for member in group.members.values()]
        members = _with_given_up(group, members, protocol, topics)
    except WireError:
        raise _refused(group, "the embedded consumer protocol is malformed.") from None
    if not _owners_differ(members):
        raise _refused(group, SHARED_PARTITION)
    names = {name for m in members for name in m.subscription.topic_names}
    events: list[e.Event] = [e.GroupRemoved(Cause("upgraded"))]
    events += [c.SubscriptionStored(m.member_id, m.subscription) for m in members]
    events.append(c.GroupEpochStored(group.generation, topics.metadata_hash(names), Cause("upgraded")))
    events += [c.TargetStored(m.member_id, frozenset(m.current.assigned)) for m in members]
    events.append(c.TargetEpochStored(group.generation, COMPUTED_AT_ONCE_MS))
    events += [c.CurrentStored(m.member_id, m.current) for m in members]
    # Waiting members join again, now in the group of the other kind.
    rejoin = ErrorCode.REBALANCE_IN_PROGRESS
    replies = [
        Reply(token, JoinGroupResponse(error_code=rejoin, member_id=member_id))
        for member_id, token in group.waiting_joins.items()
    ]
    replies += [Reply(token, sync_refused(rejoin)) for token in group.waiting_syncs.values()]
    sessions = [(m.member_id, now_ms + m.session_timeout_ms) for m in group.members.values()]
    return Outcome(events, replies, sessions)


def _refused(group: Group, why: str) -> Refusal:
    text = f"Cannot upgrade classic group {group.group_id} to consumer group because {why}"
    return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, text)


def _owners_differ(members: Iterable[ConsumerMember]) -> bool:
    """Whether no partition is assigned to two members."""
    partitions = [partition for m in members for partition in m.current.assigned]
    return len(partitions) == len(set(partitions))


def _checked_protocol(group: Group, config: CoordinatorConfig) -> str:
    """The protocol whose subscriptions count: that of the generation, or, where a member that waits for the next one has left
    it out, the one of the next generation. Raises Refusal."""
    if not config.consumer_group_migration_policy.upgrades:
        raise _refused(group, "online upgrade is disabled.")
    if group.protocol_type != CONSUMER or group.protocol is None:
        raise _refused(group, "the group does not use the consumer embedded protocol.")
    if len(group.members) > config.group_consumer_max_size:
        raise _refused(group, "the group size exceeds the consumer group maximum size.")
    if not group.members or group.protocol in group.candidate_protocols():
        return group.protocol
    return group.select_protocol()


def _upgraded(group: Group, member: Member, protocol: str, topics: TopicsImage) -> ConsumerMember:
    assigned: dict[TopicIdPartition, int] = {}
    if member.assignment:
        version = min(int.from_bytes(member.assignment[:2], "big"), NEWEST_BLOB_VERSION)
        blob = ConsumerProtocolAssignment.decode(member.assignment, version, 2)
        if blob.user_data:
            raise _refused(group, CUSTOM_ASSIGNOR)
        for topic in blob.assigned_partitions:
            if topic.topic in topics.topics:
                topic_id = topics.topics[topic.topic].topic_id
                assigned |= dict.fromkeys(((topic_id, p) for p in topic.partitions), group.generation)
    subscriber = decode_subscription(member.metadata(protocol))
    subscription = ConsumerSubscription(
        subscriber.topics,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        instance_id=member.group_instance_id,
        rack_id=subscriber.rack,
        client_id=member.client_id,
        client_host=member.client_host,
        classic=ClassicMetadata(member.session_timeout_ms, member.protocols),
    )
    current = CurrentAssignment(group.generation, group.generation, assigned=assigned)
    return ConsumerMember(member.member_id, subscription, current)


def _with_given_up(
    group: Group, members: list[ConsumerMember], protocol: str, topics: TopicsImage
) -> list[ConsumerMember]:
    """The members, and with each the partitions that it named as its own when it joined and that no assignment has: it still
    uses them until it joins without them (KIP-429), and nobody may get them before. Apache Kafka 4.3 gives them away at once.
    Where several members named one, the latest generation counts."""
    assigned = {partition for m in members for partition in m.current.assigned}
    subscribers = [decode_subscription(m.metadata(protocol), m.member_id) for m in group.members.values()]
    users: dict[TopicIdPartition, str] = {}
    for subscriber in sorted(subscribers, key=lambda s: s.generation):
        users |= dict.fromkeys(owned_partitions(subscriber, topics) - assigned, subscriber.member_id)
    given_up: dict[str, list[TopicIdPartition]] = {}
    for partition in sorted(users):  # the order of the records' bytes
        given_up.setdefault(users[partition], []).append(partition)
    return [_giving_up(m, given_up.get(m.member_id, [])) for m in members]


def _giving_up(member: ConsumerMember, partitions: list[TopicIdPartition]) -> ConsumerMember:
    if not partitions:
        return member
    state, pending = ConsumerMemberState.UNREVOKED_PARTITIONS, dict.fromkeys(partitions, member.current.member_epoch)
    return replace(member, current=replace(member.current, state=state, pending_revocation=pending))


def owned_partitions(subscriber: Subscriber, topics: TopicsImage) -> frozenset[TopicIdPartition]:
    """Of the topics that exist. A member that names no partitions has revoked them: that is how the eager protocol joins."""
    return frozenset(
        (topics.topics[name].topic_id, partition)
        for name, partitions in subscriber.owned.items()
        for partition in partitions
        if name in topics.topics
    )


def may_downgrade(left: Iterable[ConsumerMember], config: CoordinatorConfig) -> bool:
    """Whether the members that are left are all of the classic protocol, and may be a classic group."""
    if not config.consumer_group_migration_policy.downgrades:
        return False
    classic = 0
    for member in left:
        if member.subscription.classic is None:
            return False
        classic += 1
    return 0 < classic <= config.group_max_size


def downgrade(
    group: ConsumerGroup, members: list[ConsumerMember], rebalance: Cause | None, topics: TopicsImage, now_ms: int
) -> Outcome:
    """The group's tombstones, and the record of a classic group with these members in the group epoch as its generation, with
    their targets as assignments. ``rebalance``: why it must rebalance at once."""
    events: list[e.Event] = [c.CurrentRemoved(member_id) for member_id in group.members]
    events += [c.TargetRemoved(member_id) for member_id in group.members]
    gone = tombstones(group, Cause("downgraded"))
    events += [gone[0], *(c.SubscriptionRemoved(member_id) for member_id in group.members), *gone[1:]]
    downgraded = {member.member_id: _downgraded(member, now_ms) for member in members}
    counts = count_protocols(downgraded.values())
    protocol = Group(group.group_id, members=downgraded, protocol_counts=counts).select_protocol()
    classic = Group(
        group.group_id,
        protocol_type=CONSUMER,
        generation=group.group_epoch,
        protocol=protocol,
        leader=members[0].member_id,
        members=downgraded,
    )
    assignments = {
        m.member_id: assignment_blob(
            downgraded[m.member_id].metadata(protocol),
            target_of(group, m.member_id, m.subscription.instance_id),
            topics,
        )
        for m in members
    }
    events.append(group_stored(classic, assignments, now_ms))
    if rebalance is not None:
        events.append(e.RebalanceWanted(rebalance))
    return Outcome(events, deadlines=[(m.member_id, m.deadline_ms) for m in downgraded.values()])


def _downgraded(member: ConsumerMember, now_ms: int) -> Member:
    subscription, classic = member.subscription, member.subscription.classic
    assert classic is not None, f"{member.member_id} is not of the classic protocol"
    return Member(
        member.member_id,
        subscription.instance_id,
        subscription.client_id,
        subscription.client_host,
        session_timeout_ms=classic.session_timeout_ms,
        rebalance_timeout_ms=subscription.rebalance_timeout_ms,
        protocols=classic.protocols,
        deadline_ms=now_ms + classic.session_timeout_ms,
    )


def assignment_blob(metadata: bytes, partitions: Iterable[TopicIdPartition], topics: TopicsImage) -> bytes:
    """A SyncGroup assignment in the version of the member's own subscription; the layout is that of every version."""
    names = {image.topic_id: image.name for image in topics.topics.values()}
    by_name: dict[str, list[int]] = {}
    for topic_id, partition in sorted(partitions):
        if topic_id in names:
            by_name.setdefault(names[topic_id], []).append(partition)
    version = min(int.from_bytes(metadata[:2], "big"), NEWEST_BLOB_VERSION)
    return struct.pack(">h", version) + encode_assignment(by_name)[2:]
