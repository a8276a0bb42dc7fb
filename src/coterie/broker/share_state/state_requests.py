"""The five requests to share coordinators, by their type: each names partitions of topics, and its response has a row for
each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from coterie.coordinator.share_state.state import SharePartitionKey
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.share import (
    delete_share_group_state as deleting,
)
from coterie.wire.messages.share import (
    initialize_share_group_state as initializing,
)
from coterie.wire.messages.share import (
    read_share_group_state as reading,
)
from coterie.wire.messages.share import (
    read_share_group_state_summary as summarizing,
)
from coterie.wire.messages.share import (
    write_share_group_state as writing,
)


@dataclass(frozen=True, slots=True)
class StateRequest:
    """A kind of request: its response, and how both are made of topics and partitions. ``version``: the newest."""

    response: type[Message]
    topic: Callable[[bytes, list[Any]], Any]
    result_topic: Callable[[bytes, list[Any]], Any]
    row: Callable[..., Any]  # partition, error code, error message, and what the result is with an error
    version: int
    purpose: str  # as in the text of an error that is not the state's


STATE_REQUESTS: dict[type[Message], StateRequest] = {
    initializing.InitializeShareGroupStateRequest: StateRequest(
        initializing.InitializeShareGroupStateResponse,
        initializing.InitializedTopic,
        initializing.TopicStateResult,
        initializing.PartitionStateResult,
        0,
        "initialize share group state",
    ),
    reading.ReadShareGroupStateRequest: StateRequest(
        reading.ReadShareGroupStateResponse,
        reading.ReadStateTopic,
        reading.ShareTopicState,
        reading.SharePartitionState,
        0,
        "read share group state",
    ),
    writing.WriteShareGroupStateRequest: StateRequest(
        writing.WriteShareGroupStateResponse,
        writing.WrittenTopicState,
        initializing.TopicStateResult,
        initializing.PartitionStateResult,
        1,
        "write share group state",
    ),
    deleting.DeleteShareGroupStateRequest: StateRequest(
        deleting.DeleteShareGroupStateResponse,
        deleting.DeletedStateTopic,
        initializing.TopicStateResult,
        initializing.PartitionStateResult,
        0,
        "delete share group state",
    ),
    summarizing.ReadShareGroupStateSummaryRequest: StateRequest(
        summarizing.ReadShareGroupStateSummaryResponse,
        reading.ReadStateTopic,
        summarizing.TopicStateSummary,
        summarizing.PartitionStateSummary,
        1,
        "read share group state summary",
    ),
}


def is_empty(request: Any) -> bool:
    """Whether the response has no results, as Kafka's: the request has no group, no topic, or a topic without partitions, which
    one that initializes may have beside others."""
    some = any if isinstance(request, initializing.InitializeShareGroupStateRequest) else all
    return not request.group_id or not request.topics or not some(topic.partitions for topic in request.topics)


def rows_of(request: Any) -> Iterator[tuple[SharePartitionKey, Any]]:
    """Each partition of the request."""
    for topic in request.topics:
        for row in topic.partitions:
            yield SharePartitionKey(request.group_id, topic.topic_id, row.partition), row


def part_of(request: Any, keys: set[SharePartitionKey]) -> Any:
    """The same request for some of its partitions."""
    kind, topics = STATE_REQUESTS[type(request)], dict[bytes, list[Any]]()
    for key, row in rows_of(request):
        if key in keys:
            topics.setdefault(key.topic_id, []).append(row)
    return type(request)(request.group_id, [kind.topic(topic_id, rows) for topic_id, rows in topics.items()])


def refused_row(request: Message, key: SharePartitionKey, refusal: Refusal) -> Any:
    """The row of a partition whose request is refused."""
    text = refusal.message or refusal.code.text
    return STATE_REQUESTS[type(request)].row(key.partition, refusal.code, text)


def unable_row(request: Message, key: SharePartitionKey, code: ErrorCode, cause: ErrorCode) -> Any:
    """The row of a partition whose coordinator is not here, or cannot write: the text has the cause, as in Kafka's
    ShareCoordinatorService."""
    text = f"Unable to {STATE_REQUESTS[type(request)].purpose}: {cause.text}"
    return refused_row(request, key, Refusal(code, text))


def response_to(request: Any, results: dict[SharePartitionKey, Any]) -> Message:
    """The response with these rows, in the order of the request."""
    kind, topics = STATE_REQUESTS[type(request)], dict[bytes, list[Any]]()
    for key in dict.fromkeys(key for key, _ in rows_of(request)):
        topics.setdefault(key.topic_id, []).append(results[key])
    return kind.response(results=[kind.result_topic(topic_id, rows) for topic_id, rows in topics.items()])  # type: ignore[call-arg]
