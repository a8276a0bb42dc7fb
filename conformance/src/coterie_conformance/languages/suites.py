"""The tests of `clients/`, each by its language's own toolchain, against `coterie broker` in a process of its own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from coterie_conformance.servers.kafka import CannotRun

CLIENTS = Path(__file__).parents[4] / "clients"
LIMIT_S = 900.0


@dataclass(frozen=True, slots=True)
class Suite:
    """``folder`` in `clients`; ``build`` fetches and compiles, ``test`` runs what is built; ``passed`` has the number of
    tests in what that prints, in a group, or matches once for each."""

    folder: str
    program: str
    build: Sequence[Sequence[str]]
    test: Sequence[str]
    passed: str
    package: str


@dataclass(frozen=True, slots=True)
class SuiteResult:
    """``seconds``: of the tests, the start and end of the broker included; ``output`` of what failed, else empty."""

    suite: str
    passed: int
    seconds: float
    output: str


_SUREFIRE = r"Tests run: (\d+), Failures: 0, Errors: 0, Skipped: 0$"  # the last such line is the sum
SUITES = (
    Suite(
        "go/example",
        "go",
        [["go", "vet", "./..."], ["go", "test", "-c", "-o", "suite", "."]],
        ["./suite", "-test.v"],
        r"^    --- PASS",
        "golang",
    ),
    Suite(
        "typescript",
        "npm",
        [["npm", "install", "--no-audit", "--no-fund", "--no-package-lock"], ["npm", "run", "build"]],
        ["node", "--test", "test/"],
        r"^ok \d",
        "npm",
    ),
    Suite(
        "java",
        "mvn",
        [["mvn", "-B", "-ntp", "-q", "test-compile"]],
        ["mvn", "-B", "-ntp", "surefire:test"],
        _SUREFIRE,
        "maven",
    ),
    Suite(
        "rust",
        "cargo",
        [["cargo", "fmt", "--check"], ["cargo", "test", "--no-run", "--test", "consumer"]],
        ["cargo", "test", "--test", "consumer", "--", "--nocapture"],
        r"^passed: ",
        "cargo",
    ),
    Suite(
        "spring",
        "mvn",
        [
            ["mvn", "-B", "-ntp", "-q", "-f", "../java", "install", "-DskipTests"],
            ["mvn", "-B", "-ntp", "-q", "test-compile"],
        ],
        ["mvn", "-B", "-ntp", "surefire:test"],
        _SUREFIRE,
        "maven",
    ),
)


def run_suite(suite: Suite, folder: Path) -> SuiteResult:
    """In a copy of `clients` in that folder. Raises CannotRun without the toolchain."""
    if shutil.which(suite.program) is None:
        raise CannotRun(f"{suite.program} is not on the PATH; on Debian: apt-get install {suite.package}")
    copy = folder / "clients"
    ignored = shutil.ignore_patterns("node_modules", "dist", "target", "Cargo.lock")
    shutil.copytree(CLIENTS, copy, ignore=ignored, dirs_exist_ok=True)
    where = copy / suite.folder
    for command in suite.build:
        built = _run(command, where)
        if built.returncode:
            return SuiteResult(suite.folder, 0, 0.0, built.stdout)
    started = time.monotonic()
    done = _run(suite.test, where)
    seconds = time.monotonic() - started
    matches = re.findall(suite.passed, done.stdout, re.MULTILINE)
    numbers = [int(one) for one in matches if one.isdigit()]
    passed = max(numbers) if numbers else len(matches)
    return SuiteResult(suite.folder, passed, seconds, done.stdout if done.returncode or not passed else "")


def _run(command: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"COTERIE": f"{sys.executable} -m coterie"}
    return subprocess.run(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT_S,
    )
