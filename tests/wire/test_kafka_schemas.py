"""Our declarations beside Kafka's own, version by version; and what Kafka serves that we do not is known, with its
reason. Kafka's own declarations of its messages, as facts: each message's versions and each field's name, type, versions,
tag and default. They are read from the jar of kafka-clients; a version that the newest Kafka has dropped is read from an
older one.

`python -m tests.wire.test_kafka_schemas` records them again (its jars by `coterie_conformance.servers.kafka`).
"""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest

from coterie.wire.apis import APIS, CLUSTER_APIS
from coterie.wire.declaration import Message, Struct
from coterie.wire.fields import FieldSpec, FieldType, Versions
from coterie_conformance.differences.recognisers import NOT_IN_THIS_VERSION, NOT_SERVED
from coterie_conformance.servers.kafka import VERSIONS, jars

RECORDED = Path(__file__).parent / "data" / "kafka-schemas.json"
# field: [name, type, versions, versions in which it may be null, tag, default, fields of its struct]
Field = list[Any]
# Kafka's name of a field -> ours, where ours says more or is one for fields that Kafka has twice.
OUR_NAMES = {
    "enable2_pc": "enable_2pc",
    "v3_and_below_transactional_id": "transactional_id",
    "v3_and_below_producer_id": "producer_id",
    "v3_and_below_producer_epoch": "producer_epoch",
    "v3_and_below_topics": "topics",
    "results_by_topic_v3_and_below": "results_by_topic",
    "partition_epoch": "zk_version",
}
SCHEMAS: dict[str, list[dict[str, Any]]] = {}
PUBLISHED = [api for api in (*APIS.values(), *CLUSTER_APIS.values()) if not api.hidden]
MESSAGES = [message for api in PUBLISHED for message in (api.request, api.response)]


def recorded() -> list[dict[str, Any]]:
    """One entry for each message and Kafka version, the newest Kafka first: kafka, name, key, versions, flexible, fields."""
    entries: list[dict[str, Any]] = json.loads(RECORDED.read_text())
    return entries


def _record() -> None:
    covered = dict[str, set[int]]()
    entries = []
    for kafka in sorted(VERSIONS, reverse=True):
        for schema in _schemas(kafka):
            own = _numbers(schema["validVersions"])
            if own - covered.setdefault(schema["name"], set()):
                covered[schema["name"]] |= own
                entries.append(_entry(kafka, schema))
    RECORDED.write_text("[\n" + ",\n".join(json.dumps(entry, separators=(",", ":")) for entry in entries) + "\n]\n")


def _numbers(versions: str) -> set[int]:
    served = Versions.parse("" if versions == "none" else versions)
    return set(range(served.first, served.last + 1))


def _schemas(kafka: str) -> list[dict[str, Any]]:
    """Of the requests and responses in that Kafka's clients."""
    with zipfile.ZipFile(jars(kafka) / f"kafka-clients-{kafka}.jar") as jar:
        names = sorted(
            name for name in jar.namelist() if re.fullmatch(r"common/message/\w+(Request|Response)\.json", name)
        )
        texts = [jar.read(name).decode() for name in names]
    return [json.loads(re.sub(r"(?m)^\s*//.*$|(?<=[,{}\]]) *//.*$", "", text)) for text in texts]


def _entry(kafka: str, schema: dict[str, Any]) -> dict[str, Any]:
    structs = {shared["name"]: shared["fields"] for shared in schema.get("commonStructs", [])}
    return {
        "kafka": kafka,
        "name": schema["name"],
        "key": schema["apiKey"],
        "listeners": schema.get("listeners", []),
        "versions": schema["validVersions"].replace("none", ""),
        "flexible": schema.get("flexibleVersions", "none").replace("none", ""),
        "fields": [_field(field, structs) for field in schema["fields"]],
    }


def _field(field: dict[str, Any], structs: dict[str, list[dict[str, Any]]]) -> Field:
    inner = field.get("fields") or structs.get(field["type"].removeprefix("[]"))
    default = field.get("default", "")
    return [
        field["name"],
        field["type"] if inner is None else "[]struct" if field["type"].startswith("[]") else "struct",
        field["versions"],
        field.get("nullableVersions", "").replace("none", ""),
        field.get("tag"),
        str(default).lower() if isinstance(default, bool) else str(default),
        [_field(of, structs) for of in inner or ()],
    ]


