"""Runs a page of the documentation as a reader would: its console and Python blocks in order, in one folder, against one
broker, comparing what is printed with what the page shows.

HTML comments on the line before a block say what is special about it:

    <!-- not run: REASON -->       the block is left out
    <!-- background: NAME -->      the command goes on; the lines shown are waited for
    <!-- repeat -->                a command that only reads: repeated until it prints what is shown
    <!-- output -->                the block shows what the Python block before it printed
    <!-- file: NAME -->            the block is saved under that name instead of being run

and on lines of their own `<!-- kill: NAME -->` (SIGKILL) and `<!-- interrupt: NAME -->` (SIGINT) end what was started.

In the output that a page shows, `…` stands for any text within a line and, alone on a line, for any lines; times and
durations match any others, and the number of spaces does not matter.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

# What pages call the addresses of a broker, of its HTTP face, of ZooKeeper and of a proxy.
ADDRESS = "127.0.0.1:9092"
HTTP_ADDRESS = "127.0.0.1:8080"
ZOOKEEPER_ADDRESS = "127.0.0.1:2181"
PROXY_ADDRESS = "127.0.0.1:19092"
CONTROL_ADDRESS = "127.0.0.1:8090"
OWN_BROKER = re.compile(r"(?:\./run )?coterie broker --(?:data|memory)")
_COTERIE = re.compile(r"\./run coterie\b|(?<![\w./'-])coterie(?= [a-z-])")  # as a user types it, or in a checkout
COMMAND_TIMEOUT_S = 600.0  # a Spark job, on a machine that is busy with other things
REPEAT_TIMEOUT_S = 60.0
REPEAT_EVERY_S = 0.3

_MARK = re.compile(r"<!-- (not run|output|background|file|kill|interrupt|repeat)(?:: (.*?))? -->\s*$")
_FENCE = re.compile(r"```(\w*)\s*$")
_VARYING = (
    (re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?"), "TIME"),
    (re.compile(r"\b\d[\d,]*(\.\d+)? (ms|s|rows/s)(?![\w/])"), "DURATION"),
    (re.compile(r"\s+"), " "),
)


@dataclass
class Block:
    """A fenced block: its language, its lines and the marks before it; or, with neither, an action between blocks."""

    line: int
    language: str
    lines: list[str]
    marks: dict[str, str]


def blocks_of(page: Path) -> Iterator[Block]:
    """Raises ValueError for a mark that belongs to no block."""
    marks: dict[str, str] = {}
    fence: Block | None = None
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if fence is not None:
            if line.strip() == "```":
                yield fence
                fence = None
            else:
                fence.lines.append(line)
        elif match := _MARK.match(line):
            if match[1] in ("kill", "interrupt"):
                yield Block(number, "", [], {match[1]: match[2]})
            else:
                marks[match[1]] = match[2] or ""
        elif match := _FENCE.match(line):
            fence, marks = Block(number, match[1], [], marks), {}
        elif marks and line.strip():
            raise ValueError(f"{page}:{number}: {marks} stands before no block")


def starts_its_broker(page: Path) -> bool:
    """Whether a block that runs starts the page's broker."""
    return any("background" in b.marks and OWN_BROKER.match(b.lines[0].removeprefix("$ ")) for b in blocks_of(page))


def commands_of(block: Block) -> Iterator[tuple[str, list[str]]]:
    """Each command of a console block with the lines shown after it."""
    command, shown, continued = "", [], False
    for line in block.lines:
        if continued:
            command += "\n" + line
        elif line.startswith("$ "):
            if command:
                yield command, shown
            command, shown = line[2:], []
        else:
            shown.append(line)
            continue
        continued = command.endswith("\\") or (command.count("<<'EOF'") == 1 and line != "EOF")
    if command:
        yield command, shown


def _normal(line: str) -> str:
    for pattern, standard in _VARYING:
        line = pattern.sub(standard, line)
    return line.strip()


def matches(shown: Sequence[str], printed: Sequence[str]) -> bool:
    """Whether the lines printed are those shown."""
    parts = []
    for line in shown:
        if line.strip() == "…":
            parts.append("(?:.*\n)*?")
        else:
            parts.append(re.escape(_normal(line)).replace("…", ".*?") + "\n")
    text = "".join(_normal(line) + "\n" for line in printed if line.strip())
    wanted = "".join(part for part in parts if part != "\n")
    return re.fullmatch(wanted, text) is not None


