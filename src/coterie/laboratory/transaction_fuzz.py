"""One seed, one story of producers: they commit offsets in transactions, come too late, stall past their timeout, share a
transactional id and fence each other; the broker dies anywhere between a decision and its end, its disk fails, and its log
may hold what an older coordinator left pending. The rules are in `transaction_checker`, checked after every step.
"""

from __future__ import annotations

from dataclasses import dataclass

from coterie.coordinator.outcome import CoordinatorConfig
from coterie.coordinator.transactions.state import OPEN
from coterie.laboratory.broker_actor import Durability
from coterie.laboratory.fuzz import naming_seed
from coterie.laboratory.producer_actor import Offsets, ProducerActor
from coterie.laboratory.transaction_checker import GROUP
from coterie.laboratory.transactional_broker import TransactionalBroker
from coterie.laboratory.world import World

SETTLE_MS = 60_000  # longer than any transaction's timeout and two rounds of upkeep
ORPHANS_PRODUCER = 10**9


@dataclass(frozen=True, slots=True)
class TransactionReport:
    """The result of one seed. ``refused``: offsets that were sent outside a transaction. ``commits_of_version_2`` of
    ``commits`` (KIP-890). ``torn``: transactions of version 1 that committed what was late of an aborted one."""

    seed: int
    events: int
    commits: int
    commits_of_version_2: int
    aborts: int
    refused: int
    torn: int
    broker_crashes: int
    producers: int


def run_transaction_seed(
    seed: int, minutes: float = 5.0, *, transaction_version: int | None = None
) -> TransactionReport:
    """Runs one seed for so many virtual minutes; ``transaction_version``: of the cluster and of every producer, None where
    the seed chooses. Raises FuzzFailure naming the seed."""
    with naming_seed(seed):
        return _Story(seed, transaction_version).run(int(minutes * 60_000))


class _Story:
    def __init__(self, seed: int, transaction_version: int | None = None) -> None:
        self.seed, self._only = seed, transaction_version
        self.world = World(seed)
        rng = self.world.random
        durability = rng.choice([Durability.PROCESS, Durability.PROCESS, Durability.POWER, Durability.LYING])
        self.broker = TransactionalBroker(self.world, CoordinatorConfig(), durability)
        self._finalize([0, 1, 2, 2, 2])
        if rng.random() < 0.5:
            self.broker.plant_orphan(GROUP, ORPHANS_PRODUCER, ("t", 0), 10**9)
            self.broker.crash()
            self.broker.start()
        offsets = Offsets()
        versions = rng.choice([[0], [2], [0, 2, 2]]) if self._only is None else [self._only]
        names = ["x", "x", "y", "z", None, None]
        self.producers = [
            ProducerActor(self.world, self.broker, name, rng.choice([5_000, 20_000]), offsets, rng.choice(versions))
            for name in rng.sample(names, rng.randint(2, len(names)))
        ]

    def _finalize(self, levels: list[int]) -> None:
        level = self.world.random.choice(levels)
        self.broker.finalize(level if self._only is None else self._only)

    def run(self, length_ms: int) -> TransactionReport:
        world, end_ms = self.world, self.world.now_ms + length_ms
        world.faults.break_probability = world.random.choice([0.0, 0.01, 0.05])
        world.faults.double_probability = world.random.choice([0.0, 0.0, 0.02])
        self.broker.checker.copies_are_late = world.faults.double_probability > 0
        world.faults.max_delay_ms = world.random.choice([5, 50, 400])
        for producer in self.producers:
            world.after(world.random.randint(0, 5_000), producer.start)
        self.world.strike_until(end_ms, 10_000, self._one_fault)
        world.run_until(end_ms)
        world.faults.break_probability = world.faults.double_probability = 0.0
        broker = self.broker
        broker.failing_appends = broker.failing_syncs = broker.forgetful_syncs = broker.dies_after_writes = 0
        if not broker.up:
            broker.start()
        for producer in self.producers:
            producer.crash()
        world.run_until(end_ms + SETTLE_MS)
        self._at_rest()
        return TransactionReport(
            self.seed,
            world.events,
            broker.checker.commits,
            broker.checker.commits_of_version_2,
            aborts=broker.checker.aborts,
            refused=sum(p.refused for p in self.producers),
            torn=broker.checker.torn,
            broker_crashes=broker.crashes,
            producers=len(self.producers),
        )

    def _one_fault(self) -> None:
        world, rng, broker = self.world, self.world.random, self.broker
        producer = rng.choice(self.producers)
        match rng.choice(["crash", "stall", "return", "return", "broker", "write", "append", "disk", "level"]):
            case "broker" if broker.up:
                broker.crash()
                world.after(rng.randint(100, 8_000), broker.restart)
            case "write":
                broker.dies_after_writes = rng.randint(1, 6)
            case "append":
                broker.failing_appends = rng.randint(1, 3)
            case "disk" if broker.durability == Durability.LYING:
                broker.forgetful_syncs = rng.randint(1, 20)
            case "disk" if broker.durability == Durability.POWER:
                broker.failing_syncs = 1
                world.after(rng.randint(5_000, 10_000), broker.restart)
            case "return" if not producer.alive:
                producer.start()
            case "crash":
                producer.crash()
            case "level" if rng.random() < 0.3:
                self._finalize([0, 1, 2, 2])
            case "stall":
                producer.stalled_until_ms = world.now_ms + rng.randint(1_000, 40_000)

    def _at_rest(self) -> None:
        """Without producers every transaction ends by its timeout, and nothing stays pending."""
        broker = self.broker
        still = [t.transactional_id for t in broker.machine.by_id.values() if t.status in OPEN]
        assert not still, f"transactions of {still} are open {SETTLE_MS} ms after their producers ended"
        pending = broker.shard.pending_producers()
        assert not pending, f"offsets of {pending} are pending with no transaction open"
        broker.checker.check(broker.shard)
        broker.check_log()
