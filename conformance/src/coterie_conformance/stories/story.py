"""One seed, one story: brokers and programs start, faults strike, all is mended, all must come to rest and be right."""

from __future__ import annotations

import logging
import random
from base64 import b64decode
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from coterie.client import Admin, KafkaError
from coterie.coordinator.consumer.state import ConsumerGroup
from coterie.laboratory.group_checkers import check_consumer_group
from coterie.log.partition_log import PartitionLog
from coterie.testing.simulated import SimulatedWorld, WorldBroker, simulate
from coterie_conformance.stories import checkers
from coterie_conformance.stories.administration import Administration, GivenProducerIds, small_blocks
from coterie_conformance.stories.administrators import (
    claim_ids,
    create_offsets_topic,
    delete_records,
    plant_orphan,
    set_transaction_version,
)
from coterie_conformance.stories.cluster_checker import ClusterChecker
from coterie_conformance.stories.cluster_faults import cluster_rows
from coterie_conformance.stories.faults import TABLE, StoryFaults
from coterie_conformance.stories.history import History, TopicPartition
from coterie_conformance.stories.members import copy, read, read_all
from coterie_conformance.stories.plan import (
    CONSUMER,
    COOPERATIVE,
    COPIERS,
    EAGER,
    INPUT,
    LEDGER,
    MIXED,
    ORPHANS,
    PARTITIONS,
    READERS,
    StoryPlan,
    draw_plan,
)
from coterie_conformance.stories.programs import StoryWork, produce, transact
from coterie_conformance.stories.request_faults import request_rows

FAULT_EVERY_S = 4.0
REST_S = 240.0  # after the last fault: sessions, transactions and leases expire
STAYS_S = 4.0  # at rest, more than replica.lag.time.max.ms
STEP_S = 1.0
LOOK_S = 0.1
LOGGERS = ("coterie", "asyncio")


class FuzzFailure(AssertionError):
    """A checker's complaint, with the seed that repeats it."""


@dataclass(frozen=True, slots=True)
class StoryReport:
    """The result of one seed. ``events``: turns of the event loop; ``acknowledged``, ``delivered``: records; ``trace``: the
    digest of the network."""

    seed: int
    brokers: int
    virtual_s: float
    events: int
    acknowledged: int
    delivered: int
    transactions: int
    faults: int
    broker_crashes: int
    trace: str


