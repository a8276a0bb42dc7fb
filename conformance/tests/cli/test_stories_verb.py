"""`stories`: failures, and with `--results` a run that was interrupted resumes, and a file of other stories is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from coterie_conformance.cli import seed_runs
from coterie_conformance.cli.seed_runs import Result, SeedResults
from coterie_conformance.cli.stories import stories

REPORT = dict.fromkeys(seed_runs.NOUNS, 5)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "results.jsonl"


def results_of(path: Path) -> SeedResults:
    return SeedResults(path, "stories", 0.5)


def test_what_was_added_is_there_again(path: Path) -> None:
    results_of(path).add((3, REPORT, ""), "abc")
    assert results_of(path).passed == {3: REPORT}


def test_a_seed_that_failed_runs_again(path: Path) -> None:
    results_of(path).add((3, {}, "seed 3: a rule was broken"), "abc")
    assert results_of(path).passed == {}


def test_half_a_line_is_left_out(path: Path) -> None:
    results_of(path).add((3, REPORT, ""), "abc")
    with path.open("a") as file:
        file.write('{"seed": 4, "rep')
    again = results_of(path)
    again.add((5, REPORT, ""), "abc")
    assert results_of(path).passed == {3: REPORT, 5: REPORT}


@pytest.mark.parametrize("text", ["root:x:0:0\n", "[1]\n[2]\n", '{"of": "members", "minutes": 0.5}\n{"seed": 1}\n'])
def test_another_file_is_refused(path: Path, text: str) -> None:
    path.write_text(text)
    with pytest.raises(click.ClickException, match=r"name another file|has results of"):
        results_of(path)
    assert path.read_text() == text


def test_results_of_other_stories_are_refused(path: Path) -> None:
    results_of(path).add((3, REPORT, ""), "abc")
    with pytest.raises(click.ClickException, match=r"has results of stories and --minutes 0.5; name another file"):
        SeedResults(path, "stories", 1.0)


def test_a_run_resumes_and_counts_what_ran_before(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[int] = []

    def on_cores(one: object, seeds: list[int], *_: object, chunk: int) -> list[Result]:
        ran.extend(seeds)
        return [(seed, dict.fromkeys(seed_runs.NOUNS, 1), "") for seed in seeds]

    monkeypatch.setattr(seed_runs, "over_cores", on_cores)
    command = ["--results", str(path), "--json", "--seeds"]
    assert CliRunner().invoke(stories, [*command, "2"]).exit_code == 0
    document = json.loads(CliRunner().invoke(stories, [*command, "5"]).stdout)
    assert ran == [0, 1, 2, 3, 4]
    assert (document["seeds"], document["events"], document["broker_crashes"]) == (5, 5, 5)


def test_a_failure_is_printed_before_the_next_seed_has_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = list[str]()

    def runs(*_: object, chunk: int) -> Iterator[Result]:
        yield 0, {}, "seed 0: a rule was broken"
        printed.append(capsys.readouterr().err)
        yield 1, REPORT, ""

    monkeypatch.setattr(seed_runs, "over_cores", runs)
    with pytest.raises(SystemExit) as ended:
        stories.main(["--seeds", "2"], standalone_mode=False)
    assert ended.value.code == 1
    assert [text.partition(" (commit ")[0] for text in printed] == ["seed 0: a rule was broken"]
    assert "1 failed" in capsys.readouterr().out
