"""What `compare --part histories` reports: the anomalies of a history, of coterie and of Apache Kafka."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from coterie.console.terminal import write_line
from coterie.text.quantity import quantity
from coterie_conformance.cli.parts.options import Figures, PartOptions
from coterie_conformance.servers.skipped_markers import explanation

if TYPE_CHECKING:
    from coterie_conformance.histories.workload import JudgedHistory

ANOMALIES_SHOWN = 10


def histories_part(options: PartOptions) -> Figures:
    """Only coterie's anomalies count as failed: Kafka's are what its version is known for."""
    from coterie_conformance.histories.workload import coterie_broker, judge, kafka_broker

    ours = judge(coterie_broker(options.folder / "histories" / "coterie"), options.seed)
    _report("coterie", ours)
    kafka = kafka_broker(options.version, options.folder / "histories" / "kafka")
    theirs = judge(kafka, options.seed)
    _report(f"Apache Kafka {options.version}", theirs)
    of_kafka = _figures(theirs) | {"skipped_markers": kafka.skipped_markers()}
    return {"histories": {"coterie": _figures(ours), "kafka": of_kafka}, "failed": len(ours.anomalies)}


def _report(broker: str, judged: JudgedHistory) -> None:
    write_line(f"{'WRONG' if judged.anomalies else 'right'}  a history of {broker}", err=True)
    for anomaly in judged.anomalies[:ANOMALIES_SHOWN]:
        write_line(f"  {anomaly}", color="red", err=True)


def _figures(judged: JudgedHistory) -> Figures:
    kinds = Counter(anomaly.kind.value for anomaly in judged.anomalies)
    counts = {"kills": judged.kills, "operations": judged.operations, "sent": judged.sent, "read": judged.read}
    return counts | {"anomalies": dict(kinds)}


def histories_sentences(figures: Figures) -> list[str]:
    """A line for each broker of `histories_part`'s figures."""
    lines = []
    for broker, counts in figures["histories"].items():
        seen = ", ".join(f"{kind}: {number}" for kind, number in counts["anomalies"].items()) or "no anomaly"
        sent, read = quantity(counts["sent"], "record"), quantity(counts["read"], "record")
        work = f"{sent} sent, {read} read, {quantity(counts['kills'], 'kill')}"
        why = explanation(counts.get("skipped_markers", 0)) if counts["anomalies"] else ""
        lines.append(f"  histories, {broker}: {work}: {seen}{'; ' if why else ''}{why}")
    return lines
