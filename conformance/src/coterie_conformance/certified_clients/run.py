"""Each client through each story of its roles; a wrong one is run a second time, by itself, since a machine with much other
work makes stories wrong that are right otherwise."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from coterie.certify.client.roles import STORIES, run_stories
from coterie.certify.client.stage import NOT_MET, WRONG, ClientOutcome, ClientUnderTest
from coterie.certify.client.story import ClientStory
from coterie_conformance.certified_clients.defects import defect_of
from coterie_conformance.certified_clients.programs import CERTIFIED_PROGRAMS, CertifiedProgram
from coterie_conformance.servers.kafka import CannotRun

JOBS = 12  # stories at a time: they wait more than they work
PATIENCE_S = 30.0
Write = Callable[[str, str], None]


@dataclass(slots=True)
class CertifiedClient:
    """How a client did in a role. ``wrong``: a row for each finding of a story that was wrong twice; ``once``: the stories that
    were right when they ran again; ``not_met``: the stories whose fault met no request."""

    client: str
    role: str
    delivery: str
    stories: int = 0
    wrong: list[dict[str, Any]] = field(default_factory=list)
    once: list[str] = field(default_factory=list)
    not_met: list[str] = field(default_factory=list)
    seconds: float = 0.0
    skipped: str = ""

    def unexplained(self) -> list[dict[str, Any]]:
        """The findings that are no known defect of the client."""
        return [row for row in self.wrong if not row["defect"]]


def run_certified_clients(
    folder: Path,
    write: Write,
    programs: Sequence[CertifiedProgram] = CERTIFIED_PROGRAMS,
    stories: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """The rows of `CertifiedClient`; ``write(name, what is wrong)`` hears of each. ``stories``: all where it is empty."""
    logging.getLogger("coterie").setLevel(logging.CRITICAL)  # the brokers report what the stories do to them
    rows = []
    for program in programs:
        for role in program.roles:
            own = folder / f"{program.name}-{role}".replace(", ", "-").replace(" ", "-")
            own.mkdir(parents=True, exist_ok=True)
            chosen = [story for story in STORIES[role] if story.name in (stories or (story.name,))]
            row = _certified(program, role, own, chosen)
            write(f"{program.name}, {role}, {row.seconds:.0f} s", _sentence(row))
            rows.append(asdict(row))
    return rows


def _certified(program: CertifiedProgram, role: str, folder: Path, stories: Sequence[ClientStory]) -> CertifiedClient:
    began_s = time.monotonic()
    row = CertifiedClient(program.name, role, program.promise(role).value, len(stories))
    try:
        command = [*program.prepare(folder.parent / "classes"), role, *program.settings]
    except CannotRun as reason:
        row.skipped = str(reason)
        return row
    client = ClientUnderTest(command, folder, PATIENCE_S)
    outcomes = run_stories(stories, client, program.promise(role), JOBS)
    row.not_met = [outcome.story.name for outcome in outcomes if outcome.outcome == NOT_MET]
    doubtful = [outcome.story for outcome in outcomes if outcome.outcome == WRONG]
    for again in run_stories(doubtful, client, program.promise(role), max(1, JOBS // 2)):
        if again.outcome == WRONG:
            row.wrong += _findings(program, role, again)
        else:
            row.once.append(again.story.name)
    row.seconds = round(time.monotonic() - began_s, 1)
    return row


def _findings(program: CertifiedProgram, role: str, outcome: ClientOutcome) -> list[dict[str, Any]]:
    rows = []
    for finding in outcome.findings:
        defect = defect_of(program.name, role, outcome.story.name, finding.rule)
        reason = {"defect": defect.reason, "report": defect.report} if defect else {"defect": "", "report": ""}
        rows.append({"story": outcome.story.name, **asdict(finding), "at_s": round(finding.at_s, 1), **reason})
    return rows


def _sentence(row: CertifiedClient) -> str:
    if row.skipped:
        return row.skipped
    return "; ".join(
        f"{one['story']}: {one['rule']}: {one['text']} ({one['after']}; {one['journal']})" for one in row.unexplained()
    )
