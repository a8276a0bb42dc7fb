"""10,000 groups of ten members in the console: `python -m tests.web.in_browser.many_groups` prints their cost on this machine.

First paint and first rows after the page is opened, frames a second while it scrolls, when a change is seen, the share of a
core that an update a second takes of the process that serves it, and each minute the heap and the nodes that the page holds
after a garbage collection. `python -m tests.web.in_browser.many_groups 600` for ten minutes.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from typing import Any

from aiohttp import web
from playwright.async_api import CDPSession

from coterie.coordinator.journal.line import JournalLine
from coterie.web.handed_feed import HandedFeed
from coterie.web.server import Console
from coterie_conformance.console.browser import chromium, opened
from tests.web.feeds import line

GROUPS, MEMBERS = 10_000, 10
SECONDS, MINUTE_S = 10, 60
FIRST_ROW = """
new MutationObserver((changes, observer) => {
  if (!document.querySelector('#groups .tall .row .name, #groups .tall .row a')) return;
  window.firstRowMs = performance.now();
  observer.disconnect();
}).observe(document, {childList: true, subtree: true});
"""
SCROLL = """
() => new Promise((done) => {
  const scroll = document.querySelector('#groups .scroll');
  const began = performance.now();
  let frames = 0;
  const step = (now) => {
    frames += 1;
    scroll.scrollTop += 300;
    if (now - began < 3000) requestAnimationFrame(step);
    else done(frames / ((now - began) / 1000));
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


async def held(devtools: CDPSession, at_s: int) -> dict[str, float]:
    """What the page holds after a garbage collection."""
    await devtools.send("HeapProfiler.collectGarbage")
    heap, nodes = await devtools.send("Runtime.getHeapUsage"), await devtools.send("Memory.getDOMCounters")
    return {f"heap after {at_s} s, MB": heap["usedSize"] / 1e6, f"nodes after {at_s} s": nodes["nodes"]}


async def measured(seconds: int = SECONDS) -> dict[str, float]:
    """The figures, by their names."""
    groups = ManyGroups()
    runner, url = await served(groups)
    figures: dict[str, float] = {}
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
            figures["first paint, ms"] = paint
            figures["first rows, ms"] = await page.evaluate("window.firstRowMs")
            figures["frames a second while scrolling"] = await page.evaluate(SCROLL)
            figures["elements of rows"] = await page.evaluate("document.querySelectorAll('#groups .tall .row').length")
            await page.select_option("#sort", "rebalance")
            changed_s = time.perf_counter()
            groups.rebalance("group-09999")
            await page.wait_for_selector(".row[aria-rowindex='2']:has-text('group-09999')")
            figures["a change is seen after, ms"] = 1000 * (time.perf_counter() - changed_s)
            devtools = await context.new_cdp_session(page)
            figures |= await held(devtools, 0)
            began_s, busy_s = time.perf_counter(), time.process_time()
            for n in range(seconds):
                groups.rebalance(f"group-{n:05}")
                await asyncio.sleep(1)
                if (n + 1) % MINUTE_S == 0:
                    figures |= await held(devtools, n + 1)
            share = (time.process_time() - busy_s) / (time.perf_counter() - began_s)
            figures["share of a core for an update a second, %"] = 100 * share
            figures |= await held(devtools, seconds)
            await context.close()
    finally:
        await runner.cleanup()
    return figures


if __name__ == "__main__":
    for name, value in asyncio.run(measured(int(sys.argv[1]) if len(sys.argv) > 1 else SECONDS)).items():
        print(f"{name}: {value:.1f}")
