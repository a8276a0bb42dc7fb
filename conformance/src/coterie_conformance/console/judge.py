"""`coterie console` over one cluster, in a browser: whether each page is right, whether a change is seen in time, and whether
the pages recover from a broker that dies and comes back."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from playwright.async_api import Browser, BrowserContext, Page
from playwright.async_api import Error as BrowserError

from coterie.client import KafkaError
from coterie_conformance.console.browser import Complaints, chromium
from coterie_conformance.console.clusters import GROUP, PARTITIONS, TOPIC, ShownCluster, ShownWork, at_work
from coterie_conformance.servers.kafka import CannotRun, end

SEEN_S = 2.0  # within which a change must be on the page
SHOWN_S, RECOVERED_S = 30.0, 60.0
COMMAND = [sys.executable, "-m", "coterie", "console", "--listen", "127.0.0.1:0"]
OVERVIEW, ONE_GROUP, TOPICS = "/console", f"/console/groups/{GROUP}", "/console/topics"
ONE_TOPIC, BROKERS = f"/console/topics/{TOPIC}", "/console/brokers"
CELLS = """(selector) => [...document.querySelectorAll(selector)].filter((cell) => cell.checkVisibility())
  .map((cell) => cell.innerText)"""
ROW_HAS = """([list, name, column, wanted]) => [...document.querySelectorAll(`#${list} .tall .row`)].some((row) =>
  row.checkVisibility() && row.innerText.includes(name) && row.querySelector(`.cell.${column}`).innerText.includes(wanted))"""
IS_CALM = (
    "() => document.getElementById('trouble').hidden && document.getElementById('status').classList.contains('on')"
)


@dataclass(frozen=True, slots=True)
class ConsoleCheck:
    """``wrong`` is empty where it is right; ``seconds``: after how long a change was on the page."""

    name: str
    wrong: str
    seconds: float | None = None


class ConsoleJudge:
    """``report`` hears of each check."""

    def __init__(
        self,
        cluster: ShownCluster,
        work: ShownWork,
        open_page: Callable[[str], Awaitable[Page]],
        report: Callable[[ConsoleCheck], None],
    ) -> None:
        self._cluster, self._work, self._open, self._report = cluster, work, open_page, report
        self.complaints = Complaints()

    async def run(self) -> None:
        """Every check; the pages stay open."""
        self.pages = {path: await self._open(path) for path in (OVERVIEW, ONE_GROUP, TOPICS, ONE_TOPIC, BROKERS)}
        await self._check("the groups", self._groups())
        await self._check("a group", self._group())
        await self._check("the topics", self._row(TOPICS, "topics", TOPIC, "replicas", str(self._cluster.brokers)))
        await self._check("a topic with its records", self._topic())
        await self._check("the brokers", self._brokers())
        await self._changes()
        self._report(ConsoleCheck("no complaint of the browser", "; ".join(self.complaints.seen[:5])))
        await self._check("a broker dies and comes back", self._death())
        await self._check("a change after that", self._joins("dora", 3), SEEN_S)

    async def _check(self, name: str, work: Awaitable[float | None], within_s: float | None = None) -> None:
        try:
            seconds = await work
        except (AssertionError, BrowserError, KafkaError, TimeoutError) as error:
            self._report(
                ConsoleCheck(name, f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
            )
            return
        late = seconds is not None and within_s is not None and seconds > within_s
        self._report(ConsoleCheck(name, f"seen after {seconds:.1f} s" if late else "", seconds))

    # -- what each page shows ----------------------------------------------------------------------------------------------

    async def _row(
        self, path: str, list_id: str, name: str, column: str, wanted: str, within_s: float = SHOWN_S
    ) -> None:
        await self.pages[path].wait_for_function(ROW_HAS, arg=[list_id, name, column, wanted], timeout=within_s * 1000)

    async def _cells(self, path: str, selector: str) -> list[str]:
        cells: list[str] = await self.pages[path].evaluate(CELLS, selector)
        return cells

    async def _groups(self) -> None:
        await self._row(OVERVIEW, "groups", GROUP, "state", "Stable")
        await self._row(OVERVIEW, "groups", GROUP, "members", "2")
        await self._row(OVERVIEW, "groups", GROUP, "lag", "0")

    async def _group(self) -> None:
        for name, count in self._work.owners().items():
            await self._row(ONE_GROUP, "members", name, "owned", str(count))
        for number in range(PARTITIONS):
            await self._row(ONE_GROUP, "partitions", f"{TOPIC}-{number}", "end", "1")
        owners = set(await self._cells(ONE_GROUP, "#partitions .tall .cell.owner"))
        assert owners == {"anna", "ben"}, f"owners: {owners}"
        verdict = await self.pages[ONE_GROUP].inner_text("#verdict")
        assert verdict, "no sentence"
        lanes = await self.pages[ONE_GROUP].evaluate("document.getElementById('timeline').timeline.model.lanes.length")
        assert lanes == PARTITIONS, f"{lanes} lanes"

    async def _topic(self) -> None:
        described = (await self._work.admin.describe_topics([TOPIC]))[TOPIC]
        for partition in described.partitions:
            assert partition.leader is not None
            await self._row(ONE_TOPIC, "replicas", str(partition.partition), "leader", str(partition.leader.id))
        replicas = ", ".join(str(node.id) for node in described.partitions[0].replicas)
        await self._row(ONE_TOPIC, "replicas", "0", "replicas", replicas)
        page = self.pages[ONE_TOPIC]
        await page.wait_for_selector("#records tbody tr", timeout=SHOWN_S * 1000)
        assert '"flight": 0' in await page.inner_text("#records tbody")

    async def _brokers(self) -> None:
        page = self.pages[BROKERS]
        await page.wait_for_selector("#brokers tbody tr", timeout=SHOWN_S * 1000)
        shown = await self._cells(BROKERS, "#brokers tbody tr td:nth-child(2)")
        addresses = {f"{node.host}:{node.port}" for node in (await self._work.admin.describe_cluster()).nodes}
        assert set(shown) == addresses, f"{shown}"

    # -- changes -----------------------------------------------------------------------------------------------------------

    async def _changes(self) -> None:
        await self._check("a member joins", self._joins("cleo", 3), SEEN_S)
        await self._check("a member leaves", self._leaves("cleo", 2), SEEN_S)
        await self._check(
            "a record, on the page of the group", self._written(ONE_GROUP, "partitions", f"{TOPIC}-1"), SEEN_S
        )
        await self._check("a record, on the page of the topic", self._written(ONE_TOPIC, "replicas", "1"), SEEN_S)
        await self._check("a topic", self._created("later"), SEEN_S)

    async def _joins(self, name: str, members: int) -> float:
        await self._work.join(name)
        return await self._members(members, name)

    async def _leaves(self, name: str, members: int) -> float:
        await self._work.leave(name)
        return await self._members(members)

    async def _members(self, count: int, name: str = "") -> float:
        """Until both pages have so many members, and the group's page that one."""
        began_s = time.monotonic()
        await asyncio.gather(
            self._row(OVERVIEW, "groups", GROUP, "members", str(count)),
            self.pages[ONE_GROUP].wait_for_function(
                """([count, name]) => { const rows = [...document.querySelectorAll('#members .tall .row')]
                  .filter((row) => row.checkVisibility());
                  return rows.length === count && rows.some((row) => row.innerText.includes(name)); }""",
                arg=[count, name],
                timeout=SHOWN_S * 1000,
            ),
        )
        return time.monotonic() - began_s

    async def _written(self, path: str, list_id: str, name: str) -> float:
        offset = await self._work.write("{}", 1)
        began_s = time.monotonic()
        await self._row(path, list_id, name, "end", str(offset + 1))
        return time.monotonic() - began_s

    async def _created(self, name: str) -> float:
        await self._work.admin.create_topic(name, 2, replication_factor=self._cluster.brokers)
        began_s = time.monotonic()
        await self._row(TOPICS, "topics", name, "count", "2")
        return time.monotonic() - began_s

    # -- a death -----------------------------------------------------------------------------------------------------------

    async def _death(self) -> float:
        """The coordinator's, where it may die. Each page reports the absence of a lone broker; of several the group goes on."""
        coordinator, killable = await self._work.coordinator(), self._cluster.killable
        broker = coordinator if coordinator in killable else killable[0]
        await asyncio.to_thread(self._cluster.kill, broker)
        if self._cluster.brokers == 1:
            for page in self.pages.values():
                await page.wait_for_selector("#trouble", state="visible", timeout=SHOWN_S * 1000)
        else:
            await self._work.until_whole()
            await self._row(ONE_TOPIC, "replicas", "0", "leader", "", SHOWN_S)
        await asyncio.to_thread(self._cluster.start_again, broker)
        began_s = time.monotonic()
        for path, page in self.pages.items():
            try:
                await page.wait_for_function(IS_CALM, timeout=RECOVERED_S * 1000)
            except BrowserError:
                raise AssertionError(f"{path}: {await page.inner_text('#trouble')}") from None
        await self._work.until_whole()
        await self._row(OVERVIEW, "groups", GROUP, "state", "Stable", RECOVERED_S)
        await self._row(TOPICS, "topics", TOPIC, "health", "in sync", RECOVERED_S)
        for name, count in self._work.owners().items():
            await self._row(ONE_GROUP, "members", name, "owned", str(count), RECOVERED_S)
        return time.monotonic() - began_s


