"""The broker: puts settings, disk, topics, coordinator and connections together, and runs the periodic tasks.

broker = Broker(BrokerSettings({"num.partitions": "3"}), data=Path("data"))
host, port = await broker.start("127.0.0.1", 0)
...
await broker.stop()
"""

from __future__ import annotations

import asyncio
import base64
import logging
import random
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from coterie.broker.calls import Call
from coterie.broker.cleaner import Cleaner
from coterie.broker.clock import Clock
from coterie.broker.descriptors import DescriptorReserve, descriptors_left
from coterie.broker.disk import DiskFileSystem, FolderLock
from coterie.broker.explaining import Progress
from coterie.broker.fetch_sessions import FetchSessions
from coterie.broker.flusher import Flusher, sync_in_thread
from coterie.broker.groups import GroupCoordinator
from coterie.broker.handlers import HANDLERS
from coterie.broker.kept_configs import KeptConfigs, ResourceType
from coterie.broker.log_lines import LogLines
from coterie.broker.memory import AnswerMemory, RequestMemory
from coterie.broker.quotas import ClientQuotas
from coterie.broker.scheduling import Scheduler
from coterie.broker.scram_credentials import ScramCredentials
from coterie.broker.server import Connection
from coterie.broker.settings import BrokerSettings, advertised_address, read_properties
from coterie.broker.settings.resource_tables import ClientMetricsConfig, client_metrics_config
from coterie.broker.telemetry import Telemetry
from coterie.broker.topics import Topics
from coterie.broker.transactions import TransactionCoordinator, loaded_producer_ids
from coterie.broker.turns import Turns
from coterie.broker.unserved import UnservedRequests
from coterie.log import checked_files
from coterie.log.filesystem import FileSystem, MemoryFileSystem
from coterie.log.findings import UnreadableFile

if TYPE_CHECKING:
    from coterie.broker.http import HttpServer
    from coterie.broker.zookeeper import Registration

logger = logging.getLogger(__name__)

FETCHES_REMEMBERED = 10_000
FLUSH_CHECK_MS = 250
STOP_GRACE_S = 2.0
_META = "meta.properties"


class CannotListen(OSError):
    """The address is in use, or is not an address of this machine."""


