"""Client telemetry (KIP-714): the metrics that each client pushes, by the subscriptions that match it, counts of pushes, and
what each client pushed last, as the API and HTTP return it.

The rules are those of Kafka's ClientMetricsManager. What is pushed is checked and counted, and the last push of each client is
kept as it came, up to KEPT_BYTES of all. No clock, no randomness: times and fresh ids are passed in.
"""

from __future__ import annotations

import base64
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from coterie.broker.clients.otlp import DataPoint, NoMetrics, pushed_metrics
from coterie.broker.requests.calls import Call
from coterie.broker.settings.tables.resource_tables import ClientMetricsConfig
from coterie.records.compression import CompressionError, decompress
from coterie.wire.errors import ErrorCode, Refusal

INSTANCES_KEPT = 16_384
KEPT_BYTES = 8 * 1024 * 1024
KEPT_CHARACTERS = 256  # of a client id, and of a library's name: both may be of 32 kB
NO_INSTANCE = bytes(16)
_RESERVED_IDS = frozenset({NO_INSTANCE, bytes(15) + b"\x01"})
EVERY_METRIC = "*"
COMPRESSION_TYPES = (4, 3, 1, 2)  # zstd, lz4, gzip, snappy: the broker's order of preference
_NO_COMPRESSION = 0
UNKNOWN = "unknown"  # the software of a client that did not name it
# After one of these a client may request its subscription before the interval is over.
_ASK_AGAIN = frozenset({ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE})
UNFOLDED_BYTES = 8 * 1024 * 1024  # of a push that is read, at most


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
    owes_first_push: bool = False  # since it last requested its subscription
    terminating: bool = False
    last_error: ErrorCode = ErrorCode.NONE
    matched: tuple[int, int] | None = None  # by which changes of subscriptions and which attributes, as a hash
    client_id: str = ""
    host: str = ""
    software: str = ""
    pushes: int = 0
    pushed_ms: int = -1  # the time of the push that is kept; -1: none was accepted
    compression_type: int = _NO_COMPRESSION
    metrics: bytes = b""

    def is_early(self, last_ms: int, now_ms: int) -> bool:
        """Whether the interval since ``last_ms`` (-1: never) is not over."""
        return last_ms >= 0 and now_ms - last_ms < self.subscription.interval_ms


