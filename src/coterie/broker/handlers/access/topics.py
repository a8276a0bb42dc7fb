"""Checks of the requests that describe, create and delete topics (KafkaApis, ControllerApis)."""

from __future__ import annotations

from collections import Counter
from typing import Any

from coterie.authorizer.acls import AclOperation, AclResourceType
from coterie.broker.handlers.access.access import NOT_REQUESTED, Access, CheckedRequest, Result
from coterie.broker.storage.topic import INTERNAL_TOPICS
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.topics.create_partitions import CreatePartitionsTopicResult
from coterie.wire.messages.topics.create_topics import CreatableTopicResult
from coterie.wire.messages.topics.delete_topics import DeletableTopicResult, DeleteTopicState, topics_to_delete
from coterie.wire.messages.topics.describe_topic_partitions import (
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseTopic,
    TopicRequest,
)
from coterie.wire.messages.topics.metadata import (
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
    requested_topics,
    topics_are_valid,
)
from coterie.wire.primitives import NULL_UUID

_O, _DENIED = AclOperation, ErrorCode.TOPIC_AUTHORIZATION_FAILED


def metadata(checked: CheckedRequest) -> Result:
    """Each topic that is named; a request for all is shown what may be described."""
    request, version, access = checked.request, checked.call.api_version, checked.access
    if not topics_are_valid(request, version):
        return checked.proceed()
    wanted = requested_topics(request, version)
    denied = _hide_topics(checked, wanted) if wanted is not None else []

    def change(response: MetadataResponse) -> None:
        if wanted is None:
            response.topics = [
                topic
                for topic in response.topics
                if access.allows_topic(_O.DESCRIBE, topic.name or "", is_reported=False)
            ]
        _name_operations(access, response.topics)
        response.topics += denied
        if response.cluster_authorized_operations != NOT_REQUESTED:
            response.cluster_authorized_operations = cluster_operations(access)

    if version == 0 and wanted and not request.topics:  # an empty list would request all
        request.topics = [MetadataRequestTopic(name="")]
        return checked.then(lambda response: _only_denied(response, denied))
    return checked.then(change)


def _only_denied(response: MetadataResponse, denied: list[MetadataResponseTopic]) -> None:
    response.topics = denied


def _hide_topics(checked: CheckedRequest, wanted: list[MetadataRequestTopic]) -> list[MetadataResponseTopic]:
    """Takes topics out of the request that may not be described, or created where they do not exist; returns their rows."""
    request, access, topics = checked.request, checked.access, checked.broker.topics
    if any(topic.topic_id != NULL_UUID for topic in wanted):
        wanted = [topic for topic in wanted if topic.topic_id != NULL_UUID]
    creates = request.allow_auto_topic_creation and checked.broker.settings.current.auto_create_topics_enable
    rows: dict[str, MetadataResponseTopic] = {}
    not_created: dict[str, MetadataResponseTopic] = {}
    allowed = []
    for topic in wanted:
        name = topics.name_of(topic.name or "", topic.topic_id, topic.topic_id != NULL_UUID)
        if name is None or (name not in rows and access.allows_topic(_O.DESCRIBE, name)):
            is_new = name is not None and name not in topics.by_name and creates
            if name is not None and is_new and not _may_create(access, name):
                not_created[name] = MetadataResponseTopic(_DENIED, name, is_internal=name in INTERNAL_TOPICS)
            else:
                allowed.append(topic)
        elif topic.topic_id != NULL_UUID:
            rows[name] = MetadataResponseTopic(_DENIED, None, topic.topic_id)
        else:
            rows[name] = MetadataResponseTopic(_DENIED, name)
    request.topics = allowed
    return [*not_created.values(), *rows.values()]


def _may_create(access: Access, topic: str) -> bool:
    return access.allows_cluster(_O.CREATE, is_reported=False) or access.allows_topic(_O.CREATE, topic)


def _name_operations(access: Access, topics: list[Any]) -> None:
    for topic in topics:
        if topic.topic_authorized_operations != NOT_REQUESTED:
            topic.topic_authorized_operations = access.operations(AclResourceType.TOPIC, topic.name or "")


def cluster_operations(access: Access) -> int:
    """None at all for a client that may not describe the cluster."""
    if not access.allows_cluster(_O.DESCRIBE):
        return 0
    return access.operations(AclResourceType.CLUSTER, "kafka-cluster")


def describe_cluster(checked: CheckedRequest) -> Result:
    """Who may describe the cluster learns what else is allowed."""

    def change(response: Any) -> None:
        if response.cluster_authorized_operations != NOT_REQUESTED:
            response.cluster_authorized_operations = cluster_operations(checked.access)

    return checked.then(change)


