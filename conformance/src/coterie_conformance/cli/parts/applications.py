"""What `compare --part applications` reports: Kafka Streams and Kafka Connect on coterie and on Apache Kafka."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.console.terminal import write_line
from coterie.text.quantity import quantity
from coterie_conformance.cli.parts.options import Figures, PartOptions

if TYPE_CHECKING:
    from coterie_conformance.applications.verdict import ApplicationVerdict

LINES_SHOWN = 10


def applications_part(options: PartOptions) -> Figures:
    """Only what is wrong on coterie counts as failed: on Kafka it would be the application's."""
    from coterie_conformance.applications import connect, streams
    from coterie_conformance.histories.run import coterie_broker, kafka_broker

    figures, failed = {}, 0
    for name, application in (("Kafka Streams", streams), ("Kafka Connect", connect)):
        folder = options.folder / application.__name__.rpartition(".")[2]
        ours = application.judge(coterie_broker(folder / "coterie"), options.version, folder / "ours", options.seed)
        _report(f"{name} on coterie", ours)
        theirs = application.judge(
            kafka_broker(options.version, folder / "kafka"), options.version, folder / "theirs", options.seed
        )
        _report(f"{name} on Kafka {options.version}", theirs)
        figures[name] = {"coterie": _figures(ours), "kafka": _figures(theirs)}
        failed += len(ours.wrong)
    return {"applications": figures, "failed": failed}


def _report(name: str, verdict: ApplicationVerdict) -> None:
    write_line(f"{'WRONG' if verdict.wrong else 'right'}  {name}", err=True)
    for line in verdict.wrong[:LINES_SHOWN]:
        write_line(f"  {line}", color="red", err=True)


def _figures(verdict: ApplicationVerdict) -> Figures:
    return {"strikes": verdict.strikes, "sent": verdict.sent, "wrong": len(verdict.wrong)}


def applications_sentences(figures: Figures) -> list[str]:
    """A line for each application and broker of `applications_part`'s figures."""
    return [
        f"  {name}, {broker}: {quantity(f['sent'], 'line')}, {quantity(len(f['strikes']), 'kill')}, {f['wrong']} wrong"
        for name, brokers in figures["applications"].items()
        for broker, f in brokers.items()
    ]
