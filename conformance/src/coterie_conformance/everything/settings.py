"""Stories about settings: every name of Kafka's with every kind of value, altered and described; of topics also at creation.

A broker's are only checked (``validate_only``), because every story would see them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from coterie.certify.question import Question, Story, Value
from coterie_conformance.everything.generated.domain import Names
from coterie_conformance.everything.generated.pieces import Common, piece

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
GROUP_NAMES = (
    "consumer.assignment.interval.ms", "consumer.heartbeat.interval.ms", "consumer.session.timeout.ms",
    "share.assignment.interval.ms", "share.auto.offset.reset", "share.delivery.count.limit", "share.heartbeat.interval.ms",
    "share.isolation.level", "share.partition.max.record.locks", "share.record.lock.duration.ms",
    "share.renew.acknowledge.enable", "share.session.timeout.ms", "streams.assignment.interval.ms",
    "streams.assignor.name", "streams.heartbeat.interval.ms", "streams.initial.rebalance.delay.ms",
    "streams.num.standby.replicas", "streams.rack.aware.assignment.tags", "streams.session.timeout.ms",
)  # fmt: skip
METRICS_NAMES = ("interval.ms", "match", "metrics")
# Altered while a broker runs. Not those of listeners, and of TLS and SASL: the listeners of both sides have none.
BROKER_NAMES = (
    "background.threads", "compression.type", "follower.fetch.last.tiered.offset.enable", "log.cleaner.backoff.ms",
    "log.cleaner.dedupe.buffer.size", "log.cleaner.delete.retention.ms", "log.cleaner.io.buffer.load.factor",
    "log.cleaner.io.max.bytes.per.second", "log.cleaner.max.compaction.lag.ms", "log.cleaner.min.cleanable.ratio",
    "log.cleaner.min.compaction.lag.ms", "log.cleaner.threads", "log.cleanup.policy", "log.flush.interval.messages",
    "log.index.interval.bytes", "log.index.size.max.bytes", "log.message.timestamp.type", "log.preallocate",
    "log.retention.bytes", "log.retention.ms", "log.roll.jitter.ms", "log.roll.ms", "log.segment.bytes",
    "max.connection.creation.rate", "max.connections", "max.connections.per.ip", "max.connections.per.ip.overrides",
    "message.max.bytes", "min.insync.replicas", "num.io.threads", "num.network.threads",
    "num.recovery.threads.per.data.dir", "num.replica.fetchers", "producer.id.expiration.ms",
    "transaction.partition.verification.enable", "unclean.leader.election.enable", "node.id", "no.such.setting",
)  # fmt: skip
_MORE = {
    32: ("15000", "45000", "50000", "60000", "60001", "5000", "earliest", "latest", "by_duration:PT1H", "by_duration:1h",
         "read_committed", "sticky", "zone,rack"),
    16: ("100", "99", "client_id=$c", "client_id=", "nosuch=x", "client_id=(", "client_id=a=b",
         "client_id=a,client_software_name = b.*", "org.a.,org.b."),
    4: ("127.0.0.1:5", "nosuch:5", "127.0.0.1:x", "8", "16"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Resource:
    """A resource with settings: its type and name, as the requests have them."""

    kind: int
    name: str
    validate_only: bool = False


_TOPIC, _GROUP, _METRICS = _Resource(2, "$t"), _Resource(32, "$g"), _Resource(16, "$m")
_BROKER, _CLUSTER = _Resource(4, "1", validate_only=True), _Resource(4, "", validate_only=True)


def settings_stories(common: Common) -> Iterator[Story]:
    """One story for each setting; the resource that a value was good for is described, with its synonyms."""
    for name in NAMES:
        story = Story(f"setting {name}", strict=False)
        for n, value in enumerate(VALUES):
            story.questions.append(_create(f"create {n}", name, value, common))
        story.questions += piece("topic", Names(), common)
        story.questions += _every_change(_TOPIC, name, common)
        yield story
    for resource, names in ((_GROUP, GROUP_NAMES), (_METRICS, METRICS_NAMES), (_BROKER, BROKER_NAMES)):
        for name in names:
            yield Story(f"setting {name}", [*_every_change(resource, name, common)], strict=False)
    for name in BROKER_NAMES:
        changes = [_alter(f"set {n}", _CLUSTER, (name, value, 0), common) for n, value in enumerate(VALUES[:8])]
        yield Story(f"setting {name}", [question for change in changes for question in change], strict=False)


def _every_change(resource: _Resource, name: str, common: Common) -> Iterator[Question]:
    values = (*VALUES, *_MORE.get(resource.kind, ()))
    for word, operation in _OPERATIONS.items():
        for n, value in enumerate(VALUES[:3] if word == "delete" else values):
            yield from _alter(f"{word} {n}", resource, (name, value, operation), common)


def _create(question: str, name: str, value: str, common: Common) -> Question:
    topic: dict[str, Value] = {"name": f"$n{question[7:]}", "num_partitions": 1, "replication_factor": 1}
    body = {
        "topics": [topic | {"configs": [{"name": name, "value": value}]}],
        "timeout_ms": 5000,
        "validate_only": True,
    }
    return Question(question, "CreateTopics", common["CreateTopics"].last, body, covers=("topics.configs", name))


def _alter(question: str, resource: _Resource, change: tuple[str, str, int], common: Common) -> Iterator[Question]:
    """The change, and what is described after it, where it is carried out."""
    name, value, operation = change
    if "IncrementalAlterConfigs" not in common:
        return
    config = {"name": name, "config_operation": operation, "value": value}
    named: dict[str, Value] = {"resource_type": resource.kind, "resource_name": resource.name}
    body: dict[str, Value] = {"resources": [named | {"configs": [config]}]}
    if resource.validate_only:
        body["validate_only"] = True
    version = common["IncrementalAlterConfigs"].last
    yield Question(question, "IncrementalAlterConfigs", version, body, covers=("resources.configs", name))
    if resource.validate_only:
        return
    body = {"resources": [named | {"configuration_keys": [name]}], "include_synonyms": True}
    version = common["DescribeConfigs"].last
    yield Question(f"describe {question}", "DescribeConfigs", version, body, covers=("resources.configs", name))
