"""kafka-python, 2.3 and 3.0: what its admin, producer and consumer return. `python -m ... HOST:PORT`."""

from __future__ import annotations

import sys
import time
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewPartitions, NewTopic
from kafka.structs import OffsetAndMetadata

from coterie_conformance.clients.steps import (
    EVERY_TOPIC_SETTING,
    GROUP,
    PARTITIONS,
    RECORDS,
    TOPIC,
    TRANSACTION,
    step,
    until,
)

READ_S = 15.0
PREFERRED = 0  # kind of election


def by_either_name(admin: Any, new: str, old: str) -> Any:
    """A method that version 3 renamed."""
    return getattr(admin, new, None) or getattr(admin, old)


def topic_steps(admin: Any) -> None:
    """Topics and settings, valid and not; incremental changes where this version of the client has them."""
    new = [NewTopic(TOPIC, PARTITIONS, 1, topic_configs=EVERY_TOPIC_SETTING)]
    step("create a topic with every setting", lambda: admin.create_topics(new))
    step("create it again", lambda: admin.create_topics(new))
    wrong = [NewTopic("wrong", 1, 1, topic_configs={"retention.ms": "soon"})]
    step("create a topic with a wrong setting", lambda: admin.create_topics(wrong))
    step("list topics", admin.list_topics)
    step("describe the topic", lambda: admin.describe_topics([TOPIC]))
    resource = ConfigResource(ConfigResourceType.TOPIC, TOPIC)
    step("describe its settings", lambda: described(admin, resource))
    step("describe them with synonyms", lambda: described(admin, resource, include_synonyms=True))
    some = ConfigResource(ConfigResourceType.TOPIC, TOPIC, {"retention.ms": None, "min.insync.replicas": None})
    step("describe two settings", lambda: described(admin, some))
    altered = ConfigResource(ConfigResourceType.TOPIC, TOPIC, {"retention.ms": "7200000"})
    if hasattr(admin, "reset_configs"):
        step("alter incrementally", lambda: admin.alter_configs([altered], incremental=True))
        step("describe after that", lambda: until(lambda: described(admin, resource), "7200000"))
        append = ConfigResource(ConfigResourceType.TOPIC, TOPIC, {"cleanup.policy": ("SUBTRACT", "compact")})
        step("subtract from a list", lambda: admin.alter_configs([append], incremental=True))
        reset = ConfigResource(ConfigResourceType.TOPIC, TOPIC, {"flush.ms": None})
        step("reset one", lambda: admin.reset_configs([reset]))
        step("describe after both", lambda: until(lambda: described(admin, resource), "9223372036854775807"))
        step("list what has settings", lambda: admin.list_config_resources(["topic"]))
    old_way = {"incremental": False} if hasattr(admin, "reset_configs") else {}
    step("alter the old way", lambda: admin.alter_configs([altered], **old_way))
    step("describe after the old way", lambda: until(lambda: described(admin, resource), "7200000"))
    broker = ConfigResource(ConfigResourceType.BROKER, "1", {"message.max.bytes": None, "log.retention.hours": None})
    step("describe the broker's settings", lambda: described(admin, broker))


def described(admin: Any, resource: Any, **options: Any) -> Any:
    """The settings of a resource; of newer clients also those with Kafka's default."""
    if hasattr(admin, "reset_configs"):
        options["config_filter"] = "all"
    return admin.describe_configs([resource], **options)


def record_steps(admin: Any, address: str) -> None:
    """Records produced, consumed in a group and committed; the group's offsets; records deleted."""
    producer = KafkaProducer(bootstrap_servers=address, acks="all")
    futures = [producer.send(TOPIC, key=b"k%d" % n, value=b"v%d" % n, partition=n % PARTITIONS) for n in range(RECORDS)]
    producer.flush()
    step("produce", lambda: [(f.get(10).partition, f.get(10).offset) for f in futures])
    consumer = KafkaConsumer(
        TOPIC, bootstrap_servers=address, group_id=GROUP, auto_offset_reset="earliest", enable_auto_commit=False
    )
    step("consume as a group", lambda: read(consumer))
    step("describe a group with authorized operations", lambda: group_described(admin))
    step("commit", lambda: consumer.commit())
    step("committed", lambda: [consumer.committed(TopicPartition(TOPIC, p)) for p in range(PARTITIONS)])
    everything = [TopicPartition(TOPIC, p) for p in range(PARTITIONS)]
    step("beginning offsets", lambda: consumer.beginning_offsets(everything))
    step("end offsets", lambda: consumer.end_offsets(everything))
    step("offsets for times", lambda: consumer.offsets_for_times(dict.fromkeys(everything, 1)))
    consumer.close()
    step("list groups", by_either_name(admin, "list_groups", "list_consumer_groups"))
    specs: Any = {GROUP: everything} if hasattr(admin, "list_group_offsets") else GROUP
    step("a group's offsets", lambda: by_either_name(admin, "list_group_offsets", "list_consumer_group_offsets")(specs))
    step("delete records", lambda: admin.delete_records({TopicPartition(TOPIC, 0): 2}))
    step("delete too many records", lambda: admin.delete_records({TopicPartition(TOPIC, 0): 99}))
    if hasattr(admin, "list_partition_offsets"):
        step("list offsets", lambda: admin.list_partition_offsets(dict.fromkeys(everything, -2)))
        step("delete a group's offset", lambda: admin.delete_group_offsets(GROUP, everything[:1]))
        step(
            "alter a group's offset",
            lambda: admin.alter_group_offsets(GROUP, {everything[1]: OffsetAndMetadata(3, "", -1)}),
        )


