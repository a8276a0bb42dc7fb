"""Settings that are altered at run time: the outcome of a request, which is the settings of a resource after single changes
(KIP-339), or the refusal; and those of brokers, client metrics and groups, kept in `altered-configs.json` in the data folder,
so that they outlive a restart.

The outcome is pure: the caller says what a resource has now and checks and keeps the result.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from coterie.broker.settings.broker_settings import BrokerSettings
from coterie.broker.settings.setting import BrokerSetting, Update
from coterie.broker.settings.tables.broker_table import BROKER_SETTINGS
from coterie.broker.settings.tables.security_table import unprefixed
from coterie.configuration import LONG, Kind, Setting, SettingError, at_least
from coterie.log import checked_files
from coterie.log.checked_files import UnreadableFile
from coterie.log.filesystem import FileSystem
from coterie.wire.errors import ErrorCode, Refusal

# Kafka changes these for one listener only, so under its prefix (SslConfigs.RECONFIGURABLE_CONFIGS).
_ONLY_OF_LISTENER = re.compile(r"ssl\.(key|keystore|truststore)\..+")
# A pool may at most double or halve in one step.
_THREADS = frozenset(
    {
        "background.threads",
        "log.cleaner.threads",
        "num.io.threads",
        "num.network.threads",
        "num.recovery.threads.per.data.dir",
        "num.replica.fetchers",
    }
)
_BUFFER_OF_A_THREAD = 1024 * 1024  # bytes
# Settings that exist only at run time: the limits of replication while partitions move.
_THROTTLES: dict[str, BrokerSetting[object]] = {
    name: BrokerSetting(name, LONG, None, at_least(0))
    for name in (
        "follower.replication.throttled.rate",
        "leader.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    )
}
_FILE = "altered-configs.json"


class Operation(IntEnum):
    """How IncrementalAlterConfigs changes a setting; the last two are for lists."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class Change:
    """One setting's change. The value of DELETE is ignored."""

    name: str
    operation: int
    value: str | None


def changed(
    current: Mapping[str, str], changes: Iterable[Change], settings: Mapping[str, Setting[object]]
) -> dict[str, str]:
    """``current`` after the changes; ``settings`` says which are lists. Raises Refusal."""
    changes = list(changes)
    refuse_repeated(change.name for change in changes)
    if without := [c.name for c in changes if c.operation != Operation.DELETE and c.value is None]:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"no value for {', '.join(without)}; give one, or DELETE the setting")
    after = dict(current)
    for change in changes:
        if change.operation == Operation.DELETE:
            after.pop(change.name, None)
            continue
        if change.operation not in Operation.__members__.values():
            raise Refusal(ErrorCode.INVALID_REQUEST, f"there is no operation {change.operation}")
        assert change.value is not None
        if change.operation == Operation.SET:
            after[change.name] = change.value
        else:
            after[change.name] = _changed_list(change, after.get(change.name), settings.get(change.name))
    return after


def refuse_repeated(names: Iterable[str]) -> None:
    """Raises Refusal INVALID_REQUEST for a name that comes twice."""
    repeated = sorted(name for name, count in Counter(names).items() if count > 1)
    if repeated:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"{', '.join(repeated)} given more than once")


def _changed_list(change: Change, current: str | None, setting: Setting[object] | None) -> str:
    """The list after APPEND or SUBTRACT; one that is not set begins as the default."""
    assert change.value is not None
    if setting is None or setting.kind != Kind.LIST:
        raise Refusal(ErrorCode.INVALID_CONFIG, f"{change.name} is not a list: it can be set or deleted")
    default = setting.default
    assert isinstance(default, tuple)
    now = list(default) if current is None else _elements(current)
    given = _elements(change.value) or [""]  # nothing is an element too, as in Kafka
    if change.operation == Operation.APPEND:
        return ",".join(dict.fromkeys([*now, *given]))
    removed = set(given)
    return ",".join(item for item in now if item not in removed)


def _elements(text: str) -> list[str]:
    return [element for element in (part.strip() for part in text.split(",")) if element]


