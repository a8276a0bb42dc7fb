"""Log directories (KIP-113): this broker has one, its data folder, or none where it keeps everything in memory."""

from __future__ import annotations

import shutil
from collections.abc import Generator

from coterie.broker.handlers.services import Handler, LogDirServices
from coterie.broker.requests.calls import Call
from coterie.broker.requests.pending import Pending
from coterie.broker.requests.turns import Work
from coterie.broker.storage.topics import Topics
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.logs.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from coterie.wire.messages.logs.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

IN_MEMORY = "memory"  # the name of the directory of a broker without a data folder
MAX_FOLDER_NAME_LENGTH = 255
FUTURE_SUFFIX_LENGTH = len(".") + 32 + len("-future")  # of the folder that Kafka fills while a replica moves


def handle_describe_log_dirs(broker: LogDirServices, request: DescribeLogDirsRequest, call: Call) -> Message | Pending:
    """Sizes in bytes. A topic or partition that does not exist, or has no replica here, is left out, as Kafka does."""
    return broker.turns.run(_describe_log_dirs(broker, request))


def _describe_log_dirs(broker: LogDirServices, request: DescribeLogDirsRequest) -> Work:
    sizes = yield from _sizes(broker.topics, request.topics)
    result = DescribeLogDirsResult(ErrorCode.NONE, _log_dir(broker), sizes)
    if broker.data is not None:
        usage = shutil.disk_usage(broker.data)
        result.total_bytes, result.usable_bytes = usage.total, usage.free
    return DescribeLogDirsResponse(results=[result])


def _log_dir(broker: LogDirServices) -> str:
    return IN_MEMORY if broker.data is None else str(broker.data.resolve())


def _sizes(
    topics: Topics, requested: list[DescribableLogDirTopic] | None
) -> Generator[None, None, list[DescribeLogDirsTopic]]:
    """The sizes of the partitions requested, each once; None requests all."""
    if requested is None:
        wanted = {name: dict.fromkeys(range(len(topic.partitions))) for name, topic in topics.by_name.items()}
    else:
        wanted = {}
        for topic in requested:
            wanted.setdefault(topic.topic, {}).update(dict.fromkeys(topic.partitions))
    described = []
    for name, indexes in wanted.items():
        existing = topics.by_name.get(name)
        partitions = [] if existing is None else existing.partitions
        here = [partitions[i] for i in indexes if 0 <= i < len(partitions) and partitions[i].is_stored]
        sizes = [DescribeLogDirsPartition(partition.index, partition.log.size) for partition in here]
        if sizes:
            described.append(DescribeLogDirsTopic(name, sizes))
        yield
    return described


def handle_alter_replica_log_dirs(
    broker: LogDirServices, request: AlterReplicaLogDirsRequest, call: Call
) -> Message | Pending:
    """A replica may stay where it is; any other directory is LOG_DIR_NOT_FOUND, and a partition without a replica here
    REPLICA_NOT_AVAILABLE. INVALID_TOPIC_EXCEPTION where Kafka's folder of a replica that moves would have too long a name."""
    return broker.turns.run(_alter_replica_log_dirs(broker, request))


def _alter_replica_log_dirs(broker: LogDirServices, request: AlterReplicaLogDirsRequest) -> Work:
    results: dict[str, dict[int, ErrorCode]] = {}
    own = _log_dir(broker)
    for directory in request.dirs:
        for topic in directory.topics:
            codes = results.setdefault(topic.name, {})
            for index in topic.partitions:
                codes[index] = _move(broker.topics, topic.name, index, stays=directory.path == own)
                yield
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(name, [AlterReplicaLogDirPartitionResult(i, c) for i, c in codes.items()])
            for name, codes in results.items()
            if codes
        ]
    )


def _move(topics: Topics, topic: str, index: int, *, stays: bool) -> ErrorCode:
    if len(f"{topic}-{index}") + FUTURE_SUFFIX_LENGTH > MAX_FOLDER_NAME_LENGTH:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    if not stays:
        return ErrorCode.LOG_DIR_NOT_FOUND
    try:
        partition = topics.partition(topic, index)
    except Refusal as refusal:
        return refusal.code
    return ErrorCode.NONE if partition.is_stored else ErrorCode.REPLICA_NOT_AVAILABLE


HANDLERS: dict[int, Handler] = {34: handle_alter_replica_log_dirs, 35: handle_describe_log_dirs}
