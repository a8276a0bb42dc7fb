"""A story whose own broker has run out of time is no verdict on the client, and does not end the other stories."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import pytest

from coterie.certify.client import roles
from coterie.certify.client.history import DeliveryPromise
from coterie.certify.client.stage import RIGHT, ClientOutcome, ClientUnderTest, StoryRun
from coterie.certify.client.story import CONSUMER
from coterie.testing.loop_thread import LoopThread

STORIES = roles.STORIES[CONSUMER][:2]


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
    outcomes = roles.run_stories(STORIES, client, DeliveryPromise.AT_LEAST_ONCE, jobs=1)
    assert [(one.story, one.outcome) for one in outcomes] == [(story, RIGHT) for story in STORIES]
    assert LateStage.tried == [story.name for story in STORIES for _ in range(2)]


def test_a_call_that_does_not_end_says_so() -> None:
    thread, event = LoopThread("broker"), asyncio.Event()
    thread._begin()
    try:
        with pytest.raises(TimeoutError, match=r"the broker's thread has not ended a call within 0.01 s"):
            thread._on_loop(event.wait(), 0.01)
        thread._call(event.set)
    finally:
        thread._end()
