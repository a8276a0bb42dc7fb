"""Rules of topics, their settings, and what is in them."""

from __future__ import annotations

from typing import Any

from coterie.certify.question import Question, Value
from coterie_conformance.certify.rule import TIMEOUT_MS, CertifyRule, ask, batch, fetch, produce, topic

_TOPICS = "Topics"
_SETTINGS = "Settings"
_RECORDS = "Records"
_SESSIONS = "Fetch sessions"
TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3


def _create(name: str, topic: str, **parts: Any) -> Question:
    validate_only = parts.pop("validate_only", False)
    new = {"name": topic, "num_partitions": 1, "replication_factor": 1} | parts
    return ask(name, "CreateTopics", 5, topics=[new], timeout_ms=TIMEOUT_MS, validate_only=validate_only)


def _alter(name: str, setting: str, value: str | None, operation: int = SET, **body: Any) -> Question:
    config = {"name": setting, "config_operation": operation, "value": value}
    resource = {"resource_type": TOPIC, "resource_name": "$t", "configs": [config]}
    return ask(name, "IncrementalAlterConfigs", 1, **{"resources": [resource]} | body)


def _describe(name: str, *settings: str, kind: int = TOPIC, resource: str = "$t") -> Question:
    requested = {"resource_type": kind, "resource_name": resource, "configuration_keys": list(settings) or None}
    return ask(name, "DescribeConfigs", 3, resources=[requested], include_synonyms=True)


def _offsets(name: str, *timestamps: Value) -> Question:
    partitions = [{"partition_index": 0, "timestamp": t} for t in timestamps]
    return ask(name, "ListOffsets", 5, topics=[{"name": "$t", "partitions": partitions}])


TOPIC_RULES = (
    CertifyRule(
        "topic-names",
        _TOPICS,
        "A topic's name has 1 to 249 letters, digits, dots, underscores and hyphens",
        "Topic.validate",
        (
            _create("empty", ""),
            _create("dots", ".."),
            _create("slash", "$a/b"),
            _create("too long", {"@": "text", "of": "x", "times": 250}),  # type: ignore[arg-type]
        ),
    ),
    CertifyRule(
        "topic-numbers",
        _TOPICS,
        "Numbers of partitions and replicas that cannot be are refused",
        "CreateTopics",
        (
            _create("no partition", "$a", num_partitions=0),
            _create("no replica", "$a", replication_factor=0),
            _create("too many replicas", "$a", replication_factor=99),
        ),
    ),
    CertifyRule(
        "topic-exists",
        _TOPICS,
        "A topic is created once; validate_only creates nothing",
        "CreateTopics",
        (
            _create("checked", "$t", validate_only=True),
            *topic(),
            _create("again", "$t"),
            _create("checked again", "$t", validate_only=True),
        ),
    ),
    CertifyRule(
        "topic-twice",
        _TOPICS,
        "A topic that one request names twice is refused",
        "ReplicationControlManager",
        (
            ask(
                "twice",
                "CreateTopics",
                5,
                topics=[{"name": "$t", "num_partitions": 1, "replication_factor": 1}] * 2,
                timeout_ms=TIMEOUT_MS,
            ),
        ),
    ),
    CertifyRule(
        "partitions-grow",
        _TOPICS,
        "Partitions are added and never taken away",
        "CreatePartitions",
        (
            *topic(partitions=2),
            *(
                ask(
                    f"to {count}", "CreatePartitions", 1, topics=[{"name": "$t", "count": count}], timeout_ms=TIMEOUT_MS
                )
                for count in (1, 2, 3)
            ),
        ),
    ),
    CertifyRule(
        "delete-topic",
        _TOPICS,
        "A topic is deleted once",
        "DeleteTopics",
        (
            *topic(),
            ask("deleted", "DeleteTopics", 4, topic_names=["$t"], timeout_ms=TIMEOUT_MS),
            ask("looked at", "Metadata", 8, topics=[{"name": "$t"}], allow_auto_topic_creation=False),
            ask("unknown", "DeleteTopics", 4, topic_names=["$nowhere"], timeout_ms=TIMEOUT_MS),
        ),
    ),
    CertifyRule(
        "authorized-operations",
        _TOPICS,
        "Without an authorizer a request that asks for its operations is given all of them",
        "KIP-430",
        (
            *topic(),
            ask(
                "asked",
                "Metadata",
                8,
                topics=[{"name": "$t"}],
                allow_auto_topic_creation=False,
                include_cluster_authorized_operations=True,
                include_topic_authorized_operations=True,
            ),
            ask("group", "DescribeGroups", 4, groups=["$g"], include_authorized_operations=True),
        ),
    ),
)

