"""A story's patience with a program that starts late: it begins with the program's first request."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from coterie.certify.client import stage
from coterie.certify.client.process_guard import ProcessGuard
from coterie.certify.client.processes import UserProcess
from coterie.certify.client.roles import STORIES
from coterie.certify.client.stage import ClientUnderTest, StandsStill, StoryRun
from coterie.certify.client.story import CONSUMER

PATIENCE_S = 10.0


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
