"""What a setting of the broker has besides: when it may be changed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from coterie.configuration import Setting

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
