"""A share group in the commands of `groups` that are about partitions: none is owned, and no offset is committed."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from coterie.cli import main
from coterie.client.connection.blocking_socket import BrokerSocket
from coterie.testing import LocalBroker
from coterie.wire.messages.share.share_group_heartbeat import ShareGroupHeartbeatRequest


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with LocalBroker() as broker:
        broker.create_topic("orders", 2)
        socket = BrokerSocket(broker.host, broker.port)
        joined = socket.request(ShareGroupHeartbeatRequest("crew", "m", 0, subscribed_topic_names=["orders"]))
        assert not joined.error_code
        yield broker.bootstrap_servers
        socket.close()


def run(servers: str, line: str, code: int = 0) -> str:
    environment = {"COTERIE_BOOTSTRAP_SERVER": servers, "COLUMNS": "200"}
    result = CliRunner(env=environment).invoke(main, ["groups", *line.split()], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result.output


def test_its_lag_is_not_known(servers: str) -> None:
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
