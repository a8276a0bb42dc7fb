"""`coterie-conformance bench --report`: cost as it grows, measured and written as a page."""

from __future__ import annotations

import json
import os
import tempfile
import time
from dataclasses import asdict
from functools import partial
from pathlib import Path

from coterie.broker.storage.disk import raise_open_file_limit
from coterie.console.terminal import write_line
from coterie_conformance.bench.beside import KAFKA
from coterie_conformance.bench.curves.growth import APACHE, growth
from coterie_conformance.bench.curves.page import CostPoint, markdown, pictures
from coterie_conformance.bench.measure import machine
from coterie_conformance.bench.measurement import SECONDS
from coterie_conformance.servers.kafka import CannotRun, jars
from coterie_conformance.servers.kfake import NAME as KFAKE
from coterie_conformance.servers.kfake import kfake_program

GROWTH = Path("results", "growth.json")
LARGEST, QUICK_LARGEST, QUICK_S = 10**6, 1_000, 0.5


def write_report(out: Path, quick: bool) -> None:
    """OUT/results/growth.json with every curve, and the page."""
    peers = []
    for peer, prepare in ((APACHE, partial(jars, KAFKA)), (KFAKE, kfake_program)):
        try:
            prepare()
            peers.append(peer)
        except CannotRun as reason:
            write_line(f"{peer} is left out: {reason}", color="red", bold=True, err=True)
    raise_open_file_limit()
    points, ends = [], []
    began = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="coterie-bench-") as folder:
        limits = (QUICK_LARGEST, QUICK_S) if quick else (LARGEST, SECONDS)
        for result in growth(Path(folder), *limits, peers):
            if isinstance(result, CostPoint):
                points.append(asdict(result))
                costs = ", ".join(f"{name} {value:,.4g}" for name, value in result.costs.items())
                write_line(f"{result.broker:16} {result.size:9,} {result.axis:12} {costs}")
            else:
                ends.append(asdict(result))
                write_line(f"{result.broker:16} {result.size:9,} {result.axis:12} ends: {result.reason}")
    head = {
        "command": f"./run bench --report{' --quick' if quick else ''}",
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "machine": machine(),
        "load": [round(load, 1) for load in (began, os.getloadavg()[0])],
    }
    (out / "results").mkdir(parents=True, exist_ok=True)
    (out / GROWTH).write_text(json.dumps(head | {"points": points, "ends": ends}, indent=1) + "\n")
    write_line(f"the page is {write_growth_page(out)}")


def write_growth_page(out: Path) -> Path:
    """OUT/performance.md and its pictures, from OUT/results/growth.json."""
    results = json.loads((out / GROWTH).read_text())
    (out / "performance").mkdir(exist_ok=True)
    for name, picture in pictures([CostPoint(**point) for point in results["points"]]).items():
        (out / "performance" / f"{name}.svg").write_text(picture + "\n")
    page = out / "performance.md"
    page.write_text(markdown(results, "performance"))
    return page
