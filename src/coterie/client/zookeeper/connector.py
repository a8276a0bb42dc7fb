"""The consumer connector for real: a thread drives the machine over kazoo; fetchers fill the streams.

Everything that happens to the machine comes through one inbox, in the order in which it happened.
"""

from __future__ import annotations

import logging
import queue
import secrets
import socket
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from coterie.client.errors import KafkaError
from coterie.client.zookeeper.fetchers import FetcherManager
from coterie.client.zookeeper.settings import consumer_settings
from coterie.client.zookeeper.streams import PartitionTopicInfo, Stream
from coterie.machines.cluster_metadata import Address
from coterie.runtime.zookeeper_session import Unreachable, ZooKeeperSession, connect
from coterie.wire.errors import ErrorCode
from coterie.zookeeper import paths
from coterie.zookeeper.assignment import threads_of
from coterie.zookeeper.consumer import ConnectorConfig, ConsumerMachine
from coterie.zookeeper.operations import (
    INVALID_OFFSET,
    ConnectionLost,
    ConsumedOffsets,
    Effect,
    GiveUp,
    List,
    PartitionInfo,
    ReadEach,
    StartFetchers,
    StopFetchers,
    TopicPartition,
    ZooKeeperError,
)

logger = logging.getLogger(__name__)


class ConsumerRebalanceFailed(KafkaError):
    """No attempt of a rebalance worked; nothing is read until the group changes again."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.REBALANCE_IN_PROGRESS, message)


def _now_ms() -> int:
    return int(time.time() * 1000)


class ZooKeeperConsumer:
    """A member of a group that is held together by ZooKeeper. ``threads``: topic -> how many streams.

    Raises ConfigError for a bad setting and KafkaError where ZooKeeper cannot be reached."""

    def __init__(self, settings: Mapping[str, Any], threads: Mapping[str, int]) -> None:
        self.settings = consumer_settings(settings)
        s = self.settings
        made = f"{socket.gethostname()}-{_now_ms()}-{secrets.token_hex(4)}"
        self.consumer_id = f"{s.group_id}_{s.consumer_id or made}"
        chunks, timeout_ms = s.queued_max_message_chunks, s.consumer_timeout_ms
        self.streams = {
            topic: [Stream(topic, thread, chunks, timeout_ms) for thread in threads_of(self.consumer_id, count)]
            for topic, count in threads.items()
        }
        self.failures: list[str] = []
        self._by_thread = {(x.topic, x.thread_id): x for streams in self.streams.values() for x in streams}
        self._infos: dict[TopicPartition, PartitionTopicInfo] = {}
        self._inbox: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        config = ConnectorConfig(
            s.group_id,
            self.consumer_id,
            dict(threads),
            s.rebalance_backoff_ms,
            rebalance_max_retries=s.rebalance_max_retries,
            auto_commit_enable=s.auto_commit_enable,
            auto_commit_interval_ms=s.auto_commit_interval_ms,
        )
        self.machine = ConsumerMachine(config, _now_ms())
        self._fetchers = FetcherManager(s, self._brokers, self._failed)
        timeouts_ms = s.zookeeper_session_timeout_ms, s.zookeeper_connection_timeout_ms
        try:
            client = connect(s.zookeeper_connect, *timeouts_ms)
        except Unreachable as error:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, str(error)) from error
        self._session = ZooKeeperSession(client, self._watch_fired, self._state_changed)
        self._thread = threading.Thread(target=self._run, name=self.consumer_id, daemon=True)
        self._thread.start()

    def __enter__(self) -> ZooKeeperConsumer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def owned(self) -> list[TopicPartition]:
        """The partitions that it reads now."""
        return sorted(self._infos)

    def commit_offsets(self) -> None:
        """Has what the streams have handed out so far committed; for a user who set auto.commit.enable to false. Does not
        wait for it."""
        self._inbox.put(self.machine.commit)

    def close(self, timeout_s: float = 10.0) -> None:
        """Commits if that is automatic, gives everything back, and ends the streams. Where ZooKeeper does not respond in
        time, the session's end gives it back."""
        self._inbox.put(self.machine.close)
        self._thread.join(timeout_s)
        for stream in self._by_thread.values():
            stream.end()
        self._fetchers.stop()
        self._session.close()
        self._thread.join(timeout_s)

    # -- what happens to it, from other threads -------------------------------------------------------------------------

    def _watch_fired(self, _: str) -> None:
        self._inbox.put(self.machine.changed)

    def _state_changed(self, state: str) -> None:
        if state == "CONNECTED":
            self._inbox.put(self.machine.connected)
            return
        logger.warning(
            "%s: the connection to ZooKeeper at %s is %s", self.consumer_id, self.settings.zookeeper_connect, state
        )
        self._inbox.put(self.machine.suspended)
        if state == "LOST":
            self._inbox.put(self.machine.expired)

    def _failed(self, error: Exception, *, fatal: bool = True) -> None:
        for stream in self._by_thread.values():
            stream.fail(error, fatal=fatal)

    # -- driving the machine --------------------------------------------------------------------------------------------

    def _run(self) -> None:
        machine = self.machine
        try:
            while not machine.finished:
                effect = machine.next(_now_ms())
                if effect is None:
                    self._wait()
                else:
                    self._carry_out(effect)
        except Exception as error:  # a bug must not leave the streams waiting for ever
            self._failed(error)
            raise
        finally:
            self._stop_fetchers()
            for stream in self._by_thread.values():
                stream.end()

    def _wait(self) -> None:
        due_ms = self.machine.next_deadline_ms()
        timeout_s = None if due_ms is None else max((due_ms - _now_ms()) / 1000, 0.001)
        try:
            self._inbox.get(timeout=timeout_s)()
        except queue.Empty:
            return
        self._take_in()

    def _take_in(self) -> None:
        while True:
            try:
                self._inbox.get_nowait()()
            except queue.Empty:
                return

    def _carry_out(self, effect: Effect) -> None:
        machine = self.machine
        match effect:
            case StopFetchers():
                machine.respond(self._stop_fetchers())
            case ConsumedOffsets():
                machine.respond(self._consumed())
            case StartFetchers(infos):
                self._start_fetchers(infos)
                machine.respond()
            case GiveUp(message):
                self.failures.append(message)
                self._failed(ConsumerRebalanceFailed(message), fatal=False)
                machine.respond()
            case _:
                self._perform(effect)

    def _perform(self, operation: Any) -> None:
        try:
            response = self._session.apply(operation)
        except ConnectionLost as error:
            self.machine.refuse(error)
            self._take_in()
            if self._session.is_connected():
                self.machine.connected()
        except ZooKeeperError as error:
            self._take_in()
            self.machine.refuse(error)
        else:
            self._take_in()
            self.machine.respond(response)

    # -- fetchers and streams -------------------------------------------------------------------------------------------

    def _stop_fetchers(self) -> dict[TopicPartition, int]:
        self._fetchers.stop()
        for stream in self._by_thread.values():
            stream.clear()
        consumed = self._consumed()
        self._infos = {}
        return consumed

    def _consumed(self) -> dict[TopicPartition, int]:
        return {where: info.consumed_offset for where, info in self._infos.items()}

    def _start_fetchers(self, infos: tuple[PartitionInfo, ...]) -> None:
        self._infos = {
            (i.topic, i.partition): PartitionTopicInfo(
                i.topic, i.partition, self._by_thread[i.topic, i.thread_id], i.offset, i.offset
            )
            for i in infos
        }
        for topic in self.streams.keys() - {info.topic for info in infos}:
            logger.warning(
                "%s reads no partition of %s: it does not exist, or others read all of it", self.consumer_id, topic
            )
        assert all(info.fetched_offset >= INVALID_OFFSET for info in self._infos.values())
        self._fetchers.start(self._infos.values())

    def _brokers(self) -> list[Address]:
        """The addresses of the brokers that are registered now."""
        try:
            ids = self._session.apply(List(paths.BROKERS))
            assert isinstance(ids, list)
            nodes = self._session.apply(ReadEach(tuple(f"{paths.BROKERS}/{broker_id}" for broker_id in ids)))
            assert isinstance(nodes, list)
            return [paths.address_of(node) for node in nodes if node is not None]
        except ZooKeeperError:
            return []
