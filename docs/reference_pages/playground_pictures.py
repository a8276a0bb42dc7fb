"""The three pictures of the playground's page, by headless Chromium: python -m reference_pages.playground_pictures

A desk, a phone, and the dark; the lessons `cooperative`, `eager` and `rocketmq` at a moment that shows something.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from reference_pages.playground_site import DOCS, assemble, server  # noqa: E402

PICTURES: tuple[tuple[str, str, str, int, dict[str, Any]], ...] = (
    ("playground.png", "en", "cooperative", 24_000, {"viewport": {"width": 1280, "height": 1500}}),
    ("playground-phone.png", "zh", "eager", 21_600, {"viewport": {"width": 390, "height": 1700}, "is_mobile": True}),
    (
        "playground-dark.png",
        "en",
        "rocketmq",
        30_000,
        {"viewport": {"width": 1280, "height": 1500}, "color_scheme": "dark"},
    ),
)
_SHOW = """async ([name, ms]) => {
  const page = window.playground;
  page.play(false);
  const index = page.description.lessons.findIndex((lesson) => lesson.name === name);
  document.getElementById("lesson").value = index;
  document.getElementById("lesson").dispatchEvent(new Event("change"));
  await page.start({ lesson: name });
  await page.show("go", ms - 400);
  await page.show("go", ms);
}"""


async def take(url: str) -> None:
    """Into docs/."""
    from coterie_conformance.console.browser import chromium, opened

    async with chromium() as browser:
        for name, language, lesson, ms, context in PICTURES:
            async with opened(browser, url, f"/?language={language}", **context) as page:
                await page.wait_for_function("window.playground?.view != null", timeout=240_000)
                await page.evaluate(_SHOW, [lesson, ms])
                await page.screenshot(path=DOCS / name)


def main() -> None:
    """Assembles the page, serves it, and takes its pictures."""
    with tempfile.TemporaryDirectory() as folder, server(Path(folder), 0) as serving:
        assemble(Path(folder), fetch=True)
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        asyncio.run(take(f"http://127.0.0.1:{serving.server_port}"))
        serving.shutdown()


if __name__ == "__main__":
    main()
