"""A broker of the laboratory's cluster that serves real producers and consumers: its metadata, records and producer ids by the
broker's own handlers, over replicated logs."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, cast

from coterie.broker.clients.clients import Clients
from coterie.broker.cluster.cluster_view import ClusterView, LiveBroker
from coterie.broker.cluster.hosted_topics import HostedTopics
from coterie.broker.groups.group_coordinator import GroupCoordinator
from coterie.broker.handlers import cluster as cluster_handlers
from coterie.broker.handlers.coordinators import transactions as transaction_handlers
from coterie.broker.handlers.logs import fetch as fetch_handlers
from coterie.broker.handlers.logs import list_offsets as list_offsets_handlers
from coterie.broker.handlers.logs import records as record_handlers
from coterie.broker.process.log_lines import LogLines
from coterie.broker.requests.calls import Call
from coterie.broker.requests.fetch_sessions import FetchSessions
from coterie.broker.requests.memory import NO_LIMIT, AnswerMemory
from coterie.broker.requests.message_sets import MessageSets
from coterie.broker.requests.turns import Turns
from coterie.broker.requests.unserved import UnservedRequests
from coterie.broker.settings import BrokerSettings
from coterie.broker.settings.features import Features
from coterie.broker.storage.flusher import Flusher
from coterie.broker.storage.replica_effects import ReplicaEffects
from coterie.broker.storage.topic import Partition
from coterie.broker.storage.topics import Topics
from coterie.broker.transactions.transaction_coordinator import ClusterTransactions
from coterie.broker.transactions.transaction_requests import TransactionRequests
from coterie.broker.transactions.verified_requests import VerifiedRequests
from coterie.controller.config_changes import SettingsChanged
from coterie.controller.requests import Request, UpdateMetadata
from coterie.laboratory.cluster.administrator import EXTRA_TOPICS, ORDERS
from coterie.laboratory.cluster.handling_broker import HandlingBroker
from coterie.laboratory.cluster.process_scheduler import ProcessScheduler
from coterie.laboratory.cluster.produced_log import ProducedReplicaLog
from coterie.laboratory.cluster.transactional_log import TransactionalReplicaLog
from coterie.laboratory.node.scheduler import VirtualClock
from coterie.log.files.filesystem import MemoryFileSystem
from coterie.replication.states import LEADER_DURING_DELETE, TopicPartition

PRODUCED = frozenset({ORDERS, *EXTRA_TOPICS})
SESSIONS = 2  # fewer than the consumers have, so that some are evicted
logger = logging.getLogger("coterie.broker")


class _ProducerIds:
    """The part of `ClusterTransactions` that gives a producer without transactions its id."""

    def __init__(self, broker: ServingBroker) -> None:
        self.new_producer_id = broker.take_producer_id


class ServedRecords:
    """What the handlers use of one life of a broker. A partition's log is the replica's own."""

    member = topic_changes = None
    verified_requests: VerifiedRequests | None = None
    settings_table: ClassVar[Mapping[str, str]] = {"auto.create.topics.enable": "false"}

    def __init__(self, broker: ServingBroker, effects: ReplicaEffects) -> None:
        self._broker, self.node_id, self.cluster_id = broker, broker.number, "laboratory"
        self.settings = BrokerSettings({**self.settings_table, "node.id": str(broker.number)})
        self.scheduler, self.clock = ProcessScheduler(broker), VirtualClock(broker)
        self.turns, self.log_lines = Turns(self.scheduler), LogLines(logger, self.scheduler)
        self.unserved, self.replica_effects = UnservedRequests(), effects
        fs = MemoryFileSystem()
        self.topics, self.features = Topics(fs, self.settings, in_cluster=True), Features(fs)
        # never asked for: the logs of replicas are synced by themselves
        self.flusher = Flusher(self.scheduler, lambda files, synced: None, lambda error: None)
        self.cluster = ClusterView(broker.number, is_alone=False)
        self.fetch_sessions = FetchSessions(SESSIONS, lambda: broker.world.random.randrange(1, 2**31))
        self.clients = Clients(fs, 0, lambda: bytes(16))
        self.answer_memory = AnswerMemory(NO_LIMIT)
        self.message_sets = MessageSets()
        self.max_fetch_bytes, self.max_idle_ms = 2_000, 600_000
        self.transaction_requests = self._new_transaction_requests()
        self.hosted = HostedTopics(
            self.topics,
            self.flusher,
            self.settings,
            self.cluster_id,
            lambda: broker.now_ms,
            role_changed=lambda partition: None,
            topics_deleted=lambda names: None,
            known_of=self._known_of,
        )
        self.cluster.on_update, self.cluster.on_forget = self._updated, self.hosted.forgotten

    def _new_transaction_requests(self) -> TransactionRequests:
        ids = cast(ClusterTransactions, _ProducerIds(self._broker))
        groups = cast(GroupCoordinator, None)  # of transactions with offsets alone
        return TransactionRequests(ids, self.topics, groups, self.replica_effects, self.clock)

    def _known_of(self, topic: str) -> SettingsChanged | None:
        return self._broker.settings.known.get(topic)

    def _updated(self, partitions: Iterable[TopicPartition]) -> None:
        """As `joining`: announced once their ids and settings are known; some may be deleted by then."""
        updates = list(partitions)

        def announce() -> None:
            self.hosted.announced([partition for partition in updates if partition in self.cluster.states])
            self._broker.follow_roles()
            self.view_changed()

        self._broker.settings.with_settings({topic for topic, _ in updates}, announce)

    def view_changed(self) -> None:
        """Leaders have moved."""

    def address(self, call: Call) -> tuple[str, int]:
        """See `LeaderServices`."""
        return call.connection.local_address


class ServingBroker(HandlingBroker):
    """It ``reads_settings``, which have the topics' ids, and ``reserves_ids``."""

    record_topics = PRODUCED
    handlers = (
        cluster_handlers.HANDLERS
        | fetch_handlers.HANDLERS
        | list_offsets_handlers.HANDLERS
        | record_handlers.HANDLERS
        | transaction_handlers.HANDLERS
    )
    services: ServedRecords

    def start(self) -> None:
        self.services = self._new_services()
        super().start()

    def _new_log(self, partition: TopicPartition) -> TransactionalReplicaLog:
        is_produced = partition[0] in PRODUCED
        return ProducedReplicaLog(self.world, self.disk) if is_produced else super()._new_log(partition)

    def _new_services(self) -> ServedRecords:
        return ServedRecords(self, self._effects())

    @property
    def up(self) -> bool:
        """See `ConnectedBroker`."""
        return self.alive

    @property
    def incarnation(self) -> int:
        """See `ConnectedBroker`."""
        return self.life

    def _applied(self, request: Request) -> Any:
        refused = super()._applied(request)
        if isinstance(request, UpdateMetadata):
            view, states = self.services.cluster, request.states
            deleted = [p for p, state in states.items() if state.leader == LEADER_DURING_DELETE]
            kept = {p: state for p, state in states.items() if state.leader != LEADER_DURING_DELETE}
            live = [LiveBroker(number, self.peers[number].name, 9092) for number in request.live]
            view.update(request.controller, live, kept, request.offline)
            view.forget(deleted)
        return refused

    def roles_changed(self) -> None:
        """At once, as in a broker: before appends that wait are refused."""
        hosted, known = self.services.hosted, self.services.topics.by_name
        unknown = {p for p in self.replicas.partitions if p[0] not in known or p[1] >= len(known[p[0]].partitions)}
        hosted.announced(sorted(unknown & self.with_role()))
        self.follow_roles()
        super().roles_changed()

    def follow_roles(self) -> None:
        """Each partition that the handlers know gets its replica; fetches that wait see who leads."""
        for topic in self.services.topics.by_name.values():
            for partition in topic.partitions:
                self._follow_role(partition)
                self._role_followed(partition)
                partition.appended()

    def _role_followed(self, partition: Partition) -> None:
        """The partition has its replica, perhaps in another role."""
