"""The judge of everything with a second coterie in Kafka's place: equal brokers agree, each old defect is found."""

from __future__ import annotations

import asyncio
import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from coterie.broker.broker import Broker
from coterie.broker.handlers import HANDLERS
from coterie.broker.services import Handler
from coterie.broker.settings import BrokerSettings
from coterie.conformance.differential import SETTINGS
from coterie.conformance.everything.comparison import Comparison, Explained, codes_in, keeps_state
from coterie.conformance.everything.judge import Bench, JudgeResult
from coterie.conformance.everything.moves import random_story
from coterie.conformance.everything.question import API_BY_NAME, Question, Story, message_of
from coterie.conformance.everything.report import figures
from coterie.conformance.everything.run import Wanted, ask_everything
from coterie.conformance.everything.side import StorySide
from coterie.conformance.everything.systematic import systematic
from coterie.wire.framing import encode_request
from tests.conformance.old_defects import OLD_DEFECTS, OldDefect

VERSION = (4, 3, 0)


async def _judge(wanted: Wanted, changed: dict[int, Handler]) -> JudgeResult:
    brokers = [Broker(BrokerSettings(SETTINGS)) for _ in range(2)]
    brokers[0].handlers = HANDLERS | changed
    addresses = [await broker.start("127.0.0.1", 0) for broker in brokers]
    try:
        bench = Bench(addresses[0], addresses[1], VERSION, at_once=2 if wanted.first_only else 16, agree_s=0.1)
        return await ask_everything(bench, wanted, "4.3.0", lambda _: None)
    finally:
        for broker in brokers:
            await broker.stop()


def test_equal_brokers_agree() -> None:
    verdict = asyncio.run(_judge(Wanted(400, seed=1), {}))
    assert verdict.asked >= 400
    assert not verdict.kinds, next(iter(verdict.kinds.values()))[0].text()


@pytest.mark.parametrize("defect", OLD_DEFECTS, ids=lambda defect: defect.number)
def test_an_old_defect_is_found(defect: OldDefect) -> None:
    wanted = Wanted(defect.questions, seed=1, apis=defect.apis, first_only=True)
    verdict = asyncio.run(_judge(wanted, defect.handlers))
    assert verdict.kinds, f"{verdict.asked} questions did not find it"


def test_a_difference_is_made_short_and_asked_again(tmp_path: Path) -> None:
    """The scenario of the first old defect is a question or two; its file finds the defect again, and nothing in a sound
    broker."""
    defect = OLD_DEFECTS[0]
    verdict = asyncio.run(_judge(Wanted(100, seed=1, apis=defect.apis), defect.handlers))
    difference = next(iter(verdict.kinds.values()))[0]
    assert {question.api for question in difference.story.questions} == {"InitProducerId"}
    assert len(difference.story.questions) <= 2
    assert set(difference.question.body) <= {
        "transactional_id",
        "producer_id",
        "producer_epoch",
        "transaction_timeout_ms",
    }
    file = tmp_path / "story.json"
    file.write_text(json.dumps(difference.story.as_json()))
    replay = Wanted(1, seed=1, replay=file)
    assert set(asyncio.run(_judge(replay, defect.handlers)).kinds) == {difference.signature()}
    assert not asyncio.run(_judge(replay, {})).kinds


def test_the_report_counts_what_was_asked() -> None:
    verdict = asyncio.run(_judge(Wanted(50, seed=1, apis=("Heartbeat",)), {}))
    report = figures(verdict)
    assert report["coverage"]["Heartbeat"]["fields"] == 4
    assert report["questions"] == verdict.asked == sum(c["questions"] for c in report["coverage"].values())
    assert "order" in report["unused_rows"]
    assert report["not_asked"]["UnregisterBroker, one"] == "the broker itself"


