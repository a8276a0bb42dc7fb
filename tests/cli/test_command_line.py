"""The command line as a user has it: real processes, exit codes, what it says."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker_process import BrokerProcess


def coterie(*args: str, stdin: str = "", address: str = "") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COTERIE_BOOTSTRAP_SERVER": address or "127.0.0.1:1"}
    return subprocess.run(
        [sys.executable, "-m", "coterie", *args],
        input=stdin,
        capture_output=True,
        text=True,
        env=environment,
        timeout=60,
        check=False,
    )


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path / "data")
    yield process
    if process.process.poll() is None:
        process.stop()


def test_a_day_with_the_command_line(broker: BrokerProcess) -> None:
    at = broker.address
    assert coterie("topics", "create", "orders", "-p", "3", address=at).stdout == "created orders\n"
    assert json.loads(coterie("topics", "list", "--json", address=at).stdout) == [
        {"topic": "orders", "partitions": 3, "internal": False}
    ]
    lines = "".join(f"k{n}:v{n}\n" for n in range(30))
    assert "30 records acknowledged" in coterie("produce", "orders", "-K", ":", stdin=lines, address=at).stderr
    read = coterie("consume", "orders", "-g", "shop", "--from-beginning", "-n", "30", "--json", address=at)
    records = [json.loads(line) for line in read.stdout.splitlines()]
    assert {(r["key"], r["value"]) for r in records} == {(f"k{n}", f"v{n}") for n in range(30)}
    described = json.loads(coterie("groups", "describe", "shop", "--json", address=at).stdout)
    assert (described["state"], described["lag"]) == ("Empty", 0)
    history = json.loads(coterie("groups", "history", "shop", "--json", address=at).stdout)
    assert [(line["generation"], line["event"]) for line in history] == [(1, "stable"), (2, "empty")]
    assert "joined" in history[0]["why"]
    assert "left" in history[1]["why"]
    reset = json.loads(coterie("groups", "reset", "shop", "--to", "earliest", "--json", address=at).stdout)
    assert {o["to"] for o in reset} == {0}
    assert json.loads(coterie("groups", "describe", "shop", "--json", address=at).stdout)["lag"] == 30
    listed = coterie("groups", "list", address=at).stdout.splitlines()[-1].split()
    assert (listed[:5], listed[-2:]) == (["shop", "Empty", "classic", "0", "30"], ["-", "1"])
    assert coterie("groups", "delete", "shop", address=at).returncode == 0
    assert coterie("topics", "grow", "orders", "-p", "5", address=at).returncode == 0
    assert len(json.loads(coterie("topics", "describe", "orders", "--json", address=at).stdout)["partitions"]) == 5
    assert coterie("topics", "delete", "orders", address=at).returncode == 0


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (("brokr",), 2, "coterie has no command 'brokr'. Did you mean broker?"),
        (("broker",), 2, "--data DIR, or --memory"),
        (("broker", "--memory", "--set", "num.partition=3"), 2, "did you mean num.partitions?"),
        (("broker", "--memory", "--listen", "nowhere"), 2, "--listen takes HOST:PORT"),
        (("topics", "list"), 1, "no broker answers at 127.0.0.1:1"),
        (("groups", "reset", "g", "--to", "yesterday"), 2, "--to takes earliest, latest, an offset or an ISO time"),
        (("demo", "--key", "x"), 2, "--key goes with --input"),
        (("demo", "--brokers", "2"), 2, "take 1, or 3 and more"),
        (("wire", "JoinRequest"), 2, "There is no message JoinRequest"),
        (("wire", "HeartbeatRequest", "9"), 2, "HeartbeatRequest has no version 9 here; there are 0 to 4"),
        (("topics", "create", "t", "--config", "retention.ms"), 2, "--config takes KEY=VALUE"),
    ],
)
def test_a_mistake_is_said_in_a_sentence(args: tuple[str, ...], code: int, message: str) -> None:
    done = coterie(*args)
    assert (done.returncode, message in done.stderr) == (code, True), done.stderr


@pytest.mark.parametrize(
    "verb",
    ["", "broker", "topics", "produce", "consume", "groups", "log", "pipeline", "lab", "wire", "certify", "demo"],
)
def test_help_has_examples(verb: str) -> None:
    done = coterie(*filter(None, [verb]), "--help")
    assert done.returncode == 0
    assert "Example" in done.stdout


def test_two_brokers_cannot_share_a_data_folder(broker: BrokerProcess) -> None:
    done = coterie("broker", "--listen", "127.0.0.1:0", "--data", str(broker.data))
    assert done.returncode == 1
    assert "another broker uses the data folder" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_broker_stops_in_order(tmp_path: Path, number: signal.Signals) -> None:
    process = BrokerProcess(tmp_path / "data")
    process.process.send_signal(number)
    assert process.process.wait(10) == 0
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


def test_fsync_mode_answers_after_the_sync(tmp_path: Path) -> None:
    process = BrokerProcess(tmp_path / "data", "--fsync")
    at = process.address
    assert "5 records" in coterie("produce", "t", stdin="a\nb\nc\nd\ne\n", address=at).stderr
    read = coterie("consume", "t", "-g", "g", "--from-beginning", "-n", "5", address=at)
    assert sorted(read.stdout.split()) == ["a", "b", "c", "d", "e"]
    process.kill()
    process.start()
    assert json.loads(coterie("groups", "describe", "g", "--json", address=at).stdout)["lag"] == 0
    process.stop()


def test_rows_of_an_input_with_bad_lines(tmp_path: Path) -> None:
    from coterie.demo.rows import InputRow, Reject, read_file

    csv = tmp_path / "a.csv"
    csv.write_text("id,name\n1,one\n2\n3,three,extra\n4,four\n")
    parsed = list(read_file(csv, "id"))
    assert [r.key for r in parsed if isinstance(r, InputRow)] == ["1", "4"]
    assert [(r.line, r.reason) for r in parsed if isinstance(r, Reject)] == [
        (3, "1 column instead of 2"),
        (4, "3 columns instead of 2"),
    ]
    lines = tmp_path / "a.jsonl"
    lines.write_text('{"id":1}\nnope\n[1]\n{"x":2}\n{"id":null}\n')
    parsed = list(read_file(lines, "id"))
    assert [r.key for r in parsed if isinstance(r, InputRow)] == ["1", None]
    assert [r.line for r in parsed if isinstance(r, Reject)] == [2, 3, 4]


def test_shell_completion() -> None:
    environment = {**os.environ, "_COTERIE_COMPLETE": "bash_complete", "COMP_WORDS": "coterie gr", "COMP_CWORD": "1"}
    command = [str(Path(sys.executable).parent / "coterie")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=30, check=False)
    assert done.stdout.split(",")[-1].strip() == "groups"


def test_the_generated_code_is_printed() -> None:
    assert "def decode_HeartbeatRequest_v4(data, at" in coterie("wire", "HeartbeatRequest", "4").stdout
    assert {a["name"] for a in json.loads(coterie("wire", "--json").stdout)} >= {"JoinGroup", "Produce", "Fetch"}


def test_more_partitions_than_the_usual_limit_of_open_files(tmp_path: Path) -> None:
    """With a soft limit of 256 files a broker still serves 400 partitions: it raises the limit to the hard one."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        process = BrokerProcess(tmp_path / "data")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    created = coterie("topics", "create", "wide", "-p", "400", address=process.address)
    assert created.stdout == "created wide\n", created.stderr
    assert "1 record acknowledged" in coterie("produce", "wide", stdin="x\n", address=process.address).stderr
    process.stop()


