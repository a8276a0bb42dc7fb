"""`./run` builds the compiled edition beside what was asked for after an installation, and uses it while no source is newer;
`./run test --compiled` builds it first, and `.ci/run` runs the tests of both editions."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.awaiting import until_in_thread

ROOT = Path(__file__).parents[1]
PARTS = ("src/coterie/records/_unfold.pyx", "src/coterie/records/cursor.pxi")
PYTHON = """#!/bin/sh
echo "$@" >>"$CALLS"
case "$*" in "-m pytest"*) echo "$PYTHONPATH" >>"$PATHS" ;; esac
case "$*" in $FAILING) exit 3 ;; esac
"""
COTERIE = '#!/bin/sh\necho "$PYTHONPATH" >>"$PATHS"\n'
CONFORMANCE = '#!/bin/sh\necho "coterie-conformance $@" >>"$CALLS"\n'


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
            "compiled_edition.py",
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
        own = {"CALLS": str(self.folder / "calls"), "PATHS": str(self.folder / "paths"), "CC": "true"}
        own["PATH"] = f"{self.folder}/.venv/bin:{os.environ['PATH']}"
        command = ["bash", str(self.folder / script), *arguments]
        return subprocess.run(command, env=own | variables, capture_output=True, text=True, timeout=60, check=False)

    def run(self, *arguments: str, **variables: str) -> str:
        """The PYTHONPATH that the command got."""
        done = self.call("run", *arguments, **variables)
        assert done.returncode == 0, done.stderr
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


def test_tests_of_the_compiled_edition_run_on_a_build(checkout: Checkout) -> None:
    assert checkout.run("test", CI="true") == ""
    assert checkout.builds() == 0
    assert checkout.run("test", "--compiled", CI="true") == f"{checkout.folder}/build/compiled"
    assert checkout.run("test", "--compiled", "tests/log", CI="true") == f"{checkout.folder}/build/compiled"
    assert checkout.builds() == 2
    calls = (checkout.folder / "calls").read_text().splitlines()
    all_tests, named = [call for call in calls if call.startswith("-m pytest")][1:]
    assert all_tests.endswith(" @tests/compiled.txt -m not slow")
    assert named == "-m pytest tests/log"


@pytest.mark.parametrize(
    ("arguments", "ending"),
    [
        ((), " -m not slow"),
        (("--slow",), " -m slow"),
        (("--all",), " --durations 20"),
        (("--all", "--record"), " --durations 20 --record"),
        (("tests/log", "-x"), "-m pytest tests/log -x"),
    ],
)
def test_which_tests_run(arguments: tuple[str, ...], ending: str, checkout: Checkout) -> None:
    assert checkout.call("run", "test", *arguments, CI="true").returncode == 0
    assert (checkout.folder / "calls").read_text().splitlines()[-1].endswith(ending)


def test_the_set_up_builds_where_it_is_asked_to(checkout: Checkout) -> None:
    (checkout.folder / "paths").write_text("none\n")
    checkout.run("setup", CI="true")
    assert checkout.builds() == 0
    checkout.run("setup", "--compiled", CI="true")
    assert (checkout.builds(), checkout.installations()) == (1, 1)


@pytest.mark.parametrize(
    ("verb", "called", "extra"),
    [("conformance", "compare", ""), ("bench", "bench", ""), ("fuzz", "fuzz", "[fuzz]"), ("stories", "stories", "")],
)
def test_the_second_distribution_is_installed_for_its_verbs(
    checkout: Checkout, verb: str, called: str, extra: str
) -> None:
    (checkout.folder / "paths").write_text("none\n")
    checkout.run(verb, "--list", CI="true")
    installed, ran = (checkout.folder / "calls").read_text().splitlines()
    assert installed.endswith(f" -e {checkout.folder}/conformance{extra}")
    assert ran == f"coterie-conformance {called} --list"
    checkout.run("coterie", CI="true")
    assert "/conformance" not in (checkout.folder / "calls").read_text().splitlines()[-1]


NO_BUILD = "it cannot be built here"


@pytest.mark.parametrize(
    ("failing", "status", "tests", "is_last"),
    [
        ("none", 0, 3, ""),
        ("-m pytest* -m not slow", 3, 1, ""),
        ("-m pytest* -m slow", 3, 2, ""),
        ("*compiled_edition.py*", 1, 2, NO_BUILD),
        ("-m pytest*@tests/compiled.txt*", 3, 3, ""),
    ],
)
def test_ci_fails_with_the_tests_of_either_edition(
    checkout: Checkout, failing: str, status: int, tests: int, is_last: str
) -> None:
    done = checkout.call(".ci/run", CI="true", FAILING=failing)
    assert done.returncode == status
    calls = (checkout.folder / "calls").read_text().splitlines()
    assert sum(call.startswith("-m pytest") for call in calls) == tests
    assert done.stderr.splitlines()[-1].startswith(is_last)
