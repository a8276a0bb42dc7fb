"""`./run package [PYTHON...]`: the sdist and the wheels, each installed alone in fresh environments of each Python, with and
without a C compiler, and each extra on its own; the results as the table of docs/contributing/releasing.md.

The installations are those of a user: without this repository's constraints. Exit code 1 if a check failed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import coterie
from coterie.runtime.extras import EXTRAS
from tests.package.fresh_environment import BUILD_REQUIRES, NO_COMPILER, ROOT, FreshEnvironment

RESULTS = ROOT / "docs" / "results" / "package.json"
FLIGHTS = "id,origin,delay\n" + "".join(f"{n},{'ABC'[n % 3]},{n % 50}\n" for n in range(3_000))
ALONE = ("http", "mcp", "zookeeper", "demo", "png", "java", "delta", "iceberg", "history", "spark")


@dataclass(frozen=True, slots=True)
class Result:
    """One check on one Python; ``problem`` is empty where it held."""

    python: str
    check: str
    seconds: float
    problem: str = ""

    @property
    def verdict(self) -> str:
        return "failed" if self.problem else "ok"


class Matrix:
    """The checks of one interpreter, in ``folder``."""

    def __init__(self, python: str, folder: Path, extras: tuple[str, ...]) -> None:
        self.python, self.folder, self.extras = python, folder, extras
        self.version = _output(python, "-c", "import platform; print(platform.python_version())")
        self.results: list[Result] = []

    def run(self) -> list[Result]:
        builder = FreshEnvironment(self.folder / "builder", self.python)
        builder.install("build", *BUILD_REQUIRES, constrained=False)
        for kind, compiled in (("compiled", True), ("pure", False)):
            what = "a compiled wheel" if compiled else "without a compiler: a pure wheel"
            self._check(f"build: sdist, and {what}", lambda k=kind, c=compiled: self._build(builder, k, c))
        compiled_wheel, pure_wheel = self._file("compiled/*.whl"), self._file("pure/*.whl")
        sdist = self._file("pure/*.tar.gz")
        if compiled_wheel is None or pure_wheel is None or sdist is None:
            return self.results
        self._check("compiled wheel: a whole coterie", lambda: self._whole(compiled_wheel, compiled=True))
        self._check("pure wheel: a whole coterie", lambda: self._whole(pure_wheel, compiled=False))
        self._check("sdist without a compiler: a whole coterie", lambda: self._whole(sdist, compiled=False))
        for extra in self.extras:
            self._check(f"extra {extra} alone", lambda e=extra: self._extra(e, compiled_wheel))
        if {"spark", "java"} <= set(self.extras):
            self._check("the demo's smallest form", lambda: self._demo(compiled_wheel))
        return self.results

    def _check(self, check: str, carry_out: Callable[[], object]) -> None:
        began_s = time.monotonic()
        problem = ""
        try:
            carry_out()
        except (AssertionError, subprocess.TimeoutExpired) as error:
            problem = str(error)
        result = Result(self.version, check, round(time.monotonic() - began_s, 1), problem)
        self.results.append(result)
        print(f"{self.version:8} {check:48} {result.verdict:18} {result.seconds:6.1f} s", flush=True)
        if problem:
            print(problem, flush=True)

    def _file(self, pattern: str) -> Path | None:
        return next(self.folder.glob(pattern), None)

    def _build(self, builder: FreshEnvironment, kind: str, compiled: bool) -> None:
        out, variables = self.folder / kind, {} if compiled else NO_COMPILER
        builder.run(builder.python, "-m", "build", "--no-isolation", "--outdir", out, ROOT, variables=variables)
        (wheel,) = out.glob("*.whl")
        assert ("py3-none-any" not in wheel.name) == compiled, wheel.name

    def _whole(self, package: Path, compiled: bool) -> None:
        """The command, a broker with its client, and the fixture of pytest, of a wheel or an sdist."""
        environment = FreshEnvironment(Path(tempfile.mkdtemp(dir=self.folder)) / "environment", self.python)
        environment.install(str(package), "pytest", constrained=False, variables={} if compiled else NO_COMPILER)
        assert coterie.__version__ in environment.coterie("--version")
        assert environment.is_compiled() == compiled
        assert environment.produce_and_consume() == ["one", "two"]
        assert environment.run_fixture_test().startswith("1 passed")

    def _extra(self, extra: str, wheel: Path) -> None:
        environment = FreshEnvironment(self.folder / f"extra-{extra}", self.python)
        environment.install(f"coterie[{extra}] @ {wheel.as_uri()}", constrained=False)
        environment.import_extra(extra)
        environment.coterie("--version")
        shutil.rmtree(environment.folder)

    def _demo(self, wheel: Path) -> None:
        environment = FreshEnvironment(self.folder / "demo", self.python)
        environment.install(f"coterie[spark,java,http] @ {wheel.as_uri()}", constrained=False)
        rows = self.folder / "flights.csv"
        rows.write_text(FLIGHTS)
        out = self.folder / "demo-out"
        environment.coterie("demo", "--input", str(rows), "--key", "id", "--out", str(out), "--master", "local[2]")
        shutil.rmtree(environment.folder)


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.strip()


def table(results: list[Result]) -> list[str]:
    """Lines of Markdown: a row for each check, a column for each Python, the verdict in each cell."""
    versions = list(dict.fromkeys(r.python for r in results))
    cells = {(r.check, r.python): r.verdict for r in results}
    lines = ["| check | " + " | ".join(versions) + " |", "|---" * (len(versions) + 1) + "|"]
    for check in dict.fromkeys(r.check for r in results):
        lines.append(f"| {check} | " + " | ".join(cells.get((check, v), "not run") for v in versions) + " |")
    return lines


def saved_results() -> list[Result]:
    """The results that the documentation shows."""
    return [Result(**result) for result in json.loads(RESULTS.read_text())["results"]]


def main() -> int:
    options = argparse.ArgumentParser(prog="./run package", description=__doc__)
    options.add_argument("pythons", nargs="*", default=[sys.executable], help="interpreters; by default this one")
    options.add_argument("--extras", default=",".join(ALONE), help="the extras to install alone, divided by commas")
    options.add_argument("--save", action="store_true", help=f"write {RESULTS.relative_to(ROOT)} for the documentation")
    chosen = options.parse_args()
    extras = tuple(filter(None, chosen.extras.split(",")))
    assert set(extras) <= set(EXTRAS), f"there is no extra {set(extras) - set(EXTRAS)}; there are {', '.join(EXTRAS)}"
    results: list[Result] = []
    for python in chosen.pythons:
        with tempfile.TemporaryDirectory(prefix="coterie-package-", ignore_cleanup_errors=True) as folder:
            results += Matrix(python, Path(folder), extras).run()
    print("\n".join(["", *table(results)]))
    if chosen.save:
        saved = {
            "command": "./run package " + " ".join(Path(p).name for p in chosen.pythons),
            "date": time.strftime("%Y-%m-%d"),
            "machine": {
                "cores": os.cpu_count(),
                "system": f"{platform.system()} {platform.machine()}",
                "python": ", ".join(dict.fromkeys(r.python for r in results)),
            },
            "results": [asdict(r) for r in results],
        }
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(saved, indent=1) + "\n")
    return any(r.problem for r in results)


if __name__ == "__main__":
    raise SystemExit(main())
