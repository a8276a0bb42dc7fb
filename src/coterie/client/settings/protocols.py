"""The settings that do not go with a group protocol (Kafka's ConsumerConfig and ShareConsumerConfig)."""

from __future__ import annotations

from collections.abc import Collection

from coterie.client.errors import ConfigError

SHARE_PROTOCOL = "share"  # of a share consumer, which group.protocol cannot name
NOT_WITH = {
    "classic": ("group.remote.assignor",),
    "consumer": ("heartbeat.interval.ms", "partition.assignment.strategy", "session.timeout.ms"),
    SHARE_PROTOCOL: (
        "auto.offset.reset",
        "enable.auto.commit",
        "group.instance.id",
        "group.protocol",
        "group.remote.assignor",
        "heartbeat.interval.ms",
        "interceptor.classes",
        "isolation.level",
        "partition.assignment.strategy",
        "session.timeout.ms",
    ),
}
_INSTEAD = {
    "classic": ", or set group.protocol=consumer",
    "consumer": "; the assignor is group.remote.assignor, and the times are the broker's, or the group's "
    "(consumer.session.timeout.ms, consumer.heartbeat.interval.ms)",
    SHARE_PROTOCOL: "; where reading begins, isolation and times are settings of the group (share.auto.offset.reset, "
    "share.isolation.level, share.session.timeout.ms)",
}


def require_allowed(names: Collection[str], protocol: str) -> None:
    """Raises ConfigError for settings that do not go with the protocol, with what to set instead."""
    refused = sorted(set(names).intersection(NOT_WITH[protocol]))
    if refused:
        owner = "for a share consumer" if protocol == SHARE_PROTOCOL else f"with group.protocol={protocol}"
        it = "it" if len(refused) == 1 else "them"
        raise ConfigError(f"{', '.join(refused)} cannot be set {owner}: leave {it} out{_INSTEAD[protocol]}")
