"""confluent-kafka (librdkafka): what its admin, producer and consumer return. `python -m ... HOST:PORT`."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)

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
WAIT_S = 20.0


def results(futures: Mapping[Any, Any]) -> dict[Any, Any]:
    """Of a dictionary of futures what each gave, or its error."""
    results: dict[Any, Any] = {}
    for key, future in futures.items():
        try:
            results[key] = future.result(WAIT_S)
        except Exception as error:
            results[key] = error
    return results


def settings_of(futures: Mapping[Any, Any]) -> dict[str, Any]:
    """Setting -> (value, source, whether it can be changed, synonyms)."""
    (entries,) = (future.result(WAIT_S) for future in futures.values())
    return {
        name: [e.value, e.source, e.is_read_only, e.is_default, e.is_sensitive, sorted(e.synonyms)]
        for name, e in entries.items()
    }


def topic_steps(admin: Any) -> None:
    """Topics and settings, valid and not."""
    new = [NewTopic(TOPIC, PARTITIONS, 1, config=EVERY_TOPIC_SETTING)]
    step("create a topic with every setting", lambda: results(admin.create_topics(new)))
    step("create it again", lambda: results(admin.create_topics(new)))
    wrong = [NewTopic("wrong", 1, 1, config={"retention.ms": "soon"})]
    step("create a topic with a wrong setting", lambda: results(admin.create_topics(wrong)))
    step("only validate", lambda: results(admin.create_topics([NewTopic("more", 1, 1)], validate_only=True)))
    step("list topics", lambda: topics_of(admin))
    topics = TopicCollection([TOPIC])
    step(
        "describe the topic with authorized operations",
        lambda: results(admin.describe_topics(topics, include_authorized_operations=True)),
    )
    step("describe its settings", lambda: settings_of(admin.describe_configs([resource()])))
    entries = [
        ConfigEntry("retention.ms", "7200000", incremental_operation=AlterConfigOpType.SET),
        ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SUBTRACT),
        ConfigEntry("flush.ms", "", incremental_operation=AlterConfigOpType.DELETE),
        ConfigEntry("leader.replication.throttled.replicas", "1:1", incremental_operation=AlterConfigOpType.APPEND),
    ]
    changes = resource(incremental_configs=entries)
    step("alter incrementally", lambda: results(admin.incremental_alter_configs([changes])))
    step("describe after that", lambda: until(lambda: settings_of(admin.describe_configs([resource()])), "7200000"))
    replaced = resource(set_config={"retention.ms": "600000"})
    step("alter the old way", lambda: results(admin.alter_configs([replaced])))
    step(
        "describe after the old way", lambda: until(lambda: settings_of(admin.describe_configs([resource()])), "600000")
    )
    step("the types of the broker's settings", lambda: broker_settings(admin))


def resource(**more: Any) -> Any:
    """The test's topic as a ConfigResource."""
    return ConfigResource(ConfigResource.Type.TOPIC, TOPIC, **more)


def topics_of(admin: Any) -> dict[str, int]:
    """The number of partitions of the test's topic, by name."""
    return {name: len(t.partitions) for name, t in admin.list_topics(timeout=WAIT_S).topics.items() if name == TOPIC}


def broker_settings(admin: Any) -> dict[str, Any]:
    """Three settings of the broker, which both sides have by default."""
    every = settings_of(admin.describe_configs([ConfigResource(ConfigResource.Type.BROKER, "1")]))
    return {name: every[name] for name in ("message.max.bytes", "log.retention.hours", "log.cleanup.policy")}


def record_steps(admin: Any, address: str) -> None:
    """Records produced, consumed in a group and committed; the group's offsets altered; records deleted."""
    delivered: list[Any] = []
    producer = Producer({"bootstrap.servers": address, "enable.idempotence": True})
    for n in range(RECORDS):
        producer.produce(
            TOPIC,
            b"v%d" % n,
            b"k%d" % n,
            n % PARTITIONS,
            lambda e, m: delivered.append([str(e), m.partition(), m.offset()]),
        )
    producer.flush(WAIT_S)
    step("produce", lambda: sorted(delivered))
    consumer = Consumer(
        {"bootstrap.servers": address, "group.id": GROUP, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    )
    consumer.subscribe([TOPIC])
    step("consume as a group", lambda: read(consumer))
    step("describe a group with authorized operations", lambda: described_group(admin))
    step("commit", lambda: offsets_in(consumer.commit(asynchronous=False)))
    everything = [TopicPartition(TOPIC, p) for p in range(PARTITIONS)]
    step("committed", lambda: offsets_in(consumer.committed(everything, WAIT_S)))
    step("watermarks", lambda: [consumer.get_watermark_offsets(tp, WAIT_S) for tp in everything])
    times = [TopicPartition(TOPIC, p, 1) for p in range(PARTITIONS)]
    step("offsets for times", lambda: offsets_in(consumer.offsets_for_times(times, WAIT_S)))
    consumer.close()
    step("list groups", lambda: listed_groups(admin))
    step("a group's offsets", lambda: group_offsets(admin))
    step("list offsets", lambda: listed_offsets(admin))
    step("delete records", lambda: deleted(admin, 2))
    step("delete too many records", lambda: deleted(admin, 99))
    step("alter a group's offset", lambda: altered_group(admin))
    step("a group's offsets after that", lambda: group_offsets(admin))


def offsets_in(partitions: Any) -> list[Any]:
    """[partition, offset, error] of each, sorted."""
    return sorted([tp.partition, tp.offset, str(tp.error)] for tp in partitions)


def read(consumer: Any) -> list[Any]:
    """[partition, offset, key, value] of the records that arrive within READ_S, sorted."""
    records: list[Any] = []
    end_s = time.monotonic() + READ_S
    while len(records) < RECORDS and time.monotonic() < end_s:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            records.append([message.partition(), message.offset(), message.key().decode(), message.value().decode()])
    return sorted(records)


def described_group(admin: Any) -> Any:
    """The group's description without what differs from run to run: member ids and hosts."""
    future = admin.describe_consumer_groups([GROUP], include_authorized_operations=True)[GROUP]
    group = future.result(WAIT_S)
    members = [sorted(tp.partition for tp in m.assignment.topic_partitions) for m in group.members]
    operations = sorted(operation.name for operation in group.authorized_operations)
    return [
        group.state.name,
        group.type.name,
        group.partition_assignor,
        group.is_simple_consumer_group,
        members,
        operations,
    ]


def listed_groups(admin: Any) -> list[Any]:
    """[group id, state, type, is simple] of each group, sorted."""
    listing = admin.list_consumer_groups().result(WAIT_S)
    return sorted([g.group_id, g.state.name, g.type.name, g.is_simple_consumer_group] for g in listing.valid)


def group_offsets(admin: Any) -> list[Any]:
    """The group's committed offsets, as `offsets_in` has them."""
    futures = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(GROUP)])
    return offsets_in(futures[GROUP].result(WAIT_S).topic_partitions)


