"""Makes the recordings of `coterie certify`: which stories Apache Kafka is sent, the named rules among them, and its
responses. Apache Kafka is also certified beside its own recording, where every difference is a false alarm."""

from __future__ import annotations

import asyncio
import gzip
import itertools
import json
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import coterie.certify
from coterie.certify.question import READING, Question, Story
from coterie.certify.recording import NOT_ASKED, RecordedStory, Recording, compared_parts, load, story_prefix
from coterie.certify.replay import AGAIN_EVERY_S, Certificate, StoryOutcome, certify
from coterie.certify.responses import Tree
from coterie.certify.settling import until_the_coordinator_has_loaded
from coterie.certify.side import LATE, StorySide
from coterie.wire.fields import Versions
from coterie_conformance.certify.rule import CertifyRule
from coterie_conformance.certify.rules_of_groups import GROUP_RULES, OFFSET_RULES
from coterie_conformance.certify.rules_of_producers import IDEMPOTENT_RULES, TRANSACTION_RULES
from coterie_conformance.certify.rules_of_topics import RECORD_RULES, SESSION_RULES, SETTING_RULES, TOPIC_RULES
from coterie_conformance.everything.generated.pieces import Common
from coterie_conformance.everything.generated.systematic import systematic
from coterie_conformance.everything.judge import common_versions
from coterie_conformance.servers.kafka import running

RULES: tuple[CertifyRule, ...] = (
    *GROUP_RULES,
    *OFFSET_RULES,
    *IDEMPOTENT_RULES,
    *TRANSACTION_RULES,
    *TOPIC_RULES,
    *SETTING_RULES,
    *RECORD_RULES,
    *SESSION_RULES,
)


PASSES = 2
# Kafka answers before all its parts know: what was written is read only after this long, in each round of a recording.
SETTLES_S = (1.0, 4.0)
AT_ONCE = 48
# Answers of a broker that is about to know: asked again for at most `NOT_YET_S`.
TRANSIENT = (
    "CONCURRENT_TRANSACTIONS",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "COORDINATOR_NOT_AVAILABLE",
    "NOT_COORDINATOR",
    "LEADER_NOT_AVAILABLE",
    "NOT_LEADER_OR_FOLLOWER",
)
NOT_YET_S = 4.0
TOPIC_RESOURCE = 2  # of IncrementalAlterConfigs
# The same for classes of value that reach beyond a story's own names, e.g. a setting of the broker.
_OWN_NAMES = {"IncrementalAlterConfigs": ("resource_type", "resource_name"), "AlterPartitionReassignments": ("topics",)}
RECORDINGS = Path(coterie.certify.__file__).parent / "recordings"
# Everything else as Kafka comes: a recording is for brokers as their users start them.
_SETTINGS = {"group.initial.rebalance.delay.ms": "0"}


def save(recording: Recording, folder: Path) -> Path:
    """Writes it as `load` reads it; the same recording is the same bytes."""
    path = folder / f"{recording.version}.json.gz"
    data = {"version": recording.version, "stories": [story.as_json() for story in recording.stories]}
    text = json.dumps(data, separators=(",", ":"), sort_keys=True)
    path.write_bytes(gzip.compress(text.encode(), mtime=0))
    return path


def stories_for(common: Common) -> Iterator[RecordedStory]:
    """The rules, and the judge's systematic stories in the newest version of each API."""
    for rule in RULES:
        if all(q.api in common and q.version in common[q.api] for q in rule.questions):
            yield _of_rule(rule)
    newest = {api: Versions(versions.last, versions.last) for api, versions in common.items() if api not in NOT_ASKED}
    for story in systematic(newest):
        questions = [question for question in story.questions if _keeps_to_itself(question)]
        yield RecordedStory(Story(story.name, questions, story.strict), title=story.name)


def _keeps_to_itself(question: Question) -> bool:
    """Whether a broker with default settings is the same afterwards, but for what the story made."""
    if question.api == "Metadata" and question.body.get("allow_auto_topic_creation", True):
        return False
    if question.api == "OffsetCommit" and question.body.get("group_id", "") == "":
        return False  # Kafka keeps offsets of a group without a name, which all stories share
    if question.api == "IncrementalAlterConfigs" and not only_its_topics(question):
        return False  # the variants of a broker, of metrics and of a group
    field = question.covers[0].rpartition(".")[2]
    return question.covers[1] == "right" or field not in _OWN_NAMES.get(question.api, ())


def only_its_topics(question: Question) -> bool:
    """Whether the resources that the question names are topics."""
    return all(resource.get("resource_type") == TOPIC_RESOURCE for resource in question.body.get("resources") or ())


def _of_rule(rule: CertifyRule) -> RecordedStory:
    story = Story(rule.name, list(rule.questions), strict=False)
    return RecordedStory(story, rule.name, rule.subject, rule.title, rule.source)


async def record(
    version: str,
    stories: Iterable[RecordedStory],
    address: tuple[str, int],
    base_ms: int,
    settles_s: Sequence[float] = SETTLES_S,
) -> Recording:
    """Asks the Kafka at that address every story `PASSES` times. Raises KafkaError where it is gone.

    Stories with a response that varied are asked again with the next, longer wait: what varies at last, varies by nature.
    """
    await until_the_coordinator_has_loaded(address)
    recording, numbers = Recording(version, list(stories)), itertools.count()
    wanted = recording.stories
    for settle_s in settles_s:
        for story in wanted:
            story.responses = [[] for _ in story.story.questions]
        jobs = iter([story for _ in range(PASSES) for story in wanted])

        async def worker(jobs: Iterator[RecordedStory], settle_s: float) -> None:
            for story in jobs:
                side = StorySide("kafka", address, story_prefix("reco", next(numbers)), base_ms)
                await _ask_story(story, side, settle_s)

        await asyncio.gather(*(worker(jobs, settle_s) for _ in range(AT_ONCE)))
        wanted = [story for story in wanted if any(len(responses) > 1 for responses in story.responses)]
    for story in recording.stories:
        story.drop_without_response()
    return recording


async def _ask_story(story: RecordedStory, side: StorySide, settle_s: float) -> None:
    before: Question | None = None
    for question, responses in zip(story.story.questions, story.responses, strict=True):
        if question.api in READING and before is not None and before.api not in READING:
            await asyncio.sleep(settle_s)
        response = await _settled_response(side, question)
        if response != LATE and all(compared_parts(question.api, response, known) for known in responses):
            responses.append(response)
        before = question
    await side.sweep(story.story)


async def _settled_response(side: StorySide, question: Question) -> Tree:
    end = time.monotonic() + NOT_YET_S
    while True:
        response = await side.ask(question)
        if time.monotonic() > end or not any(word in repr(response) for word in TRANSIENT):
            return response
        await asyncio.sleep(AGAIN_EVERY_S)


def record_kafka(version: str, folder: Path) -> Path:
    """Asks that Kafka every story and writes its responses into the package; the file. Raises CannotRun."""
    with running(version, folder, _SETTINGS) as address:

        async def ask() -> Path:
            stories = stories_for(await common_versions([address]))
            recording = await record(version, stories, address, int(time.time()) * 1000)
            RECORDINGS.mkdir(exist_ok=True)
            return save(recording, RECORDINGS)

        return asyncio.run(ask())


def certify_kafka(version: str, folder: Path, progress: Callable[[StoryOutcome], None]) -> Certificate:
    """Raises CannotRun."""
    with running(version, folder, _SETTINGS) as address:
        return asyncio.run(certify(load(version), address, secrets.token_hex(2), progress))
