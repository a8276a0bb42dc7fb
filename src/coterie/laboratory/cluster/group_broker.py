"""A broker of the laboratory's cluster that coordinates groups: the real coordinator's driver over replicated logs."""

from __future__ import annotations

import logging
from collections.abc import Callable

from coterie.broker.groups.group_coordinator import GroupCoordinator
from coterie.broker.handlers.coordinators import consumer_groups as consumer_group_handlers
from coterie.broker.handlers.coordinators import groups as group_handlers
from coterie.broker.handlers.coordinators import offsets as offset_handlers
from coterie.broker.process.log_lines import LogLines
from coterie.broker.requests.turns import Turns
from coterie.broker.settings import BrokerSettings
from coterie.broker.settings.features import Features
from coterie.broker.storage.flusher import Flusher
from coterie.broker.storage.replica_effects import ReplicaEffects
from coterie.broker.storage.topic import OFFSETS_TOPIC
from coterie.broker.storage.topics import Topics
from coterie.laboratory.cluster.handling_broker import HandlingBroker
from coterie.laboratory.cluster.process_scheduler import ProcessScheduler
from coterie.laboratory.node.scheduler import VirtualClock
from coterie.log.files.filesystem import MemoryFileSystem

OFFSETS_PARTITIONS = 2
# What the groups read: its records are nowhere, offsets of it are committed.
READ_TOPIC, READ_TOPIC_ID, READ_PARTITIONS = "in", bytes([2]) * 16, 5
TOPICS = ((OFFSETS_TOPIC, OFFSETS_PARTITIONS, bytes([1]) * 16), (READ_TOPIC, READ_PARTITIONS, READ_TOPIC_ID))
SETTINGS = {
    "offsets.topic.num.partitions": str(OFFSETS_PARTITIONS),
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.session.timeout.ms": "9000",
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.heartbeat.interval.ms": "1500",
    "group.consumer.min.heartbeat.interval.ms": "1000",
    "coterie.journal.enable": "false",
}
logger = logging.getLogger("coterie.broker")


class HostedGroups:
    """What the handlers of groups use of one life of a broker."""

    def __init__(self, broker: GroupBroker, effects: ReplicaEffects) -> None:
        self.settings = broker.broker_settings
        scheduler, clock = ProcessScheduler(broker), VirtualClock(broker)
        self.turns, self.log_lines = Turns(scheduler), LogLines(logger, scheduler)
        fs = MemoryFileSystem()
        self.topics, self.features = Topics(fs, self.settings, in_cluster=True), Features(fs)
        for name, count, topic_id in TOPICS:
            self.topics.announce(name, count, topic_id, {})
        # never asked for: the logs of replicas are synced by themselves
        flusher = Flusher(scheduler, lambda files, synced: None, lambda error: None)
        self.groups = GroupCoordinator(
            self.settings,
            self.topics,
            clock,
            scheduler,
            flusher=flusher,
            effects=effects,
            new_member_id=broker.world.fresh_id,
        )


class GroupBroker(HandlingBroker):
    """``loaded`` is called with each partition of `__consumer_offsets` that this broker begins to coordinate."""

    record_topics = frozenset({OFFSETS_TOPIC})
    handlers = group_handlers.HANDLERS | consumer_group_handlers.HANDLERS | offset_handlers.HANDLERS
    services: HostedGroups
    broker_settings: BrokerSettings
    loaded: Callable[[int], None] = staticmethod(lambda index: None)

    def start(self) -> None:
        self.broker_settings = BrokerSettings(SETTINGS | {"node.id": str(self.number)})
        self.services = HostedGroups(self, self._effects())
        self.groups = self.services.groups
        super().start()
        self.groups.start()

    def roles_changed(self) -> None:
        """At once, as in a broker: the coordinator resigns before its appends are refused."""
        for partition in self.services.topics.by_name[OFFSETS_TOPIC].partitions:
            self._follow_role(partition)
            if not partition.is_led:
                self.groups.resign(partition.index, partition.leader_epoch)
            elif self.groups.elect(partition.index, partition.leader_epoch):
                self.loaded(partition.index)
        super().roles_changed()
