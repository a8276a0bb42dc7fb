"""Kafka's own declarations of its messages, as facts: each message's versions and each field's name, type, versions, tag and
default. They are read from the jar of kafka-clients; a version that the newest Kafka has dropped is read from an older one.

`python -m tests.wire.kafka_schemas` records them again (its jars by `coterie_conformance.servers.kafka`).
"""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path
from typing import Any

from coterie.wire.fields import Versions
from coterie_conformance.servers.kafka import VERSIONS, jars

RECORDED = Path(__file__).parent / "data" / "kafka-schemas.json"
# field: [name, type, versions, versions in which it may be null, tag, default, fields of its struct]
Field = list[Any]


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


if __name__ == "__main__":
    _record()