class PageRunner:
    """Runs pages in ``folder``; ``addresses``: the address on a page -> the one to use."""

    def __init__(self, folder: Path, addresses: Mapping[str, str]) -> None:
        self.folder, self.addresses = folder, dict(addresses)
        self.printed: list[str] = []
        self.running: dict[str, tuple[subprocess.Popen[bytes], Path]] = {}
        self.environment = {
            **{name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"},
            "COTERIE_BOOTSTRAP_SERVER": self.addresses[ADDRESS],
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONUNBUFFERED": "1",
            "COLUMNS": "250",
        }

    def run(self, page: Path) -> int:
        """Returns how many blocks were run. Raises AssertionError with the page's line and both outputs."""
        count = 0
        try:
            for block in blocks_of(page):
                if "not run" not in block.marks:
                    count += self._run(block, f"{page.name}:{block.line}")
        finally:
            for name in list(self.running):
                self._end(name, signal.SIGINT)
        return count

    def _run(self, block: Block, where: str) -> bool:
        for mark, number in (("kill", signal.SIGKILL), ("interrupt", signal.SIGINT)):
            if mark in block.marks:
                self._end(block.marks[mark], number)
        if "file" in block.marks:
            (self.folder / block.marks["file"]).write_text(self._here("\n".join(block.lines) + "\n"))
        elif block.language == "python":
            done = self._bash("python - <<'END_OF_BLOCK'\n" + "\n".join(block.lines) + "\nEND_OF_BLOCK")
            assert done.returncode == 0, f"{where}\n{done.stdout}"
            self.printed = self._as_on_the_page(done.stdout)
        elif "output" in block.marks:
            assert matches(block.lines, self.printed), "\n".join([where, *self.printed, "-- not --", *block.lines])
        elif block.language == "console":
            for command, shown in commands_of(block):
                if "background" in block.marks:
                    self._start(block.marks["background"], command, shown, where)
                else:
                    self._compare(command, shown, where, repeated="repeat" in block.marks)
        else:
            return False
        return True

    def _here(self, text: str) -> str:
        text = _COTERIE.sub("python -m coterie", text)
        text = text.replace("-m coterie broker", f"-m coterie broker --listen {self.addresses[ADDRESS]}")
        for shown, real in self.addresses.items():
            text = text.replace(shown, real)
        return text

    def _as_on_the_page(self, text: str) -> list[str]:
        for shown, real in self.addresses.items():
            text = text.replace(real, shown)
        return text.splitlines()

    def _bash(self, command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-c", self._here(command)],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=COMMAND_TIMEOUT_S,
            check=False,
        )

    def _compare(self, command: str, shown: list[str], where: str, *, repeated: bool) -> None:
        deadline_s = time.monotonic() + (REPEAT_TIMEOUT_S if repeated else 0)
        while True:
            done = self._bash(command)
            printed = self._as_on_the_page(done.stdout)
            if matches(shown, printed):
                return
            if time.monotonic() >= deadline_s:
                raise AssertionError("\n".join([f"{where}: $ {command}", *printed, "-- but the page shows --", *shown]))
            time.sleep(REPEAT_EVERY_S)

    def _start(self, name: str, command: str, shown: list[str], where: str) -> None:
        output = self.folder / f".{name}.out"
        with output.open("wb") as file:
            process = subprocess.Popen(
                ["bash", "-c", "exec " + self._here(command)],
                cwd=self.folder,
                env=self.environment,
                stdout=file,
                stderr=subprocess.STDOUT,
            )
        self.running[name] = (process, output)
        deadline_s = time.monotonic() + REPEAT_TIMEOUT_S
        while not matches([*shown, "…"], self._as_on_the_page(output.read_text())):
            if process.poll() is not None or time.monotonic() > deadline_s:
                raise AssertionError("\n".join([f"{where}: $ {command}", output.read_text(), "-- not --", *shown]))
            time.sleep(0.05)

    def _end(self, name: str, number: signal.Signals) -> None:
        process, _ = self.running.pop(name)
        process.send_signal(number)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
