"""CreateTopics (key 19). v1 validate-only, v4 broker defaults with -1 (KIP-464), v5 flexible and what was created in the
response (KIP-525), v7 topic ids.
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
    message,
    string,
    struct,
    uuid,
)


@struct
class CreatableReplicaAssignment(Struct):
    partition_index: int = field(int32)
    broker_ids: list[int] = field(array(int32))


@struct
class CreatableTopicConfig(Struct):
    name: str = field(string)
    value: str | None = field(string, nullable="0+")


@struct
class CreatableTopic(Struct):
    name: str = field(string)
    num_partitions: int = field(int32)
    replication_factor: int = field(int16)
    assignments: list[CreatableReplicaAssignment] = field(array(CreatableReplicaAssignment))
    configs: list[CreatableTopicConfig] = field(array(CreatableTopicConfig))


@message(api_key=19, versions="0-7", flexible="5+")
class CreateTopicsRequest(Message):
    topics: list[CreatableTopic] = field(array(CreatableTopic))
    timeout_ms: int = field(int32, default=60_000)
    validate_only: bool = field(boolean, "1+")


@struct
class CreatableTopicConfigs(Struct):
    name: str = field(string)
    value: str | None = field(string, nullable="5+")
    read_only: bool = field(boolean)
    config_source: int = field(int8, default=-1)
    is_sensitive: bool = field(boolean)


@struct
class CreatableTopicResult(Struct):
    name: str = field(string)
    topic_id: bytes = field(uuid, "7+")
    error_code: int = field(int16)
    error_message: str | None = field(string, "1+", nullable="0+")
    topic_config_error_code: int = field(int16, "5+", tag=0)
    num_partitions: int = field(int32, "5+", default=-1)
    replication_factor: int = field(int16, "5+", default=-1)
    configs: list[CreatableTopicConfigs] | None = field(array(CreatableTopicConfigs), "5+", nullable="5+")


@message(api_key=19, versions="0-7", flexible="5+")
class CreateTopicsResponse(Message):
    throttle_time_ms: int = field(int32, "2+")
    topics: list[CreatableTopicResult] = field(array(CreatableTopicResult))
