"""`groups watch` on a terminal: the lanes, in the terminal's own width, from the lines of a journal. Who is silent in
`groups why`: a member that owes a heartbeat by its own interval, not by a third of its session."""

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

from coterie.cli.groups.explanation import draw
from coterie.client import GroupExplanation
from coterie.client.admin.group_explanation import read_json
from coterie.console.terminal import drawing_console
from coterie.coordinator.journal.line import JournalLine
from coterie.coordinator.views.classic_group import explain_group
from coterie.observer.journal_sinks import FolderJournal
from coterie_conformance.scenarios.groups.scenario import ScenarioRun


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


def now_of_a(*steps: str) -> str:
    """The column NOW of the member a, after those steps of a scenario."""
    run = ScenarioRun()
    for step in steps:
        run.step(step)
    document = explain_group(run.shard.groups["g"], run.now_ms, run.config)
    for member in document["members"]:
        member |= {"last_fetch_ms": None, "client_software": None}
    document |= {"partitions": [], "lag": None, "stalled": []}
    console = drawing_console(200)
    with console.capture() as captured:
        console.print(draw(read_json(GroupExplanation, document, "the document"), None))
    (line,) = (line for line in captured.get().splitlines() if line.startswith("a-1"))
    return line.split()[-1]


def beats(interval_ms: int, session_ms: int) -> list[str]:
    first = f"join a version=3 session={session_ms}"
    return [first, "sync a assign=a:x", *(2 * [f"advance {interval_ms}", "heartbeat a"])]


@pytest.mark.parametrize(
    ("interval_ms", "session_ms", "since_ms", "now"),
    [
        (3_000, 6_000, 3_200, "heartbeating"),  # the tutorial's values: a heartbeat is under way
        (3_000, 6_000, 4_600, "silent"),
        (5_000, 6_000, 5_500, "heartbeating"),
        (3_000, 45_000, 3_900, "heartbeating"),  # Java's
        (3_000, 45_000, 5_000, "silent"),  # long before a third of the session
        (100, 6_000, 900, "heartbeating"),  # a busy machine
        (100, 6_000, 1_200, "silent"),
    ],
)
def test_a_member_is_silent_when_its_own_heartbeat_is_missing(
    interval_ms: int, session_ms: int, since_ms: int, now: str
) -> None:
    assert now_of_a(*beats(interval_ms, session_ms), f"advance {since_ms}") == now


@pytest.mark.parametrize(("since_ms", "now"), [(3_900, "heartbeating"), (4_100, "silent")])
def test_before_the_interval_is_known_two_heartbeats_of_three_must_be_missing(since_ms: int, now: str) -> None:
    assert now_of_a("join a version=3 session=6000", "sync a assign=a:x", f"advance {since_ms}") == now


def test_the_wait_in_a_rebalance_is_no_interval() -> None:
    steps = [*beats(3_000, 20_000), "join b version=3 session=100000", "advance 6000", "heartbeat a"]
    steps += ["join a session=20000", "sync a assign=a:x", "sync b", "advance 15000", "heartbeat a", "advance 5000"]
    assert now_of_a(*steps) == "heartbeating"
