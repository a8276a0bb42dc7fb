"""Log files of brokers in the encodings and layouts that people have; what none of it is, is said."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest

from coterie.observer.logs.log_layouts import time_of
from coterie.observer.logs.server_log import NothingUnderstood, coordinator_lines, rebalances, survey
from tests.cli.test_every_command import ended

KAFKAS = Path(__file__).parents[1] / "server_logs" / "3.9.1" / "server.log"
TEXT = KAFKAS.read_text()
# Kafka's line: date, level, message, class
PARTS = [re.fullmatch(r"\[(\S+) (\S+),(\d{3})\] (\w+) (.*) \(([\w.$]+)\)", line) for line in TEXT.splitlines()]
LINES = [m.groups() for m in PARTS if m is not None]


def in_layout(form: str) -> str:
    """``form`` with day, clock, ms, level, message and class."""
    names = ("day", "clock", "ms", "level", "message", "of")
    return "".join(form.format(**dict(zip(names, line, strict=True))) + "\n" for line in LINES)


def rows_of(data: bytes, folder: Path) -> list[tuple[object, ...]]:
    path = folder / "server.log"
    path.write_bytes(data)
    rows = rebalances(text for _, _, text in coordinator_lines(path))
    return [(row["generation"], row["event"], row["cause"], row["why"], row["members"]) for row in rows]


SECONDS = in_layout("{day} {clock} {level}  GroupCoordinator:66 - {message}")
JSON_LINES = "".join(
    json.dumps({"@timestamp": f"{day}T{clock}.{ms}Z", "level": level, "message": message}) + "\n"
    for day, clock, ms, level, message, _ in LINES
)
DOCKER = "".join(
    json.dumps({"log": f"{line}\n", "stream": "stdout", "time": "2030-01-01T00:00:00Z"}) + "\n"
    for line in TEXT.splitlines()
)
INSTANT = json.dumps({"instant": {"epochSecond": 1, "nanoOfSecond": 5_000_000}, "message": "group g is"})


@pytest.mark.parametrize(
    "data",
    [
        SECONDS.encode(),
        in_layout("{day} {clock},{ms} {level}  GroupCoordinator:66 - {message} [data-plane-1]").encode(),
        in_layout("{day}T{clock}.{ms}+00:00 broker-1 kafka[77]: {level} {message}").encode(),
        JSON_LINES.encode(),
        DOCKER.encode(),
        TEXT.encode("utf-8-sig"),
        TEXT.encode("utf-16"),
        TEXT.encode("utf-16-be"),
        TEXT.replace("\n", "\r\n").encode(),
        gzip.compress(TEXT.encode()),
    ],
    ids=["log4j", "with a thread", "syslog", "JSON", "Docker", "a BOM", "UTF-16", "UTF-16 BE", "CRLF", "gzip, no .gz"],
)
def test_a_log_is_read_in_any_form(data: bytes, tmp_path: Path) -> None:
    expected = rows_of(TEXT.encode(), tmp_path)
    assert len(expected) == 8
    assert rows_of(data, tmp_path) == expected
    [read] = survey([tmp_path / "server.log"])
    assert read.understood >= 24
    assert read.layouts.total() >= len(LINES)


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        ("1970-01-01 00:00:01 INFO", 1_000),
        ("[1970-01-01 00:00:01,5]", 1_500),
        ("1970/01/01 00:00:01.123456", 1_123),
        ("1970-01-01T01:00:01+01:00", 1_000),
        ("1970-01-01T00:00:01Z", 1_000),
        ("01 Jan 1970 00:00:01,250", 1_250),
        ("1970-13-01 00:00:01", None),
        ("00:00:01", None),
    ],
)
def test_times(text: str, time_ms: int | None) -> None:
    assert time_of(text) == time_ms


def test_the_time_of_log4j_2_in_json(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_text(INSTANT.replace("group g is", "Stabilized group g generation 1") + "\n")
    assert [time_ms for time_ms, _, _ in coordinator_lines(path)] == [1_005]


def test_what_was_read_is_said_and_nothing_understood_is_refused(tmp_path: Path) -> None:
    right, wrong = tmp_path / "right.log", tmp_path / "wrong.log"
    right.write_text(SECONDS)
    wrong.write_text("[2026-11-21 11:04:30,100] INFO starting (kafka.Kafka)\n" * 3)
    assert [str(each) for each in survey([right, wrong])] == [
        f"{right}: {len(LINES)} lines in another layout, 24 of them of groups' rebalances",
        f"{wrong}: 3 lines in Kafka's layout, 0 of them of groups' rebalances",
    ]
    with pytest.raises(NothingUnderstood, match="3 lines in Kafka's layout, 0 of them"):
        survey([wrong])
    end = ended("pipeline", "history", "--server-log", str(wrong), "--out", str(tmp_path / "out"))
    assert (end.code, "no line is one of a group's rebalance" in end.sentence) == (2, True), end
    assert not (tmp_path / "out").exists()
