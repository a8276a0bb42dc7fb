"""The verbs of `coterie-conformance` as a person meets them: help, wrong values, what is missing, and --json."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

import coterie
import coterie_conformance
from coterie.cli import VERBS as VERBS_OF_COTERIE
from coterie_conformance.bench.measurement import Measurement
from coterie_conformance.cli import VERBS, main
from coterie_conformance.cli.parts.table import KafkaPart
from coterie_conformance.soak.run import SoakResult

FIRST_WORDS = ("Compare", "Feed", "Kill", "Measure", "Run")
WRONG = [
    ("fuzz --target nothing", "No target has nothing in its name; --list prints them."),
    ("compare --part cli --kafka 4.3.0 --strikes 2", "--strikes goes with --part cluster."),
    (
        "compare --part cli --brokers 3",
        "--brokers goes with --part requests, consumer-groups, everything, tools, clients, members.",
    ),
    ("compare --part cli --api ShareFetch", "--api goes with --part everything."),
    ("compare --part everything --api Share*Fetched", "'Share*Fetched' names no API; the APIs are AddOffsetsToTxn,"),
    ("compare --replay {file}", "--replay goes with --part everything alone."),
    ("stories --spark local[1] --processes 1", "leave them out with --spark"),
    ("stories --spark foo", "must be local[*], yarn, spark://HOST:PORT,"),
    ("bench --quick", "--quick and --out belong to --report"),
]


def outcome(line: str) -> Result:
    return CliRunner().invoke(main, line.split(), prog_name="coterie-conformance")


def printed(line: str) -> Any:
    return json.loads(outcome(f"{line} --json").stdout)


def test_the_two_distributions_have_one_version_and_no_verb_in_common() -> None:
    assert coterie_conformance.__version__ == coterie.__version__
    assert outcome("--version").stdout == f"coterie-conformance, version {coterie.__version__}\n"
    assert not VERBS.keys() & VERBS_OF_COTERIE.keys()


@pytest.mark.parametrize("verb", VERBS)
def test_help_begins_with_a_verb_and_explains_every_option(verb: str) -> None:
    command: click.Command = getattr(importlib.import_module(VERBS[verb][0]), verb)
    done = outcome(f"{verb} --help")
    assert done.exit_code == 0
    assert done.stdout.startswith(f"Usage: coterie-conformance {verb} [OPTIONS]")
    assert re.split(r"[\s,.:]", command.help or "")[0] in FIRST_WORDS
    assert not [p.name for p in command.params if isinstance(p, click.Option) and not p.help]


@pytest.mark.parametrize(("line", "sentence"), WRONG)
def test_a_value_that_does_not_fit(line: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = outcome(line.format(file=tmp_path / "file"))
    assert (done.exit_code, sentence in done.stderr) == (2, True), done.output


@pytest.mark.parametrize(
    ("line", "module", "sentence"),
    [
        (
            "fuzz --engine atheris --target legacy",
            "atheris",
            "--engine atheris needs atheris: pip install 'coterie-conformance[fuzz]'",
        ),
        ("bench --part spark", "pyspark", "bench --part spark needs pyspark: pip install 'coterie[spark]'"),
        ("soak --minutes 0.01", "pyspark", "soak needs pyspark: pip install 'coterie[spark]'"),
    ],
)
def test_a_missing_module_is_one_sentence(
    line: str, module: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for user in ("coterie.runtime.extras", "coterie_conformance.cli.fuzz"):
        monkeypatch.setattr(f"{user}.is_installed", lambda name: name != module)
    done = outcome(line)
    assert done.exit_code == 1
    assert done.stderr.splitlines()[-1].startswith("Error: ")
    assert done.stderr.splitlines()[-1].endswith(sentence)


def test_soak(monkeypatch: pytest.MonkeyPatch) -> None:
    result = SoakResult(9, [("t", 0, 1)], 0, 2, ["x"], {"broker": 1}, {"consumer-0": 9})  # type: ignore[list-item]
    monkeypatch.setattr("coterie_conformance.soak.run.run_soak", lambda *_: result)
    soaked = printed("soak")
    assert (soaked["missing"], soaked["unexplained"], soaked["right"]) == (1, 1, False)


def test_bench(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [Measurement("start", 0.2, "s"), Measurement("fetch", 100.0, "MB/s", 50.0, peer="kafka-python")]
    monkeypatch.setattr("coterie_conformance.bench.measure.run_parts", lambda *_: rows)
    measured = printed("bench --part start")
    assert measured["command"] == "./run bench --part start --json"
    assert [row["name"] for row in measured["rows"]] == ["start", "fetch"]


def test_compare(monkeypatch: pytest.MonkeyPatch) -> None:
    part = KafkaPart(lambda _: {"failed": 0, "format": {"magic": True}}, lambda _: [])
    monkeypatch.setattr("coterie_conformance.cli.compare.KAFKA_PARTS", {"format": part})
    assert printed("compare --part format --kafka 3.9.1") == [
        {"kafka": "3.9.1", "failed": 0, "format": {"magic": True}}
    ]


def test_stories() -> None:
    ran = printed("stories --seeds 1 --minutes 0.2 --brokers 3")
    assert (ran["seeds"], ran["failed"]) == (1, 0)
    assert ran["acknowledged"] > 0
