"""What `compare --part predict` reports: rolling restarts on Apache Kafka beside their predictions."""

from __future__ import annotations

from coterie.console.terminal import write_line
from coterie.text.quantity import quantity
from coterie_conformance.cli.parts.options import Figures, PartOptions, write_check

NEAR_OF_TEN = 8  # set-ups whose prediction must be near


def predict_part(options: PartOptions) -> Figures:
    """Every set-up, predicted and measured."""
    from coterie_conformance.predict.deploys import deploy_on_kafka

    rows = deploy_on_kafka(options.version, options.folder / "predict", lambda text: write_line(text, err=True))
    for row in rows:
        predicted, measured = row.predicted.unowned_s, f"{row.mean_s:.1f} s unowned per partition"
        wrong = f"{predicted.mean:.1f} s ({predicted.lowest:.1f} to {predicted.highest:.1f}) were predicted"
        write_check(f"predict, {row.set_up.name}: {measured}", "" if row.is_near else wrong)
    table = [
        {
            "set_up": row.set_up.name,
            "predicted_s": row.predicted.unowned_s.mean,
            "predicted_lowest_s": row.predicted.unowned_s.lowest,
            "predicted_highest_s": row.predicted.unowned_s.highest,
            "measured_s": row.unowned_s,
            "predicted_rebalances": row.predicted.rebalances.mean,
            "measured_rebalances": row.rebalances,
            "predicted_duplicates": row.predicted.duplicates.mean,
            "predicted_lowest_duplicates": row.predicted.duplicates.lowest,
            "predicted_highest_duplicates": row.predicted.duplicates.highest,
            "measured_duplicates": row.duplicates,
            "near": row.is_near,
        }
        for row in rows
    ]
    far = sum(not row.is_near for row in rows)
    return {"predict": table, "failed": far if (len(rows) - far) * 10 < NEAR_OF_TEN * len(rows) else 0}


def predict_sentences(figures: Figures) -> list[str]:
    """The lines about the part's figures."""
    rows = figures["predict"]
    near = sum(row["near"] for row in rows)
    return [
        f"  predict: the unowned time of {near} of {quantity(len(rows), 'deploy')} within a fifth of the prediction"
    ]
