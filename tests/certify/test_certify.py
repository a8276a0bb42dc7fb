"""`coterie certify`: the rules are well formed, recordings are data, and a broker that answers otherwise is shown."""

from __future__ import annotations

import asyncio
import copy
import json
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from coterie.broker.broker import Broker
from coterie.broker.connections.request_queue import server_error
from coterie.broker.handlers import HANDLERS
from coterie.broker.handlers.services import Handler
from coterie.broker.requests.calls import Call
from coterie.broker.settings import BrokerSettings
from coterie.certify.page import as_html, as_markdown, summary
from coterie.certify.question import API_BY_NAME, message_of, texts_in
from coterie.certify.recording import NOT_ASKED, Recording, load, recorded_versions
from coterie.certify.replay import DIFFERS, HOLDS, NOT_SERVED, Certificate, certify
from coterie.certify.side import StorySide
from coterie.cli.certify import certify as certify_command
from coterie.wire.apis import APIS
from coterie.wire.declaration import Message
from coterie_conformance.certify.recorder import RULES, only_its_topics, record, save, stories_for
from coterie_conformance.everything.judge import common_versions

METADATA, API_VERSIONS = 3, 18
QUICK = {"group.initial.rebalance.delay.ms": "0"}


async def _on_broker(recording: Recording | None, changed: dict[int, Handler]) -> tuple[Recording, Certificate | None]:
    """Records the rules from a broker of ours, or certifies it; ``changed`` handlers answer otherwise."""
    broker = Broker(BrokerSettings(QUICK))
    broker.handlers = HANDLERS | changed
    address = await broker.start("127.0.0.1", 0)
    try:
        if recording is not None:
            return recording, await certify(recording, address, "test", lambda _: None)
        stories = [s for s in stories_for(await common_versions([address])) if s.rule]
        return await record("ours", stories, address, int(time.time()) * 1000, settles_s=(0.0,)), None
    finally:
        await broker.stop()


@pytest.fixture(scope="module")
def rules() -> Recording:
    """What our own broker answers to every rule."""
    return asyncio.run(_on_broker(None, {}))[0]


def _certified(recording: Recording, changed: dict[int, Handler] | None = None) -> Certificate:
    certificate = asyncio.run(_on_broker(recording, changed or {}))[1]
    assert certificate is not None
    return certificate


def test_rules_are_named_once_and_ask_what_every_recorded_version_serves() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)
    for rule in RULES:
        names = [question.name for question in rule.questions]
        assert len(set(names)) == len(names), rule.name
        for question in rule.questions:
            assert question.version in API_BY_NAME[question.api].request.versions, (rule.name, question.name)
            known = {spec.name for spec in API_BY_NAME[question.api].request.fields}
            assert set(question.body) <= known, (rule.name, question.name)


def test_a_broker_holds_what_it_was_recorded_with(rules: Recording) -> None:
    certificate = _certified(rules)
    assert certificate.outcomes() == {HOLDS: len(RULES)}
    assert certificate.holds()
    assert "rules hold" in summary(certificate)


def test_a_changed_answer_is_shown_with_its_requests(rules: Recording) -> None:
    changed = copy.deepcopy(rules)
    story = next(s for s in changed.stories if s.rule == "generation-checked")
    story.responses[-1] = [{"error_code": "NONE"}]
    certificate = _certified(changed)
    assert certificate.outcomes() == {HOLDS: len(RULES) - 1, DIFFERS: 1}
    for text in (as_html(certificate), as_markdown(certificate)):
        assert "generation-checked" in text
        assert "ILLEGAL_GENERATION" in text
        assert "later commit: OffsetCommit v7" in text


def _refuses(key: int) -> Handler:
    """UNKNOWN_SERVER_ERROR and nothing else, in lists nothing at all."""

    def handle(broker: object, request: Message, call: Call) -> Message:
        return server_error(APIS[key].response())

    return handle


