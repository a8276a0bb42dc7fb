"""The parts of `compare` that run whole programs: our own commands, scripts on other people's clients, share consumers,
Kafka Streams and Connect, and the control API's clients in other languages."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from coterie.console.terminal import write_line, write_lines
from coterie.text.addresses import format_address
from coterie.text.quantity import quantity
from coterie_conformance.cli.kept_lines import KeptLines, commit_of_source
from coterie_conformance.cli.parts.options import Figures, PartOptions, write_check
from coterie_conformance.servers.kafka import CannotRun
from coterie_conformance.servers.skipped_markers import explanation

if TYPE_CHECKING:
    from coterie_conformance.applications.strikes import ApplicationVerdict

CANNOT_RUN_EXIT = 3
# Topics without a number of partitions get more than one here, and a group of one member does not wait for others.
BROKER_SETTINGS = {"group.initial.rebalance.delay.ms": "0", "num.partitions": "2"}
LINES_SHOWN = 10


def commands_part(options: PartOptions) -> Figures:
    """Every command of ours that talks to a broker."""
    from coterie_conformance.servers.kafka import running
    from coterie_conformance.tools.our_commands import run_commands

    with running(options.version, options.folder / "cli", BROKER_SETTINGS) as (host, port):
        checks = run_commands(format_address(host, port), options.version, write_check)
    return {"commands": checks, "failed": sum(not right for right in checks.values())}


def commands_sentences(figures: Figures) -> list[str]:
    """The line of `commands_part`'s figures."""
    return [f"  our commands: {sum(figures['commands'].values())} of {len(figures['commands'])} right"]


def clients_part(options: PartOptions) -> Figures:
    """Other people's clients: what they return on this version of Apache Kafka and on coterie."""
    from coterie.testing import LocalBroker
    from coterie_conformance.clients.programs import PROGRAMS, run_client
    from coterie_conformance.servers.kafka import running

    settings = {"group.initial.rebalance.delay.ms": "0", "auto.create.topics.enable": "false", "num.partitions": "1"}
    ours_of_several = settings | ({"default.replication.factor": "1"} if options.brokers > 1 else {})
    counts: dict[str, dict[str, int]] = {}
    for number, program in enumerate(p for p in PROGRAMS if options.version in p.versions):
        folder = options.folder / f"clients-{number}"
        with (
            running(options.version, folder, settings) as (host, port),
            LocalBroker(ours_of_several, brokers=options.brokers) as ours,
        ):
            theirs = format_address(host, port)
            # A script connects to one address, and its client to the others.
            first = format_address(ours.host, ours.port)
            brokers = options.brokers
            counts[program.name] = run_client(program, options.version, theirs, first, write_check, brokers=brokers)
    return {"clients": counts, "failed": sum(count["wrong"] for count in counts.values())}


def clients_sentences(figures: Figures) -> list[str]:
    """A line for each client of `clients_part`'s figures."""
    return [
        f"  {name}: {quantity(c['steps'], 'step')}, {quantity(c['accepted'], 'accepted difference')}, {c['wrong']} unexplained"
        for name, c in figures["clients"].items()
    ]


def members_part(options: PartOptions) -> Figures:
    """Other people's clients as members of groups of the consumer protocol, and on the way to it and back, on coterie."""
    from coterie_conformance.members.stories import run_members

    results = run_members(options.folder / "members", write_check, options.brokers)
    return {"members": results, "failed": sum(not text for text in results.values())}


def members_sentences(figures: Figures) -> list[str]:
    """A line for each story of `members_part`'s figures."""
    return [f"  {name}: {text or 'WRONG'}" for name, text in figures["members"].items()]


def share_clients_part(options: PartOptions) -> Figures:
    """Every story with every client on both brokers, then Kafka's two tools."""
    from coterie_conformance.share_clients.run import run_share_clients

    checks = run_share_clients(options.version, options.folder / "share-clients", write_check, options.brokers)
    return {"share_clients": checks, "failed": sum(not right for right in checks.values())}


