"""Faults of the seeds from `LATER_FAULTS_FROM` on, beside those of all stories: at times of their own, so that most seeds have
each of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from coterie.laboratory.cluster.administrator import EXTRA_TOPICS, Administrator
from coterie.laboratory.cluster.broker import ClusterBroker
from coterie.laboratory.cluster.disk_replica_log import BATCH_BYTES
from coterie.laboratory.cluster.report import ClusterReport
from coterie.laboratory.cluster.topic_settings import MIN_ISR, RETENTION_BYTES, SEGMENT_BYTES, UNCLEAN
from coterie.replication.states import TopicPartition

LATER_FAULTS_FROM = 70_000
HOLES_FROM = 110_000  # power cuts leave holes in what was not synced
EVERY_MS = 8_000  # at most
SLOW_FOR_MS = (500, 3_000, 9_000)
FSYNC_MS = (200, 1_000, 4_000, 9_000)  # the last one outlives the session


class LaterFaults:
    """``cut_power`` of a broker returns whether it was done, ``may_shut_down`` whether what was acknowledged remains."""

    def __init__(
        self,
        administrator: Administrator,
        report: ClusterReport,
        cut_power: Callable[[ClusterBroker], bool],
        may_shut_down: Callable[[ClusterBroker], bool],
    ) -> None:
        self._administrator, self._report = administrator, report
        self._cut_power, self._may_shut_down = cut_power, may_shut_down
        self._world, self._brokers = administrator.world, administrator.brokers
        self._faults = (self.cut_power_in_reassignment, self.slow_disk, self.alter_settings, self.elect_uncleanly)

    def strike_until(self, end_ms: int) -> None:
        """The last one begins before then."""
        self._world.strike_until(end_ms, EVERY_MS, lambda: self._world.random.choice(self._faults)())

    def _running(self) -> list[ClusterBroker]:
        return [b for b in self._brokers.values() if b.alive and not b.paused]

    def cut_power_in_reassignment(self) -> None:
        """Cuts the power of a broker that has the partition, or is to have it."""
        administrator, world = self._administrator, self._world
        partition = world.random.choice(sorted(administrator.partitions()))
        administrator.reassign(partition)

        def cut() -> None:
            assignment = administrator.partitions().get(partition)
            victims = [b for b in self._running() if assignment is not None and b.number in assignment.replicas]
            if assignment is not None and assignment.is_reassigned and victims:
                self._report.cut_reassignments += self._cut_power(world.random.choice(victims))

        world.after(world.between(50, 1_500), cut)

    def slow_disk(self) -> None:
        """Each fsync of a broker takes long: its event loop does nothing else meanwhile, and ZooKeeper does not hear of it."""
        disks = [b.disk for b in self._running() if b.has_disk]
        if disks:
            disk = self._world.random.choice(disks)
            self._report.slow_disks += 1
            disk.fsync_ms = self._world.random.choice(FSYNC_MS)
            self._world.after(self._world.random.choice(SLOW_FOR_MS), partial(setattr, disk, "fsync_ms", 0))

    def alter_settings(self) -> None:
        """Alters settings of a topic, perhaps while the leaders of its partitions move."""
        administrator, world = self._administrator, self._world
        topics = sorted({topic for topic, _ in administrator.partitions() if topic not in administrator.of_fixed_size})
        altered = {
            MIN_ISR: world.between(2, 3),  # with 1 a single copy is acknowledged, which a power cut may take
            SEGMENT_BYTES: world.between(5, 60) * BATCH_BYTES,
            RETENTION_BYTES: world.between(20, 60) * BATCH_BYTES,
        }
        keys = world.random.sample(sorted(altered), world.between(1, len(altered)))
        administrator.alter(world.random.choice(topics), {key: str(altered[key]) for key in keys})

    def elect_uncleanly(self) -> None:
        """One replica leaves the ISR in order, the others die, and it comes back alone: it may lead."""
        administrator, world = self._administrator, self._world
        extra = sorted(p for p in administrator.partitions() if p[0] in EXTRA_TOPICS)
        if not extra:
            return
        partition = world.random.choice(extra)
        administrator.alter(partition[0], {MIN_ISR: "1", UNCLEAN: "true"})
        replicas = administrator.partitions()[partition].replicas
        followers = [b for b in self._running() if b.number in replicas and b.leader_of(partition) is None]
        if followers:
            follower = world.random.choice(followers)
            world.after(1_000, lambda: self._shut_down(partition, follower))

    def _shut_down(self, partition: TopicPartition, follower: ClusterBroker) -> None:
        if not follower.alive or follower.paused or not self._may_shut_down(follower):
            return

        def stopped() -> None:
            world, others = self._world, [b for b in self._running() if partition in b.with_role()]
            for other in others:
                world.after(2_000, partial(self._crash, other))
            world.after(4_000, partial(start_if_dead, follower))

        follower.shut_down(stopped)

    def _crash(self, broker: ClusterBroker) -> None:
        if broker.alive:
            self._report.broker_crashes += 1
            broker.crash()
            self._world.after(12_000, partial(start_if_dead, broker))


def start_if_dead(broker: ClusterBroker) -> None:
    """Something else may have started it meanwhile."""
    if not broker.alive:
        broker.start()
