"""Test a Spark job on a real topic: a DataFrame goes in as records, and the rows that come back are compared.

.venv/bin/python -m pytest examples/test_spark_job.py

Needs the extra `spark` and a Java runtime (or the extra `java`); no broker, no JAR.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col
from pyspark.testing import assertDataFrameEqual

from coterie.pipeline.session import make_session
from coterie.testing import LocalBroker

ORDERS = [("anna", 10), ("ben", 5), ("anna", 32)]
TOTALS = [("anna", 42), ("ben", 5)]


def totals(records: DataFrame) -> DataFrame:
    """The code under test: what each customer has ordered. The key of a record is the customer, the value the price."""
    orders = records.select(col("key").cast("string").alias("customer"), col("value").cast("string").cast("long"))
    return orders.groupBy("customer").sum("value").withColumnRenamed("sum(value)", "total")


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = make_session("local[2]", short=True)
    yield session
    session.stop()


@pytest.fixture
def topic(spark: SparkSession, coterie_broker: LocalBroker) -> dict[str, str]:
    """A topic made from a DataFrame; returns the options with which it is read."""
    coterie_broker.create_topic("orders", 3)
    orders = spark.createDataFrame(ORDERS, "key string, value string")
    address = {"kafka.bootstrap.servers": coterie_broker.bootstrap_servers}
    orders.write.format("coterie").mode("append").options(**address, topic="orders").save()
    return {**address, "subscribe": "orders", "startingOffsets": "earliest"}


def test_totals_of_a_batch(spark: SparkSession, topic: dict[str, str]) -> None:
    result = totals(spark.read.format("coterie").options(**topic).load())
    assertDataFrameEqual(result, spark.createDataFrame(TOTALS, "customer string, total long"))


def test_totals_of_a_stream_in_a_group(
    spark: SparkSession, topic: dict[str, str], coterie_broker: LocalBroker, tmp_path: Path
) -> None:
    records = spark.readStream.format("coterie").options(**topic, mode="group").option("kafka.group.id", "totals")
    query = (
        totals(records.load())
        .writeStream.format("memory")
        .queryName("totals")
        .outputMode("complete")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assertDataFrameEqual(spark.table("totals"), spark.createDataFrame(TOTALS, "customer string, total long"))
    assert sum(coterie_broker.lag("totals").values()) == 0
    assert sum(coterie_broker.committed("totals").values()) == len(ORDERS)
