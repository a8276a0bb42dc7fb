"""The judge waits for the effect of a request that a broker answers before it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from coterie.broker.broker import Broker
from coterie.broker.handlers import HANDLERS
from coterie.broker.handlers.services import Handler, Services
from coterie.broker.requests.calls import Call, CannotRespond
from coterie.broker.requests.pending import Pending
from coterie.broker.settings import BrokerSettings
from coterie.certify import side as side_module
from coterie.certify.question import Question, Story
from coterie.certify.side import StorySide
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.logs.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from coterie_conformance.everything.comparison import Comparer, Difference, codes_in
from coterie_conformance.everything.generated.domains import batch
from coterie_conformance.groups.differential import SETTINGS

_TOPIC = {"name": "$t", "num_partitions": 1, "replication_factor": 1}
_CREATE = Question("create", "CreateTopics", 4, {"topics": [_TOPIC]})
LATE = 3  # answers that still show the state before


def _late(api_key: int, show_before: Any, after: int = 0) -> tuple[dict[int, Handler], list[int]]:
    """The API's handler, of which ``LATE`` answers show the state before, ``after`` so many; and how often it was asked."""
    requests = [0]

    def handle(broker: Services, request: Any, call: Call) -> Any:
        handled = HANDLERS[api_key](broker, request, call)
        requests[0] += 1
        if after < requests[0] <= after + LATE:
            show_before(handled.response if isinstance(handled, Pending) else handled)
        return handled

    return {api_key: handle}, requests


async def _asked(
    changed: dict[int, Handler], *questions: Question, settings: Mapping[str, str] = SETTINGS
) -> list[Any]:
    broker = Broker(BrokerSettings(dict(settings)))
    broker.handlers = HANDLERS | changed
    side = StorySide("coterie", await broker.start("127.0.0.1", 0), "e-", base_ms=1_700_000_000_000)
    try:
        return [await side.ask(question) for question in questions]
    finally:
        side.close()
        await broker.stop()


def test_a_transaction_has_ended_before_the_judge_asks_on() -> None:
    def show_before(response: Any) -> None:
        response.error_code = ErrorCode.CONCURRENT_TRANSACTIONS

    changed, requests = _late(26, show_before, after=1)
    producer = {"@": "id", "of": "producer@init"}
    ended = {"transactional_id": "$x", "producer_id": producer, "producer_epoch": 0, "committed": False}
    questions = (
        _CREATE,
        Question("init", "InitProducerId", 1, {"transactional_id": "$x", "transaction_timeout_ms": 60_000}),
        Question("add", "AddPartitionsToTxn", 1, ended | {"topics": [{"name": "$t", "partitions": [0]}]}),
        Question("end", "EndTxn", 1, ended),
    )
    del questions[2].body["committed"]
    responses = asyncio.run(_asked(changed, *questions))
    assert (responses[-1]["error_code"], requests[0]) == ("NONE", 1 + LATE + 1)


def test_topics_are_gone_before_the_judge_asks_on() -> None:
    def show_before(response: Any) -> None:
        response.topics[0].error_code = 0

    changed, requests = _late(3, show_before)
    questions = (
        _CREATE,
        Question("delete", "DeleteTopics", 4, {"topic_names": ["$t", "$nowhere"], "timeout_ms": 1000}),
    )
    responses = asyncio.run(_asked(changed, *questions))
    assert [topic["error_code"] for topic in responses[-1]["responses"]] == ["NONE", "UNKNOWN_TOPIC_OR_PARTITION"]
    assert requests[0] == LATE + 1


def test_an_expression_is_resolved_before_the_judge_asks_on() -> None:
    """The next heartbeat has the epoch to which the group rises with the expression's topics."""

    def show_before(response: Any) -> None:
        response.groups[0].group_epoch = 0

    changed, requests = _late(69, show_before)
    joining = {"group_id": "$c", "member_id": "$m", "rebalance_timeout_ms": 6000}
    by_regex = joining | {"subscribed_topic_names": [], "subscribed_topic_regex": "$t.*", "topic_partitions": []}
    joined = Question("join", "ConsumerGroupHeartbeat", 1, by_regex)
    next_heartbeat = Question("next", "ConsumerGroupHeartbeat", 1, joining | {"member_epoch": 1})
    responses = asyncio.run(_asked(changed, _CREATE, joined, next_heartbeat))
    assert [received["member_epoch"] for received in responses[1:]] == [1, 2]
    assert requests[0] >= LATE + 1


