"""DescribeLogDirs (key 35, KIP-113): sizes of partitions by log directory. v2 flexible, v3 a top-level error, v4 bytes of
the volume (KIP-827), v5 whether the directory is cordoned (KIP-1066).
"""

from __future__ import annotations

from coterie.wire.declaration import (
    Message,
    Struct,
    array,
    boolean,
    field,
    int16,
    int32,
    int64,
    message,
    string,
    struct,
)


@struct
class DescribableLogDirTopic(Struct):
    topic: str = field(string)
    partitions: list[int] = field(array(int32))


@message(api_key=35, versions="0-5", flexible="2+")
class DescribeLogDirsRequest(Message):
    topics: list[DescribableLogDirTopic] | None = field(array(DescribableLogDirTopic), nullable="0+")


@struct
class DescribeLogDirsPartition(Struct):
    partition_index: int = field(int32)
    partition_size: int = field(int64)
    offset_lag: int = field(int64)
    is_future_key: bool = field(boolean)


@struct
class DescribeLogDirsTopic(Struct):
    name: str = field(string)
    partitions: list[DescribeLogDirsPartition] = field(array(DescribeLogDirsPartition))


@struct
class DescribeLogDirsResult(Struct):
    error_code: int = field(int16)
    log_dir: str = field(string)
    topics: list[DescribeLogDirsTopic] = field(array(DescribeLogDirsTopic))
    total_bytes: int = field(int64, "4+", default=-1)
    usable_bytes: int = field(int64, "4+", default=-1)
    is_cordoned: bool = field(boolean, "5+")


@message(api_key=35, versions="0-5", flexible="2+")
class DescribeLogDirsResponse(Message):
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16, "3+")
    results: list[DescribeLogDirsResult] = field(array(DescribeLogDirsResult))
