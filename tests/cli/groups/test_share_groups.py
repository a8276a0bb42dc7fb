"""A share group in the commands of `groups` that are about partitions: its start offsets, and several members at one."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from coterie.cli import main
from coterie.client import Admin, KafkaError, SharePartitionOffset, TopicPartition
from coterie.client.blocking import BlockingAdmin
from coterie.client.connection.blocking_socket import BrokerSocket
from coterie.testing import LocalBroker
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.share.share_group_heartbeat import ShareGroupHeartbeatRequest


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with LocalBroker() as broker:
        broker.create_topic("orders", 2)
        socket = BrokerSocket(broker.host, broker.port)
        joined = socket.request(ShareGroupHeartbeatRequest("crew", "m", 0, subscribed_topic_names=["orders"]))
        deadline_s = time.monotonic() + 20
        while joined.assignment is None or not joined.assignment.topic_partitions:
            assert not joined.error_code
            assert time.monotonic() < deadline_s
            joined = socket.request(ShareGroupHeartbeatRequest("crew", "m", joined.member_epoch))
        yield broker.bootstrap_servers
        socket.close()


def run(servers: str, line: str, code: int = 0) -> str:
    environment = {"COTERIE_BOOTSTRAP_SERVER": servers, "COLUMNS": "200"}
    result = CliRunner(env=environment).invoke(main, ["groups", *line.split()], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result.output


def test_a_state_that_cannot_be_read_is_a_line_and_the_others_are_shown(
    servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def read(
        _: Admin, group_id: str, *, errors: dict[TopicPartition, KafkaError]
    ) -> dict[TopicPartition, SharePartitionOffset]:
        text = f"the state of {group_id} in orders-1 cannot be read"
        errors[TopicPartition("orders", 1)] = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, text)
        return {TopicPartition("orders", 0): SharePartitionOffset(0, 0, 0)}

    monkeypatch.setattr(Admin, "list_share_group_offsets", read)
    shown = run(servers, "describe crew", code=1)
    assert "the state of crew in orders-1 cannot be read" in shown
    documents = [
        json.JSONDecoder().raw_decode(run(servers, line, code=1))[0] for line in ("describe crew --json", "list --json")
    ]
    assert [(row["lag"], row.get("error")) for row in documents[0]["partitions"]] == [
        (0, None),
        (None, "COORDINATOR_NOT_AVAILABLE"),
    ]
    (row,) = documents[1]
    assert (row["members"], row["error"]) == (
        1,
        "COORDINATOR_NOT_AVAILABLE: the state of crew in orders-1 cannot be read",
    )


def test_a_name_without_a_group_is_reset_as_a_classic_one() -> None:
    with LocalBroker() as broker:
        broker.create_topic("orders", 2)
        broker.produce("orders", b"1", b"2", b"3", partition=0)
        servers = broker.bootstrap_servers
        begin = json.loads(run(servers, "reset jobs --topic orders --to 1 --json"))
        assert [(row["partition"], row["from"], row["to"]) for row in begin] == [(0, None, 1), (1, None, 0)]
        (row,) = json.loads(run(servers, "list --json"))
        assert (row["type"], row["lag"]) == ("Classic", 2)


def test_a_share_group_is_reset_to_records_that_it_had_acknowledged() -> None:
    with LocalBroker() as broker, BlockingAdmin(broker.client_settings()) as admin:
        broker.create_topic("orders", 2)
        broker.produce("orders", b"1", b"2", b"3", partition=0)
        servers = broker.bootstrap_servers
        admin.alter_share_group_offsets("jobs", {("orders", 0): 3})
        shown = json.loads(run(servers, "reset jobs --to earliest --dry-run --json"))
        assert shown == [{"topic": "orders", "partition": 0, "from": 3, "to": 0}]
        (row,) = json.loads(run(servers, "list --json"))
        assert (row["type"], row["lag"], row["lag_ms"]) == ("Share", 0, 0)
        assert json.loads(run(servers, "reset jobs --to earliest --json")) == shown
        document = json.loads(run(servers, "describe jobs --json"))
        (partition,) = document["partitions"]
        assert (partition["committed"], partition["end"], partition["lag"], document["lag"]) == (0, 3, 3, 3)
        lines = run(servers, "describe jobs").splitlines()
        assert lines[1].split() == ["TOPIC", "PARTITION", "START", "END", "LAG", "BEHIND", "OWNER", "HOST"]
        assert lines[-1].startswith("total lag: 3 (")


def test_a_share_group_with_members_is_not_reset(servers: str) -> None:
    assert "crew has members; stop them first" in run(servers, "reset crew --topic orders --to earliest", 1)


def test_every_member_of_a_partition_is_named(servers: str) -> None:
    partitions = json.loads(run(servers, "describe crew --json"))["partitions"]
    assert [(p["owner"], p["owners"]) for p in partitions] == [(None, ["m"])] * 2
    assert "2 partitions have no start offset" in run(servers, "describe crew")


def test_its_lag_is_not_known_before_it_has_read(servers: str) -> None:
    (row,) = json.loads(run(servers, "list --json"))
    assert (row["type"], row["lag"], row["lag_ms"]) == ("Share", None, None)
    assert json.loads(run(servers, "describe crew --json"))["lag"] is None


def test_why_has_neither_lag_nor_partitions_of_a_member(servers: str) -> None:
    assert json.loads(run(servers, "why crew --json"))["lag"] is None
    shown = run(servers, "why crew")
    (member,) = (line.split() for line in shown.splitlines() if line.startswith("m "))
    assert member[-2] == "-"
    assert "lag" not in shown


def test_no_deploy_of_it_is_predicted(servers: str) -> None:
    assert "Error: crew is a share group: its members own records and no partitions" in run(servers, "predict crew", 1)
