"""What changed from one stored state of a classic group to the next: who came, went, returned under another member id, or
subscribes to other topics. Used by `pipeline/history` and by the observer.

A member's subscription also holds what it owned in the generation before (KIP-429), which changes with each rebalance of a
cooperative group: topics are compared, and bytes only where they are no consumer's.
"""

from __future__ import annotations

from typing import NamedTuple

from coterie.assignors.blobs import decode_subscribed_topics
from coterie.coordinator.subscriptions import CONSUMER
from coterie.wire.messages.stored.consumer_offsets import GroupMetadataValue, MemberMetadata
from coterie.wire.primitives import WireError


class StoredChange(NamedTuple):
    """Members by their change. Of static members that ``returned``, and of members that ``resubscribed``, the state before and
    the one now."""

    joined: list[MemberMetadata]
    departed: list[MemberMetadata]
    returned: list[tuple[MemberMetadata, MemberMetadata]]
    resubscribed: list[tuple[MemberMetadata, MemberMetadata]]


def stored_change(before: GroupMetadataValue | None, now: GroupMetadataValue) -> StoredChange:
    """Members are the same by group.instance.id, or else by member id; ``before`` None: there was no group."""
    old = {member_name(m): m for m in (before.members if before is not None else ())}
    new = {member_name(m): m for m in now.members}
    both = [(old[name], m) for name, m in new.items() if name in old]
    is_consumer = now.protocol_type == CONSUMER
    return StoredChange(
        [m for name, m in new.items() if name not in old],
        [m for name, m in old.items() if name not in new],
        [(earlier, m) for earlier, m in both if earlier.member_id != m.member_id],
        [(earlier, m) for earlier, m in both if _subscription(earlier, is_consumer) != _subscription(m, is_consumer)],
    )


def member_name(member: MemberMetadata) -> str:
    """What a member keeps over a restart if it is static, and else its member id."""
    return member.group_instance_id or member.member_id


def subscribed_topics(member: MemberMetadata) -> frozenset[str] | None:
    """None for bytes that are no consumer's subscription."""
    try:
        return decode_subscribed_topics(member.subscription)
    except WireError:
        return None


def _subscription(member: MemberMetadata, is_consumer: bool) -> object:
    topics = subscribed_topics(member) if is_consumer else None
    return member.subscription if topics is None else topics
