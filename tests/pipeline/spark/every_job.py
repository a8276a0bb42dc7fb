"""A topic in a table, an aggregation and a history, by a session on any master:
`python -m tests.pipeline.spark.every_job ADDRESS MASTER FOLDER` prints what came out as JSON in its last line."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from coterie.pipeline import jobs
from coterie.pipeline.history.job import Sources, run_history

TOPIC = "t"


def every_job(spark: Any, address: str, out: Path) -> list[Any]:
    """The number of rows of the table, its checksum and number of distinct offsets, the rows of the aggregation, those of
    each table of the history."""
    rows = jobs.run_table(spark, jobs.JobSource(address, TOPIC, f"crew-{out.name}", member=True), out)
    table = spark.read.parquet(str(out / "table"))
    table = table.selectExpr("sum(crc32(value)) checksum", "count(distinct partition, offset) offsets")
    keys = jobs.run_aggregation(spark, jobs.KEYS, jobs.JobSource(address, TOPIC, f"keys-{out.name}"), out / "keys")
    counts = run_history(spark, Sources({"bootstrap.servers": address}), out / "history")
    return [rows, table.first().asDict(), keys, counts]


def main() -> None:
    from coterie.pipeline.session import make_session

    address, master, folder = sys.argv[1:]
    spark = make_session(master, scratch=Path(folder) / "scratch", short=True)
    try:
        print(json.dumps(every_job(spark, address, Path(folder))))
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
