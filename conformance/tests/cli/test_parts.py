"""The command that runs conformance's parts, with parts that need no JVM."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from coterie_conformance.cli import compare as command
from coterie_conformance.cli.parts.options import PartOptions
from coterie_conformance.cli.parts.table import KafkaPart
from coterie_conformance.servers.kafka import CannotRun


def _part(failed: int, **figures: Any) -> KafkaPart:
    return KafkaPart(lambda _: figures | {"failed": failed}, lambda f: [f"  {', '.join(f)}"])


def _cannot_run(options: PartOptions) -> dict[str, Any]:
    raise CannotRun(f"no Kafka {options.version}")


def _run(monkeypatch: pytest.MonkeyPatch, parts: dict[str, KafkaPart], *args: str) -> tuple[int, str]:
    monkeypatch.setattr(command, "KAFKA_PARTS", parts)
    done = CliRunner().invoke(command.compare, args)
    return done.exit_code, done.stdout


def test_figures_of_a_versions_parts_are_one_result(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = {"format": _part(0, files=3), "client": _part(2, checks=7)}
    exit_code, out = _run(monkeypatch, parts, "--kafka", "4.3.0", "--part", "format", "--part", "client", "--json")
    assert (exit_code, json.loads(out)) == (1, [{"kafka": "4.3.0", "failed": 2, "files": 3, "checks": 7}])


def test_only_the_parts_and_versions_asked_for_are_run(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = {"format": _part(0, files=3), "client": KafkaPart(_cannot_run, lambda _: [], ("3.9.1",))}
    exit_code, out = _run(monkeypatch, parts, "--kafka", "4.3.0", "--part", "format", "--part", "client")
    assert (exit_code, out) == (0, "Apache Kafka 4.3.0:\n  files\n")
    exit_code, out = _run(monkeypatch, parts, "--kafka", "3.9.1", "--part", "client", "--json")
    assert (exit_code, json.loads(out)) == (3, [{"kafka": "3.9.1", "skipped": "no Kafka 3.9.1"}])


def test_a_part_that_no_version_runs_does_not_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "KAFKA_PARTS", {"client": KafkaPart(_cannot_run, lambda _: [], ("3.9.1",))})
    done = CliRunner().invoke(command.compare, ["--kafka", "4.3.0", "--part", "client"])
    assert done.exit_code == 2
    assert "nothing to run with --kafka 4.3.0: client runs on 3.9.1" in done.stderr
