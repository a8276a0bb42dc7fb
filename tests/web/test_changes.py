"""What may be changed, by whom, and that it is shown before it is done."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import trustme
from click.testing import CliRunner

from coterie.broker.broker import Broker
from coterie.broker.settings import BrokerSettings
from coterie.cli import main
from coterie.client import Admin, Consumer, Producer, TopicPartition
from tests.async_tests import AsyncTest, run_by
from tests.broker_process import BrokerProcess, free_port
from tests.web.feeds import HandFeed, served

TOKEN = "a token of many characters"
Send = Callable[..., Awaitable[tuple[int, Any]]]


def with_changes(*, allow: bool = True) -> Callable[[AsyncTest], Callable[..., None]]:
    """Decorates a test with a client's settings, the console's address and a function that sends it a change."""

    async def run(test: AsyncTest) -> None:
        broker = Broker(BrokerSettings({"group.initial.rebalance.delay.ms": "0"}))
        host, port = await broker.start("127.0.0.1", 0)
        feed = HandFeed()
        feed.client = {"bootstrap.servers": f"{host}:{port}"}
        try:
            async with Admin(feed.client) as admin:
                await admin.create_topic("flights", 2)
            async with Producer(feed.client) as producer:
                for n in range(10):
                    await producer.send("flights", b"v", partition=n % 2)
            async with served(feed, allow_changes=allow) as url, aiohttp.ClientSession() as session:

                async def send(step: str, **change: Any) -> tuple[int, Any]:
                    async with session.post(f"{url}/api/changes/{step}", json=change) as response:
                        is_json = response.content_type == "application/json"
                        return response.status, await response.json() if is_json else await response.text()

                await test(feed.client, url, send)
        finally:
            await broker.stop()

    return run_by(lambda test: asyncio.run(run(test)), given=3)


async def _commit(client: dict[str, Any]) -> None:
    async with Consumer(client | {"group.id": "crew"}) as consumer:
        await consumer.assign([("flights", 0), ("flights", 1)])
        await consumer.commit({("flights", 0): 3, ("flights", 1): 4})


@with_changes()
async def test_offsets_are_reset_only_once_the_reader_says_so(client: dict[str, Any], url: str, send: Send) -> None:
    await _commit(client)
    status, plan = await send("plan", kind="reset", group="crew", to="earliest")
    assert status == 200
    assert plan == {
        "headers": ["topic", "partition", "from", "to"],
        "rows": [["flights", 0, 3, 0], ["flights", 1, 4, 0]],
    }
    async with Admin(client) as admin:
        assert set((await admin.list_consumer_group_offsets("crew")).values()) == {3, 4}
        assert (await send("work", kind="reset", group="crew", to="earliest"))[1] == plan
        assert set((await admin.list_consumer_group_offsets("crew")).values()) == {0}
    for change, rows in (
        ({"to": "latest"}, [5, 5]),
        ({"to": "2"}, [2, 2]),
        ({"time_ms": 0}, [0, 0]),
    ):
        _, plan = await send("plan", kind="reset", group="crew", **change)
        assert [row[3] for row in plan["rows"]] == rows, change


@with_changes()
async def test_a_group_with_members_is_neither_reset_nor_deleted(client: dict[str, Any], url: str, send: Send) -> None:
    async with Consumer(client | {"group.id": "crew", "enable.auto.commit": "false"}) as consumer:
        consumer.subscribe(["flights"])
        while not consumer.assignment():
            await consumer.poll(100)
        await consumer.commit({("flights", 0): 3})
        for step in ("plan", "work"):
            for change in ({"kind": "reset", "to": "latest"}, {"kind": "delete_group"}):
                status, refusal = await send(step, group="crew", **change)
                assert (status, "crew has members" in refusal["error"]) == (409, True)
    status, plan = await send("plan", kind="delete_group", group="crew")
    assert (status, plan["rows"][0]) == (200, ["flights", 0, 3, None])
    assert (await send("work", kind="delete_group", group="crew"))[0] == 200
    assert (await send("plan", kind="delete_group", group="crew"))[0] == 409
    async with Admin(client) as admin:
        assert not await admin.list_groups()


@with_changes()
async def test_a_record_is_written_once_the_reader_says_so(client: dict[str, Any], url: str, send: Send) -> None:
    change = {"kind": "produce", "topic": "flights", "partition": 1, "key": "k", "value": "<b>v"}
    assert (await send("plan", **change))[1]["rows"] == [["flights", 1, None, "k", "<b>v"]]
    assert (await send("work", **change))[1]["rows"] == [["flights", 1, 5, "k", "<b>v"]]
    assert (await send("plan", **change | {"partition": 9}))[0] == 409
    assert (await send("plan", **change | {"topic": "none"}))[0] == 409


@with_changes()
async def test_a_change_that_is_none_is_refused(client: dict[str, Any], url: str, send: Send) -> None:
    for change in (
        {},
        {"kind": "drop"},
        {"kind": "reset", "group": "crew", "to": "-1"},
        {"kind": "reset", "group": "", "to": "latest"},
        {"kind": "reset", "group": "crew", "time_ms": "x"},
        {"kind": "produce", "topic": "flights", "value": 3},
        {"kind": "produce", "topic": "flights", "partition": True, "value": "v"},
    ):
        status, refusal = await send("work", **change)
        assert status == 400, change
        assert refusal["error"]
    own = {"Origin": url, "Content-Type": "application/json"}
    async with aiohttp.ClientSession() as session:
        for status, headers, body in (
            (400, own, "[1]"),
            (400, own, "{"),
            (415, own | {"Content-Type": "text/plain"}, "{}"),
            (403, own | {"Origin": "http://elsewhere.example"}, "{}"),
            (403, own | {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, "{}"),
        ):
            async with session.post(f"{url}/api/changes/work", data=body, headers=headers) as response:
                assert response.status == status, headers


@with_changes(allow=False)
async def test_nothing_is_changed_without_the_option(client: dict[str, Any], url: str, send: Send) -> None:
    assert (await send("work", kind="reset", group="crew", to="earliest"))[0] == 404
    async with aiohttp.ClientSession() as session, session.get(f"{url}/console/groups/crew") as response:
        assert "data-change" not in await response.text()


async def test_a_token_is_asked_of_every_request_but_the_sign_in() -> None:
    authority, context = trustme.CA(), ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost", "127.0.0.1").configure_cert(context)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    async with served(HandFeed(), token=TOKEN, tls=context) as plain:
        url = plain.replace("http://127.0.0.1", "https://localhost")
        connector = aiohttp.TCPConnector(ssl=trusting)
        async with aiohttp.ClientSession(connector=connector) as session:
            for path in ("/console", "/api/topics", "/api/groups/crew/events", "/console/groups/crew", "/"):
                async with session.get(url + path) as response:
                    assert response.status == 401, path
            async with session.get(f"{url}/console", headers={"Accept": "text/html"}) as response:
                assert response.url.path == "/sign-in"
            async with session.get(f"{url}/static/console.css") as response:
                assert response.status == 200
            bearer = {"Authorization": f"Bearer {TOKEN}"}
            async with session.get(f"{url}/api/groups/crew/history", headers=bearer) as response:
                assert response.status == 200
            async with session.post(f"{url}/sign-in", data={"token": "another"}) as response:
                assert 'role="alert" class="awaited"' in await response.text()
            async with session.get(f"{url}/console") as response:
                assert response.status == 401
            async with session.post(f"{url}/sign-in", data={"token": TOKEN}, allow_redirects=False) as response:
                assert response.status == 303
                assert {"HttpOnly", "Secure", "SameSite=Strict"} <= set(response.headers["Set-Cookie"].split("; "))
                assert TOKEN not in response.headers["Set-Cookie"]
            async with session.get(f"{url}/console") as response:
                assert response.status == 200


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("--listen 0.0.0.0:0", "0.0.0.0:0 is beyond loopback: give --tls-certificate, --tls-key and --token-file"),
        ("--listen [::]:0", "is beyond loopback"),
        ("--listen 0.0.0.0:0 --token-file {token}", "is beyond loopback"),
        ("--token-file {short}", "must have 16 characters or more, not 5"),
        ("--tls-certificate {token}", "--tls-certificate and --tls-key go together"),
        ("--tls-certificate {token} --tls-key {token}", "are no certificate in PEM with its key"),
    ],
)
def test_what_the_command_refuses(options: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "short").write_text("short")
    words = options.format(token=tmp_path / "token", short=tmp_path / "short").split()
    done = CliRunner().invoke(main, ["console", *words], catch_exceptions=True)
    assert done.exit_code == 2
    assert sentence in " ".join(done.output.split())


@pytest.mark.slow
@pytest.mark.parametrize("allowed", [True, False])
def test_the_console_within_a_broker_changes_what_its_start_allowed(tmp_path: Path, allowed: bool) -> None:
    http = f"127.0.0.1:{free_port()}"
    broker = BrokerProcess(tmp_path, "--http", http, *(["--allow-changes"] if allowed else []))

    async def go() -> None:
        async with Admin({"bootstrap.servers": broker.address}) as admin, aiohttp.ClientSession() as session:
            await admin.create_topic("flights", 1)
            change = {"kind": "produce", "topic": "flights", "value": "v" * 2_000}
            async with session.post(f"http://{http}/api/changes/work", json=change) as response:
                assert response.status == (200 if allowed else 404)
            async with session.get(f"http://{http}/console/topics/flights") as response:
                assert ('data-change="produce"' in await response.text()) == allowed
            end = (await admin.list_offsets({("flights", 0): -1}))[TopicPartition("flights", 0)]
            assert end == (1 if allowed else 0)

    try:
        asyncio.run(go())
    finally:
        broker.stop()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ([], "--allow-changes goes with --http"),
        (["--http", "0.0.0.0:0", "--insecure"], "--allow-changes needs an --http on loopback"),
    ],
)
def test_changes_within_a_broker_need_a_console_on_loopback(options: list[str], sentence: str) -> None:
    words = ["broker", "--memory", "--listen", "127.0.0.1:0", "--allow-changes", *options]
    done = CliRunner().invoke(main, words)
    assert done.exit_code != 0
    assert sentence in done.output
