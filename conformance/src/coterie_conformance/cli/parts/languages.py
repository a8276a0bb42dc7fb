"""What `compare --part languages` reports: the clients of the control API, each tested in its own ecosystem."""

from __future__ import annotations

from pathlib import Path

from coterie.console.terminal import write_line, write_lines
from coterie.text.quantity import quantity
from coterie_conformance.cli.parts.options import Figures
from coterie_conformance.servers.kafka import CannotRun

CANNOT_RUN_EXIT = 3


def languages_part(folder: Path, results: list[Figures]) -> int:
    """Adds the figures to ``results``; returns the exit code."""
    from coterie_conformance.languages.suites import SUITES, run_suite

    exit_code = 0
    for suite in SUITES:
        try:
            result = run_suite(suite, folder)
        except CannotRun as reason:
            write_line(f"SKIPPED {suite.folder}: {reason}", color="red", bold=True, err=True)
            results.append({"language": suite.folder, "skipped": str(reason)})
            exit_code = exit_code or CANNOT_RUN_EXIT
            continue
        results.append({"language": suite.folder, "passed": result.passed, "seconds": round(result.seconds, 2)})
        if result.output:
            write_lines(result.output.splitlines(), color="red", err=True)
            exit_code = 1
        mark = "WRONG" if result.output else "right"
        write_line(f"{mark}  {suite.folder}: {quantity(result.passed, 'test')} in {result.seconds:.1f} s", err=True)
    return exit_code
