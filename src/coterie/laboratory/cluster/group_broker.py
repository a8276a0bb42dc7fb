"""A broker of the laboratory's cluster that coordinates groups: the real coordinator's driver over replicated logs."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import cast

from coterie.broker.calls import Call
from coterie.broker.features import Features
from coterie.broker.flusher import Flusher
from coterie.broker.group_coordinator import GroupCoordinator
from coterie.broker.handlers import consumer_groups as consumer_group_handlers
from coterie.broker.handlers import groups as group_handlers
from coterie.broker.handlers import offsets as offset_handlers
from coterie.broker.log_lines import LogLines
from coterie.broker.pending import Pending
from coterie.broker.replica_effects import AppendToken, ReplicaEffects
from coterie.broker.services import Services
from coterie.broker.settings import BrokerSettings
from coterie.broker.topic import OFFSETS_TOPIC
from coterie.broker.topics import Topics
from coterie.broker.turns import Turns
from coterie.laboratory.cluster.process import Process
from coterie.laboratory.cluster.records_broker import RecordsBroker
from coterie.laboratory.node.scheduler import VirtualClock, VirtualScheduler
from coterie.log.filesystem import MemoryFileSystem
from coterie.replication.states import ReplicaError, TopicPartition
from coterie.wire.declaration import Message

OFFSETS_PARTITIONS = 2
# What the groups read: its records are nowhere, offsets of it are committed.
READ_TOPIC, READ_TOPIC_ID, READ_PARTITIONS = "in", bytes([2]) * 16, 5
TOPICS = ((OFFSETS_TOPIC, OFFSETS_PARTITIONS, bytes([1]) * 16), (READ_TOPIC, READ_PARTITIONS, READ_TOPIC_ID))
HANDLERS = group_handlers.HANDLERS | consumer_group_handlers.HANDLERS | offset_handlers.HANDLERS
SETTINGS = {
    "offsets.topic.num.partitions": str(OFFSETS_PARTITIONS),
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.session.timeout.ms": "9000",
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.heartbeat.interval.ms": "1500",
    "group.consumer.min.heartbeat.interval.ms": "1000",
    "coterie.journal.enable": "false",
}
Answered = Callable[[Message | None], None]
logger = logging.getLogger(__name__)


class ProcessScheduler(VirtualScheduler):
    """The event loop of one life of a process."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def time(self) -> float:
        return self._process.monotonic_ms / 1000

    def run(self, callback: Callable[[], object]) -> None:
        callback()

    def _after(self, ms: int, due: Callable[[], None]) -> None:
        self._process.later(ms, due)


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
            self.settings, self.topics, clock, scheduler, flusher, effects, broker.world.fresh_id
        )


class GroupBroker(RecordsBroker):
    """``loaded`` is called with each partition of `__consumer_offsets` that this broker begins to coordinate."""

    record_topics = frozenset({OFFSETS_TOPIC})
    broker_settings: BrokerSettings
    loaded: Callable[[int], None] = staticmethod(lambda index: None)

    def start(self) -> None:
        self.broker_settings = BrokerSettings(SETTINGS | {"node.id": str(self.number)})
        effects = ReplicaEffects()
        effects.act = lambda decided: self._act(list(decided))
        effects.notify = self._has_appended
        self.services = HostedGroups(self, effects)
        self.groups = self.services.groups
        super().start()
        self.groups.start()

    def _has_appended(self, partition: TopicPartition) -> None:
        epoch = self._epoch_of(partition)
        if epoch is not None:
            self.appended(partition, epoch, self.number)

    def _decided(self, token: object, error: ReplicaError | None) -> None:
        if isinstance(token, AppendToken):
            token.decide(error)
        else:
            super()._decided(token, error)

    def roles_changed(self) -> None:
        """At once, as in a broker: the coordinator resigns before its appends are refused."""
        for partition in self.services.topics.by_name[OFFSETS_TOPIC].partitions:
            key = partition.topic, partition.index
            replica = self.replicas.partitions.get(key)
            partition.replica = None if replica is None or replica.role is None else replica
            if partition.replica is not None and partition.log is not self.record_log(key):
                partition.use_log(self.record_log(key), is_stored=True)
            if not partition.is_led:
                self.groups.resign(partition.index, partition.leader_epoch)
            elif self.groups.elect(partition.index, partition.leader_epoch):
                self.loaded(partition.index)
        super().roles_changed()

    # -- requests of members --------------------------------------------------------------------------------------------

    def handle(self, request: Message, version: int, client_id: str, answered: Answered) -> None:
        """In the bytes of its version; see `ConnectedBroker`. A broker that is paused does so when it goes on."""
        arrived = type(request).decode(request.encode(version), version)
        run = self.guarded(lambda: self._handle(arrived, version, client_id, answered))
        run()

    def _handle(self, request: Message, version: int, client_id: str, answered: Answered) -> None:
        def answer(response: Message | None) -> None:
            answered(None if response is None else type(response).decode(response.encode(version), version))

        call = Call(version, client_id, "/laboratory", (self.name, 9092))
        pending = Pending()
        pending.notify = lambda: answer(pending.response)
        pending.answer_with(HANDLERS[request.api_key](cast(Services, self.services), request, call))