def test_a_record_for_a_topic_that_is_missing_is_refused_within_seconds() -> None:
    from coterie.testing import LocalBroker

    with LocalBroker({"auto.create.topics.enable": "false"}) as local:
        done = coterie("produce", "nowhere", stdin="x\n", address=local.bootstrap_servers)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert "there is no topic nowhere" in last
    assert "coterie topics create nowhere" in last


def test_a_damaged_batch_ends_consume_with_one_sentence() -> None:
    from coterie.testing import LocalBroker
    from tests.client.fetching.test_damaged_batches import batch, put, wrong_record_length

    with LocalBroker() as local:
        local.create_topic("t", 1)
        put(local, 0, bytes(batch(b"good")))
        put(local, 0, wrong_record_length())
        done = coterie("consume", "t", "--from-beginning", address=local.bootstrap_servers)
    assert (done.returncode, done.stdout) == (1, "good\n")
    assert done.stderr.startswith("Error: CORRUPT_MESSAGE: t-0 cannot be read at offset 1: ")
    assert done.stderr.count("\n") == 1


def test_a_group_explains_itself_on_the_command_line(broker: BrokerProcess, tmp_path: Path) -> None:
    at = broker.address
    coterie("topics", "create", "orders", "-p", "2", address=at)
    coterie("produce", "orders", stdin="a\nb\nc\n", address=at)
    coterie("consume", "orders", "-g", "shop", "--from-beginning", "-n", "3", address=at)
    explanation = coterie("groups", "why", "shop", address=at).stdout
    assert "shop: Empty" in explanation
    assert "the group has no members and 2 committed offsets" in explanation
    document = json.loads(coterie("groups", "why", "shop", "--json", address=at).stdout)
    assert (document["state"], document["lag"], document["waiting_for"]) == ("Empty", 0, [])
    watched = coterie("groups", "watch", "shop", "--times", "2", "--every", "0.1", address=at)
    assert watched.stdout.count("Empty") == 1  # said once, since nothing changed
    unknown = coterie("groups", "why", "nobody", address=at)
    assert (unknown.returncode, "GROUP_ID_NOT_FOUND" in unknown.stderr) == (1, True)
    broker.stop()
    dumped = coterie("groups", "dump", str(tmp_path / "data")).stdout
    assert "group shop consumer, generation 1, protocol range" in dumped
    assert "offset shop orders-0 = " in dumped
    assert dumped.count("group shop consumer, generation 2, no members") == 1


