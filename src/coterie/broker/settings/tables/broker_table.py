"""The broker settings that coterie uses, with Kafka's names; those of Kafka that do nothing here stand in `kafka_only`.

Facts: `kafka.server.KafkaConfig` of Kafka 3.9. Defaults that differ from Kafka's are those of a broker on its own.
"""

from __future__ import annotations

from dataclasses import dataclass

from coterie.broker.settings.address_counts import HOSTS_WITH_COUNTS
from coterie.broker.settings.metadata_versions import is_spoken
from coterie.broker.settings.setting import BrokerSetting, Update, row
from coterie.broker.settings.tables.group_table import SHARE_SETTINGS, STREAMS_SETTINGS
from coterie.broker.settings.tables.kafka_only import KAFKA_ONLY
from coterie.broker.settings.tables.security_table import PROTOCOLS, SECURITY_SETTINGS
from coterie.broker.settings.tables.topic_table import TOPIC_SETTINGS
from coterie.configuration import (
    BOOLEAN,
    INT,
    LIST,
    LONG,
    PASSWORD,
    SHORT,
    STRING,
    Rule,
    ValueType,
    at_least,
    one_of,
    settings_of,
)
from coterie.configuration.value_types import MAX_INT, MAX_LONG
from coterie.coordinator.consumer.state import MigrationPolicy

_MAX_PARTITIONS = 100_000
MIGRATIONS = tuple(policy.value for policy in MigrationPolicy)
_KAFKA_PACKAGE = "org.apache.kafka.coordinator.group.assignor"
# Kafka's class of an assignor of consumer groups -> its name
KAFKA_ASSIGNORS = {f"{_KAFKA_PACKAGE}.UniformAssignor": "uniform", f"{_KAFKA_PACKAGE}.RangeAssignor": "range"}
KAFKA_AUTHORIZERS = (
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "kafka.security.authorizer.AclAuthorizer",
)
KAFKA_VERSION = Rule(
    "a version of Apache Kafka from 2.6 to 3.9, such as 2.6, 2.8.1 or 3.9-IV0", lambda value: is_spoken(str(value))
)
_READ_ONLY, _CLUSTER_WIDE, _PER_BROKER = Update.READ_ONLY, Update.CLUSTER_WIDE, Update.PER_BROKER


