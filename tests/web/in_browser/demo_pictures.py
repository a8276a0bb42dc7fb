"""The pictures of the demo in the docs: its terminal, three clicks on its live page, its report.

The demo runs in a pseudo-terminal of 112 columns; what that shows while a member leaves is drawn as SVG.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import re
import signal
import struct
import sys
import termios
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.text import Text

from coterie_conformance.console.browser import chromium, opened
from tests.async_tests import went_on
from tests.web.in_browser.pictures import SIZE, take_page

COLUMNS, ROWS = 112, 40
CLICKS = {"demo-click-1.png": "anna left", "demo-click-2.png": "anna left", "demo-click-3.png": "ben was silent"}
DEMO_PICTURES = (*CLICKS, "report.png")
PREVIOUS = ".timeline-tools button[title='Previous rebalance']"
PATIENCE_S = 400.0  # of a demo of some 40 s
_FRAME_ERASED = re.compile(r"(?:\r?\x1b\[[12]?[AK])+")  # rich's Live before each frame: up a line, erase it
_FRAME = re.compile(r"\r\nproduced")  # the first line of a frame, after an empty one


class Terminal:
    """A process in a pseudo-terminal, and what it has written."""

    def __init__(self) -> None:
        self.written, self._leader = "", -1
        self._changed = asyncio.Condition()

    async def run(self, *command: str) -> int:
        """Until the process ends; its exit status."""
        self._leader, follower = pty.openpty()
        fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.DEVNULL, stdout=follower, stderr=follower
        )
        os.close(follower)
        reading = asyncio.create_task(self._read())
        try:
            return await process.wait()
        finally:
            if process.returncode is None:
                process.send_signal(signal.SIGINT)  # the demo ends its own processes
                await process.wait()
            await reading
            os.close(self._leader)

    async def _read(self) -> None:
        while True:
            try:
                part = await asyncio.to_thread(os.read, self._leader, 1 << 16)
            except OSError:  # EIO: no process has the terminal open any more
                return
            async with self._changed:
                self.written += part.decode("utf-8", "replace")
                self._changed.notify_all()

    async def wait_for(self, pattern: str) -> re.Match[str]:
        """The first match in what was written."""
        async with asyncio.timeout(PATIENCE_S), self._changed:
            while (match := re.search(pattern, self.written)) is None:
                await self._changed.wait()
        went_on()
        return match

    def screen(self) -> str:
        """The lines that stay, and the last whole frame below them, with their colours."""
        frames = _FRAME_ERASED.split(self.written)[:-1]  # the last is still being written
        return "".join(_FRAME.split(frame)[0] for frame in frames[:-1]) + frames[-1]


def _draw(screen: str) -> str:
    """As SVG."""
    console = Console(record=True, width=COLUMNS, file=StringIO(), force_terminal=True)
    console.print(Text.from_ansi(screen.replace("\r\n", "\n")))
    return console.export_svg(title="./run demo")


async def _click_back(terminal: Terminal, folder: Path) -> None:
    """The live page when anna has left, and after each click on the rebalance before."""
    base, _, path = (await terminal.wait_for(r"http://[\w.:/]+/groups/crew"))[0].partition("/console")
    async with chromium() as browser, opened(browser, base, f"/console{path}", viewport=SIZE) as page:
        for n, (name, cause) in enumerate(CLICKS.items()):
            if n:
                await page.click(PREVIOUS)
            await page.wait_for_selector(f".timeline-details:has-text('{cause}')", timeout=PATIENCE_S * 1000)
            await asyncio.sleep(0.5)  # the picture is drawn with the next frame
            await page.screenshot(path=folder / name)


async def _terminal(terminal: Terminal, folder: Path) -> None:
    await terminal.wait_for("leaves cleanly")
    await asyncio.sleep(1.5)
    (folder / "demo.svg").write_text(_draw(terminal.screen()), "utf-8")
    await terminal.wait_for("Spark's table is complete")  # the longest step


async def take_demo(folder: Path, data: Path) -> int:
    """The pictures of one demo, of which ``data`` keeps the files; its exit status."""
    terminal = Terminal()
    async with asyncio.TaskGroup() as tasks:
        demo = tasks.create_task(terminal.run(sys.executable, "-m", "coterie", "demo", "--out", str(data)))
        tasks.create_task(_terminal(terminal, folder))
        tasks.create_task(_click_back(terminal, folder))
    await take_page(data / "report.html", folder / "report.png")
    return demo.result()
