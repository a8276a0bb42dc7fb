"""The compiled edition answers byte for byte as the interpreted one.

They are those of build/compiled where the tests run on it (`./run test --compiled`); else those of its sources, with their
written out constructors, interpreted.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest
from click.testing import CliRunner

import compiled_edition
import compiled_modules
from coterie.cli import main
from coterie.records import compiled
from coterie.runtime.edition import COMPILED, compiled_parts, edition
from tests.test_compiled_source import write_interpretable

ROOT = Path(__file__).parent.parent
BUILT = ROOT / "build" / "compiled"


def test_the_edition_that_was_asked_for_runs() -> None:
    if os.environ.get("COTERIE_COMPILED") == "1":  # ./run test --compiled
        assert edition() == COMPILED


@functools.cache
def answers(folder: Path, *names: str) -> list[str]:
    """The lines of `edition_answers` on the packages in ``folder``."""
    variables = os.environ | {"PYTHONPATH": f"{folder}{os.pathsep}{ROOT}", "PYTHONHASHSEED": "0"}
    command = [sys.executable, "-m", "tests.edition_answers", *names]
    done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_both_editions_answer_alike(tmp_path: Path) -> None:
    if edition() == COMPILED:
        assert compiled_edition.is_fresh(BUILT), "build/compiled is older than the source"
        other, expected = BUILT, "compiled"
    else:
        write_interpretable(tmp_path)
        other, expected = tmp_path, "interpreted"
    first, *interpreted = answers(ROOT / "src")
    second, *compiled = answers(other)
    assert (first, second) == ("interpreted", expected)
    assert len(interpreted) == 39
    assert compiled == interpreted


def test_another_answer_is_seen(tmp_path: Path) -> None:
    """A member that is unknown gets another error, in the compiled edition's source alone."""
    write_interpretable(tmp_path)
    changed = tmp_path / "coterie/coordinator/classic/member_checks.py"
    text = changed.read_text()
    changed.write_text(text.replace("ErrorCode.UNKNOWN_MEMBER_ID", "ErrorCode.COORDINATOR_NOT_AVAILABLE"))
    assert changed.read_text() != text
    expected = [line for line in answers(ROOT / "src") if line.startswith("frames")]
    assert len(expected) == 3
    assert answers(tmp_path, "frames")[1:] != expected


def test_every_compiled_module_can_be_imported() -> None:
    if edition() != COMPILED:
        pytest.skip("./run test --compiled")
    names = [file.removesuffix(".py").replace("/", ".") for file in compiled_modules.module_files()]
    program = "import importlib, sys\nfor name in sys.argv[1:]: importlib.import_module('coterie.' + name)"
    variables = os.environ | {"PYTHONPATH": str(BUILT)}
    done = subprocess.run(
        [sys.executable, "-c", program, *names], env=variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_edition_has_a_name(tmp_path: Path) -> None:
    """`coterie --version` names the edition by what lies beside the source."""
    assert edition(ROOT / "src" / "coterie") == "pure Python"
    (tmp_path / "coordinator").mkdir()
    (tmp_path / "coordinator" / "shard.py").touch()
    assert edition(tmp_path) == "pure Python"
    (tmp_path / "coordinator" / f"shard{EXTENSION_SUFFIXES[0]}").touch()
    assert edition(tmp_path) == "compiled"
    first, codecs, modules = CliRunner().invoke(main, ["--version"]).output.splitlines()
    assert first.endswith(f"({edition()})")
    assert codecs.startswith("record codecs: ")
    assert modules.startswith("broker modules: compiled" if edition() == COMPILED else "broker modules: interpreted")


@pytest.mark.parametrize(
    ("built", "line"),
    [
        ((), "broker modules: interpreted"),
        (("log/segment", "log/state", "journal"), "broker modules: compiled (journal 1, log 2)"),
    ],
)
def test_the_version_names_the_rooms_that_are_compiled(tmp_path: Path, built: tuple[str, ...], line: str) -> None:
    for name in built:
        module = tmp_path / name
        module.parent.mkdir(exist_ok=True)
        for suffix in (".py", EXTENSION_SUFFIXES[0]):
            module.with_name(module.name + suffix).touch()
    (tmp_path / f"helper{EXTENSION_SUFFIXES[0]}").touch()  # without a source: no module of ours
    assert compiled_parts(tmp_path)[1] == line


@pytest.mark.parametrize("built", [("ENCODING_COMPILED",), ("ENCODING_COMPILED", "ROWS_COMPILED", "COMPILED"), ()])
def test_the_version_names_the_record_codecs_that_are_compiled(
    monkeypatch: pytest.MonkeyPatch, built: tuple[str, ...]
) -> None:
    for name in ("ENCODING_COMPILED", "ROWS_COMPILED", "COMPILED"):
        monkeypatch.setattr(compiled, name, name in built)
    expected = {
        0: "interpreted",
        1: "compiled (_encoding; the others interpreted)",
        3: "compiled (_encoding, _rows, _unfold)",
    }
    assert compiled_parts()[0] == f"record codecs: {expected[len(built)]}"
