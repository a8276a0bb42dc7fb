"""What must hold of the replicas of the laboratory's cluster at rest: assignments, roles, logs, acknowledged records."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from coterie.controller.assignment import ReplicaAssignment
from coterie.laboratory.cluster.administrator import Administrator
from coterie.laboratory.cluster.broker import ClusterBroker
from coterie.laboratory.cluster.known_records import KnownRecords
from coterie.laboratory.cluster.report import ClusterReport
from coterie.replication.states import TopicPartition
from coterie.zookeeper import paths
from coterie.zookeeper.operations import Read, Znode


class ReplicaChecker:
    """Adds what does not hold to ``failures``, and losses by unclean elections to ``report``."""

    def __init__(
        self,
        brokers: Mapping[int, ClusterBroker],
        administrator: Administrator,
        report: ClusterReport,
        failures: list[str],
    ) -> None:
        self._brokers, self._administrator = brokers, administrator
        self._report, self._failures = report, failures

    def check_partition(self, produced: KnownRecords, assignment: ReplicaAssignment | None) -> None:
        """Checks a partition of a topic that nobody has deleted."""
        if assignment is None:
            self._failures.append(f"{produced.partition} is gone, and nobody has deleted it")
        else:
            self._check_assignment(produced.partition, assignment)
            self._check_replicas(produced, assignment.replicas)

    def _check_assignment(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        """A reassignment ends, with exactly its target; no other broker has a role."""
        targets = self._administrator.targets.get(partition)
        if assignment.is_reassigned:
            self._failures.append(f"the reassignment of {partition} has not ended: {assignment}")
        elif targets is not None and assignment.replicas not in targets:
            self._failures.append(f"{partition} is on {assignment.replicas}, and should be on one of {sorted(targets)}")
        held = [n for n, broker in self._brokers.items() if partition in broker.with_role()]
        if not set(held) <= set(assignment.replicas):
            self._failures.append(f"{partition} is assigned to {assignment.replicas}, and {held} have it")

    def check_deletions(self, partitions: Collection[TopicPartition], former: Iterable[KnownRecords]) -> None:
        """A deleted topic is gone everywhere; what it held, what is ``former``, does not come back in one of its name."""
        if deleting := self._administrator.deleting():
            self._failures.append(f"{sorted(deleting)} are not deleted")
        for number, broker in self._brokers.items():
            for partition in broker.with_role() - set(partitions):
                self._failures.append(f"broker {number} has {partition}, which was deleted")
        for produced in former:
            values = set(produced.acknowledged)
            for number, broker in self._brokers.items():
                log = broker.logs.get(produced.partition)
                if log is not None and produced.partition in partitions and values & {b.value for b in log.batches}:
                    self._failures.append(f"{produced.partition} of broker {number} has records of a deleted topic")

    def check_preferred_leaders(self, partitions: Mapping[TopicPartition, ReplicaAssignment]) -> None:
        """Where auto.leader.rebalance.enable moves leaders back at once."""
        for partition, assignment in partitions.items():
            first = assignment.replicas[0]
            if self._brokers[first].leader_of(partition) is None:
                self._failures.append(f"{partition} of {assignment.replicas} is not led by broker {first} at rest")

    def _check_replicas(self, produced: KnownRecords, replicas: tuple[int, ...]) -> None:
        partition, failures = produced.partition, self._failures
        leaders = [leader for n in replicas if (leader := self._brokers[n].leader_of(partition)) is not None]
        if len(leaders) != 1:
            failures.append(f"{partition} has {len(leaders)} leaders at rest")
            return
        leader = leaders[0]
        if set(leader.state.isr) != set(replicas) or leader.high_watermark != leader.log.end_offset:
            failures.append(
                f"{partition} is not whole at rest: ISR {leader.state.isr}, high watermark {leader.high_watermark}"
            )
        deletions = self._administrator.record_deletions
        floor = deletions.floors.get(partition, 0)
        logs = [[b for b in self._brokers[n].logs[partition].batches if b.offset >= floor] for n in replicas]
        if any(log != logs[0] for log in logs):
            failures.append(f"{partition}: the replicas' logs differ")
        kept = {batch.value for batch in self._brokers[leader.broker_id].logs[partition].batches}
        lost = set(produced.acknowledged) - kept - deletions.values.get(partition, set())
        if partition[0] in self._administrator.unclean:
            self._report.unclean_losses += len(lost)
        elif lost:
            failures.append(f"{partition} lost {len(lost)} acknowledged records, {min(lost)} among them")
        for read in produced.read:
            if any((batch.offset, batch.value) not in read for batch in logs[0]):
                failures.append(f"{partition}: the consumer has not read what the log holds")


def state_versions(administrator: Administrator) -> dict[TopicPartition, int]:
    """How often ZooKeeper's node of each partition's state was written: by leaders with another ISR, and by controllers."""
    states = {p: administrator.apply(Read(paths.partition_state(*p))) for p in administrator.partitions()}
    return {partition: node.version for partition, node in states.items() if isinstance(node, Znode)}