NEWEST = recorded()[0]["kafka"]
for entry in recorded():
    SCHEMAS.setdefault(entry["name"], []).append(entry)
Row = tuple[Any, ...]


def kafkas(name: str, version: int) -> dict[str, Any] | None:
    """The declaration of the newest Kafka that has this version."""
    having = (entry for entry in SCHEMAS[name] if version in Versions.parse(entry["versions"]))
    return next(having, None)


@pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)
def test_each_version_has_kafkas_fields(cls: type[Message]) -> None:
    """In order, with their types, the versions in which they may be null, their tags, and the defaults of tagged ones."""
    compared = 0
    for version in range(cls.versions.first, cls.versions.last + 1):
        schema = kafkas(cls.__name__, version)
        if schema is None:
            continue
        compared += 1
        flexible = version in Versions.parse(schema["flexible"])
        assert (cls.api_key, version in cls.flexible) == (schema["key"], flexible)
        assert our_rows(cls, version) == kafkas_rows(schema["fields"], version, flexible), version
    assert compared


def our_rows(shape: type[Struct], version: int) -> list[Row]:
    return in_order([our_row(spec, version) for spec in shape.fields if version in spec.versions])


def our_row(spec: FieldSpec, version: int) -> Row:
    kind, shape = our_type(spec.kind)
    null = version in spec.nullable or kind == "records"
    default = None if spec.tag is None or shape or kind.startswith("[]") else plain(spec.default)
    return spec.name, kind, null, spec.tag, default, our_rows(shape, version) if shape else []


def our_type(kind: FieldType) -> tuple[str, type[Struct] | None]:
    if kind.element is not None:
        name, shape = our_type(kind.element)
        return f"[]{name}", shape
    return kind.name, kind.shape


def kafkas_rows(fields: list[Field], version: int, flexible: bool) -> list[Row]:
    carried = [field for field in fields if version in Versions.parse(field[2])]
    return in_order([kafkas_row(field, version, flexible) for field in carried])


def kafkas_row(field: Field, version: int, flexible: bool) -> Row:
    name, kind, _, nullable, tag, default, inner = field
    tag = tag if flexible else None
    kind = kind.replace("bool", "boolean")
    null = version in Versions.parse(nullable) or kind == "records"
    value = None if tag is None or inner or kind.startswith("[]") else plain(default)
    return snake(name), kind, null, tag, value, kafkas_rows(inner, version, flexible)


def in_order(rows: list[Row]) -> list[Row]:
    """Fields of the body in their order, tagged ones by their tags."""
    return sorted(rows, key=lambda row: -1 if row[3] is None else row[3])


def plain(default: Any) -> str:
    """A default in one spelling: none given is zero, no text, or no bytes."""
    text = "" if default is None or default == bytes(16) else str(default).lower().removeprefix("0x")
    return "" if text in ("0", "0.0", "false", "null", "none") else text


def snake(name: str) -> str:
    ours = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
    return OUR_NAMES.get(ours, ours)


def test_what_the_newest_kafka_serves_and_we_do_not_has_a_reason() -> None:
    """Every API for clients of brokers, and every version of one, is advertised here or is a row with its reason."""
    served = {api.key: api.advertised.last for api in PUBLISHED}
    missing = []
    for entry in (entry for entry in recorded() if entry["kafka"] == NEWEST and "broker" in entry["listeners"]):
        key, last = entry["key"], Versions.parse(entry["versions"]).last
        if (key not in served and key not in NOT_SERVED) or (
            served.get(key, last) < last and key not in NOT_IN_THIS_VERSION
        ):
            missing.append((entry["name"], last))
    assert not missing


def test_no_reason_stands_for_an_api_or_version_that_we_serve() -> None:
    served = {api.key for api in APIS.values()}
    newest = {entry["key"]: Versions.parse(entry["versions"]).last for entry in recorded() if entry["kafka"] == NEWEST}
    assert not served & NOT_SERVED.keys()
    assert [key for key in NOT_IN_THIS_VERSION if APIS[key].advertised.last >= newest[key]] == []


if __name__ == "__main__":
    _record()
