"""Defects that the judge did not see when it only asked what somebody had thought of, each put back as a handler.

A handler here answers as coterie did before: it changes a request before the broker's own handler, or its response after.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from coterie.broker.handlers import HANDLERS
from coterie.broker.handlers.services import Handler, Services
from coterie.broker.requests.calls import Call
from coterie.broker.requests.pending import Pending
from coterie.coordinator.state import Group
from coterie.records.encoding import encode_batch
from coterie.wire.apis import APIS
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.logs.fetch import FetchResponse
from coterie.wire.messages.transactions.init_producer_id import InitProducerIdResponse

NOT_KNOWN = -(2**31)
ONCE_TAKEN = frozenset(
    {
        "cleanup.policy", "compression.type", "delete.retention.ms", "max.message.bytes", "message.timestamp.type",
        "min.compaction.lag.ms", "retention.bytes", "retention.ms", "segment.bytes", "segment.ms", "flush.messages",
        "flush.ms",
    }
)  # fmt: skip
Change = Callable[[Any, Any], None]  # (request, answer)


@dataclass(frozen=True, slots=True)
class OldDefect:
    """``apis``: whose questions find it; ``questions``: within how many."""

    number: str
    handlers: dict[int, Handler]
    apis: tuple[str, ...]
    questions: int = 500


def after(api_key: int, change: Change) -> dict[int, Handler]:
    """The broker's own response, changed."""

    def handle(broker: Services, request: Any, call: Call) -> Any:
        received = HANDLERS[api_key](broker, request, call)
        if isinstance(received, Pending):

            def changed(response: Any) -> Any:
                change(request, response)
                return response

            return received.then(changed)
        if received is not None:
            change(request, received)
        return received

    return {api_key: handle}


def _epoch_bumped(broker: Services, request: Any, call: Call) -> Any:
    if request.transactional_id is None and request.producer_id >= 0:
        return InitProducerIdResponse(producer_id=request.producer_id, producer_epoch=request.producer_epoch + 1)
    return HANDLERS[22](broker, request, call)


def _unchecked(_: Any, response: Any) -> None:
    for topic in response.topics:
        for partition in topic.partitions:
            partition.error_code = ErrorCode.NONE


def _setting_refused(request: Any, response: Any) -> None:
    for requested, topic in zip(request.topics, response.topics, strict=False):
        if any(config.name not in ONCE_TAKEN for config in requested.configs):
            topic.error_code, topic.configs, topic.num_partitions = ErrorCode.INVALID_CONFIG, [], -1


def _session_refused(broker: Services, request: Any, call: Call) -> Any:
    if request.session_id:
        return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    return HANDLERS[1](broker, request, call)


def _subscribed_to_all(broker: Services, request: Any, call: Call) -> Any:
    """A subscription of version 1 that ends after the user data counted as one of every topic."""
    group = broker.groups.group(request.group_id)
    received = HANDLERS[47](broker, request, call)
    members = list(group.members.values()) if isinstance(group, Group) else []
    cut_short = any(data[:2] == b"\0\1" and data[-4:] == b"\xff" * 4 for m in members for _, data in m.protocols)

    def refuse(response: Any) -> Any:
        for topic in response.topics if cut_short else ():
            for partition in topic.partitions:
                partition.error_code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        return response

    return received.then(refuse) if isinstance(received, Pending) else refuse(received)


def _topic_operations(_: Any, response: Any) -> None:
    for topic in response.topics:
        topic.topic_authorized_operations = NOT_KNOWN


def _cluster_operations(_: Any, response: Any) -> None:
    response.cluster_authorized_operations = NOT_KNOWN


def _group_operations(_: Any, response: Any) -> None:
    for group in response.groups:
        group.authorized_operations = NOT_KNOWN


def _of_configs(change: Callable[[Any], None]) -> dict[int, Handler]:
    def every(_: Any, response: Any) -> None:
        for result in response.results:
            for config in result.configs:
                change(config)

    return after(32, every)


def _read_only(config: Any) -> None:
    config.read_only = True


def _strings(config: Any) -> None:
    config.config_type = 2


def _no_keys(request: Any, response: Any) -> None:
    for requested, result in zip(request.resources, response.results, strict=True):
        if requested.configuration_keys == []:
            result.configs = []


def _no_record_errors(_: Any, response: Any) -> None:
    for topic in response.responses:
        for partition in topic.partition_responses:
            partition.record_errors = []


def _stamped(broker: Services, request: Any, call: Call) -> Any:
    """Messages of format 0 got the time of their arrival."""
    for topic in request.topic_data:
        for data in topic.partition_data:
            if data.records is not None and len(data.records) > 16 and data.records[16] == 0:
                data.records = encode_batch([(int(time.time() * 1000), b"k", b"v", ())])
    return HANDLERS[0](broker, request, call)


def _not_advertised(api: str) -> dict[int, Handler]:
    key = next(a.key for a in APIS.values() if a.name == api)

    def without(_: Any, response: Any) -> None:
        response.api_keys = [a for a in response.api_keys if a.api_key != key]

    return after(18, without)


OLD_DEFECTS = (
    OldDefect(
        "1: a producer id that was sent is answered with the next epoch", {22: _epoch_bumped}, ("InitProducerId",)
    ),
    OldDefect("2: offsets of a transaction are not checked against it", after(28, _unchecked), ("TxnOffsetCommit",)),
    OldDefect("3: a topic's setting is refused", after(19, _setting_refused), ("settings",), 4000),
    OldDefect("4: a fetch with a session id is refused, whatever its epoch", {1: _session_refused}, ("Fetch",), 1000),
    OldDefect("6: a subscription cut short counts as one of every topic", {47: _subscribed_to_all}, ("none",), 3500),
    OldDefect("7: a topic's operations are not named", after(3, _topic_operations), ("Metadata",)),
    OldDefect("7: the cluster's operations are not named", after(60, _cluster_operations), ("DescribeCluster",)),
    OldDefect("7: a group's operations are not named", after(15, _group_operations), ("DescribeGroups",)),
    OldDefect("8: every setting is read-only", _of_configs(_read_only), ("DescribeConfigs",)),
    OldDefect("8: every setting is a string", _of_configs(_strings), ("DescribeConfigs",)),
    OldDefect("8: no keys mean no settings", after(32, _no_keys), ("DescribeConfigs",)),
    OldDefect("9: a refused batch does not name its records", after(0, _no_record_errors), ("none",), 1500),
    OldDefect("10: records of format 0 get a time", {0: _stamped}, ("Produce",), 1500),
    OldDefect("12: an API is not served", _not_advertised("DescribeLogDirs"), ("ApiVersions",)),
)
