"""The timeline in a real browser: in a report, which needs no network, and on the live page."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page

from coterie.console.page import page as report_page
from coterie.console.timeline_page import timeline_section
from coterie.coordinator.journal.journal_timeline import JournalTimeline
from coterie.coordinator.journal.line import JournalLine
from coterie.coordinator.journal.timeline import Timeline, TimelineMark
from coterie_conformance.console.browser import chromium, opened, violations
from tests.web.feeds import HandFeed, row, served
from tests.web.in_browser import in_a_browser

pytestmark = [pytest.mark.slow, in_a_browser]

BEGIN_MS = 1_764_000_000_000
HOSTILE = ("<script>document.title='run'</script>", "\u202egnirts", "\x1b[31mred", "<b>bold</b>" * 3_000)
VIEW = "document.querySelector('.timeline').timeline"


def lines(
    generations: int = 3, partitions: int = 6, members: tuple[str, ...] = ("anna", "ben", "cleo")
) -> list[JournalLine]:
    """A rebalance each 20 s, of two seconds, with one member more each time."""
    made: list[JournalLine] = []
    for number in range(generations):
        now_ms, present = BEGIN_MS + number * 20_000, members[: number + 1] or members
        causes = [{"kind": "member_joined", "member_id": present[-1], "client_id": present[-1]}]
        start = JournalLine(now_ms, "crew", number, "rebalance_started", "Stable", "PreparingRebalance", causes=causes)
        formed = JournalLine(
            now_ms + 1_500, "crew", number + 1, "generation_formed", "PreparingRebalance", "CompletingRebalance"
        )
        stable = JournalLine(
            now_ms + 2_000, "crew", number + 1, "stable", "CompletingRebalance", "Stable", causes=causes
        )
        stable.members, stable.moved_count, stable.unowned_ms, stable.join_ms, stable.sync_ms = (
            len(present),
            2,
            12_000,
            1_500,
            500,
        )
        stable.owners = {
            member: {"flights": [n for n in range(partitions) if n % len(present) == index]}
            for index, member in enumerate(present)
        }
        made += [start, formed, stable]
    return made


def timeline_of(made: list[JournalLine]) -> Timeline:
    timeline = JournalTimeline("crew")
    for line in made:
        timeline.add(line)
    timeline.timeline.reach(BEGIN_MS + 80_000)
    return timeline.timeline


@asynccontextmanager
async def report(folder: Path, timeline: Timeline, fragment: str = "", **context: Any) -> AsyncIterator[Page]:
    path = folder / "report.html"
    path.write_text(report_page("Group crew", "", [timeline_section("Owners", "", timeline)]))
    async with chromium() as browser, opened(browser, "file://", f"{path}{fragment}", **context) as page:
        yield page


async def colours_of(page: Page) -> int:
    """How many colours the picture has."""
    script = """() => { const canvas = document.querySelector('canvas'), seen = new Set();
      const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
      for (let i = 0; i < data.length; i += 4) seen.add(data[i] << 16 | data[i + 1] << 8 | data[i + 2]);
      return seen.size; }"""
    await page.evaluate(f"{VIEW}.paint()")
    return int(await page.evaluate(script))


async def point(page: Page, seconds: float, lane: int | None = 0) -> tuple[float, float]:
    """The position of a time in a lane; None: above the lanes."""
    box = await page.locator("canvas").bounding_box()
    assert box is not None
    x = await page.evaluate(f"{VIEW}.drawing.x({BEGIN_MS + seconds * 1000})")
    return box["x"] + x, box["y"] + (28 if lane is None else 46 + lane * 20 + 10)


async def test_a_report_draws_hovers_zooms_and_steps_by_the_keyboard(tmp_path: Path) -> None:
    timeline = timeline_of(lines())
    timeline.moments.append(TimelineMark(BEGIN_MS + 30_000, "ben is killed"))
    async with report(tmp_path, timeline) as page:
        assert await colours_of(page) > 8, "blank"
        await page.mouse.move(*await point(page, 10, 0))
        tip = page.locator(".timeline-tip")
        assert (await tip.inner_text()).splitlines()[1] == "flights-0: anna"
        await page.mouse.move(*await point(page, 41, 3))
        assert "flights-3: unowned for 2.0 s" in await tip.inner_text()
        assert "generation 3: cleo joined" in await tip.inner_text()
        x, y = await point(page, 30, None)
        await page.mouse.move(x, y - 10)
        assert "ben is killed" in await tip.inner_text()

        await page.mouse.click(*await point(page, 21, 0))
        assert await page.locator(".timeline-details h3").inner_text() == "Rebalance 2 of 3: generation 2"
        facts = await page.locator(".timeline-details dl").inner_text()
        for fact in (
            "ben joined",
            "2.0 s",
            "1.5 s: the coordinator waits for the members",
            "12.0 s, summed over",
            "anna → ben",
        ):
            assert fact in facts
        await page.keyboard.press("ArrowRight")
        assert "generation 3" in await page.locator(".timeline-details h3").inner_text()
        await page.keyboard.press("Home")
        assert "Rebalance 1 of 3" in await page.locator(".timeline-details h3").inner_text()

        await page.mouse.move(*await point(page, 35, 1))
        await page.mouse.down()
        await page.mouse.move(*await point(page, 45, 1), steps=3)
        await page.mouse.up()
        begin, end = await page.evaluate(f"[{VIEW}.from, {VIEW}.to]")
        assert abs(begin - BEGIN_MS - 35_000) < 500
        assert abs(end - BEGIN_MS - 45_000) < 500
        await page.keyboard.press("0")
        assert await page.evaluate(f"{VIEW}.to - {VIEW}.from") > 80_000


async def test_a_moment_is_in_the_address_and_opens_again(tmp_path: Path) -> None:
    async with report(tmp_path, timeline_of(lines())) as page:
        await page.locator(".timeline-plot").focus()
        await page.keyboard.press("End")
        await page.keyboard.press("Enter")
        await page.keyboard.press("m")
        address = await page.evaluate("location.hash")
    async with report(tmp_path, timeline_of(lines()), address) as page:
        assert "Rebalance 3 of 3" in await page.locator(".timeline-details h3").inner_text()
        assert await page.get_by_role("button", name="By member").get_attribute("aria-pressed") == "true"
        assert await page.evaluate(f"{VIEW}.to - {VIEW}.from") < 10_000


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1600])
async def test_a_report_is_accessible_and_no_wider_than_its_window(width: int, scheme: str, tmp_path: Path) -> None:
    size = {"width": width, "height": 900}
    async with report(tmp_path, timeline_of(lines()), viewport=size, color_scheme=scheme) as page:
        await page.evaluate(f"{VIEW}.select(1)")
        await page.get_by_role("button", name="Table").click()
        rows = await page.locator(".timeline-table tbody").first.locator("tr").count()
        assert rows == 3, "what the picture shows stands in a table"
        assert await violations(page) == []
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        background = await page.evaluate(f"{VIEW}.colours.paper")
        assert (background == "rgb(255, 255, 255)") == (scheme == "light")


async def test_a_reader_of_chinese_and_one_without_javascript(tmp_path: Path) -> None:
    async with report(tmp_path, timeline_of(lines()), locale="zh-CN") as page:
        await page.evaluate(f"{VIEW}.select(1)")
        assert "第 2 次重平衡" in await page.locator(".timeline-details").inner_text()
        assert "ben 加入" in await page.locator(".timeline-details").inner_text()
    async with report(tmp_path, timeline_of(lines()), java_script_enabled=False) as page:
        assert "anna (2.0 to 80.0 s)" in await page.locator(".timeline table").inner_text()


async def test_hostile_names_are_text(tmp_path: Path) -> None:
    made = lines(members=HOSTILE[:3])
    made[0].causes[0]["reason"] = HOSTILE[3]
    for line in made:
        line.group = HOSTILE[0]
    timeline = JournalTimeline(HOSTILE[0])
    for line in made:
        timeline.add(line)
    async with report(tmp_path, timeline.timeline) as page:
        await page.evaluate(f"{VIEW}.select(0)")
        await page.get_by_role("button", name="Table").click()
        await page.mouse.move(*await point(page, 10, 0))
        assert await page.title() == "Group crew"
        assert await page.locator("b").count() == 0
        legend = await page.locator(".timeline-legend").inner_text()
        assert HOSTILE[0] in legend
        assert "\\u202e" in legend
        assert "\\x1b[31mred" in legend


async def test_what_is_drawn_of_a_large_group_is_what_its_pixels_show(tmp_path: Path) -> None:
    """Two thousand partitions over days with thousands of rebalances: a drawing takes time by its lanes and pixels, not by the
    length of the history."""
    timeline = timeline_of(lines(generations=1, partitions=2_000))
    drawn: list[int] = []
    for count in (4_000, 16_000):
        document = timeline.document()
        first = document["rebalances"][0]
        for number in range(1, count):
            by = number * 216_000
            phases = [[state, begin + by, end + by] for state, begin, end in first["phases"]]
            document["rebalances"].append(first | {"generation": number, "phases": phases})
            document["unowned"].append([[0, 1_999], BEGIN_MS + by, BEGIN_MS + by, BEGIN_MS + by + 2_000])
        document["end_ms"] = BEGIN_MS + count * 216_000
        async with report(tmp_path, timeline) as page:
            script = f"""(text) => {{
                  const view = {VIEW}, kind = CanvasRenderingContext2D.prototype, fill = kind.fillRect;
                  let filled = 0;
                  view.replace(JSON.parse(text));
                  kind.fillRect = function (...box) {{ filled += 1; fill.apply(this, box); }};
                  view.paint();
                  view.plot.scrollTop = 20_000;
                  view.paint();
                  return [filled, view.canvas.clientWidth]; }}"""
            filled, width = await page.evaluate(script, json.dumps(document))
            drawn.append(filled)
            assert filled < 2 * 28 * width * 1.1, "twice 28 lanes, each at most once for each pixel"
    assert drawn[1] < drawn[0] * 1.1, drawn


async def test_a_live_page_shows_what_changes(tmp_path: Path) -> None:
    feed, made = HandFeed(), lines()
    feed.memory.rows.put(row("crew"))
    for line in made[:3]:
        feed.memory.journal.add(line)
    async with served(feed) as url, chromium() as browser, opened(browser, url, "/console/groups/crew") as page:
        summary = page.locator(".timeline-details")
        await summary.get_by_text("Rebalances: 1. Members: 1.").wait_for(timeout=10_000)
        for line in made[3:]:
            feed.memory.journal.add(line)
        await summary.get_by_text("Rebalances: 3. Members: 3.").wait_for(timeout=10_000)
        await page.locator(".timeline-plot").focus()
        await page.keyboard.press("End")
        assert "-at" in await page.evaluate("location.hash")
        await page.reload()
        await page.locator(".timeline-details h3").wait_for(timeout=10_000)
        assert "Rebalance 3 of 3" in await page.locator(".timeline-details h3").inner_text()


async def test_a_page_that_was_open_before_its_group_begins_with_the_group(tmp_path: Path) -> None:
    feed = HandFeed()
    feed.memory.rows.put(row("crew"))
    async with served(feed) as url, chromium() as browser, opened(browser, url, "/console/groups/crew") as page:
        await page.locator(".timeline-plot").wait_for()
        by_ms = await page.evaluate("Date.now()") - BEGIN_MS - 60_000
        for line in lines():
            feed.memory.journal.add(replace(line, time_ms=line.time_ms + by_ms))
        await page.locator(".timeline-details").get_by_text("Rebalances: 3. Members: 3.").wait_for(timeout=10_000)
        await page.locator(".timeline-plot").focus()
        await page.keyboard.press("m")  # what is shown, in the address
        begin, end = map(int, (await page.evaluate("location.hash")).strip("#").split("-")[:2])
        assert abs(BEGIN_MS + by_ms - begin) < (end - begin) * 0.05, "no empty minutes before it"


@pytest.mark.parametrize("members", [(), ("dora",)], ids=["nobody", "one"])
async def test_a_history_that_begins_again_with_fewer_owners_and_lanes_is_drawn(
    members: tuple[str, ...], tmp_path: Path
) -> None:
    """What a journal has forgotten: the page is sent what is left of it, and must not draw the names of before."""
    left = timeline_of(lines(1, 2, members)) if members else Timeline("crew")
    async with report(tmp_path, timeline_of(lines())) as page:
        await page.evaluate(f"left => {VIEW}.replace(left)", left.document(str))
        await page.evaluate("() => new Promise(requestAnimationFrame)")
        legend = await page.locator(".timeline-legend button").all_inner_texts()
        assert legend == list(members)
        assert await page.evaluate(f"{VIEW}.shown.length") == 2 * len(members)
