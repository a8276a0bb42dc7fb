"""Run by another Python, which has another Spark: what Spark's own Kafka connector reports of each call that it is sent.

    python spark_login.py JARS

A call is a line of JSON, {"call": "list", "topic" or "group", "options": {...}}; its error, or nothing, is a line of
JSON on the standard output. Imports nothing of coterie.
"""

from __future__ import annotations

import json
import sys
from typing import Any

# Else it looks offsets up three times, ten seconds apart.
_ONCE = {"fetchOffset.numRetries": "1", "fetchOffset.retryIntervalMs": "10"}


def attempt(spark: Any, call: str, options: dict[str, str]) -> str:
    """The error of the call, "" for none; "list" reads the topic words and writes into it."""
    # The group of a read is asked of the broker only by the consumer that looks offsets up as Spark 3.0 did.
    spark.conf.set("spark.sql.streaming.kafka.useDeprecatedOffsetFetching", str(call == "group").lower())
    try:
        if call != "topic":
            spark.read.format("kafka").options(subscribe="words", **_ONCE, **options).load().collect()
        if call != "group":
            topic = "denied" if call == "topic" else "words"
            row = spark.range(1).selectExpr("cast('one' as binary) as value")
            row.write.format("kafka").options(topic=topic, **options).save()
    except Exception as error:
        return str(error)
    return ""


def main(jars: str) -> None:
    """Starts Spark and makes the calls of the standard input until its end."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[1]").config("spark.jars", jars).config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    spark = builder.config("spark.driver.extraClassPath", jars.replace(",", ":")).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    for line in sys.stdin:
        given = json.loads(line)
        print(json.dumps(attempt(spark, given["call"], given["options"])), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
