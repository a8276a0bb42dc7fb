"""The history of consumer groups (KIP-848): from records that Apache Kafka 4.4.0 wrote, and beside the broker's own replay."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from coterie.cli import main
from coterie.coordinator.consumer.image import TopicImage, TopicsImage
from coterie.coordinator.consumer.state import ConsumerGroup
from coterie.coordinator.outcome import CoordinatorConfig
from coterie.coordinator.shard import Decision, Shard, Step
from coterie.pipeline.history.consumer_groups import GroupHistory
from coterie.pipeline.history.job import Sources, run_history
from coterie.pipeline.history.reading.decoding import _group_of
from coterie.pipeline.history.reading.topic_lookups import folder_topic_names
from coterie.pipeline.history.rebalances import generation_rows, journal_rows
from coterie.pipeline.offsets import id_text
from coterie.pipeline.tables.files import rows_of
from coterie.records.batch import batches
from coterie.records.decoding import decode_records
from tests.coordinator.consumer import beside_kafka
from tests.coordinator.kafka_records import RECORDED, TOPICS

Row = dict[str, Any]


def log_rows(group: str | None = None) -> list[Row]:
    """Kafka's records as GROUP_LOG has them."""
    data, rows = RECORDED.read_bytes(), list[Row]()
    for position, header in batches(data):
        for record in decode_records(data, position, header):
            of = None if header.is_control else _group_of(record.key)
            if of is not None and group in (None, of[1]):
                at = {"time_ms": record.timestamp, "log_partition": 0, "log_offset": record.offset}
                rows.append({"kind": of[0], "group": of[1], "key": record.key, "value": record.value} | at)
    return rows


def recorded_names() -> dict[str, str]:
    """The topic with more partitions is the one with more in the first target."""
    history = GroupHistory("crew", {})
    history.read(log_rows("crew"))
    first = [r for table, r in history.rows if table == "assignments"]
    ids = sorted({r["topic"] for r in first}, key=lambda i: max(r["partition"] for r in first if r["topic"] == i))
    return dict(zip(ids, sorted(TOPICS, key=lambda name: TOPICS[name]), strict=True))


def history_of(group: str, rows: list[Row] | None = None) -> dict[str, list[Row]]:
    history = GroupHistory(group, recorded_names())
    history.read(log_rows(group) if rows is None else rows)
    tables: dict[str, list[Row]] = {}
    for table, row in history.rows:
        tables.setdefault(table, []).append(row)
    return tables


def test_kafkas_crew_one_revokes_for_another_that_leaves_again() -> None:
    tables = history_of("crew")
    assert [(r["epoch"], r["members"]) for r in tables["epochs"]] == [(2, 1), (3, 2), (4, 1)]
    assert all(r["target_ms"] <= r["reconciled_ms"] for r in tables["epochs"])
    assert [(r["generation"], r["cause"], r["joined"], r["departed"]) for r in tables["rebalances"]] == [
        (2, "member_joined", 1, 0),
        (3, "member_joined", 1, 0),
        (4, "member_gone", 0, 1),
    ]
    moved = [r["moved"] for r in tables["epochs"]]
    assert moved[0] == 0, "a first owner is no move"
    assert moved[1] == moved[2] > 0
    steps = [
        (r["state"], len(r["assigned"]), len(r["released"]), len(r["revoking"])) for r in tables["reconciliations"]
    ]
    assert ("UNREVOKED_PARTITIONS", 0, 0, moved[1]) in steps, "asked to revoke, and still responsible"
    assert ("STABLE", 0, moved[1], 0) in steps
    assert ("STABLE", moved[1], 0, 0) in steps
    owned = [r for r in tables["ownership"] if r.get("until_ms") is None]
    assert {(r["topic"], r["partition"]) for r in owned} == {
        (t, p) for t, count in TOPICS.items() for p in range(count)
    }
    assert {name for r in tables["members"] for name in r["topics"]} == set(TOPICS)


def test_a_group_that_was_deleted_ends() -> None:
    tables = history_of("patterns")
    assert tables["generations"][-1]["deleted"]
    assert all(r.get("until_ms") is not None for r in tables["ownership"])


def test_an_id_without_a_name_stands_for_it() -> None:
    history = GroupHistory("crew", {})
    history.read(log_rows("crew"))
    topics = {r["topic"] for table, r in history.rows if table == "assignments"}
    assert topics == set(recorded_names())
    assert all(len(topic) == 22 for topic in topics)


# -- beside the broker's replay ---------------------------------------------------------------------------------------------


class Alone(beside_kafka.Here):
    """A shard that keeps its records."""

    def __init__(self) -> None:
        topics = {
            n: TopicImage(n, bytes(15) + bytes([i]), c) for i, (n, c) in enumerate(beside_kafka.TOPICS.items(), 1)
        }
        super().__init__(TopicsImage(topics, 1, 1))
        self.rows: list[Row] = []

    def _committed(self, decision: Decision, steps: list[Step]) -> None:
        super()._committed(decision, steps)
        for record in decision.records:
            of = _group_of(record.key)
            if of is not None:
                at = {"time_ms": self.now_ms, "log_partition": 0, "log_offset": len(self.rows)}
                self.rows.append({"kind": of[0], "group": of[1], "key": record.key, "value": record.value} | at)


def story_rows(seed: int) -> tuple[str, list[Row]]:
    """A random story of one group, whose members come and go and are of both protocols."""
    alone = Alone()
    story = beside_kafka.Story(seed, alone, alone)  # type: ignore[arg-type]
    for number in range(150):
        request = story._next()
        response = alone.request(request, f"fresh-{number}")
        if response is not None:  # a JoinGroup waits where the group has become classic
            story._learn(request, response)
    return story.group, alone.rows


