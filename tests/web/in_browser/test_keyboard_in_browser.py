"""The console by keyboard alone: signing in, and every control of every page, in each language, light and dark."""

from __future__ import annotations

import pytest

from coterie_conformance.console.browser import chromium, opened, violations
from tests.web.feeds import HandFeed, served
from tests.web.in_browser import in_a_browser
from tests.web.in_browser.test_pages_in_browser import PAGES, PATIENCE_MS, SIZES, broker_with_records, feed_of

pytestmark = [pytest.mark.slow, in_a_browser]
TOKEN = "a-token-of-the-console"
LANGUAGES = ("en-GB", "zh-CN")
# What a pointer can use and is in sight; a row's link is one of many, which the arrow keys go through.
CONTROLS = """() => [...document.querySelectorAll('a[href], button, input, select, summary, textarea, [tabindex="0"]')]
  .filter((one) => one.checkVisibility() && !one.disabled && !one.closest('.tall'))"""
MISSED = f"""() => ({CONTROLS})().filter((one) => !one.dataset.reached).map((one) => one.outerHTML.slice(0, 120))"""
REACH = """() => { const one = document.activeElement, style = getComputedStyle(one);
  one.dataset.reached = 'yes';
  return one === document.body || style.outlineStyle !== 'none' || one.className === 'skip'; }"""


@pytest.mark.parametrize("locale", LANGUAGES)
async def test_a_reader_signs_in_by_keyboard(locale: str) -> None:
    async with served(HandFeed(), token=TOKEN) as url, chromium() as browser:
        for size, scheme in SIZES:
            context = {"viewport": size, "color_scheme": scheme, "locale": locale}
            async with opened(browser, url, "/console", **context) as page:
                await page.wait_for_selector("input[name=token]:focus", timeout=PATIENCE_MS)
                assert await violations(page) == []
                await page.keyboard.type("another-token-than-it")
                await page.keyboard.press("Enter")
                await page.wait_for_selector(".awaited[role=alert]", timeout=PATIENCE_MS)
                assert await violations(page) == []
                assert not await page.evaluate("document.documentElement.scrollWidth > innerWidth")
                await page.keyboard.type(TOKEN)
                await page.keyboard.press("Enter")
                await page.wait_for_selector("#groups", timeout=PATIENCE_MS)


@pytest.mark.parametrize("path", PAGES)
async def test_every_control_of_a_page_is_reached_by_the_tab_key(path: str) -> None:
    feed = feed_of("crew", "billing")
    async with (
        broker_with_records() as feed.client,
        served(feed, allow_changes=True) as url,
        chromium() as browser,
        opened(browser, url, path) as page,
    ):
        await page.wait_for_selector(PAGES[path], timeout=PATIENCE_MS)
        count = await page.evaluate(f"({CONTROLS})().length")
        assert count > 5
        for _ in range(count + 60):  # rows in sight come between
            await page.keyboard.press("Tab")
            assert await page.evaluate(REACH), await page.evaluate("document.activeElement.outerHTML")
        assert await page.evaluate(MISSED) == []
