"""What `./run` installs and runs, and that `.ci/run` runs every test. `./run test` ends where one of its processes is
killed, and where a test hangs: with the name of the test."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PARTS = ("src/coterie/records/_unfold.pyx", "src/coterie/records/cursor.pxi")
PYTHON = """#!/bin/sh
echo "$@" >>"$CALLS"
case "$*" in $FAILING) exit 3 ;; esac
"""
COTERIE = "#!/bin/sh\n"
CONFORMANCE = '#!/bin/sh\necho "coterie-conformance $@" >>"$CALLS"\n'
WORKERS = "2"
ENDS_WITHIN_S = 400  # it takes 3 s of an idle machine, and 30 s of one with six processes a core
TESTS = """
import os, signal, threading
import pytest

@pytest.mark.parametrize("number", range(3))
def test_one(number):
    if number == 1:
        {fault}
"""


class Checkout:
    """A folder with `run`, and programs in its environment that only note how they are called."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copy(ROOT / "run", folder / "run")
        shutil.copytree(ROOT / ".ci", folder / ".ci")
        for name in (
            "pyproject.toml",
            "conformance/pyproject.toml",
            "constraints.txt",
            "hatch_build.py",
            "src/coterie/__init__.py",
            *PARTS,
        ):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text("")
        (folder / ".venv/bin").mkdir(parents=True)
        for name, text in (
            ("python", PYTHON),
            ("coterie", COTERIE),
            ("coterie-conformance", CONFORMANCE),
            ("chromium", "#!/bin/sh\n"),
        ):
            (folder / ".venv/bin" / name).write_text(text)
            (folder / ".venv/bin" / name).chmod(0o755)
        (folder / "calls").touch()

    def call(self, script: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        own = {"CALLS": str(self.folder / "calls"), "CC": "true"}
        own["PATH"] = f"{self.folder}/.venv/bin:{os.environ['PATH']}"
        command = ["bash", str(self.folder / script), *arguments]
        return subprocess.run(command, env=own | variables, capture_output=True, text=True, timeout=60, check=False)

    def run(self, *arguments: str, **variables: str) -> None:
        done = self.call("run", *arguments, **variables)
        assert done.returncode == 0, done.stderr

    def installations(self) -> int:
        return (self.folder / "calls").read_text().count("-m pip install")


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


@pytest.mark.parametrize("changed", ["constraints.txt", *PARTS])
def test_a_changed_source_of_a_compiled_part_is_installed(checkout: Checkout, changed: str) -> None:
    """After `git pull` for instance: the part that was built before does not fit the package."""
    checkout.run("coterie", CI="true")
    checkout.run("coterie", CI="true")
    assert checkout.installations() == 1
    (checkout.folder / changed).write_text("x")
    checkout.run("coterie", CI="true")
    assert checkout.installations() == 2


@pytest.mark.parametrize(
    ("arguments", "ending"),
    [
        ((), " -m not slow tests"),
        (("--slow",), " -m slow"),
        (("--all",), " --durations 20"),
        (("--all", "--record"), " --durations 20 --record"),
        (("tests/log", "-x"), "-m pytest tests/log -x"),
    ],
)
def test_which_tests_run(arguments: tuple[str, ...], ending: str, checkout: Checkout) -> None:
    assert checkout.call("run", "test", *arguments, CI="true").returncode == 0
    assert (checkout.folder / "calls").read_text().splitlines()[-1].endswith(ending)


@pytest.mark.parametrize(
    ("verb", "called", "extra"),
    [("conformance", "compare", ""), ("bench", "bench", ""), ("fuzz", "fuzz", "[fuzz]"), ("stories", "stories", "")],
)
def test_the_second_distribution_is_installed_for_its_verbs(
    checkout: Checkout, verb: str, called: str, extra: str
) -> None:
    checkout.run(verb, "--list", CI="true")
    installed, ran = (checkout.folder / "calls").read_text().splitlines()
    assert installed.endswith(f" -e {checkout.folder}/conformance{extra}")
    assert ran == f"coterie-conformance {called} --list"
    checkout.run("coterie", CI="true")
    assert "/conformance" not in (checkout.folder / "calls").read_text().splitlines()[-1]


@pytest.mark.parametrize(
    ("failing", "status", "tests"),
    [("none", 0, 2), ("-m pytest* -m not slow tests", 3, 1), ("-m pytest* -m slow", 3, 2)],
)
def test_ci_runs_every_test_and_fails_with_them(checkout: Checkout, failing: str, status: int, tests: int) -> None:
    done = checkout.call(".ci/run", CI="true", FAILING=failing)
    assert done.returncode == status
    calls = (checkout.folder / "calls").read_text().splitlines()
    assert sum(call.startswith("-m pytest") for call in calls) == tests


def options() -> list[str]:
    """Of pytest, as `./run test` gives them."""
    given = re.search(r"all=\(-n auto (.*)\)", (ROOT / "run").read_text())
    assert given
    return ["-n", WORKERS, *given[1].split()]


def settings() -> list[str]:
    """What concerns a test that hangs, with a second in place of its minutes."""
    table = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    kept = {name: value for name, value in table.items() if name.startswith("faulthandler")}
    kept["faulthandler_timeout"] = 1
    return [word for name, value in kept.items() for word in ("-o", f"{name}={value}")]


@pytest.mark.parametrize("fault", ["os.kill(os.getpid(), signal.SIGKILL)", "threading.Event().wait(50)"])
def test_the_run_ends_and_names_the_test(fault: str, tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_whole.py").write_text("def test_whole(): pass\n")
    (tmp_path / "test_faulty.py").write_text(TESTS.format(fault=fault))
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options(), *settings()]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=ENDS_WITHIN_S, check=False)
    assert ended.returncode == 1
    assert "crashed while running 'test_faulty.py::test_one[1]'" in ended.stdout
