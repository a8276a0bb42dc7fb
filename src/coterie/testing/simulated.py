"""Brokers and the test's own consumers in virtual time: 45 s of a session timeout pass in milliseconds, a seed repeats a run.

    with simulate(seed=1) as world:
        broker = world.broker()
        broker.create_topic("orders", 6)
        one = world.spawn("one", consume, broker.bootstrap_servers)
        two = world.spawn("two", consume, broker.bootstrap_servers)
        broker.until_stable("billing", members=2)
        two.kill()
        broker.until_stable("billing", members=1)

The broker is the production broker, on `coterie.simulation`'s loop, network and disk; settings are Kafka's defaults but for
`DEFAULTS`, since waiting costs nothing. `coterie.pytest_plugin` has the fixture ``coterie_world``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from coterie.broker.broker import Broker
from coterie.broker.settings import BrokerSettings
from coterie.client.connection.connection import Connection
from coterie.client.connection.handshake import response_type
from coterie.coordinator.replay import AnyGroup
from coterie.simulation.disk import MountedDisk, ProcessEnded
from coterie.simulation.process import SimulatedProcess
from coterie.simulation.world import Simulation, joined
from coterie.testing.cluster_brokers import ClusterBrokers, ClusteredBroker
from coterie.testing.local_broker import CLIENT_ID, PRODUCE_VERSION, LocalBroker
from coterie.testing.loop_thread import START_S
from coterie.wire.declaration import Message
from coterie.wire.errors import Refusal

T = TypeVar("T")
PORT = 9092
RESTART_S = 120.0  # a machine that lost power leaves each ISR by a round trip to ZooKeeper
DEFAULTS: dict[str, object] = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "num.partitions": "3",
    # A follower's fetches are most of what an idle cluster does. A partition that is new waits for the fetch under way to end.
    "replica.fetch.wait.max.ms": "2000",
    "replica.lag.time.max.ms": "30000",  # Kafka's; longer than that wait, or a follower that waits may leave the ISR
}


def simulate(seed: int = 0) -> SimulatedWorld:
    """A world without brokers, for a with-block."""
    return SimulatedWorld(seed)


class SimulatedWorld(Simulation):
    """`Simulation` with brokers. Time passes in `advance`, `until`, `run`, and in the waiting methods of a `WorldBroker`."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed)
        self.brokers: list[WorldBroker] = []

    def __enter__(self) -> SimulatedWorld:
        super().__enter__()
        return self

    def broker(
        self, settings: Mapping[str, object] | None = None, *, brokers: int = 1, racks: Sequence[str] = ()
    ) -> WorldBroker:
        """Starts a broker on the host broker-1, or a cluster on broker-1, broker-2, ..., each in a process of its own."""
        broker = WorldBroker(self, settings, brokers=brokers, racks=racks)
        self.brokers.append(broker)
        broker.start()
        return broker

    def story(self) -> list[str]:
        """What a failed test prints: the processes, and the journal of the groups."""
        lines = [
            f"seed {self.seed}, {self.now_s:.3f} virtual seconds, trace {self.trace}; again with --coterie-seed {self.seed}"
        ]
        lines += [
            f"process {process.name} on {process.host}: {process.state.value}" for process in self.processes.values()
        ]
        return lines + [line for broker in self.brokers for line in broker.story()]