def check_dynamic(settings: BrokerSettings, configs: Mapping[str, str], *, cluster: bool) -> None:
    """Checks the altered settings of one broker, or with ``cluster`` of all. An unknown name is accepted, as Kafka
    accepts it for plugins. Raises Refusal INVALID_REQUEST."""
    for name, text in configs.items():
        setting = BROKER_SETTINGS.get(unprefixed(name)) or _THROTTLES.get(name)
        if setting is None:
            continue
        if setting.update == Update.READ_ONLY and name not in _THROTTLES:
            raise Refusal(ErrorCode.INVALID_REQUEST, f"{name} cannot be changed while the broker runs")
        if setting.update == Update.PER_BROKER and cluster:
            raise Refusal(ErrorCode.INVALID_REQUEST, f"{name} can be set for one broker only; name the broker")
        if _ONLY_OF_LISTENER.fullmatch(name):
            raise Refusal(
                ErrorCode.INVALID_REQUEST, f"{name} can be changed for a listener only: listener.name.X.{name}"
            )
        try:
            value = setting.parse(text)
        except SettingError as error:
            raise Refusal(ErrorCode.INVALID_REQUEST, str(error)) from error
        if name in _THREADS:
            now = settings[name]
            assert isinstance(now, int)
            assert isinstance(value, int)
            if not max(1, now // 2) <= value <= now * 2:
                raise Refusal(
                    ErrorCode.INVALID_REQUEST, f"{name} may at most halve or double: it is {now}, not {value}"
                )
    _check_together(settings, configs)


def _check_together(settings: BrokerSettings, configs: Mapping[str, str]) -> None:
    """What Kafka checks of several settings, or only when they are altered."""

    def value(name: str) -> Any:
        return BROKER_SETTINGS[name].parse(configs[name]) if name in configs else settings[name]

    buffer, threads = "log.cleaner.dedupe.buffer.size", "log.cleaner.threads"
    if configs.keys() & {buffer, threads} and value(buffer) <= _BUFFER_OF_A_THREAD * value(threads):
        raise Refusal(ErrorCode.INVALID_REQUEST, f"{buffer} must be more than 1 MiB for each of {threads}")
    per_ip, overrides = "max.connections.per.ip", "max.connections.per.ip.overrides"
    if per_ip in configs and not value(per_ip) and not value(overrides):
        raise Refusal(ErrorCode.INVALID_REQUEST, f"{per_ip} can be 0 only beside {overrides}")
    if "max.connection.creation.rate" in configs and not value("max.connection.creation.rate"):
        raise Refusal(ErrorCode.INVALID_REQUEST, "max.connection.creation.rate must be at least 1")


class ResourceType(IntEnum):
    """Types of resources with settings, numbered as Kafka's ConfigResource.Type."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


Resource = tuple[ResourceType, str]  # with its name


class KeptConfigs:
    """Altered settings by resource. A broker's name is its id, or "" for the default of all brokers. Raises UnreadableFile,
    OSError."""

    def __init__(self, fs: FileSystem) -> None:
        self._fs = fs
        self._kept: dict[ResourceType, dict[str, dict[str, str]]] = {}
        if fs.exists(_FILE):
            remedy = "restore it from a backup, or move it away to go on without what was altered"
            kept = checked_files.read_json(fs, _FILE, remedy)
            try:
                self._kept = {ResourceType[kind]: dict(resources) for kind, resources in kept.items()}
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise UnreadableFile(_FILE, "it does not hold settings", remedy) from error

    def of(self, kind: ResourceType, name: str) -> dict[str, str]:
        """A copy of the altered settings of that resource."""
        return dict(self._kept.get(kind, {}).get(name, {}))

    def names(self, kind: ResourceType) -> list[str]:
        """The resources of that type that have altered settings."""
        return sorted(self._kept.get(kind, {}))

    def replace(self, altered: Mapping[Resource, Mapping[str, str]]) -> None:
        """All altered settings of each of these resources, written to disk once before they are in force here. Raises
        OSError."""
        kept = self._kept | {kind: dict(self._kept.get(kind, {})) for kind, _ in altered}
        for (kind, name), configs in altered.items():
            kept[kind].pop(name, None)
            if configs:
                kept[kind][name] = dict(configs)
        self._fs.write_file(_FILE, checked_files.to_json({k.name: r for k, r in sorted(kept.items()) if r}))
        self._kept = kept
