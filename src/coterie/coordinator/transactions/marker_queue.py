"""The markers of prepared transactions on their way to the leaders of their partitions (Kafka's
TransactionMarkerChannelManager).

One request at a time goes to each broker, with all that is due for it. A marker is repeated until the leader of its partition,
whichever broker that is by then, has it and all replicas in sync have it too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from coterie.coordinator.transactions.state import TopicPartition, Transaction
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.transactions.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

RETRY_MS = 100
PARTITIONS_PER_REQUEST = 2_000
# The partition needs no marker any more. INVALID_PRODUCER_EPOCH: it has one of a later epoch.
_DONE = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)


@dataclass(eq=False, slots=True)
class UnmarkedTransaction:
    """A prepared transaction and the partitions that lack its marker. ``owner``: the partition of `__transaction_state`."""

    owner: int
    coordinator_epoch: int
    prepared: Transaction
    left: set[TopicPartition]


@dataclass(eq=False, slots=True)
class MarkerRequest:
    """Markers for one broker; pass the response to `MarkerQueue.responded`, or call `MarkerQueue.failed`."""

    broker: int
    partitions: dict[UnmarkedTransaction, list[TopicPartition]] = field(default_factory=dict)

    def message(self) -> WriteTxnMarkersRequest:
        """The request of WriteTxnMarkers."""
        return WriteTxnMarkersRequest([_marker(one, partitions) for one, partitions in self.partitions.items()])


def _marker(one: UnmarkedTransaction, partitions: Iterable[TopicPartition]) -> WritableTxnMarker:
    topics: dict[str, WritableTxnMarkerTopic] = {}
    for topic, index in sorted(partitions):
        topics.setdefault(topic, WritableTxnMarkerTopic(topic, [])).partition_indexes.append(index)
    prepared = one.prepared
    return WritableTxnMarker(
        prepared.producer_id,
        prepared.epoch,
        prepared.is_commit,
        list(topics.values()),
        one.coordinator_epoch,
        prepared.client_transaction_version,
    )


def codes_of(response: WriteTxnMarkersResponse) -> dict[tuple[int, TopicPartition], int]:
    """The error codes of a response, by producer id and partition."""
    return {
        (marker.producer_id, (topic.name, row.partition_index)): row.error_code
        for marker in response.markers
        for topic in marker.topics
        for row in topic.partitions
    }


class MarkerQueue:
    """``leader_of``: the broker that leads a partition, -1 where none does now, None for a partition that is not known."""

    def __init__(self, leader_of: Callable[[TopicPartition], int | None]) -> None:
        self._leader_of = leader_of
        self._unmarked: dict[tuple[int, str], UnmarkedTransaction] = {}
        self._waiting: dict[tuple[UnmarkedTransaction, TopicPartition], int] = {}  # and from when on, in ms
        self._busy: set[int] = set()

    def __bool__(self) -> bool:
        """Whether markers wait to be sent."""
        return bool(self._waiting)

    def add(self, owner: int, coordinator_epoch: int, prepared: Transaction) -> None:
        """The markers of a transaction are due."""
        one = UnmarkedTransaction(owner, coordinator_epoch, prepared, set(prepared.partitions))
        self._unmarked[owner, prepared.transactional_id] = one
        self._waiting |= {(one, partition): 0 for partition in sorted(one.left)}

    def drop(self, owner: int) -> None:
        """Another broker coordinates that partition's transactions; it writes their markers."""
        for one in [one for one in self._unmarked.values() if one.owner == owner]:
            self._forget(one)

    def _forget(self, one: UnmarkedTransaction) -> None:
        self._unmarked.pop((one.owner, one.prepared.transactional_id), None)
        for partition in one.left:
            self._waiting.pop((one, partition), None)

    def due(self, now_ms: int) -> list[MarkerRequest]:
        """The requests to send now."""
        requests: dict[int, MarkerRequest] = {}
        sizes: dict[int, int] = {}
        for (one, partition), since_ms in self._waiting.items():
            broker = self._leader_of(partition) if since_ms <= now_ms else None
            if broker is None or broker < 0 or broker in self._busy or sizes.get(broker, 0) >= PARTITIONS_PER_REQUEST:
                continue
            requests.setdefault(broker, MarkerRequest(broker)).partitions.setdefault(one, []).append(partition)
            sizes[broker] = sizes.get(broker, 0) + 1
        for request in requests.values():
            for one, partitions in request.partitions.items():
                for partition in partitions:
                    del self._waiting[one, partition]
        self._busy.update(requests)
        return list(requests.values())

    def responded(
        self, request: MarkerRequest, codes: Mapping[tuple[int, TopicPartition], int], now_ms: int
    ) -> list[UnmarkedTransaction]:
        """Returns the transactions that have all their markers now. A partition without a code is tried again, as one with
        an error is that may pass."""
        self._busy.discard(request.broker)
        marked: list[UnmarkedTransaction] = []
        for one, partitions in request.partitions.items():
            if self._unmarked.get((one.owner, one.prepared.transactional_id)) is not one:
                continue
            of_these = {p: codes.get((one.prepared.producer_id, p)) for p in partitions}
            if ErrorCode.TRANSACTION_COORDINATOR_FENCED in of_these.values():
                self._forget(one)  # a later coordinator has written to the partition, and goes on
                continue
            for partition, code in of_these.items():
                if code not in _DONE:
                    self._waiting[one, partition] = now_ms + RETRY_MS
                elif self._has_marker(one, partition):
                    marked.append(one)
        return marked

    def failed(self, request: MarkerRequest, now_ms: int) -> None:
        """No response came: the markers may be written or not."""
        self.responded(request, {}, now_ms)

    def _has_marker(self, one: UnmarkedTransaction, partition: TopicPartition) -> bool:
        """Whether it was the last one of the transaction."""
        one.left.discard(partition)
        if not one.left:
            self._forget(one)
        return not one.left

    # -- deleted partitions ---------------------------------------------------------------------------------------------

    def unknown(self) -> set[TopicPartition]:
        """The partitions with markers to be sent that this broker does not know: deleted, or too new for it."""
        return {partition for _, partition in self._waiting if self._leader_of(partition) is None}

    def deleted(self, partition: TopicPartition) -> list[UnmarkedTransaction]:
        """The partition is gone, and needs no marker. Returns the transactions that have all their markers now."""
        concerned = [one for one, of_one in list(self._waiting) if of_one == partition]
        for one in concerned:
            del self._waiting[one, partition]
        return [one for one in concerned if self._has_marker(one, partition)]
