"""The pictures of the console and of a report in the docs, which the test of pictures takes, with --pictures docs into docs.

A broker with its console, and members of a group as processes, one of which is killed: the picture of the group is taken while
the others wait, the list of groups as well; what a restart would cost is predicted once they have gone on.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from playwright.async_api import Page

from coterie.broker.broker import Broker
from coterie.broker.settings import BrokerSettings
from coterie.broker.web.http import HttpServer
from coterie.cli.broker_pages import console_of
from coterie.client import Admin, Consumer, Producer
from coterie_conformance.console.browser import chromium, opened

NAMES = ("anna", "ben", "cleo")
SETTINGS = {"session.timeout.ms": "20000", "heartbeat.interval.ms": "1000", "auto.commit.interval.ms": "1000"}
SIZE = {"width": 1180, "height": 1000}
REPORT_SIZE = {"width": 1040, "height": 900}
LOGS = Path(__file__).parents[2] / "pipeline" / "server_logs" / "4.3.0"
PICTURES = ("console-groups.png", "console-group.png", "console-what-if.png", "console-topic.png", "history.png")


@contextlib.asynccontextmanager
async def member(server: str, name: str, group: str = "crew") -> AsyncIterator[asyncio.subprocess.Process]:
    """A consumer as a process, killed at the end."""
    settings = [word for key, value in ({"client.id": name} | SETTINGS).items() for word in ("--set", f"{key}={value}")]
    command = ["-m", "coterie", "consume", "flights", "--group", group, "--from-beginning", "-b", server, *settings]
    process = await asyncio.create_subprocess_exec(sys.executable, *command, stdout=asyncio.subprocess.DEVNULL)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def _produce(server: str) -> None:
    async with Producer({"bootstrap.servers": server}) as producer:
        for n in range(10**9):
            value = f'{{"flight": {1000 + n}, "from": "EWR", "to": "{("IAH", "MIA", "ORD")[n % 3]}"}}'
            await producer.send(
                "flights", value.encode(), f"N{n % 997}".encode(), headers=[("source", b"nycflights13")]
            )
            await asyncio.sleep(0.02)


async def _other_groups(server: str) -> None:
    async with Admin({"bootstrap.servers": server}) as admin:
        partitions = await admin.partitions(["flights"])
    for group in ("billing", "delays", "audit"):
        async with Consumer({"bootstrap.servers": server, "group.id": group}) as consumer:
            await consumer.assign(partitions)
            await consumer.commit(dict.fromkeys(partitions, 3))


async def _until(page: Page, state: str) -> None:
    await page.wait_for_selector(f"#clock:has-text('{state}')", timeout=120_000)


async def _command(*words: str) -> None:
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "coterie", *words)
    assert await process.wait() == 0, words


async def take_report(folder: Path, data: Path) -> None:
    """A report of the logs of Apache Kafka 4.3.0, with its third rebalance selected."""
    history, logs = str(data / "history"), ("--from-log", str(LOGS), "--server-log", str(LOGS / "server.log"))
    await _command("pipeline", "history", *logs, "--out", history)
    await _command("pipeline", "report", "crew", "--history", history, "--out", str(data))
    await take_page(data / "report.html", folder / "history.png")


async def take_page(report: Path, picture: Path) -> None:
    """The whole page of a report, with its third rebalance selected."""
    async with chromium() as browser:
        page = await browser.new_page(viewport=REPORT_SIZE)
        await page.goto(report.as_uri())
        await page.evaluate("document.querySelector('.timeline').timeline.select(2)")
        await page.wait_for_selector(".timeline-details h3")
        await asyncio.sleep(0.5)  # the picture is drawn with the next frame
        await page.screenshot(path=picture, full_page=True)


async def take_console(folder: Path, data: Path) -> None:
    """The pictures of the console; ``data`` is the broker's."""
    broker = Broker(BrokerSettings({"group.initial.rebalance.delay.ms": "0"}), data)
    host, port = await broker.start("127.0.0.1", 0)
    server = f"{host}:{port}"
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(broker.stop)
        address = await broker.serve_http(HttpServer(broker, (), console_of(broker, host, port)), "127.0.0.1", 0)
        url = f"http://{address[0]}:{address[1]}"
        async with Admin({"bootstrap.servers": server}) as admin:
            await admin.create_topic("flights", 6, {"retention.ms": "86400000"})
        producing = asyncio.create_task(_produce(server))
        stack.callback(producing.cancel)
        await _other_groups(server)
        processes = []
        browser = await stack.enter_async_context(chromium())
        page = await stack.enter_async_context(opened(browser, url, "/console/groups/crew", viewport=SIZE))
        groups = await stack.enter_async_context(opened(browser, url, "/console", viewport=SIZE | {"height": 420}))
        for name in NAMES:
            processes.append(await stack.enter_async_context(member(server, name)))
            await page.wait_for_selector(f"#members .tall .row:has-text('{name}')", timeout=120_000)
            await asyncio.sleep(3)
        await _until(page, "Stable")
        await page.reload()
        await asyncio.sleep(8)
        processes[1].kill()
        processes.append(await stack.enter_async_context(member(server, "dora")))
        await page.wait_for_selector("#verdict:has-text('wait')", timeout=120_000)
        await asyncio.sleep(2)
        await groups.wait_for_selector(".mark.waits", timeout=60_000)
        await page.screenshot(path=folder / "console-group.png")
        await groups.screenshot(path=folder / "console-groups.png")
        await _until(page, "Stable")
        await page.click("#what-if [name=go]")
        await page.wait_for_selector("#what-if-result:not([hidden])", timeout=120_000)
        await asyncio.sleep(1)
        await page.locator("section:has(> #what-if-title)").screenshot(path=folder / "console-what-if.png")
        async with opened(browser, url, "/console/topics/flights", viewport=SIZE | {"height": 620}) as topic:
            await topic.wait_for_selector("#records tbody tr")
            await topic.wait_for_selector("#replicas .tall .row")
            await topic.click("#records summary")
            await topic.screenshot(path=folder / "console-topic.png")
