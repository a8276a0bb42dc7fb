"""The assignors of the broker, by Kafka's names: members, each with its part of the last target assignment, and topics to the
next one.

Of consumer groups (KIP-848), `uniform`: as balanced as possible, then with as few moves as possible. `range`: per topic
contiguous runs of partitions to its subscribers in order, whatever they had. Apache Kafka 4.3 regards no racks in either.

Of share groups (KIP-932), `simple` (SimpleAssignor), where several members may have one partition. Each partition has as many
members as it takes for every member to have one; members that subscribe to the same topics have equally many partitions, but
for one. What a member has it keeps, as far as that leaves the assignment even. Where members subscribe to different topics,
each topic is assigned by itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from coterie.assignors.assignor import AssignableTopics, Subscriber
from coterie.assignors.claims import Claims
from coterie.assignors.equal_shares import share_equally
from coterie.assignors.unequal_shares import share_unequally

TargetPartitions = frozenset[tuple[bytes, int]]  # (topic id, partition)


class TargetMember(Protocol):
    """A member: the ids of the topics that it subscribes to, and ``target``, its part of the last target assignment."""

    @property
    def member_id(self) -> str: ...
    @property
    def instance_id(self) -> str | None: ...
    @property
    def topics(self) -> frozenset[bytes]: ...
    @property
    def target(self) -> TargetPartitions: ...


class TargetTopic(Protocol):
    """A topic with its number of partitions."""

    @property
    def partitions(self) -> int: ...


Target = dict[str, TargetPartitions]  # by member id
ServerAssignor = Callable[[Sequence[TargetMember], Mapping[bytes, TargetTopic]], Target]


def assign_uniform(members: Sequence[TargetMember], topics: Mapping[bytes, TargetTopic]) -> Target:
    """Every member has an entry. Where all subscribe to the same topics, no member has two partitions more than another;
    otherwise none that it could pass on, directly or over others (Kafka's UniformAssignor)."""
    if not members:
        return {}
    texts = {topic_id: _text(topic_id) for topic_id in topics}
    subscribed: dict[frozenset[bytes], frozenset[str]] = {}  # members mostly subscribe to the same topics
    for member in members:
        if member.topics not in subscribed:
            subscribed[member.topics] = frozenset(texts[topic_id] for topic_id in member.topics if topic_id in texts)
    subscribers = [
        Subscriber(m.member_id, subscribed[m.topics], m.instance_id, _owned(m.target, texts))
        for m in _in_order(members)
    ]
    assignable = AssignableTopics({texts[topic_id]: topic.partitions for topic_id, topic in topics.items()})
    equal = all(s.topics == subscribers[0].topics for s in subscribers)
    share = share_equally if equal else share_unequally
    shares = share(assignable, subscribers, Claims(assignable, subscribers))
    topic_ids = {text: topic_id for topic_id, text in texts.items()}
    return {
        s.member_id: frozenset([(topic_ids[text], p) for text, partitions in given.items() for p in partitions])
        for s, given in zip(subscribers, shares, strict=True)
    }


def assign_server_range(members: Sequence[TargetMember], topics: Mapping[bytes, TargetTopic]) -> Target:
    """Every member has an entry. Of n partitions and m subscribers each gets n // m, the first n % m one more; static members
    come first, by instance id, then the others by member id (Kafka's server-side RangeAssignor)."""
    ordered = _in_order(members)
    given: dict[str, list[tuple[bytes, int]]] = {member.member_id: [] for member in ordered}
    for topic_id, topic in topics.items():
        takers = [member.member_id for member in ordered if topic_id in member.topics]
        if takers:
            each, extra = divmod(topic.partitions, len(takers))
            start = 0
            for number, member_id in enumerate(takers):
                end = start + each + (number < extra)
                given[member_id] += [(topic_id, partition) for partition in range(start, end)]
                start = end
    return {member_id: frozenset(partitions) for member_id, partitions in given.items()}


# In the order of group.consumer.assignors' default: the first is that of members that request none.
SERVER_ASSIGNORS: dict[str, ServerAssignor] = {"uniform": assign_uniform, "range": assign_server_range}


def _in_order(members: Sequence[TargetMember]) -> list[TargetMember]:
    return sorted(members, key=lambda m: (m.instance_id is None, m.instance_id or m.member_id))


def _owned(target: TargetPartitions, texts: Mapping[bytes, str]) -> dict[str, list[int]]:
    """A part of the last target, in order; topics that do not exist any more are in it by their ids, so that they differ from
    all others."""
    owned: dict[str, list[int]] = {}
    for topic_id, partition in sorted(target):
        text = texts.get(topic_id)
        owned.setdefault(_text(topic_id) if text is None else text, []).append(partition)
    return owned


def _text(topic_id: bytes) -> str:
    """A topic id in place of a name: one character a byte, which keeps the order."""
    return topic_id.decode("latin-1")


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