SETTING_RULES = (
    CertifyRule(
        "settings-at-creation",
        _SETTINGS,
        "A topic is created with any setting that Kafka knows, and refused with another or a wrong value",
        "LogConfig",
        (
            *topic("$t", min_insync_replicas="1", compression_type="zstd", retention_ms="3600000"),
            _describe("described", "compression.type", "retention.ms"),
            _create("unknown", "$a", configs=[{"name": "no.such.setting", "value": "1"}]),
            _create("wrong", "$b", configs=[{"name": "retention.ms", "value": "soon"}]),
            _create("null", "$c", configs=[{"name": "retention.ms", "value": None}]),
        ),
    ),
    CertifyRule(
        "settings-described",
        _SETTINGS,
        "A topic's setting is described with its type, its source and what it would fall back to",
        "KIP-226, KIP-569",
        (
            *topic("$t", retention_ms="3600000"),
            _describe("own and default", "retention.ms", "retention.bytes", "cleanup.policy", "preallocate"),
            _describe("unknown topic", "retention.ms", resource="$nowhere"),
        ),
    ),
    CertifyRule(
        "settings-altered",
        _SETTINGS,
        "A setting is set and deleted; a wrong value changes nothing; validate_only neither",
        "KIP-339",
        (
            *topic(),
            _alter("set", "retention.ms", "1000"),
            _describe("after set", "retention.ms"),
            _alter("wrong", "retention.ms", "soon"),
            _alter("checked", "retention.ms", "2000", validate_only=True),
            _describe("unchanged", "retention.ms"),
            _alter("deleted", "retention.ms", None, DELETE),
            _describe("after delete", "retention.ms"),
        ),
    ),
    CertifyRule(
        "settings-of-lists",
        _SETTINGS,
        "Values are appended to a list and subtracted from it; other settings are no lists",
        "KIP-339",
        (
            *topic(),
            _alter("appended", "cleanup.policy", "compact", APPEND),
            _describe("both", "cleanup.policy"),
            _alter("subtracted", "cleanup.policy", "delete", SUBTRACT),
            _describe("one", "cleanup.policy"),
            _alter("no list", "retention.ms", "1000", APPEND),
        ),
    ),
)

