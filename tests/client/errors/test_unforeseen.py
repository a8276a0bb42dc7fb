"""An exception that nothing provides for is an error of the next poll, with its cause, and the consumer goes on or says that
it has ended; no traceback per turn, no task that is gone without a word."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from coterie.client import ClientBugError, KafkaError
from coterie.client.connection.blocking_socket import BrokerSocket
from coterie.client.consumer.heartbeat_thread import HeartbeatThread, Pulse
from coterie.consuming.commits.commits import Commits
from coterie.consuming.fetching.fetching import Fetching
from coterie.testing import LocalBroker
from coterie.wire.messages.groups.heartbeat import HeartbeatRequest
from tests.client.group import member, settled


def broken(*_: Any, **__: Any) -> Any:
    raise ZeroDivisionError("a bug")


@pytest.fixture
def broker(coterie_broker: LocalBroker) -> LocalBroker:
    coterie_broker.create_topic("t", 1)
    coterie_broker.produce("t", b"v")
    return coterie_broker


async def failed_polls(consumer: Any, polls: int = 5) -> list[KafkaError]:
    errors = []
    for _ in range(polls):
        try:
            await consumer.poll(20)
        except KafkaError as error:
            errors.append(error)
    return errors


async def test_the_fetcher_goes_on_after_it(broker: LocalBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    async with asyncio.timeout(20), member(broker) as one:
        monkeypatch.setattr(Fetching, "responded", broken)
        await one.assign([("t", 0)])
        errors: list[KafkaError] = []
        while not errors:
            errors = await failed_polls(one)
        assert len(errors) <= 5, "once a poll at most"
        assert "an unexpected error in the client: ZeroDivisionError('a bug')" in str(errors[0])
        assert type(errors[0]) is ClientBugError
        assert isinstance(errors[0].__cause__, ZeroDivisionError)
        monkeypatch.undo()
        polled: dict[Any, Any] = {}
        while not polled:
            with contextlib.suppress(KafkaError):  # one more may wait for its poll
                polled = await one.poll(50)
        assert polled["t", 0][0].value == b"v"


@pytest.mark.parametrize("method", ["next", "next_deadline_ms", "owes_heartbeats"])
async def test_the_membership_says_that_it_has_ended(
    broker: LocalBroker, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    async with asyncio.timeout(20), member(broker) as one:
        await settled(one, 1)
        assert one._membership is not None
        monkeypatch.setattr(one._membership.machine, method, broken)
        one._membership.wake()
        errors: list[KafkaError] = []
        while not errors:
            errors = await failed_polls(one, 1)
        assert "ZeroDivisionError('a bug')" in str(errors[0])
        assert len(await failed_polls(one, 3)) == 3, "it stays ended"
        monkeypatch.undo()


@pytest.mark.parametrize("method", ["next", "responded"])
async def test_a_commit_ends_with_it(broker: LocalBroker, monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    """The task ended with the exception, and the commit had no end."""
    async with asyncio.timeout(20), member(broker) as one:
        await settled(one, 1)
        await one.commit({("t", 0): 1})
        monkeypatch.setattr(Commits, method, broken)
        with pytest.raises(ClientBugError) as raised:
            await one.commit({("t", 0): 1})
        assert isinstance(raised.value.__cause__, ZeroDivisionError)
        monkeypatch.undo()


async def test_the_heartbeat_thread_survives_it_and_the_next_poll_raises_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BrokerSocket, "__init__", broken)
    bugs: list[ClientBugError] = []
    thread = HeartbeatThread("test", bugs.append)
    pulse = Pulse(("127.0.0.1", 1), HeartbeatRequest("g", 1, "m"), 0.0, 0.01)
    for _ in range(3):
        thread._stand_in(pulse)
    await asyncio.sleep(0)
    assert [type(bug.__cause__) for bug in bugs] == [ZeroDivisionError] * 3
