"""The share consumer: a member machine and a sharing machine driven by asyncio (Kafka's KafkaShareConsumer).

Acknowledgement-commit callbacks run in the task that polls, commits or closes; heartbeats go out from a task of their own, and
from a thread while user code holds the loop. Not for use by two tasks at once: that raises RuntimeError.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from typing import Any, Generic, cast

from coterie.client import arguments
from coterie.client.connection.cluster import Cluster
from coterie.client.errors import (
    AcquiredRecordError,
    ConfigError,
    KafkaError,
    RecordDeserializationError,
    WakeupError,
    error_about,
)
from coterie.client.serialization import DeserializerLike, RecordDeserializers, deserialize_function
from coterie.client.settings.typed import ShareConsumerSettings
from coterie.client.share.membership import ShareMembership, share_member_config, share_settings
from coterie.client.share.sharer import Sharer, share_config
from coterie.client.types import K, TopicPartition, V
from coterie.consuming.record import ShareRecord
from coterie.consuming.sharing.acknowledgements import Acknowledgements, AcknowledgeType
from coterie.consuming.sharing.in_hand import RecordsInHand
from coterie.wire.errors import ErrorCode

logger = logging.getLogger(__name__)

END_S = 1.0  # in which cancelled tasks must end
TURN_S = 0.1
CommitCallback = Callable[[dict[TopicPartition, set[int]], KafkaError | None], object]
Results = dict[TopicPartition, KafkaError | None]


class ShareConsumer(Generic[K, V]):
    """A member of the share group ``group.id`` (KIP-932, Apache Kafka 4.2): its members read the same partitions; each record
    is acquired by one of them for a limited time, and delivered again unless it is acknowledged. Settings by Kafka's names, as
    of `Consumer`; ``share.acknowledgement.mode`` is implicit or explicit. Raises ConfigError for settings it cannot work
    with."""

    def __init__(
        self,
        settings: ShareConsumerSettings | Mapping[str, Any],
        *,
        key_deserializer: DeserializerLike[K] | None = None,
        value_deserializer: DeserializerLike[V] | None = None,
    ) -> None:
        self.settings = share_settings(settings)
        self._group_id = self.settings.group_id or ""
        deserializers = RecordDeserializers(
            deserialize_function(key_deserializer, self.settings.key_deserializer, "key_deserializer"),
            deserialize_function(value_deserializer, self.settings.value_deserializer, "value_deserializer"),
        )
        self._deserialize = cast(Any, deserializers) if deserializers else None
        self._explicit = self.settings.share_acknowledgement_mode == "explicit"
        self._cluster = Cluster(self.settings)
        self._member = share_member_config(self.settings, self._group_id)
        self._sharer = Sharer(self._cluster, share_config(self.settings, self._group_id, self._member.member_id))
        self._delivered = RecordsInHand()
        self._membership: ShareMembership | None = None
        self._callback: CommitCallback | None = None
        self._unread: deque[ShareRecord[K, V]] = deque()  # of the last poll, that an iteration has not returned
        self._consumed = 0
        self._closed = self._running = self._woken = self._in_callback = False
        self._turn_due_s = 0.0

    async def __aenter__(self) -> ShareConsumer[K, V]:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # -- what to read -------------------------------------------------------------------------------------------------

    def subscribe(self, topics: Iterable[str]) -> None:
        """Joins the share group, or changes the subscription; names alone, since a share group matches no patterns. Raises
        ConfigError, TypeError, ValueError; RuntimeError after `close`."""
        self._require_open()
        if isinstance(topics, str):
            raise ConfigError(f"subscribe takes a list of topics, not the string {topics!r}")
        names = arguments.subscribed_topics(topics)
        if self._membership is None:
            sharer = self._sharer
            self._membership = ShareMembership(self._cluster, self._member, sharer.assign, sharer.arrived.set)
        self._membership.subscribe(names)

    def subscription(self) -> set[str]:
        """The topics subscribed to."""
        return set() if self._membership is None else set(self._membership.machine.topics)

    def assignment(self) -> set[TopicPartition]:
        """The partitions of which records are acquired now; other members may have the same."""
        owned = () if self._membership is None else self._membership.machine.owned
        return {TopicPartition(*partition) for partition in owned}

    async def unsubscribe(self) -> None:
        """Leaves the group; records in hand may still be acknowledged, until their acquisition lock times out."""
        self._require_open()
        await self._leave(self._cluster.timeout_s)
        self._sharer.assign(())

    # -- polling ------------------------------------------------------------------------------------------------------

    async def poll(self, timeout_ms: float = 0) -> dict[TopicPartition, list[ShareRecord[K, V]]]:
        """Acquired records by partition, max.poll.records or, with share.acquire.mode=batch_optimized, the rest of the batch
        that they end in; empty when none came in time. In implicit mode it accepts the records of the poll before. Raises
        KafkaError, WakeupError, what the acknowledgement-commit callback raised; AcquiredRecordError for records that cannot be
        read; RuntimeError in explicit mode where a record of the poll before is not acknowledged."""
        deadline_s = time.monotonic() + arguments.milliseconds(timeout_ms) / 1000
        self._require_open()
        if self._membership is None:
            raise ConfigError("poll needs a subscription; call subscribe first")
        if self._running:
            raise RuntimeError("two tasks use this consumer at once; give each its own")
        self._running = True
        try:
            self._report_ended()
            missing = self._delivered.unacknowledged() if self._explicit else []
            if missing:
                topic, partition, offset = missing[0][:3]
                raise RuntimeError(
                    f"{len(missing)} records of the last poll are not acknowledged, first {topic}-{partition} at offset "
                    f"{offset}: call acknowledge for each, or set share.acknowledgement.mode=implicit"
                )
            return await self._next_records(deadline_s)
        finally:
            self._running = False

    async def _next_records(self, deadline_s: float) -> dict[TopicPartition, list[ShareRecord[K, V]]]:
        sharer, delivered = self._sharer, self._delivered
        acknowledged: list[Acknowledgements] | None = None
        if time.monotonic() >= self._turn_due_s:
            await asyncio.sleep(0)  # or user code that never awaits would keep heartbeats waiting
        while True:
            sharer.arrived.clear()  # before looking, so that nothing which comes meanwhile is missed
            self._require_open()
            self._raise_due()
            self._report_ended()
            if acknowledged is None:  # once nothing is raised any more: what a poll raises leaves the records in hand
                acknowledged = self._take_acknowledged()
            delivered.take(sharer.buffered(), self.settings.max_poll_records, self._deserialize)
            if delivered.has_records or delivered.is_damaged:
                sharer.commit(acknowledged, self.settings.default_api_timeout_ms)
            else:
                sharer.want(acknowledged + delivered.take_acknowledged())
            acknowledged = []
            if delivered.is_damaged:
                self._raise_damage()
            polled = delivered.records()
            left_s = deadline_s - time.monotonic()
            if polled or left_s <= 0:
                await asyncio.sleep(0)  # the requests go out
                self._turn_due_s = time.monotonic() + TURN_S
                self._consumed += sum(map(len, polled.values()))
                return polled
            try:
                async with asyncio.timeout(left_s):
                    await sharer.arrived.wait()
            except TimeoutError:
                continue

    def _raise_damage(self) -> None:
        partition, delivery = self._delivered.take_damage()
        why = delivery.damage
        assert why is not None
        if isinstance(why, RecordDeserializationError) and isinstance(why.__cause__, Exception):
            why = why.__cause__
        raise AcquiredRecordError(partition.topic, partition.partition, delivery.damaged, why)

    def _raise_due(self) -> None:
        if self._woken:
            self._woken = False
            raise WakeupError
        membership = self._membership
        if membership is not None:
            membership.polled()
            if membership.failure is not None:
                raise membership.failure
            if membership.complaint is not None:
                complaint, membership.complaint = membership.complaint, None
                raise complaint
        if self._sharer.machine.errors:
            where, code, message = self._sharer.machine.errors.popleft()
            raise KafkaError(code, message) if where is None else error_about(code, f"{where.topic}-{where.partition}")

    def wakeup(self) -> None:
        """Ends the poll under way, or the next one, with WakeupError."""
        self._woken = True
        self._sharer.arrived.set()

    async def __aiter__(self) -> AsyncIterator[ShareRecord[K, V]]:
        """Records one after the other, without an end; raises as `poll` does. Records of a poll that an iteration has not
        returned come first in the next one; a `poll` or `commit` in implicit mode releases them."""
        while True:
            while self._unread:
                yield self._unread.popleft()
            polled = await self.poll(1000)
            self._unread.extend(record for records in polled.values() for record in records)

    # -- acknowledgements ---------------------------------------------------------------------------------------------

    def acknowledge(
        self, record: ShareRecord[Any, Any] | tuple[str, int, int], type: AcknowledgeType = AcknowledgeType.ACCEPT
    ) -> None:
        """Says what becomes of a record of the last poll, or of a tuple ``(topic, partition, offset)``; the next poll or commit
        sends it. Raises RuntimeError in implicit mode, LookupError for a record that is not in hand, TypeError."""
        self._require_open()
        if not self._explicit:
            raise RuntimeError(
                "acknowledge needs share.acknowledgement.mode=explicit; in implicit mode the next poll or commit accepts"
            )
        if not isinstance(type, AcknowledgeType):
            raise TypeError(f"type must be an AcknowledgeType, not {type!r}")
        if not isinstance(record, tuple) or len(record) < 3:
            raise TypeError(f"a record is a ShareRecord or a tuple (topic, partition, offset), not {record!r}")
        topic, partition, offset = record[:3]
        self._delivered.acknowledge(TopicPartition(topic, partition), offset, type)

    async def commit(self, timeout_ms: float | None = None) -> Results:
        """Sends what is acknowledged, in implicit mode by this call, and waits for it, default.api.timeout.ms at most: by
        partition None, or the error for which the broker did not take it. Raises what the callback raised."""
        self._require_open()
        default_ms = self.settings.default_api_timeout_ms
        limit_ms = default_ms if timeout_ms is None else arguments.milliseconds(timeout_ms)
        self._report_ended()
        results = await self._committed(limit_ms)
        self._report_ended()
        return results

    def commit_async(self) -> asyncio.Task[Results]:
        """As `commit`, without a wait; the results go to the callback with the next call, and to the task."""
        self._require_open()
        return asyncio.get_running_loop().create_task(self._committed(self.settings.default_api_timeout_ms))

    def _committed(self, limit_ms: float) -> Coroutine[Any, Any, Results]:
        """The acknowledgements are those of now, also where the results are awaited later."""
        acknowledged = self._take_acknowledged()
        return self._results(acknowledged, self._sharer.commit(acknowledged, limit_ms), limit_ms / 1000)

    async def _results(
        self, acknowledged: list[Acknowledgements], ends: list[asyncio.Future[None]], limit_s: float
    ) -> Results:
        if ends:
            await asyncio.wait(ends, timeout=limit_s)
        return {each.partition.named: _error_of(each) for each in acknowledged}

    def set_acknowledgement_commit_callback(self, callback: CommitCallback | None) -> None:
        """``callback(offsets by partition, error or None)`` is called once for each partition of acknowledgements that have
        ended, by the next poll, commit or close; it may not call the consumer. None: by none. Raises TypeError."""
        self._require_open()
        if callback is not None and not callable(callback):
            raise TypeError(f"callback must be a function of (offsets, error), not {callback!r}")
        self._callback = callback
        if callback is None:
            self._report_ended()

    def acquisition_lock_timeout_ms(self) -> int | None:
        """For how long the broker keeps records acquired for this member, after a renewal from then on; None before the first
        records. A record that is not acknowledged by then is delivered again."""
        self._require_open()
        return self._delivered.lock_timeout_ms

    def _take_acknowledged(self) -> list[Acknowledgements]:
        """What is acknowledged and not sent yet; in implicit mode all records in hand; the ones that an
        iteration has not returned are released."""
        if not self._explicit:
            for record in self._unread:
                where = TopicPartition(record.topic, record.partition)
                with contextlib.suppress(LookupError):
                    self._delivered.acknowledge(where, record.offset, AcknowledgeType.RELEASE)
            self._delivered.acknowledge_all(AcknowledgeType.ACCEPT)
            self._unread.clear()
        return self._delivered.take_acknowledged()

    def _report_ended(self) -> None:
        """Renewed records come back, and the callback hears of each partition; raises the first error once all are reported."""
        ended, self._sharer.completed = self._sharer.completed, []
        self._delivered.ended(ended)
        first: Exception | None = None
        callback = self._callback
        for each in ended if callback is not None else ():
            self._in_callback = True
            try:
                assert callback is not None
                callback({each.partition.named: set(each.types)}, _error_of(each))
            except Exception as error:
                first = first or error
            finally:
                self._in_callback = False
        if first is not None:
            raise first

    # -- metrics and the end ------------------------------------------------------------------------------------------

    def metrics(self) -> dict[str, float]:
        """Counts since the start; safe to call from any thread."""
        counts: dict[str, float] = {"records_consumed": self._consumed, **self._sharer.counts}
        return counts if self._membership is None else counts | self._membership.counts

    def _require_open(self) -> None:
        """Raises RuntimeError after `close`, within the callback, and once the event loop is closed."""
        if self._closed:
            raise RuntimeError("this share consumer is closed; make a new one")
        if self._in_callback:
            raise RuntimeError(
                "the acknowledgement-commit callback cannot call its share consumer; call it after the poll"
            )
        self._cluster.require_loop()

    async def _leave(self, timeout_s: float) -> None:
        if self._membership is not None:
            membership, self._membership = self._membership, None
            membership.prepare_leave()
            await membership.leave("", timeout_s)

    async def close(self, timeout_ms: float = 30_000) -> None:
        """Sends what is acknowledged, releases all other records in hand, leaves the group and closes; takes no longer than
        that, and END_S beyond. In implicit mode the records of the last poll are released: `commit` accepts them before.
        Raises TypeError, ValueError, and what the callback raised."""
        limit_s = min(arguments.milliseconds(timeout_ms) / 1000, self._cluster.timeout_s)
        if self._closed:
            return
        self._closed = True
        if self._cluster.has_lost_loop:
            logger.warning("the share consumer's event loop was closed before it; its records wait for their time-out")
            if self._membership is not None:
                self._membership.abandon()
            self._cluster.close()
            return
        self._sharer.arrived.set()  # a poll under way ends
        try:
            await self._sharer.close(self._delivered.take_acknowledged(), limit_s)
            async with asyncio.timeout(limit_s + END_S / 2):
                await self._leave(limit_s)
        except TimeoutError:
            logger.warning("the share consumer did not leave its group within %g s", limit_s)
        finally:
            self._cluster.close()
            self._report_ended()


def _error_of(ended: Acknowledgements) -> KafkaError | None:
    """For which the broker did not take them; REQUEST_TIMED_OUT where the end is unknown."""
    code = ErrorCode.REQUEST_TIMED_OUT if ended.code is None else ended.code
    if not code:
        return None
    topic, partition = ended.partition.named
    return KafkaError(code, ended.message) if ended.message else error_about(code, f"{topic}-{partition}")
