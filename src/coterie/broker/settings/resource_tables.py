"""Settings of the resources that are neither topic nor broker: subscriptions to client metrics (KIP-714) and groups of
the newer protocols (KIP-848, KIP-932, KIP-1071). Facts: Kafka 4.3's ClientMetricsConfigs and GroupConfig.
"""

from __future__ import annotations

import re

from coterie.broker.settings.broker_settings import BrokerSettings
from coterie.broker.settings.broker_table import BROKER_SETTINGS
from coterie.broker.settings.setting import Kind, Rule, Setting, SettingError, Value, at_least, nearest, one_of

_MATCHED = (
    "client_instance_id|client_id|client_software_name|client_software_version|client_source_address|client_source_port"
)
_PATTERN = re.compile(rf"({_MATCHED})=.+")
_NEWER_PROTOCOLS = "groups of the newer protocols are not served"


def _are_patterns(value: Value) -> bool:
    assert isinstance(value, tuple)
    return all(_PATTERN.fullmatch(item) for item in value)


_PATTERNS = Rule("a list of NAME=PATTERN with the names client_id, client_software_name and the like", _are_patterns)
_OFFSET_RESET = Rule(
    "earliest, latest or by_duration:PnDTnHnMn.nS",
    lambda value: re.fullmatch(r"earliest|latest|by_duration:P.+", str(value)) is not None,
)

CLIENT_METRICS_SETTINGS: dict[str, Setting] = {
    setting.name: setting
    for setting in (
        Setting("interval.ms", Kind.INT, 300_000, at_least(100, 3_600_000), "How often clients push their metrics."),
        Setting("match", Kind.LIST, (), _PATTERNS, "Which clients the subscription is for; empty: all."),
        Setting("metrics", Kind.LIST, (), None, "Prefixes of the names of the metrics to push; *: all."),
    )
}

# setting -> the broker setting that is its default, which also gives its kind
_GROUP_SYNONYMS = {
    f"{protocol}.{name}": f"group.{protocol}.{name}"
    for protocol, names in (
        ("consumer", ("assignment.interval.ms", "heartbeat.interval.ms", "session.timeout.ms")),
        (
            "share",
            (
                "assignment.interval.ms",
                "delivery.count.limit",
                "heartbeat.interval.ms",
                "partition.max.record.locks",
                "record.lock.duration.ms",
                "session.timeout.ms",
            ),
        ),
        (
            "streams",
            (
                "assignment.interval.ms",
                "heartbeat.interval.ms",
                "initial.rebalance.delay.ms",
                "num.standby.replicas",
                "session.timeout.ms",
            ),
        ),
    )
    for name in names
}
_OWN_DEFAULT = (
    Setting("share.auto.offset.reset", Kind.STRING, "latest", _OFFSET_RESET, "", _NEWER_PROTOCOLS),
    Setting(
        "share.isolation.level",
        Kind.STRING,
        "read_uncommitted",
        one_of("read_committed", "read_uncommitted"),
        "",
        _NEWER_PROTOCOLS,
    ),
    Setting("share.renew.acknowledge.enable", Kind.BOOLEAN, True, None, "", _NEWER_PROTOCOLS),
)

GROUP_SETTINGS: dict[str, tuple[Setting, str]] = {
    name: (Setting(name, BROKER_SETTINGS[s].kind, BROKER_SETTINGS[s].default, None, "", _NEWER_PROTOCOLS), s)
    for name, s in _GROUP_SYNONYMS.items()
} | {setting.name: (setting, setting.name) for setting in _OWN_DEFAULT}


def check_group_setting(settings: BrokerSettings, name: str, text: str) -> None:
    """Raises SettingError for a name that is no group setting, and for a value that it cannot have, be it by the
    broker's group.PROTOCOL.min... and group.PROTOCOL.max..."""
    if name not in GROUP_SETTINGS:
        raise SettingError(f"there is no group setting {name}{nearest(name, GROUP_SETTINGS)}")
    value = GROUP_SETTINGS[name][0].parse(text)
    if not isinstance(value, int):
        return
    protocol, _, rest = name.partition(".")
    for bound, text_of, breaks in (("min", "at least", int.__lt__), ("max", "at most", int.__gt__)):
        limit = f"group.{protocol}.{bound}.{rest}"
        if limit in BROKER_SETTINGS and breaks(value, settings[limit]):
            raise SettingError(f"{name} must be {text_of} {limit} ({settings[limit]}), not {value}")
