"""Client settings by Kafka's names, with dots or underscores; defaults are Kafka's."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, TypeVar

from coterie.assignors import ASSIGNORS
from coterie.client.errors import ConfigError
from coterie.client.security import MECHANISMS, PROTOCOLS, Security, security

T = TypeVar("T")

DEFAULTS: dict[str, Any] = {
    "bootstrap.servers": "127.0.0.1:9092",
    "client.id": "coterie",
    "request.timeout.ms": 30_000,
    "retry.backoff.ms": 100,
    "retry.backoff.max.ms": 1_000,
    "default.api.timeout.ms": 60_000,
    "metadata.max.age.ms": 300_000,
    "group.id": None,
    "group.instance.id": None,
    "client.rack": None,
    "session.timeout.ms": 45_000,
    "heartbeat.interval.ms": 3_000,
    "max.poll.interval.ms": 300_000,
    "max.poll.records": 500,
    "partition.assignment.strategy": "range,cooperative-sticky",
    "auto.offset.reset": "latest",
    "enable.auto.commit": True,
    "auto.commit.interval.ms": 5_000,
    "fetch.min.bytes": 1,
    "fetch.max.bytes": 52_428_800,
    "fetch.max.wait.ms": 500,
    "max.partition.fetch.bytes": 1_048_576,
    "isolation.level": "read_uncommitted",
    "allow.auto.create.topics": True,
    "exclude.internal.topics": True,
    "check.crcs": True,
    "interceptor.classes": (),
    "acks": "all",
    "enable.idempotence": True,
    "compression.type": "none",
    "batch.size": 16_384,
    "linger.ms": 5,
    "buffer.memory": 33_554_432,
    "delivery.timeout.ms": 120_000,
    "max.request.size": 1_048_576,
    "max.block.ms": 60_000,
    "partitioner": None,
    "transactional.id": None,
    "transaction.timeout.ms": 60_000,
    "security.protocol": "PLAINTEXT",
    "ssl.truststore.type": "PEM",
    "ssl.truststore.location": None,
    "ssl.keystore.type": "PEM",
    "ssl.keystore.location": None,
    "ssl.key.password": None,
    "ssl.endpoint.identification.algorithm": "https",
    "sasl.mechanism": "PLAIN",
    "sasl.username": None,
    "sasl.password": None,
    "sasl.jaas.config": None,
}
CHOICES = {
    "auto.offset.reset": ("earliest", "latest", "none"),
    "acks": ("0", "1", "all", "-1"),
    "compression.type": ("none", "gzip", "snappy", "lz4", "zstd"),
    "isolation.level": ("read_uncommitted", "read_committed"),
    "security.protocol": PROTOCOLS,
    "sasl.mechanism": MECHANISMS,
}


OBJECTS = frozenset({"interceptor.classes", "partitioner"})  # Python's, not text
# Text with commas, or a list of texts: for each what its items are.
LISTS = {
    "bootstrap.servers": "addresses, such as 127.0.0.1:9092",
    "partition.assignment.strategy": f"names of assignors ({', '.join(ASSIGNORS)}) or of Kafka's Java classes",
}
_JAVA = "org.apache.kafka.clients.consumer."
_JAVA_ASSIGNORS = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "StickyAssignor": "sticky",
    "CooperativeStickyAssignor": "cooperative-sticky",
}


def assignor_names(text: str) -> tuple[str, ...]:
    """The assignors of a comma-separated list, in order; Apache Kafka's class names are understood as well. Raises
    ConfigError for one that there is not, or that is listed twice."""
    found: list[str] = []
    for item in (part.strip() for part in text.split(",")):
        name = _JAVA_ASSIGNORS.get(item.removeprefix(_JAVA), item)
        if name not in ASSIGNORS:
            raise ConfigError(f"there is no assignor {item or '(nothing)'}; there are {', '.join(ASSIGNORS)}")
        if name in found:
            raise ConfigError(f"assignor {name} is listed twice")
        found.append(name)
    return tuple(found)


def _joined(name: str, value: Any) -> str:
    """A list setting as text with commas. Raises ConfigError."""
    items = list(value) if isinstance(value, list | tuple) else [value]
    if not all(isinstance(item, str) for item in items):
        raise ConfigError(f"{name} takes {LISTS[name]}, not {value!r}")
    return ",".join(items)


class ClientSettings:
    """The settings in force, out of a table of names and defaults, by default Kafka's of today."""

    def __init__(
        self,
        given: Mapping[str, Any],
        defaults: Mapping[str, Any] = DEFAULTS,
        choices: Mapping[str, tuple[str, ...]] = CHOICES,
    ) -> None:
        """Raises ConfigError for an unknown name or a bad value."""
        self._values, self._choices = dict(defaults), choices
        for name, value in given.items():
            dotted = name.replace("_", ".")
            if dotted not in defaults:
                close = difflib.get_close_matches(dotted, defaults, n=1)
                raise ConfigError(
                    f"there is no client setting {name}" + (f"; did you mean {close[0]}?" if close else "")
                )
            self._values[dotted] = self._parse(dotted, defaults[dotted], value)

    def _parse(self, name: str, default: Any, value: Any) -> Any:
        if name in self._choices and str(value) not in self._choices[name]:
            raise ConfigError(f"{name} must be one of {', '.join(self._choices[name])}, not {value!r}")
        if isinstance(default, bool):
            if str(value).lower() not in ("true", "false"):
                raise ConfigError(f"{name} must be true or false, not {value!r}")
            return str(value).lower() == "true"
        if isinstance(default, int):
            try:
                return int(value)
            except (TypeError, ValueError):
                raise ConfigError(f"{name} must be a whole number, not {value!r}") from None
        if name in OBJECTS:
            return value
        if name in LISTS:
            text = _joined(name, value)
            if name == "partition.assignment.strategy":
                assignor_names(text)
            return text
        return value if value is None else str(value)

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    @property
    def committed_only(self) -> bool:
        """isolation.level: whether only records of decided transactions, and only committed ones, count."""
        return bool(self["isolation.level"] == "read_committed")

    def security(self) -> Security:
        """Raises ConfigError."""
        return security(self._values)

    def bootstrap(self) -> list[tuple[str, int]]:
        """Raises ConfigError for an address that is not HOST:PORT."""
        addresses = []
        for item in self["bootstrap.servers"].split(","):
            host, colon, port = item.strip().rpartition(":")
            if not colon or not (port.isascii() and port.isdecimal()) or not 0 < int(port[:6]) < 65_536:
                raise ConfigError(f"bootstrap.servers must be HOST:PORT[,HOST:PORT...], not {item!r}")
            addresses.append((host.strip("[]"), int(port)))
        return addresses


def made(given: Any, kind: type[T]) -> list[T]:
    """Objects of a setting that takes classes or objects of that kind, one or a list. Raises ConfigError."""
    found: list[T] = []
    for item in given if isinstance(given, list | tuple) else [given]:
        one = item() if isinstance(item, type) else item
        if not isinstance(one, kind):
            raise ConfigError(f"interceptor.classes takes subclasses of {kind.__name__}, not {item!r}")
        found.append(one)
    return found
