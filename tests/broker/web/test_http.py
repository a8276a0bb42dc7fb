"""Groups over HTTP and as Prometheus metrics (scenarios testMetrics, testPartitionLoadMetric)."""

from __future__ import annotations

import asyncio
import http.client
import json
import re
import socket
import ssl
import struct
import urllib.error
import urllib.request
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import trustme
from prometheus_client.parser import text_string_to_metric_families

from coterie.broker.broker import Broker
from coterie.broker.groups.explanation import Progress
from coterie.broker.process.loggers import LINES_PER_SECOND
from coterie.broker.settings import BrokerSettings
from coterie.broker.web import handed_groups
from coterie.broker.web.http import HttpServer
from coterie.client import (
    AcknowledgeType,
    Admin,
    Consumer,
    KafkaError,
    Producer,
    ShareConsumer,
    ShareRecord,
    TopicPartition,
)
from coterie.records.batch import BatchHeader
from coterie.records.decoding import decode_records
from coterie.records.encoding import encode_batch
from coterie.text.addresses import is_own_host
from coterie.text.quantity import STALLED_AFTER_MS
from coterie.wire.errors import ErrorCode
from tests.broker.web.pages import with_pages


def _get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=10) as response:
        body: bytes = response.read()
        return body


async def _some_group(server: str) -> Consumer:
    async with Admin({"bootstrap.servers": server}) as admin:
        await admin.create_topic("t", 2)
    async with Producer({"bootstrap.servers": server}) as producer:
        for n in range(10):
            await producer.send("t", b"v", partition=n % 2)
    consumer = Consumer({"bootstrap.servers": server, "group.id": "crew", "auto.offset.reset": "earliest"})
    consumer.subscribe(["t"])
    while not consumer.assignment():
        await consumer.poll(100)
    await consumer.commit({("t", 0): 3, ("t", 1): 5})
    return consumer