def test_a_broker_that_cannot_explain_is_named_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Apache Kafka closes the connection on an API that it does not know."""
    import asyncio
    import struct

    from coterie.broker.broker import Broker
    from coterie.broker.connections.request_queue import ROUTES
    from coterie.client import Admin, KafkaError
    from coterie.wire.apis import APIS
    from coterie.wire.errors import ErrorCode

    async def ask() -> None:
        running = Broker()
        host, port = await running.start("127.0.0.1", 0)
        async with Admin({"bootstrap.servers": f"{host}:{port}"}) as admin:
            with pytest.raises(KafkaError, match="not coterie") as refused:
                await admin.explain_group("g")
        assert refused.value.code == ErrorCode.UNSUPPORTED_VERSION
        await running.stop()

    monkeypatch.delitem(ROUTES, struct.pack(">hh", 30000, 0), raising=False)
    explain = APIS[30000]
    monkeypatch.setattr(
        "coterie.broker.connections.request_queue.APIS", {k: a for k, a in APIS.items() if a is not explain}
    )
    asyncio.run(ask())


def test_http_is_served_and_said(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "coterie",
        "broker",
        "--memory",
        "--listen",
        "127.0.0.1:0",
        "--http",
        "127.0.0.1:0",
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        url = process.stderr.readline().strip().removeprefix("groups and metrics on ")
        import urllib.request

        with urllib.request.urlopen(url + "/groups", timeout=10) as response:
            assert json.loads(response.read()) == []
        taken = url.rpartition("/")[2]
        again = coterie("broker", "--memory", "--listen", "127.0.0.1:0", "--http", taken)
        assert (again.returncode, "choose another --http" in again.stderr) == (1, True)
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
