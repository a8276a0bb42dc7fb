"""One seed, one story of records: producers write through the broker's own handlers, readers fetch and delete; the disk
fails writes half-way, is full, fails syncs or is slow; the process dies in any operation, and the machine with it.

The rules are in `record_checker`, checked after each start and at the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol

from coterie.laboratory.broker_actor import Durability
from coterie.laboratory.fuzz import naming_seed, without_log_lines
from coterie.laboratory.node.broker import SETTINGS, LaboratoryBroker
from coterie.laboratory.node.readers import RecordDeleter, RecordReader
from coterie.laboratory.node.record_checker import RecordChecker, TopicPartition
from coterie.laboratory.node.writers import IdempotentWriter, PlainWriter, TransactionalWriter
from coterie.laboratory.world import World
from coterie.log.partition_log import PartitionLog

SETTLE_MS = 90_000  # longer than any transaction's timeout and two rounds of the broker's upkeep
TOPICS = {"t": 2, "u": 1}


@dataclass(frozen=True, slots=True)
class RecordsReport:
    """The result of one seed. ``refused``: batches; ``disk_failures``: writes and syncs that failed."""

    seed: int
    events: int
    acknowledged: int
    refused: int
    transactions: int
    disk_failures: int
    broker_crashes: int


def run_records_seed(seed: int, minutes: float = 5.0) -> RecordsReport:
    """Runs one seed for so many virtual minutes. Raises FuzzFailure naming the seed."""
    with naming_seed(seed), without_log_lines():
        return RecordsStory(seed).run(int(minutes * 60_000))


def _partitions_of(topics: Mapping[str, int]) -> list[TopicPartition]:
    return [(topic, n) for topic, count in topics.items() for n in range(count)]


class StoryProcess(Protocol):
    """A client of a story."""

    name: str

    def start(self) -> None:
        """Nothing where it is alive."""

    def crash(self) -> None: ...

    def finish(self) -> None:
        """The end of the story's faults: no new work begins."""


class RecordsStory:
    """The processes of one seed. ``outputs``: topics that no writer has."""

    outputs: ClassVar[dict[str, int]] = {}

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.world = world = World(seed)
        rng = world.random
        durability = rng.choice([Durability.PROCESS, Durability.POWER])
        self.checker = RecordChecker()
        self.broker = LaboratoryBroker(world, durability, TOPICS | self.outputs, self._broker_settings())
        self.broker.loaded = self._check_logs
        self.output_partitions = _partitions_of(self.outputs)
        self.partitions = partitions = _partitions_of(TOPICS)
        common = (partitions, self.checker)
        self.writers: list[StoryProcess] = [PlainWriter(world, self.broker, "p", *common)]
        self.writers += [IdempotentWriter(world, self.broker, f"i{n}", *common) for n in range(rng.randint(1, 2))]
        names = rng.sample(["x", "x", "y", "z"], rng.randint(0, 3))
        self.writers += [
            TransactionalWriter(world, self.broker, f"x{n}", *common, name) for n, name in enumerate(names)
        ]
        self.readers: list[StoryProcess] = [
            RecordReader(world, self.broker, f"r{n}", *common, committed=bool(n)) for n in range(2)
        ]
        if rng.random() < 0.5:
            self.readers.append(RecordDeleter(world, self.broker, "d", *common))

    def _broker_settings(self) -> Mapping[str, str]:
        return SETTINGS

    def run(self, length_ms: int) -> RecordsReport:
        """Runs the story for ``length_ms`` of virtual time, ends the faults, waits until all is written, and checks it."""
        world, broker, end_ms = self.world, self.broker, self.world.now_ms + length_ms
        world.faults.break_probability = world.random.choice([0.0, 0.01, 0.05])
        world.faults.max_delay_ms = world.random.choice([5, 50, 400])
        for client in (*self.writers, *self.readers):
            world.after(world.random.randint(0, 5_000), client.start)
        world.strike_until(end_ms, 10_000, self._one_fault)
        world.run_until(end_ms)
        self.end_faults()
        world.run_to_rest(SETTLE_MS, self.is_written)
        self.at_rest()
        return RecordsReport(
            self.seed,
            world.events,
            self.checker.acknowledged,
            self.checker.refused,
            transactions=len(self.checker.transactions),
            disk_failures=broker.disk.failures,
            broker_crashes=broker.crashes,
        )

    def end_faults(self) -> None:
        """Also ends what writes and deletes."""
        self.world.faults.break_probability = 0.0
        self.broker.disk.mend()
        self.broker.slow_sync_ms = 0
        for client in (*self.writers, *self.readers):
            client.finish()

    def _one_fault(self) -> None:
        world, rng, broker = self.world, self.world.random, self.broker
        client = rng.choice([*self.writers, *self.readers])
        match rng.choice(["crash", "return", "return", "broker", "stop", "write", "full", "sync", "slow", "dies"]):
            case "broker":
                broker.crash()
            case "stop":
                broker.stop()
            case "write":
                broker.disk.failing_writes = rng.randint(1, 6)
            case "full":
                broker.disk.full = True
                world.after(rng.randint(10, 8_000), broker.disk.mend)
            case "sync":
                broker.disk.failing_syncs = 1
            case "slow":
                broker.slow_sync_ms = rng.choice([0, 50, 1_500])
                broker.disk.fails_overlapping = broker.slow_sync_ms > 0  # of a segment that is full meanwhile
            case "dies":
                broker.disk.dies_in = rng.randint(1, 30)
            case "crash":
                client.crash()
            case "return":
                for each in (*self.writers, *self.readers):
                    each.start()

    def _check_logs(self) -> None:
        for partition, log in self._logs().items():
            self.checker.check_log(partition, log)

    def _logs(self) -> dict[TopicPartition, PartitionLog]:
        return {p: self.broker.node.topics.partition(*p).log for p in self.partitions + self.output_partitions}

    def is_written(self) -> bool:
        """Whether the broker is up and no transaction is open."""
        return self.broker.up and all(log.last_stable_offset == log.end_offset for log in self._logs().values())

    def at_rest(self) -> dict[TopicPartition, list[bytes]]:
        """Everything that must hold of the logs; what a reader of committed records gets. Raises AssertionError."""
        broker, world = self.broker, self.world
        assert broker.up, "the broker does not come up on a disk without faults"
        self._check_logs()
        logs = self._logs()
        for partition, log in logs.items():
            assert log.last_stable_offset == log.end_offset, f"{partition}: a transaction is open for ever"
        reader = RecordReader(world, broker, "last", list(logs), self.checker, committed=True, eager=True)
        reader.start()
        world.run_to_rest(SETTLE_MS, reader.is_done, rest_ms=0)
        assert reader.is_done(), f"a reader is at {reader.positions} of {reader.high_watermarks}"
        for partition, log in logs.items():
            self.checker.check_committed(partition, log, reader.values[partition])
        starts = {partition: log.log_start_offset for partition, log in logs.items()}
        self.checker.check_whole_transactions(reader.values, starts)
        return reader.values
