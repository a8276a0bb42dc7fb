"""What the console's pages hold, minute by minute: `python -m tests.web.in_browser.page_memory 10` takes ten real minutes.

The list of 10,000 groups with an update a second, and the page of a group that commits each second and has a rebalance each
minute, each in a browser of its own. For each minute it prints the heap and the nodes of the page after a garbage collection,
and the resident memory of the browser's renderer processes, as docs/results/console-memory.json has them.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable

from playwright.async_api import Browser, Page

from coterie_conformance.bench.measure import results_of
from coterie_conformance.bench.measurement import Measurement, resident_mb
from coterie_conformance.console.browser import chromium, opened
from tests.web.explanations import explanation
from tests.web.feeds import HandFeed, line
from tests.web.feeds import served as served_by_hand
from tests.web.in_browser.many_groups import ManyGroups, served

MINUTES, MINUTE_S, REBALANCE_S = 10, 60, 3


async def held(browser: Browser, page: Page, name: str) -> list[Measurement]:
    """What the page holds after a garbage collection, and what its browser's renderers hold."""
    devtools, whole = await page.context.new_cdp_session(page), await browser.new_browser_cdp_session()
    await devtools.send("HeapProfiler.collectGarbage")
    heap, counters = await devtools.send("Runtime.getHeapUsage"), await devtools.send("Memory.getDOMCounters")
    processes = (await whole.send("SystemInfo.getProcessInfo"))["processInfo"]
    resident = sum(resident_mb(process["id"]) for process in processes if process["type"] == "renderer")
    await devtools.detach()
    await whole.detach()
    return [
        Measurement(f"{name}, heap", heap["usedSize"] / 1e6, "MB"),
        Measurement(f"{name}, nodes", counters["nodes"], ""),
        Measurement(f"{name}, resident", resident, "MiB"),
    ]


async def by_minute(name: str, url: str, path: str, change: Callable[[int], None], minutes: int) -> list[Measurement]:
    """The figures of one page, with a change a second."""
    rows: list[Measurement] = []
    async with chromium() as browser, opened(browser, url, path) as page:
        await page.wait_for_selector(".tall .row")
        began_s = time.monotonic()
        for second in range(minutes * MINUTE_S + 1):
            await asyncio.sleep(max(began_s + second - time.monotonic(), 0))
            change(second)
            if second % MINUTE_S == 0:
                rows += await held(browser, page, f"{name}, minute {second // MINUTE_S}")
    return rows


def group_that_changes(feed: HandFeed) -> Callable[[int], None]:
    """Commits each second, and a rebalance at the start of each minute, after which partitions have changed hands."""
    began_ms = int(time.time() * 1000)

    def change(second: int) -> None:
        now_ms, generation = began_ms + second * 1000, 3 + second // MINUTE_S
        since_s = second % MINUTE_S
        if since_s == 0:
            feed.memory.take(line("crew", "rebalance_started", now_ms))
        if since_s == REBALANCE_S:
            owners = {"anna": {"orders": [generation % 3]}, "ben": {"orders": [(generation + 1) % 3]}}
            feed.memory.take(line("crew", time_ms=now_ms, owners=owners))
        state = "PreparingRebalance" if since_s < REBALANCE_S else "Stable"
        now = explanation("crew", state=state, in_state_ms=since_s * 1000, generation=generation)
        for partition in now["partitions"]:
            partition["committed"] += second
            partition["end"] += second
        feed.explanations["crew"] = now

    change(0)
    return change


async def measured(minutes: int) -> list[Measurement]:
    """Both pages at once."""
    groups, feed = ManyGroups(), HandFeed()
    names = groups.names()
    runner, list_url = await served(groups)
    try:
        async with served_by_hand(feed) as group_url:
            of_list, of_group = await asyncio.gather(
                by_minute(
                    "list of groups",
                    list_url,
                    "/console",
                    lambda second: groups.rebalance(names[second % len(names)]),
                    minutes,
                ),
                by_minute("page of a group", group_url, "/console/groups/crew", group_that_changes(feed), minutes),
            )
    finally:
        await runner.cleanup()
    return of_list + of_group


if __name__ == "__main__":
    minutes = int(sys.argv[1]) if len(sys.argv) > 1 else MINUTES
    command = f"python -m tests.web.in_browser.page_memory {minutes}"
    print(json.dumps(results_of(asyncio.run(measured(minutes)), command), indent=1))