def test_the_report_shows_what_each_row_explained() -> None:
    question = Question("q", "Metadata", 4, {"topics": []})
    verdict = JudgeResult("4.3.0")
    for kind, met in (("Metadata topics.order: a | b", 2), ("Metadata topics.order: c | d", 1)):
        comparison = Comparison(Story("s"), explained=[Explained("order", kind, question)] * met)
        verdict.add(comparison)
    row = figures(verdict)["rows"]["order"]
    assert (row["met"], [kind["met"] for kind in row["kinds"]]) == (3, [2, 1])
    assert row["kinds"][0]["question"].startswith("q: Metadata v4")


# The APIs whose right requests are refused by a broker without listeners for them, or about what it never has.
REFUSED = {
    **dict.fromkeys(("CreateAcls", "DeleteAcls", "DescribeAcls"), "SECURITY_DISABLED"),
    **dict.fromkeys(
        ("CreateDelegationToken", "RenewDelegationToken", "ExpireDelegationToken", "DescribeDelegationToken"),
        "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED",
    ),
    **dict.fromkeys(("SaslHandshake", "SaslAuthenticate"), "ILLEGAL_SASL_STATE"),
    "ElectLeaders": "ELECTION_NOT_NEEDED",
    "UnregisterBroker": "BROKER_ID_NOT_REGISTERED",
    "PushTelemetry": "INVALID_REQUEST",
    "JoinGroup": "MEMBER_ID_REQUIRED",
}


def test_each_api_has_a_right_request_that_is_not_refused() -> None:
    """Where the right request is refused, every case of the API is about the refusal: so it was with quotas, SCRAM
    credentials and the consumer protocol."""
    served = {name: api.advertised for name, api in API_BY_NAME.items()}
    firsts = [
        s
        for s in systematic(served)
        if any(s.name.startswith(f"{api} v{v.last} cases 0 ") for api, v in served.items())
    ]
    assert len(firsts) == len(served)
    refusals = asyncio.run(_refusals(firsts))
    assert {api: codes for api, codes in refusals.items() if codes} == {api: {code} for api, code in REFUSED.items()}


async def _refusals(stories: list[Story]) -> dict[str, set[str]]:
    """By API, the error codes in the answer to its first case."""
    broker = Broker(BrokerSettings(SETTINGS))
    address = await broker.start("127.0.0.1", 0)
    refusals = dict[str, set[str]]()
    try:
        for number, story in enumerate(stories):
            side = StorySide("coterie", address, f"e{number:07d}-", base_ms=1_700_000_000_000)
            for question in story.questions:
                answer = await side.ask(question)
                if question.name == "0":
                    refusals[question.api] = set(codes_in(answer)) - {"NONE"}
                    break
            await side.sweep(story)
    finally:
        await broker.stop()
    return refusals


def test_every_field_of_a_generated_question_can_be_sent() -> None:
    served = {name: api.request.versions for name, api in API_BY_NAME.items()}
    generated = itertools.islice(systematic(served), 0, None, 7)
    for story in itertools.chain(generated, (random_story(seed, served) for seed in range(40))):
        side = StorySide("coterie", ("127.0.0.1", 9), "e-", base_ms=1_700_000_000_000)
        for question in story.questions:
            assert encode_request(1, "judge", message_of(question, side.resolve), question.version)


def test_a_user_without_a_name_is_the_questions_own() -> None:
    async def users(body: dict[str, Any]) -> list[Any]:
        broker = Broker(BrokerSettings(SETTINGS))
        side = StorySide("coterie", await broker.start("127.0.0.1", 0), "s-", 0)
        try:
            return (await side.ask(Question("q", "DescribeUserScramCredentials", 0, body)))["results"]  # type: ignore[no-any-return]
        finally:
            side.close()
            await broker.stop()

    assert [result["user"] for result in asyncio.run(users({"users": [{}]}))] == [""]


def test_a_fetch_that_opens_a_session_on_one_side_alone_ends_the_story() -> None:
    epochs = {epoch: keeps_state(Question("q", "Fetch", 7, {"session_epoch": epoch})) for epoch in (-1, 0)}
    assert epochs == {-1: True, 0: False}
    assert keeps_state(Question("q", "Metadata", 7, {}))
    assert not keeps_state(Question("q", "Produce", 7, {}))
