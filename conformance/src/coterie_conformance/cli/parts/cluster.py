"""What `compare --part cluster` reports: coterie's and Apache Kafka's brokers in one cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.text.quantity import quantity
from coterie_conformance.cli.parts.options import Figures, PartOptions, write_check

if TYPE_CHECKING:
    from coterie_conformance.cluster.judge import ClusterJudgement

CLUSTER_VERSION = "2.6.3"


def cluster_part(options: PartOptions) -> Figures:
    """All its checks. Raises CannotRun."""
    from coterie_conformance.cluster.judge import judge

    judgement = judge(options.folder / "cluster", options.strikes, options.seed, write_check)
    wrong = sum(map(bool, judgement.checks.values()))
    return {"cluster": _figures(judgement), "failed": wrong}


def _figures(judgement: ClusterJudgement) -> Figures:
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
