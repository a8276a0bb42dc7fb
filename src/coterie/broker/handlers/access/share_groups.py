"""Checks of the requests of share groups (KafkaApis)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from coterie.authorizer.acls import AclOperation
from coterie.broker.handlers.access.access import CheckedRequest, Result, divided
from coterie.broker.handlers.access.groups import described_groups
from coterie.broker.handlers.coordinators.share_groups import is_enabled
from coterie.coordinator.refusals import response_with
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.share.alter_share_group_offsets import (
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from coterie.wire.messages.share.delete_share_group_offsets import DeleteShareGroupOffsetsResponseTopic
from coterie.wire.messages.share.describe_share_group_offsets import (
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from coterie.wire.messages.share.share_group_describe import DescribedShareGroup
from coterie.wire.messages.share.share_group_heartbeat import ShareGroupHeartbeatResponse

_O, _DENIED, _OF_GROUP = AclOperation, ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED


def share_group_heartbeat(checked: CheckedRequest) -> Result:
    """The group, then every topic that is named: none is a member without."""
    request, access = checked.request, checked.access
    if not is_enabled(checked.broker):
        return checked.proceed()
    if not access.allows_group(_O.READ, request.group_id):
        return ShareGroupHeartbeatResponse(error_code=_OF_GROUP, error_message=_OF_GROUP.text)
    named = request.subscribed_topic_names or ()
    if divided(named, lambda topic: access.allows_topic(_O.DESCRIBE, topic))[1]:
        return ShareGroupHeartbeatResponse(error_code=_DENIED)
    return checked.proceed()


def share_group_describe(checked: CheckedRequest) -> Result:
    """Each group, and every topic that is assigned in it."""
    if not is_enabled(checked.broker):
        return checked.proceed()
    return described_groups(checked, DescribedShareGroup, _assigned_topics)


def _assigned_topics(group: DescribedShareGroup) -> Iterator[str]:
    for member in group.members:
        yield from (topic.topic_name for topic in member.assignment.topic_partitions)


def describe_share_group_offsets(checked: CheckedRequest) -> Result:
    """Each group, and each topic of it; a request for all topics is shown what may be described."""
    request, access = checked.request, checked.access
    denied_groups, denied_topics, order = {}, dict[str, list[Any]](), [group.group_id for group in request.groups]
    for group in request.groups:
        if not access.allows_group(_O.DESCRIBE, group.group_id):
            denied_groups[group.group_id] = DescribeShareGroupOffsetsResponseGroup(group.group_id, [], _OF_GROUP)
        elif group.topics is not None:
            group.topics, denied = divided(
                group.topics, lambda topic: access.allows_topic(_O.DESCRIBE, topic.topic_name)
            )
            denied_topics[group.group_id] = [_denied_offsets(topic) for topic in denied]
    request.groups = [group for group in request.groups if group.group_id not in denied_groups]

    def merge(response: Any) -> None:
        rows = denied_groups | {group.group_id: group for group in response.groups}
        for group in response.groups:
            if not group.error_code:
                group.topics = [t for t in group.topics if access.allows_topic(_O.DESCRIBE, t.topic_name)]
                group.topics += denied_topics.get(group.group_id, [])
        response.groups = [rows[group_id] for group_id in order]

    return checked.then(merge)


def _denied_offsets(topic: Any) -> DescribeShareGroupOffsetsResponseTopic:
    rows = [
        DescribeShareGroupOffsetsResponsePartition(number, -1, 0, -1, _DENIED, _DENIED.text)
        for number in topic.partitions
    ]
    return DescribeShareGroupOffsetsResponseTopic(topic.topic_name, bytes(16), rows)


def alter_share_group_offsets(checked: CheckedRequest) -> Result:
    """The group, then each topic."""
    request = checked.request
    if not checked.access.allows_group(_O.READ, request.group_id):
        return response_with(request, _OF_GROUP)
    rows = [
        AlterShareGroupOffsetsResponseTopic(
            topic.topic_name,
            _topic_id(checked, topic.topic_name),
            [
                AlterShareGroupOffsetsResponsePartition(p.partition_index, _DENIED, _DENIED.text)
                for p in topic.partitions
            ],
        )
        for topic in _denied_topics(checked)
    ]
    return _before(checked, rows)


def delete_share_group_offsets(checked: CheckedRequest) -> Result:
    """The group, then each topic."""
    request = checked.request
    if not checked.access.allows_group(_O.DELETE, request.group_id):
        return response_with(request, _OF_GROUP)
    rows = [
        DeleteShareGroupOffsetsResponseTopic(topic.topic_name, bytes(16), _DENIED, _DENIED.text)
        for topic in _denied_topics(checked)
    ]
    return _before(checked, rows)


def _denied_topics(checked: CheckedRequest) -> list[Any]:
    """Takes topics that may not be read out of the request, and returns them."""
    request, access = checked.request, checked.access
    request.topics, denied = divided(request.topics, lambda topic: access.allows_topic(_O.READ, topic.topic_name))
    return list(denied)


def _topic_id(checked: CheckedRequest, name: str) -> bytes:
    topic = checked.broker.topics.by_name.get(name)
    return bytes(16) if topic is None else topic.topic_id


def _before(checked: CheckedRequest, rows: list[Any]) -> Result:
    """The denied topics come first."""

    def merge(response: Any) -> None:
        if not response.error_code:
            response.responses = [*rows, *response.responses]

    return checked.then(merge)
