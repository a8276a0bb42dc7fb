"""The first commands of part `tools`: topics, and the settings of everything that has some, in the order they are run."""

from __future__ import annotations

from coterie_conformance.tools.table import OLD, Accepted, Compare, ToolCommand

_SYNONYMS = Accepted(
    "Kafka 3.9 names no synonyms of client metrics' settings; coterie names them, as 4.3",
    r"interval\.ms=10000 sensitive=false synonyms=\{DYNAMIC_CLIENT_METRICS_CONFIG:interval\.ms=10000\}",
    OLD,
)
_LOGGERS = Accepted("each program has its own loggers", r"\nroot=(WARN|INFO|ERROR) ")

_TOPICS = (
    # Kafka 4.3 sets it by itself, for its eligible leader replicas; with it on both sides topics read the same.
    ToolCommand("kafka-configs --alter --entity-type brokers --entity-default --add-config min.insync.replicas=1"),
    ToolCommand("kafka-topics --create --topic orders --partitions 3 --replication-factor 1"),
    ToolCommand("kafka-topics --create --topic orders --partitions 3", when="exists"),
    ToolCommand("kafka-topics --create --topic orders --if-not-exists"),
    ToolCommand("kafka-topics --create --topic by-default"),
    ToolCommand(
        "kafka-topics --create --topic tuned --partitions 1 --config min.insync.replicas=1 --config compression.type=zstd "
        "--config cleanup.policy=compact,delete --config segment.bytes=1048576 --config unclean.leader.election.enable=true"
    ),
    ToolCommand("kafka-topics --create --topic strict --config min.insync.replicas=2"),
    ToolCommand("kafka-topics --create --topic wrong --config no.such.setting=1"),
    ToolCommand("kafka-topics --create --topic wrong --config retention.ms=soon"),
    ToolCommand("kafka-topics --create --topic wrong --config cleanup.policy=keep"),
    ToolCommand("kafka-topics --create --topic wrong --replication-factor 2"),
    ToolCommand("kafka-topics --create --topic wrong --partitions 0"),
    ToolCommand("kafka-topics --create --topic wrong/name"),
    ToolCommand("kafka-topics --create --topic assigned --replica-assignment 1,1"),
    ToolCommand("kafka-topics --create --topic wrong --replica-assignment 9"),
    ToolCommand("kafka-topics --create --topic with.dot_and-dash"),
    ToolCommand("kafka-topics --list", compare=Compare.ANY_ORDER),
    ToolCommand("kafka-topics --list --exclude-internal", compare=Compare.ANY_ORDER),
    ToolCommand("kafka-topics --list --topic 'o.*|tuned'", compare=Compare.ANY_ORDER),
    ToolCommand("kafka-topics --describe --topic orders"),
    ToolCommand("kafka-topics --describe --topic tuned"),
    ToolCommand("kafka-topics --describe --exclude-internal", compare=Compare.ANY_ORDER),
    ToolCommand("kafka-topics --describe --topic __consumer_offsets"),
    ToolCommand("kafka-topics --describe --topic __transaction_state"),
    ToolCommand("kafka-topics --describe --topic nowhere"),
    ToolCommand("kafka-topics --describe --topic nowhere --if-exists"),
    ToolCommand("kafka-topics --describe --topic-id AAAAAAAAAAAAAAAAAAAAAQ"),
    ToolCommand("kafka-topics --describe --topic orders --partition-size-limit-per-response 2"),
    ToolCommand("kafka-topics --describe --under-replicated-partitions"),
    ToolCommand("kafka-topics --describe --at-min-isr-partitions", compare=Compare.ANY_ORDER),
    ToolCommand("kafka-topics --describe --under-min-isr-partitions"),
    ToolCommand("kafka-topics --describe --unavailable-partitions"),
    ToolCommand("kafka-topics --describe --topics-with-overrides", compare=Compare.ANY_ORDER),
    ToolCommand("kafka-topics --alter --topic orders --partitions 4"),
    ToolCommand("kafka-topics --alter --topic orders --partitions 2"),
    ToolCommand("kafka-topics --alter --topic orders --partitions 5 --replica-assignment 1,1,1,1,1"),
    ToolCommand("kafka-topics --alter --topic nowhere --partitions 2"),
    ToolCommand("kafka-topics --alter --topic nowhere --partitions 2 --if-exists"),
    ToolCommand("kafka-topics --delete --topic by-default"),
    ToolCommand("kafka-topics --delete --topic nowhere"),
    ToolCommand("kafka-topics --delete --topic nowhere --if-exists"),
    ToolCommand("kafka-topics --list --topic by-default", when="deleted"),
)

