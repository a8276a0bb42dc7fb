"""The figures of the playground's page, by headless Chromium: python -m reference_pages.playground_figures

The time from the request of the page until its group is shown, three visits each by a new browser, and the steps per second of
groups of 30 members, one of which is killed.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from reference_pages.playground_site import assemble, server  # noqa: E402

VISITS, MEMBERS, SPAN_MS = 3, 30, 60_000
_STEPS = """async ([settings, spanMs]) => {
  const call = async (method, argument) => JSON.parse(await window.playground.laboratory.call(method, argument));
  window.playground.play(false);
  await call("start", JSON.stringify({ settings }));
  const first = await call("go", spanMs);
  await call("act", JSON.stringify({ kind: "kill", member: "m1" }));
  const begun = performance.now(), last = await call("go", 3 * spanMs);
  return [last.steps - first.steps, performance.now() - begun];
}"""


async def measure(url: str) -> None:
    """Prints the figures."""
    from coterie.laboratory.playground.settings import PROTOCOLS
    from coterie_conformance.console.browser import chromium, opened

    for _ in range(VISITS):
        begun_s = time.monotonic()
        async with chromium() as browser:
            started_s = time.monotonic()
            async with opened(browser, url, "/?language=en") as page:
                await page.wait_for_function("window.playground?.view != null", timeout=240_000)
                shown_s = time.monotonic() - started_s
                print(f"shown after {shown_s:.2f} s (browser started in {started_s - begun_s:.2f} s)", flush=True)
    async with chromium() as browser, opened(browser, url, "/?language=en") as page:
        await page.wait_for_function("window.playground?.view != null", timeout=240_000)
        for protocol in PROTOCOLS:
            settings = {"protocol": protocol, "members": MEMBERS, "partitions": 2 * MEMBERS, "seed": 7}
            steps, ms = await page.evaluate(_STEPS, [settings, SPAN_MS])
            print(f"{protocol}: {steps} steps, {steps / ms * 1000:,.0f} a second", flush=True)
    print(f"load average {os.getloadavg()[0]:.1f}", flush=True)


def main() -> None:
    """Assembles the page, serves it, and measures it."""
    with tempfile.TemporaryDirectory() as folder, server(Path(folder), 0) as serving:
        assemble(Path(folder), fetch=True)
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        asyncio.run(measure(f"http://127.0.0.1:{serving.server_port}"))


if __name__ == "__main__":
    main()
