"""Kafka's group protocols in the study, by the real coordinator and member machines: classic (eager, cooperative, static), the
consumer protocol (KIP-848), and that of Kafka Streams (KIP-1071), whose members are made for the laboratory."""

from __future__ import annotations

from abc import abstractmethod
from functools import partial
from typing import TypeVar

from coterie.assignors import AssignableTopics
from coterie.coordinator.consumer.image import TopicsImage
from coterie.coordinator.outcome import Context, CoordinatorConfig
from coterie.laboratory.brokers.broker_actor import BrokerCommand, Response, WatchingBroker
from coterie.laboratory.brokers.consumer_broker_actor import ConsumerBrokerActor
from coterie.laboratory.deliveries import Reader
from coterie.laboratory.members.group_member_actor import GROUP
from coterie.laboratory.members.reading_member import TOPIC, AnyReader, ReadingConsumer, ReadingMember, Workload
from coterie.laboratory.members.streams_reader import StreamsReader
from coterie.laboratory.study.assignors import ASSIGNOR_OF_PROTOCOL
from coterie.laboratory.study.group import Load, StudyGroup
from coterie.laboratory.world import Service, Traffic, World
from coterie.member.config import ConsumerMemberConfig, MemberConfig
from coterie.wire.declaration import Message
from coterie.wire.messages.groups.heartbeat import HeartbeatRequest, HeartbeatResponse
from coterie.wire.messages.groups.offset_commit import OffsetCommitRequest, OffsetCommitResponse

REQUESTS_PER_S = 20_000  # what one coordinator serves (README, "Speed"); it only matters where thousands come together
CHECKED_UP_TO = 100  # members; beyond, checking the whole group at every step takes longer than the step
RESTART_MS = 1_000  # until a process that ended by an error is started again
BY_NAME = 9  # the last version of OffsetCommit that speaks of topics by name
HEADER_BYTES = 4 + 8 + 10  # length; key, version, correlation id; client id
BEFORE_MEMBER_IDS = 3  # the last JoinGroup version without KIP-394
_ALIKE = (HeartbeatRequest, HeartbeatResponse)  # of one size each, near enough

M = TypeVar("M", bound=AnyReader | StreamsReader)


class CountingBroker(WatchingBroker):
    """Counts what goes either way, in the bytes of the real codec."""

    def __init__(self, world: World, config: CoordinatorConfig, partitions: dict[str, int], *, checks: bool) -> None:
        self.traffic, self._service = Traffic(world), Service(world, REQUESTS_PER_S)
        self._sizes: dict[tuple[type[Message], int], int] = {}
        super().__init__(world, config, partitions, checks=checks)

    def submit(self, command: BrokerCommand, ctx: Context, received: Response) -> None:
        if not isinstance(command, Message):
            super().submit(command, ctx, received)
            return
        self._passed(command)
        self._service.serve()

        def counted(response: Message) -> None:
            """Answers leave one after the other."""
            self._passed(response)
            ready_ms = self._service.ready_ms()
            if ready_ms > self.world.now_ms:
                self.world.at(ready_ms, lambda: received(response))
            else:
                received(response)

        super().submit(command, ctx, counted)

    def _passed(self, message: Message) -> None:
        self.traffic.passed(1, self._size(message))

    def _size(self, message: Message) -> int:
        """Of messages that hardly differ only the first is encoded."""
        key: tuple[type[Message], int] | None = None
        if isinstance(message, _ALIKE):
            key = type(message), 0
        elif isinstance(message, OffsetCommitRequest | OffsetCommitResponse):
            key = type(message), sum(len(t.partitions) for t in message.topics)
        if key is not None and key in self._sizes:
            return self._sizes[key]
        size = HEADER_BYTES + len(message.encode(min(type(message).versions.last, BY_NAME)))
        if key is not None:
            self._sizes[key] = size
        return size


class CountingConsumerBroker(CountingBroker, ConsumerBrokerActor):
    """The same with groups of the consumer protocol."""


class KafkaGroup(StudyGroup[M]):
    """One group on one broker."""

    broker: CountingBroker

    def __init__(self, load: Load, members: int) -> None:
        super().__init__(load)
        self.checks = load.checks and members <= CHECKED_UP_TO
        s = load.setting
        self._workload = Workload(
            load.partitions,
            load.records_per_s,
            s.auto_commit_interval_ms,
            listener_ms=s.listener_ms,
            poll_ms=s.poll_ms,
            joins_in_polls=s.joins_in_polls,
        )
        self._make_broker()
        self.broker.removals = load.removals

    @abstractmethod
    def _make_broker(self) -> None:
        """The broker with the group's coordinator."""

    def _member_id(self, name: str) -> str:
        """What the coordinator calls the member; "" before it knows."""
        member = self._members[name]
        return member.member_id if isinstance(member, StreamsReader) else member.machine.member_id

    def leave(self, name: str) -> None:
        self.load.removals.closed.add(self._member_id(name))
        self._members[name].leave()

    def kill(self, name: str) -> None:
        member = self._members[name]
        if self._member_id(name):
            self.load.removals.killed_ms[self._member_id(name)] = self.load.world.now_ms
        member.crash()

    def vanish(self, name: str) -> None:
        """The coordinator does not look at connections: it makes no difference."""
        self.kill(name)

    def pause(self, name: str, ms: int) -> None:
        self._members[name].pause(ms)
        self.still(name, self._members[name].owned, ms)

    def cut(self, name: str, ms: int) -> None:
        self.pause(name, ms)

    def slow(self, name: str, ms: int) -> None:
        self._members[name].stall(ms)
        self.still(name, self._members[name].owned, ms)

    def deaf(self, ms: int) -> None:
        """Members learn of a rebalance by their heartbeats' responses."""

    def actor_name(self, name: str) -> str:
        return name

    def traffic(self) -> tuple[int, int, dict[int, int]]:
        t = self.broker.traffic
        return t.messages, t.bytes, t.by_second


