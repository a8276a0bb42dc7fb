"""A Spark query that is a member of a consumer group: partitions move between it and ordinary consumers.

    .venv/bin/python examples/spark_group.py [HOST:PORT]

Needs the extra `spark` and a Java runtime (or the extra `java`).
"""

import asyncio
import sys
import tempfile
from pathlib import Path

from coterie.client import Admin, Producer
from coterie.pipeline.session import make_session

BOOTSTRAP_SERVERS = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092"


async def fill(count: int) -> None:
    address = {"bootstrap.servers": BOOTSTRAP_SERVERS}
    async with Admin(address) as admin:
        if "readings" not in await admin.describe_topics():
            await admin.create_topic("readings", 4)
    async with Producer(address) as producer:
        for n in range(count):
            await producer.send("readings", b"%d" % n, partition=n % 4)


async def lag() -> int:
    async with Admin({"bootstrap.servers": BOOTSTRAP_SERVERS}) as admin:
        return sum(end - committed for committed, end in (await admin.lag("sensors")).values())


asyncio.run(fill(1000))
out = Path(tempfile.mkdtemp(prefix="spark-group-"))
spark = make_session("local[2]", short=True)
readings = (
    spark.readStream.format("coterie")
    .option("kafka.bootstrap.servers", BOOTSTRAP_SERVERS)
    .option("kafka.group.id", "sensors")
    .option("mode", "group")  # join the group; without it the query only commits to the group
    .option("subscribe", "readings")
    .option("startingOffsets", "earliest")
    .load()
)
query = (
    readings.selectExpr("partition", "cast(value as string) as reading")
    .writeStream.format("parquet")
    .option("checkpointLocation", str(out / "checkpoint"))
    .trigger(availableNow=True)
    .start(str(out / "readings"))
)
query.awaitTermination()
print(f"{spark.read.parquet(str(out / 'readings')).count()} readings, lag {asyncio.run(lag())}")
spark.stop()
