"""A batch of `__consumer_offsets` that cannot be read: what is behind it is loaded, and no group of the partition is served
until an administrator accepts the loss. Apache Kafka 4.3.0 refuses every request for such a partition with NOT_COORDINATOR."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import google_crc32c
import pytest
from click.testing import CliRunner

from coterie.broker.broker import Broker
from coterie.broker.groups.lost_commits import SETTING
from coterie.broker.settings import BrokerSettings
from coterie.cli import main
from coterie.client import Consumer, GroupState
from coterie.client.admin.group_explanation import group_explanation
from coterie.coordinator.partitioning import partition_for
from coterie.records.batch import HEADER_BYTES, batches
from coterie.testing import simulate
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.groups.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from coterie.wire.messages.groups.explain_group import ExplainGroupRequest, ExplainGroupResponse
from coterie.wire.messages.groups.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from coterie.wire.messages.groups.list_groups import ListGroupsRequest, ListGroupsResponse
from coterie.wire.messages.groups.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic, OffsetFetchResponse
from coterie.wire.messages.settings.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from coterie.wire.messages.topics.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from coterie.wire.messages.transactions.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from coterie_conformance.fuzzing.disk import FaultyFileSystem
from tests.broker.connections.test_server import Client, run
from tests.broker.groups.raw_commits import commit
from tests.broker.storage import whole_folder
from tests.broker.storage.whole_folder import make_folder

NONE, NOT_COORDINATOR = ErrorCode.NONE, ErrorCode.NOT_COORDINATOR
PARTITIONS = 2
NAMES = [f"group-{n}" for n in range(40)]
HERE, ELSEWHERE = ([name for name in NAMES if partition_for(name, PARTITIONS) == index][:4] for index in (0, 1))
LOST = HERE[1]  # its commit is in the damaged batch
SETTINGS = {"offsets.topic.num.partitions": PARTITIONS, "transaction.state.log.num.partitions": 1}
BROKER = 4
Damage = Callable[[bytearray, int, int], None]


@asynccontextmanager
async def started(folder: Path, **settings: str) -> AsyncIterator[Client]:
    broker = Broker(
        BrokerSettings(SETTINGS | {name.replace("_", "."): value for name, value in settings.items()}), folder
    )
    host, port = await broker.start("127.0.0.1", 0)
    await broker.groups.loaded()
    client = Client(*await asyncio.open_connection(host, port))
    try:
        yield client
    finally:
        client.writer.close()
        await broker.stop()


async def committed(client: Client, group: str) -> int:
    """The offset, or an error."""
    request = OffsetFetchRequest(group, [OffsetFetchRequestTopic("t", [0])])
    response = await client.ask(request, OffsetFetchResponse, 5)
    return response.error_code if response.error_code else response.topics[0].partitions[0].committed_offset


async def accept(client: Client, value: str) -> None:
    resource = AlterConfigsResource(BROKER, "1", [AlterableConfig(SETTING, 0, value)])
    response = await client.ask(IncrementalAlterConfigsRequest([resource]), IncrementalAlterConfigsResponse, 1)
    assert response.responses[0].error_code == NONE, response.responses[0].error_message


async def write(folder: Path) -> None:
    """The groups of both partitions commit 10, 11, ... in turn, one batch each."""
    async with started(folder) as client:
        await client.ask(CreateTopicsRequest([CreatableTopic("t", 1, 1)]), CreateTopicsResponse, 4)
        for n, group in enumerate(HERE + ELSEWHERE):
            assert await commit(client, group, 10 + n) == NONE


def segment(folder: Path, topic: str = "__consumer_offsets") -> Path:
    return folder / f"{topic}-0" / f"{0:020}.log"


def change(path: Path, text: str, damage: Damage) -> int:
    """Damages the batch that holds the text; returns its base offset."""
    data = bytearray(path.read_bytes())
    at, header = next((p, h) for p, h in batches(bytes(data)) if text.encode() in data[p : p + h.size])
    damage(data, at, header.size)
    path.write_bytes(data)
    return header.base_offset


def with_its_checksum(data: bytearray, at: int, size: int) -> None:
    struct.pack_into(">I", data, at + 17, google_crc32c.value(bytes(data[at + 21 : at + size])))


def junk_records(data: bytearray, at: int, size: int) -> None:
    for position in range(at + HEADER_BYTES, at + size):
        data[position] ^= 0x5A
    with_its_checksum(data, at, size)


def unknown_compression(data: bytearray, at: int, size: int) -> None:
    data[at + 22] = 7
    with_its_checksum(data, at, size)


def junk_key(data: bytearray, at: int, size: int) -> None:
    """The length of the group's id in the key is another."""
    data[data.index(LOST.encode(), at) - 1] ^= 0x40
    with_its_checksum(data, at, size)


