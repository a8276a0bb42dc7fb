"""`./run` builds the compiled edition beside what was asked for after an installation, and uses it while no source is newer."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.awaiting import until_in_thread

RUN = Path(__file__).parents[1] / "run"
PARTS = ("src/coterie/records/_unfold.pyx", "src/coterie/records/cursor.pxi")
PYTHON = '#!/bin/sh\necho "$@" >>"$CALLS"\n'
COTERIE = '#!/bin/sh\necho "$PYTHONPATH" >>"$PATHS"\n'


class Checkout:
    """A folder with `run`, and programs in its environment that only note how they are called."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copy(RUN, folder / "run")
        for name in (
            "pyproject.toml",
            "constraints.txt",
            "hatch_build.py",
            "compiled_edition.py",
            "src/coterie/__init__.py",
            *PARTS,
        ):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text("")
        (folder / ".venv/bin").mkdir(parents=True)
        for name, text in (("python", PYTHON), ("coterie", COTERIE)):
            (folder / ".venv/bin" / name).write_text(text)
            (folder / ".venv/bin" / name).chmod(0o755)
        (folder / "calls").touch()

    def run(self, *arguments: str, **variables: str) -> str:
        """The PYTHONPATH that the command got."""
        own = {"PATH": os.environ["PATH"], "CALLS": str(self.folder / "calls"), "PATHS": str(self.folder / "paths")}
        command = ["bash", str(self.folder / "run"), *arguments]
        subprocess.run(command, env=own | {"CC": "true"} | variables, capture_output=True, timeout=60, check=True)
        return (self.folder / "paths").read_text().splitlines()[-1]

    def builds(self) -> int:
        return (self.folder / "calls").read_text().count(f"{self.folder}/compiled_edition.py")

    def build(self, time_s: float) -> str:
        """A compiled edition of that time; its folder."""
        stamp = self.folder / "build/compiled/edition.sha256"
        stamp.parent.mkdir(parents=True, exist_ok=True)
        stamp.write_text("")
        os.utime(stamp, (time_s, time_s))
        return str(stamp.parent)

    def installations(self) -> int:
        return (self.folder / "calls").read_text().count("-m pip install")


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_an_installation_begins_a_build_and_a_later_run_does_not(checkout: Checkout) -> None:
    assert checkout.run("coterie") == ""
    until_in_thread(lambda: checkout.builds() == 1, "a build")
    assert checkout.run("coterie") == ""
    assert checkout.builds() == 1


@pytest.mark.parametrize("changed", ["constraints.txt", *PARTS])
def test_a_changed_source_of_a_compiled_part_is_installed(checkout: Checkout, changed: str) -> None:
    """After `git pull` for instance: the part that was built before does not fit the package."""
    checkout.run("coterie", CI="true")
    checkout.run("coterie", CI="true")
    assert checkout.installations() == 1
    (checkout.folder / changed).write_text("x")
    checkout.run("coterie", CI="true")
    assert checkout.installations() == 2


@pytest.mark.parametrize("variables", [{"CC": "no-such-compiler"}, {"CI": "true"}])
def test_nothing_is_built_without_a_compiler_or_in_ci(checkout: Checkout, variables: dict[str, str]) -> None:
    checkout.run("coterie", **variables)
    assert not (checkout.folder / "build").exists()


def test_a_build_is_used_while_no_source_is_newer(checkout: Checkout) -> None:
    checkout.run("coterie", CI="true")
    newest = max(path.stat().st_mtime for path in checkout.folder.rglob("*.py"))
    assert checkout.run("demo") == ""
    assert checkout.run("demo", CI="true", PYTHONPATH="x") == "x"
    built = checkout.build(newest + 10)
    assert checkout.run("coterie") == built
    assert checkout.run("coterie", PYTHONPATH="x") == f"{built}:x"
    checkout.build(newest - 10)
    assert checkout.run("coterie") == ""
