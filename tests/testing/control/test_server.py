"""The control API of a broker in another process, through HTTP and through `RemoteBroker`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from coterie.client import KafkaError
from coterie.client.blocking import BlockingConsumer
from coterie.testing import ErrorCode
from coterie.testing.control.remote_broker import RemoteBroker
from tests.testing.control.controlled_process import ControlledProcess


@pytest.fixture(scope="module")
def process() -> Iterator[ControlledProcess]:
    with ControlledProcess() as running:
        yield running


@pytest.fixture
def broker(process: ControlledProcess) -> RemoteBroker:
    return process.broker().start()


def consumer(broker: RemoteBroker) -> BlockingConsumer:
    settings = {"group.id": "billing", "auto.offset.reset": "earliest", "heartbeat.interval.ms": 50}
    return BlockingConsumer(settings | {"bootstrap.servers": broker.bootstrap_servers, "enable.auto.commit": "false"})


def test_a_held_sync_group_an_expired_member_and_the_journal(broker: RemoteBroker) -> None:
    broker.create_topic("orders", 2, {"retention.ms": "1000000"})
    broker.produce("orders", b"\xff", b"b", partition=1)
    with consumer(broker) as member, broker.hold("SyncGroup", group="billing") as held:
        member.subscribe(["orders"])
        broker.until_held(held)
        assert "billing" not in broker.explain("billing")
        assert broker.requested("SyncGroup") == 1
        broker.release(held)
        assert broker.until_stable("billing", members=1) == 1
        while not member.poll(1000):
            pass
        member.commit()
        broker.until_committed("billing", {("orders", 1): 2})
        assert broker.lag("billing")["orders", 1] == 0
        broker.produce("orders", b"c", partition=1)
        assert broker.until_lag("billing", at_least=1) == 1
        assert broker.members("billing").popitem()[1] == "coterie"
        broker.expire("billing", "coterie")
        assert broker.members("billing") == {}
    assert [line.event for line in broker.journal_lines("billing")][:2] == ["id_reserved", "member_joined"]
    assert "session_timeout" in {cause["kind"] for line in broker.journal for cause in line.causes}
    assert "billing generation 1" in "\n".join(broker.story())


def test_refusals_are_raised_as_a_local_broker_does(broker: RemoteBroker) -> None:
    broker.create_topic("orders")
    with pytest.raises(KafkaError, match=r"^TOPIC_ALREADY_EXISTS: Topic 'orders' already exists\.$") as raised:
        broker.create_topic("orders")
    assert raised.value.code is ErrorCode.TOPIC_ALREADY_EXISTS
    with pytest.raises(LookupError, match="has no member nobody"):
        broker.expire("billing", "nobody")
    with pytest.raises(TimeoutError, match="There is no such group"):
        broker.until_stable("billing", timeout_s=0)
    with pytest.raises(ValueError, match="there is no JoinGrop here"):
        broker.fail("JoinGrop", "NOT_COORDINATOR")
    with pytest.raises(ValueError, match=r"there is one broker here; .*--brokers 3"):
        broker.kill(1)
    with pytest.raises(ValueError, match="stop needs broker_id"):
        post(broker, "stop")
    rule = broker.fail("Fetch", ErrorCode.NOT_LEADER_OR_FOLLOWER)
    broker.reset()
    with pytest.raises(LookupError, match=r"there is no rule \d+; a reset ends all rules"):
        broker.release(rule)


def post(broker: RemoteBroker, operation: str) -> None:
    status, document = request(broker, "POST", f"/v1/{operation}", "{}")
    assert status == 400
    raise ValueError(document["error"])


def request(
    broker: RemoteBroker, method: str, path: str, body: str | None = None, headers: Mapping[str, str] | None = None
) -> tuple[int, Any]:
    connection = HTTPConnection(*broker._control_address, timeout=10)
    try:
        connection.request(method, path, body, {"Content-Type": "application/json", **(headers or {})})
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


REFUSED: list[tuple[str, str, str | None, dict[str, str], int, str]] = [
    ("POST", "/v1/reset", "{}", {"Host": "evil.example"}, 403, "this Host is not the control API's"),
    ("GET", "/health", None, {"Host": "evil.example"}, 403, "this Host is not the control API's"),
    ("POST", "/v1/reset", "{}", {"Origin": "http://127.0.0.1"}, 403, "a request with an Origin is refused"),
    ("POST", "/v1/reset", "{}", {"Content-Type": "text/plain"}, 415, "must be application/json"),
    (
        "POST",
        "/v1/nothing",
        "{}",
        {},
        404,
        "there is no operation nothing; there are bootstrap_servers, client_settings,",
    ),
    ("POST", "/v1/reset", "{", {}, 400, "the body is not JSON"),
    ("POST", "/v1/reset", "[" * 100_000, {}, 400, "the body is not JSON"),
    ("POST", "/v1/reset", "[]", {}, 400, "must be a JSON object"),
]


@pytest.mark.parametrize(("method", "path", "body", "headers", "status", "sentence"), REFUSED)
def test_requests_that_are_refused(
    broker: RemoteBroker,
    method: str,
    path: str,
    body: str | None,
    headers: dict[str, str],
    status: int,
    sentence: str,
) -> None:
    broker.create_topic("kept")
    code, document = request(broker, method, path, body, headers)
    assert (code, sentence in document["error"]) == (status, True), document
    with pytest.raises(KafkaError):  # no refused request has emptied the broker
        broker.create_topic("kept")


def test_health_and_description(broker: RemoteBroker) -> None:
    assert request(broker, "GET", "/health") == (200, {"bootstrap_servers": broker.bootstrap_servers})
    status, document = request(broker, "GET", "/openapi.json")
    assert (status, document["openapi"]) == (200, "3.1.0")


def test_a_token_is_asked_for_everywhere(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("secret\n")
    with ControlledProcess("--control-token-file", str(file)) as running:
        assert running.broker("secret").start().members("g") == {}
        for broker, path in [(running.broker(), "/health"), (running.broker("wrong"), "/openapi.json")]:
            with pytest.raises(RuntimeError, match="the header Authorization must be: Bearer, and the token"):
                broker.reset()
            assert request(broker, "GET", path)[0] == 401


def test_three_brokers_one_of_them_killed_and_reset() -> None:
    with ControlledProcess("--brokers", "3") as running:
        broker = running.broker()
        before = broker.bootstrap_servers
        broker.create_topic("t", 3)
        leader = broker.leader_of("t", 1)
        broker.kill(leader)
        assert broker.leader_of("t", 1) != leader
        broker.restart(leader)
        broker.kill(leader)
        broker.reset()
        assert broker.bootstrap_servers == before
        broker.create_topic("t", 3)
        assert broker.in_sync("t", 1) == {1, 2, 3}


WRONG_OPTIONS = [
    (("--control", "127.0.0.1:0", "--data", "d"), "--control is for a broker with --memory, and without --http."),
    (("--memory", "--brokers", "3"), "--control-token-file and --brokers go with --control."),
    (
        ("--memory", "--control", "127.0.0.1:0", "--brokers", "3", "--listen", "127.0.0.1:1"),
        "--listen is for one broker: those of --brokers have free ports of 127.0.0.1.",
    ),
    (("--memory", "--control", "0.0.0.0:0", "--insecure"), "--control 0.0.0.0:0 is beyond loopback: give a token by"),
    (("--memory", "--control", "[::]:0"), "--control [::]:0 is beyond loopback: give a token by"),
    (
        ("--memory", "--control", "0.0.0.0:0", "--control-token-file", "token"),
        "--control 0.0.0.0:0 is beyond loopback: give --insecure, because the control API has no TLS.",
    ),
    (("--memory", "--control", "nowhere"), "--control takes HOST:PORT"),
]


@pytest.mark.parametrize(("options", "sentence"), WRONG_OPTIONS)
def test_wrong_options(options: tuple[str, ...], sentence: str, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("0123456789abcdef")
    command = [sys.executable, "-m", "coterie", "broker", *options]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert ended.returncode == 2
    assert sentence in " ".join(ended.stderr.split())


def test_an_address_that_is_taken_is_one_sentence(broker: RemoteBroker) -> None:
    taken = "{}:{}".format(*broker._control_address)
    command = [sys.executable, "-m", "coterie", "broker", "--memory", "--listen", "127.0.0.1:0", "--control", taken]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == f"Error: cannot listen on {taken}: address already in use; choose another --control\n"


def test_a_url_that_is_none() -> None:
    with pytest.raises(ValueError, match="must be http://HOST:PORT"):
        RemoteBroker("127.0.0.1:9092")


@pytest.mark.slow
def test_tests_of_a_local_broker_pass_with_one_elsewhere(process: ControlledProcess) -> None:
    """Those of KIP-848's members: the same file, with the fixture's broker over HTTP."""
    file = "tests/testing/test_consumer_groups.py"
    command = [sys.executable, "-m", "pytest", "-n", "0", file, "--coterie-control", process.url]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stdout
    assert " passed" in ended.stdout
