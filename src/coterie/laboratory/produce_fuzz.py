"""One seed, one story of producers without transactions: brokers die, leaders move, appends fail before or after they are in
the log, connections break with requests under way, producers stand still and die. The rules are in `produce_checker`.
"""

from __future__ import annotations

from dataclasses import dataclass

from coterie.laboratory.broker_actor import Durability
from coterie.laboratory.fuzz import naming_seed
from coterie.laboratory.produce_cluster import NODES, ProduceCluster
from coterie.laboratory.sending_actor import SendingActor
from coterie.laboratory.world import World
from coterie.machines.backoff import Backoff
from coterie.producing.config import ProducingConfig

SETTLE_MS = 60_000  # longer than any delivery timeout


@dataclass(frozen=True, slots=True)
class ProduceReport:
    """The result of one seed, in records; ``duplicates`` are batches that a broker had already, ``splits`` batches that were
    sent in pieces."""

    seed: int
    events: int
    given: int
    acknowledged: int
    failed: int
    duplicates: int
    splits: int
    broker_crashes: int


def run_produce_seed(seed: int, minutes: float = 2.0) -> ProduceReport:
    """Runs one seed for so many virtual minutes. Raises FuzzFailure naming the seed."""
    with naming_seed(seed):
        return _Story(seed).run(int(minutes * 60_000))


class _Story:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.world = World(seed)
        rng = self.world.random
        durability = rng.choice([Durability.PROCESS, Durability.PROCESS, Durability.POWER, Durability.LYING])
        self.cluster = ProduceCluster(self.world, rng.randint(1, 3), durability)
        self.actors = [
            SendingActor(self.world, self.cluster, f"p{n}", self._config()) for n in range(rng.randint(1, 2))
        ]
        self.cluster.on_crash.append(self._crashed)

    def _config(self) -> ProducingConfig:
        rng = self.world.random
        return ProducingConfig(
            is_idempotent=rng.random() < 0.7,
            batch_size=rng.choice([100, 500, 1_500]),
            linger_ms=rng.choice([0, 5, 100]),
            buffer_memory=rng.choice([2_000, 100_000]),
            delivery_timeout_ms=rng.choice([1_500, 10_000, 30_000]),
            request_timeout_ms=rng.choice([500, 3_000]),
            max_request_size=rng.choice([400, 1_048_576]),
            max_in_flight=rng.choice([1, 2, 5]),
            backoff=Backoff(rng.choice([1, 100]), 1_000),
        )

    def run(self, length_ms: int) -> ProduceReport:
        world, end_ms = self.world, self.world.now_ms + length_ms
        world.faults.break_probability = world.random.choice([0.0, 0.01, 0.05])
        world.faults.max_delay_ms = world.random.choice([5, 50, 400])
        world.faults.notice_ms = world.random.choice([10, 500])
        for actor in self.actors:
            world.after(world.random.randint(0, 2_000), actor.start)
        world.strike_until(end_ms, 4_000, self._one_fault)
        world.run_until(end_ms)
        self._end_faults()
        for actor in self.actors:
            actor.stop()
        world.run_until(end_ms + SETTLE_MS)
        self._at_rest()
        self._one_more()
        ledgers = [actor.ledger for actor in self.actors]
        return ProduceReport(
            self.seed,
            world.events,
            given=sum(ledger.given for ledger in ledgers),
            acknowledged=sum(len(values) for ledger in ledgers for values in ledger.acknowledged.values()),
            failed=sum(ledger.failed for ledger in ledgers),
            duplicates=self.cluster.duplicates,
            splits=sum(actor.splits for actor in self.actors),
            broker_crashes=self.cluster.crashes,
        )

    def _one_fault(self) -> None:
        rng, cluster = self.world.random, self.cluster
        match rng.choice(["move", "move", "crash", "die", "before", "after", "stall", "producer"]):
            case "move":
                cluster.move_leader(rng.choice(list(cluster.leaders)))
            case "crash":
                node_id = rng.choice(NODES)
                if cluster.up[node_id]:
                    cluster.crash(node_id)
            case "die":
                cluster.dies_after = rng.randint(1, 8)
            case "before":
                cluster.failing_before = rng.randint(1, 3)
            case "after":
                cluster.failing_after = rng.randint(1, 3)
            case "stall":
                rng.choice(self.actors).stall(rng.randint(100, 4_000))
            case "producer" if rng.random() < 0.3:
                rng.choice(self.actors).crash()

    def _crashed(self, node_id: int) -> None:
        self._check_logs()
        self.world.after(self.world.random.randint(100, 6_000), lambda: self.cluster.start(node_id))

    def _end_faults(self) -> None:
        self.world.faults.break_probability = 0.0
        self.world.faults.max_delay_ms = 20  # else no response may come within request.timeout.ms
        self.cluster.failing_before = self.cluster.failing_after = self.cluster.dies_after = 0
        for node_id in NODES:
            self.cluster.start(node_id)

    def _check_logs(self) -> None:
        for partition in self.cluster.leaders:
            values = self.cluster.values(partition)
            for actor in self.actors:
                actor.ledger.check(partition, values, certain=self.cluster.durability != Durability.LYING)

    def _at_rest(self) -> None:
        """Everything has its end, and the buffer is free."""
        self._check_logs()
        for actor in self.actors:
            actor.ledger.check_all_ended()
            left = actor.machine.accumulator.buffered_bytes
            assert not left, f"{actor.ledger.name} has {left} bytes of its buffer in use, and nothing to send"

    def _one_more(self) -> None:
        """Without faults whatever is sent is acknowledged: no producer is left with numbers that its brokers refuse."""
        for actor in self.actors:
            failed = actor.ledger.failed
            actor.append_everywhere()
            self.world.run_until(self.world.now_ms + SETTLE_MS)
            actor.ledger.check_all_ended()
            assert actor.ledger.failed == failed, f"{actor.ledger.name} cannot send any more"
        self._check_logs()
