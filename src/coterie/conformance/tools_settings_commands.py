"""The first commands of part `tools`: topics, and the settings of everything that has some, in the order they are run."""

from __future__ import annotations

from coterie.conformance.tools_table import OLD, Accepted, Command, Compare

_SYNONYMS = Accepted(
    "Kafka 3.9 names no synonyms of client metrics' settings; coterie names them, as 4.3",
    r"interval\.ms=10000 sensitive=false synonyms=\{DYNAMIC_CLIENT_METRICS_CONFIG:interval\.ms=10000\}",
    OLD,
)
_LOGGERS = Accepted("each program has its own loggers", r"\nroot=(WARN|INFO|ERROR) ")

_TOPICS = (
    # Kafka 4.3 sets it by itself, for its eligible leader replicas; with it on both sides topics read the same.
    Command("kafka-configs --alter --entity-type brokers --entity-default --add-config min.insync.replicas=1"),
    Command("kafka-topics --create --topic orders --partitions 3 --replication-factor 1"),
    Command("kafka-topics --create --topic orders --partitions 3", when="exists"),
    Command("kafka-topics --create --topic orders --if-not-exists"),
    Command("kafka-topics --create --topic by-default"),
    Command(
        "kafka-topics --create --topic tuned --partitions 1 --config min.insync.replicas=1 --config compression.type=zstd "
        "--config cleanup.policy=compact,delete --config segment.bytes=1048576 --config unclean.leader.election.enable=true"
    ),
    Command("kafka-topics --create --topic strict --config min.insync.replicas=2"),
    Command("kafka-topics --create --topic wrong --config no.such.setting=1"),
    Command("kafka-topics --create --topic wrong --config retention.ms=soon"),
    Command("kafka-topics --create --topic wrong --config cleanup.policy=keep"),
    Command("kafka-topics --create --topic wrong --replication-factor 2"),
    Command("kafka-topics --create --topic wrong --partitions 0"),
    Command("kafka-topics --create --topic wrong/name"),
    Command("kafka-topics --create --topic assigned --replica-assignment 1,1"),
    Command("kafka-topics --create --topic wrong --replica-assignment 9"),
    Command("kafka-topics --create --topic with.dot_and-dash"),
    Command("kafka-topics --list", compare=Compare.ANY_ORDER),
    Command("kafka-topics --list --exclude-internal", compare=Compare.ANY_ORDER),
    Command("kafka-topics --list --topic 'o.*|tuned'", compare=Compare.ANY_ORDER),
    Command("kafka-topics --describe --topic orders"),
    Command("kafka-topics --describe --topic tuned"),
    Command("kafka-topics --describe --exclude-internal", compare=Compare.ANY_ORDER),
    Command("kafka-topics --describe --topic __consumer_offsets"),
    Command("kafka-topics --describe --topic __transaction_state"),
    Command("kafka-topics --describe --topic nowhere"),
    Command("kafka-topics --describe --topic nowhere --if-exists"),
    Command("kafka-topics --describe --topic-id AAAAAAAAAAAAAAAAAAAAAQ"),
    Command("kafka-topics --describe --topic orders --partition-size-limit-per-response 2"),
    Command("kafka-topics --describe --under-replicated-partitions"),
    Command("kafka-topics --describe --at-min-isr-partitions", compare=Compare.ANY_ORDER),
    Command("kafka-topics --describe --under-min-isr-partitions"),
    Command("kafka-topics --describe --unavailable-partitions"),
    Command("kafka-topics --describe --topics-with-overrides", compare=Compare.ANY_ORDER),
    Command("kafka-topics --alter --topic orders --partitions 4"),
    Command("kafka-topics --alter --topic orders --partitions 2"),
    Command("kafka-topics --alter --topic orders --partitions 5 --replica-assignment 1,1,1,1,1"),
    Command("kafka-topics --alter --topic nowhere --partitions 2"),
    Command("kafka-topics --alter --topic nowhere --partitions 2 --if-exists"),
    Command("kafka-topics --delete --topic by-default"),
    Command("kafka-topics --delete --topic nowhere"),
    Command("kafka-topics --delete --topic nowhere --if-exists"),
    Command("kafka-topics --list --topic by-default", when="deleted"),
)

_TOPIC_CONFIGS = (
    Command("kafka-configs --describe --entity-type topics --entity-name orders"),
    Command("kafka-configs --describe --entity-type topics --entity-name orders --all"),
    Command("kafka-configs --describe --entity-type topics --entity-name tuned"),
    Command("kafka-configs --describe --entity-type topics --entity-name nowhere"),
    Command("kafka-configs --alter --entity-type topics --entity-name orders --add-config retention.ms=3600000"),
    Command(
        "kafka-configs --alter --entity-type topics --entity-name orders --add-config "
        "cleanup.policy=[compact,delete],min.cleanable.dirty.ratio=0.2"
    ),
    Command("kafka-configs --alter --entity-type topics --entity-name orders --add-config retention.ms=soon"),
    Command("kafka-configs --alter --entity-type topics --entity-name orders --add-config no.such.setting=1"),
    Command("kafka-configs --alter --entity-type topics --entity-name orders --add-config min.insync.replicas=0"),
    Command(
        "kafka-configs --alter --entity-type topics --entity-name orders --add-config-file {folder}/topic.properties"
    ),
    Command("kafka-configs --alter --entity-type topics --entity-name nowhere --add-config retention.ms=1"),
    Command("kafka-configs --describe --entity-type topics --entity-name orders", when="altered"),
    Command("kafka-configs --alter --entity-type topics --entity-name orders --delete-config cleanup.policy"),
    Command("kafka-configs --alter --entity-type topics --entity-name orders --delete-config segment.ms"),
    Command("kafka-configs --describe --topic orders", when="reset"),
    Command("kafka-configs --describe --entity-type topics", compare=Compare.ANY_ORDER),
)