class WorldBroker(LocalBroker):
    """Has all that `LocalBroker` has. Made by `SimulatedWorld.broker`."""

    def __init__(
        self,
        world: SimulatedWorld,
        settings: Mapping[str, object] | None = None,
        *,
        brokers: int = 1,
        racks: Sequence[str] = (),
    ) -> None:
        super().__init__(None, brokers=brokers, racks=racks)
        self.world = world
        self._settings = DEFAULTS | dict(settings or {})
        self._process: SimulatedProcess | None = None  # of a broker alone
        self._starts = 0

    def start(self) -> WorldBroker:
        """In the world; returns itself once it accepts connections."""
        if self._number > 1:
            self._cluster = self.world.run(self._made_cluster())
            self.world.run(self._cluster.start(), START_S)
            first = self._cluster.brokers[1]
            self.host, self.port = first.host, first.port
        else:
            self._start_alone()
        return self

    async def _made_cluster(self) -> ClusterBrokers:
        cluster = ClusterBrokers(
            self._settings,
            self._number,
            self._racks,
            self.faults,
            [self.journal.append],
            lambda cluster, number, rack: _BrokerProcess(self.world, cluster, number, rack),
        )
        cluster.zookeeper.latency_s = self.world.network.latency_s
        return cluster

    def _start_alone(self) -> None:
        world = self.world
        process, disk = mounted_process(world, "broker-1")
        self._process = process

        async def start() -> tuple[str, int]:
            self.broker = Broker(BrokerSettings(self._settings), memory=disk, boot_id=disk.disk.boot_id)
            self.broker.handlers = self.faults.wrap(self.broker.handlers)
            address = await self.broker.start("broker-1", PORT)
            self.broker.groups.journal.listeners.append(self.journal.append)
            _exit_after_failure(self.broker, process)
            return address

        self.host, self.port = world.run_in(process, start(), START_S)

    def stop(self, broker_id: int | None = None) -> None:
        """A controlled shutdown, of that broker of a cluster or of all."""
        if self._cluster is not None and broker_id is not None:
            super().stop(broker_id)
        elif self._cluster is not None:
            for broker in self._cluster.live():
                self.world.run(broker.stop())
        else:
            with suppress(ProcessEnded):  # in one of its last writes
                self._on_loop(self.broker.stop(), START_S)
            self._alone().kill()

    def reset(self) -> None:
        """Raises ValueError: each test has a world of its own."""
        raise ValueError("a world's broker is not reset: a further `simulate` is an empty world")

    def kill(self, broker_id: int = 1) -> None:
        """As SIGKILL: no line of the broker's code runs any more; its disk stays for `restart`."""
        if self._cluster is not None:
            super().kill(broker_id)
        else:
            self._alone().kill()

    def restart(self, broker_id: int = 1) -> None:
        """Starts the broker again, on its disk and its port, after `stop`, `kill` or `power_cut`."""
        if self.is_alive(broker_id):
            raise ValueError(f"broker {broker_id} runs; stop or kill it first")
        if self._cluster is not None:
            self._on_loop(self._broker(broker_id).start(), RESTART_S)
            return
        self.world.power_on("broker-1")
        self._start_alone()

    def is_alive(self, broker_id: int = 1) -> bool:
        """Whether the broker's process lives: it also ends by itself, as after a failed fsync."""
        process = self.world.processes.get(f"broker-{broker_id}")
        return process is not None and process.is_alive

    def power_cut(self, broker_id: int = 1) -> None:
        """The broker's machine loses power: its peers hear nothing, and its disk loses what was not synced."""
        if self._cluster is not None:
            self._on_loop(self._broker(broker_id).kill(), START_S)
        self.world.power_cut(f"broker-{broker_id}")

    def pause(self, broker_id: int = 1) -> None:
        """As SIGSTOP: the broker does nothing, its connections stay open, until `resume`."""
        if self._cluster is not None:
            super().pause(broker_id)
        else:
            self._alone().pause()

    def resume(self, broker_id: int = 1) -> None:
        """Ends what `pause` began."""
        if self._cluster is not None:
            super().resume(broker_id)
        else:
            self._alone().resume()

    @property
    def broker_ids(self) -> list[int]:
        """The ids of the brokers: 1, 2, ..."""
        return list(range(1, self._number + 1))

    @property
    def cluster(self) -> ClusterBrokers:
        """The brokers themselves. Raises ValueError for a broker alone."""
        return self._clustered()

    # -- what the brokers have, at this instant ---------------------------------------------------------------------------

    def group_now(self, group: str) -> AnyGroup | None:
        """The group as its coordinator has it; None where there is no such group, or no coordinator that has loaded it."""
        return self._group(group)

    def _group(self, group_id: str) -> AnyGroup | None:
        if self._process is not None and not self._process.is_alive:
            return None
        try:
            return super()._group(group_id)
        except (Refusal, ProcessEnded):  # it loads; or ends, as the first look makes the topic of the offsets
            return None

    def committed_now(self, group: str) -> dict[tuple[str, int], int]:
        """The committed offsets of `group_now`."""
        state = self.group_now(group)
        return {} if state is None else {tp: kept.offset for tp, kept in state.offsets.items()}

    def is_in_sync(self, broker_id: int) -> bool:
        """Whether a broker of the cluster is in the ISR of each partition that it replicates."""
        cluster = self._clustered()
        every = {tp for broker in cluster.live() for tp in broker.broker.cluster.states}
        states = [state for tp in sorted(every) if (state := cluster.state(*tp)) is not None]
        return all(broker_id in state.isr for state in states if broker_id in state.replicas)

    # -- the world in the place of a thread -------------------------------------------------------------------------------

    def _alone(self) -> SimulatedProcess:
        assert self._process is not None, "it has not started"
        return self._process

    def _require_running(self) -> None:
        if self._process is None and self._cluster is None:
            raise RuntimeError("the broker does not run: SimulatedWorld.broker starts it")

    def _on_loop(self, work: Any, timeout_s: float) -> Any:
        if self._cluster is None and self._alone().is_alive:
            return self.world.run_in(self._alone(), work, timeout_s)
        return self.world.run(work, timeout_s)

    def _now_ms(self) -> int:
        return self.world.now_ms()

    def _call(self, what: Callable[[], T]) -> T:
        """Within a coroutine of the world at once, which takes no time either way."""
        return what() if self.world.is_running else super()._call(what)

    def _until(self, done: Callable[[], T], wanted: str, why: Callable[[], str], timeout_s: float) -> T:
        """``timeout_s`` is virtual, and no less than a session timeout."""
        try:
            return self.world.until(done, wanted, max(timeout_s, 120.0))
        except TimeoutError as error:
            raise TimeoutError(f"{error}. {why()}".rstrip()) from None

    def _request(self, request: Any, host: str, port: int) -> Any:
        return self.world.run(_response(request, host, port))


