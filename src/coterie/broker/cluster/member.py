"""A broker's membership of a cluster: registration, controller, replicas and fetchers together; its controlled shutdown."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from coterie.broker.cluster.cluster_view import ClusterView
from coterie.broker.cluster.control_requests import ControlRequests
from coterie.broker.cluster.controller_commands import ControllerCommands
from coterie.broker.cluster.controller_driver import ControllerDriver
from coterie.broker.cluster.journal_sender import JournalSender
from coterie.broker.cluster.peers.connections import PEER_FAILED, Address, Dial, PeerConnection, open_stream
from coterie.broker.cluster.registered_senders import RegisteredSenders
from coterie.broker.cluster.replicas.follower_fetches import FollowerFetches
from coterie.broker.cluster.replicas.replica_fetcher import ReplicaFetchers
from coterie.broker.cluster.replicas.replica_manager import ReplicaManager, ReplicaStorage
from coterie.broker.cluster.settings import ClusterConfig
from coterie.broker.cluster.zookeeper.session import OpenSession
from coterie.broker.process.scheduling import Periodic
from coterie.broker.requests.fetch_sessions import FetchSessions
from coterie.replication.states import TopicPartition
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.brokers.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse

logger = logging.getLogger(__name__)

CONNECTION_CHECKED_S = 0.1
CONTROLLED_SHUTDOWN_VERSION = 3  # inter.broker.protocol.version 2.6


async def _serves() -> None:
    """Of a broker that serves from its start."""


class ClusterMember:
    """``registration``: what the broker's node in ZooKeeper holds; ``view`` is filled by the controller's UpdateMetadata.
    ``failed`` is called with what no part of it can mend: the broker must stop then."""

    def __init__(
        self,
        config: ClusterConfig,
        registration: str,
        view: ClusterView,
        storage: ReplicaStorage,
        fetch_sessions: FetchSessions,
        now_ms: Callable[[], int],
        dial: Dial = open_stream,
        failed: Callable[[Exception], None] = lambda error: None,
    ) -> None:
        self.config, self._view, self._now_ms, self._dial = config, view, now_ms, dial
        self.manager = ReplicaManager(config.broker_id, config.replication, storage, now_ms)
        self._failure: Exception | None = None
        self._report_failure = failed
        self.driver = ControllerDriver(
            config,
            registration,
            self._registered,
            self.manager.isr_effect,
            now_ms=now_ms,
            dial=dial,
            failed=self._failed,
        )
        self.manager.write_isr = self.driver.write_isr
        self.fetchers = ReplicaFetchers(config, self.manager, self._address, now_ms, dial)
        self.control = ControlRequests(self.manager, view, self.driver, self._cluster_changed, config.security_protocol)
        self.commands = ControllerCommands(self.driver)
        self.senders: RegisteredSenders | None = None  # None with an authorizer
        if not config.has_authorizer:
            self.senders = RegisteredSenders(self.driver.apply, registration, config.inter_broker_addresses)
        self.follower_fetches = FollowerFetches(self.manager, view, asyncio.get_running_loop(), fetch_sessions)
        self.journal: JournalSender | None = None
        self.at_end: list[Callable[[], Awaitable[None]]] = []  # what else ends with the membership
        self._is_registered = asyncio.Event()
        self._upkeep: Periodic | None = None

    async def start(self, open_session: OpenSession, serve: Callable[[], Awaitable[None]] = _serves) -> None:
        """Returns once the broker is registered. ``serve`` is called before that, once users, quotas and ACLs are known: from
        then on requests must be served. Raises ZooKeeperError."""
        await self.driver.open(open_session)
        if self._failure is not None:
            raise self._failure
        await serve()
        self.driver.start()
        await self._is_registered.wait()
        if self._failure is not None:
            raise self._failure
        every = [
            (self.config.replication.replica_lag_time_max_ms // 2, self.manager.tick),
            (self.config.replica_high_watermark_checkpoint_interval_ms, self.manager.checkpoint),
        ]
        self._upkeep = Periodic(asyncio.get_running_loop(), every)

    def _registered(self, broker_epoch: int) -> None:
        logger.info("broker %d is registered, with epoch %d", self.config.broker_id, broker_epoch)
        self.manager.registered(broker_epoch)
        self.fetchers.wake()
        self._is_registered.set()
        self.control.registered()

    def _failed(self, error: Exception) -> None:
        self._failure = error
        self._is_registered.set()
        self._report_failure(error)

    def _cluster_changed(self) -> None:
        """Roles have changed, or the live brokers."""
        self.fetchers.wake()
        self.manager.live_brokers_changed()

    def _address(self, broker: int) -> Address | None:
        live = self._view.live.get(broker)
        return self.control.leaders.get(broker) if live is None else (live.host, live.port)

    def low_watermark(self, partition: TopicPartition) -> int:
        """The low watermark of a partition that this broker leads. Raises ReplicaRefusal NOT_LEADER_OR_FOLLOWER."""
        return self.manager.replicas.leader(partition).low_watermark(self._view.live)

    # -- the end --------------------------------------------------------------------------------------------------------

    async def stop(self) -> None:
        """A controlled shutdown: the controller moves the leaders first. Without ZooKeeper no controller can, and
        none is waited for; Kafka 2.6 waits until its time-outs."""
        if self.journal is not None:
            await self.journal.close()
        if self.config.controlled_shutdown_enable and not await self._shut_down_while_connected():
            logger.warning("broker %d stops without a controlled shutdown", self.config.broker_id)
        await self._end_tasks()
        await self.driver.close()
        try:
            self.manager.checkpoint()
        except OSError as error:
            logger.error("the high watermarks cannot be written: %s", error)

    async def _shut_down_while_connected(self) -> bool:
        shutdown = asyncio.get_running_loop().create_task(self._shut_down_orderly())
        while self.driver.is_connected and not shutdown.done():
            await asyncio.wait({shutdown}, timeout=CONNECTION_CHECKED_S)
        if not shutdown.done():
            logger.warning("broker %d cannot reach ZooKeeper", self.config.broker_id)
            shutdown.cancel()
            await asyncio.wait({shutdown})
            return False
        return shutdown.result()

    async def _shut_down_orderly(self) -> bool:
        """As often as it takes, and controlled.shutdown.max.retries times at most."""
        connection = PeerConnection(
            f"broker-{self.config.broker_id}", self.config.controller_socket_timeout_ms, self._dial
        )
        try:
            for attempt in range(self.config.controlled_shutdown_max_retries):
                if attempt:
                    await asyncio.sleep(self.config.controlled_shutdown_retry_backoff_ms / 1000)
                if await self._request_shutdown(connection):
                    return True
            return False
        finally:
            connection.close()

    async def _request_shutdown(self, connection: PeerConnection) -> bool:
        address = self._address(self._view.controller_id)
        broker_epoch = self.manager.replicas.broker_epoch
        if address is None or broker_epoch is None:
            return False
        request = ControlledShutdownRequest(self.config.broker_id, broker_epoch)
        try:
            response = await connection.request(
                address, request, ControlledShutdownResponse, CONTROLLED_SHUTDOWN_VERSION
            )
        except PEER_FAILED as error:
            logger.info("the controller does not respond to ControlledShutdown: %r", error)
            return False
        return response.error_code == ErrorCode.NONE and not response.remaining_partitions

    async def leave(self) -> None:
        """After a failure, when this broker's logs are not to be trusted: its session ends, and others lead."""
        await self._end_tasks()
        await self.driver.close()

    async def abandon(self) -> None:
        """As if the process had died: no request is sent, and the session lives until its timeout."""
        await self._end_tasks()
        await self.driver.abandon()

    async def _end_tasks(self) -> None:
        if self.journal is not None:
            await self.journal.abandon()
        if self._upkeep is not None:
            self._upkeep.stop()
        await self.fetchers.close()
        for close in self.at_end:
            await close()
