"""Flights into delays per carrier and hour. Every function is DataFrame -> DataFrame; the schemas stand here, once."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# What the demo's producer writes as JSON; delays in minutes, null when a flight was cancelled.
FLIGHT = "carrier string, flight int, tailnum string, origin string, dest string, time_hour string, dep_delay double"

# One row per carrier and hour; dep_delay_sum in minutes over the flights that departed.
DELAYS = "carrier string, hour timestamp, flights bigint, departed bigint, dep_delay_sum double"


def flights(records: DataFrame) -> DataFrame:
    """The source's records -> flights, with the record's topic, partition and offset."""
    from pyspark.sql import functions as f

    parsed = f.from_json(f.col("value").cast("string"), FLIGHT)
    return records.select(parsed.alias("flight"), "topic", "partition", "offset").select(
        "flight.*", "topic", "partition", "offset"
    )


def delays(rows: DataFrame) -> DataFrame:
    """Flights -> DELAYS."""
    from pyspark.sql import functions as f

    hour = f.date_trunc("hour", f.to_timestamp("time_hour"))
    return rows.groupBy("carrier", hour.alias("hour")).agg(
        f.count("*").alias("flights"),
        f.count("dep_delay").alias("departed"),
        f.coalesce(f.sum("dep_delay"), f.lit(0.0)).alias("dep_delay_sum"),
    )


def added_up(partial: DataFrame) -> DataFrame:
    """DELAYS of several batches -> DELAYS of all of them."""
    from pyspark.sql import functions as f

    return partial.groupBy("carrier", "hour").agg(
        f.sum("flights").alias("flights"),
        f.sum("departed").alias("departed"),
        f.sum("dep_delay_sum").alias("dep_delay_sum"),
    )
