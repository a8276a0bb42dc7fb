"""The consumer connector: registers, watches, rebalances in five steps, commits, and goes (Kafka 0.8).

Every change that a member sees makes it rebalance by itself, out of what it reads in ZooKeeper; that no partition has two
readers rests on the owners' nodes, which only one can make. A step that fails is tried again after the backoff, since
the owner of a partition releases it when it sees the same change.

Inputs beside those of `ScriptMachine`: `changed` (a watch fired), `connected`, `suspended`, `expired`, `close`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from coterie.machines.script import ScriptMachine, Steps, Wait
from coterie.zookeeper import paths
from coterie.zookeeper.assignment import share, threads_by_topic, threads_of
from coterie.zookeeper.operations import (
    INVALID_OFFSET,
    ConnectionLost,
    ConsumedOffsets,
    Corrupt,
    Create,
    Delete,
    GiveUp,
    List,
    NodeExists,
    NoNode,
    Operation,
    PartitionInfo,
    Read,
    ReadEach,
    SessionExpired,
    StartFetchers,
    StopFetchers,
    TopicPartition,
    Write,
    Znode,
    ZooKeeperError,
)


@dataclass(frozen=True, slots=True)
class ConnectorConfig:
    """Kafka 0.8's consumer settings that membership needs; times in ms. ``threads``: topic -> streams."""

    group_id: str
    consumer_id: str
    threads: dict[str, int]
    rebalance_backoff_ms: int = 2_000
    rebalance_max_retries: int = 4
    auto_commit_enable: bool = True
    auto_commit_interval_ms: int = 60_000


