"""The judge of everything with a second coterie in Kafka's place: equal brokers agree, each old defect is found."""

from __future__ import annotations

import asyncio
import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from conformance.tests.everything.old_defects import OLD_DEFECTS, OldDefect, after
from coterie.broker.broker import Broker
from coterie.broker.handlers import HANDLERS
from coterie.broker.handlers.services import Handler
from coterie.broker.settings import BrokerSettings
from coterie.certify.question import API_BY_NAME, Question, Story, message_of, values_in
from coterie.certify.responses import Part
from coterie.certify.side import StorySide
from coterie.wire.errors import ErrorCode
from coterie.wire.framing import encode_request
from coterie.wire.messages.groups.join_group import JoinGroupResponse, JoinGroupResponseMember
from coterie.wire.messages.topics.delete_topics import DeletableTopicResult, DeleteTopicsResponse
from coterie_conformance.everything.beside import stories_beside
from coterie_conformance.everything.comparison import (
    Comparer,
    Comparison,
    Difference,
    Explained,
    codes_in,
    keeps_state,
)
from coterie_conformance.everything.generated.domains import batch
from coterie_conformance.everything.generated.systematic import systematic
from coterie_conformance.everything.judge import Bench, JudgeResult, Leftovers
from coterie_conformance.everything.moves import random_story
from coterie_conformance.everything.report import figures
from coterie_conformance.everything.run import Wanted, ask_everything, settings_for
from coterie_conformance.everything.settings import settings_stories
from coterie_conformance.everything.shrinking import shrink
from coterie_conformance.groups.differential import SETTINGS

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
    assert verdict.requested >= 400
    assert not verdict.kinds, next(iter(verdict.kinds.values()))[0].text()


@pytest.mark.parametrize("defect", OLD_DEFECTS, ids=lambda defect: defect.number)
def test_an_old_defect_is_found(defect: OldDefect) -> None:
    wanted = Wanted(defect.questions, seed=1, apis=defect.apis, first_only=True)
    verdict = asyncio.run(_judge(wanted, defect.handlers))
    assert verdict.kinds, f"{verdict.requested} questions did not find it"


def _first_of_topic(_: Any, response: Any) -> None:
    """Every partition of a topic has the first one's error."""
    for topic in response.topics:
        for partition in topic.partitions:
            partition.error_code = topic.partitions[0].error_code


def _no_fence(_: Any, response: Any) -> None:
    if response.error_code == ErrorCode.FENCED_INSTANCE_ID:
        response.error_code = ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("wanted", "changed"),
    [
        (Wanted(1000, seed=1, apis=("OffsetCommit",), first_only=True), after(8, _first_of_topic)),
        (Wanted(3000, seed=1, apis=("none",), first_only=True), after(12, _no_fence)),
    ],
    ids=["an element answers for another", "a member that came back"],
)
def test_a_defect_that_many_elements_or_a_long_life_show_is_found(wanted: Wanted, changed: dict[int, Handler]) -> None:
    verdict = asyncio.run(_judge(wanted, changed))
    assert verdict.kinds, f"{verdict.requested} questions did not find it"


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


def test_a_story_is_written_and_read_as_it_was_asked() -> None:
    """Rows recognise a question by the field that it is about, so a story read back without it differs where it did not."""
    served = {name: api.request.versions for name, api in API_BY_NAME.items()}
    made = itertools.chain(systematic(served), stories_beside(served), settings_stories(served))
    for story in itertools.chain(made, (random_story(seed, served) for seed in range(40))):
        assert Story.of_json(json.loads(json.dumps(story.as_json()))) == story


def test_a_story_that_is_asked_again_has_no_producer_whose_id_is_a_fields_default(tmp_path: Path) -> None:
    ids: list[int] = []
    file = tmp_path / "story.json"
    init = Question("init", "InitProducerId", 1, {"transactional_id": None}, covers=("transactional_id", "null"))
    file.write_text(json.dumps(Story("s", [init]).as_json()))
    handlers = after(22, lambda _, response: ids.append(response.producer_id))
    verdict = asyncio.run(_judge(Wanted(1, seed=1, replay=file), handlers))
    assert (ids[:2], len(ids)) == ([0, 1], 3)  # the first two are not the story's
    assert dict(verdict.covered) == {("InitProducerId", 1, "transactional_id", "null"): 1}


