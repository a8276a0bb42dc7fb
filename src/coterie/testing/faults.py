"""What a test may do to requests on their way to the coordinator: hold them, fail them, count them.

A rule names an API by Kafka's name (``JoinGroup``) and perhaps a group and a client; it stands before the broker's own
handler, so that what is not touched has its response just as always.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from coterie.broker.handlers.services import Handler, Services
from coterie.broker.requests.calls import Call, CannotRespond
from coterie.broker.requests.pending import Pending
from coterie.coordinator.refusals import response_with
from coterie.testing import admin_refusals
from coterie.wire.apis import API_NAMES, APIS
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.groups.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from coterie.wire.messages.groups.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from coterie.wire.messages.logs.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from coterie.wire.messages.logs.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from coterie.wire.messages.logs.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from coterie.wire.messages.topics.metadata import MetadataResponse, MetadataResponseTopic
from coterie.wire.messages.transactions.init_producer_id import InitProducerIdResponse

_GROUP_KEY = 0  # FindCoordinator: type of the key
API_KEYS = {api.name: key for key, api in APIS.items()}
_BY_THE_CORE = {
    "JoinGroup",
    "SyncGroup",
    "Heartbeat",
    "LeaveGroup",
    "ConsumerGroupHeartbeat",
    "OffsetCommit",
    "TxnOffsetCommit",
    "OffsetDelete",
}


def _find_coordinator(request: Any, code: ErrorCode) -> Message:
    keys = request.coordinator_keys or [request.key]
    return FindCoordinatorResponse(
        error_code=code,
        error_message=code.text,
        node_id=-1,
        port=-1,
        coordinators=[Coordinator(k, -1, "", -1, code, code.text) for k in keys],
    )


def _offset_fetch(request: Any, code: ErrorCode) -> Message:
    """A code of topics (UNKNOWN_TOPIC_OR_PARTITION, TOPIC_AUTHORIZATION_FAILED, ...) goes to the partitions; so does any in
    versions 0 and 1, which have no other error."""
    groups = [OffsetFetchResponseGroup(g.group_id, error_code=code) for g in request.groups]
    if code in _OF_PARTITIONS:
        groups = [
            OffsetFetchResponseGroup(
                g.group_id,
                topics=[
                    OffsetFetchResponseTopics(
                        t.name,
                        t.topic_id,
                        [OffsetFetchResponsePartition(p, -1, error_code=code) for p in t.partition_indexes],
                    )
                    for t in g.topics or ()
                ],
            )
            for g in request.groups
        ]
    topics = [
        OffsetFetchResponseTopic(
            t.name, [OffsetFetchResponsePartition(p, -1, error_code=code) for p in t.partition_indexes]
        )
        for t in request.topics or ()
    ]
    of_all = ErrorCode.NONE if code in _OF_PARTITIONS else code
    return OffsetFetchResponse(topics=topics, error_code=of_all, groups=groups)


_OF_PARTITIONS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.UNSTABLE_OFFSET_COMMIT,
}


def _fetch(request: Any, code: ErrorCode) -> Message:
    """To the partitions, where versions below 7 have their only error."""
    return FetchResponse(
        error_code=ErrorCode.NONE if code in _OF_PARTITIONS else code,
        responses=[
            FetchableTopicResponse(
                t.topic, t.topic_id, [PartitionData(p.partition, code, records=b"") for p in t.partitions]
            )
            for t in request.topics
        ],
    )


def _produce(request: Any, code: ErrorCode) -> Message | None:
    if request.acks == 0:
        return None  # its producer reads no response
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                t.name, t.topic_id, [PartitionProduceResponse(p.index, code, -1) for p in t.partition_data]
            )
            for t in request.topic_data
        ]
    )


def _list_offsets(request: Any, code: ErrorCode) -> Message:
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                t.name, [ListOffsetsPartitionResponse(p.partition_index, code) for p in t.partitions]
            )
            for t in request.topics
        ]
    )


_REFUSALS: dict[str, Callable[[Any, ErrorCode], Message | None]] = {
    **admin_refusals.REFUSALS,
    **dict.fromkeys(_BY_THE_CORE, response_with),
    "FindCoordinator": _find_coordinator,
    "OffsetFetch": _offset_fetch,
    "Produce": _produce,
    "Fetch": _fetch,
    "ListOffsets": _list_offsets,
    "InitProducerId": lambda request, code: InitProducerIdResponse(error_code=code),
    "Metadata": lambda request, code: MetadataResponse(
        topics=[MetadataResponseTopic(code, t.name, t.topic_id) for t in request.topics or ()]
    ),
}
FAILABLE = tuple(sorted(_REFUSALS))


def refusal(api: str, request: Any, code: ErrorCode) -> Message | None:
    """The response to a request of a FAILABLE API with that error code; None where its client reads none."""
    return _REFUSALS[api](request, code)


@dataclass(eq=False)
class FaultRule:
    """Which requests, and what becomes of them: failed with ``code``, or held while ``code`` is None."""

    api: str
    group: str | None
    client_id: str | None
    times: int
    code: ErrorCode | None = None
    lost: bool = False  # carried out, but the response is never sent
    delay_s: float = 0.0  # carried out so much later, by the broker's own loop
    is_cut: bool = False  # its connection is closed instead
    held: list[Callable[[], None]] = field(default_factory=list)

    def concerns(self, api: str, client_id: str) -> bool:
        """Whether the rule has times left, and may be for a request of that API and client."""
        return self.times > 0 and api == self.api and self.client_id in (None, client_id)

    def matches(self, api: str, request: Any, client_id: str) -> bool:
        """Whether the rule is for this request, and has times left."""
        return self.concerns(api, client_id) and (self.group is None or self.group in _groups(request))

    def response(self, request: Any) -> Message | None:
        """That of a rule with a code; None where the client reads none."""
        assert self.code is not None, "a rule without a code has no response"
        return refusal(self.api, request, self.code)


def _groups(request: Any) -> list[str]:
    """The groups that a request names: FindCoordinator by its keys, OffsetFetch since version 8 in a list."""
    if isinstance(request, FindCoordinatorRequest):
        return request.coordinator_keys or [request.key] if request.key_type == _GROUP_KEY else []
    if isinstance(request, OffsetFetchRequest) and request.groups:
        return [group.group_id for group in request.groups]
    return [getattr(request, "group_id", "")]


class Faults:
    """The rules in force; `wrap` puts them before a broker's handlers."""

    def __init__(self) -> None:
        self.rules: list[FaultRule] = []
        self.requested: Counter[str] = Counter()

    def wrap(self, handlers: dict[int, Handler]) -> dict[int, Handler]:
        """The handlers by API key, each behind the rules."""
        return {key: self._before(API_NAMES[key], handler) for key, handler in handlers.items()}

    def concern(self, api: str, client_id: str) -> bool:
        """Whether a rule may be for a request of that API and client."""
        return any(rule.concerns(api, client_id) for rule in self.rules)

    def taken(self, api: str, request: Any, client_id: str) -> FaultRule | None:
        """The rule for the request, which has one time less now."""
        rule = next((r for r in self.rules if r.matches(api, request, client_id)), None)
        if rule is not None:
            rule.times -= 1
        return rule

    def _before(self, api: str, handler: Handler) -> Handler:
        def handle(broker: Services, request: Any, call: Call) -> Message | Pending | None:
            self.requested[api] += 1
            rule = self.taken(api, request, call.client_id)
            if rule is None:
                return handler(broker, request, call)
            if rule.is_cut:
                raise CannotRespond("")
            if rule.code is not None:
                return rule.response(request)
            return self._hold(rule, lambda: handler(broker, request, call))

        return handle

    @staticmethod
    def _hold(rule: FaultRule, go_on: Callable[[], Message | Pending | None]) -> Pending:
        held = Pending()

        def respond(result: Message | Pending | None) -> None:
            if isinstance(result, Pending) and result.response is None:
                result.notify = lambda: respond(result)
            elif isinstance(result, Pending):
                assert result.response is not None
                held.respond(result.response)
            elif result is not None:
                held.respond(result)

        if rule.lost:
            go_on()
        elif rule.delay_s:
            asyncio.get_running_loop().call_later(rule.delay_s, lambda: respond(go_on()))
        else:
            rule.held.append(lambda: respond(go_on()))
        return held