@contextlib.contextmanager
def console_process(bootstrap: str, log: Path) -> Iterator[str]:
    """The URL of `coterie console`. Raises CannotRun."""
    with log.open("ab") as errors:
        process = subprocess.Popen([*COMMAND, "-b", bootstrap], stdout=subprocess.PIPE, stderr=errors)
    assert process.stdout is not None
    try:
        words = process.stdout.readline().decode().split()
        if not words:
            raise CannotRun(f"coterie console did not start; its log is {log}")
        yield words[-1].removesuffix(OVERVIEW)
    finally:
        end([process])


@contextlib.asynccontextmanager
async def _looking(
    browser: Browser, url: str, judged: list[ConsoleJudge]
) -> AsyncIterator[Callable[[str], Awaitable[Page]]]:
    """Each page in a window of its own: those behind another one of a window are drawn once a second."""
    windows: list[BrowserContext] = []

    async def opened(path: str) -> Page:
        windows.append(await browser.new_context(viewport={"width": 1280, "height": 900}, locale="en-GB"))
        page = await windows[-1].new_page()
        judged[0].complaints.watch(page, url)
        await page.goto(url + path)
        return page

    try:
        yield opened
    finally:
        for window in windows:
            await window.close()


async def judge_console(cluster: ShownCluster, folder: Path, report: Callable[[ConsoleCheck], None]) -> None:
    """Raises CannotRun, KafkaError."""
    judged: list[ConsoleJudge] = []
    async with contextlib.AsyncExitStack() as stack:
        work = await stack.enter_async_context(at_work(cluster.bootstrap, cluster.brokers))
        url = stack.enter_context(console_process(cluster.bootstrap, folder / "console.log"))
        browser = await stack.enter_async_context(chromium())
        open_page = await stack.enter_async_context(_looking(browser, url, judged))
        judged.append(ConsoleJudge(cluster, work, open_page, report))
        await judged[0].run()
