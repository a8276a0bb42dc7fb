"""`coterie-conformance study`: points of the study of rebalancing, measured with real processes."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path

import click

from coterie.cli.lab.study import RESULTS, write_page, write_real
from coterie.console.terminal import write_line
from coterie.text.quantity import quantity


@click.command()
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("docs"),
    show_default=True,
    help="The folder of a study that `coterie lab study` wrote.",
)
@click.option(
    "--queues",
    "has_queues",
    is_flag=True,
    help="Instead: share groups beside the classic way, in virtual time, as a table.",
)
def study(out: Path, has_queues: bool) -> None:
    """Measure points of the study with real processes.

    One point of each protocol, beside the simulated: consumers in processes of their own, coterie's broker, a real ZooKeeper, a
    real RocketMQ. Writes OUT/results/study-real.json, and the page with it. Needs Java, and Maven for RocketMQ.
    """
    if has_queues:
        _write_queues()
        return
    from coterie_conformance.bench.measure import machine
    from coterie_conformance.study.points import measure

    if not (out / RESULTS).exists():
        raise click.ClickException(f"there is no study in {out} to put it beside; run `coterie lab study` first.")
    points = [asdict(point) for point in measure(lambda text: write_line(text, err=True))]
    document = {
        "command": "./run study",
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "machine": machine(),
        "points": points,
    }
    write_real(out, document)
    write_line(f"{quantity(len(points), 'point')}; the page is {write_page(out)}")


def _write_queues() -> None:
    from coterie_conformance.share_stories.beside_classic import compared

    write_line("| change | protocol | median wait, s | longest wait, s | records late | done again |")
    write_line("|---|---|---:|---:|---:|---:|")
    for f in compared():
        waits = f"{f.median_s:.2f} | {f.longest_s:.1f}"
        write_line(f"| {f.change} | {f.protocol} | {waits} | {f.late} | {f.again} |")
