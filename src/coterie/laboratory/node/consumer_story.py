"""One seed, one story of whole clients: a group of consumers polls, commits and rebalances while producers write, through
the broker's own handlers, on a network and a disk that fail.

The rules are in `delivery_checker` and `record_checker`. At the end, with all faults off, the group must come to rest: Stable,
every partition owned by one consumer, everything polled and committed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from coterie.consuming.fetching.config import FetchConfig
from coterie.coordinator.consumer.state import ConsumerGroup, ConsumerGroupState
from coterie.coordinator.replay import AnyGroup
from coterie.coordinator.state import Phase
from coterie.laboratory.consumer_broker_actor import GroupKind, kind_of
from coterie.laboratory.consumer_group_checker import check_consumer_group
from coterie.laboratory.fuzz import ASSIGNORS_OF_KIND, SETTLE_MS, holds
from coterie.laboratory.group_member_actor import C
from coterie.laboratory.member_actor import GROUP
from coterie.laboratory.node.consumer import ConsumerParts
from coterie.laboratory.node.delivery_checker import DeliveryChecker
from coterie.laboratory.node.group_consumers import AnyConsumer, ClassicConsumer, ServerAssignedConsumer
from coterie.laboratory.node.producer import ProducingClient
from coterie.laboratory.node.story import TOPICS, RecordsStory
from coterie.laboratory.ownership import Ownership
from coterie.machines.backoff import Backoff
from coterie.member.config import MemberConfig
from coterie.member.consumer.config import ConsumerMemberConfig
from coterie.producing.config import ProducingConfig
from coterie.wire.errors import ErrorCode

LAST_COMMIT_MS = 20_000
KINDS = tuple(kind for kind in ASSIGNORS_OF_KIND if kind != "migration")


@dataclass(frozen=True, slots=True)
class ClientsReport:
    """The result of one seed. ``delivered``: records, to any consumer; ``copied``: to another topic, and committed there;
    ``committed``: offsets at the end, summed; ``generation``: of a group of the consumer protocol the group epoch;
    ``with_...``: whether the group was seen with members of the consumer protocol alone, and of both."""

    seed: int
    events: int
    acknowledged: int
    delivered: int
    copied: int
    committed: int
    generation: int
    disk_failures: int
    broker_crashes: int
    with_consumer: bool
    with_mixed: bool


class ConsumersStory(RecordsStory):
    """A `RecordsStory` whose readers are a group of consumers. ``committed_only``: whatever the seed says; ``copied``: records
    of the output."""

    committed_only: ClassVar[bool] = False
    copied = 0

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        rng = self.world.random
        self.readers = [reader for reader in self.readers if reader.name == "d"]
        self.delivery = DeliveryChecker(self.checker, committed_only=rng.random() < 0.5)
        self.kind = rng.choice(KINDS)
        self.kinds: set[GroupKind] = set()
        self.ownership = Ownership()
        self.consumers = [self._consumer(number) for number in range(rng.randint(1, 4))]
        self.producers = [self._producer(number) for number in range(rng.randint(1, 2))]
        self.writers += self.producers

    def _config(self, number: int) -> MemberConfig | ConsumerMemberConfig:
        rng = self.world.random
        return MemberConfig(
            GROUP,
            f"i{number}" if rng.random() < 0.3 else None,
            session_timeout_ms=rng.choice([6_000, 10_000, 30_000]),
            heartbeat_interval_ms=rng.choice([500, 1_000, 2_000]),
            max_poll_interval_ms=rng.choice([10_000, 30_000]),
            assignors=rng.choice(ASSIGNORS_OF_KIND[self.kind]),
        )

    def _consumer(self, number: int) -> AnyConsumer:
        rng = self.world.random
        config = self._config(number)
        fetch = FetchConfig(
            min_bytes=rng.choice([1, 1, 2_000]),
            max_bytes=rng.choice([500, 5_000, 1_000_000]),
            max_wait_ms=rng.choice([0, 100, 500]),
            max_partition_bytes=rng.choice([100, 2_000, 100_000]),
            buffer_bytes=rng.choice([1_000, 100_000]),
            committed_only=self.committed_only or self.delivery.committed_only,
            incremental=rng.random() < 0.7,
            validates=True,
        )
        consumer = self._make_consumer(f"c{number}", config, fetch)
        consumer.listener_ms = rng.choice([0, 0, 50, 1_000])
        return consumer

    def _make_consumer(self, name: str, config: MemberConfig | ConsumerMemberConfig, fetch: FetchConfig) -> AnyConsumer:
        if isinstance(config, ConsumerMemberConfig):
            return ServerAssignedConsumer(self._parts(name, config, fetch))
        return ClassicConsumer(self._parts(name, config, fetch))

    def _parts(self, name: str, config: C, fetch: FetchConfig) -> ConsumerParts[C]:
        shared = frozenset(TOPICS), self.ownership, self.delivery
        return ConsumerParts(self.world, self.broker, name, config, *shared, fetch)

    def _producer(self, number: int) -> ProducingClient:
        rng = self.world.random
        config = ProducingConfig(
            batch_size=rng.choice([100, 500, 1_500]),
            linger_ms=rng.choice([0, 5, 100]),
            delivery_timeout_ms=rng.choice([5_000, 30_000, 120_000]),
            request_timeout_ms=rng.choice([500, 3_000]),
            max_in_flight=rng.choice([1, 2, 5]),
            backoff=Backoff(rng.choice([1, 100]), 1_000),
        )
        return ProducingClient(self.world, self.broker, f"q{number}", self.partitions, self.checker, config)

    def run_clients(self, length_ms: int) -> ClientsReport:
        """Runs the story for ``length_ms`` of virtual time, ends the faults, waits until all is read and committed, and
        checks it."""
        world, broker, end_ms = self.world, self.broker, self.world.now_ms + length_ms
        world.faults.break_probability = world.random.choice([0.0, 0.01, 0.05])
        world.faults.max_delay_ms = world.random.choice([5, 50, 400])
        for start in [client.start for client in (*self.writers, *self.readers)] + [c.start for c in self.consumers]:
            world.after(world.random.randint(0, 5_000), start)
        world.strike_until(end_ms, 10_000, self._one_fault)
        world.strike_until(end_ms, 12_000, self._consumer_fault)
        world.run_until(end_ms)
        self.end_faults()
        for consumer in self.consumers:
            consumer.stalled_until_ms = consumer.cut_off_until_ms = 0
            consumer.fetch_eagerly()
            if not consumer.alive:
                consumer.start()
        world.run_to_rest(SETTLE_MS, self._is_at_rest)
        if self._start_the_failed():
            world.run_to_rest(SETTLE_MS, self._is_at_rest)
        world.run_to_rest(LAST_COMMIT_MS, self._is_at_rest)
        self._check_at_rest()
        self._check_committed()
        committed = self._committed()
        self.at_rest()
        return ClientsReport(
            self.seed,
            world.events,
            self.checker.acknowledged,
            delivered=self.delivery.deliveries,
            copied=self.copied,
            committed=sum(committed.values()),
            generation=self._generation(),
            disk_failures=broker.disk.failures,
            broker_crashes=broker.crashes,
            with_consumer=GroupKind.CONSUMER in self.kinds,
            with_mixed=GroupKind.MIXED in self.kinds,
        )

    def _consumer_fault(self) -> None:
        world, rng = self.world, self.world.random
        consumer = rng.choice(self.consumers)
        self._check_committed()
        match rng.choice(["crash", "leave", "stall", "cut", "return", "return"]):
            case "return":
                for each in self.consumers:
                    if not each.alive:
                        each.start()
            case "cut":
                consumer.cut_off_until_ms = world.now_ms + rng.randint(500, 40_000)
            case "crash" if consumer.alive:
                consumer.crash()
            case "leave" if consumer.alive:
                consumer.leave()
            case "stall" if consumer.alive:
                consumer.stalled_until_ms = world.now_ms + rng.randint(1_000, 40_000)

    def _group(self) -> AnyGroup | None:
        groups = {group.group_id: group for group in self.broker.node.groups.loaded_groups()}
        return groups.get(GROUP)

    def _generation(self) -> int:
        group = self._group()
        assert group is not None
        return group.group_epoch if isinstance(group, ConsumerGroup) else group.generation

    def _committed(self) -> dict[tuple[str, int], int]:
        group = self._group()
        return {} if group is None else {partition: kept.offset for partition, kept in group.offsets.items()}

    def _check_committed(self) -> None:
        if self.broker.up:
            self.delivery.check_committed(self._committed())
            self._check_epochs()
            self._check_group()

    def _check_epochs(self) -> None:
        group = self._group()
        for partition, kept in {} if group is None else group.offsets.items():
            epochs = self.broker.node.topics.partition(*partition).log.epochs.cache
            self.delivery.check_epoch(partition, kept.offset, kept.leader_epoch, epochs)

    def _check_group(self) -> None:
        """The parts of a group of the consumer protocol, and that nobody reads what others may have."""
        group = self._group()
        kind = None if group is None else kind_of(group)
        if kind is not None:
            self.kinds.add(kind)
        if isinstance(group, ConsumerGroup):
            check_consumer_group(group)
            self.consumers[0].check_readers()

    def _start_the_failed(self) -> bool:
        """A static member may be fenced by a late request of its own former process, and one of the consumer protocol refused
        for as long as that has its session. A member of the consumer protocol that the group has dropped ends where only
        classic members were left, and the group is theirs. Nothing else may end one."""
        ended = [consumer for consumer in self.consumers if not consumer.alive]
        for consumer in ended:
            assert consumer.failed is not None, f"{consumer.name} ended without an error"
            assert consumer.failed.code in self._may_end_by(consumer), f"{consumer.name} failed: {consumer.failed}"
            consumer.start()
        return bool(ended)

    def _may_end_by(self, consumer: AnyConsumer) -> frozenset[ErrorCode]:
        return consumer.may_end_by

    def _is_at_rest(self) -> bool:
        alive = self.broker.up and all(consumer.alive for consumer in self.consumers)
        return alive and holds(self._check_at_rest) and self.is_written()

    def _check_at_rest(self) -> None:
        """What must hold of clients once the faults are over."""
        unfinished = [producer.name for producer in self.producers if producer.unfinished()]
        assert not unfinished, f"batches of {unfinished} have no end"
        group = self._group()
        assert group is not None, "the group is gone although consumers live"
        stable = ConsumerGroupState.STABLE if isinstance(group, ConsumerGroup) else Phase.STABLE
        assert group.phase == stable, f"the group is {group.phase} {SETTLE_MS} ms after the last fault"
        joined = {consumer.machine.member_id for consumer in self.consumers}
        assert set(group.members) == joined, (
            f"the group has {sorted(group.members)}, its consumers are {sorted(joined)}"
        )
        committed = self._committed()
        for partition in self.partitions:
            owners = [consumer for consumer in self.consumers if partition in consumer.owned]
            assert len(owners) == 1, f"{partition} is owned by {[owner.name for owner in owners]}"
            end_offset = self.broker.node.topics.partition(*partition).log.end_offset
            position = {tuple(tp): p.offset for tp, p in owners[0].fetching.positions.items()}.get(partition)
            assert position == end_offset, (
                f"{owners[0].name} is at {position} of {partition}, which ends at {end_offset}"
            )
            assert committed.get(partition, 0) == end_offset, f"{partition}: committed is {committed.get(partition)}"
