"""aiokafka: what its admin, producer and consumer return. `python -m ... HOST:PORT`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from coterie_conformance.clients.steps import EVERY_TOPIC_SETTING, GROUP, PARTITIONS, RECORDS, TOPIC, TRANSACTION, step

READ_S = 15.0
SETTLED_S = 2.0  # a change reaches the brokers of Apache Kafka a moment after its response


async def do(name: str, work: Awaitable[Any]) -> Any:
    """A step whose work is awaited."""
    try:
        result = await work
    except Exception as error:
        raised = error

        def again() -> Any:
            raise raised

        return step(name, again)
    return step(name, lambda: result)


async def topic_steps(admin: Any) -> None:
    """Topics and settings, valid and not."""
    new = [NewTopic(TOPIC, PARTITIONS, 1, topic_configs=EVERY_TOPIC_SETTING)]
    await do("create a topic with every setting", admin.create_topics(new))
    await do("create it again", admin.create_topics(new))
    wrong = [NewTopic("wrong", 1, 1, topic_configs={"retention.ms": "soon"})]
    await do("create a topic with a wrong setting", admin.create_topics(wrong))
    await do("list topics", admin.list_topics())
    await do("describe the topic", admin.describe_topics([TOPIC]))
    resource = ConfigResource(ConfigResourceType.TOPIC, TOPIC)
    await do("describe its settings", admin.describe_configs([resource]))
    await do("describe them with synonyms", admin.describe_configs([resource], include_synonyms=True))
    altered = ConfigResource(ConfigResourceType.TOPIC, TOPIC, {"retention.ms": "7200000"})
    await do("alter", admin.alter_configs([altered]))
    await asyncio.sleep(SETTLED_S)
    await do("describe after that", admin.describe_configs([resource]))
    broker = ConfigResource(ConfigResourceType.BROKER, "1", {"message.max.bytes": None, "log.retention.hours": None})
    await do("describe the broker's settings", admin.describe_configs([broker]))
    await do("describe the cluster", admin.describe_cluster())


async def record_steps(admin: Any, address: str) -> None:
    """Records produced, consumed in a group and committed; the group described."""
    async with AIOKafkaProducer(bootstrap_servers=address, acks="all", enable_idempotence=True) as producer:
        sent = [
            await producer.send_and_wait(TOPIC, key=b"k%d" % n, value=b"v%d" % n, partition=n % PARTITIONS)
            for n in range(RECORDS)
        ]
        step("produce", lambda: [(s.partition, s.offset) for s in sent])
    consumer = AIOKafkaConsumer(
        TOPIC, bootstrap_servers=address, group_id=GROUP, auto_offset_reset="earliest", enable_auto_commit=False
    )
    everything = [TopicPartition(TOPIC, p) for p in range(PARTITIONS)]
    async with consumer:
        await do("consume as a group", read(consumer))
        await do(
            "describe a group with authorized operations",
            admin.describe_consumer_groups([GROUP], include_authorized_operations=True),
        )
        await do("commit", consumer.commit())
        for partition in everything:
            await do(f"committed of {partition.partition}", consumer.committed(partition))
        await do("beginning offsets", consumer.beginning_offsets(everything))
        await do("end offsets", consumer.end_offsets(everything))
        await do("offsets for times", consumer.offsets_for_times(dict.fromkeys(everything, 1)))
    await do("list groups", admin.list_consumer_groups())
    await do("a group's offsets", admin.list_consumer_group_offsets(GROUP))
    await do("delete records", admin.delete_records({everything[0]: RecordsToDelete(2)}))
    await do("delete too many records", admin.delete_records({everything[0]: RecordsToDelete(99)}))


async def read(consumer: Any) -> list[Any]:
    """(partition, offset, key, value) of all records, sorted. Raises TimeoutError after READ_S."""
    records: list[Any] = []
    async with asyncio.timeout(READ_S):
        while len(records) < RECORDS:
            for polled in (await consumer.getmany(timeout_ms=500)).values():
                records += [(r.partition, r.offset, r.key, r.value) for r in polled]
    return sorted(records)


async def transaction_steps(address: str) -> None:
    """One committed and one aborted transaction, each with a record and an offset."""
    async with AIOKafkaProducer(bootstrap_servers=address, transactional_id=TRANSACTION) as producer:
        for end in ("commit", "abort"):
            await do(f"begin, to {end}", producer.begin_transaction())
            await do(f"send, to {end}", producer.send_and_wait(TOPIC, key=b"t", value=b"in a transaction", partition=1))
            offsets = {TopicPartition(TOPIC, 0): 7}
            await do(f"send offsets, to {end}", producer.send_offsets_to_transaction(offsets, "transactional"))
            await do(f"{end} it", getattr(producer, f"{end}_transaction")())
    settings = {"bootstrap_servers": address, "group_id": "transactional", "isolation_level": "read_committed"}
    async with AIOKafkaConsumer(**settings, enable_auto_commit=False) as consumer:
        await do("committed with the transaction", consumer.committed(TopicPartition(TOPIC, 0)))
        await do("the end for readers of committed records", consumer.end_offsets([TopicPartition(TOPIC, 1)]))


async def ending_steps(admin: Any) -> None:
    """More and fewer partitions; the topic deleted twice."""
    await do("create partitions", admin.create_partitions({TOPIC: NewPartitions(PARTITIONS + 1)}))
    await do("create fewer partitions", admin.create_partitions({TOPIC: NewPartitions(1)}))
    await do("delete the topic", admin.delete_topics([TOPIC]))
    await do("delete it again", admin.delete_topics([TOPIC]))


async def main(address: str) -> None:
    """Runs every step against the broker; each prints its line."""
    admin = AIOKafkaAdminClient(bootstrap_servers=address)
    await admin.start()
    try:
        await topic_steps(admin)
        await record_steps(admin, address)
        await transaction_steps(address)
        await ending_steps(admin)
    finally:
        await admin.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
