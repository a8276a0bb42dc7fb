"""The broker settings that coterie uses, with Kafka's names; those of Kafka that do nothing here stand in `kafka_only`.

Facts: `kafka.server.KafkaConfig` of Kafka 3.9. Defaults that differ from Kafka's are those of a broker on its own.
"""

from __future__ import annotations

from coterie.broker.settings.kafka_only import KAFKA_ONLY
from coterie.broker.settings.setting import MAX_INT, MAX_LONG, Kind, Rule, Setting, Update, Value, at_least
from coterie.broker.settings.topic_table import TOPIC_SETTINGS

_MAX_PARTITIONS = 100_000
_READ_ONLY, _CLUSTER_WIDE = Update.READ_ONLY, Update.CLUSTER_WIDE


def _setting(
    name: str, kind: Kind, default: Value, rule: Rule | None, documentation: str, *, update: Update = _READ_ONLY
) -> Setting:
    return Setting(name, kind, default, rule, documentation, update=update)


_OWN = (
    _setting("node.id", Kind.INT, 1, at_least(0), "The id of this broker."),
    _setting("broker.id", Kind.INT, 1, at_least(0), "The id of this broker; an older name of node.id."),
    _setting(
        "listeners",
        Kind.STRING,
        "PLAINTEXT://:9092",
        None,
        "NAME://HOST:PORT to listen on, where --listen gives no address; the first PLAINTEXT one counts.",
    ),
    _setting(
        "advertised.listeners",
        Kind.STRING,
        None,
        None,
        "The HOST:PORT that clients connect to; without it, the address at which a client came in.",
    ),
    _setting("log.dirs", Kind.STRING, None, None, "The data folder, where --data gives none; coterie uses one."),
    _setting("log.dir", Kind.STRING, "/tmp/kafka-logs", None, "The data folder, where log.dirs gives none."),
    _setting(
        "num.partitions", Kind.INT, 1, at_least(1, _MAX_PARTITIONS), "Partitions of a topic whose creator names none."
    ),
    _setting(
        "auto.create.topics.enable", Kind.BOOLEAN, True, None, "Whether a request for a topic's metadata creates it."
    ),
    _setting("default.replication.factor", Kind.INT, 1, at_least(1), "Replicas of a topic; here always 1."),
    _setting("delete.topic.enable", Kind.BOOLEAN, True, None, "Whether topics can be deleted."),
    _setting(
        "socket.request.max.bytes",
        Kind.INT,
        104_857_600,
        at_least(1),
        "The largest request; the connection of a larger one is closed.",
    ),
    _setting(
        "coterie.request.max.elements",
        Kind.INT,
        100_000,
        at_least(1),
        "The most elements of arrays in one request, in all; the connection of a larger one is closed. Kafka has no limit.",
    ),
    _setting(
        "queued.max.request.bytes",
        Kind.LONG,
        -1,
        None,
        "The most bytes of requests that are being received, of all connections; further ones wait. Below 0: no limit.",
    ),
    _setting(
        "coterie.queued.max.response.bytes",
        Kind.LONG,
        104_857_600,
        None,
        "The most bytes of answers that clients have not read, of all connections; fetches wait then. Below 0: no limit.",
    ),
    _setting(
        "coterie.connections.max.stalled.ms",
        Kind.LONG,
        30_000,
        at_least(1),
        "A connection is closed that has stood still for so long with bytes of the two limits before, while they lack.",
    ),
    _setting(
        "max.connections",
        Kind.INT,
        10_000,
        at_least(1),
        "The most connections; those beyond it are closed at once.",
        update=_CLUSTER_WIDE,
    ),
    _setting(
        "connections.max.idle.ms", Kind.LONG, 600_000, None, "An idle connection is closed after it; below 0: never."
    ),
    _setting("fetch.max.bytes", Kind.INT, 57_671_680, at_least(1024), "The largest answer to a fetch request."),
    _setting(
        "telemetry.max.bytes",
        Kind.INT,
        1_048_576,
        at_least(1),
        "The most bytes of metrics that a client may push at once.",
    ),
    _setting(
        "max.request.partition.size.limit",
        Kind.INT,
        2_000,
        at_least(1),
        "The most partitions in an answer to DescribeTopicPartitions.",
    ),
    _setting(
        "max.incremental.fetch.session.cache.slots",
        Kind.INT,
        1_000,
        at_least(0),
        "The most incremental fetch sessions that are kept; 0: every fetch is answered in full.",
    ),
    _setting(
        "log.retention.check.interval.ms", Kind.LONG, 300_000, at_least(1), "How often old segments are looked for."
    ),
    _setting("log.cleaner.enable", Kind.BOOLEAN, True, None, "Whether logs of cleanup.policy=compact are compacted."),
    _setting(
        "log.cleaner.backoff.ms",
        Kind.LONG,
        15_000,
        at_least(0),
        "How often logs to compact are looked for.",
        update=_CLUSTER_WIDE,
    ),
    _setting("group.min.session.timeout.ms", Kind.INT, 6_000, None, "The shortest session timeout of a member."),
    _setting("group.max.session.timeout.ms", Kind.INT, 1_800_000, None, "The longest session timeout of a member."),
    _setting(
        "group.initial.rebalance.delay.ms",
        Kind.INT,
        3_000,
        None,
        "How long the first rebalance of an empty group waits for further members.",
    ),
    _setting("group.max.size", Kind.INT, MAX_INT, at_least(1), "The most members of a group."),
    _setting("offset.metadata.max.bytes", Kind.INT, 4_096, None, "The longest metadata of a committed offset."),
    _setting("offsets.topic.num.partitions", Kind.INT, 50, at_least(1, 10_000), "Partitions of __consumer_offsets."),
    _setting("offsets.topic.segment.bytes", Kind.INT, 104_857_600, at_least(1), "segment.bytes of __consumer_offsets."),
    _setting(
        "offsets.topic.replication.factor", Kind.SHORT, 1, at_least(1), "Replicas of __consumer_offsets; here always 1."
    ),
    _setting("offsets.retention.minutes", Kind.INT, 10_080, at_least(1), "How long an empty group keeps its offsets."),
    _setting(
        "offsets.retention.check.interval.ms", Kind.LONG, 600_000, at_least(1), "How often old offsets are looked for."
    ),
    _setting(
        "transaction.state.log.num.partitions",
        Kind.INT,
        50,
        at_least(1, 10_000),
        "Partitions of __transaction_state.",
    ),
    _setting(
        "transaction.state.log.segment.bytes",
        Kind.INT,
        104_857_600,
        at_least(1),
        "segment.bytes of __transaction_state.",
    ),
    _setting("transaction.max.timeout.ms", Kind.INT, 900_000, at_least(1), "The longest timeout of a transaction."),
    _setting(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        Kind.INT,
        10_000,
        at_least(1),
        "How often transactions beyond their timeout are looked for.",
    ),
    _setting(
        "producer.id.expiration.ms",
        Kind.INT,
        86_400_000,
        at_least(1),
        "How long the sequence of a silent producer is remembered.",
        update=_CLUSTER_WIDE,
    ),
    _setting(
        "zookeeper.connect",
        Kind.STRING,
        None,
        None,
        "HOST:PORT[/CHROOT] of a ZooKeeper to register in, for consumers of Kafka 0.8's kind.",
    ),
    _setting("zookeeper.session.timeout.ms", Kind.INT, 6_000, at_least(100), "The session timeout of ZooKeeper."),
    _setting("zookeeper.connection.timeout.ms", Kind.INT, 6_000, at_least(100), "How long to wait for ZooKeeper."),
    _setting(
        "coterie.journal.enable", Kind.BOOLEAN, True, None, "Whether group events go to the topic __coterie_journal."
    ),
    _setting(
        "coterie.group.sync.timeout.enable",
        Kind.BOOLEAN,
        True,
        None,
        "false: as Kafka 2.6, where a member that never syncs blocks its group.",
    ),
    _setting(
        "coterie.group.pending.leave.rebalance.enable",
        Kind.BOOLEAN,
        True,
        None,
        "false: as Kafka before 4, where a leaving member id that was never used starts no rebalance.",
    ),
)

