"""The laboratory's high-level consumer: the real machine over a simulated ZooKeeper, reading at a steady rate."""

from __future__ import annotations

from coterie.laboratory.deliveries import Ownership, Reader
from coterie.laboratory.scripts.script_actor import Log, ScriptActor
from coterie.laboratory.scripts.zookeeper_server import PING_BYTES, Session, ZooKeeperServer
from coterie.laboratory.world import World
from coterie.zookeeper.consumer import ConnectorConfig, ConsumerMachine
from coterie.zookeeper.operations import (
    ConnectionLost,
    ConsumedOffsets,
    Effect,
    GiveUp,
    Operation,
    SessionExpired,
    StartFetchers,
    StopFetchers,
    ZooKeeperError,
)


class ZooKeeperActor(ScriptActor):
    """A consumer process."""

    machine: ConsumerMachine

    def __init__(
        self,
        world: World,
        server: ZooKeeperServer,
        config: ConnectorConfig,
        session_timeout_ms: int,
        ownership: Ownership,
        reader: Reader,
        log: Log | None = None,
    ) -> None:
        super().__init__(world, config.consumer_id, ownership, reader, log)
        self.server, self.config, self.session_timeout_ms = server, config, session_timeout_ms
        self.failures: list[str] = []
        self._session: Session
        self._started_ms = 0

    # -- a process's life -----------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._started_ms = self.world.now_ms
        self._session = self._connect(self._life + 1)
        self.begin(ConsumerMachine(self.config, self.world.now_ms))

    def crash(self) -> None:
        """SIGKILL: the session lives until its timeout."""
        self.stop()
        self.server.unheard(self._session)

    def leave(self) -> None:
        """A clean close."""
        self.machine.close()
        self.pump()

    def stop(self) -> None:
        super().stop()
        self.server.traffic.passed_over_time(*self.pings())

    @property
    def session_number(self) -> int:
        return self._session.number

    def pings(self) -> tuple[int, int]:
        """Messages and bytes of an idle client since it began: a ping each third of its timeout, and its response."""
        pings = (self.world.now_ms - self._started_ms) * 3 // self.session_timeout_ms
        return 2 * pings, PING_BYTES * pings

    def ended(self) -> None:
        self.server.close(self._session)

    def pause(self, ms: int) -> None:
        """The process is stalled; its session sends no ping."""
        if self.alive and not self.paused:
            self.server.unheard(self._session)
            self.stand_still(ms, lambda: None if self.cut_off else self._reach_again())

    def cut(self, ms: int) -> None:
        """No way to ZooKeeper; the brokers are still read."""
        if self.alive and not self.cut_off:
            self.cut_off = True
            self.server.unheard(self._session)
            self.machine.suspended()
            self.later(ms, self._healed)

    def _healed(self) -> None:
        self.cut_off = False
        if not self.paused:
            self._reach_again()

    def _reach_again(self) -> None:
        try:
            self.server.reconnected(self._session)
        except SessionExpired:
            self._session = self._connect(self._life)
            self.machine.expired()
        self.machine.connected()
        self.pump()

    def _connect(self, life: int) -> Session:
        def event(path: str) -> None:
            if self._life == life:
                self.flies("notice", path, self.world.now_ms, 0)
                self.guarded(self.machine.changed)()

        return self.server.connect(self.session_timeout_ms, event)

    # -- carrying effects out -------------------------------------------------------------------------------------------

    def at_once(self, effect: Effect) -> bool:
        match effect:
            case StopFetchers():
                consumed = self.reader.stop_all()
                self.own(set())
                self.machine.respond(consumed)
            case ConsumedOffsets():
                self.reader.read()
                self.machine.respond(dict(self.reader.positions))
            case StartFetchers(infos):
                for info in infos:
                    self.reader.begin((info.topic, info.partition), max(info.offset, 0))
                self.own({(info.topic, info.partition) for info in infos})
                self.machine.respond()
            case GiveUp(message):
                self.failures.append(message)
                self.machine.respond()
            case _:
                return False
        return True

    def perform(self, effect: Operation) -> tuple[object, int]:
        response: object
        try:
            response = self.server.apply(self._session, effect)
        except ZooKeeperError as error:
            response = error
        return response, self.server.ready_ms()

    def unreachable(self) -> Exception:
        return ConnectionLost()
