"""Every page of the built site in one headless Chromium, as on a phone and on a desk."""

from __future__ import annotations

import json
import re
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

WIDTHS = (390, 1280)
SWEPT_WITHIN_S = 600
_SWEEP = """<!doctype html><title>sweeping</title><body><script>
const faults = [], left = PAGES;
async function open(page) {
  const frame = document.createElement('iframe');
  frame.style.cssText = 'height: 900px; border: 0';
  frame.style.width = `${WIDTHS[0]}px`;
  document.body.append(frame);
  await new Promise(loaded => { frame.onload = loaded; frame.src = '/' + page; });
  const opened = frame.contentDocument;
  for (const image of opened.images)
    if (!image.naturalWidth) faults.push(`${page}: no picture ${image.getAttribute('src')}`);
  for (const width of WIDTHS) {
    frame.style.width = `${width}px`;
    const excess = opened.documentElement.scrollWidth - width;
    if (excess > 0) faults.push(`${page}: ${excess} pixels wider than a window of ${width}`);
  }
  frame.remove();
}
async function openRest() { while (left.length) await open(left.shift()); }
Promise.all([1, 2, 3, 4].map(openRest)).then(() => { document.title = 'SWEPT ' + JSON.stringify(faults); });
</script>"""


def faults(chromium: list[str], site: Path, pages: list[str], folder: Path) -> list[str]:
    """What a reader would see of the pages: errors of scripts, pictures that do not load, and text wider than the window.
    ``folder`` is for the browser's profile."""
    script = _SWEEP.replace("WIDTHS", json.dumps(WIDTHS)).replace("PAGES", json.dumps(pages))
    with _served(site, script.encode()) as port:
        options = [f"--user-data-dir={folder / 'profile'}", "--window-size=1400,1000", "--enable-logging=stderr"]
        command = [*chromium, *options, "--virtual-time-budget=600000", "--dump-dom", f"http://127.0.0.1:{port}/sweep"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SWEPT_WITHIN_S, check=True)
    swept = re.search(r"<title>SWEPT (.*?)</title>", done.stdout)
    assert swept is not None, done.stderr[-2000:]
    return [*json.loads(swept[1]), *re.findall(r"CONSOLE.*", done.stderr)]


@contextmanager
def _served(site: Path, sweep: bytes) -> Iterator[int]:
    """The port of loopback at which the site is served, and the sweep with it: a page may look into frames of its own origin
    alone."""

    class Handler(SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/sweep":
                self.send_response(200)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.end_headers()
                self.wfile.write(sweep)
            else:
                super().do_GET()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(site))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()
