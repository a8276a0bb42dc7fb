"""The parts `acls`, `security` and `hostile`: who may do what, who logs in, and who attacks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coterie.console.terminal import write_line, write_lines
from coterie.text.quantity import quantity
from coterie_conformance.cli.parts.options import Figures, PartOptions, write_check
from coterie_conformance.servers.kafka import CannotRun

if TYPE_CHECKING:
    from coterie_conformance.hostile.run import AttackOutcome

ACL_VERSIONS = ("2.6.3", "4.3.0")  # the last AclAuthorizer that coterie's clusters live beside, and StandardAuthorizer
DIFFERENCES_SHOWN = 40
SECURITY_VERSIONS = ("3.9.1", "4.3.0")  # of Java's client
KAFKA_VERSION = "3.9.1"
CANNOT_RUN_EXIT = 3
_HEADERS = ("ATTACK", "AMOUNT", "SECONDS", "WORST HEARTBEAT", "MEMORY", "DESCRIPTORS", "TRACEBACKS", "LOG", "ANSWERS")


def acls_part(options: PartOptions) -> Figures:
    """Asks up to ``questions`` of the stories, in an order by the seed. Raises CannotRun."""
    from coterie_conformance.access.run import run_access
    from coterie_conformance.everything.report import scenario

    def progress(line: str) -> None:
        write_line(f"Kafka {options.version}: {line}", err=True)

    run = options.version, options.questions, options.seed, options.folder / "acls"
    verdict, checks = run_access(*run, progress)
    for name, holds in checks.items():
        write_check(f"ACLs in ZooKeeper: {name}", "" if holds else "it does not hold")
    for kind, examples in list(verdict.kinds.items())[:DIFFERENCES_SHOWN]:
        text = f"\n{verdict.met[kind]} x {scenario(examples[0])}\n  (story: {examples[0].story.name})"
        write_lines(text.split("\n"), color="red", err=True)
    figures = {
        "questions": verdict.requested,
        "stories": verdict.stories,
        "seconds": round(verdict.seconds),
        "apis": len({api for api, *_ in verdict.covered}),
        "rows": {name: count for (name, _), count in verdict.rows.items()},
        "differences": dict(verdict.met),
        "zookeeper": checks,
    }
    return {"acls": figures, "failed": len(verdict.kinds) + sum(not holds for holds in checks.values())}


def acls_sentences(figures: Figures) -> list[str]:
    """What was asked, and what differed."""
    f = figures["acls"]
    counts = f"{quantity(f['questions'], 'question')} in {quantity(f['stories'], 'story', 'stories')}, {f['seconds']} s"
    kinds = quantity(len(f["differences"]), "kind")
    return [f"  ACLs: {counts}, {quantity(f['apis'], 'API')}; {kinds} of unexplained difference"]


def security_part(options: PartOptions) -> Figures:
    """Java's client is that of the version."""
    from coterie_conformance.security.story import LoginCheck, check_logins
    from coterie_conformance.security.tokens import check_tokens

    def progress(check: LoginCheck) -> None:
        write_check(f"security, {check.client}, {check.case}", check.wrong)

    checks = check_logins(options.version, options.folder / "security", progress)
    checks += check_tokens(options.version, options.folder / "tokens", progress)
    named = {f"{check.client}, {check.case}": not check.wrong for check in checks}
    return {"security": named, "failed": sum(not right for right in named.values())}


def security_sentences(figures: Figures) -> list[str]:
    """The lines about the part's figures."""
    checks = figures["security"]
    return [f"  security: {sum(checks.values())} of {quantity(len(checks), 'login')} as they must be"]


def hostile_part(options: PartOptions, results: list[dict[str, Any]]) -> int:
    """Adds the outcomes to ``results``; the exit code that they call for: Kafka's outcomes count for nothing in it."""
    from coterie_conformance.hostile.run import as_figures, run_hostile, run_hostile_on_kafka

    folder, seed, as_json = options.folder / "hostile", options.seed, options.as_json
    ours = run_hostile(folder / "coterie", seed, _report)
    results.append({"hostile": "coterie", "attacks": as_figures(ours)})
    if not as_json:
        _show("coterie", ours)
    exit_code = 1 if any(outcome.wrong for outcome in ours) else 0
    if options.is_alone:
        return exit_code
    try:
        theirs = run_hostile_on_kafka(KAFKA_VERSION, folder / "kafka", seed, _report)
    except CannotRun as reason:
        write_line(
            f"SKIPPED hostile clients on Apache Kafka {KAFKA_VERSION}: {reason}", color="red", bold=True, err=True
        )
        results.append({"hostile": f"kafka {KAFKA_VERSION}", "skipped": str(reason)})
        return exit_code or CANNOT_RUN_EXIT
    results.append({"hostile": f"kafka {KAFKA_VERSION}", "attacks": as_figures(theirs)})
    if not as_json:
        _show(f"Apache Kafka {KAFKA_VERSION}", theirs)
    return exit_code


def _report(outcome: AttackOutcome) -> None:
    mark = f"WRONG  {outcome.attack}: {outcome.wrong}" if outcome.wrong else f"right  {outcome.attack}"
    write_line(f"{mark} ({outcome.seconds:.0f} s)", err=True)


def _show(broker: str, outcomes: list[AttackOutcome]) -> None:
    from coterie.cli.parts.invocation import show

    write_line(f"{broker}, {quantity(len(outcomes), 'attack')} beside a bystander:")
    rows = [
        (
            o.attack,
            f"{o.amount:,}",
            o.seconds,
            f"{o.worst_s:.3f} s",
            f"{o.memory_mb:.0f} MB" if o.memory_mb else "-",
            o.descriptors,
            o.tracebacks,
            quantity(o.log_bytes, "byte"),
            o.wrong or o.responded,
        )
        for o in outcomes
    ]
    show(None, False, _HEADERS, rows)