def wrong_checksum(data: bytearray, at: int, size: int) -> None:
    data[at + size - 12] ^= 0x41


@pytest.mark.parametrize(
    ("damage", "mark"),
    [
        (junk_records, "0@1"),
        (unknown_compression, "0@1"),
        (junk_key, "0@1"),
        (wrong_checksum, f"0@{0:020}.log.damaged-{{at}}"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
async def test_one_bad_batch(tmp_path: Path, damage: Damage, mark: str, caplog: pytest.LogCaptureFixture) -> None:
    await write(tmp_path)
    data = segment(tmp_path).read_bytes()
    at = next(p for p, h in batches(data) if LOST.encode() in data[p : p + h.size])
    assert change(segment(tmp_path), LOST, damage) == 1
    expected = mark.format(at=at)
    async with started(tmp_path) as client:
        await check_refused(client, f"{SETTING}={expected} ", caplog)
        await accept(client, expected)
        await check_served(client)
    async with started(tmp_path) as client:  # the loss stays accepted
        assert await commit(client, LOST, 77) == NONE
        assert [await committed(client, group) for group in HERE] == [10, 77, 12, 13]


async def test_why_a_group_is_not_served(tmp_path: Path) -> None:
    await write(tmp_path)
    assert change(segment(tmp_path), LOST, junk_records) == 1
    async with started(tmp_path) as client:
        response = await client.ask(ExplainGroupRequest(HERE[0]), ExplainGroupResponse, 0)
        assert response.error_code == NONE
        explanation = group_explanation(response.document)
        assert explanation.state == GroupState.UNKNOWN
        assert explanation.verdict.startswith(
            "__consumer_offsets-0 may have lost commits (the batch with offsets 1 to 1"
        )
        assert f"until the loss is accepted: set {SETTING}=0@1 for this broker" in explanation.verdict
        await accept(client, "0@1")
        response = await client.ask(ExplainGroupRequest(HERE[0]), ExplainGroupResponse, 0)
        assert group_explanation(response.document).state == GroupState.EMPTY


async def check_refused(client: Client, remedy: str, caplog: pytest.LogCaptureFixture) -> None:
    assert [await committed(client, group) for group in HERE] == [NOT_COORDINATOR] * 4
    assert [await commit(client, group, 99) for group in (*HERE, HERE[0])] == [NOT_COORDINATOR] * 5
    protocols = [JoinGroupRequestProtocol("range", b"")]
    join = JoinGroupRequest(HERE[0], 10_000, 10_000, "", None, "consumer", protocols)
    assert (await client.ask(join, JoinGroupResponse, 5)).error_code == NOT_COORDINATOR
    described = await client.ask(DescribeGroupsRequest([HERE[0]]), DescribeGroupsResponse, 5)
    assert described.groups[0].error_code == NOT_COORDINATOR
    assert [await committed(client, group) for group in ELSEWHERE] == [14, 15, 16, 17]
    listed = await client.ask(ListGroupsRequest(), ListGroupsResponse, 4)
    assert {g.group_id for g in listed.groups} == {*HERE, *ELSEWHERE} - {LOST}
    errors = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert [line for line in errors if "commits and members of groups that it held are missing" in line]
    assert [line for line in errors if remedy in line], errors


async def check_served(client: Client) -> None:
    assert [await committed(client, group) for group in HERE] == [10, -1, 12, 13]
    assert await commit(client, HERE[2], 66) == NONE
    assert await commit(client, HERE[2], 12) == NONE


async def test_a_loss_that_is_accepted_covers_no_later_one(tmp_path: Path) -> None:
    await write(tmp_path)
    change(segment(tmp_path), LOST, junk_records)
    async with started(tmp_path, coterie_offsets_losses_accepted="0@1") as client:
        await check_served(client)
    change(segment(tmp_path), HERE[3], junk_records)
    async with started(tmp_path, coterie_offsets_losses_accepted="0@1") as client:
        assert await committed(client, HERE[0]) == NOT_COORDINATOR
        await accept(client, "0@1,0@3")
        assert [await committed(client, group) for group in HERE] == [10, -1, 12, -1]


async def test_every_loss_may_be_accepted_beforehand(tmp_path: Path) -> None:
    await write(tmp_path)
    change(segment(tmp_path), LOST, junk_records)
    async with started(tmp_path, coterie_offsets_losses_accepted="*") as client:
        await check_served(client)


async def test_transactions_are_served_beside_a_state_that_cannot_be_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As Kafka's TransactionStateManager, which logs what it cannot load and goes on; it loses what is behind, too."""

    async def begin(client: Client, name: str) -> InitProducerIdResponse:
        response = await client.ask(InitProducerIdRequest(name, 60_000), InitProducerIdResponse, 4)
        assert response.error_code == NONE
        return response

    async with started(tmp_path) as client:
        before = {name: await begin(client, name) for name in ("one", "two", "three")}
    change(segment(tmp_path, "__transaction_state"), "two", junk_records)
    async with started(tmp_path) as client:
        after = {name: await begin(client, name) for name in ("one", "two", "three")}
    for name in ("one", "three"):
        assert (after[name].producer_id, after[name].producer_epoch) == (before[name].producer_id, 1)
    assert after["two"].producer_id not in {response.producer_id for response in before.values()}
    assert any("__transaction_state-0: the batch with offsets 1 to 1 cannot be read" in m for m in caplog.messages)


@pytest.mark.parametrize("orderly", [True, False])
def test_commits_of_which_no_bytes_are_left(orderly: bool) -> None:
    """The segment is emptied, or gone: the end of the log before is known from other files."""

    async def story(change: Callable[[FaultyFileSystem, str], None]) -> None:
        fs = await make_folder(orderly=orderly)
        change(fs, f"__consumer_offsets-0/{0:020}.log")
        async with whole_folder.started(fs) as (broker, client):
            assert await commit(client, "g1", 5) == NOT_COORDINATOR
            (loss,) = broker.groups._hosted[0].losses
            await accept(client, loss.mark)
            assert await commit(client, "g1", 5) == NONE

    run(lambda: story(lambda fs, path: fs.tear(path, 0)))
    run(lambda: story(FaultyFileSystem.lose))


def test_the_check_of_a_folder_reports_them(tmp_path: Path) -> None:
    run(lambda: write(tmp_path))
    change(segment(tmp_path), LOST, junk_records)
    result = CliRunner().invoke(main, ["log", "check", str(tmp_path)])
    assert result.exit_code == 1
    assert "__consumer_offsets-0: the batch with offsets 1 to 1 cannot be read" in result.output


@pytest.mark.parametrize("seed", range(6))
def test_a_power_cut_takes_what_was_not_synced_and_groups_are_served(seed: int) -> None:
    """The end of a log that had not been synced is no damage, at that start and at the next one, after a kill."""

    async def read(servers: str) -> None:
        settings = {"bootstrap.servers": servers, "group.id": "g", "auto.commit.interval.ms": 200}
        async with Consumer(settings) as consumer:
            consumer.subscribe(["t"])
            while True:
                await consumer.poll(1_000)

    with simulate(seed) as world:
        broker = world.broker({"group.initial.rebalance.delay.ms": "0"})
        broker.create_topic("t", 3)
        world.spawn("reader", read, broker.bootstrap_servers)
        for stop in (broker.kill, broker.power_cut, broker.kill, broker.power_cut):
            broker.until_stable("g", members=1)
            for n in range(10):
                broker.produce("t", b"%d" % n, partition=n % 3)
                world.advance(0.5)
            stop()
            world.advance(1)
            broker.restart()
        broker.until_stable("g", members=1)