def share_clients_sentences(figures: Figures) -> list[str]:
    """The line of `share_clients_part`'s figures."""
    checks = figures["share_clients"]
    return [f"  share consumers: {sum(checks.values())} of {len(checks)} as Kafka's own on Apache Kafka"]


def certify_client_part(options: PartOptions, results: list[Figures]) -> int:
    """Other people's clients and ours through the stories of `coterie certify-client`; the exit code that this calls for."""
    from coterie_conformance.certified_clients.programs import CERTIFIED_PROGRAMS
    from coterie_conformance.certified_clients.run import run_certified_clients

    kept = None if options.results is None else KeptLines(options.results, {"of": "certify-client"})
    rows: list[Figures] = [] if kept is None else [line["row"] for line in kept.results]
    finished = {(row["client"], row["role"]) for row in rows}
    for client in run_certified_clients(options.folder / "certify-client", finished=finished):
        write_check(f"{client.client}, {client.role}, {client.seconds:.0f} s", client.sentence())
        rows.append(asdict(client))
        if kept is not None and not client.skipped:
            kept.add({"row": rows[-1], "commit": commit_of_source()})
    names = [program.name for program in CERTIFIED_PROGRAMS]
    rows.sort(key=lambda row: (names.index(row["client"]), row["role"]))
    results.append({"certify_client": rows})
    if not options.as_json:
        for row in (row for row in rows if not row["skipped"]):
            wrong = len({finding["story"] for finding in row["wrong"]})
            right = row["stories"] - wrong - len(row["not_met"])
            counts = f"{right} right, {wrong} wrong, {len(row['not_met'])} not met"
            write_line(f"  {row['client']}, {row['role']}: {quantity(row['stories'], 'story', 'stories')}: {counts}")
    if any(not finding["defect"] for row in rows for finding in row["wrong"]):
        return 1
    return CANNOT_RUN_EXIT if any(row["skipped"] for row in rows) else 0


def applications_part(options: PartOptions) -> Figures:
    """Only what is wrong on coterie counts as failed: on Kafka it would be the application's."""
    from coterie_conformance.applications.stories import APPLICATIONS
    from coterie_conformance.servers.kafka import KafkaBroker

    figures: Figures = {}
    failed = 0
    for application in APPLICATIONS:
        if not application.runs_with(options.version):
            continue
        figures[application.name] = of_one = {}
        for on, broker in application.brokers(options.version, options.folder / application.folder).items():
            folder = options.folder / application.folder / f"on-{on.replace(' ', '-')}"
            verdict = application.judge(broker, options.version, folder, options.seed)
            skipped = broker.skipped_markers() if isinstance(broker, KafkaBroker) else 0
            _report(f"{application.name} on {on}", verdict, explanation(skipped))
            of_one[on] = _figures(verdict) | {"skipped_markers": skipped}
            failed += 0 if on == "kafka" else len(verdict.wrong)
    return {"applications": figures, "failed": failed}


def _report(name: str, verdict: ApplicationVerdict, why: str = "") -> None:
    """``why``: what may explain that it is wrong."""
    write_line(f"{'WRONG' if verdict.wrong else 'right'}  {name}", err=True)
    for line in verdict.wrong[:LINES_SHOWN]:
        write_line(f"  {line}", color="red", err=True)
    if verdict.wrong and why:
        write_line(f"  {why}", err=True)


def _figures(verdict: ApplicationVerdict) -> Figures:
    return {"strikes": verdict.strikes, "sent": verdict.sent, "wrong": len(verdict.wrong)}


def applications_sentences(figures: Figures) -> list[str]:
    """A line for each application and broker of `applications_part`'s figures."""
    return [
        f"  {name}, {broker}: {quantity(f['sent'], 'line')}, {quantity(len(f['strikes']), 'kill')}, {f['wrong']} wrong"
        + _because(f)
        for name, brokers in figures["applications"].items()
        for broker, f in brokers.items()
    ]


def _because(figures: Figures) -> str:
    why = explanation(figures.get("skipped_markers", 0))
    return f"; {why}" if figures["wrong"] and why else ""


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
