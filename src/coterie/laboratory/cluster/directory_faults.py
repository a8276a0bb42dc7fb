"""Log directories that fail while their brokers live, of the seeds from `FAILING_DIRECTORIES_FROM` on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from coterie.controller import nodes
from coterie.controller.assignment import ReplicaAssignment
from coterie.laboratory.cluster.administrator import Administrator
from coterie.laboratory.cluster.directory_broker import DirectoryBroker
from coterie.laboratory.cluster.report import ClusterReport
from coterie.replication.states import PartitionState, TopicPartition
from coterie.zookeeper import paths
from coterie.zookeeper.operations import Read, Znode

FAILING_DIRECTORIES_FROM = 170_000
EVERY_MS = 15_000  # at most
BACK_AFTER_MS = (6_000, 12_000, 20_000)  # the next start
ELECTED_MS = 12_000  # a checkpoint, the end of the session, elections


class DirectoryFaults:
    """``lose_unsynced`` has an fsync of a broker fail, and returns whether it was done: not where something acknowledged would
    be lost."""

    def __init__(
        self,
        administrator: Administrator,
        brokers: Mapping[int, DirectoryBroker],
        report: ClusterReport,
        failures: list[str],
        lose_unsynced: Callable[[DirectoryBroker], bool],
    ) -> None:
        self._administrator, self._brokers, self._report, self._failures = administrator, brokers, report, failures
        self._world, self._lose_unsynced = administrator.world, lose_unsynced
        self.are_due = report.seed >= FAILING_DIRECTORIES_FROM
        for broker in brokers.values() if self.are_due else ():
            broker.has_two_directories = self._world.chance(0.5)

    def strike_until(self, end_ms: int) -> None:
        """The last one begins before then."""
        if self.are_due:
            self._world.strike_until(end_ms, EVERY_MS, self.strike)

    def strike(self) -> None:
        """A directory, or an fsync, of one broker; it is started again later."""
        running = [b for b in self._brokers.values() if b.alive and not b.paused]
        if not running:
            return
        broker = self._world.random.choice(running)
        if self._world.chance(0.7):
            self._fail(broker)
        elif not self._lose_unsynced(broker):
            return
        self._report.failed_directories += 1
        self._world.after(self._world.random.choice(BACK_AFTER_MS), partial(self._start_again, broker, broker.life))

    def _fail(self, broker: DirectoryBroker) -> None:
        if broker.has_two_directories:
            broker.lose_directory(sorted(broker.logs)[self._world.between(0, 1) :: 2])
        else:
            broker.fail_directory()

    def _start_again(self, broker: DirectoryBroker, life: int) -> None:
        """Unless something else has."""
        if broker.life == life:
            if broker.alive:
                broker.crash()
            broker.start()

    # -- at rest --------------------------------------------------------------------------------------------------------

    def fail_at_rest(self) -> None:
        """A directory of a broker that leads fails while all others are in sync: others lead soon, and nothing else changes."""
        if not self.are_due:
            return
        leading = [b for b in self._brokers.values() if any(b.leader_of(p) for p in b.with_role())]
        broker = self._world.random.choice(leading)
        partitions = self._whole_partitions()
        self._fail(broker)
        self._world.run_until(self._world.now_ms + ELECTED_MS)
        if broker.alive and not broker.has_two_directories:
            self._failures.append(f"broker {broker.number} goes on {ELECTED_MS} ms after its log directory has failed")
        for partition in sorted(partitions & (broker.offline if broker.has_two_directories else partitions)):
            self._check_led(partition, broker.number)
        self._start_again(broker, broker.life)

    def _whole_partitions(self) -> set[TopicPartition]:
        return {p for p, a in self._administrator.partitions().items() if self._is_whole(p, a)}

    def _is_whole(self, partition: TopicPartition, assignment: ReplicaAssignment) -> bool:
        state = self._state(partition)
        return state is not None and not assignment.is_reassigned and set(state.isr) == set(assignment.replicas)

    def _check_led(self, partition: TopicPartition, lost: int) -> None:
        state = self._state(partition)
        leader = None if state is None else self._brokers.get(state.leader)
        if leader is None or leader.number == lost or leader.leader_of(partition) is None:
            self._failures.append(
                f"{partition} is led by {state and state.leader}: the replica of broker {lost} is in a directory that failed"
            )

    def _state(self, partition: TopicPartition) -> PartitionState | None:
        node = self._administrator.apply(Read(paths.partition_state(*partition)))
        return nodes.state_of(node, ()) if isinstance(node, Znode) else None
