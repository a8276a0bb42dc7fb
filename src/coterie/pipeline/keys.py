"""Any topic: how many records each key has. DataFrame -> DataFrame."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# One row per key; records without a key count under null.
COUNTS = "key string, records bigint"


def counts(records: DataFrame) -> DataFrame:
    """The source's records -> COUNTS."""
    from pyspark.sql import functions as f

    return records.groupBy(f.col("key").cast("string").alias("key")).agg(f.count("*").alias("records"))


def added_up(partial: DataFrame) -> DataFrame:
    """COUNTS of several batches -> COUNTS of all of them."""
    from pyspark.sql import functions as f

    return partial.groupBy("key").agg(f.sum("records").alias("records"))
