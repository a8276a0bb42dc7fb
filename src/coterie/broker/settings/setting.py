"""What a setting of the broker has besides: when it may be changed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from coterie.configuration import Rule, Setting, ValueType, declared

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Update(Enum):
    """When a broker setting may be changed (KIP-226): at the start only, for one broker, or for the cluster as well."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


@dataclass(frozen=True, slots=True)
class BrokerSetting(Setting[T_co]):
    """``update``: when AlterConfigs may change it, as DescribeConfigs reports by its read-only flag."""

    update: Update = Update.READ_ONLY


def row(
    value_type: ValueType[T],
    default: T,
    documentation: str,
    rule: Rule | None = None,
    update: Update = Update.READ_ONLY,
) -> T:
    """The field of a class of the broker's settings: its row, to the type checker its value."""
    return declared(BrokerSetting("", value_type, default, rule, documentation, update=update))