_RETENTION = Rule("at least 1, or below 0 for no limit", lambda value: value != 0)
# Broker settings that are the default of a topic setting and differ from it in more than the name: kind, default, rule.
_TOPIC_DEFAULTS: dict[str, tuple[Kind, Value, Rule | None]] = {
    "log.flush.interval.ms": (Kind.LONG, None, None),
    "log.flush.scheduler.interval.ms": (Kind.LONG, MAX_LONG, None),
    "log.retention.ms": (Kind.LONG, None, _RETENTION),
    "log.retention.minutes": (Kind.INT, None, _RETENTION),
    "log.retention.hours": (Kind.INT, 168, _RETENTION),
    "log.roll.ms": (Kind.LONG, None, at_least(1)),
    "log.roll.hours": (Kind.INT, 168, at_least(1)),
    "log.roll.jitter.ms": (Kind.LONG, None, at_least(0)),
    "log.roll.jitter.hours": (Kind.INT, 0, at_least(0)),
}
_START_ONLY = frozenset(
    {
        "log.flush.scheduler.interval.ms",
        "log.message.format.version",
        "log.retention.hours",
        "log.retention.minutes",
        "log.roll.hours",
        "log.roll.jitter.hours",
    }
)


def _defaults_of_topics() -> list[Setting]:
    """A broker setting for each synonym of a topic setting, of the same kind, default and rule unless listed above."""
    settings = []
    for topic_setting in TOPIC_SETTINGS.values():
        topic = topic_setting.setting
        for name, _factor in topic_setting.synonyms:
            kind, default, rule = _TOPIC_DEFAULTS.get(name, (topic.kind, topic.default, topic.rule))
            update = _READ_ONLY if name in _START_ONLY else _CLUSTER_WIDE
            text = f"The default of the topic setting {topic.name}. {topic.documentation}"
            settings.append(Setting(name, kind, default, rule, text, topic.no_effect, update))
    return settings


BROKER_SETTINGS: dict[str, Setting] = {s.name: s for s in (*_OWN, *_defaults_of_topics(), *KAFKA_ONLY)}
