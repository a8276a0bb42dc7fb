"""Feature levels (KIP-584): the one table of what this broker supports, and what is finalized for its cluster.

metadata.version is that of the Kafka whose protocol is served, so that tools know how old the cluster is; it never changes.
group.version 1: groups of the consumer protocol (KIP-848) are served, by share.version 1 share groups (KIP-932), and by
streams.version 1 groups of Kafka Streams (KIP-1071); at 0 their requests are refused with UNSUPPORTED_VERSION.
share.version 2: share groups may have dead letters (KIP-1191).
transaction.version 2: producers that read it use transactions of version 2 (KIP-890), the others go on as before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum

from coterie.log import checked_files
from coterie.log.checked_files import UnreadableFile
from coterie.log.filesystem import FileSystem
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.clients.api_versions import FinalizedFeatureKey, SupportedFeatureKey

GROUP_VERSION = "group.version"
SHARE_VERSION = "share.version"
DEAD_LETTERS_FROM = 2  # level of share.version
STREAMS_VERSION = "streams.version"
TRANSACTION_VERSION = "transaction.version"
_FILE = "finalized-features.json"
_EPOCH = "epoch"
_ZERO_AS_MINIMUM_FROM = 4  # of ApiVersions: clients before read a minimum of 0 as damage (KAFKA-17011)


@dataclass(frozen=True, slots=True)
class Feature:
    """One feature: the levels that this broker supports, and that of a new cluster; 0 is the absence of it. ``fixed``: the
    level never changes here."""

    name: str
    minimum: int
    maximum: int
    of_a_new_cluster: int
    fixed: bool = False


FEATURES = {
    feature.name: feature
    for feature in (
        Feature(GROUP_VERSION, 0, 1, 1),
        Feature("metadata.version", 7, 33, 33, fixed=True),  # from 3.3-IV3 to 4.4-IV2
        Feature(SHARE_VERSION, 0, 2, 2),
        Feature(STREAMS_VERSION, 0, 1, 1),
        Feature(TRANSACTION_VERSION, 0, 2, 2),
    )
}


ABSENT = "inter.broker.protocol.version admits brokers that know no features; set it to 2.8 or later first"


class UpgradeType(IntEnum):
    """How a level may change, numbered as UpdateFeatures numbers it (KIP-584)."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


@dataclass(frozen=True, slots=True)
class FeatureUpdate:
    """A level to be set. ``upgrade_type``: any number that a client may send."""

    name: str
    level: int
    upgrade_type: int


def supported_features(api_version: int) -> list[SupportedFeatureKey]:
    """The supported features in the form of that version of ApiVersions."""
    return [
        SupportedFeatureKey(feature.name, feature.minimum, feature.maximum)
        for feature in FEATURES.values()
        if feature.minimum > 0 or api_version >= _ZERO_AS_MINIMUM_FROM
    ]


class Features:
    """The finalized levels, kept in `finalized-features.json` once one was changed. ``epoch`` grows with every change: a
    client that has seen a later one ignores what an older one reported. ``are_absent``: all are 0, for a cluster with brokers
    that know no features. ``on_change`` is called after each change. Raises UnreadableFile, OSError."""

    def __init__(self, fs: FileSystem, *, are_absent: bool = False) -> None:
        self._fs, self.are_absent = fs, are_absent
        self.on_change: Callable[[], None] = lambda: None
        self.epoch = 0
        self._levels = {feature.name: 0 if are_absent else feature.of_a_new_cluster for feature in FEATURES.values()}
        if fs.exists(_FILE) and not are_absent:
            remedy = "restore it from a backup, or move it away to get the levels of a new cluster"
            kept = checked_files.read_json(fs, _FILE, remedy)
            try:
                self.epoch, levels = int(kept["epoch"]), dict(kept["levels"])
                self._levels |= {name: int(level) for name, level in levels.items() if name in FEATURES}
            except (KeyError, TypeError, ValueError) as error:
                raise UnreadableFile(_FILE, "it does not hold feature levels", remedy) from error

    def level(self, name: str) -> int:
        """The finalized level."""
        return self._levels[name]

    def finalized(self) -> list[FinalizedFeatureKey]:
        """In ApiVersions' form; a feature at level 0 is left out."""
        return [FinalizedFeatureKey(name, level, level) for name, level in self._levels.items() if level]

    def update(self, updates: Iterable[FeatureUpdate], *, validate_only: bool) -> None:
        """All or none, on disk before they are in force. Raises Refusal INVALID_UPDATE_VERSION, OSError."""
        levels = self.updated(updates)
        if not validate_only and levels != self._levels:
            self._keep(self.epoch + 1, levels)

    def replace(self, settings: Mapping[str, str]) -> None:
        """Puts those of a cluster in force, as `as_settings` makes them; none are those of a new cluster. Raises OSError."""
        levels = {name: int(settings.get(name, level)) for name, level in self._levels.items()}
        epoch = int(settings.get(_EPOCH, self.epoch))
        if (epoch, levels) != (self.epoch, self._levels) and not self.are_absent:
            self._keep(epoch, levels)

    def as_settings(self, levels: Mapping[str, int]) -> dict[str, str]:
        """What a cluster keeps once these levels are in the stead of the present ones."""
        return {_EPOCH: str(self.epoch + 1)} | {name: str(level) for name, level in levels.items()}

    @property
    def levels(self) -> Mapping[str, int]:
        """All of them."""
        return self._levels

    def updated(self, updates: Iterable[FeatureUpdate]) -> dict[str, int]:
        """The levels after the updates. Raises Refusal INVALID_UPDATE_VERSION."""
        levels = dict(self._levels)
        for update in updates:
            reason = ABSENT if self.are_absent else _objection(update, self._levels)
            if reason:
                text = f"no feature was updated: {update.name} cannot have level {update.level}: {reason}"
                raise Refusal(ErrorCode.INVALID_UPDATE_VERSION, text)
            levels[update.name] = update.level
        return levels

    def _keep(self, epoch: int, levels: dict[str, int]) -> None:
        self._fs.write_file(_FILE, checked_files.to_json({_EPOCH: epoch, "levels": levels}))
        self._levels, self.epoch = levels, epoch
        self.on_change()


def _objection(update: FeatureUpdate, levels: Mapping[str, int]) -> str:
    """Why the level cannot be set; empty where it can."""
    feature = FEATURES.get(update.name)
    if feature is None:
        return f"the broker has {', '.join(FEATURES)}"
    if update.upgrade_type not in list(UpgradeType):
        return f"there is no upgrade type {update.upgrade_type}"
    if not feature.minimum <= update.level <= feature.maximum:
        return f"the broker supports levels {feature.minimum} to {feature.maximum}"
    current = levels[update.name]
    if feature.fixed:
        return "" if update.level == current else "the broker cannot be downgraded"
    if update.level < current and update.upgrade_type == UpgradeType.UPGRADE:
        return f"it is below {current}, and a lower level needs the upgrade type of a downgrade"
    return ""
