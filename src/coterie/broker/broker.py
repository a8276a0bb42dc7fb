"""The broker: puts settings, disk, topics, coordinator and connections together, and runs the periodic tasks.

broker = Broker(BrokerSettings({"num.partitions": "3"}), data=Path("data"))
host, port = await broker.start("127.0.0.1", 0)
...
await broker.stop()
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from coterie.broker.cluster.cluster_view import ClusterView
from coterie.broker.connections.accepted_connection import AcceptedConnection
from coterie.broker.connections.open_connections import OpenConnections
from coterie.broker.handlers import HANDLERS
from coterie.broker.node import BrokerNode
from coterie.broker.process.descriptors import descriptors_left, listening_sockets
from coterie.broker.process.scheduling import Clock, Periodic
from coterie.broker.requests.memory import RequestMemory
from coterie.broker.requests.turns import in_thread
from coterie.broker.settings import BrokerSettings, SettingError
from coterie.broker.settings.listeners import (
    Listener,
    advertised_addresses,
    check_for_cluster,
    client_listeners,
    effective_listeners,
    effective_log_dirs,
    listener_at,
)
from coterie.broker.storage.cleaner import Cleaner
from coterie.broker.storage.disk import DataFolderInUse, DiskFileSystem, FolderLock
from coterie.broker.storage.flusher import sync_in_thread
from coterie.broker.storage.identity import FolderOfAnother
from coterie.broker.storage.last_run import PRIVATE_FILES
from coterie.log.checked_files import UnreadableFile
from coterie.log.filesystem import FileSystem, MemoryFileSystem
from coterie.runtime.receiver import Receiver
from coterie.runtime.shared_poll import shared_poll

if TYPE_CHECKING:
    from coterie.broker.cluster.zookeeper.topics_copy import Registration
    from coterie.broker.web.http import HttpServer
    from coterie.runtime.allocator import FreedMemory

logger = logging.getLogger(__name__)


class CannotListen(OSError):
    """The ``address`` is in use, or is not an address of this machine."""

    address = ("", 0)


def _cannot_listen(error: OSError, listener: Listener) -> CannotListen:
    reported = CannotListen(error.errno, error.strerror)
    reported.address = listener.address
    return reported


class Broker(BrokerNode):
    """One broker. ``data`` None keeps everything in ``memory``, of a machine with that ``boot_id``. ``cluster``: the view of a
    broker that joins a cluster otherwise than by its settings."""

    def __init__(
        self,
        settings: BrokerSettings | None = None,
        data: Path | None = None,
        clock: Clock | None = None,
        cluster: ClusterView | None = None,
        memory: MemoryFileSystem | None = None,
        boot_id: str | None = None,
    ) -> None:
        super().__init__(settings or BrokerSettings(), clock or Clock(), random.SystemRandom(), cluster)
        self._memory = memory or MemoryFileSystem(self.clock.now_ms)
        self._boot_id = boot_id
        self._fs: FileSystem
        self.data = data
        self.settings.given_otherwise(effective_log_dirs(self.settings, data))
        self.handlers = HANDLERS
        if self.settings.current.authorizer_class_name:
            from coterie.broker.handlers.access.checks import authorized  # which imports most handlers

            self.handlers = authorized(HANDLERS)
        self.max_request_bytes: int = self.settings.current.socket_request_max_bytes
        self.max_elements: int = self.settings.current.coterie_request_max_elements
        self.request_memory = RequestMemory(self.settings.current.queued_max_request_bytes)
        self.loop: asyncio.AbstractEventLoop = None  # type: ignore[assignment]
        self.freed_memory: FreedMemory | None = None  # of a process that serves this broker alone
        self.failure: Exception | None = None
        self.failed: asyncio.Event = asyncio.Event()
        self.connections = OpenConnections(self)
        self.listeners: list[Listener] = []  # with the addresses that they have
        self._servers: list[asyncio.Server] = []
        self._http: HttpServer | None = None
        self._registration: Registration | None = None
        self._lock: FolderLock | None = None
        self._periodic: Periodic | None = None
        self._cleaning: asyncio.Task[None] | None = None

    async def start(self, host: str | None = None, port: int = 0) -> tuple[str, int]:
        """`start_at` the address given, or else at all of `listeners`."""
        if host is None:
            return await self.start_at(client_listeners(self.settings))
        return await self.start_at([listener_at(self.settings, host, port)])

    async def start_at(self, chosen: list[Listener]) -> tuple[str, int]:
        """Opens the data folder and listens; returns the first address. Raises DataFolderInUse, FolderOfAnother, CannotListen,
        OSError for trouble in the folder, UnreadableFile for a file in it, Unreachable for a ZooKeeper that it should register
        in, or SettingError for a bad setting of a listener, or among those kept in the folder."""
        self.loop = asyncio.get_running_loop()
        if self.settings.joins_cluster:
            check_for_cluster(self.settings.current, chosen)
        self.advertised_addresses = advertised_addresses(self.settings, chosen)
        accepting = [self._accepting(listener) for listener in chosen]
        if self.settings.joins_cluster:
            from coterie.broker.ensemble import read_cluster_id

            self.cluster_id = await read_cluster_id(self.settings, self.new_cluster_id)
        self.poll = shared_poll(self.loop)
        try:
            self._open_own_folder()
            for listener in chosen:
                if listener.has_sasl:
                    self.clients.logins.check(listener.name)
        except (DataFolderInUse, UnreadableFile, FolderOfAnother, OSError, SettingError):
            self._release()
            raise
        self._report_findings()
        for each in zip(chosen, accepting, strict=True):
            self.listeners.append(await self._listen(*each))
        self._start_upkeep()
        self.settings.given_otherwise(effective_listeners(self.settings, chosen, self.listeners))
        bound = self.listeners[0].address
        if self.settings.joins_cluster:
            await self._join(bound)
        else:
            await self._register(bound)
        return bound

    async def _listen(self, listener: Listener, accepted: Callable[[], asyncio.BaseProtocol]) -> Listener:
        """Accepts connections, in a cluster only once `serve` is called; returns the listener with the address that it has.
        Raises CannotListen."""
        serves = self.cluster.is_alone
        try:
            if getattr(self.loop, "is_virtual", False):  # `coterie.simulation` opens no socket
                servers = [await self.loop.create_server(accepted, *listener.address, start_serving=serves)]
            else:
                sockets = await listening_sockets(*listener.address, self.log_lines)
                servers = [
                    await self.loop.create_server(accepted, sock=each, backlog=1024, start_serving=serves)
                    for each in sockets
                ]
        except OSError as error:
            for server in self._servers:
                server.close()
            self._release()
            raise _cannot_listen(error, listener) from error
        self._servers += servers
        address = servers[0].sockets[0].getsockname()
        return replace(listener, host=str(address[0]), port=int(address[1]))

    async def serve(self) -> None:
        """Accepts connections from now on: a broker of a cluster, whose address is bound before. Raises CannotListen."""
        try:
            for server in self._servers:
                await server.start_serving()
        except OSError as error:
            raise _cannot_listen(error, self.listeners[0]) from error

    def _accepting(self, listener: Listener) -> Callable[[], asyncio.BaseProtocol]:
        """Makes the protocol of each connection to the listener. Raises SettingError."""
        if not listener.has_tls:
            return lambda: self._polled(AcceptedConnection(self, listener))
        from coterie.broker.connections.listener_tls import ListenerTls
        from coterie.broker.connections.tls_connection import TlsConnection

        tls = ListenerTls(self.settings, listener)
        return lambda: self._polled(TlsConnection(self, tls, AcceptedConnection(self, listener)))

    def _polled(self, connection: Receiver) -> asyncio.BaseProtocol:
        return connection if self.poll is None else self.poll.accept(connection)

    def _open_own_folder(self) -> None:
        """Opens the data folder. Raises DataFolderInUse, OSError, UnreadableFile, SettingError."""
        if self.data is None:
            self._fs = self._memory
        else:
            self._lock = FolderLock(self.data)
            self._fs = DiskFileSystem(self.data, PRIVATE_FILES)
        aside = in_thread(self.loop)
        self.open(self._fs, self.loop, sync_in_thread(self.loop), self._disk_failed, self._boot_id, in_thread=aside)
        if self.data is not None:
            self.topics.room = descriptors_left

    def _release(self) -> None:
        """Nothing is read any more, and the folder is another's to open."""
        if self.poll is not None:
            self.poll.close()
        if self._lock is not None:
            self._lock.release()

    def _report_findings(self) -> None:
        """A warning for each finding."""
        findings = self.topics.findings
        if findings:
            where = "memory" if self.data is None else f"the data folder {self.data}"
            logger.warning("inconsistencies in %s: %d", where, len(findings))
        for finding in findings:
            logger.warning("%s", finding)

    def _advertised_address(self, bound: tuple[str, int]) -> tuple[str, int]:
        """Where the clients of the first listener reach the broker."""
        return self.advertised_addresses.get(self.listeners[0].name, bound)

    async def _register(self, address: tuple[str, int]) -> None:
        """Registers the broker in ZooKeeper where zookeeper.connect is set."""
        ensemble = self.settings.current.zookeeper_connect
        if not ensemble:
            return
        from coterie.broker.cluster.zookeeper.topics_copy import Registration

        registration = Registration(self.node_id, self._advertised_address(address), self.topics.partition_counts)
        own = self.settings.current
        timeouts_ms = own.zookeeper_session_timeout_ms, own.zookeeper_connection_timeout_ms
        try:
            await self.loop.run_in_executor(None, registration.start, ensemble, *timeouts_ms)
        except Exception:
            await self.stop()
            raise
        self._registration = registration
        self.topics.on_change = registration.changed

    async def _join(self, address: tuple[str, int]) -> None:
        """Joins the cluster of zookeeper.connect. Raises Unreachable, OSError."""
        from coterie.broker.ensemble import join_ensemble

        try:
            lost_power = self.topics.lost_power
            await join_ensemble(self, self._advertised_address(address), lost_power=lost_power, failed=self.left_alone)
            if self.failure is None:  # else its logs are not to be trusted
                self.topics.boot_file.write()
        except BaseException:
            member, self.member = self.member, None
            if member is not None:
                await member.leave()
            await self.stop()
            raise

    def left_alone(self, error: Exception) -> None:
        logger.critical("the broker's part in its cluster has failed; stopping: %r", error)
        self._fail(error)

    async def serve_http(self, server: HttpServer, host: str, port: int) -> tuple[str, int]:
        """Starts ``server`` for this broker, until the broker stops; returns its address. Raises OSError."""
        address = await server.start(host, port)
        self._http = server
        return address

    async def stop(self) -> None:
        """Answers waiting requests, closes connections and logs, and marks the folder as cleanly shut down."""
        if self.member is not None:
            await (self.member.stop() if self.failure is None else self.member.leave())
        if self._periodic is not None:
            self._periodic.stop()
        if self._cleaning is not None:
            self._cleaning.cancel()
        if self._registration is not None:
            await self.loop.run_in_executor(None, self._registration.stop)
        if self._http is not None:
            await self._http.stop()
        for server in self._servers:
            server.close()
        self.groups.close()
        self.share_coordinator.close()
        await self.connections.close()
        self.log_lines.flush()
        if self.failure is None:
            self.keep_files()
            self.topics.close()
        self._release()

    def _disk_failed(self, error: OSError) -> None:
        logger.critical("fsync failed: %s; stopping, because what is on disk is now unknown", error)
        self.topics.distrust_logs()
        self._fail(error)

    def _fail(self, error: Exception) -> None:
        self.failure = self.failure or error
        self.failed.set()

    # -- upkeep -----------------------------------------------------------------------------------------------------------

    def _start_upkeep(self) -> None:
        every: list[tuple[int, Callable[[], object]]] = [
            *self.upkeep(),
            (10_000, self.connections.close_idle),
            (1_000, self.connections.abort_stalled),
            (1_000, self.connections.abort_unauthenticated),
        ]
        if self.freed_memory is not None:
            self.connections.on_closed = self.freed_memory.connection_closed
            every.append((1_000, self.freed_memory.give_back))
        self._periodic = Periodic(self.loop, every)
        self.load_transactions()
        self.cleaner = Cleaner(self.topics, self.clock, self.settings)
        self._cleaning = self.loop.create_task(self.cleaner.run(self.groups.loaded))
