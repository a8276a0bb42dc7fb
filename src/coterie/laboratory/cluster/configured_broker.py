"""A broker of the laboratory's cluster whose topics have settings of their own, which an administrator alters."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

from coterie.controller import nodes
from coterie.controller.commands import TopicConfigured
from coterie.controller.requests import LeaderAndIsr, Request, UpdateMetadata
from coterie.laboratory.cluster.directory_broker import DirectoryBroker
from coterie.laboratory.cluster.disk_replica_log import DiskReplicaLog
from coterie.laboratory.cluster.process import Answer, ScriptDriver
from coterie.laboratory.cluster.topic_settings import TopicSettings
from coterie.replication.states import LEADER_DURING_DELETE, ReplicaLog, ReplicationConfig, TopicPartition
from coterie.zookeeper.operations import Operation

RETAINED_EVERY_MS = 3_000  # log.retention.check.interval.ms


class TopicConfiguredBroker(DirectoryBroker):
    """``reads_settings``: whether it does; ``retain`` is called with each log on a disk now and then."""

    reads_settings = False
    retain: Callable[[TopicPartition, DiskReplicaLog], None] = staticmethod(lambda *_: None)

    def start(self) -> None:
        super().start()
        if not self.reads_settings:
            return
        settings = self.settings = TopicSettings(self.now_ms, self.config, self._configured)
        self.replicas.config_of = self._replication
        self._drivers.append(ScriptDriver(self, settings.machine, get_args(Operation), self._apply, settings.effect))
        self.acted()
        self._retain()

    def _replication(self, partition: TopicPartition) -> ReplicationConfig:
        return self.settings.replication(partition[0])

    def _configured(self, topic: str) -> None:
        self.replicas.topic_configured(topic)
        for partition, log in self.logs.items():
            if partition[0] == topic:
                self.settings.configure(topic, log)
        self.controller.submit(TopicConfigured(topic))

    def _open_log(self, partition: TopicPartition) -> tuple[ReplicaLog, int]:
        opened = super()._open_log(partition)
        if self.reads_settings:
            self.settings.configure(partition[0], opened[0])
        return opened

    def _retain(self) -> None:
        for partition, log in self.logs.items():
            replica = self.replicas.partitions.get(partition)
            if isinstance(log, DiskReplicaLog) and replica is not None and replica.role is not None:
                self.retain(partition, log)
        self.later(RETAINED_EVERY_MS, self._retain)

    def _from_controller(self, request: Request, answer: Answer) -> None:
        """The settings of topics are known before their replicas have a role."""
        obey = super()._from_controller
        if not self.reads_settings:
            obey(request, answer)
        elif isinstance(request, LeaderAndIsr):
            self.settings.with_settings({topic for topic, _ in request.states}, lambda: obey(request, answer))
        else:
            if isinstance(request, UpdateMetadata):
                for (topic, _), state in request.states.items():
                    if state.leader == LEADER_DURING_DELETE:
                        self.settings.forget(topic)
            obey(request, answer)

    # -- ZooKeeper ------------------------------------------------------------------------------------------------------

    def _changed(self, path: str) -> None:
        if path == nodes.CONFIG_CHANGES and self.reads_settings:
            self.settings.machine.changed()
        else:
            super()._changed(path)

    def lose_zookeeper(self) -> None:
        """See `ClusterBroker`."""
        super().lose_zookeeper()
        if self.reads_settings:
            self.settings.machine.suspended()

    def _reach_zookeeper(self) -> None:
        session = self._session
        super()._reach_zookeeper()
        if self.reads_settings:
            if self._session is not session:
                self.settings.machine.expired()
            self.settings.machine.connected()