_TOPIC_CONFIGS = (
    ToolCommand("kafka-configs --describe --entity-type topics --entity-name orders"),
    ToolCommand("kafka-configs --describe --entity-type topics --entity-name orders --all"),
    ToolCommand("kafka-configs --describe --entity-type topics --entity-name tuned"),
    ToolCommand("kafka-configs --describe --entity-type topics --entity-name nowhere"),
    ToolCommand("kafka-configs --alter --entity-type topics --entity-name orders --add-config retention.ms=3600000"),
    ToolCommand(
        "kafka-configs --alter --entity-type topics --entity-name orders --add-config "
        "cleanup.policy=[compact,delete],min.cleanable.dirty.ratio=0.2"
    ),
    ToolCommand("kafka-configs --alter --entity-type topics --entity-name orders --add-config retention.ms=soon"),
    ToolCommand("kafka-configs --alter --entity-type topics --entity-name orders --add-config no.such.setting=1"),
    ToolCommand("kafka-configs --alter --entity-type topics --entity-name orders --add-config min.insync.replicas=0"),
    ToolCommand(
        "kafka-configs --alter --entity-type topics --entity-name orders --add-config-file {folder}/topic.properties"
    ),
    ToolCommand("kafka-configs --alter --entity-type topics --entity-name nowhere --add-config retention.ms=1"),
    ToolCommand("kafka-configs --describe --entity-type topics --entity-name orders", when="altered"),
    ToolCommand("kafka-configs --alter --entity-type topics --entity-name orders --delete-config cleanup.policy"),
    ToolCommand("kafka-configs --alter --entity-type topics --entity-name orders --delete-config segment.ms"),
    ToolCommand("kafka-configs --describe --topic orders", when="reset"),
    ToolCommand("kafka-configs --describe --entity-type topics", compare=Compare.ANY_ORDER),
)

_BROKER_CONFIGS = (
    ToolCommand("kafka-configs --describe --entity-type brokers --entity-name 1"),
    ToolCommand(
        "kafka-configs --describe --entity-type brokers --entity-name 1 --all",
        compare=Compare.SHARED_KEYS | Compare.ANY_ORDER,
    ),
    ToolCommand("kafka-configs --describe --entity-type brokers --entity-default"),
    ToolCommand("kafka-configs --describe --entity-type brokers --entity-name 9"),
    ToolCommand("kafka-configs --alter --entity-type brokers --entity-name 1 --add-config log.retention.ms=86400000"),
    ToolCommand("kafka-configs --alter --entity-type brokers --entity-default --add-config message.max.bytes=2000000"),
    ToolCommand("kafka-configs --alter --entity-type brokers --entity-name 1 --add-config num.partitions=2"),
    ToolCommand("kafka-configs --alter --entity-type brokers --entity-name 1 --add-config log.cleaner.threads=many"),
    ToolCommand(
        "kafka-configs --alter --entity-type brokers --entity-name 1 --add-config auto.create.topics.enable=true"
    ),
    ToolCommand("kafka-configs --describe --broker 1", when="altered"),
    ToolCommand("kafka-configs --describe --broker-defaults", when="altered"),
    ToolCommand("kafka-configs --alter --entity-type brokers --entity-name 1 --delete-config log.retention.ms"),
    ToolCommand("kafka-configs --alter --entity-type brokers --entity-default --delete-config message.max.bytes"),
    ToolCommand("kafka-configs --describe --entity-type brokers", when="reset"),
    ToolCommand("kafka-configs --describe --entity-type broker-loggers --entity-name 1", accepted=_LOGGERS),
    ToolCommand("kafka-configs --alter --entity-type broker-loggers --entity-name 1 --add-config kafka.server=DEBUG"),
    ToolCommand("kafka-configs --alter --entity-type broker-loggers --entity-name 1 --add-config kafka.server=LOUD"),
    ToolCommand("kafka-configs --alter --entity-type broker-loggers --entity-name 1 --delete-config kafka.server"),
)

