"""What a share group's settings say of its share partitions: its own, bounded by the broker's, or the broker's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

from coterie.broker.settings.tables.share_table import ShareConfig
from coterie.configuration.value_types import BOOLEAN, INT
from coterie.share.partition import ShareLimits

# A group's own settings; each takes the place of the broker's, whose name is group. before it.
_BOUNDED = ("delivery.count.limit", "partition.max.record.locks", "record.lock.duration.ms")
_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.IGNORECASE)
_UNITS_MS = (86_400_000, 3_600_000, 60_000, 1_000)


class ResetKind(Enum):
    """The words of share.auto.offset.reset."""

    EARLIEST = "earliest"
    LATEST = "latest"
    BY_DURATION = "by_duration"


@dataclass(frozen=True, slots=True)
class OffsetReset:
    """share.auto.offset.reset; ``duration_ms`` before now is where by_duration begins."""

    Kind: ClassVar[type[ResetKind]] = ResetKind
    kind: ResetKind
    duration_ms: int = 0


@dataclass(frozen=True, slots=True)
class ShareGroupSettings:
    """The settings of one group. ``dead_letter_topic``: "" where it has none (KIP-1191)."""

    limits: ShareLimits
    offset_reset: OffsetReset
    reads_committed: bool
    dead_letter_topic: str
    copies_dead_letters: bool


def is_offset_reset(text: str) -> bool:
    """Whether the text is a value of share.auto.offset.reset."""
    kind, _, duration = text.partition(":")
    if kind == ResetKind.BY_DURATION.value:
        return _DURATION.fullmatch(duration) is not None and duration[-1] not in "PpTt"
    return text in ("earliest", "latest")


def offset_reset(text: str) -> OffsetReset:
    """Of earliest, latest or by_duration:P…, which was checked when it was set."""
    kind, _, duration = text.partition(":")
    match = _DURATION.fullmatch(duration) if duration else None
    parts = match.groups() if match else ()
    ms = sum(float(part or 0) * unit for part, unit in zip(parts, _UNITS_MS, strict=False))
    return OffsetReset(ResetKind(kind), int(ms))


def share_group_settings(broker: ShareConfig, own: Mapping[str, str], *, dead_letters: bool) -> ShareGroupSettings:
    """Of a group with settings of its ``own``, which the broker's bounds may cut (Kafka's GroupConfig.evaluate).
    ``dead_letters``: whether share.version admits them."""
    values = [_bounded(broker, own, name) for name in _BOUNDED]
    limits = ShareLimits(
        delivery_count_limit=values[0],
        max_record_locks=values[1],
        record_lock_duration_ms=values[2],
        renewals=BOOLEAN.parse(own.get("share.renew.acknowledge.enable", "true")),
        dead_letters=dead_letters and bool(own.get("errors.deadletterqueue.topic.name")),
    )
    return ShareGroupSettings(
        limits,
        offset_reset(own.get("share.auto.offset.reset", "latest")),
        own.get("share.isolation.level", "read_uncommitted") == "read_committed",
        own.get("errors.deadletterqueue.topic.name", ""),
        BOOLEAN.parse(own.get("errors.deadletterqueue.copy.record.enable", "false")),
    )


def _bounded(broker: ShareConfig, own: Mapping[str, str], name: str) -> int:
    of_broker, least, most = (
        getattr(broker, f"group_share_{bound}{name.replace('.', '_')}") for bound in ("", "min_", "max_")
    )
    text = own.get(f"share.{name}")
    value: int = of_broker if text is None else min(max(INT.parse(text), least), most)
    return value
