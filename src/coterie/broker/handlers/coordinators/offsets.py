"""Committed offsets: OffsetCommit, OffsetFetch, OffsetDelete. Topics are checked and ids resolved here; the core keeps."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Protocol, TypeVar

from coterie.broker.handlers.coordinators.groups import hand_over
from coterie.broker.handlers.services import GroupServices, Handler
from coterie.broker.requests.calls import Call
from coterie.broker.requests.pending import Pending
from coterie.broker.requests.turns import distinct
from coterie.coordinator.consumer.commits import check_fetch
from coterie.coordinator.consumer.state import ConsumerGroup
from coterie.coordinator.offsets.fetch import fetch_offsets
from coterie.wire import topic_names
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from coterie.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from coterie.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopics,
    groups_of,
    groups_response,
    refused_partition,
)


def handle_offset_commit(broker: GroupServices, request: OffsetCommitRequest, call: Call) -> Message | Pending:
    """UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION for what does not exist; the core decides about the rest."""
    known, refused = _known_topics(broker, request, call.api_version > topic_names.OFFSET_COMMIT)
    request.topics = known  # with names, also where the client spoke of ids
    if not refused:
        return hand_over(broker.groups, request, call)
    if not known:
        return OffsetCommitResponse(topics=refused)

    def merge(answer: Message) -> Message:
        assert isinstance(answer, OffsetCommitResponse)
        return OffsetCommitResponse(topics=after_refused(refused, answer.topics))

    return hand_over(broker.groups, request, call).then(merge)


class _ResponseTopic(Protocol):
    name: str
    partitions: list[Any]


Topic = TypeVar("Topic", bound=_ResponseTopic)


def after_refused(refused: list[Topic], answered: list[Topic]) -> list[Topic]:
    """Each topic once, as Kafka's response builders merge: the topics and partitions that were refused come first."""
    merged, first = list(refused), {topic.name: topic for topic in reversed(refused)}
    for topic in answered:
        same = first.get(topic.name)
        if same is None:
            merged.append(topic)
        else:
            same.partitions += topic.partitions
    return merged


def _known_topics(
    broker: GroupServices, request: OffsetCommitRequest, by_id: bool
) -> tuple[list[OffsetCommitRequestTopic], list[OffsetCommitResponseTopic]]:
    """The topics and partitions that exist, names filled in; and the responses for the others."""
    known: list[OffsetCommitRequestTopic] = []
    refused: list[OffsetCommitResponseTopic] = []
    for topic in request.topics:
        name = broker.topics.name_of(topic.name, topic.topic_id, by_id)
        existing = broker.topics.by_name.get(name or "")
        count = len(existing.partitions) if existing is not None else 0
        topic.name = name or ""
        missing = [p.partition_index for p in topic.partitions if not 0 <= p.partition_index < count]
        if missing or existing is None:  # an unknown topic is answered without partitions too
            code = ErrorCode.UNKNOWN_TOPIC_ID if name is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            errors = [OffsetCommitResponsePartition(index, code) for index in missing]
            refused.append(OffsetCommitResponseTopic(topic.name, topic.topic_id, errors))
            topic.partitions = [p for p in topic.partitions if 0 <= p.partition_index < count]
        if topic.partitions:
            known.append(topic)
    return known, refused


def handle_offset_fetch(broker: GroupServices, request: OffsetFetchRequest, call: Call) -> Message | Pending:
    """The committed offsets of groups; one that is named twice is answered once."""
    return broker.turns.run_many(len(request.groups), _offset_fetch(broker, request, call.api_version))


def _offset_fetch(broker: GroupServices, request: OffsetFetchRequest, version: int) -> Generator[None, None, Message]:
    """The offsets of one group are those of one moment."""
    by_id, answers = version > topic_names.OFFSET_FETCH, list[OffsetFetchResponseGroup]()
    for group in distinct(groups_of(request, version), lambda group: group.group_id):
        answers.append(_fetch_group(broker, group, by_id, request.require_stable))
        yield
    return groups_response(version, answers, request)


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
    if isinstance(group, ConsumerGroup):
        check_fetch(group, requested.member_id, requested.member_epoch)
    unreplicated = broker.groups.unreplicated_offsets(requested.group_id)
    return fetch_offsets(group, topics, require_stable=stable, unreplicated=unreplicated)


def _fetch_group(
    broker: GroupServices, requested: OffsetFetchRequestGroup, by_id: bool, stable: bool
) -> OffsetFetchResponseGroup:
    answer = OffsetFetchResponseGroup(requested.group_id)
    wanted: list[tuple[str, list[int]]] | None = None
    if requested.topics is not None:
        wanted = []
        for topic in requested.topics:
            name = broker.topics.name_of(topic.name, topic.topic_id, by_id)
            if name is None:
                missing = [refused_partition(p, ErrorCode.UNKNOWN_TOPIC_ID) for p in topic.partition_indexes]
                answer.topics.append(OffsetFetchResponseTopics("", topic.topic_id, missing))
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
            answer.topics.append(OffsetFetchResponseTopics(name, topic_id, partitions))
    return answer


def handle_offset_delete(broker: GroupServices, request: OffsetDeleteRequest, call: Call) -> Message | Pending:
    """KIP-496. UNKNOWN_TOPIC_OR_PARTITION for what does not exist; the core decides about the rest."""
    known, unknown = list[OffsetDeleteRequestTopic](), list[OffsetDeleteRequestTopic]()
    for topic in request.topics:
        existing = broker.topics.by_name.get(topic.name)
        count = len(existing.partitions) if existing is not None else 0
        for there, topics in ((True, known), (False, unknown)):
            partitions = [p for p in topic.partitions if (0 <= p.partition_index < count) == there]
            if partitions or (existing is None and not there):  # an unknown topic is answered without partitions too
                topics.append(OffsetDeleteRequestTopic(topic.name, partitions))
    request.topics = known
    if not unknown:
        return hand_over(broker.groups, request, call)

    def merge(response: Message) -> Message:
        assert isinstance(response, OffsetDeleteResponse)
        if not response.error_code:
            response.topics.extend(_unknown_topic(topic) for topic in unknown)
        return response

    return hand_over(broker.groups, request, call).then(merge)


def _unknown_topic(topic: OffsetDeleteRequestTopic) -> OffsetDeleteResponseTopic:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    results = [OffsetDeleteResponsePartition(p.partition_index, code) for p in topic.partitions]
    return OffsetDeleteResponseTopic(topic.name, results)


HANDLERS: dict[int, Handler] = {8: handle_offset_commit, 9: handle_offset_fetch, 47: handle_offset_delete}
