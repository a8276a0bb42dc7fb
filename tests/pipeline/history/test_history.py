"""The history's tables: from real Kafka's log folders and logs, from a live coterie, and against a plain replay."""

from __future__ import annotations

import asyncio
import datetime
import gzip
import json
import random
import re
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from coterie.cli import main
from coterie.client import Admin, Consumer, Producer, TopicPartition
from coterie.console.history_page import sections
from coterie.coordinator.events import GroupRemoved, GroupStored, OffsetRemoved, OffsetStored
from coterie.coordinator.state import Cause, CommittedOffset
from coterie.coordinator.stored_records.stored import to_record
from coterie.observer.logs import server_log
from coterie.pipeline.history import job
from coterie.pipeline.history.commits import counting
from coterie.pipeline.history.job import Sources, run_history
from coterie.pipeline.history.reading import record_sources, sound_batches
from coterie.pipeline.history.reading.sound_batches import Piece
from coterie.pipeline.history.state import Moment, group_from_tables
from coterie.pipeline.reading import log_folders
from coterie.pipeline.tables import files
from coterie.pipeline.tables.arrow_frame import ArrowFrame, ArrowFrames
from coterie.records.batch import TRANSACTIONAL_BIT
from coterie.records.encoding import encode_batch
from coterie.records.markers import end_of_transaction
from coterie.wire.messages.stored.consumer_offsets import GroupMetadataValue
from tests.awaiting import until_in_thread
from tests.broker_process import BrokerProcess

KAFKA = Path(__file__).parents[1] / "server_logs"  # one crew's life on real Kafka: its log, and its __consumer_offsets
VERSIONS = ("2.6.3", "3.9.1", "4.3.0")


def rows_of(out: Path, name: str) -> list[Any]:
    """The rows of a table, with its columns as attributes."""
    return [SimpleNamespace(**row) for row in files.rows_of(out / name)]


def log_lines(version: str) -> list[str]:
    return (KAFKA / version / "server.log").read_text().splitlines()


@pytest.mark.parametrize("version", VERSIONS)
def test_the_wordings_of_real_brokers(version: str) -> None:
    rows = list(server_log.rebalances(log_lines(version)))
    assert [r["generation"] for r in rows] == list(range(1, 9))
    assert [r["event"] for r in rows] == ["stable"] * 7 + ["empty"]
    # In 2.6 a changed subscription of the leader is only "leader re-joining".
    fourth = "leader_rejoined" if version == "2.6.3" else "subscription_changed"
    assert [r["cause"] for r in rows] == [
        "member_joined",
        "member_joined",
        "session_timeout",
        fourth,
        "leader_rejoined",
        "member_left",
        "member_left",
        "member_left",
    ]
    assert 8000 <= rows[0]["join_ms"] <= 8100, "the initial delay, extended"
    assert all(r["sync_ms"] < 300 for r in rows[:7])
    if version != "2.6.3":
        assert [r["members"] for r in rows] == [3, 4, 3, 3, 3, 2, 1, 0]


def test_a_rebalance_whose_beginning_is_not_in_the_log_has_no_cause() -> None:
    rows = list(server_log.rebalances(log_lines("4.3.0")[9:10]))
    assert [(r["generation"], r["cause"], r["join_ms"], r["sync_ms"]) for r in rows] == [(1, None, None, None)]


