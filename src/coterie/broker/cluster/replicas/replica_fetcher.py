"""Fetches what this broker's followers lack: one task and one connection for each leader (Kafka's ReplicaFetcherThread)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import TypeVar

from coterie.broker.cluster.peers.connections import PEER_FAILED, Address, Dial, PeerConnection, open_stream
from coterie.broker.cluster.replicas.replica_manager import ReplicaManager
from coterie.broker.cluster.settings import ClusterConfig
from coterie.broker.cluster.zookeeper.session import woken
from coterie.consuming.fetching.requests import FetchSession, WantedByReplica
from coterie.log.leader_epochs import EndOfEpoch
from coterie.replication.follower import Follower
from coterie.replication.replicas import Replica
from coterie.replication.states import EpochLookup, ReplicaError, ReplicaFetch, ReplicaFetched, TopicPartition
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.logs.fetch import FetchRequest, FetchResponse, PartitionData
from coterie.wire.messages.logs.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from coterie.wire.messages.logs.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderPartitionResult,
    OffsetForLeaderTopic,
)

logger = logging.getLogger(__name__)

EARLIEST, LATEST = -2, -1
UNKNOWN_END = -1  # Fetch does not say where the leader's log ends
FETCH_VERSION, END_OF_EPOCH_VERSION, LIST_OFFSETS_VERSION = 11, 3, 5  # inter.broker.protocol.version 2.6
M = TypeVar("M", bound=Message)
_REPLICA_ERRORS = {error.value: error for error in ReplicaError}


@dataclass(frozen=True, slots=True)
class _Sent:
    """A request of one follower, under way."""

    replica: Replica
    role: Follower
    request: EpochLookup | ReplicaFetch

    @property
    def is_current(self) -> bool:
        """Whether the replica has that role still: the log is no longer the follower's, where it leads."""
        return self.replica.role is self.role

    @property
    def is_under_way(self) -> bool:
        """Whether its response would still count."""
        return self.is_current and self.role.waits_for(self.request)


