"""The body of a `.snapshot` file beside a log: each producer id's last batch, so that a restart need not read the whole log.
In the file: int16 version 1, uint32 CRC-32C of what follows, then this.
"""

from __future__ import annotations

from coterie.wire.declaration import Message, Struct, array, field, int16, int32, int64, message, struct


@struct
class ProducerEntry(Struct):
    producer_id: int = field(int64)
    epoch: int = field(int16)
    last_sequence: int = field(int32)
    last_offset: int = field(int64)
    offset_delta: int = field(int32)
    timestamp: int = field(int64)
    coordinator_epoch: int = field(int32, default=-1)
    current_txn_first_offset: int = field(int64, default=-1)


@message(versions="1")
class ProducerSnapshot(Message):
    producer_entries: list[ProducerEntry] = field(array(ProducerEntry))
