"""The `simple` assignor of share groups (KIP-932; Kafka's SimpleAssignor): several members may have one partition.

Each partition has as many members as it takes for every member to have one; members that subscribe to the same topics have
equally many partitions, but for one. What a member has it keeps, as far as that leaves the assignment even. Where members
subscribe to different topics, each topic is assigned by itself.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

TopicPartitions = tuple[bytes, int]


def assign_simply(
    topics: Mapping[str, frozenset[bytes]],
    assignable: Mapping[bytes, Collection[int]],
    present: Mapping[str, frozenset[TopicPartitions]],
) -> dict[str, set[TopicPartitions]]:
    """Member id -> its partitions. ``topics``: what each member subscribes to, by topic id; ``assignable``: the partitions of
    each topic; ``present``: what members have."""
    assigned: dict[str, set[TopicPartitions]] = {member_id: set() for member_id in topics}
    every = sorted(frozenset().union(*topics.values()))
    if len(set(topics.values())) == 1:
        partitions = [(topic, number) for topic in every for number in sorted(assignable.get(topic, ()))]
        _share(sorted(topics), partitions, present, assigned)
        return assigned
    for topic in every:
        members = sorted(member_id for member_id, subscribed in topics.items() if topic in subscribed)
        _share(members, [(topic, number) for number in sorted(assignable.get(topic, ()))], present, assigned)
    return assigned


def _share(
    members: Sequence[str],
    partitions: Sequence[TopicPartitions],
    present: Mapping[str, frozenset[TopicPartitions]],
    assigned: dict[str, set[TopicPartitions]],
) -> None:
    """Adds to ``assigned`` what the members get of the partitions."""
    if not partitions:
        return
    most = -(-len(members) // len(partitions))  # members of a partition
    each = most * len(partitions) / len(members)
    wanted = {m: math.ceil(each * (at + 1)) - math.ceil(each * at) for at, m in enumerate(members)}
    sharing = dict.fromkeys(partitions, 0)
    own: dict[str, set[TopicPartitions]] = {member_id: set() for member_id in members}
    for member_id in members:
        for partition in sorted(present.get(member_id, ())):
            if sharing.get(partition, most) < most and len(own[member_id]) < wanted[member_id]:
                own[member_id].add(partition)
                sharing[partition] += 1
    unfilled = [m for m in members if len(own[m]) < wanted[m]]
    for partition in partitions:
        passed = 0  # members in turn that have the partition already
        while sharing[partition] < most and passed < len(unfilled):
            member_id = unfilled.pop(0)
            if partition in own[member_id]:
                passed += 1
            else:
                passed = 0
                own[member_id].add(partition)
                sharing[partition] += 1
            if len(own[member_id]) < wanted[member_id]:
                unfilled.append(member_id)
    for member_id, partitions_of in own.items():
        assigned[member_id] |= partitions_of
