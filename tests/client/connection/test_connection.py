"""One connection of the client, fed by hand."""

from __future__ import annotations

import asyncio
import errno
import socket
import subprocess
import sys

import pytest

from coterie.client.connection.connection import Connection
from coterie.client.connection.handshake import not_opened, response_type
from coterie.client.errors import KafkaError
from coterie.wire.apis import APIS
from coterie.wire.messages.groups.heartbeat import HeartbeatRequest, HeartbeatResponse
from tests.awaiting import until

RESPONSE = bytes.fromhex("00000006000000010000")  # size, correlation id 1, NONE


class Silent(asyncio.Transport):
    """Takes what is written and answers nothing."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        return

    def abort(self) -> None:
        return


def asking(timeout_s: float) -> tuple[Connection, asyncio.Task[HeartbeatResponse]]:
    connection = Connection("test")
    connection.connection_made(Silent())
    request = connection.request_version(HeartbeatRequest("g"), HeartbeatResponse, 0, timeout_s)
    return connection, asyncio.get_running_loop().create_task(request)


async def test_a_task_that_is_cancelled_as_its_answer_arrives_stays_cancelled() -> None:
    """asyncio.wait_for of Python 3.11 returns the response instead, and a fetcher that is closed then goes on for ever."""
    connection, task = asking(10)
    await asyncio.sleep(0)
    connection.data_received(RESPONSE)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_an_answer_is_awaited_no_longer_than_asked() -> None:
    _, task = asking(0.01)
    with pytest.raises(KafkaError, match="no response within"):
        await task


async def test_the_request_that_is_overdue_first_ends_the_connection_for_all() -> None:
    """The timer is set again for a request that is due sooner, and not by one that is due later or is answered."""
    connection, first = asking(10)
    heartbeat = HeartbeatRequest("g")
    sooner = asyncio.create_task(connection.request_version(heartbeat, HeartbeatResponse, 0, 0.01))
    later = asyncio.create_task(connection.request_version(heartbeat, HeartbeatResponse, 0, 20))
    with pytest.raises(KafkaError, match=r"REQUEST_TIMED_OUT.*no response within 0\.01 s"):
        await sooner
    for other in (first, later):
        with pytest.raises(KafkaError, match=r"NETWORK_EXCEPTION.*another request"):
            await other
    assert connection.closed


async def test_what_is_answered_is_never_overdue() -> None:
    connection, responded = asking(0.01)
    waiting = asyncio.create_task(connection.request_version(HeartbeatRequest("g"), HeartbeatResponse, 0, 0.03))
    await asyncio.sleep(0)
    connection.data_received(RESPONSE)
    with pytest.raises(KafkaError, match=r"no response within 0\.03 s"):
        await waiting
    assert (await responded).error_code == 0


async def test_a_request_whose_caller_was_cancelled_ends_the_connection_when_it_is_overdue() -> None:
    """A caller that never waits as long as request.timeout.ms would use a half-open connection for ever."""
    connection, cancelled = asking(0.01)
    waiting = asyncio.create_task(connection.request_version(HeartbeatRequest("g"), HeartbeatResponse, 0, 20))
    await asyncio.sleep(0)
    cancelled.cancel()
    with pytest.raises(KafkaError, match=r"NETWORK_EXCEPTION.*another request"):
        await waiting
    assert connection.closed
    assert cancelled.cancelled()


@pytest.mark.parametrize("ends_by", ["its response", "the loss of the connection", "its timeout"])
async def test_a_function_takes_a_response_as_it_arrives_and_an_error_in_a_turn_of_its_own(ends_by: str) -> None:
    """A turn of its own, since the error may come while the function's owner sends."""
    connection = Connection("test")
    connection.connection_made(Silent())
    responses, errors = list[bytes](), list[Exception]()
    timeout_s = 0.01 if ends_by == "its timeout" else 10
    connection.begin(HeartbeatRequest("g"), 0, timeout_s, responses.append, errors.append)
    if ends_by == "its response":
        connection.data_received(RESPONSE)
        assert connection.decoded(HeartbeatResponse, responses[0], 0).error_code == 0
        assert not connection.is_waiting
        return
    assert connection.is_waiting
    if ends_by == "its timeout":
        await until(lambda: connection.closed)
    else:
        connection.connection_lost(None)
        assert not errors
    await until(lambda: errors)
    codes = [error.code.name for error in errors if isinstance(error, KafkaError)]
    assert codes == ["REQUEST_TIMED_OUT" if ends_by == "its timeout" else "NETWORK_EXCEPTION"]
    assert not responses


@pytest.mark.parametrize("pieces", [1, 2, 3, 30])
async def test_answers_are_told_apart_however_they_are_cut(pieces: int) -> None:
    """The first one holds what looks like a whole response to the second request, and may be cut just before it."""
    connection = Connection("test")
    connection.connection_made(Silent())
    responses, errors = list[bytes](), list[Exception]()
    for _ in range(2):
        connection.begin(HeartbeatRequest("g"), 0, 10, responses.append, errors.append)
    second = bytes.fromhex("00000006000000020000")
    first = bytes.fromhex("0000000e00000001") + second
    sent = first + second
    cuts = {1: [], 2: [8], 3: [8, len(first)]}.get(pieces, range(1, len(sent)))
    for start, end in zip([0, *cuts], [*cuts, len(sent)], strict=True):
        connection.data_received(sent[start:end])
    assert responses == [first[4:], second[4:]]
    assert not errors
    assert not connection.closed


async def test_an_answer_is_returned() -> None:
    connection, task = asking(10)
    await asyncio.sleep(0)
    connection.data_received(RESPONSE)
    assert (await task).error_code == 0


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed ('127.0.0.1', 1)"), "Connection refused"),
        (
            OSError(
                f"Multiple exceptions: [Errno {errno.ECONNREFUSED}] Connect call failed ('::1', 1, 0, 0), "
                f"[Errno {errno.ENETUNREACH}] Connect call failed ('127.0.0.1', 1)"
            ),
            "Connection refused, Network is unreachable",
        ),
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "Name or service not known"),
        (ValueError("embedded null byte"), "embedded null byte"),
        (OSError(), "OSError"),
    ],
)
def test_an_unreachable_broker_is_named_once_and_with_the_systems_reason(error: Exception, why: str) -> None:
    assert str(not_opened("kafka-1", 9092, error, 3)).endswith(f"no broker answers at kafka-1:9092: {why}")


def test_each_request_has_its_answer() -> None:
    assert all(response_type(object.__new__(api.request)) is api.response for api in APIS.values())


def test_the_client_imports_only_the_messages_that_it_uses() -> None:
    """The messages of every API take a third of a second of each command's start."""
    code = "import sys, coterie.client.blocking; print('coterie.wire.apis' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
