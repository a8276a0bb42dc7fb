"""The playground in headless Chromium: Pyodide in a worker, the hash of the desk, clicks, a way back, a dropped file."""

from __future__ import annotations

import json
import os
import re
import shutil
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page
from reference_pages.playground_site import NoRuntime, assemble, runtime, server

from coterie.laboratory.playground.lessons import LESSONS
from coterie.laboratory.playground.session import PlaygroundSession
from coterie.laboratory.playground.settings import PROTOCOLS
from coterie_conformance.console.browser import chromium, opened, violations
from tests.async_tests import went_on
from tests.laboratory.test_dropped import journal
from tests.web.in_browser import in_a_browser

pytestmark = [pytest.mark.slow, in_a_browser]

CALL = "([method, argument]) => window.playground.laboratory.call(method, argument)"
LOADED = "() => window.playground?.view != null"
END_MS = 90_000
# A wait has no end by the clock: a machine with much other work takes minutes. An error ends it, and pytest a test that hangs.
_WATCHED = """
addEventListener("error", (event) => { window.failed = event.message; });
addEventListener("unhandledrejection", (event) => { window.failed = String(event.reason); });
"""
_FAILED = "window.failed ?? [...document.querySelectorAll('#trouble:not([hidden])')].map((one) => one.textContent)[0]"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the assembled page, on loopback."""
    try:
        runtime(fetch=True)
    except NoRuntime as reason:
        if os.environ.get("CI") == "true" and shutil.which("npm"):
            raise
        pytest.skip(f"LOUD: {reason}")
    folder = tmp_path_factory.mktemp("playground")
    assert assemble(folder, fetch=False) == ""
    with server(folder, 0) as serving:
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{serving.server_port}"
        serving.shutdown()


@asynccontextmanager
async def playground(site: str, path: str = "/?language=en", **context: Any) -> AsyncIterator[Page]:
    async with chromium() as browser, opened(browser, site, path, **context) as page:
        page.set_default_timeout(0)
        await page.evaluate(_WATCHED)
        await until(page, LOADED)
        await page.evaluate("window.playground.play(false)")
        yield page


async def until(page: Page, condition: str, argument: object = None) -> None:
    """Returns once the page's function ``condition`` is true of ``argument``; fails with an error of the page, or the trouble
    that it shows."""
    await page.wait_for_function(f"argument => ({_FAILED}) !== undefined || ({condition})(argument)", arg=argument)
    assert await page.evaluate(_FAILED) is None
    went_on()


async def called(page: Page, method: str, argument: object = None) -> Any:
    result = await page.evaluate(CALL, [method, argument] if argument is not None else [method])
    return result if method == "trace_hash" else json.loads(result)


def at_the_desk(request: dict[str, Any]) -> str:
    session = PlaygroundSession()
    session.start(json.dumps(request))
    session.go(END_MS // 2)
    session.act(json.dumps({"kind": "kill", "member": "m1"}))
    session.go(END_MS)
    return session.trace_hash()


async def test_each_protocol_gives_the_trace_of_the_desk_and_no_other_host_is_asked(site: str) -> None:
    """Requests to another host, errors and warnings are complaints of `opened`."""
    async with playground(site) as page:
        for protocol in PROTOCOLS:
            request = {"settings": {"protocol": protocol, "members": 4, "seed": 7, "lost.requests.percent": 2}}
            await called(page, "start", json.dumps(request))
            await called(page, "go", END_MS // 2)
            await called(page, "act", json.dumps({"kind": "kill", "member": "m1"}))
            await called(page, "go", END_MS)
            assert await called(page, "trace_hash") == at_the_desk(request), protocol


async def test_a_reader_clicks_goes_back_and_sees_the_rule(site: str) -> None:
    async with playground(site) as page:
        await page.evaluate("window.playground.show('go', 20000)")
        await page.get_by_role("button", name="kill m2").click()
        await until(page, "() => document.querySelector('#members li.dead') !== null")
        await page.get_by_role("button", name="Add a member").click()
        await until(page, "() => document.querySelectorAll('#members li').length === 4")
        await page.evaluate("window.playground.show('go', 90000)")
        removed = page.locator("#events details", has_text="a member left or was removed: m2").first
        await removed.locator("summary").click()
        assert "KIP-62" in await removed.inner_text()
        assert "tests/spec/timers.txt: testSessionTimeout" in await removed.inner_text()
        assert "m2 was silent" in str(await page.evaluate("window.playground.timeline.model.rebalances.at(-1).why"))
        await page.get_by_role("button", name="10 s back").click()
        await until(page, "() => window.playground.view.now_ms === 80000")
        await page.evaluate("window.playground.show('go', 10000)")
        assert await page.locator("#members li").count() == 3
        await page.get_by_role("button", name="Next event").click()
        await until(page, "() => window.playground.view.now_ms > 10000")


async def test_a_lesson_plays_by_itself_in_chinese_on_a_phone_in_the_dark(site: str) -> None:
    phone = {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark", "is_mobile": True}
    async with playground(site, "/?language=zh", **phone) as page:
        assert await page.locator("#lesson option").count() == len(LESSONS)
        await page.select_option("#lesson", "5")
        await page.get_by_role("button", name="演示").click()
        await until(page, "() => window.playground.isPlaying && window.playground.view.now_ms > 500")
        await page.evaluate("window.playground.play(false)")
        await page.evaluate("window.playground.show('go', 35000)")
        verdict = await page.locator("#coordinator p").inner_text()
        assert "成员" in verdict
        assert not re.search("[a-zA-Z]{4,}", verdict), verdict
        assert "协作式" in await page.locator("#lesson-text").inner_text() + await page.locator("#lesson").inner_text()
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert not await violations(page)


async def test_it_has_no_barriers(site: str) -> None:
    async with playground(site) as page:
        await page.evaluate("window.playground.show('go', 30000)")
        assert not await violations(page)


async def test_a_dropped_journal_is_replayed_and_compared(site: str, tmp_path: Path) -> None:
    file = tmp_path / "journal.json"
    file.write_text(journal("eager"))
    async with playground(site) as page:
        await page.set_input_files("#file", file)
        await page.get_by_role("button", name="Replay it").click()
        await until(page, "() => window.playground.view.settings.members === 0")
        await page.evaluate("window.playground.show('go', 120000)")
        assert await page.locator("#members li").count() == 4
        await page.get_by_role("button", name="What it costs under each protocol").click()
        await until(page, f"() => document.querySelectorAll('#costs-of-all tbody tr').length === {len(PROTOCOLS)}")
        assert not await violations(page)


async def test_a_page_without_pyodide_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "empty"))
    assert "./run playground" in assemble(tmp_path / "site", fetch=False)
    with server(tmp_path / "site", 0) as serving:
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{serving.server_port}"
        async with chromium() as browser, opened(browser, url, "/?language=en") as page:
            await page.wait_for_function("!document.getElementById('trouble').hidden")
            assert "built without Python" in await page.locator("#trouble").inner_text()
        serving.shutdown()
