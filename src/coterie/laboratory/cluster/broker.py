"""A broker of the laboratory's cluster: the real replicas and the real controller over a simulated ZooKeeper and network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, get_args

from coterie.controller import nodes
from coterie.controller.commands import (
    Command,
    LeadersElected,
    ReassignmentsAltered,
    ReassignmentsListed,
    ShutDown,
)
from coterie.controller.config import ControllerConfig
from coterie.controller.isr_writer import IsrWriter
from coterie.controller.machine import ControllerMachine
from coterie.controller.producer_id_blocks import ProducerIdBlocks
from coterie.controller.requests import (
    InOffice,
    LeaderAndIsr,
    Registered,
    Request,
    ShutdownAllowed,
    StopReplica,
    UpdateMetadata,
)
from coterie.controller.session_script import SessionScript
from coterie.laboratory.cluster.disk_replica_log import BrokerDisk, DiskReplicaLog
from coterie.laboratory.cluster.leading_broker import LeadingBroker
from coterie.laboratory.cluster.process import Answer, Network, ScriptDriver
from coterie.laboratory.cluster.replica_fetcher import ReplicaFetcher
from coterie.laboratory.cluster.replica_log import MemoryReplicaLog
from coterie.laboratory.cluster.request_channels import RequestChannels, command_of
from coterie.laboratory.zookeeper_server import Session, ZooKeeperServer
from coterie.replication.replicas import Replicas
from coterie.replication.states import (
    LEADER_DURING_DELETE,
    PartitionState,
    ReplicaError,
    ReplicaLog,
    ReplicaRefusal,
    ReplicationConfig,
    TopicPartition,
)
from coterie.wire.errors import ErrorCode, error_of
from coterie.zookeeper.operations import Operation, SessionExpired, ZooKeeperError

CHECKPOINTED_EVERY_MS = 5_000
WRITTEN_BACK_MS = 30_000
PRODUCER_IDS = 4  # of a block: few, so that brokers reserve often


class ClusterBroker(LeadingBroker):
    """``logs`` and ``checkpointed`` are its disk; ``has_disk``: new logs are the broker's own, in files.
    ``rebalances_leaders``: every 5 s, whatever the imbalance.
    ``appended`` is called with partition, leader epoch and broker at each append of a leader, ``id_given`` with broker and
    producer id at each of a broker that ``reserves_ids``."""

    def __init__(
        self, network: Network, number: int, server: ZooKeeperServer, config: ReplicationConfig, session_timeout_ms: int
    ) -> None:
        super().__init__(network, f"broker-{number}")
        self.number, self.server, self.config, self.session_timeout_ms = number, server, config, session_timeout_ms
        self.peers: Mapping[int, ClusterBroker] = {}
        self.logs: dict[TopicPartition, MemoryReplicaLog | DiskReplicaLog] = {}
        self.has_disk, self.disk = False, BrokerDisk(now_ms=lambda: self.now_ms)
        self.checkpointed: dict[TopicPartition, int] = {}
        self.wall_offset_ms = 0  # of the machine's clock, from which a process takes its own when it starts
        self.lost_power = False  # since it last registered, whatever has started it meanwhile
        self.appended: Callable[[TopicPartition, int, int], None] = lambda partition, epoch, broker: None
        self.rebalances_leaders = self.reserves_ids = False
        self.id_given: Callable[[int, int], None] = lambda broker, producer_id: None

    # -- a process's life -----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Starts the process: with what is on its disk, and a session with ZooKeeper of its own."""
        self.started()
        self.clock_offset_ms = self.wall_offset_ms
        self.replicas = Replicas(self.number, self.config, self._open_log, self._delete_log)
        self.metadata: dict[TopicPartition, PartitionState] = {}
        self._answers: dict[object, Answer] = {}
        self._early: list[tuple[Request, Answer]] = []
        self._shutdowns: dict[int, list[Answer]] = {}
        self._channels = RequestChannels(self._send, self._is_wanted, self.later)
        self.disk.stalled_ms = 0
        self._session = self._connect()
        now_ms = self.now_ms
        registration = nodes.broker(self.name, 9092, None, now_ms)
        least, lost = self.config.min_insync_replicas, self.lost_power
        config = ControllerConfig(self.number, registration, min_insync_replicas=least, lost_power=lost)
        if self.rebalances_leaders:
            config = replace(
                config, leader_imbalance_per_broker_percentage=0, leader_imbalance_check_interval_seconds=5
            )
        operations = get_args(Operation)
        self.controller = ControllerMachine(config, now_ms)
        self.isr_writer = IsrWriter(now_ms)
        self._drivers = [
            ScriptDriver(self, self.controller, operations, self._apply, self._controller_effect),
            ScriptDriver(self, self.isr_writer, operations, self._apply, self._isr_effect),
        ]
        self._scripts: list[SessionScript] = [self.controller, self.isr_writer]
        if self.reserves_ids:
            self.producer_ids = ProducerIdBlocks(self.number, now_ms, PRODUCER_IDS)
            self._scripts.append(self.producer_ids)
            self._drivers.append(ScriptDriver(self, self.producer_ids, operations, self._apply, lambda effect: None))
        self._fetcher = ReplicaFetcher(self, self.replicas)
        self.acted()
        self._tick()
        self._checkpoint()
        self._write_back()

    def _open_log(self, partition: TopicPartition) -> tuple[ReplicaLog, int]:
        if partition not in self.logs:
            self.logs[partition] = DiskReplicaLog(self.world, self.disk) if self.has_disk else MemoryReplicaLog()
        log, high_watermark = self.logs[partition], self.checkpointed.get(partition, 0)
        log.open(high_watermark)
        return log, high_watermark

    def _delete_log(self, partition: TopicPartition) -> None:
        self.logs.pop(partition, None)
        self.checkpointed.pop(partition, None)

    def crash(self) -> None:
        """SIGKILL: the session lives until its timeout."""
        self.alive = False
        self.server.unheard(self._session)

    def power_cut(self) -> None:
        """What was not on the disk is lost, the high watermarks among it: the checkpoint is older then."""
        self.crash()
        self.lost_power = True
        for log in self.logs.values():
            log.power_cut()

    def pause(self) -> None:
        self.paused = True
        self.server.unheard(self._session)

    def go_on(self) -> None:
        self._reach_zookeeper()
        self.resume()

    def shut_down(self, stopped: Callable[[], None]) -> None:
        """A controlled shutdown: the controller moves the leaders first, as often as it takes, 3 times at most."""
        self._request_shutdown(3, stopped)

    def _request_shutdown(self, attempts: int, stopped: Callable[[], None]) -> None:
        controllers = [b for b in self.peers.values() if b.alive and b.controller.office is not None]

        def done(remaining: Any) -> None:
            if remaining and attempts > 1:
                self.later(1_000, lambda: self._request_shutdown(attempts - 1, stopped))
            else:
                self._stop_orderly(stopped)

        if controllers and attempts:
            again = partial(self._request_shutdown, attempts - 1, stopped)
            target, epoch = controllers[0], self.replicas.broker_epoch
            self.call(target, lambda answer: target._asked_to_shut_down(self.number, epoch, answer), done, again)
        else:
            self._stop_orderly(stopped)

    def _stop_orderly(self, stopped: Callable[[], None]) -> None:
        self.checkpointed.update(self.replicas.high_watermarks())
        for partition in self.replicas.partitions:
            self.logs[partition].close()
        self.alive = False
        self.server.close(self._session)
        stopped()

    # -- ZooKeeper ------------------------------------------------------------------------------------------------------

    def _connect(self) -> Session:
        life = self.life

        def event(path: str) -> None:
            if self.life == life:
                self.guarded(lambda: self._changed(path))()

        return self.server.connect(self.session_timeout_ms, event)

    def _changed(self, path: str) -> None:
        """A watch of that path fired."""
        self.controller.changed(path)

    def lose_zookeeper(self) -> None:
        """No way to ZooKeeper; the network has the cut."""
        self.server.unheard(self._session)
        for script in self._scripts:
            script.suspended()

    def _reach_zookeeper(self) -> None:
        try:
            self.server.reconnected(self._session)
        except SessionExpired:
            self._session = self._connect()
            self.controller.expired()
            self.isr_writer.expired()
        for script in self._scripts:
            script.connected()

    def reach_zookeeper_again(self) -> None:
        if self.alive and not self.paused:
            self._reach_zookeeper()
            self.acted()

    def _apply(self, operation: Operation) -> tuple[object, int]:
        answer: object
        try:
            answer = self.server.apply(self._session, operation)
        except ZooKeeperError as error:
            answer = error
        return answer, self.server.ready_ms()

    # -- as the controller ----------------------------------------------------------------------------------------------

    def _controller_effect(self, effect: Any) -> None:
        match effect:
            case Registered(broker_epoch):
                self.lost_power = False
                self.isr_writer.registered()
                effects = self.replicas.registered(broker_epoch)
                self.roles_changed()
                self._act(effects)
                early, self._early = self._early, []
                for request, answer in early:
                    self._from_controller(request, answer)
            case InOffice():
                self._channels.clear()
            case ShutdownAllowed(broker, remaining, error):
                for answer in self._shutdowns.pop(broker, []):
                    answer(remaining or error)
            case LeadersElected() | ReassignmentsAltered() | ReassignmentsListed():
                self._answers.pop(effect.token)(effect)
            case _:
                self._channels.add(effect)

    def _send(self, request: Request, answered: Answer, failed: Callable[[], None]) -> None:
        def ended(errors: Any) -> None:
            if (command := command_of(request, errors)) is not None:
                self.controller.submit(command)
            answered(errors)

        target = self.peers[request.broker]
        self.call(target, lambda answer: target._from_controller(request, answer), ended, failed)

    def _is_wanted(self, request: Request) -> bool:
        """Whether the broker that it is for is there still."""
        office = self.controller.office
        return office is not None and office.view.live.get(request.broker) == request.broker_epoch

    def _asked_to_shut_down(self, broker: int, broker_epoch: int | None, answer: Answer) -> None:
        self._shutdowns.setdefault(broker, []).append(answer)
        self.controller.submit(ShutDown(broker, broker_epoch))

    def administer(self, command: Callable[[object], Command], answer: Answer) -> None:
        """A request of a client of the admin, made of its token; the answer is the response's effect."""
        token = object()
        self._answers[token] = answer
        self.controller.submit(command(token))

    # -- requests of the controller --------------------------------------------------------------------------------------

    def _from_controller(self, request: Request, answer: Answer) -> None:
        own = self.replicas.broker_epoch
        if own is None or request.broker_epoch > own:  # Kafka's connections are served from the registration on
            self._early.append((request, answer))
            return
        answer(self._carry_out(request))

    def _carry_out(self, request: Request) -> Mapping[TopicPartition, ErrorCode]:
        """The errors of partitions, as the controller needs them."""
        try:
            refused = self._applied(request)
        except ReplicaRefusal as refusal:
            partitions = request.stopped if isinstance(request, StopReplica) else request.states
            refused = dict.fromkeys(partitions, refusal.error)
        return {partition: error_of(error.value) for partition, error in refused.items()}

    def _applied(self, request: Request) -> Mapping[TopicPartition, ReplicaError]:
        now_ms, replicas = self.now_ms, self.replicas
        epochs = (request.controller_epoch, request.broker_epoch)
        match request:
            case LeaderAndIsr(states=states, new=new):
                refused, effects = replicas.leader_and_isr(*epochs, states, now_ms, new)
                self.roles_changed()
            case StopReplica(stopped=stopped):
                refused, effects = replicas.stop_replicas(*epochs, stopped)
                self.roles_changed()
            case UpdateMetadata(states=states):
                refused, effects = {}, replicas.update_metadata(*epochs, states, now_ms)
                self.metadata = {**self.metadata, **states}
                for partition in [p for p, state in states.items() if state.leader == LEADER_DURING_DELETE]:
                    del self.metadata[partition]
        self._act(effects)
        return refused

    def roles_changed(self) -> None:
        """Called where a replica may have another role."""
        self._fetcher.roles_changed()

    def take_producer_id(self) -> int:
        """Raises Refusal."""
        producer_id = self.producer_ids.take()
        self.id_given(self.number, producer_id)
        return producer_id

    # -- as a follower --------------------------------------------------------------------------------------------------

    def acted(self) -> None:
        """To be called after every input: the drivers take their next steps, and followers fetch."""
        if not self.alive or self.paused:
            return
        now_ms = self.now_ms
        for driver in self._drivers:
            if now_ms >= driver.settled_until_ms or not driver.machine.is_idle(now_ms):
                driver.pump()
        self._fetcher.fetch()
        if self.disk.stalled_ms:
            self._stall()

    def _stall(self) -> None:
        """The event loop waits for a slow disk."""
        life, stalled_ms, self.disk.stalled_ms = self.life, self.disk.stalled_ms, 0
        self.pause()
        self.world.after(stalled_ms, lambda: self.go_on() if self.alive and self.life == life and self.paused else None)

    # -- upkeep ---------------------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        self._act(self.replicas.tick(self.now_ms))
        self.later(self.config.replica_lag_time_max_ms // 2, self._tick)

    def _write_back(self) -> None:
        """The operating system writes pages to the disk when they are some time old."""
        for log in self.logs.values():
            log.sync()
        self.later(self.world.between(2_000, WRITTEN_BACK_MS), self._write_back)

    def _checkpoint(self) -> None:
        self.checkpointed.update(self.replicas.high_watermarks())
        self.later(CHECKPOINTED_EVERY_MS, self._checkpoint)
