"""Our Spark source and sink beside Spark's own Kafka connector: the same rows, into and out of the same coterie broker, each in
a Spark of its own (the connector's as in `conformance.spark`), one after the other."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from coterie.text.addresses import format_address
from coterie_conformance.bench.loads import spark_load
from coterie_conformance.bench.loads.load import fill_topic
from coterie_conformance.bench.measurement import Measurement, broker
from coterie_conformance.spark.run import PEER_SPARK, connector_jars, peer_python, run_on

SOURCE_ROWS = 500_000


def spark_connector(folder: Path) -> Iterator[Measurement]:
    """Rows/s and ms of a micro-batch. Raises CannotRun."""
    python, jars = peer_python(), connector_jars()
    with broker(folder / "data") as (where, _):
        address = format_address(*where)
        for _columns, topic in spark_load.SINKS.values():
            fill_topic(address, topic, spark_load.PARTITIONS, 0)
        fill_topic(address, spark_load.MEASURED, spark_load.PARTITIONS, SOURCE_ROWS)
        fill_topic(address, spark_load.TINY, 2, 2 * spark_load.MICRO_BATCHES)
        fill_topic(address, spark_load.TINY_COPY, 2, 0)
        theirs, ours = (
            _figures(interpreter, source, address, folder / source, jars)
            for interpreter, source in ((python, "kafka"), (Path(sys.executable), "coterie"))
        )
    for name, value in ours.items():
        is_time = name.startswith("micro-batch")
        unit = "ms" if is_time else "rows/s"
        yield Measurement(name, value, unit, theirs[name], lower_is_better=is_time, peer=f"Spark {PEER_SPARK}")


def _figures(python: Path, source: str, address: str, folder: Path, jars: str) -> dict[str, float]:
    output = run_on(python, Path(spark_load.__file__), source, address, str(folder), jars)
    figures: dict[str, float] = json.loads(output.strip().splitlines()[-1])
    return figures
