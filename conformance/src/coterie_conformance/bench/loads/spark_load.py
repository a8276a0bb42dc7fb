"""The load of `spark_connector`: rows written and read by a source and sink of Spark, and micro-batches of two rows. Imports
nothing of coterie for Spark's own connector: another Python, which has another Spark, runs it.

    python spark_load.py coterie|kafka ADDRESS FOLDER JARS

Prints {name: rows/s, or ms of a micro-batch} as JSON.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROWS, ROUNDS = 200_000, 5  # the first two rounds warm up the JVM and the workers
PARTITIONS = 4  # of each topic that is written to
MICRO_BATCHES, WARM_BATCHES = 80, 30
_BYTES = "cast(repeat('x', {}) as binary) as value"
_KEY = "cast(cast(id as string) as binary) as key"
_HEADERS = "array(named_struct('key', 'name', 'value', cast('v' as binary))) as headers"
# by name: what a row of a write is, and the topic
SINKS = {
    "Spark sink, 100-byte values": ((_BYTES.format(100),), "sunk-small"),
    "Spark sink, 100-byte values, key and header": ((_BYTES.format(100), _KEY, _HEADERS), "sunk-headers"),
    "Spark sink, 1-KiB values": ((_BYTES.format(1024),), "sunk-large"),
}
SOURCE = "Spark source, 100-byte values to noop"
MEASURED, TINY, TINY_COPY = "measured", "tiny", "tiny-copy"


def micro_batch(to: str) -> str:
    """The name of the figure of a stream to that sink, noop or a topic."""
    return f"micro-batch of two rows to {to}"


def _written(spark: Any, source: str, address: str) -> dict[str, float]:
    rates: dict[str, float] = {}
    for name, (columns, topic) in SINKS.items():
        frame = spark.range(0, ROWS, 1, PARTITIONS).selectExpr(*columns)
        options = {"kafka.bootstrap.servers": address, "topic": topic}
        if source == "kafka":
            options["includeHeaders"] = "true"
        rates[name] = ROWS / _median_s(frame.write.format(source).mode("append").options(**options).save)
    return rates


def _read(spark: Any, source: str, address: str) -> float:
    frame = spark.read.format(source).options(**{"kafka.bootstrap.servers": address, "subscribe": MEASURED}).load()
    return float(frame.count() / _median_s(frame.write.format("noop").mode("overwrite").save))


def _median_s(save: Callable[[], object]) -> float:
    """Over the rounds behind the first two."""
    seconds = []
    for _ in range(ROUNDS):
        began_s = time.perf_counter()
        save()
        seconds.append(time.perf_counter() - began_s)
    return statistics.median(seconds[2:])


def _micro_batch_ms(spark: Any, source: str, address: str, to: str, folder: Path) -> float:
    """The median of a trigger's time, over the batches of one query, one after the other."""
    server = {"kafka.bootstrap.servers": address}
    options = {"subscribe": TINY, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "2", **server}
    frame = spark.readStream.format(source).options(**options).load().select("key", "value")
    writer = frame.writeStream.option("checkpointLocation", str(folder / f"checkpoint-{to}"))
    writer = writer.format("noop") if to == "noop" else writer.format(source).options(topic=TINY_COPY, **server)
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    times_ms = [p["durationMs"]["triggerExecution"] for p in query.recentProgress if p["numInputRows"]]
    return float(statistics.median(times_ms[WARM_BATCHES:]))


def measured(spark: Any, source: str, address: str, folder: Path) -> dict[str, float]:
    """The figures by name; the topics are there, and MEASURED and TINY have records."""
    figures = _written(spark, source, address)
    figures[SOURCE] = _read(spark, source, address)
    for to in ("noop", "a topic"):
        figures[micro_batch(to)] = _micro_batch_ms(spark, source, address, to, folder)
    return figures


def main(source: str, address: str, folder: Path, jars: str) -> None:
    """Prints the figures of one source and sink, on a session of its own."""
    if source == "coterie":
        from coterie.pipeline.session import make_session

        spark = make_session("local[2]", "coterie-bench", folder / "spark")
    else:
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master("local[2]").config("spark.jars", jars).config("spark.ui.enabled", "false")
        builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
        builder = builder.config("spark.driver.memory", "2g").config("spark.ui.showConsoleProgress", "false")
        spark = builder.config("spark.driver.extraClassPath", jars.replace(",", ":")).getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
    figures = measured(spark, source, address, folder)
    spark.stop()
    print(json.dumps(figures))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4])
