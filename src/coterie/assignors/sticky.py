"""Sticky and cooperative sticky: as balanced as possible, then with as few moves as possible (A1; KIP-54, KIP-429).

Eager "sticky" believes the user data of its own subscriptions (version 0: partitions; version 1: and their generation);
"cooperative-sticky" believes the subscription's owned partitions, and reads from the user data the generation where the
subscription is too old to carry one. A partition that would move from one live member to another is then held back: it
is revoked in this round and assigned in the next.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace

from coterie.assignors.assignor import AssignableTopics, Assignment, Owned, Subscriber, in_order
from coterie.assignors.claims import Claims
from coterie.assignors.equal_shares import share_equally
from coterie.assignors.unequal_shares import share_unequally
from coterie.wire.messages.stored.sticky_assignor import StickyAssignorUserData
from coterie.wire.primitives import WireError


def assign_sticky(topics: AssignableTopics, subscribers: Sequence[Subscriber]) -> Assignment:
    """Member id -> topic -> partitions, with ownership claims from the subscriptions' user data (Kafka's StickyAssignor)."""
    members = [_by_user_data(s) for s in in_order(subscribers)]
    return _assign(topics, members, Claims(topics, members))


def assign_cooperative_sticky(topics: AssignableTopics, subscribers: Sequence[Subscriber]) -> Assignment:
    """Member id -> topic -> partitions, with ownership claims from the subscriptions' owned partitions; a partition that
    another live member still owns is in no share (Kafka's CooperativeStickyAssignor)."""
    members = [_by_owned_partitions(s) for s in in_order(subscribers)]
    claims = Claims(topics, members)
    assignment = _assign(topics, members, claims)
    held_back: dict[str, dict[int, str | None]] = {}  # topic -> partition -> the only one who may have it now
    for topic, partition in claims.contested:
        held_back.setdefault(topic, {})[partition] = None
    for (topic, partition), index in claims.released.items():
        held_back.setdefault(topic, {})[partition] = members[index].member_id
    for member_id, share in assignment.items():
        for topic in held_back.keys() & share.keys():
            only = held_back[topic]
            share[topic] = [p for p in share[topic] if only.get(p, member_id) == member_id]
            if not share[topic]:
                del share[topic]
    return assignment


def _assign(topics: AssignableTopics, members: Sequence[Subscriber], claims: Claims) -> Assignment:
    if not members:
        return {}
    known = frozenset(claims.holders)
    first = members[0].topics & known
    equal = all(m.topics == members[0].topics or m.topics & known == first for m in members)
    shares = (share_equally if equal else share_unequally)(topics, members, claims)
    return {m.member_id: share for m, share in zip(members, shares, strict=True)}


# -- who had what ------------------------------------------------------------------------------------------------------


def encode_sticky_user_data(owned: Owned, generation: int) -> bytes | None:
    """The user data of an eager sticky member: the partitions of its last assignment, and that assignment's generation."""
    return None if generation < 0 else StickyAssignorUserData.of(owned, generation).encode(1)


def encode_cooperative_user_data(owned: Owned, generation: int) -> bytes:
    """Four bytes: the generation. What is owned stands in the subscription itself."""
    return struct.pack(">i", generation)


def decode_sticky_user_data(data: bytes | None) -> tuple[dict[str, list[int]], int]:
    """(owned, generation) of version 1 or 0; nothing and -1 for bytes that are neither."""
    for version in (1, 0):
        try:
            read = StickyAssignorUserData.decode(data or b"", version)
        except WireError:
            continue
        return {t.topic: list(t.partitions) for t in read.previous_assignment}, read.generation
    return {}, -1


def decode_cooperative_user_data(data: bytes | None) -> int:
    """The generation, -1 where there is none."""
    generation: int = struct.unpack(">i", data)[0] if data is not None and len(data) == 4 else -1
    return generation


def _by_user_data(subscriber: Subscriber) -> Subscriber:
    owned, generation = decode_sticky_user_data(subscriber.user_data)
    return replace(subscriber, owned=owned, generation=generation)


def _by_owned_partitions(subscriber: Subscriber) -> Subscriber:
    if subscriber.generation >= 0:
        return subscriber
    return replace(subscriber, generation=decode_cooperative_user_data(subscriber.user_data))
