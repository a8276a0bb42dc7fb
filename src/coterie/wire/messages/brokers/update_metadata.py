"""UpdateMetadata (key 6): the controller's view of brokers and partitions, with which brokers respond to clients. v1 has
endpoints, v2 racks, v3 names of listeners, v4 offline replicas, v5 groups by topic and has the broker epoch (KIP-380), v6
flexible. As in Apache Kafka 2.6.
"""

from __future__ import annotations

from coterie.wire.declaration import Message, Struct, array, field, int16, int32, int64, message, string, struct


@struct
class UpdateMetadataPartitionState(Struct):
    """``topic_name``: where the partitions are not grouped by topic."""

    topic_name: str = field(string, "0-4")
    partition_index: int = field(int32)
    controller_epoch: int = field(int32)
    leader: int = field(int32)
    leader_epoch: int = field(int32)
    isr: list[int] = field(array(int32))
    zk_version: int = field(int32)
    replicas: list[int] = field(array(int32))
    offline_replicas: list[int] = field(array(int32), "4+")


@struct
class UpdateMetadataTopicState(Struct):
    topic_name: str = field(string)
    partition_states: list[UpdateMetadataPartitionState] = field(array(UpdateMetadataPartitionState))


@struct
class UpdateMetadataEndpoint(Struct):
    port: int = field(int32)
    host: str = field(string)
    listener: str = field(string, "3+")
    security_protocol: int = field(int16)


@struct
class UpdateMetadataBroker(Struct):
    id: int = field(int32)
    v0_host: str = field(string, "0")
    v0_port: int = field(int32, "0")
    endpoints: list[UpdateMetadataEndpoint] = field(array(UpdateMetadataEndpoint), "1+")
    rack: str | None = field(string, "2+", nullable="0+", default=None)


@message(api_key=6, versions="0-6", flexible="6+")
class UpdateMetadataRequest(Message):
    controller_id: int = field(int32)
    controller_epoch: int = field(int32)
    broker_epoch: int = field(int64, "5+", default=-1)
    ungrouped_partition_states: list[UpdateMetadataPartitionState] = field(array(UpdateMetadataPartitionState), "0-4")
    topic_states: list[UpdateMetadataTopicState] = field(array(UpdateMetadataTopicState), "5+")
    live_brokers: list[UpdateMetadataBroker] = field(array(UpdateMetadataBroker))


@message(api_key=6, versions="0-6", flexible="6+")
class UpdateMetadataResponse(Message):
    error_code: int = field(int16)
