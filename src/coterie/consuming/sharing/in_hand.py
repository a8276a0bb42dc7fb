"""The records that the user has in hand, and what is acknowledged of them (Kafka's ShareFetch and ShareInFlightBatch)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from coterie.consuming.record import ShareRecord, TopicPartition
from coterie.consuming.sharing.acknowledgements import Acknowledgements, AcknowledgeType, TopicIdPartition
from coterie.consuming.sharing.completed_fetch import CompletedShareFetch, Deserialize, HandedOut

NOT_DELIVERED = "is not in hand: it was not returned by the last poll, or is acknowledged already"


@dataclass(slots=True)
class _InHand:
    """One partition's, of one broker. ``types``: acknowledged, and not sent yet; ``damaged``: offsets whose record the user
    never received, and whose type of acknowledgement the user may change."""

    node_id: int
    records: dict[int, ShareRecord[Any, Any]] = field(default_factory=dict)
    types: dict[int, int] = field(default_factory=dict)
    damaged: frozenset[int] = frozenset()
    renewing: dict[int, ShareRecord[Any, Any]] = field(default_factory=dict)
    renewed: dict[int, ShareRecord[Any, Any]] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        return not (self.records or self.types or self.renewing or self.renewed)


class RecordsInHand:
    """By partition. ``lock_timeout_ms``: for how long the records in hand are acquired, None before any were."""

    def __init__(self) -> None:
        self._in_hand: dict[TopicIdPartition, _InHand] = {}
        self.lock_timeout_ms: int | None = None
        self._damage: tuple[CompletedShareFetch, HandedOut] | None = None  # behind the records that are in hand

    def take(self, buffered: deque[CompletedShareFetch], limit: int, deserialize: Deserialize | None) -> None:
        """Up to ``limit`` buffered records are in hand, and the rest of the batch that they end in; renewed ones come first,
        and nothing else while a renewal is awaited."""
        if self.has_renewals:
            self._take_renewed()
            return
        while buffered and limit > 0 and self._damage is None:
            acquired = buffered[0]
            delivery = acquired.take(limit, deserialize)
            if delivery.damage is not None:
                self._damage = acquired, delivery
            else:
                limit -= len(delivery.records)
                self._add(acquired.partition, acquired.node_id, delivery)
            self.lock_timeout_ms = acquired.lock_timeout_ms or self.lock_timeout_ms
            if acquired.is_consumed:
                buffered.popleft()

    @property
    def is_damaged(self) -> bool:
        """Whether `take_damage` has something to report, before which there are no records in hand."""
        return self._damage is not None and not self.has_records

    def take_damage(self) -> tuple[TopicIdPartition, HandedOut]:
        """Offsets that cannot be read; they are acknowledged as the delivery has it, unless `acknowledge` changes that."""
        assert self._damage is not None
        (acquired, delivery), self._damage = self._damage, None
        self._add(acquired.partition, acquired.node_id, delivery)
        return acquired.partition, delivery

    def _add(self, partition: TopicIdPartition, node_id: int, delivery: HandedOut) -> None:
        in_hand = self._in_hand.setdefault(partition, _InHand(node_id))
        in_hand.node_id = node_id
        in_hand.records |= {record.offset: record for record in delivery.records}
        in_hand.types |= delivery.types
        in_hand.damaged |= delivery.damaged

    def records(self) -> dict[TopicPartition, list[ShareRecord[Any, Any]]]:
        """Those in hand, by partition and in order."""
        polled: dict[TopicPartition, list[ShareRecord[Any, Any]]] = {}
        for partition, in_hand in self._in_hand.items():
            if in_hand.records:
                polled[partition.named] = [in_hand.records[offset] for offset in sorted(in_hand.records)]
        return polled

    @property
    def has_records(self) -> bool:
        """Whether the user has records that are not sent as acknowledged."""
        return any(in_hand.records for in_hand in self._in_hand.values())

    @property
    def has_renewals(self) -> bool:
        """Whether records wait for a renewal, or are renewed and not handed out again yet."""
        return any(in_hand.renewing or in_hand.renewed for in_hand in self._in_hand.values())

    def unacknowledged(self) -> list[ShareRecord[Any, Any]]:
        """The records in hand without a type."""
        hands = self._in_hand.values()
        return [record for hand in hands for offset, record in hand.records.items() if offset not in hand.types]

    def acknowledge(self, where: TopicPartition, offset: int, kind: AcknowledgeType) -> None:
        """Raises LookupError where the offset is not in hand."""
        for partition, in_hand in self._in_hand.items():
            if partition.named == where and (offset in in_hand.records or offset in in_hand.damaged):
                in_hand.types[offset] = int(kind)
                return
        raise LookupError(f"record {offset} of {where.topic}-{where.partition} {NOT_DELIVERED}")

    def acknowledge_all(self, kind: AcknowledgeType) -> None:
        """All records in hand that have no type yet."""
        for in_hand in self._in_hand.values():
            for offset in in_hand.records:
                in_hand.types.setdefault(offset, int(kind))

    def take_acknowledged(self) -> list[Acknowledgements]:
        """The acknowledgements to send; their records are no longer in hand, unless they are renewed."""
        taken: list[Acknowledgements] = []
        for partition, in_hand in self._in_hand.items():
            types, in_hand.types, in_hand.damaged = in_hand.types, {}, frozenset()
            for offset, kind in types.items():
                record = in_hand.records.pop(offset, None)
                if kind == AcknowledgeType.RENEW and record is not None:
                    in_hand.renewing[offset] = record
            if types:
                taken.append(Acknowledgements(partition, in_hand.node_id, dict(sorted(types.items()))))
        self._drop_empty()
        return taken

    def ended(self, ended: Iterable[Acknowledgements]) -> None:
        """The records that were renewed are handed out again; those whose renewal failed are not."""
        for acknowledged in ended:
            in_hand = self._in_hand.get(acknowledged.partition)
            if in_hand is None:
                continue
            for offset in acknowledged.types:
                record = in_hand.renewing.pop(offset, None)
                if record is not None and not acknowledged.failed:
                    in_hand.renewed[offset] = record
                    self.lock_timeout_ms = acknowledged.lock_timeout_ms or self.lock_timeout_ms
        self._drop_empty()

    def _take_renewed(self) -> None:
        for in_hand in self._in_hand.values():
            in_hand.records |= in_hand.renewed
            in_hand.renewed = {}

    def _drop_empty(self) -> None:
        self._in_hand = {tip: in_hand for tip, in_hand in self._in_hand.items() if not in_hand.is_empty}