class ConsumerMachine(ScriptMachine):
    """One consumer connector. The counts measure the cost of a change."""

    def __init__(self, config: ConnectorConfig, now_ms: int) -> None:
        super().__init__(self._life(), now_ms)
        self.config = config
        self.registry: dict[TopicPartition, PartitionInfo] = {}  # what it owns and reads
        self.rebalances = self.attempts = self.conflicts = 0
        self._committed: dict[TopicPartition, int] = {}
        self._commit_due_ms = now_ms + config.auto_commit_interval_ms
        self._connected = True
        self.is_expired = self._changed = self._closing = self._commit_wanted = False

    # -- what happens to it ---------------------------------------------------------------------------------------------

    def changed(self) -> None:
        """A watch fired: members, a topic's partitions, or brokers."""
        self._changed = True
        self.nudge()

    def suspended(self) -> None:
        """The connection is lost; the session may live on. What is read is read on, as ever."""
        self._connected = False

    def refuse(self, error: Exception) -> None:
        """As for any machine; after ConnectionLost no operation is requested until `connected`."""
        self._connected = self._connected and not isinstance(error, ConnectionLost)
        super().refuse(error)

    def connected(self) -> None:
        """There is a connection again, of the old session or, after `expired`, of a new one."""
        self._connected = True
        self.nudge()

    def expired(self) -> None:
        """The session has expired: all its nodes are deleted, and the partitions may have other owners."""
        self.is_expired = True
        self.nudge()

    def commit(self) -> None:
        """The user wants the consumed offsets committed now."""
        self._commit_wanted = True
        self.nudge()

    def close(self) -> None:
        """Commit if that is automatic, give everything back, and finish."""
        self._closing = True
        self.nudge()

    # -- its life -------------------------------------------------------------------------------------------------------

    def _life(self) -> Steps[None]:
        while not self._closing:
            self.is_expired = False
            try:
                yield from self._register()
                self._changed = True
                yield from self._serve()
            except SessionExpired:
                # Kafka forgets its registry and commits nothing: the partitions may have another owner by now.
                self.registry, self._committed = {}, {}
                yield StopFetchers()
            except ConnectionLost:
                break  # it is closing, and ZooKeeper does not respond
        yield from self._depart()

    def _register(self) -> Steps[None]:
        c = self.config
        path = paths.member(c.group_id, c.consumer_id)
        registration = paths.registration(c.threads, self.now_ms)
        while not self._closing:
            try:
                yield from self._perform(Create(path, registration))
                return
            except NodeExists:
                node: Znode | None = yield from self._perform(Read(path))
                if node is not None and node.mine:
                    return  # made by the request whose response was lost
                yield from self._pause(self.config.rebalance_backoff_ms)  # a former session's, about to go

    def _serve(self) -> Steps[None]:
        while not self._closing:
            if self._changed:
                yield from self._synced_rebalance()
            elif self._commit_due():
                yield from self._commit((yield ConsumedOffsets()))
                self._commit_due_ms = self.now_ms + self.config.auto_commit_interval_ms
                self._commit_wanted = False
            else:
                yield Wait(self._commit_due_ms if self.config.auto_commit_enable and self._connected else None)
            if self.is_expired:
                raise SessionExpired

    def _commit_due(self) -> bool:
        automatic = self.config.auto_commit_enable and self.now_ms >= self._commit_due_ms
        return self._connected and (automatic or self._commit_wanted)

    def _depart(self) -> Steps[None]:
        """In order: read records are committed before another consumer can own their partition."""
        consumed = yield StopFetchers()
        try:
            if self._connected and not self.is_expired:
                if self.config.auto_commit_enable or self._commit_wanted:
                    yield from self._commit(consumed)
                yield from self._release()
                yield from self._perform(Delete(paths.member(self.config.group_id, self.config.consumer_id)))
        except ZooKeeperError:
            return  # the session's end takes all of it away

    # -- a rebalance ----------------------------------------------------------------------------------------------------

    def _synced_rebalance(self) -> Steps[None]:
        """As many attempts as allowed. A change during it causes another one afterwards."""
        self.rebalances += 1
        self._changed = False
        why = (
            "partitions that it should read are still owned by others; rebalance.max.retries times "
            "rebalance.backoff.ms must exceed zookeeper.session.timeout.ms"
        )
        for _ in range(self.config.rebalance_max_retries):
            self.attempts += 1
            try:
                if (yield from self._rebalance()):
                    return
            except NoNode:
                pass  # a node was deleted between two reads; its deletion is a change as well
            except Corrupt as error:
                why = str(error)
            yield from self._stop_and_commit()
            yield from self._pause(self.config.rebalance_backoff_ms)
            if self._closing:
                return
        yield GiveUp(
            f"{self.config.consumer_id} can't rebalance after {self.config.rebalance_max_retries} retries: {why}"
        )

    def _rebalance(self) -> Steps[bool]:
        """The five steps; False where another consumer has not released its partitions yet."""
        if not (yield from self._perform(List(paths.BROKERS))):
            return bool((yield from self._wait_for_brokers()))
        yield from self._stop_and_commit()
        yield from self._release()
        mine = yield from self._assign()
        if not (yield from self._take(mine)):
            return False
        yield from self._start(mine)
        return True

    def _wait_for_brokers(self) -> Steps[bool]:
        """Without a broker: the first registration of one is the next change."""
        brokers = yield from self._perform(List(paths.BROKERS, watch=True))
        self._changed = self._changed or bool(brokers)
        return True

    def _stop_and_commit(self) -> Steps[None]:
        """Step 1. Fetchers stop before anything is released, or two consumers would read the same partition."""
        consumed = yield StopFetchers()
        if self.config.auto_commit_enable:
            yield from self._commit(consumed)

    def _release(self) -> Steps[None]:
        """Step 2."""
        for topic, partition in list(self.registry):
            with suppress(NoNode):
                yield from self._perform(Delete(paths.owner(self.config.group_id, topic, partition)))
            self.registry.pop((topic, partition), None)
            self._committed.pop((topic, partition), None)

    def _assign(self) -> Steps[dict[TopicPartition, str]]:
        """Step 3: our own share of each topic, partition -> thread. The reads leave watches: whatever changes from here
        on is a new rebalance."""
        group_id, me = self.config.group_id, self.config.consumer_id
        everyone = tuple((yield from self._perform(List(paths.members(group_id), watch=True))))
        nodes: list[str | None] = yield from self._perform(ReadEach(paths.members_of(group_id, everyone)))
        if None in nodes:
            raise NoNode
        subscriptions, threads = _subscribed(everyone, tuple(nodes))
        mine: dict[TopicPartition, str] = {}
        for topic, count in sorted(subscriptions.get(me, {}).items()):
            node = yield from self._perform(Read(paths.topic(topic), watch=True))
            partitions = paths.partitions_of(node.data) if node is not None else ()
            for thread in threads_of(me, count):
                mine |= {(topic, p): thread for p in share(partitions, threads[topic], thread)}
        return mine

    def _take(self, mine: dict[TopicPartition, str]) -> Steps[bool]:
        """Step 4: every owner's node, or none of them."""
        taken: list[str] = []
        for (topic, partition), thread in mine.items():
            path = paths.owner(self.config.group_id, topic, partition)
            if (yield from self._own(path, thread)):
                taken.append(path)
        if len(taken) == len(mine):
            return True
        self.conflicts += 1
        for path in taken:
            yield from self._perform(Delete(path))
        return False

    def _own(self, path: str, thread: str) -> Steps[bool]:
        try:
            yield from self._perform(Create(path, thread))
        except NodeExists:
            # Ours if a response was lost on the way; a former session's of ours is about to go and counts as another's.
            node: Znode | None = yield from self._perform(Read(path))
            return node is not None and node.mine and node.data == thread
        return True

    def _start(self, mine: dict[TopicPartition, str]) -> Steps[None]:
        """Step 5. The owner before us has committed before it released, so what is read now is the newest."""
        group_id = self.config.group_id
        where = tuple(paths.offset(group_id, topic, partition) for topic, partition in mine)
        for (topic, partition), thread in mine.items():  # owned already, whatever becomes of the read
            self.registry[topic, partition] = PartitionInfo(topic, partition, thread, INVALID_OFFSET)
        offsets: list[str | None] = (yield from self._perform(ReadEach(where))) if where else []
        for ((topic, partition), thread), node in zip(mine.items(), offsets, strict=True):
            offset = paths.offset_of(node) if node else INVALID_OFFSET
            self.registry[topic, partition] = PartitionInfo(topic, partition, thread, offset)
            self._committed[topic, partition] = offset
        yield StartFetchers(tuple(self.registry.values()))

    # -- offsets and waiting --------------------------------------------------------------------------------------------

    def _commit(self, consumed: dict[TopicPartition, int]) -> Steps[None]:
        """Only of what it owns, and only what moved."""
        for (topic, partition), offset in consumed.items():
            known = self._committed.get((topic, partition))
            if known is not None and offset not in (known, INVALID_OFFSET):
                yield from self._perform(Write(paths.offset(self.config.group_id, topic, partition), str(offset)))
                self._committed[topic, partition] = offset

    def _perform(self, operation: Operation) -> Steps[Any]:
        """Again when the connection is back, for as long as the session may live on."""
        while True:
            if self.is_expired:
                raise SessionExpired
            if not self._connected:
                if self._closing:
                    raise ConnectionLost
                yield Wait(None)
                continue
            with suppress(ConnectionLost):
                return (yield operation)

    def _pause(self, ms: int) -> Steps[None]:
        """Through changes, not through the end of the session."""
        until_ms = self.now_ms + ms
        while self.now_ms < until_ms and not self._closing:
            yield Wait(until_ms)
            if self.is_expired:
                raise SessionExpired


@lru_cache(maxsize=8)
def _subscribed(
    everyone: tuple[str, ...], nodes: tuple[str, ...]
) -> tuple[Mapping[str, Mapping[str, int]], Mapping[str, Sequence[str]]]:
    """Each consumer's subscription, and each topic's threads. In one process many may read the same (the laboratory)."""
    subscriptions = {consumer: paths.subscription_of(node) for consumer, node in zip(everyone, nodes, strict=True)}
    return subscriptions, threads_by_topic(subscriptions)