def _samples(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    return {
        (s.name, frozenset(s.labels.items())): s.value
        for family in text_string_to_metric_families(text)
        for s in family.samples
    }


@with_pages()
async def test_metrics_tell_state_lag_and_rebalances(broker: Broker, server: str, url: str) -> None:
    consumer = await _some_group(server)
    samples = _samples((await asyncio.to_thread(_get, url + "/metrics")).decode())
    group = ("group", "crew")
    assert samples["coterie_group_state", frozenset({group, ("state", "Stable")})] == 1
    assert samples["coterie_group_state", frozenset({group, ("state", "Empty")})] == 0
    assert samples["coterie_group_members", frozenset({group})] == 1
    assert samples["coterie_group_generation", frozenset({group})] == 1
    assert samples["coterie_group_lag", frozenset({group, ("topic", "t"), ("partition", "0")})] == 2
    assert samples["coterie_group_lag", frozenset({group, ("topic", "t"), ("partition", "1")})] == 0
    assert samples["coterie_group_rebalances_total", frozenset({group, ("cause", "member_joined")})] == 1
    assert samples["coterie_group_rebalance_seconds_count", frozenset({group})] == 1
    assert samples["coterie_offsets_load_seconds", frozenset()] >= 0
    await consumer.close()
    # An empty group still lags; a commit past the end is no negative lag.
    async with Admin({"bootstrap.servers": server}) as admin:
        await admin.alter_consumer_group_offsets("crew", {("t", 0): 2, ("t", 1): 99})
    samples = _samples((await asyncio.to_thread(_get, url + "/metrics")).decode())
    assert samples["coterie_group_state", frozenset({group, ("state", "Empty")})] == 1
    assert samples["coterie_group_lag", frozenset({group, ("topic", "t"), ("partition", "0")})] == 3
    assert samples["coterie_group_lag", frozenset({group, ("topic", "t"), ("partition", "1")})] == 0


@with_pages()
async def test_a_share_group_has_its_start_offsets_and_lag(broker: Broker, server: str, url: str) -> None:
    """Of its partitions, owned or not; records behind the start offset that are done with are no lag."""
    client = {"bootstrap.servers": server}
    async with Admin(client) as admin, Producer(client) as producer:
        await admin.create_topic("t", 2)
        for partition in (0, 0, 0, 0, 0, 1):
            await producer.send_and_wait("t", b"v", partition=partition)
        await admin.alter_share_group_offsets("jobs", {("t", 0): 1, ("t", 1): 1})
    settings = {"group.id": "jobs", "share.acknowledgement.mode": "explicit", "share.acquire.mode": "record_limit"}
    async with ShareConsumer(client | settings | {"max.poll.records": 3}) as consumer:
        consumer.subscribe(["t"])
        records: list[ShareRecord[Any, Any]] = []
        while not records:
            records = [r for partition in (await consumer.poll(1000)).values() for r in partition]
        assert [r.offset for r in records] == [1, 2, 3]
        consumer.acknowledge(records[0], AcknowledgeType.RELEASE)
        for record in records[1:]:
            consumer.acknowledge(record)
        await consumer.commit()
        (row,) = json.loads(await asyncio.to_thread(_get, url + "/groups"))
        assert (row["type"], row["lag"]) == ("share", 2)
        document = json.loads(await asyncio.to_thread(_get, url + "/groups/jobs"))
        assert [(p["partition"], p["committed"], p["lag"]) for p in document["partitions"]] == [
            (0, 1, 2),
            (1, 1, 0),
        ]
        assert document["lag"] == 2
        assert document["lag_ms"] > 0
        samples = _samples((await asyncio.to_thread(_get, url + "/metrics")).decode())
        where = {("group", "jobs"), ("topic", "t"), ("partition", "0")}
        assert samples["coterie_group_lag", frozenset(where)] == 2
        assert samples["coterie_group_stalled", frozenset(where)] == 0


@with_pages()
async def test_a_share_group_without_its_coordinator_has_no_lag(
    broker: Broker, server: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page waits for the share coordinator for a while, not for ever."""
    monkeypatch.setattr("coterie.broker.web.http.SHARE_OFFSETS_WAIT_S", 0.05)
    async with Admin({"bootstrap.servers": server}) as admin:
        await admin.create_topic("t", 1)
        await admin.alter_share_group_offsets("jobs", {("t", 0): 1})
    broker.share_persister.send = lambda request, responded: None  # type: ignore[method-assign]
    (row,) = json.loads(await asyncio.to_thread(_get, url + "/groups"))
    assert (row["group"], row["lag"]) == ("jobs", None)
    assert json.loads(await asyncio.to_thread(_get, url + "/groups/jobs"))["lag"] is None


@with_pages()
async def test_lag_in_seconds_is_the_age_of_the_first_record_that_is_not_committed(
    broker: Broker, server: str, url: str
) -> None:
    """By the times in the log, also of one whose times the log sets, and where the committed record has been deleted."""
    hour_ms = 3_600_000
    now_ms = broker.clock.now_ms()
    async with Admin({"bootstrap.servers": server}) as admin:
        await admin.create_topic("t", 2)
        await admin.create_topic("appended", 1, {"message.timestamp.type": "LogAppendTime"})
        async with Producer({"bootstrap.servers": server}) as producer:
            for hours in (5, 4, 3):
                await producer.send("t", b"v", partition=0, timestamp_ms=now_ms - hours * hour_ms)
                await producer.flush()
            await producer.send("t", b"v", partition=1)
            await producer.send("appended", b"v", timestamp_ms=now_ms - 9 * hour_ms)
            await producer.flush()
        await admin.alter_consumer_group_offsets("crew", {("t", 0): 1, ("t", 1): 1, ("appended", 0): 0})
        times = await admin.record_times({("t", 0): 1, ("t", 1): 1, ("appended", 0): 0})
        assert times[TopicPartition("t", 0)] == now_ms - 4 * hour_ms
        assert TopicPartition("t", 1) not in times
        assert abs(times[TopicPartition("appended", 0)] - now_ms) < hour_ms
        explained = await admin.explain_group("crew")
        lags_ms = {(p.topic, p.partition): p.lag_ms or 0 for p in explained.partitions}
        assert [lag_ms // hour_ms for lag_ms in lags_ms.values()] == [0, 4, 0]
        assert explained.lag_ms == lags_ms["t", 0]
        await admin.delete_records({("t", 0): 2})
        assert await admin.record_times({("t", 0): 1}) == {TopicPartition("t", 0): now_ms - 3 * hour_ms}
        samples = _samples((await asyncio.to_thread(_get, url + "/metrics")).decode())
    seconds = {name[1]: value for name, value in samples.items() if name[0] == "coterie_group_lag_seconds"}
    assert sorted(value // 3_600 for value in seconds.values()) == [0, 0, 3]


@with_pages()
async def test_metrics_tell_of_fetch_sessions_and_of_requests_that_are_not_served(
    broker: Broker, server: str, url: str
) -> None:
    consumer = await _some_group(server)
    reader, writer = await asyncio.open_connection(*server.split(":"))
    writer.write(struct.pack(">ihhih", 13, 55, 0, 7, 3) + b"raw")
    assert await reader.read() == b""
    writer.close()
    samples = _samples((await asyncio.to_thread(_get, url + "/metrics")).decode())
    assert samples["coterie_fetch_sessions", frozenset()] == 1
    assert samples["coterie_fetch_session_partitions", frozenset()] == 2
    assert samples["coterie_fetch_session_evictions_total", frozenset()] == 0
    kind = frozenset({("client", "raw"), ("api", "DescribeQuorum"), ("version", "0")})
    assert samples["coterie_unserved_requests_total", kind] == 1
    await consumer.close()


@with_pages()
async def test_a_group_is_explained_the_same_over_http_and_kafkas_protocol(
    broker: Broker, server: str, url: str
) -> None:
    consumer = await _some_group(server)
    over_http = json.loads(await asyncio.to_thread(_get, url + "/groups/crew"))
    async with Admin({"bootstrap.servers": server}) as admin:
        over_kafka = await admin.explain_group("crew")
        with pytest.raises(KafkaError) as refused:
            await admin.explain_group("nobody")
    assert refused.value.code == ErrorCode.GROUP_ID_NOT_FOUND
    moving = re.compile(r'"(\w+_ms|left_ms)": \d+')
    documents = [json.dumps(document, sort_keys=True) for document in (over_http, asdict(over_kafka))]
    assert moving.sub("", documents[0]) == moving.sub("", documents[1])
    (member,) = over_http["members"]
    assert member["leader"]
    assert member["last_fetch_ms"] is not None
    assert 0 <= member["last_heard_ms"] < 10_000
    assert over_http["lag"] == 2
    assert {p["owner"] for p in over_http["partitions"]} == {member["member_id"]}
    listed = json.loads(await asyncio.to_thread(_get, url + "/groups"))
    (row,) = listed
    assert 0 <= row.pop("lag_ms") < 60_000
    assert row == {"group": "crew", "state": "Stable", "type": "classic", "generation": 1, "members": 1, "lag": 2}
    history = json.loads(await asyncio.to_thread(_get, url + "/groups/crew/history"))
    assert [line["event"] for line in history if line["event"] in ("rebalance_started", "stable")] == [
        "rebalance_started",
        "stable",
    ]
    with pytest.raises(urllib.error.HTTPError) as missing:
        await asyncio.to_thread(_get, url + "/groups/nobody")
    assert missing.value.code == 404
    await consumer.close()


@with_pages()
async def test_a_long_history_is_decoded_a_batch_in_each_turn_of_the_loop(
    broker: Broker, server: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of it in one turn let the others wait for more than a second."""
    at: list[int] = []
    turns = 0

    def decoded(data: bytes, position: int, header: BatchHeader) -> Any:
        at.append(turns)
        return decode_records(data, position, header)

    monkeypatch.setattr(handed_groups, "decode_records", decoded)
    log = broker.topics.journal_topic().partitions[0].log
    for n in range(20):
        log.append_own(encode_batch([(n, b"crew", b"{}", ())]), n)

    def count() -> None:
        nonlocal turns
        turns += 1
        asyncio.get_running_loop().call_soon(count)

    count()
    lines = json.loads(await asyncio.to_thread(_get, url + "/groups/crew/history"))
    assert len(lines) == 20
    assert len(set(at)) == len(at) == 20


@with_pages()
async def test_requests_that_cannot_be_read_are_few_lines_and_no_traceback(
    broker: Broker, server: str, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Each was a traceback, without a limit."""

    def bad() -> bytes:
        host, port = url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: many\r\n\r\n")
            return client.recv(100)

    for _ in range(3 * LINES_PER_SECOND):
        assert b" 400 " in await asyncio.to_thread(bad)
    broker.log_lines.flush()
    assert "Traceback" not in caplog.text
    lines = [record for record in caplog.records if "HTTP request that cannot be read" in record.getMessage()]
    assert LINES_PER_SECOND < len(lines) < 3 * LINES_PER_SECOND


def test_an_offset_that_does_not_move_is_noticed_even_when_it_is_committed_again() -> None:
    progress, at = Progress(), ("t", 0)
    assert progress.unmoved_ms("g", at, 5, 1_000, 2_000) == 1_000
    # The same offset again, as an automatic commit does: the commit is fresh, the progress is not.
    assert progress.unmoved_ms("g", at, 5, 61_000, 61_500) >= STALLED_AFTER_MS
    assert progress.unmoved_ms("g", at, 6, 62_000, 62_500) == 500


NAMES = ["localhost", "LocalHost", "127.0.0.1", "127.9.9.9", "[::1]", "localhost.", "metrics.example"]
STRANGERS = [
    "evil.example",
    "localhost.evil.example",
    "127.0.0.1.evil.example",
    "10.0.0.5",
    "[2001:db8::1]",
    "0.0.0.0",
    "",
]


@pytest.mark.parametrize("port", ["", ":80", ":65535"])
def test_whose_host_is_ours(port: str) -> None:
    """Beside 0.0.0.0 every address in figures is ours: no name leads there."""
    for host in NAMES:
        assert is_own_host(host + port, {"localhost", "metrics.example"}), host
    for host in STRANGERS:
        assert not is_own_host(host + port, {"localhost", "metrics.example"}), host
        figures = host.strip("[]").replace(":", "").replace(".", "").isalnum() and "evil" not in host
        assert is_own_host(host + port, {"localhost", "0.0.0.0"}) == (figures and host != ""), host
    assert not is_own_host("[::1", {"localhost"})


@with_pages("metrics.example")
async def test_a_host_header_of_strangers_is_refused(broker: Broker, server: str, url: str) -> None:
    """A browser that DNS rebinding leads here sends the stranger's name."""

    def status(url: str, *hosts: str, path: str = "/groups") -> tuple[int, str]:
        host, _, port = url.removeprefix("http://").rpartition(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=10)
        connection.putrequest("GET", path, skip_host=True)
        for name in hosts:
            connection.putheader("Host", name)
        connection.endheaders()
        response = connection.getresponse()
        return response.status, response.read().decode()

    async def ask(*hosts: str, path: str = "/groups") -> tuple[int, str]:
        return await asyncio.to_thread(status, url, *hosts, path=path)

    for path in ("/", "/groups", "/groups/crew", "/groups/crew/history", "/metrics"):
        refused, text = await ask("evil.example", path=path)
        assert (refused, "--http-name" in text) == (403, True), path
    assert (await ask("localhost"))[0] == 200
    assert (await ask("metrics.example:9090"))[0] == 200
    assert (await ask("localhost", "evil.example"))[0] in (400, 403)


def test_each_request_bears_the_token(tmp_path: Path) -> None:
    """Over TLS; Prometheus sends one as its `authorization`."""
    authority = trustme.CA()
    pem = tmp_path / "both.pem"
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(pem)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(pem)
    trusting = ssl.create_default_context(cadata=authority.cert_pem.bytes().decode())

    def get(url: str, headers: dict[str, str]) -> int:
        try:
            with urllib.request.urlopen(
                urllib.request.Request(url, headers=headers), timeout=10, context=trusting
            ) as got:
                return int(got.status)
        except urllib.error.HTTPError as error:
            return error.code

    async def run() -> None:
        broker = Broker(BrokerSettings({}))
        await broker.start("127.0.0.1", 0)
        try:
            host, port = await broker.serve_http(
                HttpServer(broker, tls=tls, token="a token of 24 characters"), "127.0.0.1", 0
            )
            for path in ("/", "/groups", "/groups/g", "/clients", "/metrics", "/nothing"):
                url = f"https://{host}:{port}{path}"
                for headers in ({}, {"Authorization": "Bearer another"}, {"Authorization": "Bearer "}):
                    assert await asyncio.to_thread(get, url, headers) == 401
            right = {"Authorization": "Bearer a token of 24 characters"}
            assert await asyncio.to_thread(get, f"https://{host}:{port}/metrics", right) == 200
        finally:
            await broker.stop()

    asyncio.run(run())
