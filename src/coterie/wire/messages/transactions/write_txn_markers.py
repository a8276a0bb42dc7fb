"""WriteTxnMarkers (key 27): the end of a transaction, written into each partition that it touched (KIP-98). v1 flexible, v2
the transaction version (KIP-1228).
"""

from __future__ import annotations

from coterie.wire.declaration import (
    Message,
    Struct,
    array,
    boolean,
    field,
    int8,
    int16,
    int32,
    int64,
    message,
    string,
    struct,
)


@struct
class WritableTxnMarkerTopic(Struct):
    name: str = field(string)
    partition_indexes: list[int] = field(array(int32))


@struct
class WritableTxnMarker(Struct):
    producer_id: int = field(int64)
    producer_epoch: int = field(int16)
    transaction_result: bool = field(boolean)
    topics: list[WritableTxnMarkerTopic] = field(array(WritableTxnMarkerTopic))
    coordinator_epoch: int = field(int32)
    transaction_version: int = field(int8, "2+")


@message(api_key=27, versions="0-2", flexible="1+")
class WriteTxnMarkersRequest(Message):
    markers: list[WritableTxnMarker] = field(array(WritableTxnMarker))


@struct
class WritableTxnMarkerPartitionResult(Struct):
    partition_index: int = field(int32)
    error_code: int = field(int16)


@struct
class WritableTxnMarkerTopicResult(Struct):
    name: str = field(string)
    partitions: list[WritableTxnMarkerPartitionResult] = field(array(WritableTxnMarkerPartitionResult))


@struct
class WritableTxnMarkerResult(Struct):
    producer_id: int = field(int64)
    topics: list[WritableTxnMarkerTopicResult] = field(array(WritableTxnMarkerTopicResult))


@message(api_key=27, versions="0-2", flexible="1+")
class WriteTxnMarkersResponse(Message):
    markers: list[WritableTxnMarkerResult] = field(array(WritableTxnMarkerResult))
