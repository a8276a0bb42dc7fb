"""A consumer, of either group protocol, that reads at a steady rate, commits by itself, and now and then has trouble."""

from __future__ import annotations

from dataclasses import dataclass

from coterie.coordinator.offsets.fetch import fetch_offsets
from coterie.laboratory.brokers.broker_actor import BrokerActor
from coterie.laboratory.brokers.consumer_broker_actor import ConsumerBrokerActor
from coterie.laboratory.deliveries import Delivered, Ownership, Reader, TopicPartition
from coterie.laboratory.members.actor_commits import ActorCommits
from coterie.laboratory.members.group_member_actor import GROUP, C, GroupMemberActor, M
from coterie.laboratory.members.member_actors import ConsumerMemberActor, MemberActor
from coterie.laboratory.world import World
from coterie.member.config import ConsumerMemberConfig, MemberConfig
from coterie.member.consumer.machine import ConsumerMemberMachine
from coterie.member.machine import MemberMachine
from coterie.wire.declaration import Message
from coterie.wire.messages.groups.join_group import JoinGroupRequest
from coterie.wire.messages.groups.sync_group import SyncGroupRequest

TOPIC = "t"
CLOSE_MS = 30_000  # KafkaConsumer.close waits so long for its commit
HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Workload:
    """What members do, and their faults. ``poll_ms``: their code takes so long for the records of a poll, and they take part in
    a rebalance with the next one; a member that owns nothing waits in its poll. ``joins_in_polls``: as Java's consumer of the
    classic protocol, which takes the responses of a rebalance in its polls too; while it keeps partitions it joins a poll
    later, since the one before only sends its commit (ConsumerCoordinator.onJoinPrepare).
    A slow poll keeps the heartbeats going; a pause stops the whole process, as a collector of garbage or a suspended machine
    does; both are of random length around the mean."""

    partitions: int = 24
    records_per_s: int = 100  # per partition
    auto_commit_interval_ms: int = 5_000
    listener_ms: int = 100
    poll_ms: int = 0
    joins_in_polls: bool = False
    slow_polls_per_hour: float = 0.0  # per member
    slow_poll_ms: int = 400_000
    pauses_per_hour: float = 0.0
    pause_ms: int = 8_000


