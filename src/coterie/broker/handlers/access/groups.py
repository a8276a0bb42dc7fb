"""Checks of the requests of groups and of their committed offsets (KafkaApis)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from coterie.authorizer.acls import AclOperation, AclResourceType
from coterie.broker.handlers.access.access import NOT_REQUESTED, Access, CheckedRequest, Result, divided
from coterie.broker.handlers.access.refusals import refused
from coterie.broker.handlers.coordinators.consumer_groups import is_enabled
from coterie.broker.handlers.coordinators.offsets import after_refused
from coterie.broker.handlers.coordinators.streams_groups import is_streams_enabled, topics_of_topology
from coterie.wire import topic_names
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.groups import consumer_group_describe, describe_groups
from coterie.wire.messages.groups.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from coterie.wire.messages.groups.delete_groups import DeletableGroupResult
from coterie.wire.messages.groups.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from coterie.wire.messages.groups.offset_delete import OffsetDeleteResponsePartition, OffsetDeleteResponseTopic
from coterie.wire.messages.groups.offset_fetch import (
    SEVERAL_FROM,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
    OffsetFetchResponseTopics,
    groups_of,
    groups_response,
    refused_partition,
)
from coterie.wire.messages.streams.streams_group_describe import DescribedStreamsGroup
from coterie.wire.messages.streams.streams_group_heartbeat import StreamsGroupHeartbeatResponse
from coterie.wire.messages.streams.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateResponse,
)
from coterie.wire.messages.transactions.txn_offset_commit import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

_O, _DENIED, _OF_GROUP = AclOperation, ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED


def _denied_topics(checked: CheckedRequest, *, by_id: bool) -> list[Any]:
    """Takes topics that may not be read out of the request, and returns them. A topic of an unknown id stays."""

    def is_allowed(topic: Any) -> bool:
        name = checked.broker.topics.name_of(topic.name, getattr(topic, "topic_id", b""), by_id)
        return name is None or checked.access.allows_topic(_O.READ, name)

    checked.request.topics, denied = divided(checked.request.topics, is_allowed)
    return denied


def offset_commit(checked: CheckedRequest) -> Result:
    """The group, then each topic."""
    request, version = checked.request, checked.call.api_version
    if not checked.access.allows_group(_O.READ, request.group_id):
        return refused(request, version, _OF_GROUP)
    kinds = OffsetCommitResponse, OffsetCommitResponseTopic, OffsetCommitResponsePartition
    return _committed_topics(checked, *kinds, by_id=version > topic_names.OFFSET_COMMIT)


def txn_offset_commit(checked: CheckedRequest) -> Result:
    """The transactional id, the group, then each topic."""
    request, version, access = checked.request, checked.call.api_version, checked.access
    if not access.allows_transactional_id(_O.WRITE, request.transactional_id):
        return refused(request, version, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not access.allows_group(_O.READ, request.group_id):
        return refused(request, version, _OF_GROUP)
    kinds = TxnOffsetCommitResponse, TxnOffsetCommitResponseTopic, TxnOffsetCommitResponsePartition
    return _committed_topics(checked, *kinds, by_id=version > topic_names.TXN_OFFSET_COMMIT)


def _committed_topics(
    checked: CheckedRequest,
    response: Callable[..., Any],
    topic_row: Callable[..., Any],
    partition_row: Callable[..., Any],
    *,
    by_id: bool,
) -> Result:
    """Each topic of a commit. Where none is left, the handler is not called."""
    rows = [
        topic_row(topic.name, topic.topic_id, [partition_row(p.partition_index, _DENIED) for p in topic.partitions])
        for topic in _denied_topics(checked, by_id=by_id)
    ]
    if rows and not checked.request.topics:
        return response(topics=rows)  # type: ignore[no-any-return]
    return _after(checked, rows) if rows else checked.proceed()


def offset_delete(checked: CheckedRequest) -> Result:
    """The group, then each topic."""
    request = checked.request
    if not checked.access.allows_group(_O.DELETE, request.group_id):
        return refused(request, checked.call.api_version, _OF_GROUP)
    rows = [
        OffsetDeleteResponseTopic(
            topic.name, [OffsetDeleteResponsePartition(p.partition_index, _DENIED) for p in topic.partitions]
        )
        for topic in _denied_topics(checked, by_id=False)
    ]
    return _after(checked, rows) if rows else checked.proceed()


def _after(checked: CheckedRequest, rows: list[Any]) -> Result:
    def merge(response: Any) -> None:
        if not getattr(response, "error_code", 0):
            response.topics = after_refused(rows, response.topics)

    return checked.then(merge)


def offset_fetch(checked: CheckedRequest) -> Result:
    """Each group, and each topic of it; a request for all topics is shown what may be described."""
    request, version = checked.request, checked.call.api_version
    by_id = version > topic_names.OFFSET_FETCH
    results: dict[str, OffsetFetchResponseGroup | None] = {}
    rows: dict[str, list[OffsetFetchResponseTopics]] = {}
    allowed: list[OffsetFetchRequestGroup] = []
    for group in groups_of(request, version):
        is_allowed = checked.access.allows_group(_O.DESCRIBE, group.group_id)
        results[group.group_id] = None if is_allowed else OffsetFetchResponseGroup(group.group_id, [], _OF_GROUP)
        if is_allowed:
            rows[group.group_id] = _denied_offsets(checked, group, by_id=by_id)
            allowed.append(group)
    if version < SEVERAL_FROM:
        if not allowed:
            (only,) = results.values()
            assert only is not None
            return groups_response(version, [only], request)
        if request.topics is not None:
            kept = {topic.name for topic in allowed[0].topics or ()}
            request.topics = [topic for topic in request.topics if topic.name in kept]
        return checked.then(lambda response: _show_topics(checked, response, rows[allowed[0].group_id], by_id=False))
    request.groups = allowed

    def merge(response: Any) -> None:
        for group in response.groups:
            _show_topics(checked, group, rows[group.group_id], by_id=by_id)
        results.update({group.group_id: group for group in response.groups})
        response.groups = [group for group in results.values() if group is not None]

    return checked.then(merge)


def _denied_offsets(
    checked: CheckedRequest, group: OffsetFetchRequestGroup, *, by_id: bool
) -> list[OffsetFetchResponseTopics]:
    """Takes topics out of the request, and returns their rows."""

    def is_allowed(topic: OffsetFetchRequestTopics) -> bool:
        name = checked.broker.topics.name_of(topic.name, topic.topic_id, by_id)
        return name is None or checked.access.allows_topic(_O.DESCRIBE, name)

    allowed, denied = divided(group.topics or (), is_allowed)
    if group.topics is not None:
        group.topics = allowed
    return [
        OffsetFetchResponseTopics(t.name, t.topic_id, [refused_partition(p, _DENIED) for p in t.partition_indexes])
        for t in denied
    ]


def _show_topics(checked: CheckedRequest, group: Any, denied: list[Any], *, by_id: bool) -> None:
    """``group``: what was fetched of it. The denied topics are added; of others stays only what may be described."""
    if group.error_code:
        return

    def is_shown(topic: Any) -> bool:
        name = checked.broker.topics.name_of(topic.name, getattr(topic, "topic_id", b""), by_id)
        return name is None or checked.access.allows_topic(_O.DESCRIBE, name, is_reported=False)

    group.topics = [topic for topic in group.topics if is_shown(topic)] + denied


def describe_groups_check(checked: CheckedRequest) -> Result:
    """Each group; the denied ones come first."""
    request, access = checked.request, checked.access
    denied = [group for group in request.groups if not access.allows_group(_O.DESCRIBE, group)]
    request.groups = [group for group in request.groups if group not in denied]
    rows = [describe_groups.DescribedGroup(_OF_GROUP, group_id=group) for group in dict.fromkeys(denied)]

    def merge(response: Any) -> None:
        name_operations(access, response.groups)
        response.groups = [*rows, *response.groups]

    return checked.then(merge)


def name_operations(access: Access, groups: list[Any]) -> None:
    """Puts in what the client may do, in the stead of what everybody may, where that was requested."""
    for group in groups:
        if group.authorized_operations != NOT_REQUESTED:
            group.authorized_operations = access.operations(AclResourceType.GROUP, group.group_id)


def described_groups(
    checked: CheckedRequest, row: Callable[..., Any], topics_of: Callable[[Any], Iterable[str]]
) -> Result:
    """Each group, of which ``row`` is described, and every topic of it; the denied groups come first."""
    request, access = checked.request, checked.access
    request.group_ids, denied = divided(request.group_ids, lambda group: access.allows_group(_O.DESCRIBE, group))
    rows = [row(_OF_GROUP, group_id=group) for group in dict.fromkeys(denied)]

    def shown(group: Any) -> Any:
        if not divided(sorted(set(topics_of(group))), lambda topic: access.allows_topic(_O.DESCRIBE, topic))[1]:
            return group
        text = "the group has topics that the client is not authorized to describe"
        return row(_DENIED, text, group.group_id)

    def merge(response: Any) -> None:
        name_operations(access, response.groups)
        response.groups = [*rows, *(shown(group) for group in response.groups)]

    return checked.then(merge)


def consumer_group_describe_check(checked: CheckedRequest) -> Result:
    """Each group, and every topic that is assigned in it."""
    if not is_enabled(checked.broker):
        return checked.proceed()
    return described_groups(checked, consumer_group_describe.DescribedGroup, _assigned_topics)


def _assigned_topics(group: consumer_group_describe.DescribedGroup) -> Iterator[str]:
    for member in group.members:
        for assignment in (member.assignment, member.target_assignment):
            yield from (topic.topic_name for topic in assignment.topic_partitions)


def list_groups(checked: CheckedRequest) -> Result:
    """All groups where the cluster may be described, otherwise each that may be."""
    access = checked.access
    if access.allows_cluster(_O.DESCRIBE, is_reported=False):
        return checked.proceed()

    def keep(response: Any) -> None:
        response.groups = [
            group for group in response.groups if access.allows_group(_O.DESCRIBE, group.group_id, is_reported=False)
        ]

    return checked.then(keep)


def delete_groups(checked: CheckedRequest) -> Result:
    """Each group; the denied ones come last."""
    request, access = checked.request, checked.access
    names = list(dict.fromkeys(request.groups_names))
    denied = [group for group in names if not access.allows_group(_O.DELETE, group)]
    if not denied:
        return checked.proceed()
    request.groups_names = [group for group in names if group not in denied]

    def add(response: Any) -> None:
        response.results += [DeletableGroupResult(group, _OF_GROUP) for group in denied]

    return checked.then(add)


def consumer_group_heartbeat(checked: CheckedRequest) -> Result:
    """The group, then every topic that is named: none is a member without."""
    request, access = checked.request, checked.access
    if not is_enabled(checked.broker):
        return checked.proceed()
    if not access.allows_group(_O.READ, request.group_id):
        return ConsumerGroupHeartbeatResponse(error_code=_OF_GROUP)
    named = request.subscribed_topic_names or ()
    if divided(named, lambda topic: access.allows_topic(_O.DESCRIBE, topic))[1]:
        return ConsumerGroupHeartbeatResponse(error_code=_DENIED)
    return checked.proceed()


def streams_group_heartbeat(checked: CheckedRequest) -> Result:
    """The group, then every topic of the topology: none is a member without."""
    request, access = checked.request, checked.access
    if not is_streams_enabled(checked.broker):
        return checked.proceed()
    if not access.allows_group(_O.READ, request.group_id):
        return StreamsGroupHeartbeatResponse(error_code=_OF_GROUP)
    named = topics_of_topology(request.topology) if request.topology is not None else ()
    if divided(named, lambda topic: access.allows_topic(_O.DESCRIBE, topic))[1]:
        return StreamsGroupHeartbeatResponse(error_code=_DENIED)
    return checked.proceed()


def topology_description_update(checked: CheckedRequest) -> Result:
    """The group, once the protocol is served."""
    if is_streams_enabled(checked.broker) and not checked.access.allows_group(_O.READ, checked.request.group_id):
        return StreamsGroupTopologyDescriptionUpdateResponse(error_code=_OF_GROUP)
    return checked.proceed()


def streams_group_describe_check(checked: CheckedRequest) -> Result:
    """Each group, and every topic of its topology."""
    if not is_streams_enabled(checked.broker):
        return checked.proceed()
    return described_groups(checked, DescribedStreamsGroup, _topics_of_topology)


def _topics_of_topology(group: DescribedStreamsGroup) -> Iterator[str]:
    for sub in (group.topology.subtopologies if group.topology is not None else None) or ():
        yield from (*sub.source_topics, *sub.repartition_sink_topics)
        yield from (topic.name for topic in (*sub.state_changelog_topics, *sub.repartition_source_topics))
