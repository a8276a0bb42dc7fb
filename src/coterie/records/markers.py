"""The control batches that end transactions (KIP-98, Kafka's EndTransactionMarker): made, and read."""

from __future__ import annotations

import struct

from coterie.records.batch import CONTROL_BIT, TRANSACTIONAL_BIT, BatchHeader, BatchRecord
from coterie.records.decoding import decode_records
from coterie.records.encoding import encode_batch

_ABORT, _COMMIT = 0, 1


def end_of_transaction(
    producer_id: int, producer_epoch: int, committed: bool, coordinator_epoch: int, now_ms: int
) -> bytes:
    """The control batch that ends a transaction (KIP-98, EndTransactionMarker)."""
    key = struct.pack(">hh", 0, _COMMIT if committed else _ABORT)
    value = struct.pack(">hi", 0, coordinator_epoch)
    return encode_batch(
        [(now_ms, key, value, ())],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        attributes=TRANSACTIONAL_BIT | CONTROL_BIT,
    )


def ends_transaction(record: BatchRecord) -> bool | None:
    """Whether a control record commits or aborts; None for another kind of control record."""
    if record.key is None or len(record.key) < 4:
        return None
    kind = struct.unpack_from(">h", record.key, 2)[0]
    return bool(kind) if kind in (_ABORT, _COMMIT) else None


def marker_of(data: bytes, position: int, header: BatchHeader) -> bool | None:
    """As `ends_transaction`, of a control batch, which holds one record; None for one that compaction left empty. Raises
    BatchError."""
    return ends_transaction(decode_records(data, position, header)[0]) if header.record_count else None


def coordinator_epoch_of(data: bytes, position: int, header: BatchHeader) -> int:
    """The coordinator epoch of a transaction's marker (EndTxnMarker); -1 where it has none. Raises BatchError."""
    value = decode_records(data, position, header)[0].value if header.record_count else None
    if value is None or len(value) < 6:
        return -1
    epoch: int = struct.unpack_from(">i", value, 2)[0]
    return epoch
