"""The high-level consumer's settings: Kafka 0.8's names and defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coterie.client.errors import ConfigError
from coterie.client.settings import ClientSettings

DEFAULTS: dict[str, Any] = {
    "zookeeper.connect": None,
    "zookeeper.session.timeout.ms": 6_000,
    "zookeeper.connection.timeout.ms": 6_000,
    "group.id": None,
    "consumer.id": None,
    "client.id": "coterie",
    "auto.commit.enable": True,
    "auto.commit.interval.ms": 60_000,
    "auto.offset.reset": "largest",
    "queued.max.message.chunks": 2,
    "rebalance.max.retries": 4,
    "rebalance.backoff.ms": 2_000,
    "refresh.leader.backoff.ms": 200,
    "fetch.message.max.bytes": 1_048_576,
    "fetch.min.bytes": 1,
    "fetch.wait.max.ms": 100,
    "socket.timeout.ms": 30_000,
    "consumer.timeout.ms": -1,
}
_CHOICES = {"auto.offset.reset": ("smallest", "largest")}


def consumer_settings(given: Mapping[str, Any]) -> ClientSettings:
    """Raises ConfigError, also where zookeeper.connect or group.id is missing."""
    settings = ClientSettings(given, DEFAULTS, _CHOICES)
    for name in ("zookeeper.connect", "group.id"):
        if not settings[name]:
            raise ConfigError(f"{name} is needed")
    return settings
