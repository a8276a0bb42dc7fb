"""Keys and values of the records of `__share_group_state` (KIP-932), as Apache Kafka 4.4 writes them. The version of a key is
its kind: 0 a snapshot of a partition's state in a share group, 1 what changed since.
"""

from __future__ import annotations

from coterie.wire.declaration import (
    Message,
    Struct,
    array,
    field,
    int8,
    int16,
    int32,
    int64,
    message,
    string,
    struct,
    uuid,
)


@message(versions="0")
class ShareSnapshotKey(Message):
    group_id: str = field(string)
    topic_id: bytes = field(uuid)
    partition: int = field(int32)


@struct
class StateBatch(Struct):
    first_offset: int = field(int64)
    last_offset: int = field(int64)
    delivery_state: int = field(int8)
    delivery_count: int = field(int16)


@message(versions="0", flexible="0+")
class ShareSnapshotValue(Message):
    snapshot_epoch: int = field(int32)
    state_epoch: int = field(int32)
    leader_epoch: int = field(int32)
    start_offset: int = field(int64)
    delivery_complete_count: int = field(int32, tag=0, default=-1)  # KIP-1226
    create_timestamp: int = field(int64)  # ms since 1970
    write_timestamp: int = field(int64)  # ms since 1970
    state_batches: list[StateBatch] = field(array(StateBatch))


@message(versions="1")
class ShareUpdateKey(Message):
    group_id: str = field(string)
    topic_id: bytes = field(uuid)
    partition: int = field(int32)


@message(versions="0", flexible="0+")
class ShareUpdateValue(Message):
    snapshot_epoch: int = field(int32)
    leader_epoch: int = field(int32)
    start_offset: int = field(int64)
    delivery_complete_count: int = field(int32, tag=0, default=-1)  # KIP-1226
    state_batches: list[StateBatch] = field(array(StateBatch))
