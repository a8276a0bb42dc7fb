"""The broker in ZooKeeper, under Kafka 0.8's paths, where `zookeeper.connect` is set: itself, its topics, their partitions.

A copy for consumers that read it there; the data folder is authoritative. A thread writes it, so that the broker does not
wait for an unavailable ZooKeeper; in a new session everything is written again.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable

from coterie.runtime.zookeeper_session import Unreachable, ZooKeeperSession, connect
from coterie.zookeeper import paths
from coterie.zookeeper.operations import (
    ConnectionLost,
    Create,
    Delete,
    List,
    NodeExists,
    NoNode,
    Operation,
    Read,
    Write,
    Znode,
    ZooKeeperError,
)

logger = logging.getLogger(__name__)

RETRY_S = 0.5
GIVE_UP_S = 60.0


class Registration:
    """One broker's nodes. ``partitions`` returns, in any thread, each topic's number of partitions."""

    def __init__(self, node_id: int, address: tuple[str, int], partitions: Callable[[], dict[str, int]]) -> None:
        self._node_id, self._address, self._partitions = node_id, address, partitions
        self._written: dict[str, int] = {}
        self._work: queue.SimpleQueue[str] = queue.SimpleQueue()  # "changed", "expired", "stop"
        self._session: ZooKeeperSession
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="zookeeper", daemon=True)

    def start(self, ensemble: str, session_timeout_ms: int, connection_timeout_ms: int) -> None:
        """Returns when everything is written. Raises Unreachable, also where another broker has this node.id."""
        client = connect(ensemble, session_timeout_ms, connection_timeout_ms)
        self._session = ZooKeeperSession(client, lambda _: None, self._state_changed)
        try:
            self._register(session_timeout_ms / 1000)
            self._write_topics()
        except ZooKeeperError as error:
            self._stopped = True
            self._session.close()
            reason = str(error) or type(error).__name__
            raise Unreachable(f"the broker could not be registered in ZooKeeper at {ensemble}: {reason}") from error
        self._thread.start()

    def changed(self) -> None:
        """A topic was created, deleted or extended."""
        self._work.put("changed")

    def stop(self) -> None:
        """Waits up to 5 s for the thread; then the session ends, and with it the broker's nodes."""
        self._stopped = True
        self._work.put("stop")
        self._thread.join(5)
        self._session.close()

    def _state_changed(self, state: str) -> None:
        if state == "LOST" and not self._stopped:
            logger.warning("the ZooKeeper session expired; the broker registers again once ZooKeeper can be reached")
            self._work.put("expired")

    def _run(self) -> None:
        while (change := self._work.get()) != "stop":
            try:
                if change == "expired":
                    self._register(GIVE_UP_S)
                    self._written = {}
                self._write_topics()
            except ZooKeeperError as error:
                logger.error("changes could not be written to ZooKeeper: %s", error or type(error).__name__)

    def _register(self, patience_s: float) -> None:
        """Waits until the node of an earlier process is gone with its session. Raises ZooKeeperError after ``patience_s``."""
        path, end_s = paths.broker(self._node_id), time.monotonic() + patience_s
        content = paths.broker_address(*self._address, int(time.time() * 1000))
        while True:
            try:
                self._apply(Create(path, content))
                return
            except NodeExists:
                node = self._apply(Read(path))
                if isinstance(node, Znode) and node.mine:
                    return
                if time.monotonic() > end_s:
                    raise NodeExists(f"another broker is registered with node.id {self._node_id}") from None
                time.sleep(RETRY_S)

    def _write_topics(self) -> None:
        """Writes each topic that has changed, and removes the deleted topics."""
        wanted = self._partitions()
        for topic, count in wanted.items():
            if self._written.get(topic) != count:
                # The topic first, as in Kafka: a watcher of the topic must never see it without its partitions.
                replicas = {partition: [self._node_id] for partition in range(count)}
                self._apply(Write(paths.topic(topic), paths.partitions(replicas)))
                for partition in range(self._written.get(topic, 0), count):
                    self._apply(Write(paths.partition_state(topic, partition), paths.state(self._node_id)))
                self._written[topic] = count
        for topic in self._written.keys() - wanted.keys():
            self._remove(paths.topic(topic))
            del self._written[topic]

    def _remove(self, path: str) -> None:
        names = self._apply(List(path))
        assert isinstance(names, list)
        for name in names:
            self._remove(f"{path}/{name}")
        try:
            self._apply(Delete(path))
        except NoNode:
            return

    def _apply(self, operation: Operation) -> object:
        """Retries for `GIVE_UP_S` while the connection is lost. Raises ZooKeeperError."""
        end_s = time.monotonic() + GIVE_UP_S
        while True:
            try:
                return self._session.apply(operation)
            except ConnectionLost:
                if time.monotonic() > end_s:
                    raise
                time.sleep(RETRY_S)
