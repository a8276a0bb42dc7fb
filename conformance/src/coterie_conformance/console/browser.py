"""Pages in a real browser: Debian's Chromium, driven by Playwright, with what it complains about."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any
from urllib.parse import urlsplit

from playwright.async_api import Browser, Page, async_playwright

from coterie_conformance.servers.kafka import CannotRun

CHROMIUM = next((at for name in ("chromium", "chromium-browser", "google-chrome") if (at := shutil.which(name))), None)
OPTIONS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@dataclass
class Complaints:
    """What must be empty at the end: errors of scripts and of the console, failed requests, and requests to another host."""

    seen: list[str] = field(default_factory=list)

    def watch(self, page: Page, url: str) -> None:
        """From now on; ``url``: the page's own host."""
        own = urlsplit(url).netloc
        page.on("pageerror", lambda error: self.seen.append(f"error: {error}"))
        page.on(
            "console", lambda m: self.seen.append(f"{m.type}: {m.text}") if m.type in ("error", "warning") else None
        )
        page.on("request", lambda r: self.seen.append(f"foreign: {r.url}") if urlsplit(r.url).netloc != own else None)
        page.on("response", lambda r: self.seen.append(f"{r.status}: {r.url[:200]}") if r.status >= 400 else None)


@contextlib.asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """A browser without a window. Raises CannotRun."""
    if CHROMIUM is None:
        raise CannotRun("Chromium is not on the PATH; on Debian: apt-get install chromium")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        try:
            yield browser
        finally:
            await browser.close()


@contextlib.asynccontextmanager
async def opened(browser: Browser, url: str, path: str, **context: Any) -> AsyncIterator[Page]:
    """A page in a context of its own; it must not have complained until its end."""
    complaints = Complaints()
    made = await browser.new_context(**{"viewport": {"width": 1280, "height": 900}} | context)
    try:
        page = await made.new_page()
        complaints.watch(page, url)
        await page.goto(url + path)
        yield page
        assert not complaints.seen, complaints.seen
    finally:
        await made.close()


async def violations(page: Page) -> list[str]:
    """What axe-core finds serious or critical."""
    await page.evaluate((files("axe_playwright_python") / "axe.min.js").read_text("utf-8"))
    results = await page.evaluate("axe.run()")
    return [
        f"{violation['id']}: {node['html'][:200]}"
        for violation in results["violations"]
        if violation["impact"] in ("serious", "critical")
        for node in violation["nodes"]
    ]