_BROKER_CONFIGS = (
    Command("kafka-configs --describe --entity-type brokers --entity-name 1"),
    Command(
        "kafka-configs --describe --entity-type brokers --entity-name 1 --all",
        compare=Compare.SHARED_KEYS | Compare.ANY_ORDER,
    ),
    Command("kafka-configs --describe --entity-type brokers --entity-default"),
    Command("kafka-configs --describe --entity-type brokers --entity-name 9"),
    Command("kafka-configs --alter --entity-type brokers --entity-name 1 --add-config log.retention.ms=86400000"),
    Command("kafka-configs --alter --entity-type brokers --entity-default --add-config message.max.bytes=2000000"),
    Command("kafka-configs --alter --entity-type brokers --entity-name 1 --add-config num.partitions=2"),
    Command("kafka-configs --alter --entity-type brokers --entity-name 1 --add-config log.cleaner.threads=many"),
    Command("kafka-configs --alter --entity-type brokers --entity-name 1 --add-config auto.create.topics.enable=true"),
    Command("kafka-configs --describe --broker 1", when="altered"),
    Command("kafka-configs --describe --broker-defaults", when="altered"),
    Command("kafka-configs --alter --entity-type brokers --entity-name 1 --delete-config log.retention.ms"),
    Command("kafka-configs --alter --entity-type brokers --entity-default --delete-config message.max.bytes"),
    Command("kafka-configs --describe --entity-type brokers", when="reset"),
    Command("kafka-configs --describe --entity-type broker-loggers --entity-name 1", accepted=_LOGGERS),
    Command("kafka-configs --alter --entity-type broker-loggers --entity-name 1 --add-config kafka.server=DEBUG"),
    Command("kafka-configs --alter --entity-type broker-loggers --entity-name 1 --add-config kafka.server=LOUD"),
    Command("kafka-configs --alter --entity-type broker-loggers --entity-name 1 --delete-config kafka.server"),
)

_OTHER_CONFIGS = (
    Command("kafka-configs --describe --entity-type clients"),
    Command("kafka-configs --alter --entity-type clients --entity-name app --add-config consumer_byte_rate=1048576"),
    Command("kafka-configs --alter --entity-type clients --entity-default --add-config request_percentage=50"),
    Command("kafka-configs --alter --entity-type clients --entity-name app --add-config no_such_quota=1"),
    Command("kafka-configs --alter --entity-type clients --entity-name app --add-config producer_byte_rate=fast"),
    Command("kafka-configs --describe --entity-type clients", when="altered", compare=Compare.ANY_ORDER),
    Command("kafka-configs --alter --entity-type clients --entity-name app --delete-config consumer_byte_rate"),
    Command("kafka-configs --alter --entity-type clients --entity-default --delete-config request_percentage"),
    Command("kafka-configs --describe --entity-type clients --entity-name app", when="reset"),
    Command("kafka-configs --alter --entity-type users --entity-name anna --add-config producer_byte_rate=2048"),
    Command(
        "kafka-configs --alter --entity-type users --entity-name anna --entity-type clients --entity-name app "
        "--add-config consumer_byte_rate=4096"
    ),
    Command("kafka-configs --describe --entity-type users --entity-name anna"),
    Command("kafka-configs --describe --entity-type users --entity-type clients", compare=Compare.ANY_ORDER),
    Command(
        "kafka-configs --alter --entity-type users --entity-name anna "
        "--add-config SCRAM-SHA-256=[iterations=8192,password=secret]"
    ),
    Command("kafka-configs --describe --user anna", when="with SCRAM"),
    Command("kafka-configs --alter --entity-type users --entity-name anna --delete-config SCRAM-SHA-256"),
    Command("kafka-configs --alter --entity-type users --entity-name nobody --delete-config SCRAM-SHA-512"),
    Command("kafka-configs --describe --entity-type users --entity-name nobody"),
    Command("kafka-configs --alter --entity-type users --entity-default --add-config request_percentage=75"),
    Command("kafka-configs --describe --user-defaults"),
    Command("kafka-configs --alter --entity-type users --entity-default --delete-config request_percentage"),
    Command("kafka-configs --alter --entity-type ips --entity-name 127.0.0.9 --add-config connection_creation_rate=10"),
    Command("kafka-configs --describe --entity-type ips", compare=Compare.ANY_ORDER),
    Command("kafka-configs --alter --entity-type ips --entity-name 127.0.0.9 --delete-config connection_creation_rate"),
    Command(
        "kafka-configs --alter --entity-type client-metrics --entity-name watch --add-config interval.ms=10000,metrics=[a,b]"
    ),
    Command("kafka-configs --alter --entity-type client-metrics --entity-name watch --add-config interval.ms=1"),
    Command("kafka-configs --describe --entity-type client-metrics", accepted=_SYNONYMS),
    Command("kafka-configs --describe --entity-type client-metrics --entity-name watch", accepted=_SYNONYMS),
    Command(
        "kafka-configs --alter --entity-type client-metrics --entity-name watch --delete-config interval.ms,metrics"
    ),
    Command(
        "kafka-configs --alter --entity-type groups --entity-name active --add-config consumer.session.timeout.ms=50000"
    ),
    Command("kafka-configs --describe --entity-type groups --entity-name active"),
    Command("kafka-configs --describe --entity-type groups", compare=Compare.ANY_ORDER),
    Command(
        "kafka-configs --alter --entity-type groups --entity-name active --delete-config consumer.session.timeout.ms"
    ),
)

TOPICS_AND_SETTINGS = (*_TOPICS, *_TOPIC_CONFIGS, *_BROKER_CONFIGS, *_OTHER_CONFIGS)
