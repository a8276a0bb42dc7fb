"""The story whose records Apache Kafka 4.4.0 wrote (`tests.coordinator.kafka_records`), carried out by a shard: the same events
in the same order, with the same hashes of metadata, but for times, ids that a broker makes, and the order of members and
partitions in a target.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from typing import Any

from coterie.assignors.blobs import encode_subscription
from coterie.coordinator.commands import Command, DeleteGroup, RegexesResolved
from coterie.coordinator.consumer import events as c
from coterie.coordinator.consumer.image import TopicImage, TopicsImage
from coterie.coordinator.outcome import Context, CoordinatorConfig
from coterie.coordinator.shard import Decision, Shard, Step
from coterie.coordinator.stored_records.stored import from_record
from coterie.coordinator.write_queue import drive
from coterie.records.batch import batches
from coterie.records.decoding import decode_records
from coterie.wire.messages.groups.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from coterie.wire.messages.groups.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tests.coordinator.kafka_records import RECORDED, TOPICS, Members, member_id

Stored = tuple[str, c.ConsumerEvent]


def recorded() -> list[Stored]:
    data = RECORDED.read_bytes()
    read = [
        from_record(record.key, record.value)
        for position, header in batches(data)
        for record in decode_records(data, position, header)
    ]
    return [each for each in read if each is not None and isinstance(each[1], c.ConsumerEvent)]  # type: ignore[misc]


def image_of(kafka: list[Stored]) -> TopicsImage:
    """The recorded ids: the topic with more partitions has more in the first target."""
    first = next(event for _, event in kafka if isinstance(event, c.TargetStored))
    ids = sorted({topic for topic, _ in first.partitions}, key=lambda t: [p[0] for p in first.partitions].count(t))
    names = sorted(TOPICS, key=lambda name: TOPICS[name])
    topics = {name: TopicImage(name, topic_id, TOPICS[name]) for name, topic_id in zip(names, ids, strict=True)}
    return TopicsImage(topics, 1, 1)


class Coordinator(Members):
    """A shard with an endless log, whose records are kept as events."""

    def __init__(self, topics: TopicsImage) -> None:
        self.topics, self.now_ms = topics, 1_000
        self.shard = Shard(CoordinatorConfig(group_consumer_assignment_interval_ms=0))
        self.stored: list[Stored] = []
        self.response: Any = None

    def submit(self, command: Command, version: int = 1, client: str = "recorder") -> Any:
        self.now_ms += 100
        ctx = Context(self.now_ms, "token", "classic", version, client, "/127.0.0.1", self.topics)
        drive(self.shard, self.shard.decide(command, ctx), self._append, self._committed)
        return self.response

    def _append(self, decisions: list[Decision]) -> None:
        for record in (record for decision in decisions for record in decision.records):
            read = from_record(record.key, record.value)
            if read is not None and isinstance(read[1], c.ConsumerEvent):
                self.stored.append((read[0], read[1]))

    def _committed(self, decision: Decision, steps: list[Step]) -> None:
        for reply in decision.outcome.replies:
            self.response = reply.response

    def send(self, group_id: str, member_id: str, epoch: int, **fields: Any) -> Any:
        response = self.submit(ConsumerGroupHeartbeatRequest(group_id, member_id, epoch, **fields))
        assert not response.error_code, response
        return response


def story(here: Coordinator) -> None:
    """That of `tests.coordinator.kafka_records`, without its offsets."""
    one, two, three, four, five = (member_id(number) for number in range(1, 6))
    names = sorted(TOPICS)
    joined = here.join("crew", one, subscribed_topic_names=names, instance_id="i1", rack_id="r1")
    joined = here.follow("crew", one, joined)
    second = here.join("crew", two, subscribed_topic_names=names, server_assignor="range")
    joined = here.follow("crew", one, joined)
    here.follow("crew", two, second)
    here.send("crew", two, -1)
    here.follow("crew", one, joined)
    here.send("crew", one, -2, instance_id="i1")
    pattern = "or.*|p.*s"
    joined = here.join("patterns", three, subscribed_topic_regex=pattern, server_assignor="uniform")
    here.submit(RegexesResolved("patterns", {pattern: frozenset(names)}, 1))
    here.follow("patterns", three, joined)
    here.send("patterns", three, -1)
    here.submit(DeleteGroup("patterns"))
    here.follow("mixed", four, here.join("mixed", four, subscribed_topic_names=["orders"]))
    protocols = [JoinGroupRequestProtocol("range", encode_subscription(["orders", "payments"]))]
    request = JoinGroupRequest("mixed", 45_000, 60_000, "", None, "consumer", protocols)
    given = here.submit(request, 9, "coterie")
    here.submit(replace(request, member_id=given.member_id), 9, "coterie")
    here.join("empty", five, subscribed_topic_names=[])


def comparable(stored: list[Stored]) -> list[Stored]:
    """Without what differs between two runs of Kafka as well."""
    names: dict[str, str] = {}

    def one(event: c.ConsumerEvent) -> c.ConsumerEvent:
        if isinstance(event, c.SubscriptionStored) and event.subscription.classic is not None:
            names[event.member_id] = "the classic member"
        if getattr(event, "member_id", None) in names:
            event = replace(event, member_id=names[event.member_id])  # type: ignore[arg-type]
        match event:
            case c.GroupEpochStored():
                return replace(event, cause=None)
            case c.TargetEpochStored():
                return c.TargetEpochStored(event.epoch, 0)
            case c.RegexStored():
                return c.RegexStored(event.regex, replace(event.resolved, timestamp_ms=0, version=0))
            case c.SubscriptionStored(member, s) if s.classic is not None:
                protocols = tuple(name for name, _ in s.classic.protocols)
                return c.SubscriptionStored(member, replace(s, classic=None, client_id=f"{s.client_id} {protocols}"))
        return event

    compared: list[Stored] = []
    for _, same in groupby([(g, one(event)) for g, event in stored], key=lambda each: (each[0], type(each[1]))):
        compared += sorted(same, key=lambda each: getattr(each[1], "member_id", ""))
    return compared


def test_the_records_are_those_of_kafka() -> None:
    kafka = recorded()
    here = Coordinator(image_of(kafka))
    story(here)
    ours, theirs = comparable(here.stored), comparable(kafka)
    for ours_at, theirs_at in zip(ours, theirs, strict=False):
        assert ours_at == theirs_at
    assert len(ours) == len(theirs) > 40
