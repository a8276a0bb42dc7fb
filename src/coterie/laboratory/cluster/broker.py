"""A broker of the laboratory's cluster: the real replicas and the real controller over a simulated ZooKeeper and network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, get_args

from coterie.controller import nodes
from coterie.controller.commands import (
    Command,
    LeadersElected,
    ReassignmentsAltered,
    ReassignmentsListed,
    ReplicasStopped,
    ShutDown,
)
from coterie.controller.config import ControllerConfig
from coterie.controller.isr_writer import IsrRefused, IsrWriter, IsrWritten
from coterie.controller.machine import ControllerMachine
from coterie.controller.requests import (
    InOffice,
    LeaderAndIsr,
    Registered,
    Request,
    ShutdownAllowed,
    StopReplica,
    UpdateMetadata,
)
from coterie.laboratory.cluster.disk_replica_log import BrokerDisk, DiskReplicaLog
from coterie.laboratory.cluster.process import Answer, Network, ScriptDriver
from coterie.laboratory.cluster.replica_fetcher import ReplicaFetcher, ReplicatingBroker
from coterie.laboratory.cluster.replica_log import MemoryReplicaLog
from coterie.laboratory.cluster.request_channels import RequestChannels
from coterie.laboratory.zookeeper_server import Session, ZooKeeperServer
from coterie.replication.leader import Leader
from coterie.replication.replicas import Replicas
from coterie.replication.states import (
    LEADER_DURING_DELETE,
    AppendDecided,
    Effect,
    EpochLookup,
    FollowerStartMoved,
    HighWatermarkMoved,
    PartitionState,
    ReplicaError,
    ReplicaFetch,
    ReplicaLog,
    ReplicaRefusal,
    ReplicationConfig,
    TopicPartition,
    WriteIsr,
)
from coterie.wire.errors import ErrorCode, error_of
from coterie.zookeeper.operations import Operation, SessionExpired, ZooKeeperError

CHECKPOINTED_EVERY_MS = 5_000
WRITTEN_BACK_MS = 30_000


class ClusterBroker(ReplicatingBroker):
    """``logs`` and ``checkpointed`` are its disk; ``has_disk``: new logs are the broker's own, in files.
    ``appended`` is called with partition, leader epoch and broker at each append of a leader."""

    def __init__(
        self, network: Network, number: int, server: ZooKeeperServer, config: ReplicationConfig, session_timeout_ms: int
    ) -> None:
        super().__init__(network, f"broker-{number}")
        self.number, self.server, self.config, self.session_timeout_ms = number, server, config, session_timeout_ms
        self.peers: Mapping[int, ClusterBroker] = {}
        self.logs: dict[TopicPartition, MemoryReplicaLog | DiskReplicaLog] = {}
        self.has_disk, self.disk = False, BrokerDisk()
        self.checkpointed: dict[TopicPartition, int] = {}
        self.lost_power = False  # since it last registered, whatever has started it meanwhile
        self.appended: Callable[[TopicPartition, int, int], None] = lambda *_: None

    # -- a process's life -----------------------------------------------------------------------------------------------

    def start(self) -> None:
        self.started()
        self.replicas = Replicas(self.number, self.config, self._open_log, self._delete_log)
        self.metadata: dict[TopicPartition, PartitionState] = {}
        self._answers: dict[object, Answer] = {}
        self._early: list[tuple[Request, Answer]] = []
        self._shutdowns: dict[int, list[Answer]] = {}
        self._channels = RequestChannels(self._send, self._is_wanted, self.later)
        self.disk.stalled_ms = 0
        self._session = self._connect()
        now_ms = self.world.now_ms
        registration = nodes.broker(self.name, 9092, None, now_ms)
        least, lost = self.config.min_insync_replicas, self.lost_power
        config = ControllerConfig(self.number, registration, min_insync_replicas=least, lost_power=lost)
        operations = get_args(Operation)
        self.controller = ControllerMachine(config, now_ms)
        self.isr_writer = IsrWriter(now_ms)
        self._drivers = [
            ScriptDriver(self, self.controller, operations, self._apply, self._controller_effect),
            ScriptDriver(self, self.isr_writer, operations, self._apply, self._isr_effect),
        ]
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
        self.controller.suspended()
        self.isr_writer.suspended()

    def _reach_zookeeper(self) -> None:
        try:
            self.server.reconnected(self._session)
        except SessionExpired:
            self._session = self._connect()
            self.controller.expired()
        self.controller.connected()
        self.isr_writer.connected()

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

    def with_role(self) -> set[TopicPartition]:
        """The partitions that this broker leads or follows."""
        return {p for p, replica in self.replicas.partitions.items() if replica.role is not None}

    def leader_of(self, partition: TopicPartition) -> Leader | None:
        replica = self.replicas.partitions.get(partition)
        return replica.role if replica is not None and isinstance(replica.role, Leader) else None

    # -- as the controller ----------------------------------------------------------------------------------------------

    def _controller_effect(self, effect: Any) -> None:
        match effect:
            case Registered(broker_epoch):
                self.lost_power = False
                self._act(self.replicas.registered(broker_epoch))
                self.roles_changed()
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
            if isinstance(request, StopReplica):
                self.controller.submit(ReplicasStopped(request, errors))
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
        """The errors of partitions, which matter to a controller that deletes replicas."""
        try:
            refused = self._applied(request)
        except ReplicaRefusal as refusal:
            refused = dict.fromkeys(request.stopped, refusal.error) if isinstance(request, StopReplica) else {}
        return {partition: error_of(error.value) for partition, error in refused.items()}

    def _applied(self, request: Request) -> Mapping[TopicPartition, ReplicaError]:
        now_ms, replicas = self.world.now_ms, self.replicas
        epochs = (request.controller_epoch, request.broker_epoch)
        match request:
            case LeaderAndIsr(states=states, new=new):
                refused, effects = replicas.leader_and_isr(*epochs, states, now_ms, new)
                self.roles_changed()
            case StopReplica(stopped=stopped):
                refused, effects = replicas.stop_replicas(*epochs, stopped)
                self.roles_changed()
            case UpdateMetadata(states=states):
                replicas.check_controller(*epochs)
                self.metadata = {**self.metadata, **states}
                for partition in [p for p, state in states.items() if state.leader == LEADER_DURING_DELETE]:
                    del self.metadata[partition]
                return {}
        self._act(effects)
        return refused

    def roles_changed(self) -> None:
        """Called where a replica may have another role."""
        self._fetcher.roles_changed()

    # -- as a leader ----------------------------------------------------------------------------------------------------

    def _act(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case WriteIsr():
                    self.isr_writer.write(effect)
                case AppendDecided(token, error):
                    self._answers.pop(token)(error)
                case HighWatermarkMoved() | FollowerStartMoved():
                    pass  # consumers ask again by themselves

    def _isr_effect(self, effect: Any) -> None:
        match effect:
            case IsrWritten(write, version):
                leader = self.leader_of(write.partition)
                if leader is not None:
                    self._act(leader.isr_written(write.state, version, self.world.now_ms))
            case IsrRefused(write, current):
                leader = self.leader_of(write.partition)
                if leader is not None:
                    self._act(leader.isr_refused(write.state, current, self.world.now_ms))

    def produce(self, partition: TopicPartition, value: str, answer: Answer) -> None:
        """acks=all; the answer is None, or an error."""
        token = object()
        self._answers[token] = answer
        try:
            leader = self.replicas.leader(partition)
            effects = leader.append(value, token, self.world.now_ms, acks_all=True)
        except (ReplicaRefusal, OSError) as error:
            refused = error.error if isinstance(error, ReplicaRefusal) else ReplicaError.KAFKA_STORAGE_ERROR
            self._answers.pop(token)(refused)
            return
        self.appended(partition, leader.state.leader_epoch, self.number)
        self._act(effects)

    def consume(self, partition: TopicPartition, offset: int, answer: Answer) -> None:
        """The answer is a ReplicaFetched, or an error."""
        try:
            answer(self.replicas.leader(partition).read(offset))
        except ReplicaRefusal as refusal:
            answer(refusal.error)

    def answer_follower(self, partition: TopicPartition, request: EpochLookup | ReplicaFetch, answer: Answer) -> None:
        try:
            leader = self.replicas.leader(partition, request.current_leader_epoch)
            if isinstance(request, EpochLookup):
                answer(leader.end_of_epoch(request))
                return
            result, effects = leader.fetch(request, self.world.now_ms)
        except ReplicaRefusal as refusal:
            answer(refusal.error)
            return
        answer(result)
        self._act(effects)

    def answer_ends(self, partition: TopicPartition, current_leader_epoch: int, answer: Answer) -> None:
        try:
            leader = self.replicas.leader(partition, current_leader_epoch)
        except ReplicaRefusal as refusal:
            answer(refusal.error)
            return
        answer((leader.log.start_offset, leader.log.end_offset))

    # -- as a follower --------------------------------------------------------------------------------------------------

    def acted(self) -> None:
        if not self.alive or self.paused:
            return
        now_ms = self.world.now_ms
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
        self._act(self.replicas.tick(self.world.now_ms))
        self.later(self.config.replica_lag_time_max_ms // 2, self._tick)

    def _write_back(self) -> None:
        """The operating system writes pages to the disk when they are some time old."""
        for log in self.logs.values():
            log.sync()
        self.later(self.world.between(2_000, WRITTEN_BACK_MS), self._write_back)

    def _checkpoint(self) -> None:
        self.checkpointed.update(self.replicas.high_watermarks())
        self.later(CHECKPOINTED_EVERY_MS, self._checkpoint)
