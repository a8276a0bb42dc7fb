"""The shared part of the Python scripts: steps with a name, each of which prints one JSON line with what the client returned.

Needs nothing but the standard library, since the scripts run in environments of their own.
"""

from __future__ import annotations

import enum
import json
import time
from collections.abc import Callable, Mapping
from typing import Any

TOPIC, GROUP, TRANSACTION = "orders", "shop", "mover"
PARTITIONS, RECORDS = 2, 10
SETTLED_S = 10.0

# Every topic setting of Apache Kafka 3.9, most of them with another value than the default.
EVERY_TOPIC_SETTING: dict[str, str] = {
    "cleanup.policy": "compact,delete",
    "compression.gzip.level": "5",
    "compression.lz4.level": "3",
    "compression.type": "gzip",
    "compression.zstd.level": "2",
    "delete.retention.ms": "1000",
    "file.delete.delay.ms": "500",
    "flush.messages": "100",
    "flush.ms": "1000",
    "follower.replication.throttled.replicas": "*",
    "index.interval.bytes": "1024",
    "leader.replication.throttled.replicas": "0:1",
    "local.retention.bytes": "-2",
    "local.retention.ms": "-2",
    "max.compaction.lag.ms": "100000",
    "max.message.bytes": "100000",
    "message.downconversion.enable": "false",
    "message.format.version": "3.0-IV1",
    "message.timestamp.after.max.ms": "3600000",
    "message.timestamp.before.max.ms": "3600000",
    "message.timestamp.difference.max.ms": "3600000",
    "message.timestamp.type": "LogAppendTime",
    "min.cleanable.dirty.ratio": "0.25",
    "min.compaction.lag.ms": "10",
    "min.insync.replicas": "1",
    "preallocate": "true",
    "remote.log.copy.disable": "false",
    "remote.log.delete.on.disable": "false",
    "remote.storage.enable": "false",
    "retention.bytes": "10000000",
    "retention.ms": "3600000",
    "segment.bytes": "1048576",
    "segment.index.bytes": "102400",
    "segment.jitter.ms": "10",
    "segment.ms": "600000",
    "unclean.leader.election.enable": "true",
}


def step(name: str, work: Callable[[], Any]) -> Any:
    """Runs it, prints what it returned or raised, and returns that (None after an exception)."""
    try:
        result = work()
    except Exception as error:
        print(json.dumps({"step": name, "raised": error_name(error)}), flush=True)
        return None
    print(json.dumps({"step": name, "returned": plain(result)}, sort_keys=True), flush=True)
    return result


def until(ask: Callable[[], Any], text: str) -> Any:
    """The result once it holds the text, or after some seconds: a change reaches the brokers of Apache Kafka a moment
    after its response."""
    end_s = time.monotonic() + SETTLED_S
    while True:
        result = ask()
        if text in json.dumps(plain(result)) or time.monotonic() > end_s:
            return result
        time.sleep(0.1)


def error_name(error: BaseException) -> str:
    """The class of an exception, with Kafka's own name of the error where librdkafka has wrapped it."""
    inner = error.args[0] if error.args else None
    name = getattr(inner, "name", None)
    return f"{type(error).__name__} {name()}" if callable(name) else type(error).__name__


def plain(value: Any) -> Any:
    """As JSON: tuples with names and objects by their public fields, bytes as text, enumerations by name."""
    if value is None or (isinstance(value, bool | int | float | str) and not isinstance(value, enum.Enum)):
        return value
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, BaseException):
        return error_name(value)
    if callable(getattr(value, "to_object", None)):  # a response of kafka-python 2 or aiokafka
        return plain(value.to_object())
    if isinstance(value, Mapping):
        return {_key(key): plain(item) for key, item in value.items()}
    if hasattr(value, "_asdict"):
        return plain(value._asdict())
    if isinstance(value, set | frozenset):
        return sorted((plain(item) for item in value), key=json.dumps)
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if not hasattr(value, "__dict__"):
        return str(value)
    fields = vars(value).items()
    return {name: plain(item) for name, item in fields if not name.startswith("_") and not callable(item)}


def _key(key: Any) -> str:
    """Of a dictionary: topic-partition pairs become one word."""
    if isinstance(key, str):
        return key
    if isinstance(key, tuple) and not hasattr(key, "_asdict"):
        return "-".join(str(part) for part in key)
    topic, partition = getattr(key, "topic", None), getattr(key, "partition", None)
    if topic is not None and partition is not None:
        return f"{topic}-{partition}"
    name = getattr(key, "name", None)
    return str(name) if isinstance(name, str) else str(key)
