"""The driver of the fetching machine (`consuming/fetching`) on an event loop: a task per request, a timer for pauses."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Coroutine, Iterable
from typing import Any

from coterie.client.connection.cluster import COORDINATOR, DATA, Cluster
from coterie.client.connection.connection import Connection
from coterie.client.errors import (
    CorruptBatchError,
    KafkaError,
    LogTruncationError,
    RecordDeserializationError,
    client_error,
    error_about,
)
from coterie.client.pauses.clock import jitter, now_ms
from coterie.client.pauses.retrying import backoff_of
from coterie.client.serialization import RecordDeserializers
from coterie.client.settings.settings import ClientSettings
from coterie.client.types import OffsetAndMetadata, PartitionLike, Record, TopicPartition
from coterie.consuming.effects import LogTruncated, PartitionFailed, RefreshMetadata, SendFetch, SendValidation
from coterie.consuming.fetching.fetching import Fetching
from coterie.consuming.fetching.position import UNKNOWN_EPOCH, VALIDATED_FROM, Position, Stored, Unreadable
from coterie.consuming.fetching.requests import FetchConfig
from coterie.wire import topic_names
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.logs.fetch import FetchResponse
from coterie.wire.messages.logs.offset_for_leader_epoch import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse

logger = logging.getLogger(__name__)


def fetch_config(settings: ClientSettings) -> FetchConfig:
    """The fetch settings of a consumer."""
    return FetchConfig(
        min_bytes=settings.fetch_min_bytes,
        max_bytes=settings.fetch_max_bytes,
        max_wait_ms=settings.fetch_max_wait_ms,
        max_partition_bytes=settings.max_partition_fetch_bytes,
        buffer_bytes=settings.fetch_max_bytes // 4,
        committed_only=settings.committed_only,
        check_crcs=settings.check_crcs,
        rack_id=settings.client_rack or "",
        backoff=backoff_of(settings),
        validates=True,
        has_reset_policy=settings.auto_offset_reset != "none",
        replica_max_age_ms=settings.metadata_max_age_ms,
    )


class Fetcher:
    """Reads the assigned partitions from their leaders. ``arrived`` is set with everything that a poll may wait for."""

    def __init__(self, cluster: Cluster, deserializers: RecordDeserializers) -> None:
        self._cluster = cluster
        self._deserialize = deserializers if deserializers else None
        self.machine = Fetching(fetch_config(cluster.settings), cluster.known)
        self.error: KafkaError | None = None
        self._out_of_range: TopicPartition | None = None  # of which ``error`` is
        self.arrived = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._turn: asyncio.Handle | None = None
        self._closed = False

    @property
    def positions(self) -> dict[TopicPartition, Position]:
        """The positions of the assigned partitions."""
        return self.machine.positions

    # -- what to read -------------------------------------------------------------------------------------------------

    def assign(self, partitions: Iterable[PartitionLike]) -> None:
        """Reads these and no others; a partition that stays keeps its position and its buffered records, a new one has none."""
        self.machine.assign([TopicPartition(*partition) for partition in partitions])
        self.wake()

    def subscribe(self, topics: frozenset[str] | None) -> None:
        """Partitions of other topics are not read any more; None: all are."""
        self.machine.subscribe(topics)
        self.wake()

    def drop(self, partitions: Iterable[TopicPartition]) -> None:
        """These are no longer read, and their positions are forgotten."""
        self.machine.drop(partitions)

    def seek(self, partition: TopicPartition, offset: int, epoch: int = UNKNOWN_EPOCH) -> None:
        """UNKNOWN makes the position be looked up again. ``epoch``: the leader epoch of the record before the offset."""
        self.machine.seek(TopicPartition(*partition), offset, epoch)
        if self._out_of_range == partition:
            self.error = self._out_of_range = None
        self.wake()

    # -- carrying effects out -----------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Has what is due carried out in the next turn of the loop: one request for all that is sought in this one."""
        if not self._closed and self._turn is None:
            self._turn = asyncio.get_running_loop().call_soon(self._proceed)

    def _proceed(self) -> None:
        self._turn = None
        if self._closed:
            return
        for effect in self.machine.next(now_ms()):
            match effect:
                case SendFetch():
                    self._start(self._send(effect))
                case RefreshMetadata():
                    self._start(self._refresh(effect))
                case SendValidation():
                    self._start(self._validate(effect))
                case PartitionFailed(partition, code):
                    self._partition_failed(partition, code)
                case LogTruncated():
                    self._truncated(effect)
        deadline_ms = self.machine.next_deadline_ms()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if deadline_ms is not None:
            delay_s = max(deadline_ms - now_ms(), 0) / 1000
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._proceed)

    def _partition_failed(self, partition: TopicPartition, code: ErrorCode) -> None:
        name, position = f"{partition.topic}-{partition.partition}", self.positions.get(partition)
        if code == ErrorCode.OFFSET_OUT_OF_RANGE and position is not None:
            text = f"the log of {name} has no offset {position.offset}, and auto.offset.reset is none"
            self._fail(KafkaError(code, text))
        else:
            self._fail(error_about(code, name))
        self._out_of_range = partition if code == ErrorCode.OFFSET_OUT_OF_RANGE else None

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send(self, sent: SendFetch) -> None:
        machine = self.machine
        try:
            connection = await self._cluster.connection(sent.node_id)
            highest = None if sent.by_id else topic_names.FETCH
            response = await connection.request(
                sent.request, FetchResponse, self._cluster.timeout_s + 1, highest=highest
            )
            arrived = machine.responded(sent, response, now_ms(), jitter())
        except Exception as raised:  # the next poll raises a bug, and the partitions are read on
            error = client_error(raised)
            if error.retriable:
                machine.failed(sent, error.code, now_ms(), jitter())
                self.wake()
            else:
                machine.refused(sent)
                self._fail(error)
            return
        if arrived:
            self.arrived.set()
        for topic in response.responses:
            name = topic.topic or next(iter(self._cluster.known.topic_names([topic.topic_id]).values()), "a topic")
            codes = [(partition.partition_index, partition.error_code) for partition in topic.partitions]
            self._cluster.waits.responded_each("records of", name, codes)
        self.wake()

    async def _validate(self, sent: SendValidation) -> None:
        machine, cluster = self.machine, self._cluster
        try:
            connection = await cluster.connection(sent.node_id)
            request = OffsetForLeaderEpochRequest
            if not connection.serves(request) or connection.version_of(request) < VALIDATED_FROM:
                machine.validation_unserved(sent)
            else:
                response = await connection.request(sent.request, OffsetForLeaderEpochResponse, cluster.timeout_s)
                if machine.validated(sent, response, now_ms(), jitter()):
                    self.arrived.set()
        except Exception as raised:
            error = client_error(raised)
            machine.validation_failed(sent, error.code, now_ms(), jitter())
            if not error.retriable:
                self._fail(error)
        self.wake()

    def _truncated(self, cut: LogTruncated) -> None:
        """Raised by poll where auto.offset.reset is none."""
        divergent = None
        if cut.divergent_offset >= 0:
            divergent = OffsetAndMetadata(cut.divergent_offset, cut.divergent_epoch)
        error = LogTruncationError(*cut.partition, cut.offset, divergent)
        if self.machine.config.has_reset_policy:
            logger.warning("%s; it is read again from there", error)
        else:
            self._fail(error)

    async def _refresh(self, refresh: RefreshMetadata) -> None:
        try:
            await self._cluster.refresh(refresh.topics)
        except Exception as raised:
            error = client_error(raised)
            if not error.retriable:  # else the machine continues with the leaders that are known
                self._fail(error)
        self.machine.metadata_refreshed(refresh, now_ms(), jitter())
        self.wake()

    def _fail(self, error: KafkaError) -> None:
        self.error, self._out_of_range = error, None
        self.arrived.set()

    # -- handing out --------------------------------------------------------------------------------------------------

    def raise_damage(self) -> None:
        """Raises CorruptBatchError, or RecordDeserializationError, where all records before the damage are handed out, as
        Java's consumer does with every poll until one seeks."""
        due = self.machine.damage_due()
        if due is not None:
            raise _error_of(*due).with_traceback(None)

    def take(self, limit: int) -> dict[TopicPartition, list[Record[Any, Any]]]:
        """Up to ``limit`` buffered records, by partition; positions move on past them."""
        polled = self.machine.take(limit, self._deserialize)
        self._taken()
        return polled

    def take_in_hand(self, partition: TopicPartition) -> Record[Any, Any] | None:
        """The next record of a partition, if it is decoded already and may be handed out."""
        return self.machine.take_in_hand(partition, self._deserialize)

    def take_batches(self, limit_bytes: int) -> dict[TopicPartition, tuple[int, list[Stored]]]:
        """Whole batches, with the position that each partition had."""
        polled = self.machine.take_batches(limit_bytes)
        self._taken()
        return polled

    def put_back(self, partition: TopicPartition, begin: int, batch: Stored, error: Exception) -> None:
        """A batch that was handed out whole, for a reader at ``begin``, turned out to be damaged: the position goes back to
        it."""
        self.machine.put_back(partition, begin, batch, error)

    def _taken(self) -> None:
        if self.machine.damage_due() is not None:
            self.arrived.set()
        self.wake()

    async def close(self, timeout_s: float) -> None:
        """Ends the tasks and the fetch sessions, and waits for that no longer than so."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        closing = [self._close_session(sent, timeout_s / 2) for sent in self.machine.close()]
        for task in self._tasks:
            task.cancel()
        ending = [*self._tasks, *map(asyncio.ensure_future, closing)]
        if ending:
            await asyncio.wait(ending, timeout=timeout_s)

    def _close_session(self, sent: SendFetch, timeout_s: float) -> Coroutine[Any, Any, None]:
        """On the coordinator's connection where there is one: on the other a fetch may wait for fetch.max.wait.ms, and then the
        response is not awaited."""
        connection = self._cluster.open_connection(sent.node_id, COORDINATOR)
        if connection is None:
            connection = self._cluster.open_connection(sent.node_id, DATA)
            if connection is not None and connection.is_waiting:
                timeout_s = 0
        return self._send_last(sent, connection, timeout_s)

    async def _send_last(self, sent: SendFetch, connection: Connection | None, timeout_s: float) -> None:
        if connection is None:
            return
        with contextlib.suppress(KafkaError, TimeoutError):
            async with asyncio.timeout(timeout_s):
                await connection.request(
                    sent.request, FetchResponse, self._cluster.timeout_s, highest=topic_names.FETCH
                )


def _error_of(partition: TopicPartition, damage: Unreadable) -> KafkaError:
    cause = damage.cause
    if isinstance(cause, RecordDeserializationError):
        return cause
    error = CorruptBatchError(*partition, damage.offset, max(damage.next_offset, damage.offset + 1), str(cause))
    error.__cause__ = cause
    return error
