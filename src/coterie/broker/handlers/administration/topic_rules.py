"""The rules of CreateTopics, CreatePartitions and DeleteTopics that are the same for a broker alone and in a cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from coterie.broker.handlers.services import TopicServices
from coterie.broker.storage.topic import Topic, deletion_disabled
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.create_topics import CreateTopicsRequest
from coterie.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, topics_to_delete
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
