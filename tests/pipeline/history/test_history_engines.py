"""The history's tables are the same whether Spark makes them or this process: of recorded logs, and of random histories."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

from coterie.assignors.blobs import encode_assignment, encode_subscription
from coterie.coordinator.events import GroupRemoved, GroupStored, OffsetRemoved, OffsetStored
from coterie.coordinator.state import Cause, CommittedOffset
from coterie.coordinator.stored_records.stored import to_record
from coterie.pipeline.history.job import Sources, run_history
from coterie.pipeline.history.tables import TABLES
from coterie.pipeline.tables.frame import arrow_schema, column_names
from coterie.records.batch import TRANSACTIONAL_BIT
from coterie.records.encoding import encode_batch
from coterie.records.markers import end_of_transaction
from coterie.wire.messages.stored.consumer_offsets import GroupMetadataValue, MemberMetadata
from tests.pipeline.history.test_consumer_group_history import kafka_folder, story_rows
from tests.pipeline.history.test_history import KAFKA, VERSIONS, folder

START_MS = 1_700_000_000_000


def rows_of(out: Path, name: str) -> list[str]:
    """The rows of a table, sorted; its schema is that of TABLES. A fact that no run has read has no folder."""
    schema = TABLES[name].schema
    if not (out / name).exists():
        return []
    table = ds.dataset(out / name, format="parquet").to_table()
    assert table.schema.remove_metadata() == arrow_schema(schema), name
    return sorted(map(repr, table.select(column_names(schema)).to_pylist()))


def check_same(spark: Any, sources: Sources, path: Path, runs: int = 1) -> dict[str, int]:
    """Both engines make the same tables; returns their row counts."""
    counts = dict[str, int]()
    for _ in range(runs):
        counts = run_history(None, sources, path / "here")
        assert run_history(spark, sources, path / "on-spark") == counts
    for name in TABLES:
        assert rows_of(path / "here", name) == rows_of(path / "on-spark", name), name
    return counts


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_of_kafkas_folders_and_logs(spark: Any, tmp_path: Path, version: str) -> None:
    data = KAFKA / version
    counts = check_same(spark, Sources(None, (data,), (data / "server.log",)), tmp_path)
    assert min(counts[name] for name in ("commits", "assignments", "ownership", "tenures", "cadence", "lag")) > 0


@pytest.mark.slow
def test_of_kafkas_consumer_groups(spark: Any, tmp_path: Path) -> None:
    counts = check_same(spark, Sources(None, (kafka_folder(tmp_path / "data"),)), tmp_path)
    assert min(counts[name] for name in ("epochs", "reconciliations", "ownership", "groups")) > 0


@pytest.mark.slow
def test_of_a_brokers_log_alone(spark: Any, tmp_path: Path) -> None:
    counts = check_same(spark, Sources(server_logs=(KAFKA / "3.9.1" / "server.log",)), tmp_path, runs=2)
    assert (counts["rebalances"], counts["commits"]) == (8, 0)


@pytest.mark.slow
def test_of_stories_of_groups_that_change_their_protocol(spark: Any, tmp_path: Path) -> None:
    data = tmp_path / "data"
    for seed in range(30):
        rows = story_rows(seed)[1]
        items = [[(row["time_ms"], row["key"], row["value"], ())] for row in rows if row["key"] is not None]
        folder(data, [encode_batch(item, base_offset=offset) for offset, item in enumerate(items)], seed)
    counts = check_same(spark, Sources(None, (data,)), tmp_path)
    assert min(counts[name] for name in ("epochs", "reconciliations", "ownership", "groups", "tenures")) > 0


@pytest.mark.slow
def test_of_random_commits_and_states_in_two_runs(spark: Any, tmp_path: Path) -> None:
    """With a topic of which the end is known, and others."""
    data = tmp_path / "data"
    logs = {seed: list(random_history(seed, 400)) for seed in range(8)}
    folder(data, []).joinpath("t0-0").mkdir()
    ends = [encode_batch([(START_MS + 5_000 * n, None, b"", ())], base_offset=n) for n in range(900)]
    (data / "t0-0" / f"{0:020}.log").write_bytes(b"".join(ends))
    logs[0][300] = logs[0][300][:-1] + bytes([logs[0][300][-1] ^ 1])  # a damaged batch
    for until in (250, 400):
        for log_partition, log in logs.items():
            folder(data, log[:until], log_partition)
        counts = check_same(spark, Sources(None, (data,)), tmp_path)
    assert all(counts[name] for name in TABLES if name not in ("epochs", "reconciliations")), counts
    lag = [row for row in rows_of(tmp_path / "here", "lag") if "'topic': 't1'" in row]
    assert all("'end_offset': None, 'lag': None" in row for row in lag), "nothing is known of a topic without a folder"


def random_history(seed: int, count: int) -> Iterator[bytes]:
    """Batches of one offsets partition: classic groups whose members come and go, and their commits, some in transactions."""
    rng, now_ms = random.Random(seed), START_MS
    members: dict[str, dict[str, MemberMetadata]] = {f"g{seed}-{n}": {} for n in range(3)}
    for offset in range(count):
        now_ms += rng.choice([10, 1_000, 1_000, 20_000, 90_000 if offset % 50 == 0 else 10])
        group = rng.choice(sorted(members))
        where, producer, kind = (rng.choice(["t0", "t1"]), rng.randrange(2)), -1, rng.random()
        if kind < 0.08:
            batch = end_of_transaction(rng.choice([7, 8]), 0, rng.random() < 0.6, 0, now_ms)
            yield offset.to_bytes(8, "big") + batch[8:]
            continue
        event: Any = GroupRemoved(Cause("tombstone"))
        if kind < 0.4:
            event = GroupStored(random_state(rng, members[group], offset, now_ms))
        elif kind < 0.42:
            members[group].clear()
        elif kind < 0.47:
            event = OffsetRemoved(*where)
        else:
            producer = rng.choice([-1, -1, 7, 8])
            committed = CommittedOffset(offset // 3, rng.choice([-1, 3]), rng.choice(["", "note"]), now_ms)
            event = OffsetStored(*where, committed)
        record = to_record(group, event)
        assert record is not None
        options: dict[str, int] = {"producer_id": producer, "producer_epoch": 0, "attributes": TRANSACTIONAL_BIT}
        item = (now_ms, record.key, record.value, ())
        yield encode_batch([item], base_offset=offset, **(options if producer >= 0 else {}))


def random_state(
    rng: random.Random, members: dict[str, MemberMetadata], generation: int, now_ms: int
) -> GroupMetadataValue:
    for name in rng.sample(["anna", "ben", "cleo"], rng.randrange(3)):
        if not members.pop(name, None):
            static = "static" if name == "cleo" else None
            member_id = f"{name}-{generation}"
            members[name] = MemberMetadata(member_id, static, name, "/127.0.0.1", 300_000, 10_000, b"", b"")
    partitions = [("t0", 0), ("t0", 1), ("t1", 0)]
    rng.shuffle(partitions)
    for index, member in enumerate(members.values()):
        member.subscription = encode_subscription(["t0", "t1"])
        owned: dict[str, list[int]] = {}
        for topic, partition in partitions[index :: len(members)]:
            owned.setdefault(topic, []).append(partition)
        member.assignment = encode_assignment(owned)
    there = list(members.values())
    leader = there[0].member_id if there else None
    return GroupMetadataValue("consumer", generation, "range" if there else None, leader, now_ms, there)
