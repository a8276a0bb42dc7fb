"""Asks a Spark source and sink what the cases of `spark_cases` give. Imports nothing of coterie: another Python, which has
another Spark, runs it for Spark's own connector.

    python spark_case_runner.py ADDRESS FOLDER JARS
"""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path
from typing import Any

PATIENCE_S = 60
LATE_MS = "4000"  # how long the connector waits for records that never come; its own default is two minutes


def run_case(spark: Any, source: str, address: str, case: dict[str, Any], out: str, folder: Path) -> dict[str, Any]:
    """{"rows": sorted rows, "batches": their numbers} or {"refused": the error's sentence}. ``out``: the topic that a write
    goes to, ``folder``: where a stream's checkpoint is."""
    options = {name: value.replace("{out}", out) for name, value in case["options"].items()}
    options["kafka.bootstrap.servers"] = address
    if source == "kafka":
        options = {"kafkaConsumer.pollTimeoutMs": LATE_MS, "fetchOffset.retryIntervalMs": "10", **options}
    run = {"batch": _batch, "stream": _stream, "write": _write}[case["use"]]
    try:
        return run(spark, source, options, case, out, folder)
    except Exception as error:
        return {"refused": str(error)}


def _rows(frame: Any) -> list[str]:
    return sorted(f"{r.topic}-{r.partition} {r.offset}" for r in frame.select("topic", "partition", "offset").collect())


def _batch(spark: Any, source: str, options: dict[str, str], *_: Any) -> dict[str, Any]:
    return {"rows": _rows(spark.read.format(source).options(**options).load()), "batches": []}


def _stream(
    spark: Any, source: str, options: dict[str, str], case: dict[str, Any], out: str, folder: Path
) -> dict[str, Any]:
    table = out.replace("-", "_")
    writer = spark.readStream.format(source).options(**options).load().writeStream.format("memory").queryName(table)
    query = writer.option("checkpointLocation", str(folder / out)).trigger(availableNow=True).start()
    try:
        if not query.awaitTermination(PATIENCE_S):
            return {"refused": f"the query was still reading after {PATIENCE_S} s"}
        batches = [p["numInputRows"] for p in query.recentProgress if p["numInputRows"]]
        return {"rows": _rows(spark.table(table)), "batches": batches}
    finally:
        query.stop()


def _write(
    spark: Any, source: str, options: dict[str, str], case: dict[str, Any], out: str, folder: Path
) -> dict[str, Any]:
    data = [tuple(out if cell == "{out}" else cell for cell in row) for row in case["data"]]
    frame = spark.createDataFrame(data, case["columns"])
    frame.write.format(source).mode(case["save_mode"]).options(**options).save()
    where = {"kafka.bootstrap.servers": options["kafka.bootstrap.servers"], "subscribe": out}
    rows = spark.read.format(source).options(**where).load().select("key", "value").collect()
    texts = [[None if cell is None else bytes(cell).decode() for cell in row] for row in rows]
    return {"rows": sorted(f"{key}={value}" for key, value in texts), "batches": []}


def main(address: str, folder: Path, jars: str) -> None:
    """FOLDER/cases.txt, a Python literal, in; FOLDER/connector.json out, the results in the cases' order."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.jars", jars).config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    builder = builder.config("spark.sql.shuffle.partitions", "2").config("spark.sql.session.timeZone", "UTC")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    spark = builder.config("spark.driver.extraClassPath", jars.replace(",", ":")).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    results = []
    for number, case in enumerate(ast.literal_eval((folder / "cases.txt").read_text())):
        results.append(run_case(spark, "kafka", address, case, f"cases-out-kafka-{number}", folder / "checkpoints"))
    (folder / "connector.json").write_text(json.dumps(results))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
