"""The stories with each client on both brokers, and Kafka's two tools: the judge is Kafka's own client on Apache Kafka."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from coterie.text.addresses import format_address
from coterie_conformance.groups.differential import coterie_broker
from coterie_conformance.servers.kafka import CannotRun, java, running
from coterie_conformance.share_clients.programs import SHARE_PROGRAMS, ShareProgram
from coterie_conformance.share_clients.stage import SharerStage
from coterie_conformance.share_clients.stories import (
    BROKER_SETTINGS,
    DEAD_LETTERS_SINCE,
    NEED_DEAD_LETTERS,
    NEED_RENEWALS,
    STORIES,
    Outcome,
)
from coterie_conformance.tools.programs import output_of
from coterie_conformance.tools.table import TOOLS

RECORDS = 500
TOOL_LIMIT_S = 60.0


def run_share_clients(
    version: str, folder: Path, write: Callable[[str, str], None], brokers: int = 1
) -> dict[str, bool]:
    """Whether each client has the outcome of Kafka's own client on Apache Kafka, by story; ``write(name, what is wrong)`` hears
    of each. Raises CannotRun without Java."""
    right: dict[str, bool] = {}
    with (
        running(version, folder / "kafka", {**BROKER_SETTINGS, "group.share.enable": "true"}) as (host, port),
        coterie_broker(BROKER_SETTINGS, brokers=brokers) as ours,
    ):
        sides = {"Apache Kafka": format_address(host, port), "coterie": format_address(*ours)}
        for name, wrong in _checks(version, folder, sides):
            write(name, wrong)
            right[name] = not wrong
    return right


def _checks(version: str, folder: Path, sides: dict[str, str]) -> Iterator[tuple[str, str]]:
    wanted: dict[str, Outcome] = {}
    for program in SHARE_PROGRAMS:
        try:
            command = program.prepare(version, folder / "classes")
        except CannotRun as reason:
            yield f"{program.name}", str(reason)
            continue
        for side, address in sides.items():
            for name in STORIES:
                if name in NEED_RENEWALS and not program.renews:
                    continue
                if name in NEED_DEAD_LETTERS and version < DEAD_LETTERS_SINCE:
                    continue
                outcome, wrong = outcome_of(name, program, address, command, folder)
                if wrong or name not in wanted:
                    wanted.setdefault(name, outcome)
                else:
                    wrong = difference(wanted[name], outcome)
                yield f"{name}: {program.name} on {side}", wrong
    for tool, run in TOOL_RUNS.items():
        theirs, ours = (run(version, address, folder) for address in sides.values())
        yield tool, "" if theirs == ours else f"{theirs} on Apache Kafka, {ours} on coterie"


def outcome_of(name: str, program: ShareProgram, address: str, command: list[str], folder: Path) -> tuple[Outcome, str]:
    """Of one story with one client, and what went wrong."""
    folder.mkdir(parents=True, exist_ok=True)
    stage = SharerStage(address, command, folder, renews=program.renews)
    try:
        return STORIES[name](stage), ""
    except AssertionError as failure:
        return {}, str(failure)
    finally:
        stage.close()


def difference(theirs: Outcome, ours: Outcome) -> str:
    """The first part that is another one; empty where there is none."""
    for part, wanted in theirs.items():
        if ours.get(part) != wanted:
            return f"{part}: {wanted} with Java on Apache Kafka, {ours.get(part)}"
    return ""


# -- Kafka's tools -----------------------------------------------------------------------------------------------------


def console(version: str, address: str, folder: Path) -> list[str]:
    """What kafka-console-share-consumer prints of a topic."""
    stage = _with_records(address, folder)
    arguments = ("--max-messages", str(RECORDS), "--formatter-property", "print.delivery=true")
    return sorted(_printed(version, "kafka-console-share-consumer", stage, folder, *arguments).splitlines())


def performance(version: str, address: str, folder: Path) -> list[str]:
    """The records and MB that kafka-share-consumer-perf-test counts; not its times."""
    stage = _with_records(address, folder)
    out = _printed(version, "kafka-share-consumer-perf-test", stage, folder, "--num-records", str(RECORDS))
    return [", ".join(re.split(r",\s*", line)[2:6:3]) for line in out.splitlines() if line[:2] == "20"]


def _with_records(address: str, folder: Path) -> SharerStage:
    stage = SharerStage(address, [], folder, renews=False)
    stage.begin(partitions=2)
    for partition in (0, 1):
        stage.produce(*[f"record {n} of {partition}" for n in range(RECORDS // 2)], partition=partition)
    return stage


def _printed(version: str, tool: str, stage: SharerStage, folder: Path, *arguments: str) -> str:
    main = TOOLS[tool].main_class(version)
    common = ("--bootstrap-server", stage.address, "--topic", stage.topic, "--group", stage.group)
    exit_code, out = output_of(java(version, main, *common, *arguments), folder, TOOL_LIMIT_S)
    return out if not exit_code else f"{out}\nexit {exit_code}"


TOOL_RUNS: dict[str, Callable[[str, str, Path], list[str]]] = {
    "kafka-console-share-consumer": console,
    "kafka-share-consumer-perf-test": performance,
}
