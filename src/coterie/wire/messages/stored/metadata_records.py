"""Records of Apache Kafka's metadata log (KRaft, KIP-500), as many as a folder of coterie's needs of them. ``api_key`` is the
number before a record's value.
"""

from __future__ import annotations

from coterie.wire.declaration import Message, array, field, int8, int16, int32, int64, message, string, uuid


@message(api_key=2, versions="0", flexible="0+")
class TopicRecord(Message):
    name: str = field(string)
    topic_id: bytes = field(uuid)


@message(api_key=3, versions="1", flexible="1+")
class PartitionRecord(Message):
    partition_id: int = field(int32)
    topic_id: bytes = field(uuid)
    replicas: list[int] = field(array(int32))
    isr: list[int] = field(array(int32))
    removing_replicas: list[int] = field(array(int32))
    adding_replicas: list[int] = field(array(int32))
    leader: int = field(int32, default=-1)
    leader_epoch: int = field(int32, default=-1)
    partition_epoch: int = field(int32, default=-1)
    directories: list[bytes] = field(array(uuid))


@message(api_key=4, versions="0", flexible="0+")
class ConfigRecord(Message):
    resource_type: int = field(int8)
    resource_name: str = field(string)
    name: str = field(string)
    value: str | None = field(string, nullable="0+", default=None)


@message(api_key=12, versions="0", flexible="0+")
class FeatureLevelRecord(Message):
    name: str = field(string)
    feature_level: int = field(int16)


@message(api_key=15, versions="0", flexible="0+")
class ProducerIdsRecord(Message):
    broker_id: int = field(int32)
    broker_epoch: int = field(int64, default=-1)
    next_producer_id: int = field(int64)