@pytest.fixture(scope="module")
def kafkas_history(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a version's history, which is made once."""

    @cache
    def made(version: str) -> Path:
        folder = tmp_path_factory.mktemp(version)
        zipped = folder / "server.log.gz"
        zipped.write_bytes(gzip.compress((KAFKA / version / "server.log").read_bytes()))
        run_history(None, Sources(None, (KAFKA / version,), (zipped,)), folder / "out")
        return folder / "out"

    return made


@pytest.mark.parametrize("version", VERSIONS)
def test_real_kafkas_folders_and_log_tell_the_same(kafkas_history: Callable[[str], Path], version: str) -> None:
    out = kafkas_history(version)
    names = ("rebalances", "ownership", "assignments", "tenures", "groups")
    rows = {name: rows_of(out, name) for name in names}
    in_order = sorted(rows["rebalances"], key=lambda r: r.generation)
    assert [r.generation for r in in_order] == list(range(1, 9))
    assert {r.source for r in in_order} == {"server_log"}
    assert [r.members for r in in_order] == [3, 4, 3, 3, 3, 2, 1, 0], (
        "from the stored generations where the log is silent"
    )
    assert [r.moved for r in in_order][:2] != [None, None]
    assert in_order[0].moved == 0, "a first owner is no move"
    phases_ms = [None if r.sync_ms is None else r.join_ms + r.sync_ms for r in in_order]
    assigned = [
        len({(a.topic, a.partition) for a in rows["assignments"] if a.generation == r.generation}) for r in in_order
    ]
    eager = [0 if ms is None else ms * count for ms, count in zip(phases_ms, assigned, strict=True)]
    beyond_ms = [r.unowned_ms - r.undetected_ms - ms for r, ms in zip(in_order, eager, strict=True)]
    assert all(0 <= ms < 100 for ms in beyond_ms), (
        "phases of the log, assignments of the offsets; a removal precedes its start"
    )
    owned_by_four = sum(a.generation == 2 and a.client_id == "four" for a in rows["assignments"])
    assert [r.undetected_ms for r in in_order] == [0, 0, owned_by_four * 6_000, 0, 0, 0, 0, 0], "four was killed"
    assert (in_order[-1].moved, in_order[-1].unowned) == (0, assigned[-2]), "the last member left"
    static = [r for r in rows["ownership"] if r.client_id == "three"]
    assert len({r.member_id for r in static}) == 2, "the static member came back under a new id"
    assert {(r.topic, r.partition) for r in rows["assignments"] if r.generation == 6} >= {
        ("flights", p) for p in range(8)
    }
    four = [r for r in rows["tenures"] if r.client_id == "four"]
    assert len(four) == 1
    assert 9_000 < four[0].until_ms - four[0].from_ms < 11_000
    assert rows["groups"] == [], "the group was deleted in the end"


@pytest.mark.parametrize("version", VERSIONS)
def test_the_picture_of_owners_begins_with_the_first_rebalance(
    kafkas_history: Callable[[str], Path], version: str
) -> None:
    """The partitions are unowned from then on, before the first assignment is stored."""
    [owners] = (part for part in sections(kafkas_history(version), "crew") if part.script is not None)
    data = re.search(r'<script type="application/json">(.*?)</script>', owners.body)
    assert data is not None
    timeline = json.loads(data[1])["timeline"]
    assert timeline["unowned"]
    assert min(since for _, since, *_ in timeline["unowned"]) >= timeline["begin_ms"]


def test_a_log_alone(tmp_path: Path) -> None:
    counts = run_history(None, Sources(server_logs=(KAFKA / "3.9.1" / "server.log",)), tmp_path)
    assert counts["rebalances"] == 8
    assert counts["commits"] == counts["generations"] == 0
    assert {r.unowned_ms for r in rows_of(tmp_path, "rebalances")} == {None}


# -- against a plain replay ------------------------------------------------------------------------------------------


def random_log(seed: int, records: int) -> list[bytes]:
    """Batches of an offsets partition: plain and transactional commits, tombstones, groups, markers."""
    rng, made, offset = random.Random(seed), [], 0
    open_producers: set[int] = set()
    while offset < records:
        now_ms = 1_000_000 + offset * 100
        group = f"g{rng.randrange(4)}"
        where = (rng.choice("ab"), rng.randrange(3))
        producer = rng.choice([-1, -1, -1, 7, 8])
        kind = rng.random()
        if kind < 0.1 and open_producers:
            ended = rng.choice(sorted(open_producers))
            open_producers.discard(ended)
            batch = end_of_transaction(ended, 0, rng.random() < 0.6, 0, now_ms)
            made.append(bytes(offset.to_bytes(8, "big")) + batch[8:])
            offset += 1
            continue
        if kind < 0.25:
            event: Any = GroupStored(GroupMetadataValue("consumer", offset, "range", None, now_ms, []))
            producer = -1
        elif kind < 0.3:
            event, producer = GroupRemoved(Cause("tombstone")), -1
        elif kind < 0.4:
            event, producer = OffsetRemoved(*where), -1
        else:
            metadata = rng.choice(["", "", "note"])
            event = OffsetStored(*where, CommittedOffset(offset, rng.choice([-1, 3]), metadata, now_ms))
        record = to_record(group, event)
        assert record is not None
        items = [(now_ms, record.key, record.value, ())]
        if producer >= 0:
            open_producers.add(producer)
            made.append(
                encode_batch(
                    items, producer_id=producer, producer_epoch=0, base_offset=offset, attributes=TRANSACTIONAL_BIT
                )
            )
        else:
            made.append(encode_batch(items, base_offset=offset))
        offset += 1
    return made


def folder(path: Path, parts: list[bytes], log_partition: int = 0) -> Path:
    kept = path / f"__consumer_offsets-{log_partition}"
    kept.mkdir(parents=True, exist_ok=True)
    (kept / f"{0:020}.log").write_bytes(b"".join(parts))
    return path


def plain_state(parts: list[bytes]) -> dict[str, tuple[str, int, dict[Any, int]]]:
    """What a broker has after loading, record by record."""
    from coterie.coordinator.outcome import CoordinatorConfig
    from coterie.coordinator.shard import Shard
    from coterie.records.batch import batches
    from coterie.records.decoding import decode_records
    from coterie.records.markers import marker_of

    shard = Shard(CoordinatorConfig())
    for part in parts:
        for at, header in batches(part):
            if header.is_control:
                shard.end_transaction(header.producer_id, bool(marker_of(part, at, header)), header.max_timestamp)
            else:
                producer_id = header.producer_id if header.is_transactional else -1
                for r in decode_records(part, at, header):
                    shard.load(r.key, r.value, r.timestamp, producer_id)
    return {
        name: (g.phase.value, g.generation, {tp: o.offset for tp, o in g.offsets.items()})
        for name, g in shard.groups.items()
    }


@pytest.fixture(scope="module")
def random_history(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[bytes], Path]:
    """A random log, and the folder of its history."""
    parts, path = random_log(5, 400), tmp_path_factory.mktemp("random")
    run_history(None, Sources(None, (folder(path / "data", parts),)), path / "out")
    return parts, path / "out"


def test_the_fold_is_a_brokers_own_replay_at_every_moment(random_history: tuple[list[bytes], Path]) -> None:
    parts, out = random_history
    for until in (1, 50, 123, 250, 399):
        expected = plain_state(parts[: until + 1])
        for name in ("g0", "g1", "g2", "g3"):
            group = group_from_tables(out, name, Moment(log_offset=until))
            loaded = group and (group.phase.value, group.generation, {tp: o.offset for tp, o in group.offsets.items()})
            assert loaded == expected.get(name), (name, until)
    groups = rows_of(out, "groups")
    final = plain_state(parts)
    assert {r.group: (r.state, r.generation, r.offsets) for r in groups} == {
        name: (state, generation, len(offsets)) for name, (state, generation, offsets) in final.items()
    }


def test_only_what_counts_of_transactions_is_progress(random_history: tuple[list[bytes], Path]) -> None:
    out = random_history[1]
    commits, group_log = job.facts(ArrowFrames(), out)
    markers = {}
    for row in sorted(rows_of(out, "group_log"), key=lambda r: -r.log_offset):
        if row.kind == "marker":
            markers.setdefault(row.producer_id, []).append((row.log_offset, row.committed))
    expected = set()
    for row in rows_of(out, "commits"):
        ends = sorted(m for m in markers.get(row.producer_id, ()) if m[0] > row.log_offset)
        if row.producer_id is None or (ends and ends[0][1]):
            expected.add(row.log_offset)
    counted = counting(commits, group_log)
    assert isinstance(counted, ArrowFrame)
    assert set(counted.table["log_offset"].to_pylist()) == expected
    assert len(expected) < len(rows_of(out, "commits"))


def test_a_second_run_adds_only_what_is_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And a run that died is simply run again."""

    def dies(*_: Any) -> Any:
        raise RuntimeError("died")

    parts = random_log(3, 300)
    source = Sources(None, (folder(tmp_path / "data", parts[:170]),))
    with monkeypatch.context() as patched:
        patched.setattr(job, "_make_tables", dies)
        with pytest.raises(RuntimeError):
            run_history(None, source, tmp_path / "out")
    first = run_history(None, source, tmp_path / "out")
    assert run_history(None, source, tmp_path / "out") == first
    folder(tmp_path / "data", [*parts, parts[-1][:50]])  # and a batch that a crash cut short
    grown = run_history(None, source, tmp_path / "out")
    whole = run_history(None, Sources(None, (tmp_path / "data",)), tmp_path / "other")
    assert grown == whole
    newest = max((tmp_path / "out" / "commits").iterdir(), key=lambda path: int(path.name.removeprefix("run=")))
    assert min(row.log_offset for row in rows_of(newest.parent, newest.name)) >= 170
    for name in ("commits", "generations", "rebalances", "groups", "cadence"):
        ours, others = (sorted(map(repr, rows_of(tmp_path / out, name))) for out in ("out", "other"))
        assert ours == others


def test_ranges_begin_with_batches_and_cover_a_file_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the index files that a real log has, split into pieces of a few kilobytes."""
    from coterie.broker.storage.disk import DiskFileSystem
    from coterie.log.config import LogConfig
    from coterie.log.partition_log import PartitionLog

    parts = random_log(9, 500)
    kept = tmp_path / "__consumer_offsets-3"
    kept.mkdir()
    log = PartitionLog.open(DiskFileSystem(tmp_path), kept.name, LogConfig(index_interval_bytes=500), clean=True)
    for part in parts:
        log.append_own(part, 0)
    log.close()
    monkeypatch.setattr(log_folders, "RANGE_BYTES", 3000)
    monkeypatch.setattr(sound_batches, "PIECE_BYTES", 700)
    ranges = record_sources.log_ranges([tmp_path], {})
    assert len(ranges) > 5
    read = b"".join(p.data for r in ranges for p in record_sources.read_range(r, None) if isinstance(p, Piece))
    assert read == next(kept.glob("*.log")).read_bytes()
    later = record_sources.log_ranges([tmp_path], {3: 400})
    assert sum(r.last - r.first for r in later) < len(read) / 3


def test_no_offsets_folder_is_said_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(record_sources.NothingToRead, match="no folder __consumer_offsets-N"):
        record_sources.log_ranges([tmp_path], {})


# -- a live broker ------------------------------------------------------------------------------------------


@pytest.fixture
def lived(broker: BrokerProcess) -> tuple[BrokerProcess, str]:
    """A broker on which one consumer read a hundred records, committed and left."""

    async def live() -> str:
        async with Producer({"bootstrap.servers": broker.address}) as producer:
            for n in range(100):
                await producer.send("t", b"%d" % n, partition=n % 6)
        settings = {"bootstrap.servers": broker.address, "group.id": "crew", "auto.offset.reset": "earliest"}
        async with Consumer(settings) as consumer:
            consumer.subscribe(["t"])
            count = 0
            while count < 100:
                count += sum(map(len, (await consumer.poll(1000)).values()))
            await consumer.commit()
            assert consumer._membership is not None
            return consumer._membership.machine.member_id

    return broker, asyncio.run(live())


def test_a_live_broker_and_its_journal(lived: tuple[BrokerProcess, str], tmp_path: Path) -> None:
    broker, member_id = lived
    client = {"bootstrap.servers": broker.address}
    counts = run_history(None, Sources(client), tmp_path)
    table = {name: rows_of(tmp_path, name) for name in counts}
    assert {(r.generation, r.members) for r in table["generations"]} == {(1, 1), (2, 0)}
    assert [r.member_id for r in table["members"]] == [member_id]
    assert {(r.topic, r.partition) for r in table["assignments"]} == {("t", p) for p in range(6)}
    stable = next(r for r in table["rebalances"] if r.event == "stable")
    assert (stable.source, stable.generation, stable.members, stable.moved) == ("journal", 1, 1, 0)
    assert f"{member_id} joined" in stable.why
    assert stable.unowned_ms == (stable.join_ms + stable.sync_ms) * 6
    owned = {(r.partition, r.member_id, r.until_ms is None) for r in table["ownership"]}
    assert owned == {(p, member_id, False) for p in range(6)}
    last = max(r.time_ms for r in table["lag"])
    assert sum(r.committed for r in table["lag"] if r.time_ms == last) == 100
    assert all(r.lag == r.end_offset - r.committed for r in table["lag"])
    assert sum(r.lag for r in table["lag"] if r.time_ms == last) == 0
    assert [(r.group, r.state, r.offsets) for r in table["groups"]] == [("crew", "Empty", 6)]
    again = run_history(None, Sources(client), tmp_path)
    assert again == counts
    requested = ["groups", "reset", "crew", "--as-of", "2100-01-01", "--history", str(tmp_path), "-b", broker.address]
    done = CliRunner().invoke(main, [*requested, "--dry-run", "--json"], catch_exceptions=False)
    assert sum(o["to"] for o in json.loads(done.output)) == 100
    seen = CliRunner().invoke(main, ["pipeline", "as-of", "crew", "--history", str(tmp_path)], catch_exceptions=False)
    assert seen.output.startswith("crew: Empty, generation 2")


def test_offsets_as_of_a_time_are_restored(lived: tuple[BrokerProcess, str]) -> None:
    broker, _ = lived
    first_ms = time.time_ns() // 1_000_000
    until_in_thread(lambda: time.time_ns() // 1_000_000 > first_ms + 1, "the commits are in the past")
    then = datetime.datetime.now().isoformat()
    then_ms = time.time_ns() // 1_000_000
    until_in_thread(lambda: time.time_ns() // 1_000_000 > then_ms + 1, "the time is in the past")

    async def offsets(wanted: dict[tuple[str, int], int] | None) -> dict[TopicPartition, int]:
        async with Admin({"bootstrap.servers": broker.address}) as admin:
            if wanted is not None:
                await admin.alter_consumer_group_offsets("crew", wanted)
            return await admin.list_consumer_group_offsets("crew")

    before = asyncio.run(offsets(None))
    asyncio.run(offsets({("t", p): 3 for p in range(6)}))
    arguments = ["groups", "reset", "crew", "--as-of", then, "-b", broker.address, "--json"]
    done = CliRunner().invoke(main, [*arguments, "--dry-run"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert asyncio.run(offsets(None)) == {("t", p): 3 for p in range(6)}, "a dry run changes nothing"
    done = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert asyncio.run(offsets(None)) == before
    early = CliRunner().invoke(main, ["groups", "reset", "crew", "--as-of", "2001-01-01", "-b", broker.address])
    assert "had committed nothing by then" in early.output


@pytest.mark.slow
def test_delta_and_iceberg_hold_the_same(kafkas_history: Callable[[str], Path], tmp_path: Path) -> None:
    import deltalake
    from pyiceberg.catalog.sql import SqlCatalog

    history = kafkas_history("4.3.0")
    expected = sorted(row.generation for row in rows_of(history, "rebalances"))
    for _ in range(2):  # the second replaces the first
        for form in ("delta", "iceberg"):
            arguments = ["--history", str(history), "--format", form, "--out", str(tmp_path / form)]
            done = CliRunner().invoke(main, ["pipeline", "export", *arguments], catch_exceptions=False)
            assert done.exit_code == 0, done.output
    delta = deltalake.DeltaTable(str(tmp_path / "delta" / "rebalances")).to_pyarrow_table()
    catalog = SqlCatalog(
        "coterie", uri=f"sqlite:///{tmp_path}/iceberg/catalog.db", warehouse=(tmp_path / "iceberg").as_uri()
    )
    iceberg = catalog.load_table("coterie.rebalances").scan().to_arrow()
    for table in (delta, iceberg):
        assert sorted(table["generation"].to_pylist()) == expected
    nothing = CliRunner().invoke(
        main, ["pipeline", "export", "--history", str(tmp_path), "--format", "delta", "--out", str(tmp_path / "x")]
    )
    assert "there is no history in" in nothing.output


def test_quantiles_of_few_commits_lie_between_them() -> None:
    import numpy as np

    from coterie.pipeline.history.commits import _progress

    one = _progress(np.array([0, 100, 300]), np.array([0, 5, 9]))
    assert (one["median_interval_ms"], one["p95_interval_ms"]) == (150.0, 195.0)
