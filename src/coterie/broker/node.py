"""A broker without its connections: the data folder, topics, both coordinators, what handlers use of them, and the upkeep.

Clock, scheduler, file system and randomness are given, so that the laboratory runs the same in virtual time.
"""

from __future__ import annotations

import base64
import logging
import random
import uuid
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from coterie.broker.clients.acls import Acls
from coterie.broker.clients.clients import Clients
from coterie.broker.cluster.cluster_view import ClusterView
from coterie.broker.groups.explanation import Progress
from coterie.broker.groups.group_coordinator import GroupCoordinator
from coterie.broker.process.loggers import LogLines
from coterie.broker.process.scheduling import Clock, Scheduler
from coterie.broker.requests.calls import Call
from coterie.broker.requests.fetch_sessions import FetchSessions
from coterie.broker.requests.memory import ResponseMemory
from coterie.broker.requests.message_sets import MessageSets
from coterie.broker.requests.turns import InThread, Turns, TurnWrites, at_once, finish
from coterie.broker.requests.unserved import UnservedRequests
from coterie.broker.settings import BrokerSettings
from coterie.broker.settings.altered_settings import KeptConfigs, Resource, ResourceType
from coterie.broker.settings.features import Features
from coterie.broker.settings.metadata_versions import lacks_topic_ids
from coterie.broker.settings.tables.resource_tables import client_metrics_config
from coterie.broker.share.dead_letter_queue import LetterServices, archived_lines, buried_line
from coterie.broker.share.share_hosting import ShareHosting
from coterie.broker.share.share_sessions import SessionKey
from coterie.broker.share_state.end_offsets import EndOffsets
from coterie.broker.share_state.persister import SharePersister
from coterie.broker.share_state.share_coordinator import COLD_INTERVAL_MS, PRUNE_INTERVAL_MS, ShareCoordinator
from coterie.broker.storage.flusher import Flusher, SyncFiles
from coterie.broker.storage.identity import identify_alone, identify_member
from coterie.broker.storage.last_run import KEPT_FILES, KeptFiles
from coterie.broker.storage.replicas import ReplicaEffects
from coterie.broker.storage.topic import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, Partition, Topic
from coterie.broker.storage.topics import Topics
from coterie.broker.transactions.folder_producer_ids import loaded_producer_ids
from coterie.broker.transactions.transaction_coordinator import TransactionCoordinator
from coterie.broker.transactions.transaction_requests import OwnMarkers, TransactionRequests
from coterie.broker.transactions.transaction_verification import TransactionVerification, VerifiedRequests
from coterie.coordinator.share_state.state import SHARE_STATE_TOPIC
from coterie.log.checked_files import Finding
from coterie.log.filesystem import FileSystem
from coterie.log.retention import retain
from coterie.runtime.shared_poll import SharedPoll
from coterie.share.dead_letters import DeadRecords
from coterie.share.partition import Ended
from coterie.wire.apis import advertised_versions
from coterie.wire.messages.clients.api_versions import ApiVersion

if TYPE_CHECKING:
    from coterie.broker.cluster.access_nodes import AclNodes, TokenNodes
    from coterie.broker.cluster.entity_settings import ClientEntities, EntitySettings
    from coterie.broker.cluster.member import ClusterMember
    from coterie.broker.cluster.topic_changes import TopicAdministration

logger = logging.getLogger(__name__)

FLUSH_CHECK_MS = 250
KEEP_FILES_MS = 5_000
HIGH_WATERMARKS_MS = 60_000  # of a broker alone, whose next start sees by them that the end of a log is gone
_UUID_FIXED, _UUID_VERSION_4 = 0xF << 76 | 0x3 << 62, 0x4 << 76 | 0x2 << 62  # version and variant (RFC 9562)


