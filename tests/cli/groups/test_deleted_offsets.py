"""`coterie groups delete-offsets`, of a group of each kind."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from coterie.cli import main
from coterie.client.blocking import BlockingAdmin, BlockingConsumer
from coterie.client.connection.blocking_socket import BrokerSocket
from coterie.testing import LocalBroker
from coterie.wire.messages.share.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.broker.groups.streams_members import StreamsThread

ORDERS_0 = {"topic": "orders", "partition": 0, "offset": 1}


@pytest.fixture
def broker() -> Iterator[LocalBroker]:
    with LocalBroker() as local:
        local.create_topic("orders", 2)
        local.create_topic("other", 1)
        yield local


@pytest.fixture
def admin(broker: LocalBroker) -> Iterator[BlockingAdmin]:
    with BlockingAdmin(broker.client_settings()) as made:
        yield made


def run(broker: LocalBroker, line: str, code: int = 0) -> str:
    environment = {"COTERIE_BOOTSTRAP_SERVER": broker.bootstrap_servers, "COLUMNS": "200"}
    arguments = ["groups", "delete-offsets", *line.split()]
    result = CliRunner(env=environment).invoke(main, arguments, catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result.output


def test_offsets_of_a_group_without_members(broker: LocalBroker, admin: BlockingAdmin) -> None:
    admin.alter_consumer_group_offsets("crew", {("orders", 0): 1, ("other", 0): 0})
    assert json.loads(run(broker, "crew --topic orders --dry-run --json")) == [ORDERS_0]
    assert len(admin.list_consumer_group_offsets("crew")) == 2
    assert [line.split() for line in run(broker, "crew --topic orders").splitlines()] == [
        ["TOPIC", "PARTITION", "OFFSET"],
        ["orders", "0", "1"],
    ]
    assert admin.list_consumer_group_offsets("crew") == {("other", 0): 0}
    assert run(broker, "crew --topic orders") == "crew has no offsets in orders\n"


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_topic_that_a_member_reads(broker: LocalBroker, admin: BlockingAdmin, protocol: str) -> None:
    settings = {"group.id": "crew", "group.protocol": protocol}
    with BlockingConsumer(broker.client_settings() | settings) as member:
        member.subscribe(["orders"])
        while not member.assignment():
            member.poll(200)
        member.commit({("orders", 0): 1, ("other", 0): 0})
        shown = run(broker, "crew --topic orders --topic other", code=1)
        assert "GROUP_SUBSCRIBED_TO_TOPIC: " in shown
        assert json.loads(run(broker, "crew --topic orders --dry-run --json")) == [ORDERS_0]
        assert admin.list_consumer_group_offsets("crew") == {("orders", 0): 1}


def test_a_share_group(broker: LocalBroker, admin: BlockingAdmin) -> None:
    admin.alter_share_group_offsets("jobs", {("orders", 0): 1, ("other", 0): 0})
    assert json.loads(run(broker, "jobs --topic orders --dry-run --json")) == [ORDERS_0]
    assert len(admin.list_share_group_offsets("jobs")) == 2
    assert json.loads(run(broker, "jobs --topic orders --json")) == [ORDERS_0]
    assert admin.list_share_group_offsets("jobs").keys() == {("other", 0)}
    socket = BrokerSocket(broker.host, broker.port)
    assert not socket.request(ShareGroupHeartbeatRequest("jobs", "m", 0, subscribed_topic_names=["other"])).error_code
    assert "jobs has members; stop them first" in run(broker, "jobs --topic other", code=1)
    socket.close()
    assert admin.list_share_group_offsets("jobs").keys() == {("other", 0)}


def test_a_streams_group(broker: LocalBroker, admin: BlockingAdmin) -> None:
    broker.create_topic("lines", 2)
    socket = BrokerSocket(broker.host, broker.port)
    thread = StreamsThread(socket, "a", "process")
    assert not thread.beat().error_code
    assert thread.leave().error_code == 0
    admin.alter_consumer_group_offsets("app", {("lines", 0): 0, ("orders", 0): 1})
    assert json.loads(run(broker, "app --topic orders --json")) == [ORDERS_0]
    thread.epoch = 0
    assert not thread.beat().error_code
    assert "GROUP_SUBSCRIBED_TO_TOPIC" in run(broker, "app --topic lines", code=1)
    assert admin.list_consumer_group_offsets("app") == {("lines", 0): 0}
    socket.close()


def test_what_does_not_exist(broker: LocalBroker) -> None:
    assert "GROUP_ID_NOT_FOUND" in run(broker, "nobody --topic orders", code=1)
    assert "UNKNOWN_TOPIC_OR_PARTITION: topic none" in run(broker, "nobody --topic none", code=1)
