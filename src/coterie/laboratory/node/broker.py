"""The broker's process in virtual time: a `BrokerNode` with the real handlers over a `Disk`, which dies and comes back.

`Durability.POWER`: log.flush.interval.messages=1, and the machine may go down; `Durability.PROCESS`: only the process does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress

from coterie.broker.handlers import HANDLERS
from coterie.broker.node import BrokerNode
from coterie.broker.requests.calls import Call, CannotAnswer
from coterie.broker.requests.connection import ClientConnection
from coterie.broker.requests.pending import Pending
from coterie.broker.requests.turns import finish
from coterie.broker.settings import BrokerSettings
from coterie.broker.storage.flusher import Synced
from coterie.laboratory.broker_actor import Durability
from coterie.laboratory.node.scheduler import VirtualClock, WorldScheduler
from coterie.laboratory.world import World
from coterie.log.compaction import clean, plan, swap
from coterie.log.files.filesystem import File
from coterie.simulation.disk import Disk, MountedDisk, OpenFile, ProcessEnded
from coterie.wire.declaration import Message

ADDRESS = ("laboratory", 9092)
BACK_AFTER_MS = 1_000
COMPACT_EVERY_MS = 20_000
Answered = Callable[[Message | None], None]
SETTINGS = {
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "offsets.topic.segment.bytes": "4000",
    "transaction.state.log.segment.bytes": "4000",
    "log.segment.bytes": "3000",
    "log.index.interval.bytes": "200",
    "group.initial.rebalance.delay.ms": "0",
    "log.retention.check.interval.ms": "30000",
}


class LaboratoryBroker:
    """``topics``: name -> number of partitions, made at the first start. ``loaded`` is called after each start."""

    def __init__(
        self, world: World, durability: Durability, topics: Mapping[str, int], settings: Mapping[str, str] = SETTINGS
    ) -> None:
        self.world, self.durability, self._topics = world, durability, topics
        self._settings = dict(settings)
        if durability != Durability.PROCESS:
            self._settings["log.flush.interval.messages"] = "1"
        self.disk = Disk(world.random, lambda: world.now_ms)
        self.up = False
        self.incarnation = self.crashes = self.stops = self.requests = 0
        self._boots = 1  # of the machine
        self.slow_sync_ms = 0  # at most, of each sync
        self.loaded: Callable[[], None] = lambda: None
        self._mounted: MountedDisk | None = None
        self.start()

    # -- its life -----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Opens the folder; a process that cannot, or dies of it, is started again later."""
        assert not self.up
        self.incarnation += 1
        self.scheduler = WorldScheduler(self.world, self.crash)
        self._mounted = self.disk.mount()
        self.node = BrokerNode(BrokerSettings(self._settings), VirtualClock(self.world), self.world.random)
        self.up = True
        try:
            boot_id = str(self._boots)
            self.node.open(self._mounted, self.scheduler, self._sync, self._disk_failed, boot_id)
            for name, count in self._topics.items():
                if name not in self.node.topics.by_name:
                    finish(self.node.topics.creating(name, count, {}))
        except OSError as error:  # perhaps of a sync
            self._disk_failed(error)
            return
        except ProcessEnded:
            self.crash()
            return
        self.node.load_transactions()
        for interval_ms, work in [*self.node.upkeep(), (COMPACT_EVERY_MS, self._compact)]:
            self._repeat(interval_ms, work)
        self.loaded()

    def crash(self, *, power: bool | None = None) -> None:
        """The process ends, and with it, where it may, the machine; it is started again later."""
        if not self.up:
            return
        self._end()
        self.crashes += 1
        if power is None:
            power = self.durability == Durability.POWER and self.world.chance(0.7)
        if power:
            self.disk.power_cut()
            self._boots += 1
        self.world.after(self.world.between(100, 5_000), self._start_again)

    def stop(self) -> None:
        """An orderly end: logs are closed and marked so."""
        if not self.up:
            return
        try:
            self.node.groups.close()
            self.node.topics.close()
        except ProcessEnded:
            self.crash()
        if not self.up:  # it died of it, or a sync failed
            return
        self._end()
        self.stops += 1
        self.world.after(BACK_AFTER_MS, self._start_again)

    def _end(self) -> None:
        assert self._mounted is not None
        self.up = self.scheduler.alive = False
        self._mounted.is_over = True

    def _start_again(self) -> None:
        if not self.up:
            self.start()

    def _disk_failed(self, error: OSError) -> None:
        """The machine goes down with the process: what the failed sync lost would else seem to be there until later."""
        self.crash(power=self.durability == Durability.POWER)

    def _sync(self, files: list[File], synced: Synced) -> None:
        """Takes its time; what is written meanwhile is not on the disk by it."""
        opened = [file for file in files if isinstance(file, OpenFile)]
        sizes = [file.begin_sync() for file in opened]

        def end() -> None:
            try:
                for file, size in zip(opened, sizes, strict=True):
                    file.end_sync(size)
            except OSError as error:
                synced(error)
            else:
                synced(None)

        self.scheduler.call_later(self.world.between(1, max(self.slow_sync_ms, 5)) / 1000, end)

    def _repeat(self, interval_ms: int, work: Callable[[], None]) -> None:
        def again() -> None:
            with suppress(OSError):
                work()
            self.scheduler.call_later(interval_ms / 1000, again)

        self.scheduler.call_later(interval_ms / 1000, again)

    def _compact(self) -> None:
        """As the broker's cleaner; requests come between the reading and the swap."""
        for log in [log for log in self.node.topics.every_log() if log.config.cleanup_compact]:
            wanted = plan(log, self.world.now_ms, force=True)
            if wanted is None:
                continue
            cleaned = clean(wanted)

            def install(log=log, cleaned=cleaned) -> None:  # type: ignore[no-untyped-def]
                with suppress(OSError):
                    swap(log, cleaned)

            self.scheduler.call_later(self.world.between(0, 50) / 1000, install)

    # -- requests -----------------------------------------------------------------------------------------------------

    def handle(self, request: Message, version: int, client_id: str, answered: Answered) -> None:
        """Carries a request out, in the bytes of its version. ``answered`` gets the response, or None where the connection is
        closed; it is not called where the process ends before. A request without a response is answered at once with
        itself."""
        self.requests += 1
        arrived = type(request).decode(request.encode(version), version)
        self.scheduler.run(lambda: self._handle(arrived, version, client_id, answered))

    def _handle(self, request: Message, version: int, client_id: str, answered: Answered) -> None:
        call = Call(version, client_id, ClientConnection("/laboratory", local_address=ADDRESS))

        def answer(response: Message) -> None:
            answered(type(response).decode(response.encode(version), version))

        try:
            result = HANDLERS[request.api_key](self.node, request, call)
        except CannotAnswer:
            answered(None)
            return
        if result is None:
            answered(request)
        elif not isinstance(result, Pending):
            answer(result)
        elif result.response is not None:
            answer(result.response)
        else:
            pending = result

            def notified() -> None:
                response = pending.ended()
                if response is None:
                    answered(None)
                else:
                    answer(response)

            pending.notify = notified
