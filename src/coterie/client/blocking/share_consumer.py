"""BlockingShareConsumer: written by tests/client/blocking_source.py from `coterie.client.ShareConsumer`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from typing import Any, Generic

from coterie.client.blocking.thread import BlockingClient
from coterie.client.serialization import DeserializerLike
from coterie.client.settings.typed import ShareConsumerSettings
from coterie.client.share.consumer import CommitCallback, Results, ShareConsumer
from coterie.client.types import K, TopicPartition, V
from coterie.consuming.record import ShareRecord
from coterie.consuming.sharing.acknowledgements import AcknowledgeType


class BlockingShareConsumer(BlockingClient[ShareConsumer[K, V]], Generic[K, V]):
    """`coterie.client.ShareConsumer` for programs without asyncio. The acknowledgement-commit callback runs on the
    client's own thread."""

    def __init__(
        self,
        settings: ShareConsumerSettings | Mapping[str, Any],
        *,
        key_deserializer: DeserializerLike[K] | None = None,
        value_deserializer: DeserializerLike[V] | None = None,
    ) -> None:
        super().__init__(
            lambda: ShareConsumer(settings, key_deserializer=key_deserializer, value_deserializer=value_deserializer)
        )

    def __iter__(self) -> Iterator[ShareRecord[K, V]]:
        """Records one after the other, as of `coterie.client.ShareConsumer`. Raises as `poll` does."""
        records = aiter(self._client)
        while True:
            yield self._await(anext, records)

    def commit_async(self) -> Future[Results]:
        """As `coterie.client.ShareConsumer.commit_async`; the future has the results."""
        return self._future(self._client.commit_async)

    def subscribe(self, topics: Iterable[str]) -> None:
        """Joins the share group, or changes the subscription; names alone, since a share group matches no patterns. Raises
        ConfigError, TypeError, ValueError; RuntimeError after `close`."""
        self._call(self._client.subscribe, topics)

    def subscription(self) -> set[str]:
        """The topics subscribed to."""
        return self._call(self._client.subscription)

    def assignment(self) -> set[TopicPartition]:
        """The partitions of which records are acquired now; other members may have the same."""
        return self._call(self._client.assignment)

    def unsubscribe(self) -> None:
        """Leaves the group; records in hand may still be acknowledged, until their acquisition lock times out."""
        self._await(self._client.unsubscribe)

    def poll(self, timeout_ms: float = 0) -> dict[TopicPartition, list[ShareRecord[K, V]]]:
        """Acquired records by partition, max.poll.records or, with share.acquire.mode=batch_optimized, the rest of the batch
        that they end in; empty when none came in time. In implicit mode it accepts the records of the poll before. Raises
        KafkaError, WakeupError, what the acknowledgement-commit callback raised; AcquiredRecordError for records that cannot be
        read; RuntimeError in explicit mode where a record of the poll before is not acknowledged."""
        return self._await(self._client.poll, timeout_ms)

    def wakeup(self) -> None:
        """Ends the poll under way, or the next one, with WakeupError."""
        self._call(self._client.wakeup)

    def acknowledge(
        self, record: ShareRecord[Any, Any] | tuple[str, int, int], type: AcknowledgeType = AcknowledgeType.ACCEPT
    ) -> None:
        """Says what becomes of a record of the last poll, or of a tuple ``(topic, partition, offset)``; the next poll or commit
        sends it. Raises RuntimeError in implicit mode, LookupError for a record that is not in hand, TypeError."""
        self._call(self._client.acknowledge, record, type)

    def commit(self, timeout_ms: float | None = None) -> Results:
        """Sends what is acknowledged, in implicit mode by this call, and waits for it, default.api.timeout.ms at most: by
        partition None, or the error for which the broker did not take it. Raises what the callback raised."""
        return self._await(self._client.commit, timeout_ms)

    def set_acknowledgement_commit_callback(self, callback: CommitCallback | None) -> None:
        """``callback(offsets by partition, error or None)`` is called once for each partition of acknowledgements that have
        ended, by the next poll, commit or close; it may not call the consumer. None: by none. Raises TypeError."""
        self._call(self._client.set_acknowledgement_commit_callback, callback)

    def acquisition_lock_timeout_ms(self) -> int | None:
        """For how long the broker keeps records acquired for this member, after a renewal from then on; None before the first
        records. A record that is not acknowledged by then is delivered again."""
        return self._call(self._client.acquisition_lock_timeout_ms)

    def metrics(self) -> dict[str, float]:
        """Counts since the start; safe to call from any thread."""
        return self._call(self._client.metrics)

    def close(self, timeout_ms: float = 30000) -> None:
        """Sends what is acknowledged, releases all other records in hand, leaves the group and closes; takes no longer than
        that, and END_S beyond. In implicit mode the records of the last poll are released: `commit` accepts them before.
        Raises TypeError, ValueError, and what the callback raised."""
        self._close(self._client.close, timeout_ms)
