"""The judgement of the stories, and their machinery with a coterie broker in Kafka's place."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from coterie.coordinator.journal.line import CAUSES, JournalLine
from coterie.coordinator.journal.patterns import INFERRED, OBSERVED, UNKNOWN, known_cause
from coterie.observer.machine.rules import RULES
from coterie_conformance.observer.stories import OF_CONSUMERS, OF_SHARES_AND_STREAMS, THIRTY, CauseStory
from coterie_conformance.observer.story_cluster import StoryCluster, StoryVerdict, is_named
from coterie_conformance.observer.story_group import is_true
from coterie_conformance.servers.coterie_process import CoterieBroker

KILL = THIRTY[0]
RESULTS = Path(__file__).parents[3] / "docs" / "results" / "observe.json"
SILENT = known_cause("session_timeout", INFERRED, "silent_for_session", member_id="ben-1", client_id="ben")


def line(*causes: dict[str, str], event: str = "stable") -> JournalLine:
    return JournalLine(1, "crew", 2, event, "CompletingRebalance", "Stable", list(causes))


def test_there_are_thirty_with_every_client_and_their_causes_are_the_journals() -> None:
    assert len(THIRTY) == 30
    assert {story.client for story in THIRTY} == {"Java", "librdkafka", "sarama", "coterie"}
    everyone = (*THIRTY, *OF_CONSUMERS, *OF_SHARES_AND_STREAMS)
    assert {story.kind for story in everyone} <= {"", *CAUSES}
    assert {story.rule for story in everyone} <= {"", *RULES}
    assert len({StoryVerdict(story).name for story in everyone}) == len(everyone)
    assert len({(story.name, story.client) for story in THIRTY}) == 30


def test_a_story_without_its_cause_is_not_named() -> None:
    assert is_named(KILL, [line(), line(SILENT)])
    assert not is_named(KILL, [])
    assert not is_named(KILL, [line(SILENT, event="pattern_seen")])
    assert not is_named(KILL, [line(SILENT | {"client_id": "anna"})])
    assert not is_named(KILL, [line(SILENT | {"kind": "member_left"})])
    assert not is_named(KILL, [line(SILENT | {"evidence": UNKNOWN})])
    assert not is_named(KILL._replace(rule="static_members_stay"), [line(SILENT)])


def test_only_what_the_script_did_is_true() -> None:
    truth = {("session_timeout", "ben"), ("deploy", "")}
    assert is_true(SILENT, truth)
    assert is_true(known_cause("session_timeout", OBSERVED), truth)
    assert is_true(known_cause("deploy", INFERRED), truth)
    assert not is_true(SILENT | {"client_id": "anna"}, truth)
    assert not is_true(known_cause("member_left", OBSERVED, client_id="ben"), truth)


def test_a_wrong_cause_that_is_marked_observed_counts() -> None:
    assert StoryVerdict(KILL, wrong=["proxy: member_left ben (observed)"]).is_observed_wrongly
    assert not StoryVerdict(
        KILL, wrong=["observer: member_left ben (inferred alive_within_session)"]
    ).is_observed_wrongly


def test_the_last_results_are_of_these_stories_and_keep_the_promise() -> None:
    for part in json.loads(RESULTS.read_text())["results"]:
        rows = {row["story"]: row for row in part["observe"]}
        assert rows.keys() >= {StoryVerdict(story).name for story in THIRTY}
        assert sum(row["observer"] for row in rows.values()) >= 0.9 * len(rows), part["kafka"]
        assert [name for name, row in rows.items() if not row["both"] or "(observed" in str(row["wrong"])] == []


@pytest.mark.slow
def test_two_stories_beside_coterie(tmp_path: Path) -> None:
    """What is inferred hangs on how long a busy machine takes (tests/observer/test_stories.py has it in virtual time); what is
    stated does not."""
    stories = [story for story in THIRTY if story.client == "coterie" and story.name == "changed subscription"]
    stories.append(CauseStory("member joins", "coterie", stories[0].script, "member_joined", "anna"))
    cluster = StoryCluster("", tmp_path / "stories", CoterieBroker(tmp_path / "broker", {}))

    async def run() -> list[StoryVerdict]:
        async with cluster.running(stories):
            return await cluster.verdicts(stories, lambda _: None)

    for verdict in asyncio.run(run()):
        assert (verdict.by_observer, verdict.by_proxy, verdict.failure) == (True, True, ""), verdict
        assert not verdict.is_observed_wrongly, verdict.wrong
