"""Topics are created, extended and deleted: CreateTopics, CreatePartitions, DeleteTopics."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Generator

from coterie.broker.clients.throttling import CREATE_PARTITIONS, CREATE_TOPICS, DELETE_TOPICS, Mutations
from coterie.broker.handlers.administration.configs import created_configs
from coterie.broker.handlers.administration.topic_rules import (
    check_named_once,
    given_assignment,
    growing_topic,
    planned_deletions,
    refusal_of_excess,
)
from coterie.broker.handlers.services import Handler, TopicServices
from coterie.broker.requests.calls import Call
from coterie.broker.requests.pending import Pending
from coterie.broker.requests.turns import AT_ONCE, Work
from coterie.broker.storage.topic import INTERNAL_TOPICS, NewPartitions, Topic
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.topics.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from coterie.wire.messages.topics.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from coterie.wire.messages.topics.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse


def handle_create_topics(broker: TopicServices, request: CreateTopicsRequest, call: Call) -> Message | Pending:
    """Each topic for itself. POLICY_VIOLATION for all where there are too many partitions in the request."""
    if broker.topic_changes is not None:
        from coterie.broker.handlers.administration.cluster_topics import create_topics  # of a broker in a cluster only

        return create_topics(broker, broker.topic_changes, request, mutations_of(broker, CREATE_TOPICS, call))
    return broker.turns.run(_create_topics(broker, request, mutations_of(broker, CREATE_TOPICS, call)))


def create_topics_of_broker(broker: TopicServices, request: CreateTopicsRequest, call: Call) -> Pending:
    """The same for topics that the broker itself needs, of which any broker of a cluster may create one."""
    pending, mutations = Pending(), mutations_of(broker, CREATE_TOPICS, call)
    if broker.topic_changes is not None:
        from coterie.broker.handlers.administration.cluster_topics import create_topics  # of a broker in a cluster

        pending.respond_with(create_topics(broker, broker.topic_changes, request, mutations, by_any=True))
    else:
        pending.respond_with(broker.turns.run(_create_topics(broker, request, mutations)))
    return pending


def mutations_of(broker: TopicServices, api_key: int, call: Call) -> Mutations:
    """What the client may create or delete by its quota."""
    return broker.clients.throttling.mutations(api_key, call, broker.clock.now_ms)


def _create_topics(broker: TopicServices, request: CreateTopicsRequest, mutations: Mutations) -> Work:
    response = CreateTopicsResponse()
    names = Counter(t.name for t in request.topics)
    yield
    excess = refusal_of_excess(broker, request)
    yield
    growths: list[NewPartitions] = []
    try:
        for requested in {t.name: t for t in request.topics}.values():
            try:
                if excess is not None:
                    raise excess
                check_named_once(names, requested.name)
                admitted = None if request.validate_only else mutations
                result = yield from _create(broker, requested, growths, admitted)
            except Refusal as refusal:
                result = _not_created(requested.name, refusal)
            response.topics.append(result)
            yield
        made, growths = growths, []
        if made:
            try:
                broker.topics.publish(made)
            except Refusal as refusal:
                failed = {growth.topic.name for growth in made}
                response.topics = [_not_created(r.name, refusal) if r.name in failed else r for r in response.topics]
    finally:
        broker.topics.abandon(growths)
    response.throttle_time_ms = mutations.throttle_ms
    return response


def _not_created(name: str, refusal: Refusal) -> CreatableTopicResult:
    return CreatableTopicResult(name, error_code=refusal.code, error_message=str(refusal), configs=[])


def _create(
    broker: TopicServices, requested: CreatableTopic, growths: list[NewPartitions], mutations: Mutations | None
) -> Generator[None, None, CreatableTopicResult]:
    """Adds to ``growths`` what is to be published. ``mutations``: None where it is only checked."""
    broker.topics.check_new_name(requested.name)
    count = _partition_count(broker, requested)
    configs = {c.name: c.value for c in requested.configs}
    if mutations is None:
        checked = broker.topics.check_new(requested.name, count, configs)
        topic_id = uuid.uuid4().bytes  # as Kafka, which gives an id to a topic that it only checks
    else:
        mutations.record(count)
        if requested.name in INTERNAL_TOPICS:  # in one turn: another request may need it at once
            topic = broker.topics.create(requested.name, count, configs)
        else:
            growth = yield from broker.topics.preparing(requested.name, count, configs)
            growths.append(growth)
            topic = growth.topic
        checked, topic_id = topic.configs, topic.topic_id
    return CreatableTopicResult(
        requested.name,
        topic_id,
        ErrorCode.NONE,
        None,
        num_partitions=count,
        replication_factor=1,
        configs=created_configs(broker.settings, checked),
    )


def _partition_count(broker: TopicServices, requested: CreatableTopic) -> int:
    """The number of partitions of a new topic. Raises Refusal for an invalid assignment of replicas."""
    given = given_assignment(broker, requested)
    if given is not None:
        return len(given)
    if requested.replication_factor not in (-1, 1):
        raise Refusal(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {requested.replication_factor} time(s): there is one broker.",
        )
    return int(broker.settings.current.num_partitions) if requested.num_partitions == -1 else requested.num_partitions


def handle_create_partitions(broker: TopicServices, request: CreatePartitionsRequest, call: Call) -> Message | Pending:
    """Each topic for itself: INVALID_PARTITIONS, INVALID_REPLICA_ASSIGNMENT."""
    if broker.topic_changes is not None:
        from coterie.broker.handlers.administration.cluster_topics import (
            create_partitions,  # of a broker in a cluster only
        )

        return create_partitions(broker, broker.topic_changes, request, mutations_of(broker, CREATE_PARTITIONS, call))
    return broker.turns.run(_create_partitions(broker, request, mutations_of(broker, CREATE_PARTITIONS, call)))


def _create_partitions(broker: TopicServices, request: CreatePartitionsRequest, mutations: Mutations) -> Work:
    response = CreatePartitionsResponse()
    names = Counter(t.name for t in request.topics)
    growths: list[NewPartitions] = []
    try:
        for requested in {t.name: t for t in request.topics}.values():
            result = CreatePartitionsTopicResult(requested.name)
            try:
                check_named_once(names, requested.name)
                topic, _ = growing_topic(broker, requested)
                if not request.validate_only:
                    mutations.record(requested.count - len(topic.partitions))
                    growths.append((yield from broker.topics.extending(topic, requested.count)))
            except Refusal as refusal:
                result.error_code, result.error_message = refusal.code, refusal.message or None
            response.results.append(result)
            yield
        made, growths = growths, []
        if made:
            try:
                broker.topics.publish(made)
            except Refusal as refusal:
                failed = {growth.topic.name for growth in made}
                for result in response.results:
                    if result.name in failed:
                        result.error_code, result.error_message = refusal.code, refusal.message
    finally:
        broker.topics.abandon(growths)
    response.throttle_time_ms = mutations.throttle_ms
    return response


def handle_delete_topics(broker: TopicServices, request: DeleteTopicsRequest, call: Call) -> Message | Pending:
    """By name, from version 6 on also by id; committed offsets go with the topic. TOPIC_DELETION_DISABLED, before version 3
    INVALID_REQUEST."""
    if broker.topic_changes is not None:
        from coterie.broker.handlers.administration.cluster_topics import delete_topics  # of a broker in a cluster only

        mutations = mutations_of(broker, DELETE_TOPICS, call)
        return delete_topics(broker, broker.topic_changes, request, call.api_version, mutations)
    return broker.turns.run(_delete_topics(broker, request, call))


def _delete_topics(broker: TopicServices, request: DeleteTopicsRequest, call: Call) -> Work:
    response, mutations = DeleteTopicsResponse(), mutations_of(broker, DELETE_TOPICS, call)
    deleted: list[tuple[DeletableTopicResult, Topic]] = []
    for result, topic in planned_deletions(broker, request, call.api_version):
        response.responses.append(result)
        if topic is not None:
            try:
                mutations.record(len(topic.partitions))
                deleted.append((result, topic))
            except Refusal as refusal:
                result.error_code, result.error_message = refusal.code, str(refusal)
        if len(response.responses) % AT_ONCE == 0:
            yield
    if deleted:
        yield from _delete(broker, deleted)
    response.throttle_time_ms = mutations.throttle_ms
    return response


def _delete(broker: TopicServices, deleted: list[tuple[DeletableTopicResult, Topic]]) -> Generator[None, None, None]:
    """Puts what prevents a deletion into its result."""
    try:
        gone = yield from broker.topics.deleting_all([topic for _, topic in deleted])
        error = Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    except Refusal as refusal:
        gone, error = {topic.name for _, topic in deleted}, refusal
    for result, topic in deleted:
        if topic.name in gone:
            result.error_code, result.error_message = error.code, str(error)


HANDLERS: dict[int, Handler] = {19: handle_create_topics, 20: handle_delete_topics, 37: handle_create_partitions}