def _of_consumer_groups(default: int, documentation: str, minimum: int, update: Update = _READ_ONLY) -> int:
    return row(INT, default, f"{documentation} of a consumer group (KIP-848).", at_least(minimum), update=update)


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """The values of the settings that only the broker has and uses; names, units and defaults are Kafka's."""

    node_id: int = row(INT, 1, "The id of this broker.", at_least(0))
    broker_id: int = row(INT, 1, "The id of this broker; an older name of node.id.", at_least(0))
    listeners: str = row(
        STRING,
        "PLAINTEXT://:9092",
        "NAME://HOST:PORT to listen on, several with commas, where --listen gives no address.",
    )
    advertised_listeners: str | None = row(
        STRING,
        None,
        "NAME://HOST:PORT that the clients of each listener connect to; without it, the address at which a client came in.",
    )
    controller_listener_names: str | None = row(
        STRING, None, "Listeners of controllers, with commas; clients are not served there."
    )
    listener_security_protocol_map: str = row(
        STRING,
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "NAME:PROTOCOL of each listener, with commas. A change counts at the next start.",
        update=_PER_BROKER,
    )
    inter_broker_listener_name: str | None = row(
        STRING, None, "The name of the listener by which brokers reach each other; of a cluster's broker its only one."
    )
    security_inter_broker_protocol: str = row(
        STRING,
        "PLAINTEXT",
        "The protocol of that listener, where inter.broker.listener.name does not name it.",
        one_of(*PROTOCOLS),
    )
    log_dirs: str | None = row(STRING, None, "The data folder, where --data gives none; coterie uses one.")
    log_dir: str = row(STRING, "/tmp/kafka-logs", "The data folder, where log.dirs gives none.")
    num_partitions: int = row(INT, 1, "Partitions of a topic whose creator names none.", at_least(1, _MAX_PARTITIONS))
    auto_create_topics_enable: bool = row(BOOLEAN, True, "Whether a request for a topic's metadata creates it.")
    default_replication_factor: int = row(INT, 1, "Replicas of a topic; of a broker alone 1.", at_least(1))
    delete_topic_enable: bool = row(BOOLEAN, True, "Whether topics can be deleted.")
    socket_request_max_bytes: int = row(
        INT, 104_857_600, "The largest request; the connection of a larger one is closed.", at_least(1)
    )
    coterie_request_max_elements: int = row(
        INT,
        100_000,
        "The most elements of arrays in one request, in all; the connection of a larger one is closed. Kafka has no limit.",
        at_least(1),
    )
    queued_max_request_bytes: int = row(
        LONG,
        -1,
        "The most bytes of requests that are being received, of all connections; further ones wait. Below 0: no limit.",
    )
    coterie_queued_max_response_bytes: int = row(
        LONG,
        104_857_600,
        "The most bytes of responses that clients have not read, of all connections; fetches wait then. Below 0: no limit.",
    )
    coterie_connections_max_stalled_ms: int = row(
        LONG,
        30_000,
        "How long a stalled connection may hold bytes of the two limits above while other requests wait for them.",
        at_least(1),
    )
    authorizer_class_name: str = row(
        STRING,
        "",
        "Set, requests are authorized by ACLs: StandardAuthorizer's rules, or AclAuthorizer's with the ACLs in ZooKeeper.",
        one_of("", *KAFKA_AUTHORIZERS),
    )
    super_users: str = row(
        STRING, "", "Principals that may do everything, User:NAME with semicolons between; for an authorizer."
    )
    allow_everyone_if_no_acl_found: bool = row(BOOLEAN, False, "Whether an authorizer allows what no ACL is about.")
    delegation_token_secret_key: str | None = row(PASSWORD, None, "Signs the tokens, on all brokers the same.")
    delegation_token_master_key: str | None = row(PASSWORD, None, "As that, by its name before Kafka 2.8.")
    delegation_token_max_lifetime_ms: int = row(LONG, 604_800_000, "How long a token can be renewed.", at_least(1))
    delegation_token_expiry_time_ms: int = row(LONG, 86_400_000, "How long a token lives unrenewed.", at_least(1))
    delegation_token_expiry_check_interval_ms: int = row(
        LONG, 3_600_000, "How often delegation tokens that have ended are removed.", at_least(1)
    )
    coterie_inter_broker_addresses: tuple[str, ...] = row(
        LIST,
        (),
        "Without an authorizer: addresses and networks that may send what brokers send, beside registered brokers.",
    )
    max_connections: int = row(
        INT, 10_000, "The most connections; those beyond it are closed at once.", at_least(1), update=_CLUSTER_WIDE
    )
    max_connections_per_ip: int = row(
        INT,
        MAX_INT,
        "The most connections of one address; those beyond it are closed at once.",
        at_least(0),
        update=_CLUSTER_WIDE,
    )
    max_connections_per_ip_overrides: str = row(
        STRING,
        "",
        "ADDRESS:COUNT with commas, in place of max.connections.per.ip for those addresses; names of hosts count for none.",
        HOSTS_WITH_COUNTS,
        update=_CLUSTER_WIDE,
    )
    quota_window_num: int = row(INT, 11, "The samples over which the rates of client quotas are.", at_least(1))
    quota_window_size_seconds: int = row(INT, 1, "How long each of these samples is.", at_least(1))
    controller_quota_window_num: int = row(
        INT, 11, "For how many samples controller_mutation_rate is kept for a burst.", at_least(1)
    )
    controller_quota_window_size_seconds: int = row(INT, 1, "How long each of these is.", at_least(1))
    connections_max_idle_ms: int = row(LONG, 600_000, "An idle connection is closed after it; below 0: never.")
    fetch_max_bytes: int = row(INT, 57_671_680, "The largest response to a fetch request.", at_least(1024))
    telemetry_max_bytes: int = row(
        INT, 1_048_576, "The most bytes of metrics that a client may push at once.", at_least(1)
    )
    coterie_telemetry_enable: bool = row(
        BOOLEAN,
        False,
        "Whether telemetry (KIP-714) is offered to clients before a subscription to client metrics exists.",
    )
    max_request_partition_size_limit: int = row(
        INT, 2_000, "The most partitions in a response to DescribeTopicPartitions.", at_least(1)
    )
    max_incremental_fetch_session_cache_slots: int = row(
        INT,
        1_000,
        "The most incremental fetch sessions that are kept; 0: every fetch is a full one.",
        at_least(0),
    )
    log_retention_check_interval_ms: int = row(LONG, 300_000, "How often old segments are looked for.", at_least(1))
    log_cleaner_enable: bool = row(BOOLEAN, True, "Whether logs of cleanup.policy=compact are compacted.")
    log_cleaner_backoff_ms: int = row(
        LONG, 15_000, "How often logs to compact are looked for.", at_least(0), update=_CLUSTER_WIDE
    )
    group_min_session_timeout_ms: int = row(INT, 6_000, "The shortest session timeout of a member.")
    group_max_session_timeout_ms: int = row(INT, 1_800_000, "The longest session timeout of a member.")
    group_initial_rebalance_delay_ms: int = row(
        INT, 3_000, "How long the first rebalance of an empty group waits for further members."
    )
    group_max_size: int = row(INT, MAX_INT, "The most members of a group.", at_least(1))
    group_coordinator_rebalance_protocols: tuple[str, ...] = row(
        LIST,
        ("classic", "consumer", "streams"),
        "The protocols of groups that are served; without consumer, ConsumerGroupHeartbeat is refused, without streams "
        "StreamsGroupHeartbeat.",
        one_of("classic", "consumer", "share", "streams", "unknown"),
    )
    group_consumer_assignors: tuple[str, ...] = row(
        LIST,
        ("uniform", "range"),
        "The assignors of consumer groups (KIP-848), by name or Kafka's class; the first is that of members that request none.",
        one_of("uniform", "range", *KAFKA_ASSIGNORS),
    )
    group_consumer_session_timeout_ms: int = _of_consumer_groups(45_000, "The session timeout of members", 1)
    group_consumer_min_session_timeout_ms: int = _of_consumer_groups(45_000, "The shortest session timeout", 1)
    group_consumer_max_session_timeout_ms: int = _of_consumer_groups(60_000, "The longest session timeout", 1)
    group_consumer_heartbeat_interval_ms: int = _of_consumer_groups(5_000, "How often members send heartbeats", 1)
    group_consumer_min_heartbeat_interval_ms: int = _of_consumer_groups(5_000, "The shortest heartbeat interval", 1)
    group_consumer_max_heartbeat_interval_ms: int = _of_consumer_groups(15_000, "The longest heartbeat interval", 1)
    group_consumer_assignment_interval_ms: int = _of_consumer_groups(
        1_000, "The least time between two target assignments", 0, _CLUSTER_WIDE
    )
    group_consumer_min_assignment_interval_ms: int = _of_consumer_groups(0, "The shortest assignment interval", 0)
    group_consumer_max_assignment_interval_ms: int = _of_consumer_groups(15_000, "The longest assignment interval", 0)
    group_consumer_migration_policy: str = row(
        STRING,
        "bidirectional",
        "Which groups with members change between the classic and the consumer protocol (KIP-848) while they live.",
        Rule(f"one of {', '.join(MIGRATIONS)}, in any case", lambda value: str(value).lower() in MIGRATIONS),
    )
    group_consumer_max_size: int = _of_consumer_groups(MAX_INT, "The most members", 1)
    offset_metadata_max_bytes: int = row(INT, 4_096, "The longest metadata of a committed offset.")
    offsets_commit_timeout_ms: int = row(
        INT, 5_000, "How long a group's change waits for the replicas of its partition.", at_least(1)
    )
    offsets_topic_num_partitions: int = row(INT, 50, "Partitions of __consumer_offsets.", at_least(1, 10_000))
    offsets_topic_segment_bytes: int = row(INT, 104_857_600, "segment.bytes of __consumer_offsets.", at_least(1))
    offsets_topic_replication_factor: int = row(
        SHORT, 1, "Replicas of __consumer_offsets; of a broker alone 1.", at_least(1)
    )
    offsets_retention_minutes: int = row(INT, 10_080, "How long an empty group keeps its offsets.", at_least(1))
    offsets_retention_check_interval_ms: int = row(LONG, 600_000, "How often old offsets are looked for.", at_least(1))
    transaction_state_log_num_partitions: int = row(INT, 50, "Partitions of __transaction_state.", at_least(1, 10_000))
    transaction_state_log_segment_bytes: int = row(
        INT, 104_857_600, "segment.bytes of __transaction_state.", at_least(1)
    )
    transaction_state_log_replication_factor: int = row(
        SHORT, 3, "Replicas of __transaction_state, in a cluster.", at_least(1)
    )
    transaction_state_log_min_isr: int = row(
        INT, 2, "min.insync.replicas of __transaction_state, in a cluster.", at_least(1)
    )
    transaction_max_timeout_ms: int = row(INT, 900_000, "The longest timeout of a transaction.", at_least(1))
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = row(
        INT, 10_000, "How often transactions beyond their timeout are looked for.", at_least(1)
    )
    transactional_id_expiration_ms: int = row(
        INT, 604_800_000, "How long a transactional id is kept without a request of its producer.", at_least(1)
    )
    transaction_remove_expired_transaction_cleanup_interval_ms: int = row(
        INT, 3_600_000, "How often expired transactional ids are looked for.", at_least(1)
    )
    producer_id_expiration_ms: int = row(
        INT, 86_400_000, "How long the sequence of a silent producer is remembered.", at_least(1), update=_CLUSTER_WIDE
    )
    zookeeper_connect: str | None = row(
        STRING,
        None,
        "HOST:PORT[/CHROOT] of ZooKeeper, several with commas: with broker.id the broker joins the cluster there; without, "
        "it is alone and registers for consumers of Kafka 0.8's kind.",
    )
    zookeeper_session_timeout_ms: int = row(
        INT,
        6_000,
        "The session timeout of ZooKeeper; in a cluster, after which a broker counts as dead.",
        at_least(100),
    )
    zookeeper_connection_timeout_ms: int = row(INT, 6_000, "How long to wait for ZooKeeper.", at_least(100))
    zookeeper_set_acl: bool = row(
        BOOLEAN,
        False,
        "Whether nodes in ZooKeeper may be changed only by the login that made them, and users' read only by it; "
        "coterie.zookeeper.digest is the login.",
    )
    coterie_zookeeper_digest: str | None = row(
        PASSWORD, None, "USER:PASSWORD by which the broker logs in to ZooKeeper (scheme digest); Kafka logs in by SASL."
    )
    inter_broker_protocol_version: str = row(
        STRING,
        "3.9-IV0",
        "The oldest Apache Kafka among the brokers of a cluster; below 2.8 nothing is used that it lacks.",
        KAFKA_VERSION,
    )
    broker_rack: str | None = row(STRING, None, "The rack of this broker, in a cluster.")
    controlled_shutdown_enable: bool = row(
        BOOLEAN, True, "Whether the controller moves this broker's leaders before it stops."
    )
    controlled_shutdown_max_retries: int = row(INT, 3, "How often a controlled shutdown is requested.")
    controlled_shutdown_retry_backoff_ms: int = row(LONG, 5_000, "The pause before it is requested again.")
    controller_socket_timeout_ms: int = row(INT, 30_000, "How long the controller waits for a broker's response.")
    auto_leader_rebalance_enable: bool = row(
        BOOLEAN, True, "Whether the controller has preferred replicas lead again, of brokers that lead too few."
    )
    leader_imbalance_check_interval_seconds: int = row(
        LONG, 300, "How often the controller looks for such brokers.", at_least(1)
    )
    leader_imbalance_per_broker_percentage: int = row(
        INT, 10, "The share of a broker's preferred partitions that others may lead."
    )
    replica_fetch_backoff_ms: int = row(INT, 1_000, "The pause of a follower after a failed fetch.", at_least(0))
    replica_fetch_max_bytes: int = row(
        INT, 1_048_576, "The bytes of a partition in a follower's fetch; a larger batch comes whole.", at_least(0)
    )
    replica_fetch_min_bytes: int = row(INT, 1, "The bytes for which a follower's fetch waits.")
    replica_fetch_response_max_bytes: int = row(
        INT, 10_485_760, "The bytes of a follower's fetch in all; a larger batch comes whole.", at_least(0)
    )
    replica_fetch_wait_max_ms: int = row(INT, 500, "How long a follower's fetch waits.")
    replica_high_watermark_checkpoint_interval_ms: int = row(
        LONG, 5_000, "How often high watermarks are written to replication-offset-checkpoint."
    )
    replica_lag_time_max_ms: int = row(
        LONG, 30_000, "How long a replica may lag behind its leader before it leaves the replicas in sync."
    )
    replica_socket_timeout_ms: int = row(INT, 30_000, "How long a follower waits for its leader's response.")
    coterie_journal_enable: bool = row(BOOLEAN, True, "Whether group events go to the topic __coterie_journal.")
    coterie_offsets_losses_accepted: tuple[str, ...] = row(
        LIST,
        (),
        "Losses of `__consumer_offsets` after which its groups are served all the same, as the broker's log names them: "
        "PARTITION@OFFSET of a batch that cannot be read, PARTITION@FILE of damage that was set aside; * for every loss.",
        update=_PER_BROKER,
    )
    coterie_group_sync_timeout_enable: bool = row(
        BOOLEAN, True, "false: as Kafka 2.6, where a member that never syncs blocks its group."
    )
    coterie_group_pending_leave_rebalance_enable: bool = row(
        BOOLEAN, True, "false: as Kafka before 4, where a leaving member id that was never used starts no rebalance."
    )


