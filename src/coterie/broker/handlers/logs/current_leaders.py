"""The leaders that Fetch and Produce name, with their addresses, to a client that knows another one (KIP-951)."""

from __future__ import annotations

from collections.abc import Iterable

from coterie.broker.cluster.cluster_view import ClusterView
from coterie.broker.handlers.services import LeaderServices
from coterie.broker.requests.calls import Call
from coterie.broker.storage.topic import Partition
from coterie.wire.messages.logs.fetch import PartitionData
from coterie.wire.messages.logs.produce import LeaderIdAndEpoch, NodeEndpoint, PartitionProduceResponse


def name_leaders(
    broker: LeaderServices, call: Call, refused: Iterable[tuple[Partition, PartitionData | PartitionProduceResponse]]
) -> list[NodeEndpoint]:
    """Each refused partition gets its ``current_leader``; returns the addresses of the live ones."""
    leader_ids = set[int]()
    for partition, data in refused:
        data.current_leader = _current_leader(broker.cluster, partition)
        leader_ids.add(data.current_leader.leader_id)
    if not leader_ids:
        return []
    brokers = broker.cluster.brokers(broker.address(call))
    return [NodeEndpoint(b.broker_id, b.host, b.port, b.rack) for b in brokers if b.broker_id in leader_ids]


def _current_leader(cluster: ClusterView, partition: Partition) -> LeaderIdAndEpoch:
    """By the role of this broker's replica, which the controller gives before it announces the leader to all; without a
    replica by what was announced (KafkaApis.getCurrentLeader)."""
    role = None if partition.replica is None else partition.replica.role
    if role is not None:
        return LeaderIdAndEpoch(role.state.leader, role.state.leader_epoch)
    described = cluster.described(partition)
    return LeaderIdAndEpoch(described.leader_id, described.leader_epoch)
