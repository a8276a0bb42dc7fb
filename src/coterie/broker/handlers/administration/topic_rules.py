"""The rules of CreateTopics, CreatePartitions and DeleteTopics that are the same for a broker alone and in a cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from coterie.broker.handlers.services import TopicServices
from coterie.broker.storage.topic import MAX_PARTITIONS, Topic, deletion_disabled
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.topics.create_partitions import CreatePartitionsTopic
from coterie.wire.messages.topics.create_topics import CreatableTopic, CreateTopicsRequest
from coterie.wire.messages.topics.delete_topics import DeletableTopicResult, DeleteTopicsRequest, topics_to_delete
from coterie.wire.primitives import NULL_UUID

MAX_PARTITIONS_PER_REQUEST = 10_000  # of CreateTopics, as Kafka 4's MAX_PARTITIONS_PER_BATCH
_Named = tuple[str | None, bytes]  # (name, topic id) of an element


def check_named_once(names: Counter[str], name: str) -> None:
    """``names``: of the topics of a request. Raises Refusal INVALID_REQUEST."""
    if names[name] > 1:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"topic {name} is named twice")


def refusal_of_excess(broker: TopicServices, request: CreateTopicsRequest) -> Refusal | None:
    """Of all topics, where they have too many partitions, as Kafka 4's
    ReplicationControlManager.validateTotalNumberOfPartitions counts them."""
    default = broker.settings.current.num_partitions
    counts = (len(t.assignments) or (default if t.num_partitions == -1 else t.num_partitions) for t in request.topics)
    if sum(count for count in counts if count > 0) <= MAX_PARTITIONS_PER_REQUEST:
        return None
    text = f"more than {MAX_PARTITIONS_PER_REQUEST} partitions in one request; create them with several"
    return Refusal(ErrorCode.POLICY_VIOLATION, text)


def given_assignment(broker: TopicServices, requested: CreatableTopic) -> dict[int, tuple[int, ...]] | None:
    """The replicas of each partition of a new topic; None where the request leaves them to the broker. Raises Refusal."""
    if not requested.assignments:
        return None
    if (requested.num_partitions, requested.replication_factor) != (-1, -1):
        text = "with assignments, num_partitions and replication_factor must both be -1"
        raise Refusal(ErrorCode.INVALID_REQUEST, text)
    assigned = {a.partition_index: tuple(a.broker_ids) for a in requested.assignments}
    _check_assignment(broker, assigned, range(len(requested.assignments)))
    return assigned


def growing_topic(
    broker: TopicServices, requested: CreatePartitionsTopic
) -> tuple[Topic, dict[int, tuple[int, ...]] | None]:
    """The topic that gets more partitions, and their replicas, or None as above. Raises Refusal."""
    topic = broker.topics.by_name.get(requested.name)
    if topic is None:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if topic.internal:
        raise Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, "cannot change the partition count of an internal topic")
    now, count = len(topic.partitions), requested.count
    if count <= now:
        text = f"Topic currently has {now} partitions, which is higher than or equal to the requested {count}."
        raise Refusal(ErrorCode.INVALID_PARTITIONS, text)
    if count > MAX_PARTITIONS:
        raise Refusal(ErrorCode.INVALID_PARTITIONS, f"a topic has at most {MAX_PARTITIONS} partitions")
    if requested.assignments is None:
        return topic, None
    if len(requested.assignments) != count - now:
        text = f"{count - now} partitions are added, but {len(requested.assignments)} are assigned"
        raise Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
    assigned = {now + n: tuple(a.broker_ids) for n, a in enumerate(requested.assignments)}
    factor = len(broker.cluster.described(topic.partitions[0]).replica_ids)
    _check_assignment(broker, assigned, range(now, count), factor)
    return topic, assigned


def _check_assignment(
    broker: TopicServices, assigned: dict[int, tuple[int, ...]], indexes: range, factor: int | None = None
) -> None:
    """``factor``: the number of replicas of the topic's other partitions. Raises Refusal INVALID_REPLICA_ASSIGNMENT."""
    if sorted(assigned) != list(indexes):
        text = f"the indexes of the assigned partitions must be {indexes.start} to {indexes.stop - 1}, each once"
        raise Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
    factors = {len(replicas) for replicas in assigned.values()} | ({factor} if factor else set())
    if len(factors) > 1 or not all(assigned.values()):
        text = "each partition has the same number of replicas, 1 at least"
        raise Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text + (f"; the others have {factor}" if factor else ""))
    live = (broker.node_id,) if broker.cluster.is_alone else broker.cluster.live
    for replicas in assigned.values():
        dead = [broker_id for broker_id in replicas if broker_id not in live]
        if dead or len(set(replicas)) < len(replicas):
            text = f"broker {dead[0]} is not registered" if dead else "the replicas of a partition name a broker twice"
            raise Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)


def planned_deletions(
    broker: TopicServices, request: DeleteTopicsRequest, version: int
) -> Iterator[tuple[DeletableTopicResult, Topic | None]]:
    """Each result with the topic to delete, None where it has an error. The results are those of Kafka's
    ControllerApis.deleteTopics: one for each element that names its topic not at all or both ways, one for each other topic."""
    requested = topics_to_delete(request, version)
    if not broker.settings.current.delete_topic_enable:
        error = deletion_disabled(version)
        yield from (
            (DeletableTopicResult(state.name, state.topic_id, error.code, str(error)), None) for state in requested
        )
        return
    times: Counter[_Named] = Counter((state.name, state.topic_id) for state in requested)
    once = [
        name for (name, topic_id), count in times.items() if name is not None and topic_id == NULL_UUID and count == 1
    ]
    by_name = {broker.topics.by_name[name].topic_id for name in once if name in broker.topics.by_name}
    for named, count in times.items():
        name, topic_id = named
        if name is None and topic_id in by_name and count == 1:
            continue  # its name has the result
        for _ in range(1 if _is_one_way(named) else count):
            yield _planned_deletion(broker, named, times)


def _is_one_way(named: _Named) -> bool:
    """Whether an element names its topic by its name or by its id, and not both or neither."""
    name, topic_id = named
    return (name is None) != (topic_id == NULL_UUID)


def _planned_deletion(
    broker: TopicServices, named: _Named, times: Counter[_Named]
) -> tuple[DeletableTopicResult, Topic | None]:
    """``times``: how often the request has each element."""
    result = DeletableTopicResult(*named)
    try:
        topic = _to_delete(broker, named, times[named])
        result.name, result.topic_id = topic.name, topic.topic_id
        if named[0] is not None and times[None, topic.topic_id]:
            raise Refusal(ErrorCode.INVALID_REQUEST, "the topic is named by its name and by its id")
    except Refusal as refusal:
        result.error_code, result.error_message = refusal.code, str(refusal)
        return result, None
    return result, topic


def _to_delete(broker: TopicServices, named: _Named, times: int) -> Topic:
    """Raises Refusal."""
    name, topic_id = named
    if not _is_one_way(named):
        raise Refusal(ErrorCode.INVALID_REQUEST, "a topic is named by its name or by its id")
    if times > 1:
        raise Refusal(ErrorCode.INVALID_REQUEST, "the topic is named twice")
    topic = broker.topics.by_id.get(topic_id) if name is None else broker.topics.by_name.get(name)
    if topic is None:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_ID if name is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if topic.internal:
        raise Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, "an internal topic cannot be deleted")
    return topic