_RETENTION = Rule("at least 1, or below 0 for no limit", lambda value: value != 0)
# Broker settings that are the default of a topic setting and differ from it in more than the name: type, default, rule.
_TOPIC_DEFAULTS: dict[str, tuple[ValueType[object], object, Rule | None]] = {
    "log.flush.interval.ms": (LONG, None, None),
    "log.flush.scheduler.interval.ms": (LONG, MAX_LONG, None),
    "log.retention.ms": (LONG, None, _RETENTION),
    "log.retention.minutes": (INT, None, _RETENTION),
    "log.retention.hours": (INT, 168, _RETENTION),
    "log.roll.ms": (LONG, None, at_least(1)),
    "log.roll.hours": (INT, 168, at_least(1)),
    "log.roll.jitter.ms": (LONG, None, at_least(0)),
    "log.roll.jitter.hours": (INT, 0, at_least(0)),
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


def _defaults_of_topics() -> list[BrokerSetting[object]]:
    """A broker setting for each synonym of a topic setting, of the same type, default and rule unless listed above."""
    settings = []
    for topic_setting in TOPIC_SETTINGS.values():
        topic = topic_setting.setting
        for name, _factor in topic_setting.synonyms:
            value_type, default, rule = _TOPIC_DEFAULTS.get(name, (topic.value_type, topic.default, topic.rule))
            update = _READ_ONLY if name in _START_ONLY else _CLUSTER_WIDE
            text = f"The default of the topic setting {topic.name}. {topic.documentation}"
            settings.append(BrokerSetting(name, value_type, default, rule, text, topic.no_effect, update))
    return settings


OWN_SETTINGS: dict[str, BrokerSetting[object]] = settings_of(BrokerConfig, BrokerSetting)
BROKER_SETTINGS: dict[str, BrokerSetting[object]] = OWN_SETTINGS | {
    setting.name: setting
    for setting in (
        *_defaults_of_topics(),
        *SECURITY_SETTINGS.values(),
        *SHARE_SETTINGS.values(),
        *STREAMS_SETTINGS.values(),
        *KAFKA_ONLY,
    )
}
