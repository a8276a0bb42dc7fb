"""Committed offsets: OffsetCommit, OffsetFetch, OffsetDelete. Topics are checked and ids resolved here; the core keeps. The
request stays as it is: the core gets one of the allowed topics, with names also where the client spoke of ids."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import Any, NamedTuple, Protocol, TypeVar

from coterie.broker.handlers.coordinators.groups import hand_over
from coterie.broker.handlers.services import GroupServices, Handler
from coterie.broker.requests.calls import Call
from coterie.broker.requests.pending import Pending
from coterie.broker.requests.turns import distinct
from coterie.broker.storage.topics import Topics
from coterie.coordinator.consumer.offsets import check_fetch
from coterie.coordinator.consumer.state import ConsumerGroup
from coterie.coordinator.offsets.fetch import fetch_offsets
from coterie.coordinator.share.state import ShareGroup
from coterie.coordinator.streams.state import StreamsGroup
from coterie.wire import topic_names
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.groups.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from coterie.wire.messages.groups.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from coterie.wire.messages.groups.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopics,
    groups_of,
    groups_response,
    refused_partition,
)

_NO_ID = bytes(16)
R = TypeVar("R", bound=Any)


def handle_offset_commit(broker: GroupServices, request: OffsetCommitRequest, call: Call) -> Message | Pending:
    """UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION for what does not exist; the core decides about the rest."""
    by_id = call.api_version > topic_names.OFFSET_COMMIT
    allowed, refused = checked_topics(broker.topics, request.topics, OffsetCommitRequestTopic, by_id=by_id)
    if not refused and not by_id:
        return hand_over(broker.groups, request, call)
    rows = [
        OffsetCommitResponseTopic(name, topic_id, [OffsetCommitResponsePartition(index, code) for index in indexes])
        for name, topic_id, code, indexes in refused
    ]
    if rows and not allowed:
        return OffsetCommitResponse(topics=rows)
    command = OffsetCommitRequest(
        request.group_id,
        request.generation_id_or_member_epoch,
        request.member_id,
        request.group_instance_id,
        request.retention_time_ms,
        allowed,
    )

    def merge(response: Message) -> Message:
        assert isinstance(response, OffsetCommitResponse)
        return OffsetCommitResponse(topics=after_refused(rows, response.topics))

    pending = hand_over(broker.groups, command, call)
    return pending.then(merge) if rows else pending


def handle_offset_fetch(broker: GroupServices, request: OffsetFetchRequest, call: Call) -> Message | Pending:
    """The committed offsets of groups; one that is named twice has one response."""
    return broker.turns.run_many(len(request.groups), _offset_fetch(broker, request, call.api_version))


def _offset_fetch(broker: GroupServices, request: OffsetFetchRequest, version: int) -> Generator[None, None, Message]:
    """The offsets of one group are those of one moment."""
    by_id, responses = version > topic_names.OFFSET_FETCH, list[OffsetFetchResponseGroup]()
    for group in distinct(groups_of(request, version), lambda group: group.group_id):
        responses.append(_fetch_group(broker, group, by_id, request.require_stable))
        yield
    return groups_response(version, responses, request)


def _committed(
    broker: GroupServices,
    requested: OffsetFetchRequestGroup,
    topics: list[tuple[str, list[int]]] | None,
    *,
    stable: bool,
) -> list[tuple[str, list[OffsetFetchResponsePartition]]]:
    """The committed offsets of each topic, as often as the request names it; None requests every topic. A member of a consumer
    group names itself and its epoch. Raises Refusal."""
    group = broker.groups.group(requested.group_id)
    if isinstance(group, ShareGroup):
        raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND)
    if isinstance(group, ConsumerGroup | StreamsGroup):
        check_fetch(group, requested.member_id, requested.member_epoch)
    unreplicated = broker.groups.unreplicated_offsets(requested.group_id)
    return fetch_offsets(group, topics, require_stable=stable, unreplicated=unreplicated)


def _fetch_group(
    broker: GroupServices, requested: OffsetFetchRequestGroup, by_id: bool, stable: bool
) -> OffsetFetchResponseGroup:
    response = OffsetFetchResponseGroup(requested.group_id)
    wanted: list[tuple[str, list[int]]] | None = None
    if requested.topics is not None:
        wanted = []
        for topic in requested.topics:
            name = broker.topics.name_of(topic.name, topic.topic_id, by_id)
            if name is None:
                missing = [refused_partition(p, ErrorCode.UNKNOWN_TOPIC_ID) for p in topic.partition_indexes]
                response.topics.append(OffsetFetchResponseTopics("", topic.topic_id, missing))
            else:
                wanted.append((name, topic.partition_indexes))
    try:
        committed = _committed(broker, requested, wanted, stable=stable)
    except Refusal as refusal:
        return OffsetFetchResponseGroup(requested.group_id, [], refusal.code)
    for name, partitions in committed:
        known = broker.topics.by_name.get(name)
        if known is not None or not by_id:
            topic_id = known.topic_id if known is not None else bytes(16)
            response.topics.append(OffsetFetchResponseTopics(name, topic_id, partitions))
    return response


def handle_offset_delete(broker: GroupServices, request: OffsetDeleteRequest, call: Call) -> Message | Pending:
    """KIP-496. UNKNOWN_TOPIC_OR_PARTITION for what does not exist; the core decides about the rest."""
    allowed, refused = checked_topics(broker.topics, request.topics, _topic_to_delete, by_id=False)
    pending = hand_over(broker.groups, OffsetDeleteRequest(request.group_id, allowed), call)
    if not refused:
        return pending
    rows = [
        OffsetDeleteResponseTopic(name, [OffsetDeleteResponsePartition(index, code) for index in indexes])
        for name, _, code, indexes in refused
    ]

    def merge(response: Message) -> Message:
        assert isinstance(response, OffsetDeleteResponse)
        if response.error_code:
            return response
        return OffsetDeleteResponse(topics=after_refused(rows, response.topics))

    return pending.then(merge)


def _topic_to_delete(
    name: str, topic_id: bytes, partitions: list[OffsetDeleteRequestPartition]
) -> OffsetDeleteRequestTopic:
    return OffsetDeleteRequestTopic(name, partitions)


class Refused(NamedTuple):
    """A topic with the indexes that the error is about: none where the request names an unknown topic without partitions."""

    name: str
    topic_id: bytes
    code: ErrorCode
    indexes: list[int]


def checked_topics(
    topics: Topics, requested: Iterable[R], make: Callable[[str, bytes, list[Any]], R], *, by_id: bool
) -> tuple[list[R], list[Refused]]:
    """The topics with the partitions that exist, and what does not: UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION.
    ``requested``: topics of a request, ``by_id`` in a version that has ids in place of names; ``make`` makes one of its name,
    id and partitions."""
    allowed, refused = list[R](), list[Refused]()
    for topic in requested:
        topic_id = topic.topic_id if by_id else _NO_ID
        name = topics.name_of(topic.name, topic_id, by_id)
        existing = topics.by_name.get(name or "")
        count = len(existing.partitions) if existing is not None else 0
        missing = [p.partition_index for p in topic.partitions if not 0 <= p.partition_index < count]
        if missing or existing is None:
            code = ErrorCode.UNKNOWN_TOPIC_ID if name is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            refused.append(Refused(name or "", topic_id, code, missing))
        if len(missing) == len(topic.partitions):
            continue
        if missing:
            partitions = [p for p in topic.partitions if 0 <= p.partition_index < count]
            allowed.append(make(name or "", topic_id, partitions))
        else:
            allowed.append(make(name or "", topic_id, topic.partitions) if by_id else topic)
    return allowed, refused


class _ResponseTopic(Protocol):
    name: str
    partitions: list[Any]


Topic = TypeVar("Topic", bound=_ResponseTopic)


def after_refused(refused: list[Topic], responded: list[Topic]) -> list[Topic]:
    """Each topic once, as Kafka's response builders merge: the topics and partitions that were refused come first."""
    merged, first = list(refused), {topic.name: topic for topic in reversed(refused)}
    for topic in responded:
        same = first.get(topic.name)
        if same is None:
            merged.append(topic)
        else:
            same.partitions += topic.partitions
    return merged


HANDLERS: dict[int, Handler] = {8: handle_offset_commit, 9: handle_offset_fetch, 47: handle_offset_delete}
