"""What a reader may choose: the protocol, the size of the group, the time-outs, the seed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass, fields, replace
from typing import Any, TypeVar

from coterie.configuration import INT, STRING, Rule, Setting, ValueType, at_least, declared, one_of, settings_of
from coterie.configuration.setting import SettingError, unknown_setting, with_values
from coterie.laboratory.study.group import StudySetting
from coterie.laboratory.study.questions import (
    CONSUMER,
    COOPERATIVE,
    EAGER,
    ORDERLY,
    ROCKETMQ,
    STATIC,
    STATIC_COOPERATIVE,
    ZOOKEEPER,
)

T = TypeVar("T")
PROTOCOLS: Mapping[str, StudySetting] = {
    "zookeeper": ZOOKEEPER,
    "eager": EAGER,
    "cooperative": COOPERATIVE,
    "static": STATIC,
    "static-cooperative": STATIC_COOPERATIVE,
    "consumer": CONSUMER,
    "rocketmq": ROCKETMQ,
    "rocketmq-orderly": ORDERLY,
}
MOST_MEMBERS, MOST_PARTITIONS, LONGEST_MS = 50, 200, 3_600_000
OF_PROTOCOL = -1  # a time-out as the protocol has it
SCRIPTED = frozenset({"zookeeper", "rocketmq"})  # protocols without a coordinator of the group's


def _row(name: str, value_type: ValueType[T], default: T, documentation: str, rule: Rule) -> T:
    return declared(Setting(name, value_type, default, rule, documentation))


def _timeout(name: str, documentation: str, least_ms: int = 0) -> int:
    rule = at_least(least_ms, LONGEST_MS)
    return _row(
        name,
        INT,
        OF_PROTOCOL,
        documentation,
        Rule(rule.text, lambda value: value == OF_PROTOCOL or rule.holds(value)),
    )


@dataclass(frozen=True, slots=True)
class PlaygroundSetting:
    """The choices, with Kafka's names where Kafka has one; a time-out that is not chosen is the protocol's."""

    protocol: str = _row("protocol", STRING, "eager", "How the group rebalances.", one_of(*PROTOCOLS))
    members: int = _row("members", INT, 3, "How many members come first.", at_least(0, MOST_MEMBERS))
    partitions: int = _row("partitions", INT, 12, "How many partitions the topic has.", at_least(1, MOST_PARTITIONS))
    seed: int = _row("seed", INT, 1, "What is random depends on it alone.", at_least(0, 2**31))
    session_timeout_ms: int = _timeout("session.timeout.ms", "The client's, or that of ZooKeeper's session.", 1_000)
    heartbeat_interval_ms: int = _timeout(
        "heartbeat.interval.ms", "The client's; of a KIP-848 group the broker's.", 100
    )
    initial_delay_ms: int = _timeout("group.initial.rebalance.delay.ms", "The broker's.")
    max_poll_interval_ms: int = _timeout("max.poll.interval.ms", "The client's.", 1_000)
    lossy_percent: int = _row("lost.requests.percent", INT, 0, "How many requests are lost.", at_least(0, 50))

    @property
    def study(self) -> StudySetting:
        """The study's setting that is meant."""
        base = PROTOCOLS[self.protocol]
        chosen = {f.name: getattr(self, f.name) for f in fields(self) if f.name.endswith("_ms")}
        own = {name: value for name, value in chosen.items() if value != OF_PROTOCOL}
        return replace(base, **own, lossy=self.lossy_percent / 100)


SETTINGS: dict[str, Setting[Any]] = settings_of(PlaygroundSetting, Setting)


def read_setting(values: Mapping[str, object]) -> PlaygroundSetting:
    """The setting of a page's form, by names. Raises SettingError."""
    parsed: dict[str, object] = {}
    for name, value in values.items():
        if name not in SETTINGS:
            raise unknown_setting("setting", name, SETTINGS)
        parsed[name] = SETTINGS[name].parse(value)
    setting = with_values(PlaygroundSetting, parsed)
    study = setting.study
    if study.protocol not in SCRIPTED and study.heartbeat_interval_ms >= study.session_timeout_ms:
        raise SettingError("heartbeat.interval.ms must be lower than session.timeout.ms")
    return setting


def setting_values(setting: PlaygroundSetting) -> dict[str, object]:
    """The choices by the names of their settings, as `read_setting` takes them."""
    return dict(zip(SETTINGS, astuple(setting), strict=True))


def protocol_defaults() -> dict[str, dict[str, int]]:
    """Protocol -> the time-outs that it has where none is chosen, by the names of their settings."""
    timeouts = {name: name.replace(".", "_") for name in SETTINGS if name.endswith(".ms")}
    timeouts["group.initial.rebalance.delay.ms"] = "initial_delay_ms"
    return {
        protocol: {name: getattr(study, attribute) for name, attribute in timeouts.items()}
        for protocol, study in PROTOCOLS.items()
    }
