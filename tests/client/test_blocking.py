"""The blocking face, as a script would use it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from coterie.client.blocking import BlockingAdmin, BlockingConsumer, BlockingProducer
from coterie.client.errors import ConfigError, KafkaError
from tests.broker_process import BrokerProcess


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path / "data")
    yield process
    process.stop()


def test_a_script(broker: BrokerProcess) -> None:
    address = {"bootstrap.servers": broker.address}
    with BlockingAdmin(address) as admin, BlockingProducer(address) as producer:
        admin.create_topic("t", 2)
        assert producer.send("t", b"one", partition=1)[1:3] == (1, 0)
        assert len(producer.send_all([("t", b"two", b"k"), ("t", b"three", b"k")])) == 2
        with BlockingConsumer(
            address
            | {
                "group_id": "g",
                "auto_offset_reset": "earliest",
                "session_timeout_ms": 6000,
                "heartbeat_interval_ms": 300,
            }
        ) as consumer:
            consumer.subscribe(["t"])
            values: set[bytes] = set()
            while len(values) < 3:
                values |= {r.value for records in consumer.poll(1000).values() for r in records}
            assert values == {b"one", b"two", b"three"}
            time.sleep(7)  # longer than the session: heartbeats go on while the script does something else
            consumer.commit()
            assert admin.describe_group("g").state == "Stable"
        with pytest.raises(KafkaError, match="GROUP_ID_NOT_FOUND"):
            admin.describe_group("nobody")


def test_a_wrong_setting_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"did you mean bootstrap\.servers"):
        BlockingAdmin({"bootstrap.server": "x:1"})


def test_nobody_there() -> None:
    with (
        BlockingAdmin({"bootstrap.servers": "127.0.0.1:1"}) as admin,
        pytest.raises(KafkaError, match="no broker answers"),
    ):
        admin.list_groups()
