"""A story of the cluster with groups of members beside its other clients, whose coordinators move."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from coterie.broker.storage.topic import OFFSETS_TOPIC
from coterie.coordinator.partitioning import partition_for
from coterie.coordinator.replay import AnyGroup
from coterie.coordinator.state import Group, Phase
from coterie.laboratory.cluster.group_broker import OFFSETS_PARTITIONS, READ_PARTITIONS, READ_TOPIC, GroupBroker
from coterie.laboratory.cluster.group_checker import ClusterGroupChecker
from coterie.laboratory.cluster.group_member import AnyCoordinated, CoordinatedMember
from coterie.laboratory.cluster.later_faults import start_if_dead
from coterie.laboratory.cluster.report import ClusterReport
from coterie.laboratory.cluster.story import LENGTHS_MS, SESSION_TIMEOUT_MS, ClusterStory
from coterie.laboratory.fuzz import ASSIGNORS_OF_KIND, holds, naming_seed
from coterie.laboratory.ownership import Ownership
from coterie.log.partition_log import PartitionLog
from coterie.member.config import MemberConfig
from coterie.replication.states import ReplicationConfig, TopicPartition
from coterie.wire.errors import ErrorCode

GROUPS = {"crew": 3, "staff": 2}  # each with its members
MEMBER_FAULT_MS, MOVE_MS = 12_000, 12_000  # at most
STABLE_MS = 60_000  # from the time at which the brokers are at rest
WRITTEN_MS = 3_000
KINDS = tuple(kind for kind in ASSIGNORS_OF_KIND if kind != "migration")


class GroupClusterStory(ClusterStory):
    """The first group has three members, the other two; each in a partition of `__consumer_offsets` of its own."""

    brokers: dict[int, GroupBroker]  # type: ignore[assignment]
    fences = frozenset({ErrorCode.FENCED_INSTANCE_ID})

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.administrator.of_fixed_size = {OFFSETS_TOPIC}
        self.group_checker = ClusterGroupChecker(self.failures)
        self.members: list[AnyCoordinated] = []
        for group_id, count in GROUPS.items():
            kind, ownership = self.world.random.choice(KINDS), Ownership()
            self.members += [self._new_member(group_id, number, kind, ownership) for number in range(count)]
        for broker in self.brokers.values():
            broker.loaded = self._coordinator_moved

    def _new_broker(self, number: int, config: ReplicationConfig) -> GroupBroker:
        return GroupBroker(self.network, number, self.server, config, SESSION_TIMEOUT_MS)

    def _new_member(self, group_id: str, number: int, kind: str, ownership: Ownership) -> AnyCoordinated:
        rng = self.world.random
        config = MemberConfig(
            group_id,
            f"{group_id}-{number}" if rng.random() < 0.3 else None,
            session_timeout_ms=rng.choice([6_000, 10_000]),
            heartbeat_interval_ms=rng.choice([500, 1_000, 2_000]),
            max_poll_interval_ms=rng.choice([8_000, 15_000]),
            assignors=rng.choice(ASSIGNORS_OF_KIND[kind]),
        )
        name = f"{group_id}-member-{number}"
        return CoordinatedMember(self.network, self.brokers, name, config, ownership, self.group_checker)

    def _coordinator_moved(self, index: int) -> None:
        self.report.coordinator_loads += 1

    def _made(self, partition: TopicPartition) -> None:
        if partition[0] != OFFSETS_TOPIC:
            super()._made(partition)

    def _create_topic(self) -> None:
        super()._create_topic()
        replicas = {index: self.administrator.some(3) for index in range(OFFSETS_PARTITIONS)}
        self.administrator.create(OFFSETS_TOPIC, replicas)
        for member in self.members:
            self.world.after(self.world.between(0, 10_000), member.start)

    # -- faults ---------------------------------------------------------------------------------------------------------

    def _begin_faults(self, end_ms: int) -> None:
        super()._begin_faults(end_ms)
        self.world.strike_until(end_ms, MEMBER_FAULT_MS, self._strike_member)
        self.world.strike_until(end_ms, MOVE_MS, self._move_coordinator)

    def _strike_member(self) -> None:
        world, rng = self.world, self.world.random
        member, length_ms = rng.choice(self.members), rng.choice(LENGTHS_MS)
        match rng.choice(["crash", "leave", "stall", "cut", "return"]):
            case "crash" if member.alive:
                member.crash()
            case "leave" if member.alive:
                member.leave()
            case "stall" if member.alive:
                member.stalled_until_ms = world.now_ms + length_ms
            case "cut" if member.alive:
                member.cut_off_until_ms = world.now_ms + length_ms
            case _:
                self._start_members()

    def _start_members(self) -> None:
        for member in self.members:
            if not member.alive:
                member.start()

    def _move_coordinator(self) -> None:
        """Moves the coordinator of one partition of `__consumer_offsets`, by an election, a reassignment, a shutdown or
        the broker's death."""
        world = self.world
        partition = OFFSETS_TOPIC, world.between(0, OFFSETS_PARTITIONS - 1)
        leaders = [b for b in self.brokers.values() if b.alive and not b.paused and b.leader_of(partition) is not None]
        match world.random.choice(["crash", "shutdown", "reassign", "elect"]):
            case "crash" if leaders:
                self.report.broker_crashes += 1
                leaders[0].crash()
                world.after(self._length_ms(), partial(start_if_dead, leaders[0]))
            case "shutdown" if leaders and self._may_shut_down(leaders[0]):
                leader, length_ms = leaders[0], self._length_ms()
                leader.shut_down(lambda: world.after(length_ms, partial(start_if_dead, leader)))
            case "reassign":
                self.administrator.reassign(partition)
            case _:
                self.administrator.elect_preferred()

    def _mend(self) -> None:
        super()._mend()
        for member in self.members:
            member.stalled_until_ms = member.cut_off_until_ms = 0
        self._start_members()

    # -- what must hold -------------------------------------------------------------------------------------------------

    def _check(self) -> None:
        world = self.world
        world.run_to_rest(STABLE_MS, self._are_at_rest)
        try:
            self._check_groups()
        except AssertionError as error:
            self.failures.append(str(error))
        for member in self.members:
            member.crash()  # what they have sent is written meanwhile
        world.run_until(world.now_ms + WRITTEN_MS)
        self._check_logs()
        super()._check()

    def _are_at_rest(self) -> bool:
        self._start_the_fenced()
        return holds(self._check_groups)

    def _start_the_fenced(self) -> None:
        """A static member may be fenced by its own former process, or by a late request of it; nothing else may end one."""
        for member in self.members:
            if not member.alive:
                assert member.failed is not None, f"{member.name} ended without an error"
                assert member.failed.code in self.fences, f"{member.name} failed: {member.failed}"
                member.start()

    def _check_groups(self) -> None:
        """Each group is stable at the one coordinator that has it, with all its members, and all of the topic is owned."""
        for group_id in GROUPS:
            members = [m for m in self.members if m.config.group_id == group_id]
            self._check_group(self._group(group_id), members)
            owned = sorted(partition for m in members for partition in m.owned)
            all_of_it = [(READ_TOPIC, number) for number in range(READ_PARTITIONS)]
            assert owned == all_of_it, f"{group_id} owns {owned}"

    def _check_group(self, group: AnyGroup, members: Sequence[AnyCoordinated]) -> None:
        assert isinstance(group, Group), f"{group.group_id} is of another protocol"
        assert group.phase == Phase.STABLE, f"{group.group_id} is {group.phase} long after the last fault"
        generations = {m.machine.member_id: m.machine.generation for m in members}
        expected = dict.fromkeys(group.members, group.generation)
        assert generations == expected, f"{group.group_id} has {expected}, its members are {generations}"

    def _group(self, group_id: str) -> AnyGroup:
        partition = OFFSETS_TOPIC, partition_for(group_id, OFFSETS_PARTITIONS)
        leaders = [broker for broker in self.brokers.values() if broker.leader_of(partition) is not None]
        assert len(leaders) == 1, f"{partition} has {len(leaders)} leaders at rest"
        groups = [group for group in leaders[0].groups.loaded_groups() if group.group_id == group_id]
        assert groups, f"{group_id} is gone, although its members live"
        return groups[0]

    def _check_logs(self) -> None:
        """The replicas have the same, and in it is what members received."""
        logs: dict[int, PartitionLog] = {}
        assigned = self.administrator.partitions()
        for index in range(OFFSETS_PARTITIONS):
            partition = OFFSETS_TOPIC, index
            replicas = assigned[partition].replicas
            rows = [self.brokers[number].logs[partition].batches for number in replicas]
            if any(other != rows[0] for other in rows):
                self.failures.append(f"{partition}: the replicas' logs differ")
            logs[index] = self.brokers[replicas[0]].record_log(partition)
        self.group_checker.check_logs(logs)
        self.report.group_generations = self.group_checker.generations
        self.report.group_commits = self.group_checker.commits
        self.report.consumer_epochs = self.group_checker.consumers.epochs


def run_group_cluster_seed(seed: int, minutes: float = 5.0) -> ClusterReport:
    """The same seed gives the same story. Raises FuzzFailure."""
    with naming_seed(seed):
        return GroupClusterStory(seed).run(int(minutes * 60_000))