class _BrokerProcess(ClusteredBroker):
    """A broker of a cluster whose process ends as a real one."""

    def __init__(self, world: SimulatedWorld, cluster: ClusterBrokers, broker_id: int, rack: str | None) -> None:
        super().__init__(cluster, broker_id, rack)
        self._world = world
        self._process: SimulatedProcess | None = None
        self.host, self.port = f"broker-{broker_id}", PORT + broker_id - 1

    async def start(self) -> None:
        """In a new process, on the disk of its host."""
        self._world.power_on(self.host)
        process, disk = mounted_process(self._world, self.host)
        process.at_end.append(self._ended)
        self._process, self._memory, self._boot_id = process, disk, disk.disk.boot_id
        await joined(self._world.loop.create_task(super().start(), context=process.context.copy()))
        _exit_after_failure(self.broker, process)

    async def stop(self) -> None:
        """A controlled shutdown, and the end of the process."""
        if self._process is not None:
            with suppress(ProcessEnded):  # in one of its last writes
                await joined(self._world.loop.create_task(super().stop(), context=self._process.context.copy()))
            self._process.kill()

    async def kill(self) -> None:
        """As SIGKILL: none of its code runs any more."""
        if self._process is not None:
            self._process.kill()

    def _ended(self) -> None:
        """ZooKeeper hears no more of the process, however it ended."""
        self.is_running = False
        if self._session is not None:
            self._session.die()

    def pause(self) -> None:
        """As SIGSTOP; ZooKeeper hears no more of it."""
        self.lose_zookeeper()
        if self._process is not None:
            self._process.pause()

    def resume(self) -> None:
        """As SIGCONT."""
        if self._process is not None:
            self._process.resume()
        self.reach_zookeeper()


def mounted_process(world: Simulation, host: str) -> tuple[SimulatedProcess, MountedDisk]:
    """A process on the host, and its view of the host's disk, which ends with it."""
    process, disk = world.process(host), world.disk(host).mount()
    process.at_end.append(disk.end)
    disk.died = process.kill
    return process, disk


def _exit_after_failure(broker: Broker, process: SimulatedProcess) -> None:
    """As `coterie broker`, whose process ends once the broker can no longer trust its disk."""

    async def wait() -> None:
        await broker.failed.wait()
        process.kill()

    broker.loop.create_task(wait())


async def _response(request: Message, host: str, port: int) -> Any:
    connection = await Connection.connect(host, port, CLIENT_ID, START_S)
    try:
        return await connection.request(request, response_type(request), START_S, highest=PRODUCE_VERSION)
    finally:
        connection.close()
