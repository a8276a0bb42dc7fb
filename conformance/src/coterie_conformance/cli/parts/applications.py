"""What `compare --part applications` reports: Kafka Streams and Kafka Connect on coterie and on Apache Kafka."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.console.terminal import write_line
from coterie.text.quantity import quantity
from coterie_conformance.cli.parts.options import Figures, PartOptions
from coterie_conformance.servers.skipped_markers import explanation

if TYPE_CHECKING:
    from coterie_conformance.applications.verdict import ApplicationVerdict

LINES_SHOWN = 10


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