class ReadingActor(GroupMemberActor[C, M]):
    """Computes its records read only on request."""

    reader: Reader
    _load: Workload

    def _set_up(self, broker: BrokerActor, load: Workload, delivered: Delivered) -> None:
        self._coordinator = broker
        self._load, self.listener_ms = load, load.listener_ms
        self.reader = Reader(self.world, load.records_per_s, delivered)

    def _make_commits(self) -> ActorCommits:
        return ActorCommits(self, self._load.auto_commit_interval_ms)

    @property
    def positions(self) -> dict[TopicPartition, int]:
        return self.reader.positions

    def start(self) -> None:
        self.reader.stop_all()
        self._started_ms = self._faults_until_ms = self.world.now_ms
        self._is_in_poll = False
        super().start()

    def _until_poll_ms(self) -> int:
        """Of all polls of a consumer, the one that finds an automatic commit due, and enough of them for the group."""
        due_ms = self._world_ms(self.commits.auto_commit_due_ms) - self.world.now_ms
        jitter_ms = self.world.between(0, self._load.auto_commit_interval_ms // 10)
        return max(min(due_ms, self.config.max_poll_interval_ms // 3), 1) + jitter_ms

    def _work(self) -> None:
        self._read()
        self.commits.poll()

    def _poll_once(self) -> None:
        self._fault()
        super()._poll_once()

    def _fault(self) -> None:
        world, load = self.world, self._load
        hours, self._faults_until_ms = (world.now_ms - self._faults_until_ms) / HOUR_MS, world.now_ms
        if world.chance(load.slow_polls_per_hour * hours):
            self.stall(int(load.slow_poll_ms * world.random.expovariate(1)))
        if world.chance(load.pauses_per_hour * hours):
            self.pause(int(load.pause_ms * world.random.expovariate(1)))

    def stall(self, ms: int) -> None:
        """Its code takes so long with what it has polled; heartbeats go on."""
        self._read()
        self.stalled_until_ms = self.world.now_ms + ms
        self.world.after(ms, self._read_again)

    def pause(self, ms: int) -> None:
        """Reads and sends nothing: the process is stalled, or its network is cut."""
        self._read()
        self.cut_off_until_ms = self.world.now_ms + ms
        self.world.after(ms, self._read_again)

    def _read_again(self) -> None:
        self.reader.skip()

    def _read(self) -> None:
        """Up to now; while it is stalled or paused it reads nothing."""
        if self.world.now_ms >= max(self.stalled_until_ms, self.cut_off_until_ms):
            self.reader.read()
        else:
            self.reader.skip()

    def _until_next_poll_ms(self) -> int:
        """0 where polls follow each other at once: a member that owns nothing waits in its poll."""
        if not self._load.poll_ms or not self.owned or self._is_in_poll:
            return 0
        return (self._started_ms - self.world.now_ms) % self._load.poll_ms

    def _send(self, request: Message) -> None:
        """A JoinGroup waits for the next poll, for half a session at most: meanwhile the actor sends no heartbeats."""
        wait_ms = 0
        if isinstance(request, JoinGroupRequest):
            wait_ms = self._until_next_poll_ms()
            if self._load.joins_in_polls and self.owned:
                wait_ms += self._load.poll_ms
            wait_ms = min(wait_ms, request.session_timeout_ms // 2)
            self._is_in_poll = False
        if wait_ms:
            self._after(wait_ms, lambda: super(ReadingActor, self)._send(request))
        else:
            super()._send(request)

    def _received(self, request: Message, response: Message) -> None:
        wait_ms = 0
        if self._load.joins_in_polls and isinstance(request, JoinGroupRequest | SyncGroupRequest):
            wait_ms = self._until_next_poll_ms()
        if wait_ms:
            self._after(wait_ms, lambda: super(ReadingActor, self)._received(request, response))
        else:
            super()._received(request, response)

    def _give_up(self, partitions: tuple[TopicPartition, ...], lost: bool) -> None:
        wait_ms = 0 if lost else self._until_next_poll_ms()
        if wait_ms:
            self._after(wait_ms, lambda: self._give_up_in_poll(partitions, lost))
        else:
            self._give_up_in_poll(partitions, lost)

    def _give_up_in_poll(self, partitions: tuple[TopicPartition, ...], lost: bool) -> None:
        self._is_in_poll = True
        self._read()
        GroupMemberActor._give_up(self, partitions, lost)
        for partition in set(partitions) - self.owned:
            self.reader.stop(partition)

    def crash(self) -> None:
        self._read()
        super().crash()

    def leave(self) -> None:
        """A clean close: what was read is committed first."""
        self._read()
        self.reader.pause()
        self.commits.commit_now(lambda: self._after(0, self._close), CLOSE_MS)
        self.pump()

    def _begin_reading(self, added: tuple[TopicPartition, ...]) -> None:
        """The committed offsets are known at once: looking them up is no part of what the study measures."""
        self._is_in_poll = False
        requested: dict[str, list[int]] = {}
        for topic, partition in added:
            requested.setdefault(topic, []).append(partition)
        group = self._coordinator.shard.group(GROUP)
        for topic, committed in fetch_offsets(group, requested.items()):
            for p in committed:
                self.reader.begin((topic, p.partition_index), max(p.committed_offset, 0))


class ReadingMember(ReadingActor[MemberConfig, MemberMachine], MemberActor):
    """A reading consumer that is a member by the classic protocol."""

    def __init__(
        self,
        world: World,
        broker: BrokerActor,
        name: str,
        config: MemberConfig,
        ownership: Ownership,
        load: Workload,
        delivered: Delivered,
    ) -> None:
        MemberActor.__init__(self, world, broker, name, config, frozenset({TOPIC}), ownership)
        self._set_up(broker, load, delivered)

    def _take(self, partitions: tuple[TopicPartition, ...], added: tuple[TopicPartition, ...]) -> None:
        self._begin_reading(added)


class ReadingConsumer(ReadingActor[ConsumerMemberConfig, ConsumerMemberMachine], ConsumerMemberActor):
    """A reading consumer that is a member by the consumer protocol (KIP-848); its listener raises nothing."""

    def __init__(
        self,
        world: World,
        broker: ConsumerBrokerActor,
        name: str,
        config: ConsumerMemberConfig,
        ownership: Ownership,
        load: Workload,
        delivered: Delivered,
    ) -> None:
        ConsumerMemberActor.__init__(self, world, broker, name, config, frozenset({TOPIC}), ownership)
        self._set_up(broker, load, delivered)

    def _take(self, partitions: tuple[TopicPartition, ...], added: tuple[TopicPartition, ...]) -> None:
        self._begin_reading(added)
        self.machine.assigned()

    def _revoked(self) -> None:
        GroupMemberActor._revoked(self)


AnyReader = ReadingMember | ReadingConsumer