def test_a_fetch_that_is_repeated_leaves_one_session() -> None:
    """A request is repeated for seconds while its response differs. Each one of these had begun a session that was kept until
    the end of the story, and where they filled the broker's slots other stories got no session: a whole certificate had 4 or 5
    differences of Fetch more in some runs."""
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}
    topics = [{"topic": "$t", "partitions": [partition]}]
    first = Question("first", "Fetch", 7, {"max_wait_ms": 0, "session_epoch": 0, "topics": topics})
    other = Question("other", "Fetch", 7, first.body)
    going_on = {"max_wait_ms": 0, "session_id": {"@": "id", "of": "session@first"}, "session_epoch": 1}
    later = Question("later", "Fetch", 7, going_on)
    slots = SETTINGS | {"max.incremental.fetch.session.cache.slots": "2"}
    questions = (_CREATE, first, first, first, other, other, other, later)
    responses = asyncio.run(_asked({}, *questions, settings=slots))
    sessions = [(response["error_code"], response["session_id"]) for response in responses[1:]]
    assert sessions == [("NONE", "session@first")] * 3 + [("NONE", "session@other")] * 3 + [("NONE", "session@first")]


async def _differences_of_produce(
    handle: Handler, acks: int, agree_s: float, partitions: Sequence[int] = (0,)
) -> list[Difference]:
    """A Produce to two of our brokers, of which the second answers by ``handle``."""
    data = {"name": "$t", "partition_data": [{"index": index, "records": batch()} for index in partitions]}
    create = Question("create", "CreateTopics", 4, {"topics": [_TOPIC | {"num_partitions": len(partitions)}]})
    body = {"acks": acks, "timeout_ms": 1000, "topic_data": [data]}
    brokers = [Broker(BrokerSettings(SETTINGS)) for _ in range(2)]
    brokers[1].handlers = HANDLERS | {0: handle}
    one, other = [StorySide("coterie", await broker.start("127.0.0.1", 0), "e-", base_ms=0) for broker in brokers]
    try:
        story = Story("s", [create, Question("produce", "Produce", 7, body)])
        return (await Comparer((one, other), (4, 3, 0), agree_s=agree_s).compare(story)).differences
    finally:
        for broker in brokers:
            await broker.stop()


def test_an_unacknowledged_produce_that_was_refused_is_asked_again() -> None:
    """Its only error is the end of the connection, which may mean "not yet" too."""
    refused = [0]

    def handle(broker: Services, request: Any, call: Call) -> Any:
        if request.acks == 0 and not refused[0]:
            refused[0] += 1
            raise CannotRespond("not yet")
        return HANDLERS[0](broker, request, call)

    assert (asyncio.run(_differences_of_produce(handle, 0, agree_s=2.0)), refused) == ([], [1])


@pytest.mark.parametrize(
    ("code", "waited_for"), [(ErrorCode.INVALID_RECORD, True), (ErrorCode.MESSAGE_TOO_LARGE, False)]
)
def test_a_setting_that_comes_late_is_waited_for_longer(code: ErrorCode, waited_for: bool) -> None:
    """Kafka 2.6 reads changes of settings from ZooKeeper, one after the other: seconds, on a machine with other work."""
    until_s: list[float] = []

    def handle(broker: Services, request: Any, call: Call) -> Any:
        until_s.append(time.monotonic() + 2.0)
        if time.monotonic() >= until_s[0]:
            return HANDLERS[0](broker, request, call)
        refused = PartitionProduceResponse(index=0, error_code=code, base_offset=-1)
        return ProduceResponse([TopicProduceResponse(request.topic_data[0].name, partition_responses=[refused])])

    assert (asyncio.run(_differences_of_produce(handle, -1, agree_s=1.0)) == []) == waited_for


def test_only_the_partitions_of_a_produce_that_were_refused_are_asked_again() -> None:
    """The others have their records: each further request would write them once more."""
    requests: list[list[int]] = []

    def handle(broker: Services, request: Any, call: Call) -> Any:
        (topic,) = request.topic_data
        requests.append([each.index for each in topic.partition_data])
        if len(requests) > 1:
            return HANDLERS[0](broker, request, call)
        refused = PartitionProduceResponse(index=0, error_code=ErrorCode.INVALID_RECORD, base_offset=-1)
        topic.partition_data = topic.partition_data[1:]
        response: Any = HANDLERS[0](broker, request, call)
        response.responses[0].partition_responses.insert(0, refused)
        return response

    assert asyncio.run(_differences_of_produce(handle, 1, agree_s=2.0, partitions=(0, 1))) == []
    assert requests == [[0, 1], [0]]


def test_a_request_without_a_response_does_not_end_the_connection_of_those_behind_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A JoinGroup waited on the connection of a Produce without acknowledgement, which was overdue first."""
    monkeypatch.setattr(side_module, "RESPONSE_S", 0.5)
    written = {"topic_data": [{"name": "$t", "partition_data": [{"index": 0, "records": batch(records=[["k", "v"]])}]}]}
    wanted = [{"partition": 0, "fetch_offset": 1, "partition_max_bytes": 1000}]
    waiting = {"max_wait_ms": 300, "min_bytes": 1, "max_bytes": 1000, "topics": [{"topic": "$t", "partitions": wanted}]}
    fetches = [Question(f"fetch{n}", "Fetch", 4, waiting) for n in range(2)]
    responses = asyncio.run(_asked({}, _CREATE, Question("p", "Produce", 7, {"acks": 0} | written), *fetches))
    assert responses[1] == "no answer"
    assert [set(codes_in(response)) for response in responses[2:]] == [{"NONE"}] * 2