@pytest.mark.parametrize("seed", range(12))
def test_open_stretches_are_what_the_broker_replays(seed: int) -> None:
    """After each write of the story."""
    name, rows = story_rows(seed)
    shard, stable = Shard(CoordinatorConfig()), set[int]()
    for index, row in enumerate(rows):
        shard.load(row["key"], row["value"], row["time_ms"])
        if index + 1 < len(rows) and rows[index + 1]["time_ms"] == row["time_ms"]:
            continue
        history = GroupHistory(name, {})
        history.read([r for r in rows[: index + 1] if r["kind"] == "consumer_group"])
        stretches = [r for table, r in history.rows if table == "ownership" and r.get("until_ms") is None]
        group = shard.group(name)
        owners = {(id_text(t), p): m for (t, p), m in group.owners.items()} if isinstance(group, ConsumerGroup) else {}
        assert {(r["topic"], r["partition"]): r["member_id"] for r in stretches} == owners
        if isinstance(group, ConsumerGroup) and group.members:
            (last,) = [r for table, r in history.rows if table == "epochs"][-1:]
            if group.phase == "Stable":
                stable.add(group.group_epoch)
            assert (last["epoch"], "reconciled_ms" in last) == (group.group_epoch, group.group_epoch in stable)
        else:
            stable.clear()
    assert len(rows) > 50


def test_a_group_that_becomes_classic_did_not_rebalance() -> None:
    """The state that is stored with the tombstones has the members of the consumer group; the next one is a rebalance."""
    classic = next(rows for _, rows in map(story_rows, range(40)) if any(r["kind"] == "group" for r in rows))
    classic_rows = list(generation_rows([r for r in classic if r["kind"] == "group" or r["value"] is None]))
    without = list(generation_rows([r for r in classic if r["kind"] == "group"]))
    stored = sum(r["kind"] == "group" and r["value"] is not None for r in classic)
    assert stored > 0
    assert len(classic_rows) < len(without)


def test_the_journal_names_what_raised_an_epoch() -> None:
    line = (
        b'{"time_ms":5,"group":"g","generation":3,"event":"epoch_raised","state_from":"Stable","state_to":"Assigning",'
        b'"members":2,"causes":[{"kind":"member_left","member_id":"b"}]}'
    )
    (row,) = journal_rows(line, 7, "journal")
    assert (row["event"], row["generation"], row["cause"], row["departed"], row["join_ms"]) == (
        "epoch_raised",
        3,
        "member_left",
        1,
        None,
    )
    assert list(journal_rows(line.replace(b"member_left", b"upgraded"), 7, "journal")) == []


# -- the whole job ----------------------------------------------------------------------------------------------------------


def kafka_folder(path: Path) -> Path:
    """A data folder of Apache Kafka: the recorded segment, and the topics' ids beside their logs."""
    offsets = path / "__consumer_offsets-0"
    offsets.mkdir(parents=True)
    (offsets / f"{0:020}.log").write_bytes(RECORDED.read_bytes())
    for topic_id, name in recorded_names().items():
        kept = path / f"{name}-0"
        kept.mkdir()
        (kept / f"{0:020}.log").touch()
        (kept / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}\n")
    return path


@pytest.mark.parametrize("checked", [True, False])
def test_the_names_of_coteries_own_folder(tmp_path: Path, checked: bool) -> None:
    topics = {"t": {"id": "AAAAAAAAAAAAAAAAAAAAAQ==", "partitions": 1, "configs": {}}}
    document = {"crc32c": 0, "content": topics} if checked else topics
    (tmp_path / "topics.json").write_text(json.dumps(document))
    assert folder_topic_names(tmp_path) == {"AAAAAAAAAAAAAAAAAAAAAQ": "t"}
    (tmp_path / "topics.json").write_text("[1]")
    assert folder_topic_names(tmp_path) == {}


def test_a_folder_of_kafka(tmp_path: Path) -> None:
    """Each table has what `GroupHistory` makes of each group, and the groups are as a broker loads them."""
    out = tmp_path / "out"
    counts = run_history(None, Sources(None, (kafka_folder(tmp_path / "data"),)), out)
    table = {name: rows_of(out / name) for name in counts}
    groups = sorted({r["group"] for r in log_rows() if r["kind"] == "consumer_group"})
    for name in ("epochs", "reconciliations", "ownership"):
        expected = [row for group in groups for row in history_of(group).get(name, [])]
        full = [{column: row.get(column) for column in table[name][0]} for row in expected]
        assert sorted(map(repr, table[name])) == sorted(map(repr, full)), name
    crew = [r for r in table["rebalances"] if r["group"] == "crew"]
    assert sorted((r["generation"], r["cause"]) for r in crew) == [
        (2, "member_joined"),
        (3, "member_joined"),
        (4, "member_gone"),
    ]
    assert len([r for r in table["tenures"] if r["group"] == "crew"]) == 2
    states = {r["group"]: (r["state"], r["generation"], r["members"]) for r in table["groups"]}
    shard = Shard(CoordinatorConfig())
    for row in log_rows():
        shard.load(row["key"], row["value"], row["time_ms"])
    loaded = {g.group_id: (g.phase.value, g.generation, len(g.members)) for g in shard.every_group()}
    assert {name: states[name] for name in loaded} == loaded
    requested = ["pipeline", "as-of", "mixed", "--history", str(out)]
    done = CliRunner().invoke(main, requested, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert "orders-0 orders-1 orders-2" in done.output
    requested = ["pipeline", "report", "crew", "--history", str(out), "--out", str(tmp_path / "page")]
    done = CliRunner().invoke(main, requested, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    (page,) = (tmp_path / "page").glob("*.html")
    assert "Epochs of the consumer protocol" in page.read_text()
    assert "Slow to release" in page.read_text()