def describe_topic_partitions(checked: CheckedRequest) -> Result:
    """Each topic that is named; a request for all is shown what may be described."""
    request, access, cursor = checked.request, checked.access, checked.request.cursor
    first = cursor.topic_name if cursor is not None else ""
    denied: list[str] = []
    if request.topics:
        named = dict.fromkeys(topic.name for topic in request.topics if topic.name >= first)
        if cursor is not None and (first not in named or cursor.partition_index < 0):
            return checked.proceed()  # which is refused
        denied = [name for name in named if not access.allows_topic(_O.DESCRIBE, name)]
        shown = [name for name in named if name not in denied]
    else:
        every = checked.broker.topics.by_name
        shown = [name for name in every if access.allows_topic(_O.DESCRIBE, name, is_reported=False)]
    request.topics = [TopicRequest(name) for name in shown]
    if first and first not in shown:  # the cursor goes on where the next one begins
        request.cursor = None
        request.topics = [topic for topic in request.topics if topic.name >= first]

    def change(response: Any) -> None:
        _name_operations(access, response.topics)
        response.topics += [DescribeTopicPartitionsResponseTopic(_DENIED, name) for name in denied]

    if not request.topics:
        response = DescribeTopicPartitionsResponse()
        change(response)
        return response
    return checked.then(change)


def create_topics(checked: CheckedRequest) -> Result:
    """CREATE of the cluster, or of each topic; DESCRIBE_CONFIGS to be shown its settings."""
    request, access = checked.request, checked.access
    times = Counter(topic.name for topic in request.topics)
    if access.allows_cluster(_O.CREATE, is_reported=False):
        denied = []
    else:
        once = [name for name, count in times.items() if count == 1]
        denied = [name for name in once if not access.allows_topic(_O.CREATE, name)]
    request.topics = [topic for topic in request.topics if topic.name not in denied]

    def change(response: Any) -> None:
        for topic in response.topics:
            if topic.error_code or access.allows_topic(_O.DESCRIBE_CONFIGS, topic.name, is_reported=False):
                continue
            topic.topic_config_error_code, topic.configs = _DENIED, []
            topic.num_partitions = topic.replication_factor = -1
        response.topics += [
            CreatableTopicResult(name, error_code=_DENIED, error_message=_DENIED.text, configs=[]) for name in denied
        ]

    return checked.then(change)


def create_partitions(checked: CheckedRequest) -> Result:
    """ALTER of each topic that is named once."""
    request, access = checked.request, checked.access
    times = Counter(topic.name for topic in request.topics)
    denied = [name for name, count in times.items() if count == 1 and not access.allows_topic(_O.ALTER, name)]
    if not denied:
        return checked.proceed()
    request.topics = [topic for topic in request.topics if topic.name not in denied]

    def add(response: Any) -> None:
        response.results += [CreatePartitionsTopicResult(name, _DENIED) for name in denied]

    return checked.then(add)


def delete_topics(checked: CheckedRequest) -> Result:
    """DELETE of the cluster, or of each topic. What the client may not describe has no name and no id in its result."""
    request, version, access = checked.request, checked.call.api_version, checked.access
    if not checked.broker.settings.current.delete_topic_enable or access.allows_cluster(_O.DELETE, is_reported=False):
        return checked.proceed()
    states = topics_to_delete(request, version)
    times = Counter((state.name, state.topic_id) for state in states)
    rows = []
    kept = []
    for state in states:
        row = _denied_deletion(checked, state) if times[state.name, state.topic_id] == 1 else None
        if row is None:
            kept.append(state)
        else:
            rows.append(row)
    if not rows:
        return checked.proceed()
    request.topics, request.topic_names = kept, [state.name for state in kept if state.name is not None]

    def add(response: Any) -> None:
        response.responses += rows

    return checked.then(add)


def _denied_deletion(checked: CheckedRequest, state: DeleteTopicState) -> DeletableTopicResult | None:
    """None where the topic may be deleted, or the handler refuses it before it is looked up."""
    access, topics = checked.access, checked.broker.topics
    if (state.name is None) == (state.topic_id == NULL_UUID):
        return None
    name = topics.name_of(state.name or "", state.topic_id, state.name is None)
    if name is None:
        return None
    may_describe = access.allows_topic(_O.DESCRIBE, name)
    if may_describe and state.name is not None and name not in topics.by_name:
        return None
    if may_describe and access.allows_topic(_O.DELETE, name):
        return None
    shown = name if may_describe or state.name is not None else None
    return DeletableTopicResult(shown, state.topic_id, _DENIED, _DENIED.text)
