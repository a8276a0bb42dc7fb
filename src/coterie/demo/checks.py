"""The demo checks itself: what went in against what came out, everywhere it came out."""

from __future__ import annotations

import datetime
import json
import zlib
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coterie.demo.rows import InputRow, read_rows
from coterie.pipeline.options.options import source_options
from coterie.pipeline.reading.fetching import read_range
from coterie.pipeline.reading.topics import TopicReader
from coterie.text.quantity import quantity


@dataclass(slots=True)
class Check:
    """One claim and whether it held."""

    name: str
    right: bool
    detail: str


@dataclass(slots=True)
class Expected:
    """Computed from the source directly, without broker or Spark."""

    records: int = 0
    checksum: int = 0
    cells: dict[tuple[str, str], tuple[int, int, float]] = field(default_factory=dict)
    keys: Counter[str | None] = field(default_factory=Counter)


def expect(path: Path | None, key: str | None) -> Expected:
    """``checksum`` is the sum of the values' CRC-32, so that order does not matter. ``cells``: (carrier, hour) ->
    flights, departed, minutes of delay."""
    expected = Expected()
    cells: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0, 0, 0.0])
    for row in read_rows(path, key):
        if isinstance(row, InputRow):
            expected.records += 1
            expected.checksum += zlib.crc32(row.value())
            expected.keys[row.key] += 1
            if path is None:
                cell = cells[str(row.fields["carrier"]), str(row.fields["time_hour"])]
                delay = row.fields["dep_delay"]
                cell[0] += 1
                if isinstance(delay, float):
                    cell[1] += 1
                    cell[2] += delay
    expected.cells = {k: (int(v[0]), int(v[1]), v[2]) for k, v in cells.items()}
    return expected


def topic_content(address: str, topic: str) -> tuple[int, int, dict[int, int]]:
    """Records in the topic, their checksum, and each partition's end."""
    options = {"kafka.bootstrap.servers": address, "subscribe": topic, "startingOffsets": "earliest"}
    source = source_options(options, streaming=False)
    reader = TopicReader(source)
    records = checksum = 0
    bounds = reader.bounds()
    for r in reader.plan_ranges(bounds):
        for columns in read_range(r, source.settings(), with_headers=False, fail_on_data_loss=True):
            records += len(columns)
            checksum += sum(zlib.crc32(v) for v in columns.values.to_pylist())
    reader.close()
    return records, checksum, {p: end for (_, p), (_, end) in bounds.items()}


def check_topic(expected: Expected, records: int, checksum: int) -> list[Check]:
    """The topic's records and their checksum beside the source's."""
    return [
        Check("records in the topic", records == expected.records, f"{records:,} of {expected.records:,}"),
        Check("their checksum", checksum == expected.checksum, f"{checksum:x}, the source's {expected.checksum:x}"),
    ]


def check_crew(folder: Path, ends: dict[int, int], killed: str) -> list[Check]:
    """Every record was delivered at least once; each duplicate was first delivered to the member that was killed before it
    could commit."""
    first_by: dict[int, dict[int, str]] = {p: {} for p in ends}
    duplicates: Counter[str] = Counter()
    unexplained = delivered = 0
    for line in sorted(_deliveries(folder), key=lambda d: d["time_ms"]):
        seen = first_by[line["partition"]]
        for offset in range(line["first"], line["last"] + 1):
            delivered += 1
            before = seen.get(offset)
            if before is None:
                seen[offset] = line["member"]
            else:
                duplicates[before] += 1
                unexplained += before != killed
    missing = sum(end - len(first_by[p]) for p, end in ends.items())
    repeated = sum(duplicates.values())
    explained = (
        f"{quantity(repeated, 'duplicate')}: {killed} had read the records and not committed them before the kill"
    )
    if not repeated:
        explained = f"none: {killed} had committed everything it had read"
    return [
        Check("every record delivered to crew", missing == 0, f"{delivered - repeated:,} of {sum(ends.values()):,}"),
        Check(
            "duplicates explained by the kill",
            unexplained == 0,
            explained
            if unexplained == 0
            else f"{unexplained:,} of {quantity(repeated, 'duplicate')} without an explanation",
        ),
    ]


def _deliveries(folder: Path) -> list[dict[str, Any]]:
    deliveries = []
    for path in folder.glob("*.jsonl"):
        for line in path.read_text().splitlines():
            try:
                deliveries.append(json.loads(line))
            except ValueError:
                continue  # the line that a killed member was writing
    return deliveries


def check_table(table: Path, expected: Expected, flights: bool) -> list[Check]:
    """Spark's table, row by row, against the direct computation."""
    import pyarrow.parquet as pq

    rows = pq.read_table(table).to_pylist()
    if not flights:
        counted = {r["key"]: r["records"] for r in rows}
        detail = f"{quantity(len(counted), 'key')}, {quantity(sum(counted.values()), 'record')}"
        return [Check("Spark's counts per key", counted == dict(expected.keys), detail)]
    cells = {(r["carrier"], _hour(r["hour"])): (r["flights"], r["departed"], r["dep_delay_sum"]) for r in rows}
    carriers: Counter[str] = Counter()
    wanted: Counter[str] = Counter()
    for (carrier, _), (flown, _, _) in cells.items():
        carriers[carrier] += flown
    for (carrier, _), (flown, _, _) in expected.cells.items():
        wanted[carrier] += flown
    delay = sum(c[2] for c in cells.values())
    return [
        Check(
            "Spark's flights per carrier",
            carriers == wanted,
            f"{quantity(len(carriers), 'carrier')}, {quantity(sum(carriers.values()), 'flight')}",
        ),
        Check(
            "Spark's delays per carrier and hour",
            cells == expected.cells,
            f"{len(cells):,} of {quantity(len(expected.cells), 'row')}, {quantity(round(delay), 'minute')} of delay",
        ),
    ]


def _hour(value: datetime.datetime) -> str:
    return value.strftime("%Y-%m-%dT%H:00:00Z")


def check_group(watch: Any) -> list[Check]:
    """The static member's restart caused no rebalance, and Spark's group caught up."""
    replaced = watch.replaced()
    quiet = bool(replaced) and all(line.state_from == line.state_to == "Stable" for line in replaced)
    lag = watch.last_lag("delays")
    return [
        Check(
            "the static member's restart",
            quiet,
            "no rebalance" if quiet else "it caused a rebalance, or never happened",
        ),
        Check("lag of Spark's group delays", lag == 0, f"{lag}"),
    ]


# Of a run in which members join, die and come back; a crew that behaves has no stalls.
_FILLED_TABLES = (
    "commits",
    "generations",
    "members",
    "assignments",
    "ownership",
    "tenures",
    "rebalances",
    "groups",
    "cadence",
    "lag",
)


def check_history(counts: dict[str, int]) -> list[Check]:
    detail = ", ".join(f"{counts.get(name, 0):,} {name}" for name in _FILLED_TABLES)
    return [Check("history tables", all(counts.get(name) for name in _FILLED_TABLES), detail)]
