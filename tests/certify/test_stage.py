"""A story whose own broker has run out of time is no verdict on the client, and does not end the other stories. A story's
patience with a program that starts late: it begins with the program's first request. No process of the user's program
outlives a `coterie certify-client` that is ended or killed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar, cast

import pytest

from coterie.certify.client import roles, stage
from coterie.certify.client.history import DeliveryPromise
from coterie.certify.client.process_guard import ProcessGuard
from coterie.certify.client.processes import UserProcess
from coterie.certify.client.roles import STORIES
from coterie.certify.client.stage import RIGHT, ClientOutcome, ClientUnderTest, StandsStill, StoryRun
from coterie.certify.client.story import CONSUMER
from coterie.testing.loop_thread import LoopThread
from tests.awaiting import until_in_thread

FIRST_STORIES = roles.STORIES[CONSUMER][:2]
PATIENCE_S = 10.0
# A program that starts another one, as npm and shell scripts do, and names both.
SCRIPT = 'sleep 600 & echo "$$ $!" > "$0.new"; mv "$0.new" "$0"; wait'


@dataclass
class LateStage(StoryRun):
    """The first run of each story runs out of time."""

    tried: ClassVar[list[str]] = []
    delivery: DeliveryPromise = field(default=DeliveryPromise.AT_LEAST_ONCE)

    def run(self) -> ClientOutcome:
        self.tried.append(self.story.name)
        if self.tried.count(self.story.name) == 1:
            raise TimeoutError("the broker's thread has not ended a call within 30 s")
        return ClientOutcome(self.story, RIGHT)


def test_the_story_runs_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(roles, "ConsumerStoryRun", LateStage)
    client = ClientUnderTest(["true"], tmp_path, 1.0)
    outcomes = roles.run_stories(FIRST_STORIES, client, DeliveryPromise.AT_LEAST_ONCE, jobs=1)
    assert [(one.story, one.outcome) for one in outcomes] == [(story, RIGHT) for story in FIRST_STORIES]
    assert LateStage.tried == [story.name for story in FIRST_STORIES for _ in range(2)]


def test_a_call_that_does_not_end_says_so() -> None:
    thread, event = LoopThread("broker"), asyncio.Event()
    thread._begin()
    try:
        with pytest.raises(TimeoutError, match=r"the broker's thread has not ended a call within 0.01 s"):
            thread._on_loop(event.wait(), 0.01)
        thread._call(event.set)
    finally:
        thread._end()


class Clock:
    """Virtual time; the program opens a connection at ``begins_s``."""

    def __init__(self, begins_s: float) -> None:
        self.now_s, self.begins_s = 0.0, begins_s
        self.ports: set[int] = set()

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        if self.now_s >= self.begins_s:
            self.ports.add(1)


@pytest.mark.parametrize(
    ("begins_s", "stuck_s"),
    [(0.0, PATIENCE_S), (25.0, 25.0 + PATIENCE_S), (1_000.0, stage.BEGIN_PATIENCES * PATIENCE_S)],
    ids=["at once", "late", "never"],
)
def test_patience_begins_with_the_first_request(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, begins_s: float, stuck_s: float
) -> None:
    clock = Clock(begins_s)
    monkeypatch.setattr(stage, "time", clock)
    story = StoryRun(STORIES[CONSUMER][0], ClientUnderTest(["true"], tmp_path, PATIENCE_S), cast(ProcessGuard, None))
    story.faults.ports = clock.ports
    story.processes[0] = cast(UserProcess, SimpleNamespace(exit_code=lambda: None))
    with pytest.raises(StandsStill, match="start"):
        story._until(lambda: False, "start")
    assert clock.now_s == pytest.approx(stuck_s, abs=0.1)


def is_running(pid: int) -> bool:
    """False for a zombie too: what adopts an orphan in a container may leave it one."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="asks /proc which processes run")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_program_dies_with_certify_client(number: signal.Signals, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    words = ("--story", "quiet", "--patience", "600", "--", "sh", "-c", SCRIPT, str(pids))
    command = [sys.executable, "-m", "coterie", "certify-client", *words]
    started: list[int] = []
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as certify:
        try:
            until_in_thread(pids.exists, "the program runs", 120)
            started = [int(pid) for pid in pids.read_text().split()]
            assert all(map(is_running, started))
            certify.send_signal(number)
            certify.wait(120)
            until_in_thread(lambda: not any(map(is_running, started)), "the program has ended", 120)
        finally:
            certify.kill()
            for pid in started:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
