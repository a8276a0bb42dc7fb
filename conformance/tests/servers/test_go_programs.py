"""A program in Go is built once for its text and its modules. The `go` of these tests is a script that records its calls."""

from __future__ import annotations

from pathlib import Path

import pytest

from coterie_conformance.servers import programs
from coterie_conformance.servers.kafka import CannotRun
from coterie_conformance.servers.programs import go_program

GO = """#!/bin/sh
echo "$@" >> "{calls}"
if [ "$1" = get ] && [ "$2" = missing@v1 ]; then echo "missing: not found" >&2; exit 1; fi
if [ "$1" = mod ] && [ -e go.mod ]; then echo "go.mod already exists" >&2; exit 1; fi
if [ "$1" = mod ]; then echo > go.mod; fi
if [ "$1" = build ]; then cp main.go "$3"; fi
"""


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    calls, go = tmp_path / "calls", tmp_path / "bin" / "go"
    go.parent.mkdir()
    go.write_text(GO.format(calls=calls))
    go.chmod(0o755)
    monkeypatch.setenv("PATH", str(go.parent), prepend=":")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return calls


def test_a_program_is_built_when_its_text_or_a_module_changes(calls: Path, tmp_path: Path) -> None:
    source = tmp_path / "member.go"
    source.write_text("package main")
    program = go_program(source, "kgo@v1")
    assert program.read_text() == "package main"
    assert [line.split()[0] for line in calls.read_text().splitlines()] == ["mod", "get", "build"]
    assert go_program(source, "kgo@v1") == program
    assert len(calls.read_text().splitlines()) == 3, "built again without a change"
    assert go_program(source, "kgo@v2") != program
    source.write_text("package main // changed")
    assert go_program(source, "kgo@v1").read_text() == "package main // changed"
    assert len(calls.read_text().splitlines()) == 9


def test_files_beside_belong_to_a_program(calls: Path, tmp_path: Path) -> None:
    source, steps = tmp_path / "client.go", tmp_path / "steps.go"
    source.write_text("package main")
    steps.write_text("package main // steps")
    program = go_program(source, "kgo@v1", beside=[steps])
    assert (program.parent / "steps.go").read_text() == "package main // steps"
    assert go_program(source, "kgo@v1", beside=[steps]) == program
    steps.write_text("package main // other steps")
    assert go_program(source, "kgo@v1", beside=[steps]) != program


def test_what_go_reports_is_the_reason(calls: Path, tmp_path: Path) -> None:
    source = tmp_path / "member.go"
    source.write_text("package main")
    for _ in range(2):  # a build that failed is none
        with pytest.raises(CannotRun, match=r"go get missing@v1: missing: not found"):
            go_program(source, "missing@v1")


def test_two_processes_build_it_at_once(calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, run, others = tmp_path / "member.go", programs._run, list[Path]()
    source.write_text("package main")

    def run_beside_another(command: list[str], folder: Path) -> None:
        monkeypatch.setattr(programs, "_run", run)
        others.append(go_program(source, "kgo@v1"))
        run(command, folder)

    monkeypatch.setattr(programs, "_run", run_beside_another)
    assert [go_program(source, "kgo@v1")] == others
    assert others[0].read_text() == "package main"


def test_without_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CannotRun, match="apt-get install golang"):
        go_program(tmp_path / "member.go")