class BrokerNode:
    """The `Services` of one broker, for every handler. ``rng`` makes the ids of topics, members and fetch sessions.
    ``cluster``: the view of a broker of a cluster whose settings do not say that it is."""

    def __init__(
        self, settings: BrokerSettings, clock: Clock, rng: random.Random, cluster: ClusterView | None = None
    ) -> None:
        self.settings, self.clock, self._rng = settings, clock, rng
        self.data: Path | None = None
        self.max_fetch_bytes: int = settings.current.fetch_max_bytes
        self.max_idle_ms: int = settings.current.connections_max_idle_ms
        self.message_sets = MessageSets()
        self.response_memory = ResponseMemory(settings.current.coterie_queued_max_response_bytes)
        self.node_id: int = settings.current.node_id
        self.cluster = cluster or ClusterView(self.node_id, is_alone=not settings.joins_cluster)
        self.lacks_topic_ids = lacks_topic_ids(settings.current.inter_broker_protocol_version)
        self.member: ClusterMember | None = None
        self.topic_changes: TopicAdministration | None = None
        self.entity_settings: EntitySettings | None = None
        self.client_entities: ClientEntities | None = None
        self.acl_nodes: AclNodes | None = None
        self.token_nodes: TokenNodes | None = None
        self.unserved = UnservedRequests()
        self.poll: SharedPoll | None = None  # of the connections that it accepts
        self.cluster_id = ""
        self.advertised_addresses: dict[str, tuple[str, int]] = {}  # by the names of listeners
        slots = settings.current.max_incremental_fetch_session_cache_slots
        self.fetch_sessions = FetchSessions(slots, lambda: rng.randrange(1, 2**31))
        self.progress = Progress()

    def open(
        self,
        fs: FileSystem,
        scheduler: Scheduler,
        sync: SyncFiles,
        disk_failed: Callable[[OSError], None],
        boot_id: str | None = None,
        *,
        in_thread: InThread = at_once,
    ) -> None:
        """Reads the data folder and begins to load the groups. ``disk_failed``: called after a sync that failed; the broker
        must stop then. ``boot_id``: of the machine's present boot, None for this machine's. In a cluster ``cluster_id`` is set
        before, unless the folder is to take any. Raises OSError, UnreadableFile, FolderOfAnother, or SettingError for a bad
        setting among those kept in the folder."""
        self.scheduler: Scheduler = scheduler
        self.turns, self.writes = Turns(scheduler, in_thread), TurnWrites(scheduler, self.poll)
        self.log_lines = LogLines(logger, scheduler)
        self._open_folder(fs, boot_id)
        finish(self._subscribing(self.kept_configs.names(ResourceType.CLIENT_METRICS)))
        self.flusher = Flusher(scheduler, sync, disk_failed)
        self.topics.on_sync_failed = self.flusher.fail
        self.groups = GroupCoordinator(
            self.settings,
            self.topics,
            self.clock,
            scheduler,
            flusher=self.flusher,
            effects=self.replica_effects,
            new_member_id=self._member_id,
        )
        own = self.settings, self.topics, self.clock, scheduler, self.flusher, self.replica_effects
        self.share_coordinator = ShareCoordinator(*own)
        self.share_persister = SharePersister(
            self.share_coordinator, self.topics, self.cluster, scheduler, self.node_id
        )
        self.share_ends = EndOffsets(self.topics, self.cluster, scheduler)
        used = self.settings, self.topics, self.cluster, self.clock, scheduler, self.flusher, self.replica_effects
        self.share = ShareHosting(LetterServices(*used), self.features, self.share_persister)
        self.groups.persist = self.share_persister.send
        self.share.on_ended, self.share.on_buried = self._records_archived, self._records_buried
        self.features.on_change = self.share.features_changed
        self.topics.on_deleted = self._topics_deleted
        finish(self._configuring(self.kept_configs.names(ResourceType.GROUP)))
        self.groups.start()
        self.share_coordinator.start()
        self._open_transactions()

    def _open_transactions(self) -> None:
        """Of a broker alone; one in a cluster is bound to it by `joining`."""
        alone = self.cluster.is_alone
        own = self.settings, self.topics, self.cluster, self.clock, self.scheduler, self.features, self.replica_effects
        self.transactions = TransactionCoordinator(*own, self._producer_ids.take if alone else None)
        self.transaction_requests = TransactionRequests(
            self.transactions, self.topics, self.groups, self.replica_effects, self.clock
        )
        self.verified_requests = VerifiedRequests(
            self.topics, TransactionVerification(self.topics, self.cluster, self.transactions)
        )
        if alone:
            self.transactions.peers = OwnMarkers(self.transaction_requests)
            self.groups.transactions = self.transactions

    def _records_archived(self, group_id: str, partition: Partition, ended: Sequence[Ended]) -> None:
        source, client_id = (partition.topic, partition.index), partial(self._client_id, group_id)
        self.groups.journal.add(archived_lines(group_id, source, ended, client_id, self.clock.now_ms()))

    def _records_buried(
        self, group_id: str, partition: Partition, records: DeadRecords, topic: str, problem: str
    ) -> None:
        source = partition.topic, partition.index
        if problem:
            self.log_lines.warning("a record of group %s has no dead letter: %s", group_id, problem)
        client_id, burial = partial(self._client_id, group_id), (topic, problem)
        self.groups.journal.add([buried_line(group_id, source, records, client_id, burial, self.clock.now_ms())])

    def _client_id(self, group_id: str, member_id: str) -> str:
        return self.share.sessions.client_id(SessionKey(group_id, member_id))

    def _topics_deleted(self, topics: list[Topic]) -> None:
        self.groups.topics_deleted(topics)
        self.share.topics_deleted(topics)
        self.share_coordinator.topics_deleted(topics)

    def _open_folder(self, fs: FileSystem, boot_id: str | None) -> None:
        self._findings: list[Finding] = []  # from before there are topics, which keep them
        self._kept_files = KeptFiles(fs, self._findings.append)
        self._kept_files.report_missing()
        self._identify(fs)
        self.kept_configs = KeptConfigs(fs)
        self.settings.alter(*self._altered_settings())
        in_cluster = not self.cluster.is_alone
        self.topics = Topics(fs, self.settings, lambda: self._uuid().bytes, in_cluster=in_cluster, boot_id=boot_id)
        self.topics.warn = self.log_lines.warning
        for finding in self._findings:
            self.topics.report(finding)
        self.topics.load()
        self.replica_effects = ReplicaEffects()
        current = self.settings.current
        acls = Acls(fs, current, is_alone=not in_cluster) if current.authorizer_class_name else None
        new_id = lambda: self._uuid().bytes  # noqa: E731
        self.clients = Clients(fs, self.settings, self.clock, new_id, acls, is_alone=not in_cluster)
        self.features = Features(fs, are_absent=self.lacks_topic_ids)
        self._producer_ids = loaded_producer_ids(fs, self.topics)
        self.keep_files()

    async def serve(self) -> None:
        """Requests are served from now on. Called once users, quotas and ACLs are known."""

    def keep_files(self) -> None:
        """The next start knows which small files there are now."""
        try:
            self._kept_files.save()
        except OSError as error:
            logger.warning(
                "%s cannot be written: %s; the next start may not notice a file that is gone", KEPT_FILES, error
            )

    def _uuid(self) -> uuid.UUID:
        return uuid.UUID(int=self._rng.getrandbits(128), version=4)

    def _member_id(self) -> str:
        """The text of a `_uuid`, written without one, which takes twice as long."""
        digits = f"{self._rng.getrandbits(128) & ~_UUID_FIXED | _UUID_VERSION_4:032x}"
        return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"

    def _identify(self, fs: FileSystem) -> None:
        """The cluster id: of a broker alone by its folder, in a cluster by ZooKeeper, where the folder must be of both."""
        if self.cluster.is_alone:
            has_given_id = "node.id" in self.settings.given
            make_id, report = self.new_cluster_id, self._findings.append
            self.cluster_id = identify_alone(fs, self.node_id, make_id, report, has_given_id=has_given_id)
        elif self.cluster_id:
            identify_member(fs, self.node_id, self.cluster_id)

    def new_cluster_id(self) -> str:
        """As Kafka makes them."""
        return base64.urlsafe_b64encode(self._uuid().bytes).decode().rstrip("=")

    def load_transactions(self) -> None:
        """Loads the transaction coordinator of a broker alone, soon and once the groups are loaded, then drops offsets that
        stayed pending in no transaction."""
        if self.topics.in_cluster:
            return
        loaded = partial(self.groups.abort_orphans, self.transactions)
        self.scheduler.call_soon(lambda: self.groups.when_loaded(lambda: self.transactions.start(loaded)))

    def role_changed(self, partition: Partition) -> None:
        """The controller has made this broker leader or follower of the partition, or has stopped its replica: where it is one
        of a coordinator, its groups, transactional ids or states are loaded or left."""
        if partition.topic == TRANSACTIONS_TOPIC:
            self.transactions.role_changed(partition)
        if partition.topic == SHARE_STATE_TOPIC:
            self.share_coordinator.role_changed(partition)
        self.share.role_changed(partition)
        if partition.topic != OFFSETS_TOPIC:
            return
        if partition.is_led:
            former = self.cluster.former_leader((partition.topic, partition.index))
            self.groups.elect(partition.index, partition.leader_epoch, former)
        else:
            self.groups.resign(partition.index, partition.leader_epoch)

    # -- what handlers use --------------------------------------------------------------------------------------------

    def advertised(self) -> list[ApiVersion]:
        """The APIs and their versions; a cluster with older brokers gets no version that they could not serve. Telemetry is
        offered once somebody wants metrics, as by Kafka once a reporter takes them."""
        wants_metrics = bool(self.kept_configs.names(ResourceType.CLIENT_METRICS))
        return advertised_versions(
            in_cluster=not self.cluster.is_alone,
            topic_ids=not self.lacks_topic_ids,
            telemetry=wants_metrics or self.settings.current.coterie_telemetry_enable,
        )

    def address(self, call: Call) -> tuple[str, int]:
        """The host and port that clients connect to: advertised.listeners, or else the address of their connection."""
        connection = call.connection
        return self.advertised_addresses.get(connection.listener.name) or connection.local_address

    def apply_kept_settings(self, altered: Collection[Resource]) -> Generator[None, None, None]:
        """Puts the settings of the altered resources in force, a topic or a group with each step. Raises SettingError."""
        groups = [name for kind, name in altered if kind is ResourceType.GROUP]
        if any(kind is ResourceType.BROKER for kind, _ in altered):
            self.settings.alter(*self._altered_settings())
            yield from self.topics.configuring_logs(list(self.topics.by_name.values()))
            groups = self.kept_configs.names(ResourceType.GROUP)
        yield from self._configuring(groups)
        yield from self._subscribing(name for kind, name in altered if kind is ResourceType.CLIENT_METRICS)

    def _configuring(self, groups: Iterable[str]) -> Generator[None, None, None]:
        self.groups.settings_changed()
        for group in groups:
            own = self.kept_configs.of(ResourceType.GROUP, group)
            self.groups.configure(group, own)
            self.share.configure(group, own)
            yield

    def _altered_settings(self) -> tuple[dict[str, str], dict[str, str]]:
        """Settings of all brokers, and settings of this one."""
        of = self.kept_configs.of
        return of(ResourceType.BROKER, ""), of(ResourceType.BROKER, str(self.node_id))

    def _subscribing(self, names: Iterable[str]) -> Generator[None, None, None]:
        """Puts the settings of subscriptions to client metrics in force."""
        for name in names:
            kept = self.kept_configs.of(ResourceType.CLIENT_METRICS, name)
            self.clients.telemetry.configure(name, client_metrics_config(kept) if kept else None)
            yield

    # -- upkeep -------------------------------------------------------------------------------------------------------

    def upkeep(self) -> list[tuple[int, Callable[[], None]]]:
        """The periodic tasks: the interval in ms, and what is done then, which may raise OSError."""
        current = self.settings.current
        return [
            (current.log_retention_check_interval_ms, self._retain),
            (current.offsets_retention_check_interval_ms, self.groups.expire_offsets),
            (
                current.transaction_abort_timed_out_transaction_cleanup_interval_ms,
                self._abort_timed_out,
            ),
            (
                current.transaction_remove_expired_transaction_cleanup_interval_ms,
                self.transactions.remove_expired,
            ),
            (current.delegation_token_expiry_check_interval_ms, self._remove_expired_tokens),
            (COLD_INTERVAL_MS, self.share_coordinator.snapshot_cold),
            (PRUNE_INTERVAL_MS, self.share_coordinator.prune),
            (FLUSH_CHECK_MS, self._flush_due),
            (KEEP_FILES_MS, self.keep_files),
            (HIGH_WATERMARKS_MS, self._keep_high_watermarks),
        ]

    def _abort_timed_out(self) -> None:
        self.transactions.tick()
        if self.groups.orphans_left and self.transactions.loaded:
            self.groups.abort_orphans(self.transactions)

    def _remove_expired_tokens(self) -> None:
        """In a cluster the controller does it."""
        expired = self.clients.tokens.expired(self.clock.now_ms())
        if self.token_nodes is None:
            self.clients.tokens.remove(expired)
        elif self.member is not None and self.member.driver.is_controller:
            self.token_nodes.remove_soon(expired)

    def _retain(self) -> None:
        now_ms = self.clock.now_ms()
        expired_ms = now_ms - self.settings.current.producer_id_expiration_ms
        for log in self.topics.every_log():
            retain(log, now_ms)
            log.producers.expire(expired_ms, log.transactions.open)
        self.topics.save_start_offsets()

    def _keep_high_watermarks(self) -> None:
        if not self.topics.in_cluster:
            self.topics.save_high_watermarks(if_moved=True)

    def _flush_due(self) -> None:
        """flush.ms: a log is synced when its oldest unsynced record is that old."""
        now_ms = self.clock.now_ms()
        for log in self.topics.every_log():
            flushing = log.flushing
            if flushing.is_held or (flushing.messages and now_ms - flushing.since_ms >= log.config.flush_ms):
                self.flusher.after_sync(log)