_OTHER_CONFIGS = (
    ToolCommand("kafka-configs --describe --entity-type clients"),
    ToolCommand(
        "kafka-configs --alter --entity-type clients --entity-name app --add-config consumer_byte_rate=1048576"
    ),
    ToolCommand("kafka-configs --alter --entity-type clients --entity-default --add-config request_percentage=50"),
    ToolCommand("kafka-configs --alter --entity-type clients --entity-name app --add-config no_such_quota=1"),
    ToolCommand("kafka-configs --alter --entity-type clients --entity-name app --add-config producer_byte_rate=fast"),
    ToolCommand("kafka-configs --describe --entity-type clients", when="altered", compare=Compare.ANY_ORDER),
    ToolCommand("kafka-configs --alter --entity-type clients --entity-name app --delete-config consumer_byte_rate"),
    ToolCommand("kafka-configs --alter --entity-type clients --entity-default --delete-config request_percentage"),
    ToolCommand("kafka-configs --describe --entity-type clients --entity-name app", when="reset"),
    ToolCommand("kafka-configs --alter --entity-type users --entity-name anna --add-config producer_byte_rate=2048"),
    ToolCommand(
        "kafka-configs --alter --entity-type users --entity-name anna --entity-type clients --entity-name app "
        "--add-config consumer_byte_rate=4096"
    ),
    ToolCommand("kafka-configs --describe --entity-type users --entity-name anna"),
    ToolCommand("kafka-configs --describe --entity-type users --entity-type clients", compare=Compare.ANY_ORDER),
    ToolCommand(
        "kafka-configs --alter --entity-type users --entity-name anna "
        "--add-config SCRAM-SHA-256=[iterations=8192,password=secret]"
    ),
    ToolCommand("kafka-configs --describe --user anna", when="with SCRAM"),
    ToolCommand("kafka-configs --alter --entity-type users --entity-name anna --delete-config SCRAM-SHA-256"),
    ToolCommand("kafka-configs --alter --entity-type users --entity-name nobody --delete-config SCRAM-SHA-512"),
    ToolCommand("kafka-configs --describe --entity-type users --entity-name nobody"),
    ToolCommand("kafka-configs --alter --entity-type users --entity-default --add-config request_percentage=75"),
    ToolCommand("kafka-configs --describe --user-defaults"),
    ToolCommand("kafka-configs --alter --entity-type users --entity-default --delete-config request_percentage"),
    ToolCommand(
        "kafka-configs --alter --entity-type ips --entity-name 127.0.0.9 --add-config connection_creation_rate=10"
    ),
    ToolCommand("kafka-configs --describe --entity-type ips", compare=Compare.ANY_ORDER),
    ToolCommand(
        "kafka-configs --alter --entity-type ips --entity-name 127.0.0.9 --delete-config connection_creation_rate"
    ),
    ToolCommand(
        "kafka-configs --alter --entity-type client-metrics --entity-name watch --add-config interval.ms=10000,metrics=[a,b]"
    ),
    ToolCommand("kafka-configs --alter --entity-type client-metrics --entity-name watch --add-config interval.ms=1"),
    ToolCommand("kafka-configs --describe --entity-type client-metrics", accepted=_SYNONYMS),
    ToolCommand("kafka-configs --describe --entity-type client-metrics --entity-name watch", accepted=_SYNONYMS),
    ToolCommand(
        "kafka-configs --alter --entity-type client-metrics --entity-name watch --delete-config interval.ms,metrics"
    ),
    ToolCommand(
        "kafka-configs --alter --entity-type groups --entity-name active --add-config consumer.session.timeout.ms=50000"
    ),
    ToolCommand("kafka-configs --describe --entity-type groups --entity-name active"),
    ToolCommand("kafka-configs --describe --entity-type groups", compare=Compare.ANY_ORDER),
    ToolCommand(
        "kafka-configs --alter --entity-type groups --entity-name active --delete-config consumer.session.timeout.ms"
    ),
)

TOPICS_AND_SETTINGS = (*_TOPICS, *_TOPIC_CONFIGS, *_BROKER_CONFIGS, *_OTHER_CONFIGS)
