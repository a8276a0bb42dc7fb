"""What must hold of altered settings in the laboratory's cluster at rest."""

from __future__ import annotations

from coterie.laboratory.cluster.administrator import Administrator
from coterie.laboratory.cluster.configured_broker import TopicConfiguredBroker
from coterie.laboratory.cluster.disk_replica_log import DiskReplicaLog
from coterie.laboratory.cluster.topic_settings import MIN_ISR, RETENTION_BYTES, SEGMENT_BYTES


def unapplied_settings(administrator: Administrator, broker: TopicConfiguredBroker) -> list[str]:
    """What is altered in ZooKeeper and not in force at a broker that has a replica of the topic, or is the controller."""
    if not broker.reads_settings:
        return []
    failures = []
    for partition in sorted(broker.with_role()):
        altered, replica, log = administrator.settings(partition[0]), broker.replicas.partitions[partition], None
        in_force = {MIN_ISR: replica.config.min_insync_replicas}
        if isinstance(log := broker.logs[partition], DiskReplicaLog):
            in_force |= {SEGMENT_BYTES: log.log.config.segment_bytes, RETENTION_BYTES: log.log.config.retention_bytes}
        failures += [
            f"{partition} of broker {broker.number} has {key}={value}, and {altered[key]} was set"
            for key, value in in_force.items()
            if key in altered and int(altered[key]) != value
        ]
    office = broker.controller.office
    for topic in [] if office is None else list(office.view.topics):
        assert office is not None
        if dict(office.view.topic_configs.get(topic, {})) != administrator.settings(topic):
            failures.append(f"the controller {broker.number} has old settings of {topic}")
    return failures
