"""The broker settings of share groups (KIP-932) and of streams groups (KIP-1071, KIP-1357), with Kafka's names. Facts: Kafka
4.4's GroupCoordinatorConfig, ShareGroupConfig and ShareCoordinatorConfig."""

from __future__ import annotations

from dataclasses import dataclass

from coterie.broker.settings.setting import BrokerSetting, Update, row
from coterie.configuration import BOOLEAN, INT, LIST, SHORT, STRING, at_least, one_of, settings_of

KAFKA_SIMPLE_ASSIGNOR = "org.apache.kafka.coordinator.group.assignor.SimpleAssignor"


@dataclass(frozen=True, slots=True)
class ShareConfig:
    """The values of the settings of share groups; names, units and defaults are Kafka's. The bounds are those of what a group
    may set for itself."""

    group_share_session_timeout_ms: int = row(
        INT, 45_000, "The session timeout of members of share groups.", at_least(1)
    )
    group_share_min_session_timeout_ms: int = row(INT, 45_000, "The shortest session timeout.", at_least(1))
    group_share_max_session_timeout_ms: int = row(INT, 60_000, "The longest session timeout.", at_least(1))
    group_share_heartbeat_interval_ms: int = row(
        INT, 5_000, "How often members of share groups send heartbeats.", at_least(1)
    )
    group_share_min_heartbeat_interval_ms: int = row(INT, 5_000, "The shortest heartbeat interval.", at_least(1))
    group_share_max_heartbeat_interval_ms: int = row(INT, 15_000, "The longest heartbeat interval.", at_least(1))
    group_share_assignment_interval_ms: int = row(
        INT, 1_000, "The least time between two target assignments of a share group.", at_least(0), Update.CLUSTER_WIDE
    )
    group_share_min_assignment_interval_ms: int = row(INT, 0, "The shortest assignment interval.", at_least(0))
    group_share_max_assignment_interval_ms: int = row(INT, 15_000, "The longest assignment interval.", at_least(0))
    group_share_max_size: int = row(INT, 200, "The most members of a share group.", at_least(1, 1_000))
    group_share_assignors: tuple[str, ...] = row(
        LIST,
        ("simple",),
        "The assignor of share groups, by name or Kafka's class.",
        one_of("simple", KAFKA_SIMPLE_ASSIGNOR),
    )
    group_share_delivery_count_limit: int = row(
        INT, 5, "How often a record is delivered in a share group before it is archived.", at_least(2, 10)
    )
    group_share_min_delivery_count_limit: int = row(INT, 2, "The lowest limit of deliveries.", at_least(2, 5))
    group_share_max_delivery_count_limit: int = row(INT, 10, "The highest limit of deliveries.", at_least(5, 25))
    group_share_record_lock_duration_ms: int = row(
        INT, 30_000, "How long a member has an acquired record.", at_least(1_000, 60_000)
    )
    group_share_min_record_lock_duration_ms: int = row(
        INT, 15_000, "The shortest lock of a record.", at_least(1_000, 30_000)
    )
    group_share_max_record_lock_duration_ms: int = row(
        INT, 60_000, "The longest lock of a record.", at_least(30_000, 3_600_000)
    )
    group_share_partition_max_record_locks: int = row(
        INT, 2_000, "The most records of a partition in flight in a share group.", at_least(100, 10_000)
    )
    group_share_min_partition_max_record_locks: int = row(
        INT, 100, "The least that a group may set for it.", at_least(100, 2_000)
    )
    group_share_max_partition_max_record_locks: int = row(
        INT, 4_000, "The most that a group may set for it.", at_least(2_000, 10_000)
    )
    group_share_max_share_sessions: int = row(INT, 2_000, "The most share sessions of the broker.", at_least(1))
    errors_deadletterqueue_auto_create_topics_enable: bool = row(
        BOOLEAN,
        False,
        "Whether the dead letter topic of a share group is created where it is missing.",
        update=Update.CLUSTER_WIDE,
    )
    errors_deadletterqueue_topic_name_prefix: str = row(
        STRING, "dlq.", "With what the names of dead letter topics must begin.", update=Update.CLUSTER_WIDE
    )
    share_coordinator_snapshot_update_records_per_snapshot: int = row(
        INT, 500, "How many updates of a state are written between two snapshots of it.", at_least(0, 500)
    )
    share_coordinator_write_timeout_ms: int = row(
        INT, 5_000, "How long a write of a state waits for the replicas of __share_group_state.", at_least(1)
    )
    share_coordinator_state_topic_num_partitions: int = row(
        INT, 50, "Partitions of __share_group_state.", at_least(1, 10_000)
    )
    share_coordinator_state_topic_replication_factor: int = row(
        SHORT, 3, "Replicas of __share_group_state in a cluster.", at_least(1)
    )
    share_coordinator_state_topic_min_isr: int = row(
        SHORT, 2, "min.insync.replicas of __share_group_state in a cluster.", at_least(1)
    )
    share_coordinator_state_topic_segment_bytes: int = row(
        INT, 104_857_600, "segment.bytes of __share_group_state.", at_least(1)
    )


SHARE_SETTINGS: dict[str, BrokerSetting[object]] = settings_of(ShareConfig, BrokerSetting)


@dataclass(frozen=True, slots=True)
class StreamsConfig:
    """The values of the settings of streams groups; names, units and defaults are Kafka's. The bounds are those of what a group
    may set for itself."""

    group_streams_session_timeout_ms: int = row(
        INT, 45_000, "The session timeout of members of streams groups.", at_least(1)
    )
    group_streams_min_session_timeout_ms: int = row(INT, 45_000, "The shortest session timeout.", at_least(1))
    group_streams_max_session_timeout_ms: int = row(INT, 60_000, "The longest session timeout.", at_least(1))
    group_streams_heartbeat_interval_ms: int = row(
        INT, 5_000, "How often members of streams groups send heartbeats.", at_least(1)
    )
    group_streams_min_heartbeat_interval_ms: int = row(INT, 5_000, "The shortest heartbeat interval.", at_least(1))
    group_streams_max_heartbeat_interval_ms: int = row(INT, 15_000, "The longest heartbeat interval.", at_least(1))
    group_streams_assignment_interval_ms: int = row(
        INT,
        1_000,
        "The least time between two target assignments of a streams group.",
        at_least(0),
        Update.CLUSTER_WIDE,
    )
    group_streams_min_assignment_interval_ms: int = row(INT, 0, "The shortest assignment interval.", at_least(0))
    group_streams_max_assignment_interval_ms: int = row(INT, 15_000, "The longest assignment interval.", at_least(0))
    group_streams_initial_rebalance_delay_ms: int = row(
        INT, 3_000, "How long the first target assignment of an empty group waits for further members.", at_least(0)
    )
    group_streams_max_size: int = row(INT, 2**31 - 1, "The most members of a streams group.", at_least(1))
    group_streams_num_standby_replicas: int = row(
        INT, 0, "The standby copies of each task that has state.", at_least(0)
    )
    group_streams_max_standby_replicas: int = row(INT, 2, "The most standby copies that a group may set.", at_least(0))
    group_streams_rack_aware_assignment_tags: tuple[str, ...] = row(
        LIST, (), "The client tags over whose values the standby copies of a task are spread.", None
    )
    group_streams_assignors: tuple[str, ...] = row(
        LIST,
        ("sticky",),
        "The task assignors, by name; the first is that of groups that name none.",
        one_of("sticky"),
    )


STREAMS_SETTINGS: dict[str, BrokerSetting[object]] = settings_of(StreamsConfig, BrokerSetting)
