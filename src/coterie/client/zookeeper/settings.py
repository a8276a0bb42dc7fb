"""The high-level consumer's settings: Kafka 0.8's names and defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from coterie.client.errors import ConfigError
from coterie.client.settings.settings import read_client_settings
from coterie.configuration import BOOLEAN, INT, STRING, Rule, Setting, ValueType, declared, one_of, settings_of

T = TypeVar("T")


def _setting(value_type: ValueType[T], default: T, rule: Rule | None = None) -> T:
    return declared(Setting("", value_type, default, rule))


@dataclass(frozen=True, slots=True)
class ZooKeeperConsumerSettings:
    """The values in force; `consumer_settings` reads them."""

    zookeeper_connect: str = _setting(STRING, "")
    zookeeper_session_timeout_ms: int = _setting(INT, 6_000)
    zookeeper_connection_timeout_ms: int = _setting(INT, 6_000)
    group_id: str = _setting(STRING, "")
    consumer_id: str | None = _setting(STRING, None)
    client_id: str = _setting(STRING, "coterie")
    auto_commit_enable: bool = _setting(BOOLEAN, True)
    auto_commit_interval_ms: int = _setting(INT, 60_000)
    auto_offset_reset: str = _setting(STRING, "largest", one_of("smallest", "largest"))
    queued_max_message_chunks: int = _setting(INT, 2)
    rebalance_max_retries: int = _setting(INT, 4)
    rebalance_backoff_ms: int = _setting(INT, 2_000)
    refresh_leader_backoff_ms: int = _setting(INT, 200)
    fetch_message_max_bytes: int = _setting(INT, 1_048_576)
    fetch_min_bytes: int = _setting(INT, 1)
    fetch_wait_max_ms: int = _setting(INT, 100)
    socket_timeout_ms: int = _setting(INT, 30_000)
    consumer_timeout_ms: int = _setting(INT, -1)


ZOOKEEPER_SETTINGS: dict[str, Setting[object]] = settings_of(ZooKeeperConsumerSettings, Setting)


def consumer_settings(given: Mapping[str, object]) -> ZooKeeperConsumerSettings:
    """Raises ConfigError, also where zookeeper.connect or group.id is missing."""
    settings = read_client_settings(ZooKeeperConsumerSettings, ZOOKEEPER_SETTINGS, given)
    for name, value in (("zookeeper.connect", settings.zookeeper_connect), ("group.id", settings.group_id)):
        if not value:
            raise ConfigError(f"{name} is needed")
    return settings
