"""10,000 groups of ten members in the console: `python -m tests.web.in_browser.many_groups` prints their cost on this machine.

First paint and first rows after the page is opened, frames a second while it scrolls and the processor time of one, when a
change is seen, and the share of a core that an update a second takes of the process that serves it.
`page_memory` has its memory.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any

from aiohttp import web
from playwright.async_api import Browser

from coterie.coordinator.journal.line import JournalLine
from coterie.web.feeds.handed_feed import HandedFeed
from coterie.web.server import Console
from coterie_conformance.bench.measure import results_of
from coterie_conformance.bench.measurement import Measurement, cpu_seconds
from coterie_conformance.console.browser import chromium, opened
from tests.web.feeds import line

GROUPS, MEMBERS, SECONDS = 10_000, 10, 30
FIRST_ROW = """
new MutationObserver((changes, observer) => {
  if (!document.querySelector('#groups .tall .row .name, #groups .tall .row a')) return;
  window.firstRowMs = performance.now();
  observer.disconnect();
}).observe(document, {childList: true, subtree: true});
"""
ROWS = "document.querySelectorAll('#groups .tall .row').length"
SCROLL = """
() => new Promise((done) => {
  const scroll = document.querySelector('#groups .scroll');
  const began = performance.now();
  let frames = 0;
  const step = (now) => {
    frames += 1;
    scroll.scrollTop += 300;
    if (now - began < 3000) requestAnimationFrame(step);
    else done([frames, (now - began) / 1000]);
  };
  requestAnimationFrame(step);
})
"""


class ManyGroups:
    """What a broker with them would hand. ``count``: how many; ``listeners`` take the lines."""

    def __init__(self, count: int = GROUPS) -> None:
        self.generations = {f"group-{n:05}": 1 for n in range(count)}
        self.listeners: list[Callable[[JournalLine], None]] = []

    def now_ms(self) -> int:
        return int(time.time() * 1000)

    def names(self) -> list[str]:
        return list(self.generations)

    def group(self, name: str) -> Any:
        generation = self.generations.get(name)
        if generation is None:
            return None
        lags = [(("orders", partition), 100, partition) for partition in range(MEMBERS)]
        return ("consumer", "Stable", MEMBERS, generation, 1_000), lags

    def figures(self) -> dict[str, Any]:
        return {}

    def explain(self, name: str) -> None:
        return None

    async def listen(self, take: Callable[[JournalLine], None]) -> Any:
        self.listeners.append(take)
        yield [line(name) for name in self.generations]

    def rebalance(self, name: str) -> None:
        """A generation more."""
        self.generations[name] += 1
        for take in self.listeners:
            take(line(name, time_ms=self.now_ms()))


async def served(groups: ManyGroups) -> tuple[web.AppRunner, str]:
    """The console over those groups, as in a broker's process."""
    feed = HandedFeed(groups, {"bootstrap.servers": "127.0.0.1:1"})  # type: ignore[arg-type]
    app = web.Application()
    Console(feed).add_to(app)
    app.cleanup_ctx.append(feed.running)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    feed.memory.readers += 1  # as if a page had listened for long
    while len(feed.memory.rows) < len(groups.generations):
        feed.update(time.perf_counter)
        await asyncio.sleep(0)
    feed.memory.readers -= 1
    return runner, f"http://127.0.0.1:{runner.addresses[0][1]}"


async def busy_seconds(browser: Browser) -> float:
    """Processor time so far, of all processes of the browser."""
    devtools = await browser.new_browser_cdp_session()
    processes = (await devtools.send("SystemInfo.getProcessInfo"))["processInfo"]
    await devtools.detach()
    return sum(cpu_seconds(process["id"]) for process in processes)


async def measured() -> list[Measurement]:
    """The figures, with what they are to be."""
    groups = ManyGroups()
    runner, url = await served(groups)
    rows: list[Measurement] = []

    def add(name: str, value: float, unit: str, aim: float | None = None, *, lower_is_better: bool = True) -> None:
        rows.append(Measurement(name, value, unit, aim, lower_is_better))

    try:
        async with chromium() as browser:
            async with opened(browser, url, "/console") as warm:
                await warm.wait_for_selector("#groups .tall .row")
            context = await browser.new_context(viewport={"width": 1280, "height": 900})
            page = await context.new_page()
            await page.add_init_script(FIRST_ROW)
            await page.goto(f"{url}/console")
            await page.wait_for_selector("#groups .tall .row")
            paint = await page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
            add("console, first paint", paint, "ms", 500)
            add("console, first rows", await page.evaluate("window.firstRowMs"), "ms")
            busy_s = await busy_seconds(browser)
            frames, lasting_s = await page.evaluate(SCROLL)
            busy_s = await busy_seconds(browser) - busy_s
            add("console, frames a second while it scrolls", frames / lasting_s, "", 50, lower_is_better=False)
            add("console, the browser's processor time for a frame", 1000 * busy_s / frames, "ms", 20)
            add("console, elements of rows", await page.evaluate(ROWS), "")
            await page.select_option("#sort", "rebalance")
            changed_s = time.perf_counter()
            groups.rebalance("group-09999")
            await page.wait_for_selector(".row[aria-rowindex='2']:has-text('group-09999')")
            add("console, a change is seen after", time.perf_counter() - changed_s, "s", 2)
            began_s, busy_s = time.perf_counter(), time.process_time()
            for n in range(SECONDS):
                groups.rebalance(f"group-{n:05}")
                await asyncio.sleep(1)
            share = (time.process_time() - busy_s) / (time.perf_counter() - began_s)
            add("console, share of a core for an update a second", 100 * share, "%", 2)
            await context.close()
    finally:
        await runner.cleanup()
    return rows


if __name__ == "__main__":
    document = results_of(asyncio.run(measured()), "python -m tests.web.in_browser.many_groups")
    print(json.dumps(document, indent=1))
