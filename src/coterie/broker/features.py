"""Feature levels (KIP-584): the one table of what this broker supports, and what is finalized for its cluster of one.

The levels never change here. metadata.version is that of the Kafka whose protocol is served, so that tools know how old
the cluster is. group.version is 1: groups of the consumer protocol (KIP-848) are served. transaction.version stays at 0:
transactions of version 2 (KIP-890) are not, and a client that reads a higher level here would use them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.api_versions import FinalizedFeatureKey, SupportedFeatureKey

FINALIZED_EPOCH = 0
_ZERO_AS_MINIMUM_FROM = 4  # of ApiVersions: clients before read a minimum of 0 as damage (KAFKA-17011)


@dataclass(frozen=True, slots=True)
class Feature:
    """One feature: the levels that this broker supports, and the one that is finalized; 0 is the absence of it."""

    name: str
    minimum: int
    maximum: int
    finalized: int


FEATURES = {
    feature.name: feature
    for feature in (
        Feature("group.version", 0, 1, 1),
        Feature("metadata.version", 7, 30, 30),  # from 3.3-IV3 to 4.3-IV0
        Feature("transaction.version", 0, 0, 0),
    )
}


class UpgradeType(IntEnum):
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


@dataclass(frozen=True, slots=True)
class FeatureUpdate:
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


def finalized_features() -> list[FinalizedFeatureKey]:
    """The finalized features in ApiVersions' form; a feature at level 0 is left out."""
    return [FinalizedFeatureKey(f.name, f.finalized, f.finalized) for f in FEATURES.values() if f.finalized]


def check_updates(updates: Iterable[FeatureUpdate]) -> None:
    """Raises Refusal INVALID_UPDATE_VERSION for the first update that would change a level."""
    for update in updates:
        reason = _objection(update)
        if reason:
            text = f"no feature was updated: {update.name} cannot have level {update.level}: {reason}"
            raise Refusal(ErrorCode.INVALID_UPDATE_VERSION, text)


def _objection(update: FeatureUpdate) -> str:
    """Why the level cannot be set; empty where it is the level that is finalized."""
    feature = FEATURES.get(update.name)
    if feature is None:
        return f"the broker has {', '.join(FEATURES)}"
    if update.upgrade_type not in list(UpgradeType):
        return f"there is no upgrade type {update.upgrade_type}"
    if not feature.minimum <= update.level <= feature.maximum:
        return f"the broker supports levels {feature.minimum} to {feature.maximum}"
    return "" if update.level == feature.finalized else "the broker cannot be downgraded"
