"""A story of the cluster with a group of the consumer protocol (KIP-848) and one of the classic protocol, whose coordinators
move."""

from __future__ import annotations

from collections.abc import Sequence

from coterie.broker.storage.topic import OFFSETS_TOPIC
from coterie.controller import nodes
from coterie.coordinator.consumer.state import ConsumerGroup, ConsumerGroupState
from coterie.coordinator.partitioning import partition_for
from coterie.coordinator.replay import AnyGroup
from coterie.laboratory.cluster.group_broker import OFFSETS_PARTITIONS
from coterie.laboratory.cluster.group_member import AnyCoordinated, CoordinatedConsumer
from coterie.laboratory.cluster.group_story import GroupClusterStory
from coterie.laboratory.cluster.report import ClusterReport
from coterie.laboratory.fuzz import naming_seed
from coterie.laboratory.ownership import Ownership
from coterie.member.consumer.config import ConsumerMemberConfig
from coterie.replication.states import PartitionState
from coterie.wire.errors import ErrorCode
from coterie.zookeeper import paths
from coterie.zookeeper.operations import Read, Znode

CONSUMER_GROUP = "crew"
USERS_EVERY_MS = 500
RESTARTED_MS, RESTART_EVERY_MS = 30_000, 2_000


class ConsumerGroupClusterStory(GroupClusterStory):
    """The first group is of the consumer protocol."""

    fences = frozenset({ErrorCode.FENCED_INSTANCE_ID, ErrorCode.UNRELEASED_INSTANCE_ID})

    def _new_member(self, group_id: str, number: int, kind: str, ownership: Ownership) -> AnyCoordinated:
        if group_id != CONSUMER_GROUP:
            return super()._new_member(group_id, number, kind, ownership)
        rng, name = self.world.random, f"{group_id}-member-{number}"
        config = ConsumerMemberConfig(
            group_id,
            "",
            f"{group_id}-{number}" if rng.random() < 0.3 else None,
            max_poll_interval_ms=rng.choice([6_000, 15_000]),
            remote_assignor=rng.choice([None, "uniform", "range"]),
        )
        member = CoordinatedConsumer(self.network, self.brokers, name, config, ownership, self.group_checker)
        member.listener_ms = rng.choice([0, 100, 2_000])
        return member

    def _mend(self) -> None:
        """A static member whose former process has not left waits until its session has ended."""
        super()._mend()
        self.world.strike_until(self.world.now_ms + RESTARTED_MS, RESTART_EVERY_MS, self._start_the_fenced)

    # -- what must hold -------------------------------------------------------------------------------------------------

    def _begin_faults(self, end_ms: int) -> None:
        super()._begin_faults(end_ms)
        self._check_users_often(end_ms)

    def _check_users_often(self, end_ms: int) -> None:
        self._check_users()
        if self.world.now_ms < end_ms:
            self.world.after(USERS_EVERY_MS, lambda: self._check_users_often(end_ms))

    def _check_users(self) -> None:
        """A member in its present epoch, or in the one before, uses nothing that the coordinator may give to others."""
        group = self._replicated_group()
        for member in self._consumers() if group is not None else ():
            assert group is not None
            stored = group.members.get(member.member_id)
            if stored is None or not member.alive or member.epoch <= 0:
                continue
            current = stored.current
            if member.epoch in (current.member_epoch, current.previous_member_epoch):
                free = member.uses - current.assigned.keys() - current.pending_revocation.keys()
                if free:
                    self.failures.append(f"{member.name} uses {sorted(free)}, which the coordinator may give to others")

    def _consumers(self) -> list[CoordinatedConsumer]:
        return [m for m in self.members if isinstance(m, CoordinatedConsumer)]

    def _replicated_group(self) -> ConsumerGroup | None:
        """At the leader that ZooKeeper has, where all in sync have what it has; None without one."""
        partition = OFFSETS_TOPIC, partition_for(CONSUMER_GROUP, OFFSETS_PARTITIONS)
        state = self._state(partition)
        broker = None if state is None else self.brokers.get(state.leader)
        leader = None if broker is None or not broker.alive else broker.leader_of(partition)
        if state is None or broker is None or leader is None or leader.state.leader_epoch != state.leader_epoch:
            return None
        groups = [g for g in broker.groups.loaded_groups() if g.group_id == CONSUMER_GROUP]
        is_replicated = leader.high_watermark == leader.log.end_offset
        return groups[0] if groups and is_replicated and isinstance(groups[0], ConsumerGroup) else None

    def _state(self, partition: tuple[str, int]) -> PartitionState | None:
        node = self.administrator.apply(Read(paths.partition_state(*partition)))
        return nodes.state_of(node, ()) if isinstance(node, Znode) else None

    def _check_group(self, group: AnyGroup, members: Sequence[AnyCoordinated]) -> None:
        """Stable, with its living members alone; each uses what it has."""
        if group.group_id != CONSUMER_GROUP:
            super()._check_group(group, members)
            return
        assert isinstance(group, ConsumerGroup), f"{group.group_id} is of another protocol"
        assert group.phase == ConsumerGroupState.STABLE, f"{group.group_id} is {group.phase} long after the last fault"
        epochs = {m.member_id: m.epoch for m in self._consumers()}
        expected = {member_id: m.current.member_epoch for member_id, m in group.members.items()}
        assert epochs == expected, f"{group.group_id} has {expected}, its members are {epochs}"
        for member in self._consumers():
            assert member.uses == group.members[member.member_id].current.assigned.keys()


def run_consumer_group_cluster_seed(seed: int, minutes: float = 5.0) -> ClusterReport:
    """The same seed gives the same story. Raises FuzzFailure."""
    with naming_seed(seed):
        return ConsumerGroupClusterStory(seed).run(int(minutes * 60_000))
