"""An observer's journal as a source of `coterie pipeline history`: in a folder or a topic, alone or beside the offsets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from coterie.cli import main
from coterie.client.blocking import BlockingProducer
from coterie.coordinator.journal.line import JournalLine
from coterie.observer.journal_sinks import FolderJournal
from coterie.pipeline.history.job import Sources, run_history
from coterie.pipeline.history.observations import RANGE_BYTES, observed_ranges
from coterie.pipeline.history.reading.record_sources import NothingToRead
from coterie.pipeline.tables.files import rows_of
from coterie.testing import LocalBroker, simulate
from tests.observer import stories
from tests.observer.test_recorded_kafka import observed
from tests.pipeline.history.test_history import KAFKA
from tests.pipeline.history.test_history_engines import check_same

DATA = KAFKA / "4.3.0"


def journal_of(lines: list[JournalLine], folder: Path) -> Path:
    journal = FolderJournal(folder)
    for line in lines:
        journal.write(line)
    return folder


def rebalances(out: Path, group: str = "crew") -> list[dict[str, Any]]:
    return sorted(rows_of(out / "rebalances", group), key=lambda row: row["generation"])


def test_a_journal_alone_makes_rebalances_with_their_evidence(tmp_path: Path) -> None:
    with simulate(seed=1) as world:
        lines = stories.kill(world).lines
    folder, out = journal_of(lines, tmp_path / "journal"), tmp_path / "out"
    run_history(None, Sources(observed=str(folder)), out)
    rows = rebalances(out)
    assert [(row["source"], row["origin"], row["cause"]) for row in rows] == [
        ("observer", "observed", "member_joined"),
        ("observer", "inferred", "session_timeout"),
    ]
    assert rows[1]["unowned_ms"] > 0
    assert "inferred: silent for session" in rows[1]["why"]


def test_a_second_run_reads_what_is_new_and_a_half_line_waits(tmp_path: Path) -> None:
    folder, out = tmp_path / "journal", tmp_path / "out"
    lines = [JournalLine(n * 10**6, "crew", n, "stable", "", "Stable", [{"kind": "member_left"}]) for n in range(6)]
    journal_of(lines[:3], folder)
    with open(folder / "journal.jsonl", "a") as file:
        file.write(lines[3].to_json()[:20])
    sources = Sources(observed=str(folder))
    run_history(None, sources, out)
    assert [row["generation"] for row in rebalances(out)] == [0, 1, 2]
    with open(folder / "journal.jsonl", "a") as file:
        file.write(lines[3].to_json()[20:] + "\n")
    journal_of(lines[4:], folder)
    run_history(None, sources, out)
    assert [row["generation"] for row in rebalances(out)] == [0, 1, 2, 3, 4, 5]
    assert len(rows_of(out / "observed")) == 6


def test_a_line_is_of_the_range_in_which_it_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the ranges are."""
    lines = [JournalLine(n * 10**6, f"group-{n % 3}", n, "stable", "", "Stable") for n in range(40)]
    folder = journal_of(lines, tmp_path / "journal")
    size = (folder / "journal.jsonl").stat().st_size
    assert len(observed_ranges(str(folder), None, {})) == 1
    assert size < RANGE_BYTES
    for pieces in (1, 7, size // len(lines), size // 2):
        monkeypatch.setattr("coterie.pipeline.history.observations.RANGE_BYTES", pieces)
        out = tmp_path / str(pieces)
        run_history(None, Sources(observed=str(folder)), out)
        assert len(rows_of(out / "rebalances")) == len(rows_of(out / "observed")) == 40


def test_beside_the_offsets_an_observer_names_the_cause_and_the_offsets_what_moved(tmp_path: Path) -> None:
    """Kafka's own records, and what an observer wrote of them: one row of each rebalance."""
    folder = journal_of(observed("4.3.0", with_logs=True), tmp_path / "journal")
    run_history(None, Sources(None, (DATA,)), tmp_path / "offsets")
    run_history(None, Sources(None, (DATA,), observed=str(folder)), tmp_path / "both")
    alone, both = rebalances(tmp_path / "offsets"), rebalances(tmp_path / "both")
    assert [row["generation"] for row in both] == [row["generation"] for row in alone]
    assert {row["source"] for row in alone} == {"offsets"}
    assert {row["source"] for row in both} == {"observer"}
    assert {"unknown", "observed"} <= {row["origin"] for row in alone}
    assert {row["origin"] for row in both} == {"observed"}
    assert [row["moved"] for row in both] == [row["moved"] for row in alone]


def test_a_topic_is_read_from_its_partitions(tmp_path: Path) -> None:
    lines = [JournalLine(n * 10**6, f"group-{n}", n, "stable", "", "Stable") for n in range(10)]
    with LocalBroker() as broker:
        broker.create_topic("seen", 3)
        client = {"bootstrap.servers": broker.bootstrap_servers}
        with BlockingProducer(client) as producer:
            for line in lines:
                producer.send("seen", line.to_json().encode(), key=line.group.encode())
        sources = Sources(observed="seen", observed_client=client)
        run_history(None, sources, tmp_path)
        run_history(None, sources, tmp_path)
        assert {row["group"] for row in rows_of(tmp_path / "rebalances")} == {line.group for line in lines}
        assert len(rows_of(tmp_path / "observed")) == 10


def test_what_cannot_be_read_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(NothingToRead, match=r"journal\.jsonl cannot be read: No such file or directory; `coterie obs"):
        run_history(None, Sources(observed=str(tmp_path)), tmp_path / "out")
    done = CliRunner().invoke(main, ["pipeline", "history", "--journal", str(tmp_path), "--out", str(tmp_path / "out")])
    assert (done.exit_code, done.stderr.count("\n")) == (1, 1)


def test_the_command_needs_no_broker_for_a_folder(tmp_path: Path) -> None:
    lines = [JournalLine(1, "crew", 1, "stable", "", "Stable", [{"kind": "member_joined", "evidence": "observed"}])]
    folder = journal_of(lines, tmp_path / "journal")
    words = ["pipeline", "history", "--journal", str(folder), "--out", str(tmp_path / "out")]
    done = CliRunner(env={"COTERIE_BOOTSTRAP_SERVER": None}).invoke(main, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert rebalances(tmp_path / "out")[0]["origin"] == "observed"


@pytest.mark.slow
def test_spark_makes_the_same_tables(spark: Any, tmp_path: Path) -> None:
    folder = journal_of(observed("4.3.0", with_logs=False), tmp_path / "journal")
    counts = check_same(spark, Sources(None, (DATA,), observed=str(folder)), tmp_path, runs=2)
    assert counts["rebalances"] == 8