class ProgramStory:
    """The story of one plan in a world."""

    def __init__(self, world: SimulatedWorld, plan: StoryPlan) -> None:
        self.world, self.plan = world, plan
        self.history = History()
        self.rng = random.Random(f"faults {plan.seed}")
        world.network.faults.max_latency_s = plan.max_latency_s
        clocks = random.Random(f"clocks {plan.seed}")
        for number in range(1, plan.brokers + 1):
            world.clock_rates[f"broker-{number}"] = 1 + clocks.uniform(-plan.drift, plan.drift)
        self.broker: WorldBroker = world.broker(plan.settings(), brokers=plan.brokers)
        self.work = StoryWork(self.broker.bootstrap_servers, self.history, seed=plan.seed)
        self.work.polled = self._member_polled
        self.topic_ids: dict[str, bytes] = {}
        self.producer_ids = GivenProducerIds(self.work)
        self.administration = Administration(self.work, plan.brokers)
        self.replicas = (
            ClusterChecker(self.broker.cluster, self.administration, rebalances_leaders=plan.rebalances_leaders)
            if plan.brokers > 1
            else None
        )
        self.programs = self._programs()
        rows = (*TABLE, *request_rows(plan.transaction_version), *cluster_rows(self.administration))
        self.faults = StoryFaults(
            world,
            self.broker,
            self.rng,
            list(self.programs),
            self._start,
            [row for row in rows if not plan.only or row.name in plan.only],
            synced=plan.synced,
            pace=plan.pace,
        )

    def _programs(self) -> dict[str, partial[Coroutine[Any, Any, None]]]:
        plan, work = self.plan, self.work
        programs: dict[str, partial[Coroutine[Any, Any, None]]] = {}
        for kind, count in (("plain", plan.plain_producers), ("idempotent", plan.idempotent_producers)):
            for number in range(count):
                name = f"{kind}-{number}"
                programs[name] = partial(produce, work, name, idempotent=kind == "idempotent")
        for number in range(plan.transactional_producers):
            name, transactional_id = f"tx-{number}", "tx" if plan.rivals else f"tx-{number}"
            programs[name] = partial(transact, work, name, transactional_id, ledger=plan.ledger)
        if plan.deletes:
            programs["deleter"] = partial(delete_records, work, "deleter")
        if plan.claims:
            programs["claimer"] = partial(claim_ids, work, "claimer")
        isolation = {"isolation.level": "read_committed" if plan.read_committed else "read_uncommitted"}
        for number in range(plan.readers):
            name = f"reader-{number}"
            instance = {"group.instance.id": name} if plan.static_readers else {}
            programs[name] = partial(read, work, name, READERS, isolation | instance | self._membership(number))
        for number in range(plan.copiers):
            name = f"copier-{number}"
            programs[name] = partial(copy, work, name, plan, self._membership(number))
        if plan.administers:
            programs["administrator"] = partial(self.administration.administrate, "administrator")
            programs["administered"] = partial(self.administration.write, "administered")
        for server in self.work.servers.split(",") if plan.reserves_ids else ():
            name = f"beginners-{server.partition(':')[0]}"
            programs[name] = partial(self.producer_ids.begin, name, server)
        return programs

    def _membership(self, number: int) -> dict[str, object]:
        kind = self.plan.kind
        if kind == CONSUMER or (kind == MIXED and number % 2):
            return {"group.protocol": "consumer"}
        assignor = {EAGER: "range", COOPERATIVE: "cooperative-sticky", MIXED: "range"}[kind]
        return {"session.timeout.ms": 10_000, "partition.assignment.strategy": assignor, "max.poll.interval.ms": 30_000}

    def _start(self, name: str) -> None:
        self.world.spawn(name, self.programs[name])

    # -- the course -------------------------------------------------------------------------------------------------------

    def run(self, length_s: float) -> StoryReport:
        """Faults strike for so long; then all must come to rest within `REST_S`."""
        world, plan = self.world, self.plan
        for topic, count in PARTITIONS.items():
            self.broker.create_topic(topic, count, plan.topic_settings(topic))
        self.topic_ids = self._topic_ids()
        self._begin()
        for name in self.programs:
            self._start(name)
        world.network.faults.loss, world.network.faults.split = plan.loss, plan.split
        end_s = world.now_s + length_s
        while world.now_s < end_s:
            self._advance(self.rng.expovariate(1 / (FAULT_EVERY_S * plan.pace)))
            self.faults.strike()
            self._check_groups()
        world.network.faults.loss = world.network.faults.split = 0.0
        self.faults.mend()
        self.work.finishing = True
        self._come_to_rest()
        self._check()
        return StoryReport(
            plan.seed,
            plan.brokers,
            round(world.now_s, 3),
            world.loop.turns,
            self.history.acknowledged(),
            self.history.deliveries(),
            len(self.history.transactions),
            self.faults.count.total(),
            self.faults.broker_crashes,
            world.trace,
        )

    def _advance(self, seconds: float) -> None:
        """Looks at the replicas again and again."""
        end_s = self.world.now_s + seconds
        while self.replicas is not None and end_s - self.world.now_s > LOOK_S:
            self.world.advance(LOOK_S)
            self.replicas.look()
        self.world.advance(max(end_s - self.world.now_s, 0.0))

    def _groups(self) -> list[str]:
        return [READERS] * (self.plan.readers > 0) + [COPIERS] * (self.plan.copiers > 0)

    def _begin(self) -> None:
        broker, plan = self.broker, self.plan
        if plan.transaction_version != 2:
            self.world.run(set_transaction_version(broker.host, broker.port, plan.transaction_version))
        if plan.orphan:
            self.world.run(create_offsets_topic(broker.host, broker.port))
            plant_orphan(broker.broker, self.world.now_ms())
            broker.kill()
            broker.restart()

    def _topic_ids(self) -> dict[str, bytes]:
        async def look_up() -> dict[str, bytes]:
            async with Admin({"bootstrap.servers": self.work.servers}) as admin:
                topics = await admin.describe_topics(list(PARTITIONS))
            return {name: b64decode((about.topic_id or "") + "==", b"-_") for name, about in topics.items()}

        return self.world.run(look_up())

    def _member_polled(self, name: str) -> None:
        group = self.broker.group_now(READERS)
        if group is not None and not self.faults.loses_unsynced:
            checkers.check_member(group, name, self.work.consumers[name], self.topic_ids)

    def _check_groups(self) -> None:
        """Where there is a coordinator."""
        for group in self._groups():
            state = self.broker.group_now(group)
            if isinstance(state, ConsumerGroup):
                check_consumer_group(state)
        state, alive = self.broker.group_now(READERS), self.world.processes
        if state is not None and not self.faults.loses_unsynced:
            running = [name for name in self.work.consumers if alive[name].is_alive]
            checkers.check_owners(state, self.work.consumers, running)
            for name in running:
                self._member_polled(name)

    def _come_to_rest(self) -> None:
        """Raises AssertionError that says what is missing."""
        deadline_s = self.world.now_s + REST_S
        while (missing := self._missing()) is not None:
            assert self.world.now_s < deadline_s, f"{REST_S:g} s after the last fault {missing}"
            self._advance(STEP_S)
        self._stay_at_rest()

    def _stay_at_rest(self) -> None:
        if self.replicas is not None:
            states = self.replicas.states()
            self._advance(STAYS_S)
            written = [tp for tp, state in self.replicas.states().items() if state != states.get(tp)]
            assert not written, f"the states of {written} are written at rest"

    def _missing(self) -> str | None:
        """What is not at rest yet."""
        writers = [n for n in self.programs if not n.startswith(("reader", "copier"))]
        at_work = [name for name in writers if self.world.processes[name].is_alive]
        if at_work:
            return f"{', '.join(at_work)} have not ended"
        if self.replicas is not None and (missing := self.replicas.missing()):
            return missing
        try:
            ends = {tp: log[-1][0] + 1 for tp, log in self._input(committed=True).items() if log}
        except KafkaError as error:
            return f"the input cannot be read: {error}"
        for group in self._groups():
            members = self.plan.readers if group == READERS else self.plan.copiers
            state = self.broker.group_now(group)
            if state is None:
                return f"group {group} has no coordinator"
            if any(state.pending_offsets.values()):
                return f"offsets of transactions are pending in group {group}"
            if state.phase.value != "Stable" or len(state.members) != members:
                return f"group {group} is not Stable with {members} members. {self.broker.explain(group)}"
            offsets = self.broker.committed_now(group)
            behind = {tp: offsets.get(tp, 0) for tp, end in ends.items() if offsets.get(tp, 0) < end}
            if behind:
                return f"group {group} has committed {behind} of {ends}"
        still_open = [tp for tp, log in self._raw_logs().items() if log.last_stable_offset < log.end_offset]
        if still_open and not self.faults.loses_unsynced:
            return f"a transaction is open in {still_open[0]}"
        for group in (LEDGER, ORPHANS):
            state = self.broker.group_now(group)
            if state is not None and any(state.pending_offsets.values()):
                return f"offsets of transactions are pending in group {group}"
        return None

    def _input(self, *, committed: bool) -> dict[TopicPartition, list[tuple[int, bytes]]]:
        logs = self.world.run(read_all(self.work.servers, committed=committed))
        return {tp: log for tp, log in logs.items() if tp[0] == INPUT}

    # -- the end ----------------------------------------------------------------------------------------------------------

    def _check(self) -> None:
        history, loses = self.history, self.faults.loses_unsynced
        self._check_groups()
        if self.replicas is not None:
            self.replicas.look()
            self.replicas.check()
        assert not self.producer_ids.twice, "; ".join(self.producer_ids.twice[:3])
        logs = self.world.run(read_all(self.work.servers, committed=False))
        committed = self.world.run(read_all(self.work.servers, committed=True))
        checkers.check_log(history, logs, loses=loses)
        checkers.check_transactions(history, committed, loses=loses)
        visible = committed if self.plan.read_committed else logs
        if self.plan.readers:
            offsets = self.broker.committed_now(READERS)
            checkers.check_deliveries(history, READERS, visible, offsets, loses=loses)
        checkers.check_repeats(history, loses=loses)
        checkers.check_strays(history)
        checkers.check_misreported(history)
        if not loses:
            checkers.check_ids(history)
            checkers.check_ledger(history, self.broker.committed_now(LEDGER))
        if self.plan.copiers and not loses:
            checkers.check_copies(committed)
        self._check_raw_logs(committed)

    def _check_raw_logs(self, committed: checkers.Logs) -> None:
        logs = self._raw_logs()
        for (topic, partition), log in logs.items():
            name = f"{topic}-{partition}"
            checkers.check_batches(name, log)
            if not self.faults.loses_unsynced:
                checkers.check_committed(name, log, list(committed[topic, partition]))
        if logs and not self.faults.loses_unsynced:
            starts = {tp: log.log_start_offset for tp, log in logs.items()}
            checkers.check_deleted(self.history, starts)
            for group in self._groups():
                state = self.broker.group_now(group)
                for tp, kept in {} if state is None else state.offsets.items():
                    checkers.check_epoch(f"{group}: {tp}", logs[tp], kept.offset, kept.leader_epoch)

    def _raw_logs(self) -> dict[TopicPartition, PartitionLog]:
        """Of a broker alone; none of a cluster."""
        if self.plan.brokers > 1:
            return {}
        every = [(topic, partition) for topic, count in PARTITIONS.items() for partition in range(count)]
        return {tp: self.broker.broker.topics.partition(*tp).log for tp in every}


@contextmanager
def naming_seed(seed: int) -> Iterator[None]:
    """Raises FuzzFailure in the place of a checker's AssertionError, or of an error that the code under test lets out."""
    try:
        yield
    except AssertionError as error:
        raise FuzzFailure(f"seed {seed}: {error}") from error
    except Exception as error:
        raise FuzzFailure(f"seed {seed}: {type(error).__name__}: {error}") from error


@contextmanager
def without_log_lines() -> Iterator[None]:
    """Under faults brokers log what fails."""
    loggers = [logging.getLogger(name) for name in LOGGERS]
    before = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.CRITICAL + 1)
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


def run_story_seed(seed: int, minutes: float = 1.0, *, brokers: int | None = None, **overrides: Any) -> StoryReport:
    """Runs one seed for so many virtual minutes of faults, with another plan where ``overrides`` says so. Raises FuzzFailure
    naming the seed."""
    with naming_seed(seed), without_log_lines(), small_blocks(), simulate(seed) as world:
        return ProgramStory(world, draw_plan(seed, brokers, **overrides)).run(minutes * 60)
