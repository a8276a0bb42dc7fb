"""`groups watch` on a terminal: the lanes, in the terminal's own width, from the lines of a journal."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from coterie.coordinator.journal.line import JournalLine
from coterie.observer.journal_sinks import FolderJournal


def written_journal(folder: Path) -> None:
    """A minute ago two members have shared four partitions; now a rebalance waits."""
    now_ms = int(time.time() * 1000)
    lines = [
        JournalLine(now_ms - 60_000, "crew", 0, "rebalance_started", "Empty", "PreparingRebalance", members=2),
        JournalLine(now_ms - 57_000, "crew", 1, "stable", "CompletingRebalance", "Stable", members=2),
        JournalLine(now_ms - 20_000, "crew", 1, "rebalance_started", "Stable", "PreparingRebalance", members=3),
    ]
    lines[1].owners = {"anna": {"flights": [0, 1]}, "ben": {"flights": [2, 3]}}
    lines[2].causes = [{"kind": "member_joined", "member_id": "cleo"}]
    journal = FolderJournal(folder)
    for line in lines:
        journal.write(line)


def on_a_terminal(columns: int, *arguments: str) -> str:
    """What a command draws on a terminal of so many columns, without its control sequences."""
    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    command = [sys.executable, "-m", "coterie", *arguments]
    with subprocess.Popen(command, stdout=child, stderr=child, env=environment | {"TERM": "xterm-256color"}) as process:
        os.close(child)
        drawn = b""
        while True:
            try:
                data = os.read(parent, 1 << 16)
            except OSError:  # Linux's end of a terminal whose programs have gone
                break
            if not data:
                break
            drawn += data
    os.close(parent)
    assert process.returncode == 0, drawn
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", drawn.decode())


@pytest.mark.slow
@pytest.mark.parametrize("columns", [80, 100, 200])
def test_lanes_fill_the_terminal_and_show_the_rebalance_that_waits(columns: int, tmp_path: Path) -> None:
    written_journal(tmp_path)
    arguments = ("groups", "watch", "crew", "--journal", str(tmp_path), "--times", "1", "--every", "0.1")
    lines = on_a_terminal(columns, *arguments).splitlines()
    lanes = [line for line in lines if line.startswith("flights-")][-4:]  # it is drawn again at the end
    assert [re.sub(r"(.)\1+", r"\1", line.partition(" ")[2]) for line in lanes] == ["·a·", "·a·", "·b·", "·b·"]
    assert {len(line) for line in lanes} == {columns}
    assert any(re.search(r"generation 1 at \S+ takes 2\d s: cleo joined", line) for line in lines)
    by_member = on_a_terminal(columns, *arguments, "--by", "member", "--last", "30").splitlines()
    assert [line for line in by_member if re.fullmatch(r"anna 2─+", line)]
