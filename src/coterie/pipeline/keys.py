"""Any topic: how many records each key has. DataFrame -> DataFrame."""

from __future__ import annotations

from typing import Any

# One row per key; records without a key count under null.
COUNTS = "key string, records bigint"


def counts(records: Any) -> Any:
    """The source's records -> COUNTS."""
    from pyspark.sql import functions as f

    return records.groupBy(f.col("key").cast("string").alias("key")).agg(f.count("*").alias("records"))


def added_up(partial: Any) -> Any:
    """COUNTS of several batches -> COUNTS of all of them."""
    from pyspark.sql import functions as f

    return partial.groupBy("key").agg(f.sum("records").alias("records"))
