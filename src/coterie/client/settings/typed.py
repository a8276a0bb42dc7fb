"""The settings of each client as a TypedDict, so that a type checker knows their names and values.

Made of the table in `settings` beside it by `python -m tests.client.settings.typed_settings_source`. Keys are Kafka's
names, which only the functional syntax can write.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any, Literal, TypedDict

from coterie.assignors import Assignor
from coterie.client.serialization import Deserializer, DeserializerLike, Serializer, SerializerLike
from coterie.client.settings.types import Partitioner
from coterie.client.types import ConsumerInterceptor

_Assignor = type[Assignor] | Assignor
_Interceptor = type[ConsumerInterceptor] | ConsumerInterceptor
_Serializer = type[Serializer[Any]] | SerializerLike[Any]
_Deserializer = type[Deserializer[Any]] | DeserializerLike[Any]
_Every = TypedDict(
    "_Every",
    {
        "bootstrap.servers": str | Sequence[str],
        "client.id": str,
        "request.timeout.ms": int,
        "retry.backoff.ms": int,
        "retry.backoff.max.ms": int,
        "default.api.timeout.ms": int,
        "metadata.max.age.ms": int,
        "allow.auto.create.topics": bool,
        "security.protocol": Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"],
        "ssl.truststore.type": str,
        "ssl.truststore.location": str | PathLike[str] | None,
        "ssl.keystore.type": str,
        "ssl.keystore.location": str | PathLike[str] | None,
        "ssl.key.password": str | None,
        "ssl.endpoint.identification.algorithm": str,
        "sasl.mechanism": Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"],
        "sasl.username": str | None,
        "sasl.password": str | None,
        "sasl.jaas.config": str | None,
        "sasl.oauthbearer.token.callback": Callable[[], str] | None,
        "sasl.oauthbearer.token.endpoint.url": str | None,
    },
    total=False,
)
_Consumer = TypedDict(
    "_Consumer",
    {
        "group.id": str | None,
        "group.protocol": Literal["classic", "consumer"],
        "group.remote.assignor": str | None,
        "group.instance.id": str | None,
        "client.rack": str | None,
        "session.timeout.ms": int,
        "heartbeat.interval.ms": int,
        "max.poll.interval.ms": int,
        "max.poll.records": int,
        "partition.assignment.strategy": str | _Assignor | Sequence[str | _Assignor],
        "auto.offset.reset": Literal["earliest", "latest", "none"],
        "enable.auto.commit": bool,
        "auto.commit.interval.ms": int,
        "fetch.min.bytes": int,
        "fetch.max.bytes": int,
        "fetch.max.wait.ms": int,
        "max.partition.fetch.bytes": int,
        "isolation.level": Literal["read_uncommitted", "read_committed"],
        "exclude.internal.topics": bool,
        "check.crcs": bool,
        "interceptor.classes": _Interceptor | Sequence[_Interceptor],
        "key.deserializer": str | _Deserializer | None,
        "value.deserializer": str | _Deserializer | None,
    },
    total=False,
)
_ShareConsumer = TypedDict(
    "_ShareConsumer",
    {
        "group.id": str | None,
        "client.rack": str | None,
        "max.poll.interval.ms": int,
        "max.poll.records": int,
        "auto.commit.interval.ms": int,
        "fetch.min.bytes": int,
        "fetch.max.bytes": int,
        "fetch.max.wait.ms": int,
        "max.partition.fetch.bytes": int,
        "exclude.internal.topics": bool,
        "share.acknowledgement.mode": Literal["implicit", "explicit"],
        "share.acquire.mode": Literal["batch_optimized", "record_limit"],
        "check.crcs": bool,
        "key.deserializer": str | _Deserializer | None,
        "value.deserializer": str | _Deserializer | None,
    },
    total=False,
)
_Producer = TypedDict(
    "_Producer",
    {
        "acks": Literal["0", "1", "all", "-1", 0, 1, -1],
        "enable.idempotence": bool,
        "compression.type": Literal["none", "gzip", "snappy", "lz4", "zstd"],
        "batch.size": int,
        "linger.ms": int,
        "buffer.memory": int,
        "delivery.timeout.ms": int,
        "max.request.size": int,
        "max.in.flight.requests.per.connection": int,
        "max.block.ms": int,
        "partitioner": Partitioner | None,
        "key.serializer": str | _Serializer | None,
        "value.serializer": str | _Serializer | None,
        "transactional.id": str | None,
        "transaction.timeout.ms": int,
    },
    total=False,
)


class ConsumerSettings(_Every, _Consumer, total=False):
    """Settings of a `Consumer` by Kafka's names: ``settings: ConsumerSettings = {"group.id": "g"}`` is checked by mypy. Values
    that are texts, such as from a file, go into a plain ``dict[str, str]``, which clients take as well."""


class ShareConsumerSettings(_Every, _ShareConsumer, total=False):
    """Settings of a `ShareConsumer`, as `ConsumerSettings`."""


class ProducerSettings(_Every, _Producer, total=False):
    """Settings of a `Producer`, as `ConsumerSettings`."""


class AdminSettings(_Every, total=False):
    """Settings of an `Admin`, as `ConsumerSettings`."""
