"""Seeded stories of consumer groups (KIP-848), sent to Apache Kafka and to coterie: every response must be the same, but for
throttle times and topic ids. With the range assignor, which has one right result; without regular expressions, which a broker
resolves in its own time.
"""

from __future__ import annotations

import dataclasses
import random
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coterie.certify.settling import wait_for_coordinator
from coterie.client.connection.blocking_socket import BrokerSocket
from coterie.wire.declaration import Message, Struct
from coterie.wire.messages.groups.consumer_group_describe import ConsumerGroupDescribeRequest
from coterie.wire.messages.groups.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from coterie.wire.messages.groups.delete_groups import DeleteGroupsRequest
from coterie.wire.messages.groups.leave_group import LeaveGroupRequest, MemberIdentity
from coterie.wire.messages.groups.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from coterie.wire.messages.groups.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from coterie.wire.messages.topics.metadata import MetadataRequest, MetadataRequestTopic
from coterie_conformance.groups.differential import coterie_broker, make_topics
from coterie_conformance.groups.questions import OTHER_TOPIC, PARTITIONS, TOPIC
from coterie_conformance.servers.kafka import running
from coterie_conformance.tools.our_commands import is_older

STEPS_PER_STORY = 40
FAILURES_SHOWN = 5
SETTINGS = {
    "group.consumer.assignors": "range",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.max.size": "3",
    "offsets.topic.num.partitions": "1",
    "auto.create.topics.enable": "false",
}
MEMBERS = 4
LEFT_OUT = {"throttle_time_ms", "client_host"}
# What Kafka before 4.4 does otherwise: the target of an emptied group keeps its epoch, and a full group refuses a static member
# that returns.
BEFORE_4_4 = frozenset({("Empty", "assignment_epoch")})
SETTINGS_BEFORE_4_4 = {"group.consumer.max.size": str(MEMBERS)}
_TOPICS = (TOPIC, OTHER_TOPIC)


@dataclass(slots=True)
class ConsumerGroupReport:
    """The requests and stories so far, and the steps of each story to its first difference."""

    steps: int = 0
    stories: int = 0
    failures: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _StoryMember:
    """A member as it knows itself; ``owned`` by topic, as its last response assigned it."""

    member_id: str
    instance_id: str | None
    epoch: int = 0
    before: int = 0
    owned: dict[str, list[int]] = field(default_factory=dict)


class _Side:
    """One of the brokers: topic ids and names of its own."""

    def __init__(self, address: tuple[str, int], left_out: frozenset[tuple[str, str]]) -> None:
        self._left_out = left_out
        self._socket = BrokerSocket(*address)
        wanted = [MetadataRequestTopic(name=name) for name in _TOPICS]
        self._ids = {t.name: t.topic_id for t in self._socket.request(MetadataRequest(wanted)).topics}
        self._names = {topic_id: name for name, topic_id in self._ids.items()}

    def ask(self, make: Callable[[dict[str, bytes]], Message], version: int) -> Any:
        """The response to the request made with this broker's topic ids, as values that can be compared."""
        return self._plain(self._socket.request(make(self._ids), highest=version))

    def _plain(self, value: Any, name: str = "") -> Any:
        if isinstance(value, Struct):
            fields = (f.name for f in dataclasses.fields(value))  # type: ignore[arg-type]
            state = getattr(value, "group_state", "")
            wanted = (f for f in fields if f not in LEFT_OUT and (state, f) not in self._left_out)
            return {f: self._plain(getattr(value, f), f) for f in wanted}
        if isinstance(value, list):
            return sorted((self._plain(item, name) for item in value), key=repr)
        return self._names.get(value, value.hex()) if name == "topic_id" else value

    def close(self) -> None:
        self._socket.close()


