"""Run by another Python, which has another Spark: what Spark's own Kafka connector reads, writes and streams, and how fast.

    python spark_connector.py ADDRESS FOLDER JARS RECORDS

Leaves Parquet under FOLDER for `spark.py` to compare, and prints its rows/s as JSON. Imports nothing of coterie.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

PARTITIONS, ROUNDS = 8, 3
BETWEEN = {"startingOffsets": '{"checked":{"0":5,"1":-2,"2":7}}', "endingOffsets": '{"checked":{"0":50,"1":9,"2":-1}}'}


def main(address: str, folder: str, jars: str, records: int) -> None:
    """Runs Spark's own connector on the broker: reads, writes and streams into ``folder``, and prints the seconds of a
    read of ``records`` records."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.jars", jars).config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    builder = builder.config("spark.driver.memory", "2g").config("spark.sql.session.timeZone", "UTC")
    spark = builder.config("spark.driver.extraClassPath", jars.replace(",", ":")).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")

    def read(topic: str, **more: str) -> Any:
        options = {"kafka.bootstrap.servers": address, "subscribe": topic, "startingOffsets": "earliest", **more}
        return spark.read.format("kafka").options(**options).load()

    read("checked", includeHeaders="true").write.parquet(f"{folder}/checked")
    read("checked", **BETWEEN).write.parquet(f"{folder}/between")
    read("exact", **{"kafka.isolation.level": "read_committed"}).write.parquet(f"{folder}/exact")
    rows = [(f"k{n}".encode(), f"v{n}".encode(), n % 2) for n in range(2000)]
    frame = spark.createDataFrame(rows, "key binary, value binary, partition int")
    frame.write.format("kafka").options(**{"kafka.bootstrap.servers": address, "topic": "written"}).save()
    for limit in ("2000", "100000"):  # the second goes on from the first one's checkpoint
        source = {"kafka.bootstrap.servers": address, "subscribe": "checked", "startingOffsets": "earliest"}
        target = {"kafka.bootstrap.servers": address, "topic": "streamed", "checkpointLocation": f"{folder}/checkpoint"}
        loaded = spark.readStream.format("kafka").options(maxOffsetsPerTrigger=limit, **source).load()
        writer = loaded.select("key", "value").writeStream.format("kafka").options(**target)
        writer.trigger(availableNow=True).start().awaitTermination(120)
    rates: dict[str, float] = {}
    for sink in ("noop", "parquet"):
        for _ in range(ROUNDS):
            writer = read("measured", minPartitions=str(PARTITIONS)).write.mode("overwrite").format(sink)
            started = time.perf_counter()
            writer.save() if sink == "noop" else writer.save(f"{folder}/measured")
            rates[sink] = max(rates.get(sink, 0), records / (time.perf_counter() - started))
    print(json.dumps(rates))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
