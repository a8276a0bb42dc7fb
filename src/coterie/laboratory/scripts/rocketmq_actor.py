"""The laboratory's RocketMQ consumer: the real machine over simulated brokers, consuming at a steady rate."""

from __future__ import annotations

from collections.abc import Callable

from coterie.laboratory.deliveries import Ownership, Reader, TopicPartition
from coterie.laboratory.scripts.rocketmq_brokers import RESPONSE_BYTES, SimulatedBroker, SimulatedCluster
from coterie.laboratory.scripts.script_actor import Log, ScriptActor
from coterie.laboratory.world import World
from coterie.rocketmq import requests
from coterie.rocketmq.allocation import MessageQueue
from coterie.rocketmq.client import ClientConfig, ClientMachine
from coterie.rocketmq.operations import (
    Consumed,
    Drop,
    Effect,
    FetchRoute,
    FindConsumers,
    Heartbeat,
    Lock,
    PersistOffsets,
    PullFrom,
    StartPulling,
    Unavailable,
    Unlock,
    Unregister,
)

CHECK_LOCK_MS = 1_000


def partition_of(queue: MessageQueue) -> TopicPartition:
    """A queue as one of a topic's partitions: RocketMQ counts them per broker."""
    return f"{queue.topic}@{queue.broker_name}", queue.queue_id


class RocketMQActor(ScriptActor):
    """A consumer process."""

    machine: ClientMachine

    def __init__(
        self,
        world: World,
        cluster: SimulatedCluster,
        config: ClientConfig,
        ownership: Ownership,
        reader: Reader,
        log: Log | None = None,
    ) -> None:
        super().__init__(world, config.client_id, ownership, reader, log)
        self.cluster, self.config = cluster, config
        self._queues: dict[TopicPartition, MessageQueue] = {}

    # -- a process's life -----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Starts the client, without a queue."""
        self._queues = {}
        self.begin(ClientMachine(self.config, self.world.now_ms))
        if self.config.orderly:
            self._watch_locks()

    def crash(self) -> None:
        """SIGKILL: the connections close, and the brokers know at once."""
        self._read()
        self.stop()
        for broker in self.cluster.brokers.values():
            self.world.after(self.world.delay_ms(), lambda broker=broker: broker.closed(self.name))  # type: ignore[misc]

    def vanish(self) -> None:
        """The machine goes down, or the network does for good: connections stay open."""
        self._read()
        self.stop()
        for broker in self.cluster.brokers.values():
            broker.unreachable(self.name)

    def leave(self) -> None:
        self.machine.close()
        self.pump()

    def ended(self) -> None:
        """It has unregistered from every broker itself."""

    def pause(self, ms: int) -> None:
        """The whole process is stalled; its connections stay open."""
        if self.alive and not self.paused:
            self._read()
            self.stand_still(ms, lambda: None)

    def cut(self, ms: int) -> None:
        """Brokers and name server are out of reach, and nothing can be pulled."""
        if self.alive and not self.cut_off:
            self._read()
            self.cut_off = True
            for broker in self.cluster.brokers.values():
                broker.unreachable(self.name)
            self.later(ms, self._healed)

    def _healed(self) -> None:
        self.reader.skip()
        self.cut_off = False

    def _read(self) -> None:
        """Consumes nothing while pulls cannot reach the broker."""
        if self.cut_off or self.paused:
            self.reader.skip()
        else:
            self.reader.read()

    def _watch_locks(self) -> None:
        """Orderly: a queue whose lock is too old is not consumed."""

        def look() -> None:
            for where, queue in self._queues.items():
                if not self.machine.may_consume(queue, self.world.now_ms):
                    self.reader.skip_one(where)
            self._read()
            self._watch_locks()

        self.later(CHECK_LOCK_MS, look)

    # -- carrying effects out -------------------------------------------------------------------------------------------

    def at_once(self, effect: Effect) -> bool:
        match effect:
            case Consumed():
                self._read()
                self.machine.respond({queue: self.reader.positions[where] for where, queue in self._queues.items()})
            case StartPulling(queue, offset):
                where = partition_of(queue)
                self._queues[where] = queue
                self.reader.begin(where, offset)
                self.own(self.owned | {where})
                self.machine.respond()
            case Drop(queue):
                where = partition_of(queue)
                self._read()
                offset = self.reader.positions[where]
                self.reader.stop(where)
                del self._queues[where]
                self.own(self.owned - {where})
                self.machine.respond(offset)
            case _:
                return False
        return True

    def unreachable(self) -> Exception:
        return Unavailable()

    def perform(self, effect: Effect) -> tuple[object, int]:
        """The brokers' response, and its time (ms)."""
        cluster, traffic, c = self.cluster, self.cluster.traffic, self.config
        ready_ms = self.world.now_ms
        response: object = None
        match effect:
            case FetchRoute(topic):
                response = cluster.routes.get(topic, ())
                traffic.command(requests.route(topic), 300 + 60 * len(cluster.brokers))
            case FindConsumers(topic, group):
                broker = self._any_broker(topic)
                response, ready_ms = broker.clients(), broker.ready_ms()
                traffic.command(requests.consumer_list(group), broker.list_bytes())
            case Heartbeat(client_id, group, topics):
                for broker in cluster.brokers.values():
                    traffic.command(requests.heartbeat(client_id, group, topics, 1), RESPONSE_BYTES)
                    broker.heartbeat(client_id, self._notify())
                    ready_ms = max(ready_ms, broker.ready_ms())
            case Unregister(client_id, group):
                for broker in cluster.brokers.values():
                    traffic.command(requests.unregister(client_id, group), RESPONSE_BYTES)
                    broker.closed(client_id)
            case PullFrom(queue):
                response, ready_ms = cluster.of(queue).offsets.get(queue, 0), cluster.of(queue).ready_ms()
                traffic.command(requests.query_offset(c.group, queue), RESPONSE_BYTES)
            case PersistOffsets(offsets):
                for queue, offset in offsets.items():
                    cluster.of(queue).offsets[queue] = offset
                    traffic.command(requests.update_offset(c.group, queue, offset))
            case Lock(queues):
                response = self._lock(queues)
            case Unlock(queues):
                for name, theirs in cluster.by_broker(queues).items():
                    cluster.brokers[name].locks.unlock(c.group, self.name, theirs)
                    traffic.command(requests.unlock(c.group, self.name, theirs))
        return response, ready_ms

    def _lock(self, queues: tuple[MessageQueue, ...]) -> set[MessageQueue]:
        locked: set[MessageQueue] = set()
        for name, theirs in self.cluster.by_broker(queues).items():
            locks = self.cluster.brokers[name].locks
            locked |= locks.lock(self.config.group, self.name, theirs, self.world.now_ms)
            command = requests.lock(self.config.group, self.name, theirs)
            self.cluster.traffic.command(command, RESPONSE_BYTES + 60 * len(theirs))
        return locked

    def _any_broker(self, topic: str) -> SimulatedBroker:
        names = sorted({queue.broker_name for queue in self.cluster.routes[topic]})
        return self.cluster.brokers[self.world.random.choice(names)]

    def _notify(self) -> Callable[[], None]:
        life = self._life

        def notified() -> None:
            if self._life == life and not self.cut_off:
                self.flies("notice", "NOTIFY_CONSUMER_IDS_CHANGED", self.world.now_ms, 0)
                self.guarded(self.machine.notified)()

        return notified
