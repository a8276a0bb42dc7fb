"""Requests made from their declarations: each array of each API with any number of items."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from coterie.records.encoding import encode_batch
from coterie.wire.apis import APIS, Api
from coterie.wire.declaration import Message, Struct
from coterie.wire.fields import FieldSpec, FieldType
from coterie.wire.topic_names import LAST_WITHOUT_IDS

_NUMBERS = {"acks": 1}
Path = tuple[str, ...]  # the names of the fields that lead to an array
Values = Mapping[str, Any]  # by the name of a field: its value, or a function of the item's number
BATCH = encode_batch([(1_700_000_000_000, b"k", b"v" * 20, ())])


def _numbered(prefix: str) -> Callable[[int], str]:
    return lambda number: f"{prefix}{number}"


def _identity(number: int) -> int:
    return number


# A topic with as many partitions as a request may have items; and as many topics of one partition, many0, many1 and so on.
PARTITIONS, TOPICS = "many", _numbered("many")
# Items that mean something to the broker, beside those that the declarations alone make.
WORLDS: dict[str, list[Values]] = {
    "Produce": [
        {"name": PARTITIONS, "index": _identity, "records": BATCH, "acks": 1, "transactional_id": None},
        {"name": PARTITIONS, "index": _identity, "records": BATCH, "acks": 0, "transactional_id": None},
    ],
    "Fetch": [{"topic": PARTITIONS, "partition": _identity, "partition_max_bytes": 1_000, "max_bytes": 2**30}],
    "ListOffsets": [{"name": PARTITIONS, "partition_index": _identity, "timestamp": 0}],
    "OffsetForLeaderEpoch": [{"topic": PARTITIONS, "partition": _identity}],
    "DeleteRecords": [{"name": PARTITIONS, "partition_index": _identity, "offset": -1}],
    "Metadata": [{"name": TOPICS}, {"name": _numbered("new"), "allow_auto_topic_creation": True}],
    "OffsetCommit": [
        {"name": PARTITIONS, "generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}
    ],
    "OffsetFetch": [{"name": PARTITIONS, "member_id": None, "member_epoch": -1}],
    "CreateTopics": [{"num_partitions": 1, "replication_factor": 1, "name": _numbered("new"), "assignments": []}],
    "DeleteTopics": [{"topic_names": TOPICS, "name": TOPICS, "topic_id": bytes(16)}],
    "CreatePartitions": [{"name": TOPICS, "count": 2, "assignments": None}],
    "DescribeConfigs": [
        {"resource_type": 2, "resource_name": TOPICS, "configuration_keys": "retention.ms"},
        {"resource_type": 32, "resource_name": _numbered("g"), "configuration_keys": "consumer.session.timeout.ms"},
    ],
    "WriteTxnMarkers": [
        {
            "producer_id": 1,
            "producer_epoch": 0,
            "name": PARTITIONS,
            "partition_indexes": _identity,
            "coordinator_epoch": 0,
        }
    ],
    "DescribeProducers": [{"name": PARTITIONS, "partition_indexes": _identity}],
    "DescribeTopicPartitions": [{"name": TOPICS, "cursor": None, "response_partition_limit": 2_000}],
    "ElectLeaders": [{"topic": PARTITIONS, "partitions": _identity, "election_type": 0}],
    "AlterPartitionReassignments": [{"name": PARTITIONS, "partition_index": _identity, "replicas": 1}],
    "AlterReplicaLogDirs": [{"name": PARTITIONS, "partitions": _identity}],
    "DescribeLogDirs": [{"topic": PARTITIONS, "partitions": _identity}],
    "AlterClientQuotas": [{"entity_type": "user", "key": "producer_byte_rate"}],
    "AlterUserScramCredentials": [
        {"mechanism": 1, "iterations": 4_096, "salt": b"salt", "salted_password": b"password", "deletions": []}
    ],
    "IncrementalAlterConfigs": [
        {"resource_type": 32, "name": "consumer.session.timeout.ms", "value": "50000"},
        {"resource_type": 16, "name": "interval.ms", "value": "1000"},
        {"resource_type": 2, "name": "retention.ms", "value": "1000"},
        {"resource_type": 2, "resource_name": TOPICS, "name": "retention.ms", "value": "1000"},
        {
            "resource_type": 2,
            "resource_name": PARTITIONS,
            "name": "cleanup.policy",
            "value": "compact",
            "config_operation": 2,
        },
        {"resource_type": 4, "resource_name": "", "name": _numbered("plugin")},
        {"resource_type": 8, "resource_name": "1", "name": _numbered("coterie.x"), "value": "INFO"},
    ],
}
WORLDS["AlterConfigs"] = WORLDS["IncrementalAlterConfigs"]


@dataclass(frozen=True, slots=True)
class ArrayOfApi:
    """One array of an API's requests, in the newest version that has it, and the values of the fields. ``distinct``: its items
    differ; else all are the same."""

    api: Api
    path: Path
    version: int
    world: int
    distinct: bool

    def __str__(self) -> str:
        items = "different" if self.distinct else "same"
        return f"{self.api.name}-{'.'.join(self.path)}-{self.world}-{items}"

    @property
    def values(self) -> Values:
        """Of the fields that the declaration alone does not make."""
        return [{}, *WORLDS.get(self.api.name, [])][self.world]

    @property
    def names_existing(self) -> bool:
        """Whether the request names topics or partitions that exist."""
        return any(value in (PARTITIONS, TOPICS) for value in self.values.values())

    def request(self, count: int) -> Message:
        """A request with so many items in the array, and one in each other."""
        maker = _Maker(self.version, count, self.values, distinct=self.distinct)
        made: Message = maker.struct(self.api.request, self.path, 0)
        return made


def make_request(shape: type[Message], version: int, values: Values) -> Any:
    """A request with one item in each array."""
    return _Maker(version, 1, values, distinct=True).struct(shape, (), 0)


def every_array() -> Iterator[ArrayOfApi]:
    """Of every API."""
    for api in APIS.values():
        newest: dict[Path, int] = {}
        for version in range(api.advertised.first, api.advertised.last + 1):
            newest |= dict.fromkeys(_paths(api.request, version), version)
        for path, version in newest.items():
            named = min(version, LAST_WITHOUT_IDS.get(api.key) or version)
            for world in range(len(WORLDS.get(api.name, [])) + 1):
                for distinct in (True, False):
                    yield ArrayOfApi(api, path, named if world else version, world, distinct)


def _paths(shape: type[Struct], version: int) -> Iterator[Path]:
    for spec in shape.fields:
        if version not in spec.versions:
            continue
        if spec.kind.element is not None:
            yield (spec.name,)
        of = spec.kind.element or spec.kind
        if of.shape is not None:
            for path in _paths(of.shape, version):
                yield (spec.name, *path)


@dataclass(frozen=True, slots=True)
class _Maker:
    version: int
    count: int
    values: Values
    distinct: bool

    def struct(self, shape: type[Struct], path: Path, number: int) -> Any:
        """``path``: from this struct to the array; ``number``: of the item that it is part of."""
        fields = {s.name: self._field(s, path, number) for s in shape.fields if self.version in s.versions}
        return shape(**fields)

    def _field(self, spec: FieldSpec, path: Path, number: int) -> Any:
        inner = path[1:] if path[:1] == (spec.name,) else None
        element = spec.kind.element
        if element is None:
            return self._value(spec.name, spec.kind, inner or (), number)
        if inner == ():
            return [self._value(spec.name, element, (), n if self.distinct else 0) for n in range(self.count)]
        given = self.values.get(spec.name, ...)
        if inner is None and (given is None or given == []):
            return given
        return [self._value(spec.name, element, inner or (), number)]

    def _value(self, name: str, kind: FieldType, path: Path, number: int) -> Any:
        if kind.shape is not None:
            return self.struct(kind.shape, path, number)
        if name in self.values:
            given = self.values[name]
            return given(number) if callable(given) else given
        match kind.name:
            case "string":
                return f"x{number}"
            case "bytes" | "records":
                return b""
            case "uuid":
                return number.to_bytes(16, "big")
            case "boolean":
                return False
            case "float64":
                return 1.0
            case _:
                return number if "partition" in name or name.endswith("index") else _NUMBERS.get(name, 0)
