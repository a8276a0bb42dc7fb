"""A row about consumer groups explains what it is about, and nothing beside it; a lasting difference ends a story."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from conformance.tests.differences.case import V4, Case
from coterie.broker.broker import Broker
from coterie.broker.handlers import HANDLERS
from coterie.broker.handlers.services import Services
from coterie.broker.requests.calls import Call
from coterie.broker.settings import BrokerSettings
from coterie.certify.question import Question, Story
from coterie.certify.side import StorySide
from coterie_conformance.everything.comparison import Comparer, Comparison
from coterie_conformance.groups.differential import SETTINGS

MADE, CHOSEN, LAST = "member@joingroup0.0", "$m", "~$m"
GROUP = {"group_id": "$c0"}
FAILED = {"error_code": "UNKNOWN_SERVER_ERROR", "responses": []}


def _shares(*partitions: int) -> dict[str, Any]:
    return {"topic_partitions": [{"topic_name": "$t", "partitions": [*partitions]}] if partitions else []}


def _described(*members: tuple[Any, ...], group: str = "$c0", instance: str | None = None) -> dict[str, Any]:
    """A group of these members, each with its id and its partitions; the first one is static with an ``instance``."""
    described = [
        {"member_id": m, "instance_id": instance if n == 0 else None, "assignment": _shares(*partitions)}
        for n, (m, *partitions) in enumerate(members)
    ]
    return {"groups": [{"group_id": group, "members": described}]}


def _subscribed(target: tuple[int, ...], *names: tuple[str, ...]) -> dict[str, Any]:
    """A group whose members name these topics, the first one with that target."""
    described = [
        {"member_id": f"$m{n}", "subscribed_topic_names": [*each], "target_assignment": _shares(*(() if n else target))}
        for n, each in enumerate(names)
    ]
    return {"groups": [{"group_id": "$c0", "members": described}]}


def _committed(code: str) -> dict[str, Any]:
    return {"topics": [{"name": "$t", "partitions": [{"partition_index": 0, "error_code": code}]}]}


def _shared(partition: int, code: str | None = None) -> dict[str, Any]:
    """A ShareFetch response with that error of the partition, or without it."""
    partitions = [] if code is None else [{"partition_index": partition, "error_code": code}]
    return {"error_code": "NONE", "responses": [{"topic_id": "t", "partitions": partitions}]}


_SHARED = {"topics": [{"topic_id": "t", "partitions": [{"partition_index": n} for n in range(2)]}]}
_SHARED_TWICE = {"topics": [*_SHARED["topics"], *_SHARED["topics"]]}


def _fetched(topic_id: str, partitions: int) -> dict[str, Any]:
    return {
        "error_code": "NONE",
        "responses": [{"topic_id": topic_id, "partitions": [{"partition_index": n} for n in range(partitions)]}],
    }


CASES = {
    "two made ids": Case(
        "ConsumerGroupDescribe", _described((MADE, 0), ("<fresh>", 1)), _described((MADE, 1), ("<fresh>", 0)), row="ids"
    ),
    "two made ids for one partition": Case(
        "ConsumerGroupDescribe", _described((MADE, 0), ("<fresh>",)), _described((MADE,), ("<fresh>", 0)), row="ids"
    ),
    "more partitions of one than of the other": Case(
        "ConsumerGroupDescribe",
        _described((MADE, 0, 1), ("<fresh>", 2)),
        _described((MADE, 2), ("<fresh>", 0, 1)),
        row="ids",
    ),
    "a made id beside a chosen one": Case(
        "ConsumerGroupDescribe", _described((MADE, 0), (CHOSEN, 1)), _described((MADE, 1), (CHOSEN, 0)), row="ids"
    ),
    "a made id before the last of all": Case(
        "ConsumerGroupDescribe", _described((MADE, 0), (LAST, 1)), _described((MADE, 1), (LAST, 0))
    ),
    "two chosen ids": Case(
        "ConsumerGroupDescribe", _described((CHOSEN, 0), ("$l", 1)), _described((CHOSEN, 1), ("$l", 0))
    ),
    "a static member, which is the first": Case(
        "ConsumerGroupDescribe",
        _described((MADE, 0), (CHOSEN, 1), instance="$i"),
        _described((MADE, 1), (CHOSEN, 0), instance="$i"),
    ),
    "made ids in a group of one protocol": Case(
        "ConsumerGroupDescribe",
        _described((MADE, 0), ("<fresh>", 1), group="$g"),
        _described((MADE, 1), ("<fresh>", 0), group="$g"),
    ),
    "the first heartbeat of a member without an id": Case(
        "ConsumerGroupHeartbeat",
        {"assignment": _shares(1)},
        {"assignment": _shares(0)},
        row="ids",
        body=GROUP | {"member_id": ""},
    ),
    "the first heartbeat of a member with one": Case(
        "ConsumerGroupHeartbeat",
        {"assignment": _shares(1)},
        {"assignment": _shares(0)},
        body=GROUP | {"member_id": CHOSEN},
    ),
    "no assignment": Case(
        "ConsumerGroupHeartbeat", {"assignment": _shares(1)}, {"assignment": None}, body=GROUP | {"member_id": ""}
    ),
    "topics that are in the order of a set": Case(
        "ConsumerGroupDescribe", _subscribed((), ("$t", "$u")), _subscribed((), ("$u", "$t")), row="order"
    ),
    "other topics": Case("ConsumerGroupDescribe", _subscribed((), ("$t", "$u")), _subscribed((), ("$t", "$v"))),
    "a target beside a member without topics": Case(
        "ConsumerGroupDescribe", _subscribed((0,), ("$t",), ()), _subscribed((), ("$t",), ()), row="without topics"
    ),
    "a target that we lack": Case(
        "ConsumerGroupDescribe", _subscribed((), ("$t",), ()), _subscribed((0,), ("$t",), ())
    ),
    "a target of members with topics": Case(
        "ConsumerGroupDescribe", _subscribed((0,), ("$t",), ("$t",)), _subscribed((), ("$t",), ("$t",))
    ),
    "a commit to a forgotten group": Case(
        "OffsetCommit", _committed("UNKNOWN_MEMBER_ID"), _committed("GROUP_ID_NOT_FOUND"), row="forgotten", body=GROUP
    ),
    "a commit to a group of one protocol": Case(
        "OffsetCommit", _committed("UNKNOWN_MEMBER_ID"), _committed("GROUP_ID_NOT_FOUND"), body={"group_id": "$g0"}
    ),
    "a commit that Kafka accepts": Case(
        "OffsetCommit", _committed("UNKNOWN_MEMBER_ID"), _committed("NONE"), body=GROUP
    ),
    "a share session that begins with a partition twice": Case(
        "ShareFetch", _shared(0, "NONE"), FAILED, row="fails on shared partitions named twice", body=_SHARED_TWICE
    ),
    "a share session that goes on with a partition twice": Case(
        "ShareFetch", _shared(0, "NONE"), FAILED, body=_SHARED_TWICE | {"share_session_epoch": 1}
    ),
    "a share session that begins with two partitions": Case("ShareFetch", _shared(0, "NONE"), FAILED, body=_SHARED),
    "a state that Kafka has not read": Case(
        "ShareFetch", _shared(0, "UNKNOWN_SERVER_ERROR"), _shared(0), row="state read late", body={"max_wait_ms": 300}
    ),
    "records that Kafka does not deliver": Case(
        "ShareFetch", _shared(0, "NONE"), _shared(0), body={"max_wait_ms": 300}
    ),
    "a state that Kafka has not read in ten seconds": Case(
        "ShareFetch", _shared(0, "UNKNOWN_SERVER_ERROR"), _shared(0), body={"max_wait_ms": 10000}
    ),
    "two partitions without a topic id": Case("Fetch", _fetched("none", 2), FAILED, row="fails on no id twice"),
    "one partition without a topic id": Case("Fetch", _fetched("none", 1), FAILED),
    "two partitions of an unknown topic": Case("Fetch", _fetched("id ?", 2), FAILED),
}


@pytest.mark.parametrize("case", CASES)
def test_a_row_about_groups_explains_what_it_is_about(case: str) -> None:
    assert CASES[case].rows() == {CASES[case].row}


def _beat(name: str, member: str, *topics: str) -> Question:
    body = {
        "member_id": member,
        "rebalance_timeout_ms": 6000,
        "subscribed_topic_names": [*topics],
        "topic_partitions": [],
    }
    return Question(name, "ConsumerGroupHeartbeat", 1, GROUP | body)


async def _compared(changed: Any) -> Comparison:
    """A story of two of our brokers, of which the second answers ConsumerGroupDescribe as ``changed`` leaves it."""

    def handle(broker: Services, request: Any, call: Call) -> Any:
        response = HANDLERS[69](broker, request, call)
        changed(response)
        return response

    brokers = [Broker(BrokerSettings(SETTINGS)) for _ in range(2)]
    brokers[1].handlers = HANDLERS | {69: handle}
    one, other = [StorySide("coterie", await broker.start("127.0.0.1", 0), "e-", base_ms=0) for broker in brokers]
    created = Question(
        "create", "CreateTopics", 4, {"topics": [{"name": "$t", "num_partitions": 1, "replication_factor": 1}]}
    )
    describe = Question("describe", "ConsumerGroupDescribe", 1, {"group_ids": ["$c0"]})
    after = Question("after", "ListGroups", 4, {})
    try:
        story = Story("s", [created, _beat("m", "$m", "$t"), _beat("l", "$l"), describe, after])
        return await Comparer((one, other), V4, agree_s=0.0).compare(story)
    finally:
        for broker in brokers:
            await broker.stop()


def _without_target(response: Any) -> None:
    for member in response.groups[0].members:
        member.target_assignment.topic_partitions = []


def _other_order(response: Any) -> None:
    response.groups[0].members.reverse()


@pytest.mark.parametrize(
    ("changed", "requested"), [(_without_target, 4), (_other_order, 5)], ids=["a target", "an order"]
)
def test_a_lasting_difference_ends_a_story(changed: Any, requested: int) -> None:
    comparison = asyncio.run(_compared(changed))
    assert (comparison.requested, comparison.differences) == (requested, [])
    assert comparison.explained


def test_an_id_that_a_member_chose_is_written_as_it_is() -> None:
    """Its order among others is the same on every broker; of an id that the broker made it is not."""

    async def member_ids() -> list[str]:
        broker = Broker(BrokerSettings(SETTINGS))
        side = StorySide("coterie", await broker.start("127.0.0.1", 0), "e-", base_ms=0)
        made = Question("made", "ConsumerGroupHeartbeat", 0, _beat("made", "", "$t").body)
        try:
            return [(await side.ask(question))["member_id"] for question in (_beat("chosen", "$m", "$t"), made)]
        finally:
            side.close()
            await broker.stop()

    assert asyncio.run(member_ids()) == ["$m", "member@made"]
