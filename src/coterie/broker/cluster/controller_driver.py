"""Runs a broker's `ControllerMachine`, `IsrWriter`, `ConfigChanges` and `ProducerIdBlocks` over its session with ZooKeeper, and
sends the controller's requests."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from coterie.authorizer.acls import Acl
from coterie.broker.cluster.peers.channels import ControllerChannels
from coterie.broker.cluster.peers.connections import Address, Dial, open_stream
from coterie.broker.cluster.settings import ClusterConfig
from coterie.broker.cluster.zookeeper.session import ClusterSession, OpenSession, ScriptTask
from coterie.broker.settings.listeners import PLAINTEXT
from coterie.controller import nodes
from coterie.controller.changes import acl_changes, token_changes
from coterie.controller.changes.acl_changes import AclChanges, AclResource, AclsRead
from coterie.controller.changes.config_changes import ConfigChanges, SettingsChanged, SettingsRead, StartRead
from coterie.controller.changes.token_changes import TokenChanges, TokensRead
from coterie.controller.commands import (
    AlterReassignments,
    Command,
    ElectLeaders,
    LeadersElected,
    ListReassignments,
    ReassignmentsAltered,
    ReassignmentsListed,
    ReplicasStopped,
    Response,
    RolesAssumed,
    ShutDown,
    TopicConfigured,
    refusal,
)
from coterie.controller.elected.view import ControllerConfig
from coterie.controller.isr_writer import IsrWriter
from coterie.controller.machine import ControllerMachine
from coterie.controller.nodes import registration_of
from coterie.controller.producer_id_blocks import BlockRefused, ProducerIdBlocks, ProducerIdsExhausted
from coterie.controller.requests import (
    ControlRequest,
    InOffice,
    LeaderAndIsr,
    Registered,
    ShutdownAllowed,
    StopReplica,
)
from coterie.replication.states import TopicPartition, WriteIsr
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode, error_of
from coterie.wire.messages.brokers.leader_and_isr import LeaderAndIsrPartitionError, LeaderAndIsrResponse
from coterie.wire.messages.brokers.stop_replica import StopReplicaPartitionError, StopReplicaResponse
from coterie.zookeeper.operations import ConnectionLost, Corrupt, Operation, ZooKeeperError

logger = logging.getLogger(__name__)

ShutdownDecided = Callable[[ShutdownAllowed], None]


class ControllerDriver:
    """A `SessionEvents`. ``registered`` gets the broker's epoch, ``isr_effect`` the results of `write_isr`, ``failed`` an error
    that the broker cannot go on after, ``settings_changed`` settings that were altered in ZooKeeper, or that `read_settings`
    reads."""

    def __init__(
        self,
        config: ClusterConfig,
        registration: str,
        registered: Callable[[int], None],
        isr_effect: Callable[[Any], None],
        now_ms: Callable[[], int],
        dial: Dial = open_stream,
        failed: Callable[[Exception], None] = lambda error: None,
    ) -> None:
        own = ControllerConfig(
            config.broker_id,
            registration,
            unclean_leader_election_enable=config.unclean_leader_election_enable,
            min_insync_replicas=config.replication.min_insync_replicas,
            auto_leader_rebalance_enable=config.auto_leader_rebalance_enable,
            leader_imbalance_per_broker_percentage=config.leader_imbalance_per_broker_percentage,
            leader_imbalance_check_interval_seconds=config.leader_imbalance_check_interval_seconds,
            lost_power=config.lost_power,
        )
        self.machine, self._isr_writer = ControllerMachine(own, now_ms()), IsrWriter(now_ms())
        self._registered, self._broker_id, self._failed = registered, config.broker_id, failed
        self._config_changes, self._protocol = ConfigChanges(now_ms()), config.security_protocol
        self.settings_changed: Callable[[tuple[SettingsChanged, ...]], None] = lambda changes: None
        self._controller_task = ScriptTask(self.machine, self.apply, self._effect, now_ms)
        self._isr_task = ScriptTask(self._isr_writer, self.apply, isr_effect, now_ms)
        self._settings_task = ScriptTask(self._config_changes, self.apply, self._settings_read, now_ms)
        self._producer_ids = ProducerIdBlocks(config.broker_id, now_ms())
        self._ids_task = ScriptTask(self._producer_ids, self.apply, self._ids_decided, now_ms)
        self._acl_changes = AclChanges(now_ms())
        self._acls_task = ScriptTask(self._acl_changes, self.apply, self._acls_read, now_ms)
        self.acls_changed: Callable[[tuple[Acl, ...]], None] | None = None  # None: the broker has no authorizer
        self._token_changes = TokenChanges(now_ms())
        self._tokens_task = ScriptTask(self._token_changes, self.apply, self._tokens_read, now_ms)
        self.tokens_changed: Callable[[TokensRead], None] | None = None  # None: the broker has no secret for tokens
        self._scripts: list[ScriptTask] = []  # that run
        self._unread, self._is_read = {self._settings_task}, asyncio.Event()
        self._first_ids: asyncio.Future[None] | None = None
        self._channels = ControllerChannels(
            config.broker_id,
            config.controller_socket_timeout_ms,
            self._address,
            self._responded,
            dial,
            keeps_open=self._protocol != PLAINTEXT,
        )
        self._shutdowns: dict[int, list[ShutdownDecided]] = {}
        self._commands: dict[object, tuple[Command, Callable[[Response], None]]] = {}  # by token
        self._session: ClusterSession | None = None
        self.is_connected = True  # with ZooKeeper
        self._tasks: list[asyncio.Task[None]] = []

    async def open(self, open_session: OpenSession) -> None:
        """Returns once there is a session and the settings, users, ACLs and tokens of the cluster are in force, or the
        reading of them has failed. Raises ZooKeeperError."""
        self._session = await open_session(self)
        self._first_ids = asyncio.get_running_loop().create_future()
        if self.acls_changed is not None:
            self._unread.add(self._acls_task)
        if self.tokens_changed is not None:
            self._unread.add(self._tokens_task)
        self._begin(self._unread)
        await self._is_read.wait()

    def start(self) -> None:
        """Stands for controller, and registers the broker."""
        self._begin([self._controller_task, self._isr_task, self._ids_task])

    def _begin(self, scripts: Iterable[ScriptTask]) -> None:
        create_task = asyncio.get_running_loop().create_task
        for script in scripts:
            self._scripts.append(script)
            self._tasks.append(create_task(self._run(script)))

    def _was_read(self, script: ScriptTask) -> None:
        self._unread.discard(script)
        if not self._unread:
            self._is_read.set()

    async def _run(self, script: ScriptTask) -> None:
        try:
            await script.run()
        except Exception as error:
            logger.exception("the part of broker %d in the cluster has failed", self._broker_id)
            self._failed(error)
            self._is_read.set()

    @property
    def has_session(self) -> bool:
        """Whether ZooKeeper was reached."""
        return self._session is not None

    async def apply(self, operation: Operation) -> object:
        """The result. Raises ZooKeeperError."""
        if self._session is None:
            raise ConnectionLost
        return await self._session.apply(operation)

    # -- the session ----------------------------------------------------------------------------------------------------

    def changed(self, path: str) -> None:
        """A watch of that path fired."""
        if path == nodes.CONFIG_CHANGES:
            self._config_changes.changed()
            self._settings_task.wake()
        elif path in acl_changes.CHANGES.values():
            self._acl_changes.changed(path)
            self._acls_task.wake()
        elif path == token_changes.CHANGES:
            self._token_changes.changed()
            self._tokens_task.wake()
        else:
            self.machine.changed(path)
            self._controller_task.wake()

    def suspended(self) -> None:
        """The connection is lost."""
        self.is_connected = False
        for script in self._scripts:
            script.machine.suspended()

    def connected(self) -> None:
        """The connection is back."""
        self.is_connected = True
        for script in self._scripts:
            script.machine.connected()
            script.wake()

    def expired(self) -> None:
        """The broker registers again, once it is connected."""
        logger.warning("the session with ZooKeeper of broker %d is over; the broker registers again", self._broker_id)
        self.machine.expired()
        self._isr_writer.expired()
        self._config_changes.expired()
        self._acl_changes.expired()
        self._token_changes.expired()
        for task in (self._controller_task, self._isr_task, self._settings_task, self._acls_task, self._tokens_task):
            task.wake()

    # -- as the controller ----------------------------------------------------------------------------------------------

    @property
    def is_controller(self) -> bool:
        """Whether this broker was elected, as far as it knows."""
        return self.machine.office is not None

    def _effect(self, effect: object) -> None:
        match effect:
            case ControlRequest():
                self._channels.send(effect)
            case Registered(broker_epoch):
                self._isr_writer.registered()
                self._registered(broker_epoch)
            case InOffice(controller_epoch):
                self._in_office(controller_epoch)
            case ShutdownAllowed():
                self._shutdown_decided(effect)
            case LeadersElected() | ReassignmentsAltered() | ReassignmentsListed():
                self._respond(effect.token, effect)

    def _in_office(self, controller_epoch: int) -> None:
        if controller_epoch:
            logger.info("broker %d is the controller, in epoch %d", self._broker_id, controller_epoch)
            return
        self._channels.close_idle()
        for broker in list(self._shutdowns):
            self._shutdown_decided(ShutdownAllowed(broker, error=ErrorCode.NOT_CONTROLLER))
        for token, (command, _) in list(self._commands.items()):  # one that was being carried out has no other response
            response = refusal(command)
            assert response is not None
            self._respond(token, response)

    def _address(self, request: ControlRequest) -> Address | None:
        """The address of the request's broker; None where the request is no longer to be sent."""
        office = self.machine.office
        if office is None or office.epoch != request.controller_epoch:
            return None
        if office.view.live.get(request.broker) != request.broker_epoch:
            return None
        return registration_of(office.view.registrations[request.broker]).address_by(self._protocol)

    def _responded(self, request: ControlRequest, response: Message) -> None:
        code = getattr(response, "error_code", 0)
        if code:
            logger.info("broker %d refused %s with error %d", request.broker, type(request).__name__, code)
        match request, response:
            case StopReplica(), StopReplicaResponse():
                self._submit(ReplicasStopped(request, _stop_errors(request, response)))
            case LeaderAndIsr(), LeaderAndIsrResponse() if not code:
                self._submit(RolesAssumed(request, _errors(response.partition_errors)))

    def _submit(self, command: Command) -> None:
        self.machine.submit(command)
        self._controller_task.wake()

    def shut_down(self, broker: int, broker_epoch: int | None, decided: ShutdownDecided) -> None:
        """A broker's request for a controlled shutdown, to the controller."""
        self._shutdowns.setdefault(broker, []).append(decided)
        self._submit(ShutDown(broker, broker_epoch))

    def command(
        self, command: ElectLeaders | AlterReassignments | ListReassignments, responded: Callable[[Response], None]
    ) -> None:
        """``responded`` is called once with the response, NOT_CONTROLLER where this broker is none or resigns meanwhile."""
        self._commands[command.token] = command, responded
        self._submit(command)

    def _respond(self, token: object, response: Response) -> None:
        _, responded = self._commands.pop(token, (None, None))
        if responded is not None:
            responded(response)

    def _shutdown_decided(self, allowed: ShutdownAllowed) -> None:
        for decided in self._shutdowns.pop(allowed.broker, []):
            decided(allowed)

    # -- settings -------------------------------------------------------------------------------------------------------

    def read_settings(self, kind: str, name: str) -> None:
        """``settings_changed`` gets them. Returns at once."""
        self._config_changes.read(kind, name)
        self._settings_task.wake()

    def _settings_read(self, effect: SettingsRead | StartRead) -> None:
        if isinstance(effect, StartRead):
            self._was_read(self._settings_task)
            return
        self.settings_changed(effect.changes)
        for change in effect.changes:
            if change.kind == nodes.TOPICS_KIND and self.is_controller:
                self._submit(TopicConfigured(change.name))

    def acls_written(self, resource: AclResource, acls: list[Acl]) -> None:
        """As `AclChanges.written`."""
        self._acls_read(self._acl_changes.written(resource, acls))

    def _acls_read(self, effect: AclsRead) -> None:
        assert self.acls_changed is not None
        self.acls_changed(effect.acls)
        self._was_read(self._acls_task)

    def _tokens_read(self, effect: TokensRead) -> None:
        assert self.tokens_changed is not None
        self.tokens_changed(effect)
        self._was_read(self._tokens_task)

    def configure_defaults(self, *, unclean_leader_election_enable: bool, min_insync_replicas: int) -> None:
        """As `ControllerMachine.configure`."""
        self.machine.configure(
            unclean_leader_election_enable=unclean_leader_election_enable, min_insync_replicas=min_insync_replicas
        )
        self._controller_task.wake()

    # -- as a leader ----------------------------------------------------------------------------------------------------

    def write_isr(self, effect: WriteIsr) -> None:
        """Returns at once."""
        self._isr_writer.write(effect)
        self._isr_task.wake()

    # -- producer ids ---------------------------------------------------------------------------------------------------

    def take_producer_id(self) -> int:
        """As `ProducerIdBlocks.take`."""
        try:
            return self._producer_ids.take()
        finally:
            self._ids_task.wake()

    async def producer_ids(self) -> None:
        """Returns once there are some. Raises ProducerIdsExhausted, Corrupt."""
        assert self._first_ids is not None
        await self._first_ids

    def _ids_decided(self, effect: object) -> None:
        first = self._first_ids
        assert first is not None
        if not isinstance(effect, BlockRefused):
            if not first.done():
                first.set_result(None)
            return
        logger.warning("no producer ids could be reserved: %s", str(effect.error) or repr(effect.error))
        if isinstance(effect.error, ProducerIdsExhausted | Corrupt) and not first.done():
            first.set_exception(effect.error)

    # -- the end --------------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Resigns and ends the session: other brokers know at once."""
        await self._end_tasks()
        if self._session is not None:
            with suppress(ZooKeeperError):
                await self._session.close()

    async def _end_tasks(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._channels.close()
        self._in_office(0)

    async def abandon(self) -> None:
        """As if the process had died: the session lives until its timeout."""
        await self._end_tasks()


def _stop_errors(request: StopReplica, response: StopReplicaResponse) -> dict[TopicPartition, ErrorCode]:
    if response.error_code:
        return dict.fromkeys(request.stopped, error_of(response.error_code))
    return _errors(response.partition_errors)


def _errors(
    rows: Iterable[LeaderAndIsrPartitionError | StopReplicaPartitionError],
) -> dict[TopicPartition, ErrorCode]:
    return {(row.topic_name, row.partition_index): error_of(row.error_code) for row in rows if row.error_code}