def test_the_report_counts_what_was_asked() -> None:
    verdict = asyncio.run(_judge(Wanted(50, seed=1, apis=("Heartbeat",)), {}))
    report = figures(verdict)
    assert report["coverage"]["Heartbeat"]["fields"] == 4
    assert report["questions"] == verdict.requested == sum(c["questions"] for c in report["coverage"].values())
    assert "order" in report["unused_rows"]
    assert report["not_requested"]["UnregisterBroker, one"] == "the broker itself"


def test_the_report_names_what_was_always_refused_and_what_never_varied() -> None:
    verdict = JudgeResult("4.3.0")
    beats = [Question("q", "Heartbeat", 4, {"group_id": "$g", "generation_id": n, "member_id": "m"}) for n in (1, 2)]
    covered = [("Heartbeat", 3, "", "right"), ("Heartbeat", 4, "", "right"), ("UnregisterBroker", 0, "", "right")]
    verdict.add(Comparison(Story("s"), covered=covered, accepted=beats))
    report = figures(verdict)["coverage"]
    assert report["Heartbeat"]["refused"] == [3]
    assert report["Heartbeat"]["one_value"] == ["group_id", "member_id", "group_instance_id"]
    assert (report["UnregisterBroker"]["refused"], report["UnregisterBroker"]["one_value"]) == ([0], [])


def test_what_only_one_side_refused_was_not_accepted() -> None:
    refusing = asyncio.run(_judge(Wanted(60, seed=1, apis=("UpdateFeatures",)), after(57, _refused)))
    assert "UpdateFeatures" not in refusing.accepted
    assert "UpdateFeatures" in asyncio.run(_judge(Wanted(60, seed=1, apis=("UpdateFeatures",)), {})).accepted


def _refused(_: Any, response: Any) -> None:
    response.error_code = ErrorCode.UNKNOWN_SERVER_ERROR


def test_values_are_named_by_their_path() -> None:
    body = {"a": [{"b": 1}, {"b": {"@": "hex", "of": "00"}}], "c": [], "d": {"e": None}, "f": ["x", "y"]}
    expected = [
        ("a.b", "1"),
        ("a.b", "{'@': 'hex', 'of': '00'}"),
        ("c", "[]"),
        ("d.e", "None"),
        ("f", "'x'"),
        ("f", "'y'"),
    ]
    assert list(values_in(body)) == expected


def test_each_other_element_has_another_name() -> None:
    served = {name: api.advertised for name, api in API_BY_NAME.items()}
    bodies = {(q.api, *q.covers): q.body for story in stories_beside(served) for q in story.questions if q.covers[0]}
    partitions = bodies["Produce", "topic_data.partition_data.records", "crc, beside"]["topic_data"][0][
        "partition_data"
    ]
    assert [partition["index"] for partition in partitions] == [0, 1]
    assert partitions[1]["records"]["batches"][0]["damage"] == "crc"
    assert ("Produce", "topic_data.partition_data.index", "zero, beside") not in bodies  # the same partition twice
    groups = bodies["DescribeGroups", "groups", "unknown, beside"]["groups"]
    assert groups == ["$g", "$nogroup"]
    assert len({api for api, *_ in bodies}) == 56


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
    "UnregisterController": "CONTROLLER_ID_NOT_REGISTERED",
    "StreamsGroupTopologyDescriptionUpdate": "UNSUPPORTED_VERSION",  # without a plugin that keeps descriptions
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
    """By API, the error codes in the response to its first case."""
    broker = Broker(BrokerSettings(settings_for("4.4.0")[0]))
    address = await broker.start("127.0.0.1", 0)
    refusals = dict[str, set[str]]()
    try:
        for number, story in enumerate(stories):
            side = StorySide("coterie", address, f"e{number:07d}-", base_ms=1_700_000_000_000)
            for question in story.questions:
                response = await side.ask(question)
                if question.name == "0":
                    refusals[question.api] = set(codes_in(response)) - {"NONE"}
                    break
            await side.sweep(story)
    finally:
        await broker.stop()
    return refusals


class _Scripted:
    """A side with a response for each question, by its name."""

    def __init__(self, responses: dict[str, Any]) -> None:
        self.responses = responses

    async def ask(self, question: Question) -> Any:
        return self.responses.get(question.name, {"error_code": "NONE"})

    def close(self) -> None:
        pass


