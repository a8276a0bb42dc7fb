"""Stories with the answers that one version of Apache Kafka gave, as data that is kept in the package.

A question may have several answers: the stories are asked several times, and where Kafka itself answered differently
(another order, a state not reached yet) each answer counts. `load` reads ``recordings/VERSION.json.gz``.
"""

from __future__ import annotations

import asyncio
import gzip
import itertools
import json
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from coterie.certify.answers import Part, Tree, differences
from coterie.certify.generated.pieces import Common
from coterie.certify.generated.systematic import systematic
from coterie.certify.question import READING, Question, Story
from coterie.certify.rule import CertifyRule
from coterie.certify.rules import RULES
from coterie.certify.settling import until_the_coordinator_has_loaded
from coterie.certify.side import LATE, StorySide
from coterie.wire.fields import Versions

PASSES = 2
# Kafka answers before all its parts know: what was written is read only after this long, in each round of a recording.
SETTLES_S = (1.0, 4.0)
AGAIN_EVERY_S = 0.05
GENERATED = "Every field of every request"
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
_FOLDER = "recordings"
TOPIC_RESOURCE = 2  # of IncrementalAlterConfigs
# APIs in no story, since the certified broker must be unchanged afterwards.
NOT_ASKED = {
    "ApiVersions": "what is served is a table of its own",
    "AlterClientQuotas": "quotas of users that the broker may have",
    "AlterUserScramCredentials": "passwords of users that it may have",
    "CreateAcls": "what others may do",
    "DeleteAcls": "the same; a filter can match everything",
    "UpdateFeatures": "the whole cluster's versions",
    "UnregisterBroker": "the broker itself",
    "ElectLeaders": "every partition, where no topic is named",
    "AlterReplicaLogDirs": "the broker's folders, which have names of their own",
    "DescribeLogDirs": "the same",
    "WriteTxnMarkers": "between brokers only",
    "AlterConfigs": "the broker's own settings are among what it alters",
    "PushTelemetry": "what the broker's operators see of their clients",
    "GetTelemetrySubscriptions": "the same",
}
# The same for classes of value that reach beyond a story's own names, e.g. a setting of the broker.
_OWN_NAMES = {"IncrementalAlterConfigs": ("resource_type", "resource_name"), "AlterPartitionReassignments": ("topics",)}


def story_prefix(run: str, number: int) -> str:
    """The text in place of ``$``: as long when a story is recorded as when it is replayed, since sizes are compared."""
    return f"cert-{run:.4}-{number:05d}-"


@dataclass(slots=True)
class RecordedStory:
    """``answers[n]`` are all the answers that Kafka gave to question n. ``rule`` is empty for a generated story."""

    story: Story
    rule: str = ""
    subject: str = GENERATED
    title: str = ""
    source: str = ""
    answers: list[list[Tree]] = field(default_factory=list)

    def drop_unanswered(self) -> None:
        """Takes out the questions that Kafka never answered in time."""
        answered = [n for n, answers in enumerate(self.answers) if answers]
        self.story.questions = [self.story.questions[n] for n in answered]
        self.answers = [self.answers[n] for n in answered]

    def as_json(self) -> dict[str, Any]:
        data = {"tale": self.story.as_json(), "answers": self.answers, "subject": self.subject}
        return data | {"rule": self.rule, "title": self.title, "source": self.source}

    @classmethod
    def of_json(cls, data: dict[str, Any]) -> RecordedStory:
        return cls(
            Story.of_json(data["tale"]), data["rule"], data["subject"], data["title"], data["source"], data["answers"]
        )


@dataclass(slots=True)
class Recording:
    """The responses of one version of Kafka."""

    version: str
    stories: list[RecordedStory]

    def questions(self) -> int:
        return sum(len(story.answers) for story in self.stories)


def recorded_versions() -> list[str]:
    """The versions of Kafka of which the package has a recording, oldest first."""
    names = (entry.name for entry in resources.files("coterie.certify").joinpath(_FOLDER).iterdir())
    versions = [name.removesuffix(".json.gz") for name in names if name.endswith(".json.gz")]
    return sorted(versions, key=lambda v: [int(part) for part in v.split(".")])


def load(version: str) -> Recording:
    """Raises FileNotFoundError for a version without a recording."""
    data = resources.files("coterie.certify").joinpath(_FOLDER, f"{version}.json.gz").read_bytes()
    recording = json.loads(gzip.decompress(data))
    return Recording(recording["version"], [RecordedStory.of_json(story) for story in recording["stories"]])


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

    Stories with an answer that varied are asked anew with the next, longer wait: what varies at last, varies by nature.
    """
    await until_the_coordinator_has_loaded(address)
    recording, numbers = Recording(version, list(stories)), itertools.count()
    wanted = recording.stories
    for settle_s in settles_s:
        for story in wanted:
            story.answers = [[] for _ in story.story.questions]
        jobs = iter([story for _ in range(PASSES) for story in wanted])

        async def worker(jobs: Iterator[RecordedStory], settle_s: float) -> None:
            for story in jobs:
                side = StorySide("kafka", address, story_prefix("reco", next(numbers)), base_ms)
                await _ask_story(story, side, settle_s)

        await asyncio.gather(*(worker(jobs, settle_s) for _ in range(AT_ONCE)))
        wanted = [story for story in wanted if any(len(answers) > 1 for answers in story.answers)]
    for story in recording.stories:
        story.drop_unanswered()
    return recording


async def _ask_story(story: RecordedStory, side: StorySide, settle_s: float) -> None:
    before: Question | None = None
    for question, answers in zip(story.story.questions, story.answers, strict=True):
        if question.api in READING and before is not None and before.api not in READING:
            await asyncio.sleep(settle_s)
        answer = await _settled_answer(side, question)
        if answer != LATE and all(compared_parts(question.api, answer, known) for known in answers):
            answers.append(answer)
        before = question
    await side.sweep(story.story)


# Places in answers that are not compared -> why.
NOT_COMPARED = {
    "order": "lists that Kafka keeps in hash maps have no order",
    "rack": "the operator's choice",
    "client_host": "how a broker writes an address is its own affair",
    "error_message": "a text for people, or none",
    "batch_index_error_message": "the same",
    "CreateTopics.topics[].configs": "which settings a broker has is asked by DescribeConfigs",
}


def compared_parts(api: str, one: Tree, other: Tree) -> list[Part]:
    """The differences of two responses of that API, but for `NOT_COMPARED`; error codes first, as the most telling."""
    parts = [part for part in differences(one, other) if not _is_left_out(f"{api}.{part.general()}")]
    return sorted(parts, key=lambda part: not part.path.endswith("error_code"))


def _is_left_out(path: str) -> bool:
    return path.rpartition(".")[2] in NOT_COMPARED or any(
        "[]" in name and path.startswith(name) for name in NOT_COMPARED
    )


async def _settled_answer(side: StorySide, question: Question) -> Tree:
    end = time.monotonic() + NOT_YET_S
    while True:
        answer = await side.ask(question)
        if time.monotonic() > end or not any(word in repr(answer) for word in TRANSIENT):
            return answer
        await asyncio.sleep(AGAIN_EVERY_S)