def group_described(admin: Any) -> Any:
    """The group with its authorized operations."""
    describe = by_either_name(admin, "describe_groups", "describe_consumer_groups")
    return describe([GROUP], include_authorized_operations=True)


def read(consumer: Any) -> list[Any]:
    """(partition, offset, key, value) of the records that arrive within READ_S, sorted."""
    records: list[Any] = []
    end_s = time.monotonic() + READ_S
    while len(records) < RECORDS and time.monotonic() < end_s:
        for polled in consumer.poll(timeout_ms=500).values():
            records += [(r.partition, r.offset, r.key, r.value) for r in polled]
    return sorted(records)


def transaction_steps(admin: Any, address: str) -> None:
    """One committed and one aborted transaction, each listed and described while it is open, where the client can."""
    producer = KafkaProducer(bootstrap_servers=address, transactional_id=TRANSACTION)
    step("init transactions", producer.init_transactions)
    offsets = {TopicPartition(TOPIC, 0): OffsetAndMetadata(7, "", -1)}
    for end in ("commit", "abort"):
        step(f"begin, to {end}", producer.begin_transaction)
        step(
            f"send, to {end}",
            lambda: producer.send(TOPIC, key=b"t", value=b"in a transaction", partition=1).get(10).offset,
        )
        step(f"send offsets, to {end}", lambda: producer.send_offsets_to_transaction(offsets, "transactional"))
        if hasattr(admin, "list_transactions"):
            step(f"list transactions, to {end}", admin.list_transactions)
            step(f"describe the transaction, to {end}", lambda: admin.describe_transactions([TRANSACTION]))
            step(f"describe producers, to {end}", lambda: admin.describe_producers([TopicPartition(TOPIC, 1)]))
        step(f"{end} it", getattr(producer, f"{end}_transaction"))
    producer.close()
    if hasattr(admin, "list_transactions"):
        step("list transactions at the end", lambda: until(admin.list_transactions, "COMPLETE_ABORT"))
        step("transactions that hang", admin.find_hanging_transactions)


def cluster_steps(admin: Any) -> None:
    """The cluster, its log dirs and features."""
    step("describe the cluster", admin.describe_cluster)
    step("log dirs", admin.describe_log_dirs)
    if hasattr(admin, "describe_features"):
        step("features", admin.describe_features)
        step("reassignments", admin.list_partition_reassignments)
        step("topic partitions", lambda: admin.describe_topic_partitions([TOPIC]))
        step("scram users", admin.describe_user_scram_credentials)
        step("elect leaders", lambda: elected(admin))


def elected(admin: Any) -> list[Any]:
    """(partition, error code), without the sentences."""
    response = admin.elect_leaders(PREFERRED, {TOPIC: [0]}, raise_errors=False)
    return [(p.partition_id, p.error_code) for t in response.replica_election_results for p in t.partition_result]


def ending_steps(admin: Any) -> None:
    """More and fewer partitions; group and topic deleted twice."""
    step("create partitions", lambda: admin.create_partitions({TOPIC: NewPartitions(PARTITIONS + 1)}))
    step("create fewer partitions", lambda: admin.create_partitions({TOPIC: NewPartitions(1)}))
    step("delete the group", lambda: by_either_name(admin, "delete_groups", "delete_consumer_groups")([GROUP]))
    step(
        "delete a group that there is not",
        lambda: by_either_name(admin, "delete_groups", "delete_consumer_groups")(["nobody"]),
    )
    step("delete the topic", lambda: admin.delete_topics([TOPIC]))
    step("delete it again", lambda: admin.delete_topics([TOPIC]))


def main(address: str) -> None:
    """Runs every step against the broker; each prints its line."""
    admin = KafkaAdminClient(bootstrap_servers=address)
    topic_steps(admin)
    record_steps(admin, address)
    transaction_steps(admin, address)
    cluster_steps(admin)
    ending_steps(admin)
    admin.close()


if __name__ == "__main__":
    main(sys.argv[1])
