"""Each client through each story of its roles, by the command that its users have. A story with a finding that is no known
defect runs a second time, since a machine with much other work makes stories wrong that are right otherwise."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coterie.certify.client.stage import NOT_MET, WRONG
from coterie_conformance.certified_clients.defects import defect_of
from coterie_conformance.certified_clients.programs import CERTIFIED_PROGRAMS, CertifiedProgram
from coterie_conformance.servers.kafka import CannotRun

LANES = 2  # clients at a time, beside one of Java's
JOBS = 8  # stories of a client at a time: they wait more than they work
JVM_JOBS = 2 * (os.cpu_count() or 1)  # of a Java client, whose starts work
PATIENCE_S = 30.0


@dataclass(slots=True)
class CertifiedClient:
    """How a client did in a role. ``wrong``: a row for each finding that is a known defect or came twice; ``once``: the stories
    that were right when they ran again; ``not_met``: the stories whose fault met no request."""

    client: str
    role: str
    delivery: str
    stories: int = 0
    wrong: list[dict[str, Any]] = field(default_factory=list)
    once: list[str] = field(default_factory=list)
    not_met: list[str] = field(default_factory=list)
    seconds: float = 0.0
    skipped: str = ""

    def sentence(self) -> str:
        """What is wrong that is no known defect of the client; empty where nothing is."""
        unexplained = (one for one in self.wrong if not one["defect"])
        lines = (
            f"{one['story']}: {one['rule']}: {one['text']} ({one['after']}; {one['journal']})" for one in unexplained
        )
        return self.skipped or "; ".join(lines)


def run_certified_clients(
    folder: Path,
    programs: Sequence[CertifiedProgram] = CERTIFIED_PROGRAMS,
    stories: Sequence[str] = (),
    finished: Collection[tuple[str, str]] = (),
) -> Iterator[CertifiedClient]:
    """A row of each client and role as it is made, but for the ``finished`` ones. ``stories``: all where it is empty."""
    running = list[Future[CertifiedClient]]()
    with ThreadPoolExecutor(1) as jvms, ThreadPoolExecutor(LANES) as others:
        try:
            for program in programs:
                rows = [
                    CertifiedClient(program.name, role, program.promise(role).value)
                    for role in program.roles
                    if (program.name, role) not in finished
                ]
                try:
                    command = program.prepare(folder / "classes") if rows else []
                except CannotRun as reason:
                    for row in rows:
                        row.skipped = str(reason)
                        yield row
                    continue
                pool = jvms if program.is_jvm else others
                running += [pool.submit(_certify, program, row, command, stories) for row in rows]
            for run in as_completed(running):
                yield run.result()
        finally:
            for run in running:
                run.cancel()


def _certify(
    program: CertifiedProgram, row: CertifiedClient, command: Sequence[str], stories: Sequence[str]
) -> CertifiedClient:
    began_s = time.monotonic()
    jobs = JVM_JOBS if program.is_jvm else JOBS
    run = [*command, row.role, *program.settings]
    try:
        outcomes = _outcomes(row, run, stories, jobs)
        row.stories = len(outcomes)
        row.not_met = [outcome["story"] for outcome in outcomes if outcome["outcome"] == NOT_MET]
        doubtful = list[str]()
        for outcome in (one for one in outcomes if one["outcome"] == WRONG):
            findings = _findings(row, outcome)
            if all(finding["defect"] for finding in findings):
                row.wrong += findings
            else:
                doubtful.append(outcome["story"])
        for again in _outcomes(row, run, doubtful, max(1, jobs // 2)) if doubtful else ():
            row.wrong += _findings(row, again)
            if again["outcome"] != WRONG:
                row.once.append(again["story"])
    except CannotRun as reason:
        row.skipped = str(reason)
    row.seconds = round(time.monotonic() - began_s, 1)
    return row


def _outcomes(row: CertifiedClient, run: Sequence[str], stories: Sequence[str], jobs: int) -> list[dict[str, Any]]:
    """Of `coterie certify-client --json`. Raises CannotRun with its error."""
    options = ["--role", row.role, "--delivery", row.delivery, "--jobs", str(jobs), "--patience", f"{PATIENCE_S:g}"]
    options += [word for name in stories for word in ("--story", name)]
    # A process of its own: the brokers of several clients in one would wait for each other's turn.
    command = [sys.executable, "-m", "coterie", "certify-client", "--json", *options, "--", *run]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    if done.returncode not in (0, 1) or not done.stdout:
        raise CannotRun(f"exit code {done.returncode}: {done.stderr.strip()[-300:]}")
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def _findings(row: CertifiedClient, outcome: dict[str, Any]) -> list[dict[str, Any]]:
    rows = []
    for finding in outcome["findings"]:
        defect = defect_of(row.client, row.role, outcome["story"], finding["rule"])
        reason = {"defect": defect.reason, "report": defect.report} if defect else {"defect": "", "report": ""}
        rows.append({"story": outcome["story"], **finding, "at_s": round(finding["at_s"], 1), **reason})
    return rows
