"""The client on a broker that serves what Apache Kafka 0.11 or 2.2 serves: our broker, of whose versions the client sees
no more than those. The real ones are asked by `./run conformance --part cli`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from importlib import import_module
from pkgutil import walk_packages
from typing import Any

import pytest
from click.testing import CliRunner

from coterie.cli import main
from coterie.client import Admin, Consumer, KafkaError, Producer
from coterie.client.connection.handshake import FIRST_KAFKA, VersionTable
from coterie.client.types import ConsumerGroupMetadata
from coterie.testing import LocalBroker
from coterie.wire import messages
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.clients.api_versions import ApiVersionsResponse

# The newest version of each API in Kafka 0.11.0.3's own ApiVersions; those that are not here it does not have.
NEWEST_0_11 = dict(
    [(0, 3), (1, 5), (2, 2), (3, 4), (8, 3), (9, 3), (10, 1), (11, 2), (12, 1), (13, 1), (14, 1), (15, 1), (16, 1)]
    + [
        (18, 1),
        (19, 2),
        (20, 1),
        (21, 0),
        (22, 0),
        (23, 0),
        (24, 0),
        (25, 0),
        (26, 0),
        (27, 0),
        (28, 0),
        (32, 0),
        (33, 0),
    ]
)
Work = Callable[[dict[str, Any]], Awaitable[None]]


@pytest.fixture
def old(coterie_broker: LocalBroker, monkeypatch: pytest.MonkeyPatch) -> LocalBroker:
    before = VersionTable.__init__

    def see_less(table: VersionTable, response: ApiVersionsResponse) -> None:
        before(table, response)
        table._broker = {
            key: (first, min(last, NEWEST_0_11[key]))
            for key, (first, last) in table._broker.items()
            if key in NEWEST_0_11
        }

    monkeypatch.setattr(VersionTable, "__init__", see_less)
    return coterie_broker


def settings(broker: LocalBroker, **more: Any) -> dict[str, Any]:
    return {"bootstrap.servers": broker.bootstrap_servers} | {k.replace("_", "."): v for k, v in more.items()}


async def test_the_cluster_is_described_by_metadata(old: LocalBroker) -> None:
    async with Admin(settings(old)) as admin:
        cluster = await admin.describe_cluster()
        assert [f"{b.host}:{b.port}" for b in cluster.nodes] == [old.bootstrap_servers]
        assert cluster.controller == cluster.nodes[0]
        assert cluster.cluster_id


async def test_a_topic_without_a_number_of_partitions_takes_the_brokers_settings(old: LocalBroker) -> None:
    async with Admin(settings(old)) as admin:
        await admin.create_topic("t")
        assert len((await admin.describe_topics(["t"]))["t"].partitions) == 3
        await admin.create_topic("u", 2)
        assert len((await admin.describe_topics(["u"]))["u"].partitions) == 2


async def test_one_setting_is_altered_and_the_others_stay(old: LocalBroker) -> None:
    async with Admin(settings(old)) as admin:
        await admin.create_topic("t", 1, {"retention.ms": "1000", "segment.bytes": "2000000", "flush.ms": "5"})
        before = await admin.describe_configs("t")
        await admin.incremental_alter_configs("t", {"retention.ms": "2000", "flush.ms": None})
        after = await admin.describe_configs("t")
        assert {k for k in after if after[k] != before[k]} == {"retention.ms", "flush.ms"}
        assert (after["retention.ms"].value, after["segment.bytes"].value) == ("2000", "2000000")
        with pytest.raises(KafkaError) as refused:
            await admin.incremental_alter_configs("nothing", {"retention.ms": "2000"})
        assert refused.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_groups_are_listed_with_their_states_and_members_removed_one_by_one(old: LocalBroker) -> None:
    old.create_topic("t")
    async with Admin(settings(old)) as admin, Consumer(settings(old, group_id="g")) as consumer:
        consumer.subscribe(["t"])
        while not consumer.assignment():
            await consumer.poll(50)
        assert [(g.group_id, g.state) for g in await admin.list_groups()] == [("g", "Stable")]
        assert await admin.list_groups(["Empty"]) == []
        member = (await admin.describe_consumer_group("g")).members[0].member_id
        assert await admin.remove_members_from_consumer_group("g", [member, "nobody"]) == {
            member: ErrorCode.NONE,
            "nobody": ErrorCode.UNKNOWN_MEMBER_ID,
        }


async def _grow(given: dict[str, Any]) -> None:
    async with Admin(given) as admin:
        await admin.create_partitions("t", 2)


async def _elect(given: dict[str, Any]) -> None:
    async with Admin(given) as admin:
        await admin.elect_leaders([("t", 0)])


async def _reassignments(given: dict[str, Any]) -> None:
    async with Admin(given) as admin:
        await admin.list_partition_reassignments()


async def _delete_group(given: dict[str, Any]) -> None:
    async with Admin(given) as admin:
        await admin.delete_consumer_group("g")


async def _join_as_static_member(given: dict[str, Any]) -> None:
    async with Consumer(given | {"group.id": "g", "group.instance.id": "one"}) as consumer:
        consumer.subscribe(["t"])
        for _ in range(20):
            await consumer.poll(50)


async def _produce_zstd(given: dict[str, Any]) -> None:
    async with Producer(given | {"compression.type": "zstd"}) as producer:
        await (await producer.send("t", b"v"))


async def _commit_a_members_offsets_in_a_transaction(given: dict[str, Any]) -> None:
    async with Producer(given | {"transactional.id": "x"}) as producer:
        await producer.init_transactions()
        async with producer.transaction():
            await producer.send_offsets_to_transaction({("t", 0): 1}, ConsumerGroupMetadata("g", 1, "m"))


@pytest.mark.parametrize(
    ("work", "sentence"),
    [
        (_grow, "the broker does not serve CreatePartitions, which Apache Kafka has from 1.0 on"),
        (_elect, "the broker does not serve ElectLeaders, which Apache Kafka has from 2.2 on"),
        (_reassignments, "does not serve ListPartitionReassignments, which Apache Kafka has from 2.4 on"),
        (_delete_group, "the broker does not serve DeleteGroups, which Apache Kafka has from 1.1 on"),
        (_join_as_static_member, "group.instance.id needs JoinGroup version 5, which Apache Kafka has from 2.3 on"),
        (_produce_zstd, "zstd needs Produce version 7, which Apache Kafka has from 2.1 on"),
        (_commit_a_members_offsets_in_a_transaction, "need TxnOffsetCommit version 3, which Apache Kafka has from 2.5"),
    ],
)
def test_what_the_broker_cannot_do_names_the_kafka_that_can(old: LocalBroker, work: Work, sentence: str) -> None:
    old.create_topic("t")
    with pytest.raises(KafkaError, match=sentence) as refused:
        asyncio.run(_within(work(settings(old))))
    assert refused.value.code in (ErrorCode.UNSUPPORTED_VERSION, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)


def test_a_reassignment_of_several_partitions_is_refused_in_one_sentence(old: LocalBroker) -> None:
    old.create_topic("t", 2)
    line = ["topics", "reassign", "t", "--brokers", "0", "-b", old.bootstrap_servers]
    result = CliRunner().invoke(main, line)
    assert result.exit_code == 1
    api = "the broker does not serve AlterPartitionReassignments, which Apache Kafka has from 2.4 on"
    assert result.output == f"Error: UNSUPPORTED_VERSION: {api}\n"


def test_every_api_that_kafka_011_lacks_is_in_the_history() -> None:
    """Its keys end with AlterConfigs, 33; those of coterie itself begin at 30000."""
    newer = {
        getattr(request, "api_key", 0): request.__name__
        for module in walk_packages(messages.__path__, f"{messages.__name__}.")
        for request in vars(import_module(module.name)).values()
        if isinstance(request, type)
        and request.__name__.endswith("Request")
        and 33 < getattr(request, "api_key", 0) < 30_000
    }
    assert newer.keys() == FIRST_KAFKA.keys(), newer


async def _within(work: Awaitable[None]) -> None:
    async with asyncio.timeout(20):
        await work


def test_read_committed_goes_on_without_knowing_pending_offsets(old: LocalBroker) -> None:
    """As Apache Kafka's consumer: OffsetFetch version 7 (Kafka 2.5) tells which offsets are pending."""

    async def story() -> None:
        old.create_topic("t")
        old.produce("t", b"v")
        given = settings(old, group_id="g", isolation_level="read_committed", auto_offset_reset="earliest")
        async with Consumer(given) as consumer:
            consumer.subscribe(["t"])
            while not await consumer.poll(100):
                pass

    asyncio.run(_within(story()))
