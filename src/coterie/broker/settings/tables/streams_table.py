"""The broker settings of streams groups (KIP-1071, KIP-1357), with Kafka's names. Facts: Kafka 4.4's
GroupCoordinatorConfig."""

from __future__ import annotations

from dataclasses import dataclass

from coterie.broker.settings.setting import BrokerSetting, Update, row
from coterie.configuration import INT, LIST, at_least, one_of, settings_of


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
