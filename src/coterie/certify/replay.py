"""A recording's stories put to another broker, and what it responded otherwise.

A response holds when it is one of Kafka's recorded responses. Where it does not, the request is sent again until it holds
or `PATIENCE_S` are over, where the request only reads or the response says "not yet": another broker may be as slow to
agree with itself as Kafka is. After the first difference the rest of a rule is left out, since it builds on it.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from coterie.certify.question import API_BY_NAME, READING, Question
from coterie.certify.recording import (
    RecordedStory,
    Recording,
    compared_parts,
    story_prefix,
)
from coterie.certify.responses import NOT_YET, Part, Tree
from coterie.certify.settling import until_the_coordinator_has_loaded
from coterie.certify.side import CLOSED, RESPONSE_S, StorySide
from coterie.client.connection.connection import Connection
from coterie.client.errors import KafkaError
from coterie.client.security import PLAINTEXT, Security
from coterie.text.addresses import format_address
from coterie.wire.messages.topics.metadata import MetadataRequest, MetadataResponse

PATIENCE_S = 6.0
AGAIN_EVERY_S = 0.05
AT_ONCE = 12
HOLDS, DIFFERS, NOT_SERVED = "holds", "differs", "not served"


class CannotCertify(RuntimeError):
    """The broker cannot run these stories; the message has the reason and the remedy."""


@dataclass(slots=True)
class DifferingResponse:
    """A question to which the broker responded otherwise. ``kafka`` is the recorded response nearest to it."""

    question: Question
    response: Tree
    kafka: Tree
    parts: list[Part]

    def as_json(self) -> dict[str, Any]:
        return {"request": self.question.as_json(), "response": self.response, "kafka": self.kafka}


@dataclass(slots=True)
class StoryOutcome:
    """The result of one story. ``before``: the questions up to the first difference, that one last."""

    story: RecordedStory
    outcome: str = HOLDS
    requests: int = 0
    differences: list[DifferingResponse] = field(default_factory=list)
    missing: tuple[str, int] = ("", 0)

    def before(self) -> list[Question]:
        names = [q.name for q in self.story.story.questions]
        return self.story.story.questions[: names.index(self.differences[0].question.name) + 1]


@dataclass(slots=True)
class Certificate:
    """All findings of one broker beside one version of Kafka. ``served``: api -> its oldest and newest version there."""

    address: str
    like: str
    findings: list[StoryOutcome] = field(default_factory=list)
    served: dict[str, tuple[int, int]] = field(default_factory=dict)
    seconds: float = 0.0

    def rules(self) -> list[StoryOutcome]:
        return [f for f in self.findings if f.story.rule]

    def generated(self) -> list[StoryOutcome]:
        return [f for f in self.findings if not f.story.rule]

    def outcomes(self) -> Counter[str]:
        return Counter(f.outcome for f in self.rules())

    def requests(self) -> int:
        return sum(f.requests for f in self.findings)

    def different(self) -> int:
        return sum(len(f.differences) for f in self.findings)

    def holds(self) -> bool:
        return not self.different()

    def as_json(self) -> dict[str, Any]:
        """The figures, and each difference with both responses."""
        rules = {f.story.rule: f.outcome for f in self.rules()}
        figures = {
            "broker": self.address,
            "like": self.like,
            "requests": self.requests(),
            "different": self.different(),
        }
        return figures | {"rules": rules, "differences": [d.as_json() for f in self.findings for d in f.differences]}


async def certify(
    recording: Recording,
    address: tuple[str, int],
    run: str,
    progress: Callable[[StoryOutcome], None],
    security: Security = PLAINTEXT,
) -> Certificate:
    """Runs every story on the broker. Raises CannotCertify, and KafkaError without a broker at the address."""
    certificate, began = Certificate(format_address(*address), recording.version), time.monotonic()
    certificate.served, node_id = await _look_at(address, security)
    with contextlib.suppress(KafkaError):  # the rules show what the broker returns otherwise
        await until_the_coordinator_has_loaded(address, security)
    numbered, base_ms = enumerate(recording.stories), int(time.time()) * 1000

    async def worker() -> None:
        for number, story in numbered:
            side = StorySide("broker", address, story_prefix(run, number), base_ms, node_id, security)
            finding = await _replay(story, side, certificate.served)
            certificate.findings.append(finding)
            progress(finding)

    await asyncio.gather(*(worker() for _ in range(AT_ONCE)))
    order = {id(story): n for n, story in enumerate(recording.stories)}
    certificate.findings.sort(key=lambda f: order[id(f.story)])
    certificate.seconds = time.monotonic() - began
    return certificate


async def _look_at(address: tuple[str, int], security: Security) -> tuple[dict[str, tuple[int, int]], int]:
    """The broker's APIs with their versions, and its id."""
    connection = await Connection.connect(*address, "certify", RESPONSE_S, security)
    try:
        assert connection.versions is not None
        served = {name: connection.versions.range(api.key) for name, api in API_BY_NAME.items()}
        metadata = await connection.request(MetadataRequest(topics=[]), MetadataResponse, RESPONSE_S)
    finally:
        connection.close()
    if len(metadata.brokers) != 1:
        raise CannotCertify(
            f"the cluster has {len(metadata.brokers)} brokers; start one broker alone, since each story asks one broker"
        )
    return {name: versions for name, versions in served.items() if versions[0] <= versions[1]}, metadata.brokers[
        0
    ].node_id


async def _replay(story: RecordedStory, side: StorySide, served: dict[str, tuple[int, int]]) -> StoryOutcome:
    finding = StoryOutcome(story)
    for question in story.story.questions:
        first, last = served.get(question.api, (1, 0))
        if not first <= question.version <= last:
            finding.outcome, finding.missing = NOT_SERVED, (question.api, question.version)
            return finding
    try:
        for question, responses in zip(story.story.questions, story.responses, strict=True):
            difference = await _one(side, question, responses)
            finding.requests += 1
            if difference is not None:
                finding.differences.append(difference)
                finding.outcome = DIFFERS
                if story.rule:
                    break
    finally:
        await side.sweep(story.story)
    return finding


async def _one(side: StorySide, question: Question, responses: list[Tree]) -> DifferingResponse | None:
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            response = await side.ask(question)
        except KafkaError:
            response = CLOSED
        kafka = min(responses, key=lambda recorded: len(compared_parts(question.api, response, recorded)))
        parts = compared_parts(question.api, response, kafka)
        if not parts:
            return None
        late = question.api in READING or any(word in repr(part.ours) for part in parts for word in NOT_YET)
        if not late or time.monotonic() > end:
            return DifferingResponse(question, response, kafka, parts)
        await asyncio.sleep(AGAIN_EVERY_S)
