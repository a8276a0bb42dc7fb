"""Client telemetry (KIP-714): the metrics that each client pushes, by the subscriptions that match it, and counts of pushes.

The rules are those of Kafka's ClientMetricsManager. What is pushed is checked and counted; nobody here reads it. No
clock, no randomness: times and fresh ids are passed in.
"""

from __future__ import annotations

import base64
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field

from coterie.broker.settings.resource_tables import ClientMetricsConfig
from coterie.lazy_dataclass import dataclass
from coterie.wire.errors import ErrorCode, Refusal

INSTANCES_KEPT = 16_384
NO_INSTANCE = bytes(16)
_RESERVED_IDS = frozenset({NO_INSTANCE, bytes(15) + b"\x01"})
EVERY_METRIC = "*"
COMPRESSION_TYPES = (4, 3, 1, 2)  # zstd, lz4, gzip, snappy: the broker's order of preference
_NO_COMPRESSION = 0
# After one of these a client may ask for its subscription before the interval is over.
_ASK_AGAIN = frozenset({ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE})


@dataclass(frozen=True, slots=True)
class Subscription:
    """The metrics that a client pushes: prefixes of names, in the order of their first subscription, and the interval."""

    subscription_id: int
    metrics: tuple[str, ...]
    interval_ms: int


@dataclass(slots=True)
class Instance:
    """One client that pushes metrics, by its instance id."""

    subscription: Subscription
    last_get_ms: int = -1
    last_push_ms: int = -1
    owes_first_push: bool = False  # since it last asked for its subscription
    terminating: bool = False
    last_error: ErrorCode = ErrorCode.NONE

    def is_early(self, last_ms: int, now_ms: int) -> bool:
        """Whether the interval since ``last_ms`` (-1: never) is not over."""
        return last_ms >= 0 and now_ms - last_ms < self.subscription.interval_ms


@dataclass(slots=True)
class Telemetry:
    """The clients of a broker. ``configs`` returns the settings of each subscription."""

    max_bytes: int
    configs: Callable[[], Iterable[ClientMetricsConfig]]
    new_id: Callable[[], bytes]
    pushes: Counter[str] = field(default_factory=Counter)  # by client software
    pushed_bytes: Counter[str] = field(default_factory=Counter)
    _instances: dict[bytes, Instance] = field(default_factory=dict)  # least recently seen first

    def __len__(self) -> int:
        return len(self._instances)

    def subscribe(self, instance_id: bytes, attributes: Mapping[str, str], now_ms: int) -> tuple[bytes, Subscription]:
        """The client's id, a fresh one where it has none, and its subscription. Raises Refusal
        THROTTLING_QUOTA_EXCEEDED for a request before the interval is over."""
        instance_id = self.new_id() if instance_id == NO_INSTANCE else instance_id
        instance = self._seen(instance_id, attributes)
        last_ms = max(instance.last_get_ms, instance.last_push_ms)
        if instance.is_early(last_ms, now_ms) and instance.last_error not in _ASK_AGAIN:
            raise Refusal(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        instance.last_get_ms, instance.owes_first_push = now_ms, True
        instance.last_error = ErrorCode.NONE
        return instance_id, instance.subscription

    def push(self, instance_id: bytes, attributes: Mapping[str, str], push: Push, now_ms: int) -> None:
        """Counts a push. Raises Refusal where Kafka rejects it."""
        if instance_id in _RESERVED_IDS:
            raise Refusal(ErrorCode.INVALID_REQUEST, "a client must ask for its subscription before it pushes")
        instance = self._seen(instance_id, attributes)
        try:
            self._check(instance, push, now_ms)
        except Refusal as refusal:
            instance.last_error = refusal.code
            raise
        finally:
            instance.terminating = push.terminating
        instance.last_error = ErrorCode.NONE
        self.pushes[push.software] += 1
        self.pushed_bytes[push.software] += len(push.metrics)

    def _check(self, instance: Instance, push: Push, now_ms: int) -> None:
        if instance.terminating:
            raise Refusal(ErrorCode.INVALID_REQUEST, "the client has already sent its terminating push")
        # The first push after a subscription may come early: clients spread their pushes.
        if instance.owes_first_push or not instance.is_early(instance.last_push_ms, now_ms):
            instance.last_push_ms, instance.owes_first_push = now_ms, False
        elif not push.terminating:
            raise Refusal(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        if push.subscription_id != instance.subscription.subscription_id:
            raise Refusal(ErrorCode.UNKNOWN_SUBSCRIPTION_ID)
        if push.compression_type not in (_NO_COMPRESSION, *COMPRESSION_TYPES):
            raise Refusal(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
        if len(push.metrics) > self.max_bytes:
            raise Refusal(ErrorCode.TELEMETRY_TOO_LARGE)

    def _seen(self, instance_id: bytes, attributes: Mapping[str, str]) -> Instance:
        """The client, as a new one where its subscription has changed."""
        named = {**attributes, "client_instance_id": base64.urlsafe_b64encode(instance_id).decode().rstrip("=")}
        subscription = _subscription(instance_id, self.configs(), named)
        instance = self._instances.pop(instance_id, None)
        if instance is None or instance.subscription != subscription:
            instance = Instance(subscription)
        self._instances[instance_id] = instance
        if len(self._instances) > INSTANCES_KEPT:
            del self._instances[next(iter(self._instances))]
        return instance


@dataclass(frozen=True, slots=True)
class Push:
    """What one request pushes; ``metrics`` in OTLP, compressed or not."""

    software: str
    subscription_id: int
    terminating: bool
    compression_type: int
    metrics: bytes


def _subscription(
    instance_id: bytes, configs: Iterable[ClientMetricsConfig], attributes: Mapping[str, str]
) -> Subscription:
    metrics: dict[str, None] = {}
    interval_ms = ClientMetricsConfig().interval_ms
    for config in configs:
        if _matches(config.match, attributes):
            metrics |= dict.fromkeys(filter(None, config.metrics))
            interval_ms = min(interval_ms, config.interval_ms)
    wanted = (EVERY_METRIC,) if EVERY_METRIC in metrics else tuple(metrics)
    digest = zlib.crc32(f"{wanted}{interval_ms}".encode() + instance_id)
    return Subscription(digest - 2**31, wanted, interval_ms)


def _matches(patterns: Iterable[str], attributes: Mapping[str, str]) -> bool:
    """Whether each NAME=PATTERN of a list fits; an invalid regular expression matches no client."""
    for item in filter(None, patterns):
        name, _, pattern = item.partition("=")
        try:
            if re.fullmatch(pattern.strip(), attributes.get(name.strip(), "")) is None:
                return False
        except re.error:
            return False
    return True
