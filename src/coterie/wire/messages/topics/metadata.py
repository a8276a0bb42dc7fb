"""Metadata (key 3): brokers, topics, partitions and their leaders. v4 may forbid auto-creation, v5 offline replicas,
v7 leader epochs (KIP-320), v9 flexible, v10 topic ids (KIP-516), v12 topics by id, v13 a top-level error (KIP-1102).
"""

from __future__ import annotations

from coterie.wire.declaration import Message, Struct, array, boolean, field, int16, int32, message, string, struct, uuid
from coterie.wire.primitives import NULL_UUID

BY_ID_FROM = 12


@struct
class MetadataRequestTopic(Struct):
    topic_id: bytes = field(uuid, "10+")
    name: str | None = field(string, nullable="10+")


@message(api_key=3, versions="0-13", flexible="9+")
class MetadataRequest(Message):
    topics: list[MetadataRequestTopic] | None = field(array(MetadataRequestTopic), nullable="1+")
    allow_auto_topic_creation: bool = field(boolean, "4+", default=True)
    include_cluster_authorized_operations: bool = field(boolean, "8-10")
    include_topic_authorized_operations: bool = field(boolean, "8+")


@struct
class MetadataResponseBroker(Struct):
    node_id: int = field(int32)
    host: str = field(string)
    port: int = field(int32)
    rack: str | None = field(string, "1+", nullable="1+", default=None)


@struct
class MetadataResponsePartition(Struct):
    error_code: int = field(int16)
    partition_index: int = field(int32)
    leader_id: int = field(int32)
    leader_epoch: int = field(int32, "7+", default=-1)
    replica_nodes: list[int] = field(array(int32))
    isr_nodes: list[int] = field(array(int32))
    offline_replicas: list[int] = field(array(int32), "5+")


@struct
class MetadataResponseTopic(Struct):
    error_code: int = field(int16)
    name: str | None = field(string, nullable="12+")
    topic_id: bytes = field(uuid, "10+")
    is_internal: bool = field(boolean, "1+")
    partitions: list[MetadataResponsePartition] = field(array(MetadataResponsePartition))
    topic_authorized_operations: int = field(int32, "8+", default=-(2**31))


@message(api_key=3, versions="0-13", flexible="9+")
class MetadataResponse(Message):
    throttle_time_ms: int = field(int32, "3+")
    brokers: list[MetadataResponseBroker] = field(array(MetadataResponseBroker))
    cluster_id: str | None = field(string, "2+", nullable="2+", default=None)
    controller_id: int = field(int32, "1+", default=-1)
    topics: list[MetadataResponseTopic] = field(array(MetadataResponseTopic))
    cluster_authorized_operations: int = field(int32, "8-10", default=-(2**31))
    error_code: int = field(int16, "13+")


def requested_topics(request: MetadataRequest, version: int) -> list[MetadataRequestTopic] | None:
    """None for every topic: an empty list of version 0, null later."""
    return request.topics if version or request.topics else None


def topics_are_valid(request: MetadataRequest, version: int) -> bool:
    """Whether every topic is named by its name, or from version 12 on by its id."""
    by_id = [t.topic_id != NULL_UUID for t in request.topics or []]
    if version < BY_ID_FROM:
        return not any(by_id) and all(t.name is not None for t in request.topics or [])
    return all(known or t.name is not None for known, t in zip(by_id, request.topics or [], strict=True))
