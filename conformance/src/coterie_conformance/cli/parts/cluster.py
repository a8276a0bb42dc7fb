"""What the parts `cluster`, `cluster-clients` and `histories` report: coterie's and Apache Kafka's brokers in one cluster,
groups of other people's clients while brokers die, and the anomalies of a history."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from coterie.console.terminal import write_line
from coterie.text.quantity import quantity
from coterie_conformance.cli.parts.options import Figures, PartOptions, write_check
from coterie_conformance.servers.skipped_markers import explanation

if TYPE_CHECKING:
    from coterie_conformance.cluster.judge import ClusterJudgement
    from coterie_conformance.cluster_clients.judge import KillsJudgement
    from coterie_conformance.cluster_clients.kills import KillsReport
    from coterie_conformance.histories.workload import JudgedHistory

CLUSTER_VERSION = "2.6.3"
# The names of `GROUP_PROGRAMS`, whose module needs an extra.
CLIENT_NAMES = ("confluent-kafka", "aiokafka", "kafka-python", "java")
SIDES = {"coterie": "coterie", "kafka": f"Kafka {CLUSTER_VERSION}"}
# A field of GroupOutage -> what it is.
MEASURES = {
    "coordinator_s": "without a coordinator",
    "after_expiry_s": "of it after the end of the broker's session",
    "records_s": "until each partition has a record again",
}
SLOWEST = "the slowest group of each kill"
WRONG_SHOWN = 10
ANOMALIES_SHOWN = 10


def cluster_part(options: PartOptions) -> Figures:
    """All its checks. Raises CannotRun."""
    from coterie_conformance.cluster.judge import judge

    judgement = judge(options.folder / "cluster", options.strikes, options.seed, write_check)
    wrong = sum(map(bool, judgement.checks.values()))
    return {"cluster": _cluster_figures(judgement), "failed": wrong}


def _cluster_figures(judgement: ClusterJudgement) -> Figures:
    figures: Figures = {"checks": {name: not wrong for name, wrong in judgement.checks.items()}}
    strikes, migration = judgement.strikes, judgement.migration
    if strikes is not None:
        counts = {"operations": strikes.operations, "sent": strikes.sent, "read": strikes.read}
        figures["strikes"] = {**counts, "by_role": strikes.strikes, "wrong": len(strikes.wrong)}
    if migration is not None:
        counts = {"sent": migration.sent, "transactions": migration.transactions, "read": migration.read}
        figures["migration"] = {**counts, "longest_s": migration.longest_s, "wrong": len(migration.wrong)}
    return figures


def cluster_sentences(figures: Figures) -> list[str]:
    """The lines about these figures."""
    of = figures["cluster"]
    lines = [
        f"  one cluster with coterie: {sum(of['checks'].values())} of {quantity(len(of['checks']), 'check')} right"
    ]
    if strikes := of.get("strikes"):
        sent, read = quantity(strikes["sent"], "record"), quantity(strikes["read"], "record")
        lines.append(f"    strikes: {sent} sent, {read} read, {strikes['wrong']} wrong")
        lines += [f"      {count} x {name}" for name, count in sorted(strikes["by_role"].items())]
    if migration := of.get("migration"):
        sent, read = quantity(migration["sent"], "record"), quantity(migration["read"], "record")
        transactions = quantity(migration["transactions"], "transaction")
        lines.append(
            f"    from Kafka to coterie and back: {sent} sent, {transactions} committed, {read} read; the longest time"
        )
        lines.append("    without a record of a partition:")
        lines += [f"      {seconds:5.1f} s while {phase}" for phase, seconds in migration["longest_s"].items()]
    return lines


def cluster_clients_part(options: PartOptions) -> Figures:
    """Both sides, one after the other. Raises CannotRun."""
    from coterie_conformance.cluster_clients.judge import KillsOptions, judge

    kills = KillsOptions(options.minutes, options.seed, options.clients or CLIENT_NAMES, options.is_alone)
    judgement = judge(options.folder / "cluster-clients", kills, lambda line: write_line(f"       {line}", err=True))
    wrong = judgement.wrong()
    write_check("clients on coterie's brokers", "; ".join(wrong[:WRONG_SHOWN]))
    if judgement.theirs is not None:
        for name, texts in judgement.theirs.wrong.items():
            write_line(f"{SIDES['kafka']}, {name}: {'; '.join(texts[:WRONG_SHOWN])}", err=True)
    return {"cluster_clients": _kills_figures(judgement, len(wrong)), "failed": len(wrong)}


def _kills_figures(judgement: KillsJudgement, wrong: int) -> Figures:
    sides = {"coterie": judgement.ours} | ({} if judgement.theirs is None else {"kafka": judgement.theirs})
    slowest = zip(SIDES, judgement.slowest, strict=True)
    times = {measure: _by_client(measure, sides) for measure in MEASURES}
    times["coordinator_s"][SLOWEST] = {side: _seconds(one) for side, one in slowest if one is not None}
    return {"sides": {name: _side(report) for name, report in sides.items()}, "times": times, "wrong": wrong}


def _side(report: KillsReport) -> Figures:
    counts = {"kills": len(report.kills), "seconds": round(report.seconds), "sent": report.sent, "read": report.read}
    return counts | {"wrong": sum(map(len, report.wrong.values()))}


def _by_client(measure: str, sides: dict[str, KillsReport]) -> dict[str, Figures]:
    """Client -> side -> its figure."""
    from coterie_conformance.cluster_clients.outages import figure

    by_client: dict[str, Figures] = {}
    for side, report in sides.items():
        samples: dict[str, list[float]] = {}
        for row in report.outages:
            if (seconds := getattr(row, measure)) is not None:
                samples.setdefault(row.group, []).append(seconds)
        for client, sample in samples.items():
            by_client.setdefault(client, {})[side] = _seconds(figure(sample))
    return by_client


def _seconds(figure: Any) -> Figures:
    return {name: round(value, 2) for name, value in asdict(figure).items()}


def cluster_clients_sentences(figures: Figures) -> list[str]:
    """The lines about these figures."""
    of = figures["cluster_clients"]
    lines = [f"  clients on three brokers, of which one is killed again and again: {of['wrong']} wrong"]
    for name, side in of["sides"].items():
        kills = f"{quantity(side['kills'], 'kill')} in {side['seconds']} s"
        records = f"{quantity(side['sent'], 'record')} sent, {side['read']:,} read"
        lines.append(f"    {SIDES[name]}: {kills}, {records}, {side['wrong']} wrong")
    for measure, text in MEASURES.items():
        lines.append(f"    seconds {text}:")
        lines += [_row(client, by_side) for client, by_side in of["times"][measure].items()]
    return lines


def _row(client: str, by_side: Figures) -> str:
    """A client's figures side by side; ± is the notch, half the width of the interval around the median."""
    cells = [
        f"{SIDES[side]} {f['median']:.1f} ± {f['notch']:.1f}, worst {f['worst']:.1f} ({f['count']})"
        for side, f in by_side.items()
    ]
    ours, theirs = by_side.get("coterie"), by_side.get("kafka")
    ratio = f"; {ours['median'] / theirs['median']:.2f} x" if ours and theirs and theirs["median"] else ""
    return f"      {client:<30} {'; '.join(cells)}{ratio}"


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