class ClassicGroup(KafkaGroup[ReadingMember]):
    """A group by the classic protocol."""

    def _make_broker(self) -> None:
        s, load = self.load.setting, self.load
        config = CoordinatorConfig(
            group_initial_rebalance_delay_ms=s.initial_delay_ms,
            group_min_session_timeout_ms=min(s.session_timeout_ms, 6_000),
        )
        self.broker = CountingBroker(load.world, config, {TOPIC: load.partitions}, checks=self.checks)

    def join(self, name: str) -> None:
        """Starts a member of that name."""
        s, load = self.load.setting, self.load
        config = MemberConfig(
            GROUP,
            name if s.static else None,
            s.session_timeout_ms,
            s.heartbeat_interval_ms,
            s.max_poll_interval_ms,
            assignors=(s.assignor or ASSIGNOR_OF_PROTOCOL[s.protocol],),
        )
        member = ReadingMember(
            load.world, self.broker, name, config, ownership=load.meter, load=self._workload, delivered=load.delivered
        )
        member.checks = self.checks
        if not s.member_id_required:
            member.api_version = BEFORE_MEMBER_IDS
        self._members[name] = member
        member.start()

    def grow(self, partitions: int) -> None:
        """Members see it when they renew their metadata, each at a random moment of metadata.max.age.ms; the leader acts."""
        world, broker = self.load.world, self.broker
        broker.partitions[TOPIC] = partitions
        topics = AssignableTopics(dict(broker.partitions))
        for member in self._members.values():
            world.after(world.between(0, self.load.setting.metadata_max_age_ms), partial(member.topics_seen, topics))

    def rebalances(self) -> int:
        return self.broker.rebalances


class ConsumerProtocolGroup(KafkaGroup[ReadingConsumer]):
    """By the consumer protocol (KIP-848), with the broker's default assignor (uniform)."""

    def _make_broker(self) -> None:
        s, load = self.load.setting, self.load
        config = CoordinatorConfig(
            group_consumer_session_timeout_ms=s.session_timeout_ms,
            group_consumer_heartbeat_interval_ms=s.heartbeat_interval_ms,
        )
        self._consumers = CountingConsumerBroker(load.world, config, {TOPIC: load.partitions}, checks=self.checks)
        self.broker = self._consumers

    def join(self, name: str) -> None:
        """Starts a member of that name."""
        s, load = self.load.setting, self.load
        config = ConsumerMemberConfig(
            GROUP, "", group_instance_id=name if s.static else None, max_poll_interval_ms=s.max_poll_interval_ms
        )
        member = ReadingConsumer(
            load.world,
            self._consumers,
            name,
            config,
            ownership=load.meter,
            load=self._workload,
            delivered=load.delivered,
        )
        member.checks = self.checks
        self._members[name] = member
        member.start()
        if s.static:
            self._restart_later(member)

    def _restart_later(self, member: ReadingConsumer) -> None:
        """A static member whose predecessor was killed is refused until that one's session has ended
        (UNRELEASED_INSTANCE_ID). Its process ends, and is started again."""

        def restart() -> None:
            if member.failed is not None and not member.alive:
                member.start()
                self._restart_later(member)
            elif member.alive and member.epoch <= 0:
                self._restart_later(member)

        self.load.world.after(RESTART_MS, restart)

    @property
    def topics(self) -> TopicsImage:
        """The topics as the coordinator knows them."""
        return self._consumers.topics

    def grow(self, partitions: int) -> None:
        """The coordinator knows at once."""
        self._consumers.set_partitions(TOPIC, partitions)

    def rebalances(self) -> int:
        """Group epochs: each is a new target assignment, and no member waits for another."""
        return self._consumers.epochs_raised


class StreamsProtocolGroup(KafkaGroup[StreamsReader]):
    """Instances of Kafka Streams, each with one thread, whose tasks are the topic's partitions and have no state, with the
    broker's only assignor (sticky)."""

    def _make_broker(self) -> None:
        s, load = self.load.setting, self.load
        config = CoordinatorConfig(
            group_streams_session_timeout_ms=s.session_timeout_ms,
            group_streams_heartbeat_interval_ms=s.heartbeat_interval_ms,
            group_streams_initial_rebalance_delay_ms=s.initial_delay_ms,
        )
        self._streams = CountingConsumerBroker(load.world, config, {TOPIC: load.partitions}, checks=self.checks)
        self.broker = self._streams

    def join(self, name: str) -> None:
        """Starts an instance of that name."""
        load = self.load
        reader = Reader(load.world, load.records_per_s, load.delivered)
        member = StreamsReader(load.world, self._streams, name, TOPIC, load.meter, reader)
        member.commit_interval_ms, member.suspend_ms = load.setting.auto_commit_interval_ms, load.setting.listener_ms
        self._members[name] = member
        member.start()

    def grow(self, partitions: int) -> None:
        """The coordinator knows at once."""
        self._streams.set_partitions(TOPIC, partitions)

    def rebalances(self) -> int:
        """Group epochs, as of the consumer protocol."""
        return self._streams.epochs_raised
