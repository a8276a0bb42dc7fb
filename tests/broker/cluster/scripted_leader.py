"""A follower's fetchers and their leader, on one loop without sockets: a test sees each request before the leader does, and may
alter the response. The logs are those of brokers, on disks in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, ClassVar
from unittest.mock import patch

from coterie.broker.cluster.cluster_view import ClusterView
from coterie.broker.cluster.peers.connections import Address
from coterie.broker.cluster.replicas import replica_fetcher
from coterie.broker.cluster.replicas.follower_fetches import FollowerFetches
from coterie.broker.cluster.replicas.replica_fetcher import ReplicaFetchers
from coterie.broker.cluster.replicas.replica_manager import ReplicaManager
from coterie.broker.cluster.settings import ClusterConfig
from coterie.broker.requests.fetch_sessions import FetchSessions
from coterie.broker.requests.pending import Pending
from coterie.log.config import LogConfig
from coterie.log.filesystem import MemoryFileSystem
from coterie.log.follower_log import append_as_follower, start_anew_at
from coterie.log.partition_log import PartitionLog
from coterie.records.batch import batches, read_header, stamp
from coterie.records.encoding import encode_batch
from coterie.replication.follower import Follower
from coterie.replication.replicas import Replica
from coterie.replication.states import PartitionState, ReplicaLog, ReplicationConfig, StoppedReplica, TopicPartition
from coterie.replication.stored_log import StoredReplicaLog
from coterie.wire.declaration import Message
from coterie.wire.messages.logs.fetch import FetchRequest
from coterie.wire.messages.logs.list_offsets import ListOffsetsRequest
from coterie.wire.messages.logs.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from tests.async_tests import AsyncTest, run_by
from tests.awaiting import quiet

LEADER, FOLLOWER = 1, 2
BACKOFF_MS = 100
CONFIG = ClusterConfig(
    FOLLOWER,
    replication=ReplicationConfig(1, 10_000, BACKOFF_MS),
    replica_fetch_wait_max_ms=0,
    replica_fetch_max_bytes=1,
)
T0: TopicPartition = ("orders", 0)
Change = Callable[[Any], object]
Held = Mapping[TopicPartition, Sequence[bytes]]
NOTHING: Held = {}


def batch(offset: int, epoch: int, records: int = 1) -> bytes:
    """As a leader of that epoch stores it."""
    data = bytearray(encode_batch([(0, None, b"%d" % offset, ())] * records))
    stamp(data, 0, offset, epoch)
    return bytes(data)


def log(*epochs: int) -> list[bytes]:
    """A record in each of the epochs."""
    return [batch(offset, epoch) for offset, epoch in enumerate(epochs)]


class Logs:
    """A `ReplicaStorage`. ``high_watermarks``: those of the checkpoint file."""

    def __init__(self) -> None:
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.high_watermarks: dict[TopicPartition, int] = {}

    def hold(self, partition: TopicPartition, data: Sequence[bytes]) -> PartitionLog:
        log = PartitionLog.open(MemoryFileSystem(), "t", LogConfig(), clean=True, high_watermark=0)
        if data:
            start_anew_at(log, read_header(data[0]).base_offset)
        append_as_follower(log, b"".join(data), 0)
        self.logs[partition] = log
        return log

    def open_log(self, partition: TopicPartition) -> tuple[ReplicaLog, int]:
        log = self.logs.get(partition) or self.hold(partition, [])
        high_watermark = self.high_watermarks.get(partition, 0)
        return StoredReplicaLog(log, high_watermark, lambda: 0), high_watermark

    def roles_changed(self, replicas: Sequence[Replica]) -> None: ...

    def high_watermark_moved(self, partition: TopicPartition, high_watermark: int) -> None: ...

    def after_sync(self, partition: TopicPartition, then: Callable[[], None]) -> bool:
        return False

    def remove_log(self, partition: TopicPartition) -> None: ...

    def save_high_watermarks(self) -> None: ...


def stored(log: PartitionLog) -> list[tuple[int, int]]:
    """Offset and leader epoch of each batch."""
    data = b"".join(segment.file.read(0, segment.size) for segment in log.segments)
    return [(header.base_offset, header.leader_epoch) for _, header in batches(data)]


@dataclass
class Sent:
    """A request of the fetcher, whose response it waits for."""

    message: Message
    version: int
    response: asyncio.Future[Message]

    def partitions(self) -> list[TopicPartition]:
        rows: list[TopicPartition] = []
        for topic in self.message.topics:  # type: ignore[attr-defined]
            name = getattr(topic, "topic", "") or topic.name
            rows += [
                (name, row.partition if hasattr(row, "partition") else row.partition_index) for row in topic.partitions
            ]
        return rows


class FetchersConnection:
    """In the place of a `PeerConnection` to the leader."""

    sent: ClassVar[asyncio.Queue[Sent]]
    closes: ClassVar[list[Callable[[], None]]]

    def __init__(self, client_id: str, timeout_ms: int, dial: object) -> None: ...

    async def request(self, address: Address, message: Message, response: type[Message], version: int) -> Message:
        sent = Sent(message, version, asyncio.get_running_loop().create_future())
        self.sent.put_nowait(sent)
        return await sent.response

    def close(self) -> None:
        for closing in self.closes:
            closing()


@dataclass
class FollowerAndLeader:
    """``follower``, ``leader``: the replicas of two brokers. The clock moves by `pass_ms`."""

    follower_logs: Logs = field(default_factory=Logs)
    leader_logs: Logs = field(default_factory=Logs)
    now_ms: int = 1_000_000
    versions: dict[type[Message], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        FetchersConnection.sent, FetchersConnection.closes = asyncio.Queue(), []
        self.leader = ReplicaManager(LEADER, CONFIG.replication, self.leader_logs, lambda: self.now_ms)
        self.follower = ReplicaManager(FOLLOWER, CONFIG.replication, self.follower_logs, lambda: self.now_ms)
        self.leader.write_isr = self.follower.write_isr = lambda effect: None
        for manager in (self.leader, self.follower):
            manager.registered(1)
        view, ids = ClusterView(LEADER, is_alone=False), count(1)
        self.sessions = FetchSessions(1, lambda: next(ids))
        self._responses = FollowerFetches(self.leader, view, asyncio.get_running_loop(), self.sessions)
        self.fetchers = ReplicaFetchers(CONFIG, self.follower, lambda _: ("leader", 9092), lambda: self.now_ms)

    # -- what the controller decides ------------------------------------------------------------------------------------

    def led_in(self, epoch: int, partition: TopicPartition = T0) -> None:
        """Only the leader hears of it."""
        self._decide(self.leader, partition, LEADER, epoch)

    def follows_in(self, epoch: int, *partitions: TopicPartition) -> None:
        """Only the follower hears of it."""
        for partition in partitions or (T0,):
            self._decide(self.follower, partition, LEADER, epoch)

    def follower_leads(self, epoch: int, partition: TopicPartition = T0) -> None:
        self._decide(self.follower, partition, FOLLOWER, epoch)

    def _decide(self, manager: ReplicaManager, partition: TopicPartition, leader: int, epoch: int) -> None:
        state = PartitionState(leader, epoch, (LEADER, FOLLOWER), 1, epoch, (LEADER, FOLLOWER))
        manager.leader_and_isr(1, 1, {partition: state})
        self.fetchers.wake()

    def stopped(self, partition: TopicPartition = T0) -> None:
        """The follower has no such replica any more."""
        self.follower.stop_replicas(1, 1, {partition: StoppedReplica(-1)})
        self.fetchers.wake()

    # -- what the fetcher requests --------------------------------------------------------------------------------------

    async def next(self, kind: type[Message]) -> Sent:
        """The fetcher's next request, which must be of that kind."""
        await quiet()
        assert not FetchersConnection.sent.empty(), f"no {kind.__name__}"
        sent = FetchersConnection.sent.get_nowait()
        assert isinstance(sent.message, kind), sent.message
        self.versions[kind] = sent.version
        return sent

    async def respond(self, sent: Sent, change: Change = lambda response: None) -> None:
        """As the leader does, or as ``change`` alters its response; returns when the follower has it."""
        message = sent.message
        response: object
        if isinstance(message, FetchRequest):
            response = self._responses.fetch(message)
            assert not isinstance(response, Pending)
        elif isinstance(message, ListOffsetsRequest):
            response = self._responses.ends_of_logs(message)
        else:
            assert isinstance(message, OffsetForLeaderEpochRequest)
            response = self._responses.end_of_epochs(message)
        change(response)
        assert isinstance(response, Message)
        sent.response.set_result(response)
        await quiet()

    async def exchange(self, *kinds: type[Message]) -> Sent:
        """Requests of these kinds, each with the leader's own response; returns the last."""
        for kind in kinds:
            sent = await self.next(kind)
            await self.respond(sent)
        return sent

    async def nothing_is_requested(self) -> None:
        """Now, and after the back-off."""
        await quiet()
        self.pass_ms(60_000)
        await quiet()
        assert FetchersConnection.sent.empty()

    def pass_ms(self, ms: int) -> None:
        self.now_ms += ms
        self.fetchers.wake()

    def hold(self, follower: Held, leader: Held) -> None:
        """Their logs have these batches."""
        for logs, held in ((self.follower_logs, follower), (self.leader_logs, leader)):
            for partition, data in held.items():
                logs.hold(partition, data)

    # -- what the follower is -------------------------------------------------------------------------------------------

    def log(self, partition: TopicPartition = T0) -> PartitionLog:
        return self.follower_logs.logs[partition]

    def role(self, partition: TopicPartition = T0) -> Follower:
        role = self.follower.replicas.partitions[partition].role
        assert isinstance(role, Follower)
        return role

    async def until_equal(self) -> None:
        """Fetches until the follower's log is the leader's and its high watermark as well."""
        leaders = self.leader_logs.logs[T0]

        def differing() -> bool:
            return stored(self.log()) != stored(leaders) or self.role().high_watermark != leaders.end_offset

        while differing():
            await self.exchange(FetchRequest)
        assert self.log().log_start_offset == leaders.log_start_offset
        assert leaders.high_watermark == leaders.end_offset


def play(follower: Held = NOTHING, leader: Held = NOTHING) -> Callable[[AsyncTest], Callable[..., None]]:
    """Decorates a test with what the follower's and the leader's logs hold; there are no roles yet."""

    async def run(test: AsyncTest) -> None:
        both = FollowerAndLeader()
        both.hold(follower, leader)
        try:
            with patch.object(replica_fetcher, "PeerConnection", FetchersConnection):
                await test(both)
        finally:
            await both.fetchers.close()

    return run_by(lambda test: asyncio.run(run(test)))
