"""What `coterie consume` reports while it waits: for a topic that does not exist, for an assignment."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from coterie.cli import consume
from coterie.client import Admin, KafkaError, Producer
from coterie.testing import LocalBroker
from tests.awaiting import until


def settings(broker: LocalBroker, **more: Any) -> dict[str, Any]:
    given = {"bootstrap.servers": broker.bootstrap_servers, "group.id": None, "auto.offset.reset": "latest"}
    return given | {key.replace("_", "."): value for key, value in more.items()}


async def reported(capsys: pytest.CaptureFixture[str]) -> str:
    """The first line on stderr."""
    lines: list[str] = []

    def read() -> bool:
        lines.append(capsys.readouterr().err)
        return lines[-1].endswith("\n")

    await until(read, "a line on stderr")
    return "".join(lines)


async def reading(broker: LocalBroker, topic: str, timeout_ms: int | None = None, **more: Any) -> None:
    async with asyncio.timeout(30):
        await consume._read(asyncio.Event(), settings(broker, **more), topic, 2, timeout_ms, as_json=False)


async def test_a_missing_topic_is_reported_and_read_from_its_first_record_once_it_exists(
    coterie_broker: LocalBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    """It waited for ever and reported nothing, also when the topic was created."""
    address = {"bootstrap.servers": coterie_broker.bootstrap_servers}
    running = asyncio.create_task(reading(coterie_broker, "late"))
    report = await reported(capsys)
    assert report == "topic late does not exist; waiting until it is created\n"
    async with Admin(address) as admin, Producer(address) as producer:
        await admin.create_topic("late", 1)
        await producer.send("late", b"one")
        await producer.send("late", b"two")
    await running
    assert capsys.readouterr().out == "one\ntwo\n"


def test_a_missing_topic_ends_after_the_timeout(coterie_broker: LocalBroker) -> None:
    asyncio.run(reading(coterie_broker, "never", timeout_ms=300))


def test_a_name_that_no_topic_can_have_is_an_error(coterie_broker: LocalBroker) -> None:
    with pytest.raises(KafkaError, match="INVALID_TOPIC_EXCEPTION: topic a b"):
        asyncio.run(reading(coterie_broker, "a b"))


async def test_a_group_that_does_not_assign_is_reported_once(
    coterie_broker: LocalBroker, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consume, "JOIN_NOTICE_S", 0.1)
    coterie_broker.create_topic("t", 1)
    coterie_broker.produce("t", b"one", b"two")
    with coterie_broker.hold("JoinGroup"):
        running = asyncio.create_task(
            reading(coterie_broker, "t", group_id="g", auto_offset_reset="earliest", enable_auto_commit=False)
        )
        report = await reported(capsys)
    await running
    assert report == "waiting for partitions of t from group g; for the reason: coterie groups why g\n"
    assert capsys.readouterr() == ("one\ntwo\n", "")
