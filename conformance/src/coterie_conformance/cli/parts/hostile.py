"""What `compare --part hostile` reports: attacks on coterie, and on Apache Kafka where they make sense there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coterie.console.terminal import write_line
from coterie.text.quantity import quantity
from coterie_conformance.cli.parts.options import PartOptions
from coterie_conformance.servers.kafka import CannotRun

if TYPE_CHECKING:
    from coterie_conformance.hostile.run import AttackOutcome

KAFKA_VERSION = "3.9.1"
CANNOT_RUN_EXIT = 3
_HEADERS = ("ATTACK", "AMOUNT", "SECONDS", "WORST HEARTBEAT", "MEMORY", "DESCRIPTORS", "TRACEBACKS", "LOG", "ANSWERS")


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
