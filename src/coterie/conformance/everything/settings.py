"""Stories about settings of topics: every name of Kafka's with every kind of value, at creation, altered, and described."""

from __future__ import annotations

from collections.abc import Iterator

from coterie.conformance.everything.domains import Names
from coterie.conformance.everything.pieces import Common, piece
from coterie.conformance.everything.question import Question, Story, Value

NAMES = (
    "cleanup.policy", "compression.gzip.level", "compression.lz4.level", "compression.type", "compression.zstd.level",
    "delete.retention.ms", "file.delete.delay.ms", "flush.messages", "flush.ms",
    "follower.replication.throttled.replicas", "index.interval.bytes", "leader.replication.throttled.replicas",
    "local.retention.bytes", "local.retention.ms", "max.compaction.lag.ms", "max.message.bytes",
    "message.downconversion.enable", "message.format.version", "message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms", "message.timestamp.difference.max.ms", "message.timestamp.type",
    "min.cleanable.dirty.ratio", "min.compaction.lag.ms", "min.insync.replicas", "preallocate",
    "remote.log.copy.disable", "remote.log.delete.on.disable", "remote.storage.enable", "retention.bytes",
    "retention.ms", "segment.bytes", "segment.index.bytes", "segment.jitter.ms", "segment.ms",
    "unclean.leader.election.enable",
)  # fmt: skip
VALUES = ("1", "0", "-1", "-2", "2", "1024", "3600000", "2147483648", "99999999999999999999", "0.5", "1.5", "true", "TRUE",
          "no", "delete", "compact", "compact,delete", "delete,delete", "gzip", "producer", "zstd", "none",
          "uncompressed", "CreateTime", "LogAppendTime", "1:1", "*", "", " 1 ", "abc")  # fmt: skip
_OPERATIONS = {"set": 0, "delete": 1, "append": 2, "subtract": 3}


def settings_stories(common: Common) -> Iterator[Story]:
    """One story for each setting; the topic that a value was good for is described, with its synonyms."""
    for name in NAMES:
        story = Story(f"setting {name}", strict=False)
        for n, value in enumerate(VALUES):
            story.questions.append(_create(f"create {n}", name, value, common))
        story.questions += piece("topic", Names(), common)
        for word, operation in _OPERATIONS.items():
            for n, value in enumerate(VALUES[:3] if word == "delete" else VALUES):
                story.questions += _alter(f"{word} {n}", (name, value, operation), common)
        yield story


def _newest(api: str, common: Common) -> int:
    return common[api].last


def _create(question: str, name: str, value: str, common: Common) -> Question:
    topic: dict[str, Value] = {"name": f"$n{question[7:]}", "num_partitions": 1, "replication_factor": 1}
    body = {
        "topics": [topic | {"configs": [{"name": name, "value": value}]}],
        "timeout_ms": 5000,
        "validate_only": True,
    }
    return Question(question, "CreateTopics", _newest("CreateTopics", common), body, covers=("topics.configs", name))


def _alter(question: str, change: tuple[str, str, int], common: Common) -> Iterator[Question]:
    """The change, and what is described after it."""
    name, value, operation = change
    if "IncrementalAlterConfigs" not in common:
        return
    config = {"name": name, "config_operation": operation, "value": value}
    body: dict[str, Value] = {"resources": [{"resource_type": 2, "resource_name": "$t", "configs": [config]}]}
    version = _newest("IncrementalAlterConfigs", common)
    yield Question(question, "IncrementalAlterConfigs", version, body, covers=("resources.configs", name))
    described = {"resource_type": 2, "resource_name": "$t", "configuration_keys": [name]}
    body = {"resources": [described], "include_synonyms": True}
    version = _newest("DescribeConfigs", common)
    yield Question(f"describe {question}", "DescribeConfigs", version, body, covers=("resources.configs", name))