class Broker:
    """One broker. ``data`` None keeps everything in memory."""

    def __init__(
        self, settings: BrokerSettings | None = None, data: Path | None = None, clock: Clock | None = None
    ) -> None:
        self.settings = settings or BrokerSettings()
        self.data = data
        self.clock = clock or Clock()
        self.handlers = HANDLERS
        self.max_request_bytes: int = self.settings.current.socket_request_max_bytes
        self.max_fetch_bytes: int = self.settings.current.fetch_max_bytes
        self.max_idle_ms: int = self.settings.current.connections_max_idle_ms
        self.max_elements: int = self.settings.current.coterie_request_max_elements
        self.request_memory = RequestMemory(self.settings.current.queued_max_request_bytes)
        self.answer_memory = AnswerMemory(self.settings.current.coterie_queued_max_response_bytes)
        self.holding: set[Connection] = set()  # connections that may hold bytes of these two
        self.node_id: int = self.settings.current.node_id
        self.cluster_id = ""
        self.loop: asyncio.AbstractEventLoop = None  # type: ignore[assignment]
        self.failure: OSError | None = None
        self.failed: asyncio.Event = asyncio.Event()
        self._advertised = advertised_address(self.settings)
        self.fetches: dict[tuple[str, str], int] = {}  # client id and host -> when it last fetched
        slots = self.settings.current.max_incremental_fetch_session_cache_slots
        self.fetch_sessions = FetchSessions(slots, lambda: random.randrange(1, 2**31))
        self.unserved = UnservedRequests()
        self.progress = Progress()
        self._connections: set[Connection] = set()
        self._server: asyncio.Server | None = None
        self._http: HttpServer | None = None
        self._registration: Registration | None = None
        self._lock: FolderLock | None = None
        self._descriptors: DescriptorReserve | None = None
        self._periodic_tasks: list[asyncio.Task[None]] = []

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Opens the data folder and listens; returns the address. Raises DataFolderInUse, CannotListen, OSError for trouble
        in the folder, UnreadableFile for a file in it, Unreachable for a ZooKeeper that it should register in, or
        SettingError for a bad setting among those kept in the folder."""
        self.loop = asyncio.get_running_loop()
        self.turns = Turns(self.loop)
        self.log_lines = LogLines(logger, self.loop)
        try:
            self._open_folder()
        except (UnreadableFile, OSError):
            self._unlock()
            raise
        self._report_findings()
        self.telemetry = Telemetry(
            self.settings.current.telemetry_max_bytes, self._client_metrics_configs, lambda: uuid.uuid4().bytes
        )
        self.flusher = Flusher(self.loop, sync_in_thread(self.loop), self._disk_failed)
        self.groups = GroupCoordinator(self.settings, self.topics, self.clock, self.loop, self.flusher)
        self.groups.start()
        self.transactions = TransactionCoordinator(
            self.settings, self.topics, self.groups, self.clock, self._producer_ids
        )
        self._descriptors = DescriptorReserve(self.loop, self.log_lines)
        try:
            self._server = await self.loop.create_server(lambda: Connection(self), host, port, backlog=1024)
        except OSError as error:
            raise CannotListen(error.errno, error.strerror) from error
        self._start_periodic_tasks()
        address = self._server.sockets[0].getsockname()
        await self._register((str(address[0]), int(address[1])))
        return str(address[0]), int(address[1])

    def _open_folder(self) -> None:
        """Reads the data folder. Raises DataFolderInUse, OSError, UnreadableFile, SettingError."""
        fs: FileSystem
        if self.data is None:
            fs = MemoryFileSystem()
        else:
            self._lock = FolderLock(self.data)
            fs = DiskFileSystem(self.data)
        self._fs = fs
        self._identify()
        self.kept_configs = KeptConfigs(fs)
        self.settings.alter(*self._altered_settings())
        self.topics = Topics(fs, self.settings)
        if self.data is not None:
            self.topics.room = descriptors_left
        self.topics.load()
        self.quotas = ClientQuotas(fs)
        self.scram_credentials = ScramCredentials(fs)
        self._producer_ids = loaded_producer_ids(fs, self.topics)

    def _unlock(self) -> None:
        if self._lock is not None:
            self._lock.release()

    def _report_findings(self) -> None:
        """A warning for each finding."""
        findings = self.topics.findings
        if findings:
            logger.warning("the data folder %s was not as it should be, in %d places:", self.data, len(findings))
        for finding in findings:
            logger.warning("%s", finding)

    async def _register(self, address: tuple[str, int]) -> None:
        """Registers the broker in ZooKeeper where zookeeper.connect is set."""
        ensemble = self.settings.current.zookeeper_connect
        if not ensemble:
            return
        from coterie.broker.zookeeper import Registration

        registration = Registration(self.node_id, self._advertised or address, self.topics.partition_counts)
        own = self.settings.current
        timeouts_ms = own.zookeeper_session_timeout_ms, own.zookeeper_connection_timeout_ms
        try:
            await self.loop.run_in_executor(None, registration.start, ensemble, *timeouts_ms)
        except Exception:
            await self.stop()
            raise
        self._registration = registration
        self.topics.on_change = registration.changed

    async def serve_http(self, server: HttpServer, host: str, port: int) -> tuple[str, int]:
        """Starts ``server`` for this broker, until the broker stops; returns its address. Raises OSError."""
        address = await server.start(host, port)
        self._http = server
        return address

    def _identify(self) -> None:
        """The cluster id, kept in Kafka's meta.properties."""
        if self._fs.exists(_META):
            remedy = "restore it from a backup, or move it away to get a new cluster id"
            kept = read_properties(checked_files.read_lines(self._fs, _META, remedy))
            self.cluster_id = kept.get("cluster.id", "")
        if not self.cluster_id:
            self.cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
            text = f"version=1\ncluster.id={self.cluster_id}\nnode.id={self.node_id}\n"
            self._fs.write_file(_META, checked_files.to_lines(text))

    async def stop(self) -> None:
        """Answers waiting requests, closes connections and logs, and marks the folder as cleanly shut down."""
        for task in self._periodic_tasks:
            task.cancel()
        if self._registration is not None:
            await self.loop.run_in_executor(None, self._registration.stop)
        if self._http is not None:
            await self._http.stop()
        if self._server is not None:
            self._server.close()
        self.groups.close()
        await self._close_connections()
        if self._descriptors is not None:
            self._descriptors.close()
        self.log_lines.flush()
        if self.failure is None:
            self.topics.close()
        self._unlock()

    async def _close_connections(self) -> None:
        """Lets clients read their last responses for `STOP_GRACE_S` at most."""
        for connection in list(self._connections):
            connection.close()
        await asyncio.sleep(0)
        deadline_s = self.loop.time() + STOP_GRACE_S
        while self._connections and self.loop.time() < deadline_s:
            await asyncio.sleep(0.01)
        for connection in list(self._connections):
            connection.abort()

    def _disk_failed(self, error: OSError) -> None:
        logger.critical("the disk failed a sync: %s; the broker stops, since nobody knows what it holds", error)
        self.failure = error
        self.failed.set()

    # -- what handlers use --------------------------------------------------------------------------------------------

    @property
    def scheduler(self) -> Scheduler:
        return self.loop

    def address(self, call: Call) -> tuple[str, int]:
        """The host and port that clients connect to: advertised.listeners, or else the address of their connection."""
        return self._advertised or call.local_address

    def fetched(self, call: Call) -> int:
        """Records the time of a client's fetch, the broker's nearest sign of a poll; returns it in ms."""
        fetches = self.fetches
        who = (call.client_id, call.host)
        if who not in fetches and len(fetches) >= FETCHES_REMEMBERED:
            del fetches[next(iter(fetches))]
        now_ms = fetches[who] = self.clock.now_ms()
        return now_ms

    def apply_kept_settings(self) -> None:
        """Puts the broker's altered settings in force. Raises SettingError."""
        self.settings.alter(*self._altered_settings())
        self.topics.settings_changed()

    def _altered_settings(self) -> tuple[dict[str, str], dict[str, str]]:
        """Settings of all brokers, and settings of this one."""
        of = self.kept_configs.of
        return of(ResourceType.BROKER, ""), of(ResourceType.BROKER, str(self.node_id))

    def _client_metrics_configs(self) -> list[ClientMetricsConfig]:
        kept, kind = self.kept_configs, ResourceType.CLIENT_METRICS
        return [client_metrics_config(kept.of(kind, name)) for name in kept.names(kind)]

    # -- connections ---------------------------------------------------------------------------------------------------

    def connected(self, connection: Connection) -> bool:
        """False when there are max.connections already."""
        if len(self._connections) >= self.settings.current.max_connections:
            self.log_lines.warning("refusing a connection: there are max.connections already")
            return False
        self._connections.add(connection)
        return True

    def connections(self) -> list[Connection]:
        """The open connections."""
        return list(self._connections)

    def disconnected(self, connection: Connection) -> None:
        self._connections.discard(connection)
        self.holding.discard(connection)

    # -- periodic tasks --------------------------------------------------------------------------------------------------------

    def _start_periodic_tasks(self) -> None:
        every = [
            (self.settings.current.log_retention_check_interval_ms, self._retain),
            (self.settings.current.offsets_retention_check_interval_ms, self.groups.expire_offsets),
            (
                self.settings.current.transaction_abort_timed_out_transaction_cleanup_interval_ms,
                self.transactions.abort_timed_out,
            ),
            (10_000, self._close_idle),
            (1_000, self._abort_stalled),
            (FLUSH_CHECK_MS, self._flush_due),
        ]
        self._periodic_tasks = [self.loop.create_task(_repeat(ms, what)) for ms, what in every]
        self.loop.call_soon(self.groups.when_loaded, self.transactions.load)
        self.cleaner = Cleaner(self.topics, self.clock, self.settings)
        self._periodic_tasks.append(self.loop.create_task(self.cleaner.run(self.groups.loaded())))

    def _retain(self) -> None:
        now_ms = self.clock.now_ms()
        expired_ms = now_ms - self.settings.current.producer_id_expiration_ms
        for log in self.topics.every_log():
            log.retain(now_ms)
            log.producers.expire(expired_ms, log.transactions.open)
        self.topics.save_start_offsets()

    def _flush_due(self) -> None:
        """flush.ms: a log is synced when its oldest unsynced record is that old."""
        now_ms = self.clock.now_ms()
        for log in self.topics.every_log():
            if log.unflushed_messages and now_ms - log.unflushed_since_ms >= log.config.flush_ms:
                self.flusher.after_sync(log)

    def _close_idle(self) -> None:
        if self.max_idle_ms < 0:
            return
        oldest_s = self.loop.time() - self.max_idle_ms / 1000
        for connection in [c for c in self._connections if c.last_used_s < oldest_s and not c.is_waiting()]:
            connection.abort()

    def _abort_stalled(self) -> None:
        """Aborts stalled connections that hold memory while other connections wait for memory."""
        lacking = self.request_memory.short or self.answer_memory.short
        limit_s = self.settings.current.coterie_connections_max_stalled_ms / 1000
        now_s = self.loop.time()
        for connection in list(self.holding):
            stalled_s = connection.stalled_s(now_s)
            if stalled_s is None:
                self.holding.discard(connection)
            elif lacking and stalled_s >= limit_s:
                text = "aborting a connection from %s that has stood still for %d s, for want of memory"
                self.log_lines.warning(text, connection.host, stalled_s)
                connection.abort()


async def _repeat(every_ms: int, what: object) -> None:
    assert callable(what)
    while True:
        await asyncio.sleep(every_ms / 1000)
        try:
            what()
        except OSError as error:
            logger.error("%s failed: %s; it will be tried again", getattr(what, "__name__", what), error)
        except Exception:
            logger.exception("%s failed; it will be tried again", getattr(what, "__name__", what))
