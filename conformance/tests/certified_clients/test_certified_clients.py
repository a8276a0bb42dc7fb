"""The part `certify-client` with our own client and with a bad one; the table of defects names what there is."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from coterie.certify.client.producer_verdict import PRODUCER_RULES
from coterie.certify.client.roles import STORIES
from coterie.certify.client.story import CONSUMER, PRODUCER
from coterie.certify.client.verdict import RULES
from coterie_conformance.certified_clients import defects, run
from coterie_conformance.certified_clients.defects import KNOWN_DEFECTS, KnownDefect
from coterie_conformance.certified_clients.programs import CERTIFIED_PROGRAMS, CertifiedProgram
from coterie_conformance.cli import main
from coterie_conformance.servers.kafka import CannotRun

pytestmark = pytest.mark.slow

OURS = next(program for program in CERTIFIED_PROGRAMS if program.name == "coterie")
BAD_CLIENTS = Path(__file__).parents[3] / "tests/certify/bad_clients.py"


def test_our_client_is_right(tmp_path: Path) -> None:
    lines: list[tuple[str, str]] = []
    rows = run.run_certified_clients(tmp_path, lambda *line: lines.append(line), [OURS], ["quiet"])
    assert [(row["role"], row["stories"], row["wrong"], row["skipped"]) for row in rows] == [
        (CONSUMER, 1, [], ""),
        (PRODUCER, 1, [], ""),
    ]
    assert [wrong for _, wrong in lines] == ["", ""]


def test_a_defect_is_unexplained_until_it_has_its_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "PATIENCE_S", 10.0)
    # Without the role, which comes last.
    words = [sys.executable, str(BAD_CLIENTS), "{bootstrap}", "{group}", "{topic}", "never commits"]
    command = ["sh", "-c", 'exec "$0" "$1" "$2" "$3" "$4" "$5"', *words]
    bad = CertifiedProgram("bad", lambda _: command, roles=(CONSUMER,))
    lines: list[tuple[str, str]] = []
    (row,) = run.run_certified_clients(tmp_path, lambda *line: lines.append(line), [bad], ["quiet"])
    assert [finding["rule"] for finding in row["wrong"]] == ["uncommitted"]
    assert "quiet: uncommitted: 0 of partition 0 is committed" in lines[0][1]


def test_a_client_that_cannot_be_built_is_skipped(tmp_path: Path) -> None:
    def prepare(_: Path) -> list[str]:
        raise CannotRun("no compiler")

    (row,) = run.run_certified_clients(
        tmp_path, lambda *_: None, [CertifiedProgram("none", prepare, roles=(CONSUMER,))]
    )
    assert row["skipped"] == "no compiler"


def test_a_known_defect_is_of_its_client_story_and_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    row = KnownDefect(("one",), CONSUMER, ("stuck",), "it waits", ("quiet",))
    monkeypatch.setattr(defects, "KNOWN_DEFECTS", (row,))
    assert defects.defect_of("one", CONSUMER, "quiet", "stuck") is row
    for other in (
        ("two", CONSUMER, "quiet", "stuck"),
        ("one", PRODUCER, "quiet", "stuck"),
        ("one", CONSUMER, "fenced", "stuck"),
        ("one", CONSUMER, "quiet", "skipped"),
    ):
        assert defects.defect_of(*other) is None


def test_the_table_of_defects_names_what_there_is() -> None:
    rules = {CONSUMER: RULES, PRODUCER: PRODUCER_RULES}
    names = {program.name for program in CERTIFIED_PROGRAMS}
    for row in KNOWN_DEFECTS:
        assert set(row.clients) <= names
        assert set(row.rules) <= rules[row.role].keys()
        assert set(row.stories) <= {story.name for story in STORIES[row.role]}


@pytest.mark.parametrize(("defect", "exit_code"), [("", 1), ("it is so", 0)])
def test_an_unexplained_finding_fails_the_part(monkeypatch: pytest.MonkeyPatch, defect: str, exit_code: int) -> None:
    finding = {"story": "quiet", "rule": "stuck", "defect": defect}
    row = {"client": "one", "role": CONSUMER, "stories": 2, "wrong": [finding], "not_met": [], "skipped": ""}
    monkeypatch.setattr(run, "run_certified_clients", lambda *_: [row])
    done = CliRunner().invoke(main, ["compare", "--part", "certify-client"])
    assert done.exit_code == exit_code
    assert "one, consumer: 2 stories: 1 right, 1 wrong, 0 not met" in done.stdout
