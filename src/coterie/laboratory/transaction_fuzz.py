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
    """The result of one seed. ``refused``: offsets that were sent outside a transaction."""

    seed: int
    events: int
    commits: int
    aborts: int
    refused: int
    broker_crashes: int
    producers: int


def run_transaction_seed(seed: int, minutes: float = 5.0) -> TransactionReport:
    """Runs one seed for so many virtual minutes. Raises FuzzFailure naming the seed."""
    with naming_seed(seed):
        return _Story(seed).run(int(minutes * 60_000))


class _Story:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.world = World(seed)
        rng = self.world.random
        durability = rng.choice([Durability.PROCESS, Durability.PROCESS, Durability.POWER, Durability.LYING])
        self.broker = TransactionalBroker(self.world, CoordinatorConfig(), durability)
        if rng.random() < 0.5:
            self.broker.plant_orphan(GROUP, ORPHANS_PRODUCER, ("t", 0), 10**9)
            self.broker.crash()
            self.broker.start()
        offsets = Offsets()
        names = ["x", "x", "y", "z", None, None]
        self.producers = [
            ProducerActor(self.world, self.broker, name, rng.choice([5_000, 20_000]), offsets)
            for name in rng.sample(names, rng.randint(2, len(names)))
        ]

    def run(self, length_ms: int) -> TransactionReport:
        world, end_ms = self.world, self.world.now_ms + length_ms
        world.faults.break_probability = world.random.choice([0.0, 0.01, 0.05])
        world.faults.double_probability = world.random.choice([0.0, 0.0, 0.02])
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
            broker.checker.aborts,
            sum(p.refused for p in self.producers),
            broker.crashes,
            len(self.producers),
        )

    def _one_fault(self) -> None:
        world, rng, broker = self.world, self.world.random, self.broker
        producer = rng.choice(self.producers)
        match rng.choice(["crash", "stall", "return", "return", "broker", "write", "append", "disk"]):
            case "broker" if broker.up:
                broker.crash()
                world.after(rng.randint(100, 8_000), lambda: None if broker.up else broker.start())
            case "write":
                broker.dies_after_writes = rng.randint(1, 6)
            case "append":
                broker.failing_appends = rng.randint(1, 3)
            case "disk" if broker.durability == Durability.LYING:
                broker.forgetful_syncs = rng.randint(1, 20)
            case "disk" if broker.durability == Durability.POWER:
                broker.failing_syncs = 1
                world.after(rng.randint(5_000, 10_000), lambda: None if broker.up else broker.start())
            case "return" if not producer.alive:
                producer.start()
            case "crash":
                producer.crash()
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