def listed_offsets(admin: Any) -> list[Any]:
    """[partition, offset]: the first offset of partition 0, the end of partition 1."""
    wanted = {TopicPartition(TOPIC, 0): OffsetSpec.earliest(), TopicPartition(TOPIC, 1): OffsetSpec.latest()}
    return sorted([tp.partition, f.result(WAIT_S).offset] for tp, f in admin.list_offsets(wanted).items())


def deleted(admin: Any, offset: int) -> list[int]:
    """The new first offsets after the records of partition 0 below ``offset`` are deleted."""
    futures = admin.delete_records([TopicPartition(TOPIC, 0, offset)])
    return [future.result(WAIT_S).low_watermark for future in futures.values()]


def altered_group(admin: Any) -> str:
    """The id of the group, whose offset in partition 0 is then 3."""
    wanted = [ConsumerGroupTopicPartitions(GROUP, [TopicPartition(TOPIC, 0, 3)])]
    return str(admin.alter_consumer_group_offsets(wanted)[GROUP].result(WAIT_S).group_id)


def transaction_steps(address: str) -> None:
    """One committed and one aborted transaction, each with a record and an offset."""
    producer = Producer({"bootstrap.servers": address, "transactional.id": TRANSACTION})
    group = Consumer({"bootstrap.servers": address, "group.id": "transactional", "isolation.level": "read_committed"})
    step("init transactions", lambda: producer.init_transactions(WAIT_S))
    offsets = [TopicPartition(TOPIC, 0, 7)]
    for end in ("commit", "abort"):
        step(f"begin, to {end}", producer.begin_transaction)
        step(f"send, to {end}", lambda: sent(producer))
        step(
            f"send offsets, to {end}",
            lambda: producer.send_offsets_to_transaction(offsets, group.consumer_group_metadata(), WAIT_S),
        )
        step(f"{end} it", partial(getattr(producer, f"{end}_transaction"), WAIT_S))
    step("committed with the transaction", lambda: offsets_in(group.committed([TopicPartition(TOPIC, 0)], WAIT_S)))
    step(
        "the end for readers of committed records",
        lambda: group.get_watermark_offsets(TopicPartition(TOPIC, 1), WAIT_S),
    )
    group.close()


def sent(producer: Any) -> int:
    """Until the broker has it: what was not sent, an abort would drop."""
    producer.produce(TOPIC, b"in a transaction", b"t", 1)
    return int(producer.flush(WAIT_S))


def cluster_steps(admin: Any) -> None:
    """The cluster and its SCRAM users."""

    def cluster() -> Any:
        described = admin.describe_cluster(include_authorized_operations=True).result(WAIT_S)
        nodes = [node.id for node in described.nodes]
        return [nodes, described.controller.id, sorted(o.name for o in described.authorized_operations)]

    step("describe the cluster with authorized operations", cluster)
    step("scram users", lambda: admin.describe_user_scram_credentials().result(WAIT_S))


def ending_steps(admin: Any) -> None:
    """More and fewer partitions; group and topic deleted twice."""
    step("create partitions", lambda: results(admin.create_partitions([NewPartitions(TOPIC, PARTITIONS + 1)])))
    step("create fewer partitions", lambda: results(admin.create_partitions([NewPartitions(TOPIC, 1)])))
    step("delete the group", lambda: results(admin.delete_consumer_groups([GROUP])))
    step("delete a group that there is not", lambda: results(admin.delete_consumer_groups(["nobody"])))
    step("delete the topic", lambda: results(admin.delete_topics([TOPIC])))
    step("delete it again", lambda: results(admin.delete_topics([TOPIC])))


def main(address: str) -> None:
    """Runs every step against the broker; each prints its line."""
    admin = AdminClient({"bootstrap.servers": address})
    topic_steps(admin)
    record_steps(admin, address)
    transaction_steps(address)
    cluster_steps(admin)
    ending_steps(admin)


if __name__ == "__main__":
    main(sys.argv[1])
