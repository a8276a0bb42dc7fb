"""One crew's life on real Kafka, of which the log and `__consumer_offsets` were kept: causes inferred from the records alone
beside the log's own, and both together."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from coterie.coordinator.journal.line import JournalLine
from coterie.coordinator.stored_records.stored import from_record
from coterie.observer.logs.server_log import LogStories, coordinator_lines
from coterie.observer.machine import sights
from coterie.observer.machine.observer import GroupObserver
from coterie.records.batch import batches
from coterie.records.decoding import decode_records

LOGS = Path(__file__).parents[1] / "pipeline" / "server_logs"
VERSIONS = sorted(path.name for path in LOGS.iterdir() if path.is_dir())


def read_records(version: str) -> Iterator[sights.RecordRead]:
    for segment in sorted((LOGS / version).glob("__consumer_offsets-*/*.log")):
        data = segment.read_bytes()
        for position, header in batches(data):
            if header.is_control:
                continue
            for record in decode_records(data, position, header):
                read = from_record(record.key, record.value)
                if read is not None:
                    yield sights.RecordRead(record.timestamp, *read)


def observed(version: str, *, with_logs: bool) -> list[JournalLine]:
    observer = GroupObserver(reads_logs=with_logs)
    lines: list[JournalLine] = []
    rows = logged(version) if with_logs else []
    seen: list[sights.RecordRead | sights.Logged] = [*read_records(version), *rows]
    for sight in sorted(seen, key=lambda sight: sight.time_ms):
        lines += observer.see(sights.Tick(sight.time_ms)) + observer.see(sight)
    return lines + observer.see(sights.Tick(2**50))


def logged(version: str) -> list[sights.Logged]:
    stories = LogStories()
    rows = (stories.read(text) for _, _, text in coordinator_lines(LOGS / version / "server.log"))
    return [sights.Logged(row["time_ms"], row) for row in rows if row is not None]


def kinds(lines: list[JournalLine]) -> dict[int, list[tuple[str, str]]]:
    return {
        line.generation: [(c["kind"], c["evidence"]) for c in line.causes]
        for line in lines
        if line.group == "crew" and line.event in ("stable", "empty")
    }


@pytest.mark.parametrize("version", VERSIONS)
def test_with_the_log_the_cause_is_the_logs(version: str) -> None:
    seen = kinds(observed(version, with_logs=True))
    for sight in logged(version):
        if sight.row["group"] == "crew" and sight.row["cause"] not in (None, "unknown"):
            assert (sight.row["cause"], "observed") in seen[sight.row["generation"]]


@pytest.mark.parametrize("version", VERSIONS)
def test_from_the_records_alone(version: str) -> None:
    """Members without commits: that one is gone is known, and why only where its session could not end yet."""
    seen = kinds(observed(version, with_logs=False))
    assert [seen[generation][0] for generation in sorted(seen)] == [
        ("member_joined", "observed"),
        ("member_joined", "observed"),
        ("member_gone", "unknown"),
        ("subscription_changed", "observed"),
        ("topic_metadata_changed", "inferred"),
        ("member_gone", "unknown"),
        ("member_left", "inferred"),
        ("member_left", "inferred"),
    ]