RECORD_RULES = (
    CertifyRule(
        "damaged-batch",
        _RECORDS,
        "A batch whose checksum is wrong is refused, and nothing is kept",
        "DefaultRecordBatch",
        (*topic(), produce("damaged", batch(damage="crc")), fetch("log")),
    ),
    CertifyRule(
        "acks-known",
        _RECORDS,
        "acks is 0, 1 or -1",
        "Produce",
        (*topic(), produce("two", batch(), acks=2), produce("one", batch(), acks=1), fetch("log")),
    ),
    CertifyRule(
        "too-large",
        _RECORDS,
        "A batch beyond max.message.bytes is refused",
        "max.message.bytes",
        (*topic("$t", max_message_bytes="1000"), produce("large", batch(["k", "x" * 2000, -1000])), fetch("log")),
    ),
    CertifyRule(
        "keys-for-compaction",
        _RECORDS,
        "A compacted topic refuses a batch with a record that has no key, and names the record",
        "KIP-467",
        (
            *topic("$t", cleanup_policy="compact"),
            produce("one without", batch(["k", "v", -1000], [None, "v", -1000])),
            produce("all with", batch(["k", "v", -1000])),
            fetch("log"),
        ),
    ),
    CertifyRule(
        "append-time",
        _RECORDS,
        "With LogAppendTime the broker returns its time to the producer and stores it in the batch",
        "KIP-32",
        (*topic("$t", message_timestamp_type="LogAppendTime"), produce("sent", batch()), fetch("log")),
    ),
    CertifyRule(
        "codecs",
        _RECORDS,
        "Batches are kept in the codec they came in",
        "KIP-110",
        (*topic(), *(produce(f"codec {n}", batch(codec=n)) for n in range(5)), fetch("log")),
    ),
    CertifyRule(
        "recompressed",
        _RECORDS,
        "A topic with a codec of its own recompresses what comes in another",
        "compression.type",
        (
            *topic("$t", compression_type="gzip"),
            produce("plain", batch()),
            produce("lz4", batch(codec=3)),
            fetch("log"),
        ),
    ),
    CertifyRule(
        "unknown-topic",
        _RECORDS,
        "Produce, Fetch and ListOffsets of a topic that does not exist",
        "KafkaApis",
        (
            *topic(),
            produce("sent", batch(), "$nowhere"),
            fetch("fetched", topic="$nowhere"),
            ask(
                "listed",
                "ListOffsets",
                5,
                topics=[{"name": "$nowhere", "partitions": [{"partition_index": 0, "timestamp": -1}]}],
            ),
        ),
    ),
    CertifyRule(
        "offsets-by-time",
        _RECORDS,
        "ListOffsets gives the first, the next, and the first offset from a time on",
        "KIP-79",
        (
            *topic(),
            produce("sent", batch(["a", "1", -3000], ["b", "2", -2000], ["c", "3", -1000])),
            _offsets("earliest", -2),
            _offsets("latest", -1),
            _offsets("by time", {"@": "now", "ms": -2500}),
            _offsets("too late", {"@": "now", "ms": 60_000}),
        ),
    ),
    CertifyRule(
        "offset-out-of-range",
        _RECORDS,
        "A fetch beyond the end of the log, or before its start, is refused",
        "ReplicaManager",
        (
            *topic(),
            produce("sent", batch(["a", "1", -3000], ["b", "2", -2000])),
            fetch("beyond", 99),
            ask(
                "records deleted",
                "DeleteRecords",
                1,
                topics=[{"name": "$t", "partitions": [{"partition_index": 0, "offset": 1}]}],
                timeout_ms=TIMEOUT_MS,
            ),
            fetch("before the start", 0),
            _offsets("earliest", -2),
            ask(
                "deleted beyond the end",
                "DeleteRecords",
                1,
                topics=[{"name": "$t", "partitions": [{"partition_index": 0, "offset": 99}]}],
                timeout_ms=TIMEOUT_MS,
            ),
        ),
    ),
    CertifyRule(
        "leader-epochs",
        _RECORDS,
        "A leader epoch that is not known yet is refused; one that is known has an end",
        "KIP-320",
        (
            *topic(),
            produce("sent", batch()),
            *(
                ask(
                    f"epoch {epoch}",
                    "OffsetForLeaderEpoch",
                    3,
                    topics=[{"topic": "$t", "partitions": [{"partition": 0, "leader_epoch": epoch}]}],
                )
                for epoch in (0, 9)
            ),
        ),
    ),
)


def _session(name: str, epoch: int, topics: list[Value], session: Value | None = None) -> Question:
    known = {"@": "id", "of": "session@opened", "or": 0} if session is None else session
    return fetch(name, session_id=known, session_epoch=epoch, topics=topics)


_BOTH: list[Value] = [
    {"topic": name, "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1_000_000}]}
    for name in ("$t", "$u")
]

SESSION_RULES = (
    CertifyRule(
        "epoch-decides",
        _SESSIONS,
        "Epochs 0 and -1 are full fetches whatever the session id; others need a session",
        "KIP-227",
        (
            *topic(),
            produce("sent", batch()),
            _session("new", 0, _BOTH[:1], 4711),
            _session("last", -1, _BOTH[:1], 4711),
            _session("unknown session", 1, _BOTH[:1], 4711),
        ),
    ),
    CertifyRule(
        "only-what-changed",
        _SESSIONS,
        "An incremental fetch returns the partitions that have something new",
        "KIP-227",
        (
            *topic("$t"),
            *topic("$u"),
            _session("opened", 0, _BOTH, 0),
            _session("nothing new", 1, []),
            produce("sent", batch(), "$u"),
            _session("one new", 2, []),
            _session("wrong epoch", 9, []),
            ask(
                "forgets",
                "Fetch",
                11,
                max_wait_ms=0,
                session_id={"@": "id", "of": "session@opened", "or": 0},
                session_epoch=3,
                forgotten_topics_data=[{"topic": "$u", "partitions": [0]}],
            ),
            _session("closed", -1, []),
            _session("after the close", 4, []),
        ),
    ),
)