@dataclass(slots=True)
class Telemetry:
    """The clients of a broker, and the subscriptions to their metrics by name (`configure`)."""

    max_bytes: int
    new_id: Callable[[], bytes]
    pushes: Counter[str] = field(default_factory=Counter)  # by client software
    pushed_bytes: Counter[str] = field(default_factory=Counter)
    _instances: dict[bytes, Instance] = field(default_factory=dict)  # least recently seen first
    _filters: dict[str, _Filter] = field(default_factory=dict)  # by the name of the subscription
    _unsorted: bool = False
    _changes: int = 0  # of subscriptions
    _kept_bytes: int = 0

    def __len__(self) -> int:
        return len(self._instances)

    def configure(self, name: str, config: ClientMetricsConfig | None) -> None:
        """Puts the settings of a subscription in force; None ends it."""
        self._changes += 1
        if config is None:
            self._filters.pop(name, None)
        else:
            self._unsorted = self._unsorted or name not in self._filters
            self._filters[name] = _Filter(config, tuple(map(_pattern, filter(None, config.match))))

    def instances(self) -> Iterator[tuple[bytes, Instance]]:
        """The clients by instance id, the least recently seen first."""
        return iter(self._instances.items())

    def by_client(self) -> dict[tuple[str, str], Instance]:
        """(client id, host) -> the client of these that was seen last."""
        return {(i.client_id, i.host): i for i in self._instances.values()}

    def subscribe(self, instance_id: bytes, call: Call, now_ms: int) -> tuple[bytes, Subscription]:
        """The client's id, a fresh one where it has none, and its subscription. Raises Refusal
        THROTTLING_QUOTA_EXCEEDED for a request before the interval is over."""
        instance_id = self.new_id() if instance_id == NO_INSTANCE else instance_id
        instance = self._seen(instance_id, call)
        last_ms = max(instance.last_get_ms, instance.last_push_ms)
        if instance.is_early(last_ms, now_ms) and instance.last_error not in _ASK_AGAIN:
            raise Refusal(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        instance.last_get_ms, instance.owes_first_push = now_ms, True
        instance.last_error = ErrorCode.NONE
        return instance_id, instance.subscription

    def push(self, instance_id: bytes, call: Call, push: Push, now_ms: int) -> None:
        """Counts a push. Raises Refusal where Kafka rejects it."""
        if instance_id in _RESERVED_IDS:
            raise Refusal(ErrorCode.INVALID_REQUEST, "a client must request its subscription before it pushes")
        instance = self._seen(instance_id, call)
        try:
            self._check(instance, push, now_ms)
        except Refusal as refusal:
            instance.last_error = refusal.code
            raise
        finally:
            instance.terminating = push.terminating
        instance.last_error = ErrorCode.NONE
        self._keep(instance, push, now_ms)
        software = call.connection.software.text or UNKNOWN
        self.pushes[software] += 1
        self.pushed_bytes[software] += len(push.metrics)

    def _keep(self, instance: Instance, push: Push, now_ms: int) -> None:
        """Beyond KEPT_BYTES what was pushed by the clients that were seen least recently is dropped."""
        self._kept_bytes += len(push.metrics) - len(instance.metrics)
        instance.pushes, instance.pushed_ms = instance.pushes + 1, now_ms
        instance.compression_type, instance.metrics = push.compression_type, push.metrics
        for other in self._instances.values():
            if self._kept_bytes <= KEPT_BYTES:
                return
            self._kept_bytes -= len(other.metrics)
            other.metrics = b""

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

    def _seen(self, instance_id: bytes, call: Call) -> Instance:
        """The client, as a new one where its subscription has changed."""
        attributes = _attributes_of(call)
        before = self._instances.pop(instance_id, None)
        instance = before
        matched = self._changes, hash(tuple(attributes.values()))  # attributes may be large
        if instance is None or instance.matched != matched:
            subscription = self._subscription(instance_id, attributes)
            if instance is None or instance.subscription != subscription:
                instance = Instance(subscription)
            instance.matched = matched
            instance.client_id = call.client_id[:KEPT_CHARACTERS]
            instance.host = attributes["client_source_address"]
            instance.software = (call.connection.software.text or UNKNOWN)[:KEPT_CHARACTERS]
        if before is not None and before is not instance:
            instance.pushes, instance.pushed_ms = before.pushes, before.pushed_ms
            instance.compression_type, instance.metrics = before.compression_type, before.metrics
        self._instances[instance_id] = instance
        if len(self._instances) > INSTANCES_KEPT:
            self._kept_bytes -= len(self._instances.pop(next(iter(self._instances))).metrics)
        return instance

    def _subscription(self, instance_id: bytes, attributes: Mapping[str, str]) -> Subscription:
        if self._unsorted:
            self._filters, self._unsorted = dict(sorted(self._filters.items())), False
        named = {**attributes, "client_instance_id": base64.urlsafe_b64encode(instance_id).decode().rstrip("=")}
        metrics: dict[str, None] = {}
        interval_ms = ClientMetricsConfig().interval_ms
        for of in self._filters.values():
            if of.matches(named):
                metrics |= dict.fromkeys(filter(None, of.config.metrics))
                interval_ms = min(interval_ms, of.config.interval_ms)
        wanted = (EVERY_METRIC,) if EVERY_METRIC in metrics else tuple(metrics)
        digest = zlib.crc32(f"{wanted}{interval_ms}".encode() + instance_id)
        return Subscription(digest - 2**31, wanted, interval_ms)


@dataclass(frozen=True, slots=True)
class _Filter:
    """A subscription with its ``match`` as expressions by the name of an attribute; None for one that is none of Python's."""

    config: ClientMetricsConfig
    patterns: tuple[tuple[str, re.Pattern[str] | None], ...]

    def matches(self, attributes: Mapping[str, str]) -> bool:
        """Whether every expression fits; an invalid one matches no client."""
        return all(p is not None and p.fullmatch(attributes.get(name, "")) for name, p in self.patterns)


def _attributes_of(call: Call) -> dict[str, str]:
    """What subscriptions may match."""
    connection = call.connection
    return {
        "client_id": call.client_id,
        "client_software_name": connection.software.name or UNKNOWN,
        "client_software_version": connection.software.version or UNKNOWN,
        "client_source_address": connection.host.removeprefix("/"),
        "client_source_port": str(connection.port),
    }


def _pattern(item: str) -> tuple[str, re.Pattern[str] | None]:
    """Of NAME=PATTERN."""
    name, _, text = item.partition("=")
    try:
        return name.strip(), re.compile(text.strip())
    except re.error:
        return name.strip(), None


@dataclass(frozen=True, slots=True)
class Push:
    """What one request pushes; ``metrics`` in OTLP, compressed or not."""

    subscription_id: int
    terminating: bool
    compression_type: int
    metrics: bytes


def telemetry_clients(telemetry: Telemetry, now_ms: int) -> list[dict[str, Any]]:
    """As JSON, sorted by client id: the names of `coterie.client.TelemetryClient`."""
    rows = [_row(instance_id, instance, now_ms) for instance_id, instance in telemetry.instances()]
    return sorted(rows, key=lambda row: (row["client_id"], row["client_instance_id"]))


def as_json(metric: DataPoint) -> dict[str, Any]:
    """The names of `coterie.client.PushedMetric`."""
    return {"name": metric.name, "attributes": list(metric.attributes), "value": metric.value}


def last_metrics(instance: Instance) -> tuple[list[DataPoint], str | None]:
    """What the client pushed last, and why that cannot be read."""
    try:
        return pushed_metrics(decompress(instance.compression_type, instance.metrics, UNFOLDED_BYTES)), None
    except (NoMetrics, CompressionError) as error:
        return [], str(error)


def _row(instance_id: bytes, instance: Instance, now_ms: int) -> dict[str, Any]:
    metrics, problem = last_metrics(instance)
    return {
        "client_instance_id": base64.urlsafe_b64encode(instance_id).decode().rstrip("="),
        "client_id": instance.client_id,
        "host": instance.host,
        "software": instance.software,
        "subscribed": list(instance.subscription.metrics),
        "interval_ms": instance.subscription.interval_ms,
        "pushes": instance.pushes,
        "last_push_ms": None if instance.pushed_ms < 0 else max(now_ms - instance.pushed_ms, 0),
        "metrics": [as_json(metric) for metric in metrics],
        "problem": problem,
    }
