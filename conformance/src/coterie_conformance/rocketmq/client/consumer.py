"""The push consumer: drives the rebalance machine, pulls each of its queues, hands messages to a listener."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from coterie.client.pauses.loop_clock import pause, until_woken
from coterie.rocketmq import requests
from coterie.rocketmq.allocation import MessageQueue, Strategy, averagely
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
from coterie.rocketmq.requests import RemotingCommand
from coterie_conformance.rocketmq import message_requests
from coterie_conformance.rocketmq.client.connection import RemotingCluster, RocketMQError
from coterie_conformance.rocketmq.frames import FrameError, StoredMessage, read_messages

logger = logging.getLogger(__name__)

Listener = Callable[[MessageQueue, Sequence[StoredMessage]], None]
SUSPEND_MS = 15_000  # how long a broker holds a pull for which it has nothing
PULL_COUNT = 32
RETRY_S = 0.2


def _now_ms() -> int:
    return int(time.time() * 1000)


@dataclass(slots=True)
class _Pulling:
    """One process queue: up to where its messages are pulled and consumed."""

    consumed: int
    task: asyncio.Task[None] | None = None
    busy: bool = False


class RocketMQConsumer:
    """``listener`` gets a queue and messages of it, in order and in a thread; what it returns from is consumed, what it
    raises from comes again. Clustering mode; every message of the topics is taken. ``from_first``: from there where the
    group has no offset, else from the end."""

    def __init__(
        self,
        name_server: str,
        group: str,
        topics: Sequence[str],
        listener: Listener,
        *,
        client_id: str | None = None,
        orderly: bool = False,
        strategy: Strategy = averagely,
        from_first: bool = True,
    ) -> None:
        name = client_id or f"{socket.gethostname()}@{os.getpid()}#{time.monotonic_ns()}"
        self.config = ClientConfig(group, name, tuple(topics), orderly=orderly, strategy=strategy)
        self.machine = ClientMachine(self.config, _now_ms())
        self._listener, self._from_first = listener, from_first
        self._sub_version = _now_ms()
        self._cluster = RemotingCluster(name_server, self._requested)
        self._pulling: dict[MessageQueue, _Pulling] = {}
        self._woken = asyncio.Event()
        self._at_rest = asyncio.Event()  # set for a moment when the machine has done what was due
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Raises RocketMQError where the name server does not know the topics."""
        for topic in self.config.topics:
            await self._cluster.fetch_route(topic)
        self._task = asyncio.create_task(self._run())

    def queues(self) -> list[MessageQueue]:
        """The queues that it consumes now."""
        return sorted(self._pulling)

    async def close(self) -> None:
        """Persists what is consumed and says goodbye."""
        self.machine.close()
        self._woken.set()
        if self._task is not None:
            await self._task
        await self._cluster.close()

    # -- driving the machine --------------------------------------------------------------------------------------------

    def _requested(self, command: RemotingCommand) -> None:
        if command.code == requests.CONSUMERS_CHANGED:
            self.machine.notified()
            self._woken.set()

    async def _run(self) -> None:
        machine = self.machine
        while not machine.finished:
            effect = machine.next(_now_ms())
            if effect is None:
                self._at_rest.set()
                self._at_rest.clear()
                await self._wait()
                continue
            try:
                machine.respond(await self._carry_out(effect))
            except (RocketMQError, FrameError, Unavailable) as error:
                logger.info("%s: %s", type(effect).__name__, error)
                machine.refuse(Unavailable(str(error)))

    async def _wait(self) -> None:
        due_ms = self.machine.next_deadline_ms()
        timeout_s = None if due_ms is None else max((due_ms - _now_ms()) / 1000, 0.001)
        await until_woken(self._woken, timeout_s)

    async def _carry_out(self, effect: Effect) -> Any:
        """Its response. Raises RocketMQError or Unavailable."""
        cluster, group = self._cluster, self.config.group
        match effect:
            case FetchRoute(topic):
                return (await cluster.fetch_route(topic)).queues
            case Heartbeat(client_id, _, topics):
                await self._to_every_broker(lambda: requests.heartbeat(client_id, group, topics, self._sub_version))
            case Unregister(client_id, _):
                await self._to_every_broker(lambda: requests.unregister(client_id, group))
            case FindConsumers(topic, _):
                broker = random.choice(cluster.brokers_of(topic))
                return message_requests.consumers_of(await cluster.invoke(broker, requests.consumer_list(group)))
            case Lock(queues):
                return await self._lock(queues)
            case Unlock(queues):
                for name, topic, theirs in _by_broker(queues):
                    await cluster.broker(topic, name).send(requests.unlock(group, self.config.client_id, theirs))
            case PullFrom(queue):
                return await self._pull_from(queue)
            case StartPulling(queue, offset):
                pulling = self._pulling[queue] = _Pulling(offset)
                pulling.task = asyncio.create_task(self._pull(queue, pulling))
            case Drop(queue):
                return await self._drop(queue)
            case Consumed():
                return {queue: pulling.consumed for queue, pulling in self._pulling.items()}
            case PersistOffsets(offsets):
                for queue, offset in offsets.items():
                    broker = cluster.broker(queue.topic, queue.broker_name)
                    await broker.send(requests.update_offset(group, queue, offset))
        return None

    async def _to_every_broker(self, make: Callable[[], RemotingCommand]) -> None:
        """A broker without a response is passed over: the next heartbeat is sent all the same."""
        for broker in self._cluster.brokers():
            try:
                await self._cluster.invoke(broker, make())
            except RocketMQError as error:
                logger.info("%s: %s", broker.address, error)

    async def _lock(self, queues: Sequence[MessageQueue]) -> set[MessageQueue]:
        locked: set[MessageQueue] = set()
        for name, topic, theirs in _by_broker(queues):
            command = requests.lock(self.config.group, self.config.client_id, theirs)
            response = await self._cluster.invoke(self._cluster.broker(topic, name), command)
            locked |= message_requests.locked_of(response)
        return locked

    async def _pull_from(self, queue: MessageQueue) -> int:
        broker = self._cluster.broker(queue.topic, queue.broker_name)
        try:
            response = await self._cluster.invoke(broker, requests.query_offset(self.config.group, queue))
        except RocketMQError as error:
            if error.code != requests.QUERY_NOT_FOUND:
                raise
            code = requests.MIN_OFFSET if self._from_first else requests.MAX_OFFSET
            response = await self._cluster.invoke(broker, message_requests.end_offset(queue, code))
        return int(response.fields["offset"])

    # -- pulling --------------------------------------------------------------------------------------------------------

    async def _drop(self, queue: MessageQueue) -> int:
        """Raises Unavailable while the listener has messages of an orderly queue."""
        pulling = self._pulling[queue]
        if self.config.orderly and pulling.busy:
            raise Unavailable(f"{queue} is being consumed")
        del self._pulling[queue]
        if pulling.task is not None:
            pulling.task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await pulling.task
        return pulling.consumed

    async def _pull(self, queue: MessageQueue, pulling: _Pulling) -> None:
        while self._pulling.get(queue) is pulling:
            if not self.machine.may_consume(queue, _now_ms()):
                await self._at_rest.wait()  # a lock is taken by the machine
                continue
            try:
                await self._pull_once(queue, pulling)
            except (RocketMQError, FrameError) as error:
                logger.info("the pull of %s failed: %s", queue, error)
                await pause(RETRY_S)

    async def _pull_once(self, queue: MessageQueue, pulling: _Pulling) -> None:
        broker = self._cluster.broker(queue.topic, queue.broker_name)
        command = message_requests.pull(
            self.config.group, queue, pulling.consumed, self._sub_version, suspend_ms=SUSPEND_MS, count=PULL_COUNT
        )
        response = await broker.invoke(command, SUSPEND_MS / 1000 + 10)
        if response.code == requests.SUCCESS:
            messages = [m for m in read_messages(response.body) if m.queue_offset >= pulling.consumed]
            if not self.machine.may_consume(queue, _now_ms()):
                return
            pulling.busy = True
            try:
                await asyncio.to_thread(self._listener, queue, messages)
            except Exception:
                logger.exception("the listener failed; the messages come again")
                await pause(RETRY_S)
                return
            finally:
                pulling.busy = False
        elif response.code not in (requests.PULL_NOT_FOUND, requests.PULL_RETRY, requests.PULL_OFFSET_MOVED):
            raise RocketMQError(response.code, response.remark or f"code {response.code}")
        pulling.consumed = int(response.fields.get("nextBeginOffset", pulling.consumed))


def _by_broker(queues: Sequence[MessageQueue]) -> list[tuple[str, str, list[MessageQueue]]]:
    """(broker's name, a topic that it has, its queues)."""
    by_broker: dict[str, list[MessageQueue]] = {}
    for queue in queues:
        by_broker.setdefault(queue.broker_name, []).append(queue)
    return [(name, theirs[0].topic, theirs) for name, theirs in by_broker.items()]