@pytest.mark.parametrize("generation", [1, 3])
def test_what_a_lasting_difference_leaves_to_ask_is_another_story(generation: int) -> None:
    """Kafka before 4 has the group no longer: of a group that is there, each next response would differ."""
    requested = [
        Question(n, "JoinGroup", 3, {}, covers=("", "" if n == "made" else "right")) for n in ("made", "0", "1")
    ]
    joined = {"error_code": "NONE", "generation_id": 3}
    sides: Any = (_Scripted({"0": joined}), _Scripted({"0": joined | {"generation_id": generation}}))
    story = Story("JoinGroup", requested, strict=False)
    comparison = asyncio.run(Comparer(sides, (3, 9, 1)).compare(story))
    assert not comparison.differences
    if generation == 3:
        assert (comparison.requested, comparison.rest) == (3, None)
    else:
        assert (comparison.requested, comparison.rest) == (
            2,
            Story("JoinGroup", [requested[0], requested[2]], strict=False),
        )


def test_the_member_that_joined_is_named_and_not_the_last_of_all() -> None:
    """A leader's response lists its members in an order of the broker's own, and a story goes on with its own id."""
    side = StorySide("coterie", ("127.0.0.1", 9), "e-", base_ms=0)
    members = [JoinGroupResponseMember(member_id=member, metadata=b"") for member in ("b", "a")]
    response = JoinGroupResponse(member_id="b", leader="b", members=members)
    side._learn(Question("join", "JoinGroup", 1, {}), response, 1, set())
    assert side.resolve(JoinGroupResponse.fields[0].kind, {"@": "id", "of": "member@join"}) == "b"


def test_the_id_of_a_refused_deletion_is_not_the_topics() -> None:
    """Kafka shuffles the responses, and one may repeat an id that the question made up."""
    side = StorySide("coterie", ("127.0.0.1", 9), "e-", base_ms=0)
    both_ways = DeletableTopicResult("e-n1", b"wrong" * 3 + b"!", ErrorCode.INVALID_REQUEST)
    for result in (DeletableTopicResult("e-n1", b"its id" + bytes(10)), both_ways):
        side._learn(Question("q", "DeleteTopics", 6, {}), DeleteTopicsResponse(responses=[result]), 6, set())
    id_kind = next(f.kind for f in DeletableTopicResult.fields if f.name == "topic_id")
    assert side.resolve(id_kind, {"@": "topic id", "of": "$n1"}) == b"its id" + bytes(10)


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


def test_a_difference_is_not_made_short_by_what_is_not_asked() -> None:
    """Kafka does not answer a Produce without records, so that any refusal without acknowledgement looks like that one."""
    parts = [{"index": 0, "records": batch(records=[["k", "v"]])}, {"index": 1, "records": batch(records=[])}]
    question = Question("p", "Produce", 0, {"acks": 0, "topic_data": [{"name": "$t", "partition_data": parts}]})

    def met(story: Story) -> Difference:
        ends = "no answer", "connection closed"
        return Difference(story, story.questions[-1], *ends, [Part("", *ends)])

    async def shortest() -> Difference:
        async def compare(story: Story) -> Comparison:
            has_a_partition = any(t["partition_data"] for t in story.questions[-1].body["topic_data"])
            return Comparison(story, differences=[met(story)] if has_a_partition else [])

        return [each async for each in shrink(met(Story("s", [question])), compare)][-1]

    assert asyncio.run(shortest()).question.body == {
        "acks": 0,
        "topic_data": [{"name": "$t", "partition_data": parts[1:]}],
    }


class _Nodes:
    """A kazoo client."""

    def __init__(self, names: list[str]) -> None:
        self.paths = {f"/config/{folder}/{name}" for folder in ("users", "clients") for name in names}

    def get_children(self, path: str) -> list[str]:
        return [each.rpartition("/")[2] for each in self.paths if each.startswith(f"{path}/")]

    def delete(self, path: str, recursive: bool) -> None:
        assert recursive
        self.paths.remove(path)


@pytest.mark.parametrize(("api", "stay"), [("AlterClientQuotas", ["e-2-q"]), ("Metadata", ["e-1-q", "e-2-q"])])
def test_the_users_of_a_story_go_with_it(api: str, stay: list[str]) -> None:
    nodes = _Nodes(["e-1-q", "e-2-q"])
    Leftovers(nodes).remove(Story("s", [Question("q", api, 0, {})]), "e-1-")
    assert nodes.paths == _Nodes(stay).paths
