"""CreateTopics, CreatePartitions and DeleteTopics in a cluster: the controller's broker alone carries them out."""

from __future__ import annotations

import uuid
from collections import Counter
from typing import TYPE_CHECKING

from coterie.broker.clients.throttling import Mutations
from coterie.broker.handlers.administration.cluster_responses import refusal_of, responded_by
from coterie.broker.handlers.administration.configs import created_configs
from coterie.broker.handlers.administration.topic_rules import (
    check_named_once,
    given_assignment,
    growing_topic,
    planned_deletions,
    refusal_of_excess,
)
from coterie.broker.handlers.services import TopicServices
from coterie.broker.requests.pending import Pending
from coterie.broker.storage.topic import MAX_PARTITIONS
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.topics.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from coterie.wire.messages.topics.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from coterie.wire.messages.topics.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from coterie.zookeeper.operations import ZooKeeperError

if TYPE_CHECKING:
    from coterie.broker.cluster.topic_changes import TopicAdministration


def _check_controller(broker: TopicServices) -> None:
    if broker.cluster.controller_id != broker.node_id:
        raise Refusal(ErrorCode.NOT_CONTROLLER, f"broker {broker.cluster.controller_id} is the controller")


def create_topics(
    broker: TopicServices,
    changes: TopicAdministration,
    request: CreateTopicsRequest,
    mutations: Mutations,
    *,
    by_any: bool = False,
) -> Pending:
    return responded_by(_create_topics(broker, changes, request, mutations, by_any))


async def _create_topics(
    broker: TopicServices,
    changes: TopicAdministration,
    request: CreateTopicsRequest,
    mutations: Mutations,
    by_any: bool,
) -> CreateTopicsResponse:
    response = CreateTopicsResponse()
    names, excess = Counter(t.name for t in request.topics), refusal_of_excess(broker, request)
    for requested in {t.name: t for t in request.topics}.values():
        try:
            if not by_any:
                _check_controller(broker)
            if excess is not None:
                raise excess
            check_named_once(names, requested.name)
            response.topics.append(await _create(broker, changes, requested, request, mutations))
        except (Refusal, ZooKeeperError) as error:
            refusal = refusal_of(error)
            response.topics.append(
                CreatableTopicResult(requested.name, error_code=refusal.code, error_message=str(refusal), configs=[])
            )
    response.throttle_time_ms = mutations.throttle_ms
    return response


async def _create(
    broker: TopicServices,
    changes: TopicAdministration,
    requested: CreatableTopic,
    request: CreateTopicsRequest,
    mutations: Mutations,
) -> CreatableTopicResult:
    broker.topics.check_new_name(requested.name)
    assigned = _assignment(broker, changes, requested)
    configs = broker.topics.check_new(requested.name, len(assigned), {c.name: c.value for c in requested.configs})
    factor = len(next(iter(assigned.values())))
    topic_id = uuid.uuid4().bytes  # as Kafka, which gives an id to a topic that it only checks
    if not request.validate_only:
        mutations.record(len(assigned))
        await changes.create(requested.name, assigned, configs)
        await changes.until_led(requested.name, len(assigned), request.timeout_ms)
        topic_id = broker.topics.by_name[requested.name].topic_id
    return CreatableTopicResult(
        requested.name,
        topic_id,
        ErrorCode.NONE,
        None,
        num_partitions=len(assigned),
        replication_factor=factor,
        configs=created_configs(broker.settings, configs),
    )


def _assignment(
    broker: TopicServices, changes: TopicAdministration, requested: CreatableTopic
) -> dict[int, tuple[int, ...]]:
    """Raises Refusal."""
    given = given_assignment(broker, requested)
    if given is not None:
        return given
    own, factor = broker.settings.current, requested.replication_factor
    count = own.num_partitions if requested.num_partitions == -1 else requested.num_partitions
    if not 0 < count <= MAX_PARTITIONS:
        raise Refusal(ErrorCode.INVALID_PARTITIONS, f"a topic has 1 to {MAX_PARTITIONS} partitions, not {count}")
    return changes.assign(count, own.default_replication_factor if factor == -1 else factor)


def create_partitions(
    broker: TopicServices, changes: TopicAdministration, request: CreatePartitionsRequest, mutations: Mutations
) -> Pending:
    return responded_by(_create_partitions(broker, changes, request, mutations))


async def _create_partitions(
    broker: TopicServices, changes: TopicAdministration, request: CreatePartitionsRequest, mutations: Mutations
) -> CreatePartitionsResponse:
    response = CreatePartitionsResponse()
    names = Counter(t.name for t in request.topics)
    for requested in {t.name: t for t in request.topics}.values():
        result = CreatePartitionsTopicResult(requested.name)
        try:
            _check_controller(broker)
            check_named_once(names, requested.name)
            await _enlarge(broker, changes, requested, request, mutations)
        except (Refusal, ZooKeeperError) as error:
            refusal = refusal_of(error)
            result.error_code, result.error_message = refusal.code, refusal.message or None
        response.results.append(result)
    response.throttle_time_ms = mutations.throttle_ms
    return response


async def _enlarge(
    broker: TopicServices,
    changes: TopicAdministration,
    requested: CreatePartitionsTopic,
    request: CreatePartitionsRequest,
    mutations: Mutations,
) -> None:
    topic, assigned = growing_topic(broker, requested)
    if not request.validate_only:
        mutations.record(requested.count - len(topic.partitions))
    await changes.enlarge(topic.name, requested.count, assigned, validate_only=request.validate_only)
    if not request.validate_only:
        await changes.until_led(topic.name, requested.count, request.timeout_ms)


def delete_topics(
    broker: TopicServices,
    changes: TopicAdministration,
    request: DeleteTopicsRequest,
    version: int,
    mutations: Mutations,
) -> Pending:
    return responded_by(_delete_topics(broker, changes, request, version, mutations))


async def _delete_topics(
    broker: TopicServices,
    changes: TopicAdministration,
    request: DeleteTopicsRequest,
    version: int,
    mutations: Mutations,
) -> DeleteTopicsResponse:
    response = DeleteTopicsResponse()
    for result, topic in planned_deletions(broker, request, version):
        try:
            _check_controller(broker)
            if topic is not None:
                mutations.record(len(topic.partitions))
                await changes.delete(topic.name)
                await changes.until_gone(topic.name, request.timeout_ms)
        except (Refusal, ZooKeeperError) as error:
            refusal = refusal_of(error)
            result.error_code, result.error_message = refusal.code, str(refusal)
        response.responses.append(result)
    response.throttle_time_ms = mutations.throttle_ms
    return response
