"""The laboratory's high-level consumer: the real machine over a simulated ZooKeeper, reading at a steady rate."""

from __future__ import annotations

from collections.abc import Callable

from coterie.laboratory.ownership import Ownership, TopicPartition
from coterie.laboratory.reading import Reader
from coterie.laboratory.world import World
from coterie.laboratory.zookeeper_server import Session, ZooKeeperServer
from coterie.zookeeper.consumer import ConnectorConfig, ConsumerMachine
from coterie.zookeeper.operations import (
    ConnectionLost,
    ConsumedOffsets,
    Effect,
    GiveUp,
    SessionExpired,
    StartFetchers,
    StopFetchers,
    ZooKeeperError,
)


class ZooKeeperActor:
    """A consumer process. ``log``: every effect, as (time, consumer, effect), where somebody wants to see them."""

    def __init__(
        self,
        world: World,
        server: ZooKeeperServer,
        config: ConnectorConfig,
        session_timeout_ms: int,
        ownership: Ownership,
        reader: Reader,
        log: list[tuple[int, str, Effect]] | None = None,
    ) -> None:
        self.world, self.server, self.config, self.name = world, server, config, config.consumer_id
        self.session_timeout_ms, self.ownership, self.reader = session_timeout_ms, ownership, reader
        self.log = log
        self.alive = self.paused = self.cut_off = False
        self.owned: set[TopicPartition] = set()
        self.failures: list[str] = []
        self.machine: ConsumerMachine
        self._session: Session
        self._life = 0
        self._started_ms = 0
        self._armed_ms = -1
        self._held: list[Callable[[], None]] = []  # what a stopped process will find when it goes on

    # -- a process's life -----------------------------------------------------------------------------------------------

    def start(self) -> None:
        self.alive, self.paused, self.cut_off = True, False, False
        self._life += 1
        self._started_ms = self.world.now_ms
        self._armed_ms = -1
        self._connect()
        self.machine = ConsumerMachine(self.config, self.world.now_ms)
        self._pump()

    def crash(self) -> None:
        """SIGKILL: the session lives until its timeout."""
        self._end()
        self.server.unheard(self._session)

    def leave(self) -> None:
        """A clean close."""
        self.machine.close()
        self._pump()

    def pause(self, ms: int) -> None:
        """The whole process stands still, as a collector of garbage or a suspended machine does."""
        if not self.alive or self.paused:
            return
        self.reader.read()
        self.paused = True
        self.server.unheard(self._session)
        self._at(ms, self._go_on)

    def cut(self, ms: int) -> None:
        """No way to ZooKeeper; the brokers are still read."""
        if not self.alive or self.cut_off:
            return
        self.cut_off = True
        self.server.unheard(self._session)
        self.machine.suspended()
        self._at(ms, self._reach_again)

    def _go_on(self) -> None:
        self.paused = False
        self.reader.skip()
        held, self._held = self._held, []
        if not self.cut_off:
            self._reach_again()
        for action in held:
            action()
        self._pump()

    def _reach_again(self) -> None:
        self.cut_off = False
        try:
            self.server.heard_again(self._session)
        except SessionExpired:
            self._connect()
            self.machine.expired()
        self.machine.connected()
        self._pump()

    def _end(self) -> None:
        self.reader.stop_all()
        self._own(set())
        self.alive = False
        self.server.count_pings(self._session, self.world.now_ms - self._started_ms)

    def _connect(self) -> None:
        life = self._life

        def event(_: str) -> None:
            if self.alive and self._life == life:
                self._when_running(self.machine.changed)

        self._session = self.server.connect(self.session_timeout_ms, event)

    def is_in_session(self) -> bool:
        """Whether what it owns in ZooKeeper is its own still, as far as ZooKeeper goes."""
        return self.alive and not self._session.expired and not self.machine.is_expired

    # -- driving the machine --------------------------------------------------------------------------------------------

    def _pump(self) -> None:
        if not self.alive or self.paused:
            return
        while (effect := self.machine.next(self.world.now_ms)) is not None:
            if self.log is not None:
                self.log.append((self.world.now_ms, self.name, effect))
            if not self._at_once(effect):
                self._send(effect)
                return
        if self.machine.finished:
            self._end()
            self.server.close(self._session)
            return
        self._arm()

    def _at_once(self, effect: Effect) -> bool:
        """What needs no network."""
        match effect:
            case StopFetchers():
                consumed = self.reader.stop_all()
                self._own(set())
                self.machine.answer(consumed)
            case ConsumedOffsets():
                self.reader.read()
                self.machine.answer(dict(self.reader.positions))
            case StartFetchers(infos):
                for info in infos:
                    self.reader.begin((info.topic, info.partition), max(info.offset, 0))
                self._own({(info.topic, info.partition) for info in infos})
                self.machine.answer()
            case GiveUp(message):
                self.failures.append(message)
                self.machine.answer()
            case _:
                return False
        return True

    def _send(self, operation: Effect) -> None:
        world, session, life = self.world, self._session, self._life

        def back(answer: object) -> None:
            if not self.alive or self._life != life:
                return
            if self.cut_off:
                self._lost()
            elif isinstance(answer, ZooKeeperError):
                self.machine.refuse(answer)
                self._pump()
            else:
                self.machine.answer(answer)
                self._pump()

        def arrived() -> None:
            if not self.alive or self._life != life:
                return
            if self.cut_off:
                self._when_running(self._lost)
                return
            try:
                answer = self.server.apply(session, operation)  # type: ignore[arg-type]
            except ZooKeeperError as error:
                answer = error
            world.at(self.server.ready_ms() + world.delay_ms(), lambda: self._when_running(lambda: back(answer)))

        world.after(world.delay_ms(), arrived)

    def _lost(self) -> None:
        self.machine.refuse(ConnectionLost())
        self._pump()

    def _when_running(self, action: Callable[[], None]) -> None:
        """Now, or when the process goes on."""
        if self.paused:
            self._held.append(action)
            return
        action()
        self._pump()

    def _own(self, partitions: set[TopicPartition]) -> None:
        self.ownership.changed(self.name, self.owned, partitions, self.world.now_ms)
        self.owned = partitions

    def _at(self, ms: int, action: Callable[[], None]) -> None:
        life = self._life

        def run() -> None:
            if self.alive and self._life == life:
                action()

        self.world.after(ms, run)

    def _arm(self) -> None:
        due_ms = self.machine.next_deadline_ms()
        if due_ms is None or self.world.now_ms < self._armed_ms <= due_ms:
            return
        life, self._armed_ms = self._life, max(due_ms, self.world.now_ms + 1)

        def fire() -> None:
            if self.alive and self._life == life:
                self._armed_ms = -1
                self._pump()

        self.world.at(self._armed_ms, fire)