def test_a_broker_that_answers_errors_alone_differs(rules: Recording) -> None:
    """The look-up of its coordinator ended in an IndexError."""
    story = next(s for s in rules.stories if s.rule == "generation-checked")
    refused = {key: _refuses(key) for key in HANDLERS.keys() & APIS.keys() if key not in (METADATA, API_VERSIONS)}
    certificate = _certified(Recording("ours", [story]), refused)
    assert certificate.outcomes() == {DIFFERS: 1}
    assert "generation-checked" in as_markdown(certificate)


def test_a_broker_without_an_api_is_not_asked_for_it(rules: Recording) -> None:
    changed = copy.deepcopy(rules)
    for story in changed.stories[:1]:
        story.story.questions[0] = type(story.story.questions[0])("later", "JoinGroup", 99, {})
    certificate = _certified(changed)
    assert certificate.outcomes()[NOT_SERVED] == 1
    assert "JoinGroup" in as_markdown(certificate)


def test_a_recording_is_the_same_bytes_each_time(rules: Recording, tmp_path: Path) -> None:
    first = save(rules, tmp_path).read_bytes()
    assert save(rules, tmp_path).read_bytes() == first


@pytest.mark.parametrize("version", recorded_versions())
def test_recordings_leave_alone_what_is_not_theirs(version: str) -> None:
    recording = load(version)
    assert len([s for s in recording.stories if s.rule]) == len(RULES)
    for story in recording.stories:
        assert len(story.responses) == len(story.story.questions)
        assert all(responses for responses in story.responses)
        for question in story.story.questions:
            assert question.api not in NOT_ASKED
            if question.api in ("CreateTopics", "DeleteTopics", "DeleteGroups", "DeleteRecords"):
                foreign = {text for text in texts_in(question.body) if text.startswith("__")}
                assert not foreign or question.api == "CreateTopics", (story.title, question.name)


def test_every_rule_holds_here_as_recorded_from_the_newest_apache_kafka() -> None:
    version = recorded_versions()[-1]
    recording = load(version)
    certificate = _certified(Recording(version, [s for s in recording.stories if s.rule]))
    differing = {f.story.rule: f.differences[0].parts for f in certificate.findings if f.outcome != HOLDS}
    assert not differing


def test_the_command_line_answers_mistakes_with_a_sentence() -> None:
    unknown = CliRunner().invoke(certify_command, ["--like", "1.2.3"])
    assert unknown.exit_code == 2
    assert "no recording of Apache Kafka 1.2.3" in unknown.output
    wrong = CliRunner().invoke(certify_command, ["--out", "page.pdf"])
    assert wrong.exit_code == 2
    assert ".html or .md" in wrong.output
    nobody = CliRunner().invoke(certify_command, ["-b", "127.0.0.1:1", "--rules"])
    assert nobody.exit_code == 1
    assert "Traceback" not in nobody.output


def test_the_command_line_writes_json(rules: Recording, tmp_path: Path) -> None:
    certificate = _certified(rules)
    assert json.loads(json.dumps(certificate.as_json()))["different"] == 0


@pytest.mark.parametrize("version", recorded_versions())
def test_no_recorded_request_alters_what_is_not_its_own(version: str) -> None:
    """A certified broker has its settings afterwards; variants of a broker's and of metrics had come into the recording."""
    questions = [question for story in load(version).stories for question in story.story.questions]
    altering = [question for question in questions if question.api == "IncrementalAlterConfigs"]
    assert altering
    assert [question.name for question in altering if not only_its_topics(question)] == []


@pytest.mark.parametrize("version", recorded_versions())
def test_every_recorded_request_can_be_made(version: str) -> None:
    """Its fields are those of the declared messages: a field that was renamed is renamed in the recordings."""
    side = StorySide("none", ("127.0.0.1", 1), "p-", 0)
    questions = [question for story in load(version).stories for question in story.story.questions]
    assert len(questions) > 2_000
    for question in questions:
        assert message_of(question, side.resolve) is not None
