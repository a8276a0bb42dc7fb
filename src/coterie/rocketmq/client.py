"""The push consumer's rebalance as a machine (RocketMQ's RebalanceImpl, _ProcessQueue, MQClientInstance).

No roles: every client sends heartbeats to every broker of its topics, and each 20 s, or at a broker's notice that the group
changed, takes a topic's queues and the group's clients, sorts both, and computes its own share. Queues that are no longer
its own are dropped before new ones are begun. Orderly consumption locks each queue at the broker, renews the lock, and
stops when no renewal succeeded for 30 s.

Inputs beside those of `ScriptMachine`: `notified`, `close`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from coterie.machines.script import ScriptMachine, Steps, Wait
from coterie.rocketmq.allocation import MessageQueue, Strategy, averagely
from coterie.rocketmq.operations import (
    Consumed,
    Drop,
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


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """RocketMQ's settings and constants that membership needs; times in ms. ``rebalance_min_interval_ms``: since 5.0 a
    client that did not get all of its share tries again after it, instead of waiting for its turn."""

    group: str
    client_id: str
    topics: tuple[str, ...]
    orderly: bool = False
    strategy: Strategy = averagely
    heartbeat_interval_ms: int = 30_000
    rebalance_interval_ms: int = 20_000
    rebalance_min_interval_ms: int = 1_000
    poll_name_server_interval_ms: int = 30_000
    persist_interval_ms: int = 5_000
    lock_interval_ms: int = 20_000
    lock_max_live_ms: int = 30_000


@dataclass(slots=True)
class _ProcessQueue:
    """A queue that is consumed here. ``locked_ms``: when the broker last granted the lock."""

    queue: MessageQueue
    locked_ms: int | None = None


class ClientMachine(ScriptMachine):
    """One client of one group."""

    def __init__(self, config: ClientConfig, now_ms: int) -> None:
        super().__init__(self._life(), now_ms)
        self.config = config
        self.process_queues: dict[MessageQueue, _ProcessQueue] = {}
        self.rebalances = self.notifications = 0
        self._routes: dict[str, tuple[MessageQueue, ...]] = {}
        self._due = {"route": now_ms, "heartbeat": now_ms, "rebalance": now_ms}
        self._due["persist"] = now_ms + config.persist_interval_ms
        if config.orderly:
            self._due["lock"] = now_ms + config.lock_interval_ms
        self._closing = False

    def notified(self) -> None:
        """A broker's notice that the group's consumers changed (NOTIFY_CONSUMER_IDS_CHANGED)."""
        self.notifications += 1
        self._due["rebalance"] = self.now_ms
        self.nudge()

    def close(self) -> None:
        self._closing = True
        self.nudge()

    def may_consume(self, queue: MessageQueue, now_ms: int) -> bool:
        """Whether its messages may be delivered: the queue is owned, and if orderly its lock has not expired."""
        mine = self.process_queues.get(queue)
        if mine is None:
            return False
        if not self.config.orderly:
            return True
        return mine.locked_ms is not None and now_ms - mine.locked_ms < self.config.lock_max_live_ms

    # -- its life -------------------------------------------------------------------------------------------------------

    def _life(self) -> Steps[None]:
        """The earliest due step first; at the beginning routes, then heartbeats, then the first rebalance."""
        c = self.config
        work = {
            "route": (self._fetch_routes, c.poll_name_server_interval_ms),
            "heartbeat": (self._beat, c.heartbeat_interval_ms),
            "rebalance": (self._rebalance, c.rebalance_interval_ms),
            "persist": (self._persist, c.persist_interval_ms),
            "lock": (self._lock_all, c.lock_interval_ms),
        }
        while not self._closing:
            name = min(self._due, key=self._due.__getitem__)
            if self._due[name] > self.now_ms:
                yield Wait(self._due[name])
                continue
            step, interval_ms = work[name]
            self._due[name] = self.now_ms + interval_ms
            yield from step()
        yield from self._depart()

    def _fetch_routes(self) -> Steps[None]:
        for topic in self.config.topics:
            with suppress(Unavailable):
                route = tuple(sorted((yield FetchRoute(topic))))
                if self._routes.get(topic) != route:
                    self._routes[topic] = route
                    self._due["rebalance"] = self._due["heartbeat"] = self.now_ms  # new brokers must know us as well

    def _beat(self) -> Steps[None]:
        with suppress(Unavailable):
            yield Heartbeat(self.config.client_id, self.config.group, self.config.topics)

    def _persist(self) -> Steps[None]:
        offsets = yield Consumed()
        if offsets:
            with suppress(Unavailable):
                yield PersistOffsets(offsets)

    def _depart(self) -> Steps[None]:
        consumed: dict[MessageQueue, int] = {}
        for queue in list(self.process_queues):
            with suppress(Unavailable):
                offset = yield Drop(queue)
                if offset is not None:
                    consumed[queue] = offset
        with suppress(Unavailable):
            if consumed:
                yield PersistOffsets(consumed)
            if self.config.orderly and self.process_queues:
                yield Unlock(tuple(self.process_queues))
        self.process_queues = {}
        with suppress(Unavailable):
            yield Unregister(self.config.client_id, self.config.group)

    # -- a rebalance ----------------------------------------------------------------------------------------------------

    def _rebalance(self) -> Steps[None]:
        self.rebalances += 1
        balanced = True
        for topic in self.config.topics:
            balanced = (yield from self._rebalance_topic(topic)) and balanced
        for queue in [q for q in self.process_queues if q.topic not in self.config.topics]:
            yield from self._drop(queue)
        if not balanced:
            retry_ms = self.now_ms + self.config.rebalance_min_interval_ms
            self._due["rebalance"] = min(self._due["rebalance"], retry_ms)

    def _rebalance_topic(self, topic: str) -> Steps[bool]:
        """False where something is left to be done."""
        queues, clients = self._routes.get(topic), None
        if queues:
            with suppress(Unavailable):
                clients = yield FindConsumers(topic, self.config.group)
        if not queues or not clients:
            return False  # what it has, it keeps
        mine = self.config.strategy(self.config.client_id, queues, sorted(clients))
        return bool((yield from self._update_process_queues(topic, mine)))

    def _update_process_queues(self, topic: str, mine: Sequence[MessageQueue]) -> Steps[bool]:
        """Others' queues are dropped first, then our own begun."""
        balanced, wanted = True, set(mine)
        for queue in [q for q in self.process_queues if q.topic == topic and q not in wanted]:
            balanced = (yield from self._drop(queue)) and balanced
        for queue in mine:
            if queue not in self.process_queues:
                balanced = (yield from self._begin(queue)) and balanced
        return balanced

    def _begin(self, queue: MessageQueue) -> Steps[bool]:
        """Orderly: only under the broker's lock."""
        process_queue = _ProcessQueue(queue)
        if self.config.orderly and not (yield from self._lock(process_queue)):
            return False
        try:
            offset = yield PullFrom(queue)
        except Unavailable:
            return False
        self.process_queues[queue] = process_queue
        yield StartPulling(queue, offset)
        return True

    def _lock(self, process_queue: _ProcessQueue) -> Steps[bool]:
        with suppress(Unavailable):
            if process_queue.queue in (yield Lock((process_queue.queue,))):
                process_queue.locked_ms = self.now_ms
                return True
        return False

    def _drop(self, queue: MessageQueue) -> Steps[bool]:
        """Its offset is persisted, so that the next owner begins there if it has not begun yet."""
        try:
            offset = yield Drop(queue)
        except Unavailable:
            return False  # orderly, and in the middle of a message: the next time
        del self.process_queues[queue]
        with suppress(Unavailable):
            if offset is not None:
                yield PersistOffsets({queue: offset})
            if self.config.orderly:
                yield Unlock((queue,))
        return True

    def _lock_all(self) -> Steps[None]:
        """Renewed while they are young. What the broker has given to others meanwhile is not locked any more."""
        if not self.process_queues:
            return
        with suppress(Unavailable):
            locked = yield Lock(tuple(self.process_queues))
            for queue, process_queue in self.process_queues.items():
                process_queue.locked_ms = self.now_ms if queue in locked else None
