"""ControlledShutdown (key 7): a broker requests that the controller move its leaders before it stops. v2 has the broker epoch
(KIP-380), v3 is flexible. As in Apache Kafka 2.6, but for v0, whose header has no client id: only brokers of Kafka 0.8 sent it.
"""

from __future__ import annotations

from coterie.wire.declaration import Message, Struct, array, field, int16, int32, int64, message, string, struct


@message(api_key=7, versions="1-3", flexible="3+")
class ControlledShutdownRequest(Message):
    broker_id: int = field(int32)
    broker_epoch: int = field(int64, "2+", default=-1)


@struct
class RemainingPartition(Struct):
    topic_name: str = field(string)
    partition_index: int = field(int32)


@message(api_key=7, versions="1-3", flexible="3+")
class ControlledShutdownResponse(Message):
    error_code: int = field(int16)
    remaining_partitions: list[RemainingPartition] = field(array(RemainingPartition))
