"""Scenarios of assignors (tests/spec/assignors): topics, members with what they subscribe to and own, and who gets what.

== testReassignmentAfterOneConsumerAdded
topics t:4
member a t
assign sticky
    a: t-0 t-1 t-2 t-3
member b t
assign sticky
    a: t-0 t-1
    b: t-2 t-3

Lines at the margin are steps; below an `assign` stands the whole assignment. Each member owns what the last one gave it, in a
generation of its own, unless ``owned`` says otherwise. After every `assign` it is checked: a partition has one owner, who
subscribes to its topic, and only the cooperative assignor may hold one back; in a share group it has one or more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from coterie.assignors import ASSIGNORS, AssignableTopics, Subscriber, is_cooperative
from coterie.assignors.assignor import handed_over
from coterie.assignors.blobs import decode_assignment, decode_subscription, encode_assignment, encode_subscription
from coterie.assignors.server_side import SERVER_ASSIGNORS, TargetMember, TargetTopic, assign_simply
from coterie_conformance.scenarios.groups.scenario import ScenarioError, run_step

Partition = tuple[str, int]
Options = dict[str, str]
OF_BROKER = "broker-"  # before the names of the assignors of consumer groups
OF_SHARE_GROUPS = "share-simple"


@dataclass(frozen=True, slots=True)
class _Member:
    """As the broker sees a member of a consumer group; topic ids are the names in bytes."""

    member_id: str
    instance_id: str | None
    topics: frozenset[bytes]
    target: frozenset[tuple[bytes, int]]


@dataclass(frozen=True, slots=True)
class _Topic:
    partitions: int


class AssignorScenario:
    """One group; ``generation`` is that of the last assignment, 0 before the first."""

    def __init__(self) -> None:
        self.generation = 0
        self.members: dict[str, Subscriber] = {}
        self._counts: dict[str, int] = {}
        self._racks: dict[str, list[frozenset[str]]] = {}
        self._trace: list[str] = []
        self.verbs: dict[str, Callable[[list[str], Options], None]] = {
            "topics": self._topics,
            "racks": self._racks_of,
            "member": self._member,
            "leave": self._leave,
            "assign": self._assign,
        }

    def step(self, line: str) -> list[str]:
        """Runs one step; returns its trace. Raises ScenarioError."""
        self._trace = []
        run_step(self.verbs, line)
        return self._trace

    def _topics(self, words: list[str], options: Options) -> None:
        """``topics t:3 u:2``: all there are, with their numbers of partitions."""
        self._counts = {topic: int(count) for topic, _, count in (word.partition(":") for word in words)}
        self._racks = {}

    def _racks_of(self, words: list[str], options: Options) -> None:
        """``racks t a+b b c``: those of the replicas of each partition."""
        self._racks[words[0]] = [frozenset(word.split("+")) for word in words[1:]]

    def _member(self, words: list[str], options: Options) -> None:
        """``member a t u owned=t-0,t-1 generation=3 rack=r instance=i``: a new member, or what is new of one."""
        name, before = words[0], self.members.get(words[0])
        owned = _by_topic(options["owned"].split(",")) if "owned" in options else before.owned if before else {}
        generation = int(options.get("generation", before.generation if before else -1))
        instance = options.get("instance", before.group_instance_id if before else None)
        rack = options.get("rack", before.rack if before else None)
        self.members[name] = Subscriber(name, frozenset(words[1:]), instance, owned, generation, rack)

    def _leave(self, words: list[str], options: Options) -> None:
        for word in words:
            del self.members[word]

    def _assign(self, words: list[str], options: Options) -> None:
        """``assign range``: by an assignor of clients; ``assign broker-uniform``: by one of the broker (KIP-848); ``assign
        share-simple``: by that of share groups."""
        name = words[0]
        if name == OF_SHARE_GROUPS:
            shares, held_back = self._simply(), {}
        else:
            of_broker = name.removeprefix(OF_BROKER) if name.startswith(OF_BROKER) else None
            shares = self._by_broker(of_broker) if of_broker else self._by_client(name)
            held_back = self._check(shares, may_hold_back=is_cooperative(name))
        self.generation += 1
        for member_id, share in sorted(shares.items()):
            owned = {topic: sorted(partitions) for topic, partitions in share.items() if partitions}
            self._trace.append(f"{member_id}: {_text(owned)}")
            before = self.members[member_id]
            self.members[member_id] = replace(before, owned=owned, generation=self.generation)
        if held_back:
            self._trace.append(f"held back: {_text(held_back)}")

    def _by_client(self, name: str) -> Mapping[str, Mapping[str, list[int]]]:
        if name not in ASSIGNORS:
            raise ScenarioError(f"there is no assignor {name}; there are {', '.join(ASSIGNORS)}")
        spec = ASSIGNORS[name]
        members = [_as_sent(m, spec.user_data(m.owned, m.generation)) for m in self.members.values()]
        shares = spec.assign(AssignableTopics(self._counts, self._racks), members)
        if spec.is_cooperative:
            newest = max(m.generation for m in members)
            moved = handed_over([m for m in members if m.generation == newest], shares)
            assert moved is None, f"{moved} moves in one step"
        received = {member_id: decode_assignment(encode_assignment(share)) for member_id, share in shares.items()}
        return {m: _by_topic(f"{topic}-{p}" for topic, p in partitions) for m, partitions in received.items()}

    def _by_broker(self, name: str) -> Mapping[str, Mapping[str, list[int]]]:
        members: list[TargetMember] = [
            _Member(
                member.member_id,
                member.group_instance_id,
                frozenset(topic.encode() for topic in member.topics),
                frozenset((topic.encode(), p) for topic, partitions in member.owned.items() for p in partitions),
            )
            for member in self.members.values()
        ]
        topics: dict[bytes, TargetTopic] = {topic.encode(): _Topic(count) for topic, count in self._counts.items()}
        target = SERVER_ASSIGNORS[name](members, topics)
        return {m: _by_topic(f"{topic.decode()}-{p}" for topic, p in share) for m, share in target.items()}

    def _simply(self) -> Mapping[str, Mapping[str, list[int]]]:
        """Of a share group: a partition may have several members, and has as many as any other of its topic, but for one."""
        topics = {m.member_id: frozenset(topic.encode() for topic in m.topics) for m in self.members.values()}
        present = {
            m.member_id: frozenset((topic.encode(), p) for topic, partitions in m.owned.items() for p in partitions)
            for m in self.members.values()
        }
        assignable = {topic.encode(): range(count) for topic, count in self._counts.items()}
        target = assign_simply(topics, assignable, present) if topics else {}
        sharing = Counter(partition for share in target.values() for partition in share)
        for topic in set().union(*topics.values()) & assignable.keys():
            counts = [sharing[topic, number] for number in assignable[topic]]
            assert min(counts) >= 1, f"a partition of {topic.decode()} has no member"
            assert max(counts) - min(counts) <= 1, f"members of {topic.decode()}'s partitions: {counts}"
        return {m: _by_topic(f"{topic.decode()}-{p}" for topic, p in sorted(share)) for m, share in target.items()}

    def _check(self, shares: Mapping[str, Mapping[str, list[int]]], *, may_hold_back: bool) -> dict[str, list[int]]:
        """Returns the partitions without an owner. Raises AssertionError."""
        assert shares.keys() == self.members.keys(), "every member has a share, if an empty one"
        owners: dict[Partition, str] = {}
        for member_id, share in shares.items():
            assert share.keys() <= self.members[member_id].topics, f"{member_id} does not subscribe to {set(share)}"
            for partition in ((topic, p) for topic, partitions in share.items() for p in partitions):
                assert owners.setdefault(partition, member_id) == member_id, f"{partition} has two owners"
        subscribed = {topic for member in self.members.values() for topic in member.topics}
        wanted = {(topic, p) for topic in subscribed for p in range(self._counts.get(topic, 0))}
        missing = sorted(wanted - owners.keys())
        assert not missing or may_hold_back, f"{missing} have no owner"
        return _by_topic(f"{topic}-{p}" for topic, p in missing)


def _as_sent(member: Subscriber, user_data: bytes | None) -> Subscriber:
    """As the leader reads the member's subscription."""
    data = encode_subscription(member.topics, member.owned, member.generation, member.rack, user_data)
    return decode_subscription(data, member.member_id, member.group_instance_id)


def _by_topic(words: Iterable[str]) -> dict[str, list[int]]:
    """``t-0`` and ``t-1`` -> t: 0 and 1."""
    by_topic: dict[str, list[int]] = {}
    for word in words:
        topic, _, partition = word.rpartition("-")
        if topic:
            by_topic.setdefault(topic, []).append(int(partition))
    return by_topic


def _text(owned: Mapping[str, list[int]]) -> str:
    return " ".join(f"{topic}-{p}" for topic in sorted(owned) for p in owned[topic]) or "-"