class ConsumerGroupStory:
    """The requests of one seed. Each next one depends on the responses so far, which were the same on both sides."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self._group = f"story-{seed}"
        self._members = [
            _StoryMember(str(uuid.UUID(int=n + 1)), f"i{n % 2}" if self._rng.random() < 0.4 else None)
            for n in range(MEMBERS)
        ]

    def difference(self, ours: _Side, theirs: _Side, report: ConsumerGroupReport) -> str:
        """Tells the story; the steps up to the first response that differs, or nothing."""
        steps = []
        for _ in range(STEPS_PER_STORY):
            text, make, version, learn = self._step()
            mine, other = ours.ask(make, version), theirs.ask(make, version)
            report.steps += 1
            steps.append(f"{text}: {_short(other)}")
            if mine != other:
                return "\n    ".join([*steps, f"coterie: {_short(mine)}"])
            learn(other)
        return ""

    def _step(self) -> tuple[str, Callable[[dict[str, bytes]], Message], int, Callable[[Any], None]]:
        member = self._rng.choice(self._members)
        kind = self._rng.random()
        if kind < 0.7:
            return self._heartbeat(member)
        if kind < 0.8:
            return self._commit(member)
        if kind < 0.88:
            return self._fetch(member)
        if kind < 0.95:
            group = self._group
            return "describe", lambda ids: ConsumerGroupDescribeRequest([group], True), 1, _nothing
        if kind < 0.98:
            identity = MemberIdentity(member.member_id, self._rng.choice([None, member.instance_id]))
            group = self._group
            return f"leave {identity}", lambda ids: LeaveGroupRequest(group, members=[identity]), 5, _nothing
        return "delete", lambda ids: DeleteGroupsRequest([self._group]), 2, _nothing

    def _heartbeat(
        self, member: _StoryMember
    ) -> tuple[str, Callable[[dict[str, bytes]], Message], int, Callable[[Any], None]]:
        rng = self._rng
        joins = member.epoch <= 0 or rng.random() < 0.1
        epoch = 0 if joins else member.epoch
        fields: dict[str, Any] = {}
        owned = None if rng.random() < 0.4 else {t: ps for t, ps in member.owned.items() if rng.random() < 0.95}
        if joins:
            # At least one: beside a member that joins without, Kafka 4.3.0 takes the others' subscriptions for equal to its,
            # and range assigns nobody anything.
            fields = {"rebalance_timeout_ms": 300_000, "subscribed_topic_names": self._names(at_least=1)}
            owned = {}
        elif rng.random() < 0.15:
            fields["subscribed_topic_names"] = self._names()
        if rng.random() < 0.1:  # something that is not allowed, or not now
            epoch = rng.choice([-3, -2, -1, epoch - 1, epoch + 1, member.before, 0])
        elif not joins and rng.random() < 0.06:
            epoch = -2 if member.instance_id is not None else -1
        if member.instance_id is not None and rng.random() < 0.95:
            fields["instance_id"] = member.instance_id
        if rng.random() < 0.03:
            fields |= rng.choice([{"instance_id": ""}, {"rack_id": ""}, {"server_assignor": "sticky"}])
        if rng.random() < 0.03:
            owned = None
        group, version = self._group, rng.choice([0, 1])

        def make(ids: dict[str, bytes]) -> Message:
            given = None if owned is None else [TopicPartitions(ids[t], ps) for t, ps in sorted(owned.items())]
            return ConsumerGroupHeartbeatRequest(group, member.member_id, epoch, topic_partitions=given, **fields)

        def learn(response: Any) -> None:
            if response["error_code"]:
                member.epoch = member.epoch if response["error_code"] == 42 else 0
                return
            member.before, member.epoch = member.epoch, response["member_epoch"]
            if response["assignment"] is not None:
                member.owned = {t["topic_id"]: t["partitions"] for t in response["assignment"]["topic_partitions"]}

        text = f"heartbeat v{version} {member.member_id[-2:]} epoch {epoch} owns {owned} {fields}"
        return text, make, version, learn

    def _names(self, at_least: int = 0) -> list[str]:
        return sorted(self._rng.sample([*_TOPICS, "no-such-topic"], self._rng.randint(at_least, 3)))

    def _commit(
        self, member: _StoryMember
    ) -> tuple[str, Callable[[dict[str, bytes]], Message], int, Callable[[Any], None]]:
        rng = self._rng
        epoch = rng.choice([member.epoch, member.epoch, member.before, member.epoch + 1, -1])
        topic, partition = rng.choice(_TOPICS), rng.randrange(PARTITIONS)
        version, offset = rng.choice([8, 9, 9, 10]), rng.randrange(100)
        member_id = rng.choice([member.member_id] * 9 + [""])

        def make(ids: dict[str, bytes]) -> Message:
            partitions = [OffsetCommitRequestPartition(partition, offset, committed_metadata="")]
            topics = [OffsetCommitRequestTopic(topic, ids[topic], partitions)]
            return OffsetCommitRequest(self._group, epoch, member_id, member.instance_id, topics=topics)

        text = f"commit v{version} {member_id[-2:]} epoch {epoch} {topic}-{partition}"
        return text, make, version, _nothing

    def _fetch(
        self, member: _StoryMember
    ) -> tuple[str, Callable[[dict[str, bytes]], Message], int, Callable[[Any], None]]:
        rng = self._rng
        member_id = rng.choice([member.member_id, member.member_id, None, ""])
        # Without a member id Kafka takes -1 alone: any other epoch ends in its NullPointerException.
        epoch = -1 if member_id is None else rng.choice([member.epoch, member.before, member.epoch + 1, -1])
        topics = [OffsetFetchRequestTopics(name, partition_indexes=[*range(PARTITIONS)]) for name in _TOPICS]
        requested = rng.choice([None, topics])

        def make(ids: dict[str, bytes]) -> Message:
            return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(self._group, member_id, epoch, requested)])

        return f"fetch {member_id and member_id[-2:]} epoch {epoch}", make, 9, _nothing


def _nothing(response: Any) -> None:
    """What a member does not learn from."""


def _short(response: Any) -> str:
    """A response without the fields that are empty."""
    if isinstance(response, dict):
        kept = {k: _short(v) for k, v in response.items() if v not in (None, 0, "", [])}
        return "{" + ", ".join(f"{k}: {v}" for k, v in kept.items()) + "}"
    return "[" + ", ".join(map(_short, response)) + "]" if isinstance(response, list) else str(response)


@contextmanager
def _sides(
    ours: tuple[str, int], theirs: tuple[str, int], left_out: frozenset[tuple[str, str]]
) -> Iterator[tuple[_Side, _Side]]:
    with closing(_Side(ours, left_out)) as mine, closing(_Side(theirs, left_out)) as other:
        yield mine, other


def run_stories(
    ours: tuple[str, int],
    theirs: tuple[str, int],
    stories: int,
    first_seed: int,
    *,
    left_out: frozenset[tuple[str, str]] = frozenset(),
) -> ConsumerGroupReport:
    """Tells the stories to both brokers, which have the topics. ``left_out``: (state of the group, field) pairs that are not
    compared, as in `BEFORE_4_4`."""
    report = ConsumerGroupReport()
    with _sides(ours, theirs, left_out) as (mine, other):
        for seed in range(first_seed, first_seed + stories):
            difference = ConsumerGroupStory(seed).difference(mine, other, report)
            report.stories += 1
            if difference:
                report.failures.append(f"seed {seed}:\n    {difference}")
                if len(report.failures) >= FAILURES_SHOWN:
                    break
    return report


def run_consumer_groups(
    version: str, stories: int, first_seed: int, folder: Path, *, brokers: int = 1
) -> ConsumerGroupReport:
    """Starts both sides and tells the stories; ``brokers`` on ours. Raises CannotRun."""
    is_old = is_older(version, "4.4")
    settings = SETTINGS | (SETTINGS_BEFORE_4_4 if is_old else {})
    theirs = settings | {"group.coordinator.append.linger.ms": "0"}
    with running(version, folder, theirs) as kafka, coterie_broker(settings, brokers=brokers) as address:
        for side in (kafka, address):
            make_topics(side)
            wait_for_coordinator(side)
        left_out = BEFORE_4_4 if is_old else frozenset()
        return run_stories(address, kafka, stories, first_seed, left_out=left_out)
