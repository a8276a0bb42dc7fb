"""The owner of each partition over time, and the lifetimes of members. DataFrame -> DataFrame.

From the offsets alone: a generation begins when its assignment is stored. What a rebalance itself took is in `rebalances`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SHORT_LIFE_MS = 5 * 60 * 1000
FLAPPING_LIVES = 3


def _with_ordinals(generations: DataFrame) -> DataFrame:
    """Each stored state with its ordinal among its group's, and when the next one begins. Of a group that changed its protocol
    (KIP-848) the tombstone is not a state: the members go on in the next one, stored with it."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    in_order = Window.partitionBy("group").orderBy("log_offset")
    converted = f.col("deleted") & (f.lead("time_ms").over(in_order) == f.col("time_ms"))
    states = generations.withColumn("converted", f.coalesce(converted, f.lit(False))).where("not converted")
    return states.select(
        "group",
        "log_offset",
        "members",
        f.row_number().over(in_order).alias("ordinal"),
        f.lead("time_ms").over(in_order).alias("next_ms"),
    )


def _runs(rows: DataFrame, generations: DataFrame, keys: list[str], more: list[Any]) -> DataFrame:
    """Islands: stretches of neighbouring states in which the same keys occur, with when they begin and end."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    numbered = rows.join(_with_ordinals(generations), ["group", "log_offset"])
    island = f.col("ordinal") - f.row_number().over(Window.partitionBy(*keys).orderBy("ordinal"))
    ends = f.max(f.struct("ordinal", "next_ms")).alias("end")
    return (
        numbered.withColumn("island", island)
        .groupBy(*keys, "island")
        .agg(f.min("time_ms").alias("from_ms"), ends, *more)
        .withColumn("until_ms", f.col("end.next_ms"))
    )


def ownership(assignments: DataFrame, generations: DataFrame) -> DataFrame:
    """ASSIGNMENTS, GENERATIONS -> OWNERSHIP."""
    from pyspark.sql import functions as f

    keys = ["group", "topic", "partition", "member_id", "client_id"]
    more = [f.min("generation").alias("first_generation"), f.max("generation").alias("last_generation")]
    return _runs(assignments, generations, keys, more).select(
        *keys, "from_ms", "until_ms", "first_generation", "last_generation"
    )


def tenures(members: DataFrame, generations: DataFrame) -> DataFrame:
    """MEMBERS, GENERATIONS -> TENURES."""
    from pyspark.sql import functions as f

    keys = ["group", "member_id", "client_id", "client_host"]
    more = [f.count("*").cast("int").alias("generations"), f.max("group_instance_id").alias("group_instance_id")]
    return _runs(members, generations, keys, more).select(
        "group", "member_id", "group_instance_id", "client_id", "client_host", "from_ms", "until_ms", "generations"
    )


def flapping(tenures: DataFrame) -> DataFrame:
    """TENURES -> FLAPPING: clients of which three or more member ids lived shorter than five minutes."""
    from pyspark.sql import functions as f

    life = f.col("until_ms") - f.col("from_ms")
    return (
        tenures.groupBy("group", "client_id", "client_host")
        .agg(
            f.count("*").alias("lives"),
            f.coalesce(f.sum((life < SHORT_LIFE_MS).cast("long")), f.lit(0)).alias("short_lives"),
            f.median(life).alias("median_life_ms"),
            f.min("from_ms").alias("first_ms"),
            f.max(f.coalesce("until_ms", "from_ms")).alias("last_ms"),
        )
        .where(f.col("short_lives") >= FLAPPING_LIVES)
    )