class ReplicaFetchers:
    """Call `wake` after each change of roles or addresses. ``address`` of a leader: None while it is unknown."""

    def __init__(
        self,
        config: ClusterConfig,
        manager: ReplicaManager,
        address: Callable[[int], Address | None],
        now_ms: Callable[[], int],
        dial: Dial = open_stream,
    ) -> None:
        self.config, self.manager, self.address, self.now_ms, self.dial = config, manager, address, now_ms, dial
        self._running: dict[int, tuple[_LeaderFetcher, asyncio.Task[None]]] = {}
        self._closed = False

    def wake(self) -> None:
        """Each leader with followers here has a fetcher. The connection to one that has none any more ends: its machine may be
        without power, and a fetch that waits there would hold up what it leads next (Kafka's shutdownIdleFetcherThreads)."""
        leaders = {leader for replica in self.manager.replicas.followers() if (leader := _leader_of(replica)) >= 0}
        for leader, (fetcher, _) in self._running.items():
            fetcher.woken.set()
            if leader not in leaders:
                fetcher.connection.close()
        for leader in () if self._closed else leaders - self._running.keys():
            fetcher = _LeaderFetcher(self, leader)
            self._running[leader] = fetcher, asyncio.get_running_loop().create_task(self._run(fetcher))

    async def _run(self, fetcher: _LeaderFetcher) -> None:
        try:
            await fetcher.run()
        except Exception:
            logger.exception("the fetcher for broker %d has failed; it begins again at the next change", fetcher.leader)
        finally:
            fetcher.connection.close()
            del self._running[fetcher.leader]

    async def close(self) -> None:
        """Ends all fetchers."""
        self._closed = True
        tasks = [task for _, task in self._running.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _wanted(one: _Sent) -> WantedByReplica:
    """The follower's log may begin elsewhere than when it was first requested: the leader is to know."""
    assert isinstance(one.request, ReplicaFetch)
    return one.request.fetch_offset, one.request.current_leader_epoch, one.replica.log.start_offset


def _leader_of(replica: Replica) -> int:
    role = replica.role
    return role.leader if isinstance(role, Follower) else -1


class _LeaderFetcher:
    """First where epochs end, then records, for all followers of the leader together, in a fetch session (KIP-227)."""

    def __init__(self, fetchers: ReplicaFetchers, leader: int) -> None:
        self._all, self.leader = fetchers, leader
        self._config, self._manager = fetchers.config, fetchers.manager
        self.connection = PeerConnection(
            f"broker-{self._config.broker_id}-fetcher-0", self._config.replica_socket_timeout_ms, fetchers.dial
        )
        self.woken = asyncio.Event()
        self.woken.set()
        self._known: list[Replica] = []
        self._rounds = 0
        self._session = FetchSession()
        self._fetching: dict[TopicPartition, _Sent] = {}  # in the session

    async def run(self) -> None:
        """Until the broker has no follower of the leader any more."""
        while followers := self._followers():
            sent = self._next_requests(followers)
            lookups = [one for one in sent if isinstance(one.request, EpochLookup)]
            if lookups:
                await self._look_up(lookups)
            self._fetching = {p: one for p, one in self._fetching.items() if one.is_under_way}
            self._fetching |= {one.replica.partition: one for one in sent if isinstance(one.request, ReplicaFetch)}
            if self._fetching:
                await self._fetch()
            elif not lookups:
                await woken(self.woken, _earliest(followers), self._all.now_ms())

    def _followers(self) -> list[Replica]:
        """As they are since the last change of roles."""
        if self.woken.is_set():
            self.woken.clear()
            self._known = [r for r in self._manager.replicas.followers() if _leader_of(r) == self.leader]
        return self._known

    def _next_requests(self, followers: list[Replica]) -> list[_Sent]:
        """Each round begins with another partition: a response may be full before it has come to the last one."""
        self._rounds += 1
        first, now_ms = self._rounds % len(followers), self._all.now_ms()
        sent = []
        for replica in followers[first:] + followers[:first]:
            role = replica.role
            if not isinstance(role, Follower) or role.leader != self.leader:
                self.woken.set()  # the list is out of date
                continue
            request = role.next_request(now_ms)
            if request is not None:
                sent.append(_Sent(replica, role, request))
        return sent

    async def _request(self, message: Message, response: type[M], version: int) -> M | None:
        """The response; None where none came."""
        address = self._all.address(self.leader)
        if address is None:
            return None
        try:
            return await self.connection.request(address, message, response, version)
        except PEER_FAILED as error:
            logger.debug("%s to broker %d: %r", type(message).__name__, self.leader, error)
            return None

    # -- where epochs end -----------------------------------------------------------------------------------------------

    async def _look_up(self, sent: list[_Sent]) -> None:
        epochs = {one.replica.partition: one.request for one in sent if isinstance(one.request, EpochLookup)}
        message = _epochs_request(self._config.broker_id, epochs)
        response = await self._request(message, OffsetForLeaderEpochResponse, END_OF_EPOCH_VERSION)
        ends: dict[TopicPartition, OffsetForLeaderPartitionResult] = {}
        for topic in () if response is None else response.topics:
            ends |= {(topic.topic, row.partition): row for row in topic.partitions}
        for one in sent:
            row = ends.get(one.replica.partition)
            if not one.is_current or self._is_refused(one, None if row is None else row.error_code):
                continue
            assert row is not None
            assert isinstance(one.request, EpochLookup)
            try:
                one.role.epoch_ended(one.request, EndOfEpoch(row.leader_epoch, row.end_offset))
            except Exception:
                self._rest(one)
            self._manager.show_high_watermark(one.replica)

    def _is_refused(self, one: _Sent, code: int | None) -> bool:
        """``code`` None: there was no response. An error that replicas do not know is passed over like none, until the back-off
        ends."""
        if code == 0:
            return False
        now_ms, error = self._all.now_ms(), None if code is None else _REPLICA_ERRORS.get(code)
        if error is None:
            one.role.failed(one.request, now_ms)
        else:
            one.role.refused(one.request, error, now_ms)
        return True

    # -- records --------------------------------------------------------------------------------------------------------

    async def _fetch(self) -> None:
        """The next fetch of the session; those of its partitions that the response does not name stay under way."""
        sent = self._fetching
        message = _fetch_request(self._config)
        self._session.fill(
            message, {p: _wanted(one) for p, one in sent.items()}, self._config.replica_fetch_max_bytes, {}
        )
        response = await self._request(message, FetchResponse, FETCH_VERSION)
        code = ErrorCode.NETWORK_EXCEPTION if response is None else self._session.responded(response)
        if self._session.is_lost(code):
            return  # the next one begins a session with all of them
        if response is None:
            self._session.reset()
        if response is None or code:
            rows: dict[TopicPartition, PartitionData | None] = dict.fromkeys(sent)
        else:
            rows = {(topic.topic, row.partition_index): row for topic in response.responses for row in topic.partitions}
        for partition, row in rows.items():
            one = sent.pop(partition)
            if row is None or row.error_code != ReplicaError.OFFSET_OUT_OF_RANGE.value:
                self._fetched(one, row)
            elif one.is_current:
                await self._find_ends(one)
                self._manager.show_high_watermark(one.replica)
        await self._synced(list(rows))

    async def _synced(self, partitions: list[TopicPartition]) -> None:
        """The next fetch tells the leader that this broker has what it appended: where flush.messages requires it, it is on the
        disk by then."""
        synced, left = asyncio.Event(), set[TopicPartition]()
        for partition in partitions:

            def done(partition: TopicPartition = partition) -> None:
                left.discard(partition)
                if not left:
                    synced.set()

            if self._manager.storage.after_sync(partition, done):
                left.add(partition)
        if left:
            await synced.wait()

    def _fetched(self, one: _Sent, row: PartitionData | None) -> None:
        if not one.is_current:
            return
        assert isinstance(one.request, ReplicaFetch)
        if not self._is_refused(one, None if row is None else row.error_code):
            assert row is not None
            try:
                one.role.fetched(one.request, _fetched(row))
            except Exception:
                self._rest(one)
        self._manager.show_high_watermark(one.replica)

    async def _find_ends(self, one: _Sent) -> None:
        """Where the leader's log begins and ends, by ListOffsets."""
        request, ends = one.request, list[int]()
        assert isinstance(request, ReplicaFetch)
        for timestamp in (EARLIEST, LATEST):
            message = _end_request(request, one.replica.partition, timestamp)
            response = await self._request(message, ListOffsetsResponse, LIST_OFFSETS_VERSION)
            row = None if response is None else response.topics[0].partitions[0]
            if not one.is_current or self._is_refused(one, None if row is None else row.error_code):
                return
            assert row is not None
            ends.append(row.offset)
        try:
            one.role.out_of_range(request, *ends)
        except Exception:
            self._rest(one)

    def _rest(self, one: _Sent) -> None:
        """What fails for one partition holds up no other: it is tried again after the back-off."""
        logger.exception("%s-%d cannot follow broker %d for now", *one.replica.partition, one.role.leader)
        one.role.rest_until(self._all.now_ms() + one.role.config.replica_fetch_backoff_ms)


def _earliest(followers: Iterable[Replica]) -> int | None:
    roles = (replica.role for replica in followers)
    due = (role.next_deadline_ms() for role in roles if isinstance(role, Follower))
    return min((ms for ms in due if ms is not None), default=None)


def _by_topic(partitions: Iterable[TopicPartition]) -> Iterable[tuple[str, list[int]]]:
    """Neighbours of one topic together, in the order given."""
    for topic, rows in groupby(partitions, lambda partition: partition[0]):
        yield topic, [number for _, number in rows]


def _epochs_request(broker_id: int, lookups: Mapping[TopicPartition, EpochLookup]) -> OffsetForLeaderEpochRequest:
    """OffsetForLeaderEpoch: where the epochs of several partitions end."""
    topics = [
        OffsetForLeaderTopic(topic, [_lookup(number, lookups[topic, number]) for number in numbers])
        for topic, numbers in _by_topic(lookups)
    ]
    return OffsetForLeaderEpochRequest(broker_id, topics)


def _lookup(number: int, lookup: EpochLookup) -> OffsetForLeaderPartition:
    return OffsetForLeaderPartition(number, lookup.current_leader_epoch, lookup.epoch)


def _fetch_request(config: ClusterConfig) -> FetchRequest:
    """Fetch, whose partitions are to be filled in by its session."""
    return FetchRequest(
        replica_id=config.broker_id,
        max_wait_ms=config.replica_fetch_wait_max_ms,
        min_bytes=config.replica_fetch_min_bytes,
        max_bytes=config.replica_fetch_response_max_bytes,
    )


def _fetched(row: PartitionData) -> ReplicaFetched:
    """The leader's response for one partition; batches are bytes."""
    batches = [row.records] if row.records else []
    return ReplicaFetched(batches, row.high_watermark, row.log_start_offset, UNKNOWN_END)


def _end_request(request: ReplicaFetch, partition: TopicPartition, timestamp: int) -> ListOffsetsRequest:
    """ListOffsets: the EARLIEST or LATEST offset."""
    topic, number = partition
    wanted = ListOffsetsPartition(number, request.current_leader_epoch, timestamp)
    return ListOffsetsRequest(request.replica_id, topics=[ListOffsetsTopic(topic, [wanted])])
