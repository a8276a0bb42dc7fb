"""DescribeCluster (key 60, KIP-700): brokers without topics. v1 endpoint type (KIP-919), v2 fenced brokers."""

from __future__ import annotations

from coterie.wire.declaration import Message, Struct, array, boolean, field, int8, int16, int32, message, string, struct


@message(api_key=60, versions="0-2", flexible="0+")
class DescribeClusterRequest(Message):
    include_cluster_authorized_operations: bool = field(boolean)
    endpoint_type: int = field(int8, "1+", default=1)
    include_fenced_brokers: bool = field(boolean, "2+")


@struct
class DescribeClusterBroker(Struct):
    broker_id: int = field(int32)
    host: str = field(string)
    port: int = field(int32)
    rack: str | None = field(string, nullable="0+", default=None)
    is_fenced: bool = field(boolean, "2+")


@message(api_key=60, versions="0-2", flexible="0+")
class DescribeClusterResponse(Message):
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)
    endpoint_type: int = field(int8, "1+", default=1)
    cluster_id: str = field(string)
    controller_id: int = field(int32, default=-1)
    brokers: list[DescribeClusterBroker] = field(array(DescribeClusterBroker))
    cluster_authorized_operations: int = field(int32, default=-(2**31))
