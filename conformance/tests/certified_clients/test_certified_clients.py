"""The part `certify-client` with our own client and with a bad one; the table of defects names what there is."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from coterie.certify.client.roles import STORIES
from coterie.certify.client.story import CONSUMER, PRODUCER
from coterie.certify.client.verdict import PRODUCER_RULES, RULES
from coterie_conformance.certified_clients import defects, run
from coterie_conformance.certified_clients.defects import KNOWN_DEFECTS, KnownDefect
from coterie_conformance.certified_clients.programs import CERTIFIED_PROGRAMS, CertifiedProgram
from coterie_conformance.cli import main
from coterie_conformance.servers.kafka import CannotRun

pytestmark = pytest.mark.slow

OURS = next(program for program in CERTIFIED_PROGRAMS if program.name == "coterie")
BAD_CLIENTS = Path(__file__).parents[3] / "tests/certify/bad_clients.py"


def test_our_client_is_right(tmp_path: Path) -> None:
    rows = list(run.run_certified_clients(tmp_path, [OURS], ["quiet"]))
    assert sorted((row.role, row.stories, row.sentence()) for row in rows) == [(CONSUMER, 1, ""), (PRODUCER, 1, "")]


def test_what_is_finished_does_not_run_again(tmp_path: Path) -> None:
    (row,) = run.run_certified_clients(tmp_path, [OURS], ["quiet"], finished={("coterie", CONSUMER)})
    assert (row.role, row.stories) == (PRODUCER, 1)


def test_a_defect_is_unexplained_until_it_has_its_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "PATIENCE_S", 10.0)
    # Without the role, which comes last.
    words = [sys.executable, str(BAD_CLIENTS), "{bootstrap}", "{group}", "{topic}", "never commits"]
    command = ["sh", "-c", 'exec "$0" "$1" "$2" "$3" "$4" "$5"', *words]
    bad = CertifiedProgram("bad", lambda _: command, roles=(CONSUMER,))
    (row,) = run.run_certified_clients(tmp_path, [bad], ["quiet"])
    assert [finding["rule"] for finding in row.wrong] == ["uncommitted"]
    assert "quiet: uncommitted: 0 of partition 0 is committed" in row.sentence()


def test_a_client_that_cannot_be_built_is_skipped(tmp_path: Path) -> None:
    def prepare(_: Path) -> list[str]:
        raise CannotRun("no compiler")

    (row,) = run.run_certified_clients(tmp_path, [CertifiedProgram("none", prepare, roles=(CONSUMER,))])
    assert row.skipped == "no compiler"


def test_a_client_that_cannot_be_started_is_skipped(tmp_path: Path) -> None:
    program = CertifiedProgram("none", lambda _: ["/no/such/program"], roles=(CONSUMER,))
    (row,) = run.run_certified_clients(tmp_path, [program], ["quiet"])
    assert "/no/such/program cannot be started: No such file or directory" in row.skipped


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
    finding = dict.fromkeys(("text", "after", "journal"), "") | {"story": "quiet", "rule": "stuck", "defect": defect}
    row = run.CertifiedClient("coterie", CONSUMER, "at-least-once", 2, [finding])
    monkeypatch.setattr(run, "run_certified_clients", lambda *_, **__: [row])
    done = CliRunner().invoke(main, ["compare", "--part", "certify-client"])
    assert done.exit_code == exit_code
    assert "coterie, consumer: 2 stories: 1 right, 1 wrong, 0 not met" in done.stdout


def test_an_interrupted_run_resumes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made, wanted = list[str](), [OURS.name, "librdkafka"]

    def rows(_: Path, finished: set[tuple[str, str]]) -> Iterator[run.CertifiedClient]:
        for name in (name for name in wanted if (name, CONSUMER) not in finished):
            made.append(name)
            yield run.CertifiedClient(name, CONSUMER, "at-least-once", 2)
            if name == OURS.name:
                raise KeyboardInterrupt

    monkeypatch.setattr(run, "run_certified_clients", rows)
    command = ["compare", "--part", "certify-client", "--results", str(tmp_path / "rows"), "--json"]
    assert CliRunner().invoke(main, command).exit_code != 0
    done = CliRunner().invoke(main, command)
    (part,) = json.loads(done.stdout)
    assert made == wanted
    assert [row["client"] for row in part["certify_client"]] == ["librdkafka", "coterie"]
