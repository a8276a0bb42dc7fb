"""Which partitions of a share group have a state at the share coordinator, and how that changes: initialized as a member
subscribes, altered and deleted by administrators, gone with their topics (record 15).

The driver sends the share coordinator's requests: `initialization` makes the request, and `StatesInitialized` or
`StatesDeleted` is the command with its result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from coterie.coordinator import events as e
from coterie.coordinator.commands import StatesDeleted, StatesDeleting, StatesInitialized
from coterie.coordinator.consumer.image import TopicsImage
from coterie.coordinator.outcome import Context, Outcome, Reply
from coterie.coordinator.share import events as s
from coterie.coordinator.share.state import ShareGroup, StatePartitions, StateTopic
from coterie.coordinator.share_state.state import NO_OFFSET
from coterie.coordinator.state import Cause
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.share.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from coterie.wire.messages.share.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from coterie.wire.messages.share.initialize_share_group_state import (
    InitializedPartition,
    InitializedTopic,
    InitializeShareGroupStateRequest,
)

RETRY_INTERVAL_MS = 30_000  # group.share.initialize.retry.interval.ms, an internal setting
Numbers = Mapping[bytes, frozenset[int]]  # partitions by topic id


def missing_states(
    states: StatePartitions | None, names: Iterable[str], topics: TopicsImage, now_ms: int
) -> dict[bytes, StateTopic]:
    """The partitions of subscribed topics without a state, and without one that is being initialized, for 30 s."""
    states, missing = states or StatePartitions(), dict[bytes, StateTopic]()
    for name in sorted(names):
        topic = topics.topics.get(name)
        if topic is None:
            continue
        known = _numbers(states.initialized, topic.topic_id)
        waiting = states.initializing.get(topic.topic_id)
        if waiting is not None and now_ms - waiting.since_ms < RETRY_INTERVAL_MS:
            known |= waiting.partitions
        if len(known) < topic.partitions:
            missing[topic.topic_id] = StateTopic(name, frozenset(range(topic.partitions)) - known, now_ms)
    return missing


def initializing(states: StatePartitions | None, topics: Mapping[bytes, StateTopic]) -> StatePartitions:
    """The states once these partitions are being initialized; a topic that was being deleted is not any more."""
    states = states or StatePartitions()
    joined = dict(states.initializing)
    for topic_id, topic in topics.items():
        joined[topic_id] = replace(topic, partitions=topic.partitions | _numbers(states.initializing, topic_id))
    deleting = {topic_id: name for topic_id, name in states.deleting.items() if topic_id not in joined}
    return StatePartitions(joined, states.initialized, deleting)


def initialization(
    group: ShareGroup, group_epoch: int, topics: Mapping[bytes, StateTopic]
) -> InitializeShareGroupStateRequest:
    """The request to the share coordinator. The first state of a topic begins where share.auto.offset.reset says, that of a
    partition which the topic gets later at its start."""
    known = frozenset() if group.states is None else group.states.known_topics()
    return InitializeShareGroupStateRequest(
        group.group_id,
        [
            InitializedTopic(
                topic_id,
                [
                    InitializedPartition(number, group_epoch, 0 if topic_id in known else NO_OFFSET)
                    for number in sorted(topic.partitions)
                ],
            )
            for topic_id, topic in topics.items()
        ],
    )


def decide_states_initialized(group: ShareGroup, command: StatesInitialized, ctx: Context) -> Outcome:
    """The share coordinator has initialized the partitions, or has failed to: then they are requested again."""
    if not command.partitions:
        return _responding(Outcome(), command.response, ctx)
    states = group.states or StatePartitions()
    waiting = _without(states.initializing, command.partitions)
    if not command.succeeded:
        unchanged = waiting == states.initializing
        events: list[e.Event] = [] if unchanged else [s.StatePartitionsStored(replace(states, initializing=waiting))]
        return _responding(Outcome(events), command.response, ctx)
    ready = dict(states.initialized)
    for topic_id, numbers in command.partitions.items():
        known = states.initializing.get(topic_id) or states.initialized.get(topic_id)
        name = _name(topic_id, ctx.topics) if known is None else known.name
        ready[topic_id] = StateTopic(name, numbers | _numbers(states.initialized, topic_id))
    stored = s.StatePartitionsStored(StatePartitions(waiting, ready, states.deleting))
    return _responding(Outcome([stored]), command.response, ctx)


def decide_alter_offsets(group: ShareGroup, request: AlterShareGroupOffsetsRequest, ctx: Context) -> Outcome:
    """The partitions are to be initialized at new offsets, of a group without members. Raises Refusal NON_EMPTY_GROUP."""
    _check_empty(group)
    response, topics = AlterShareGroupOffsetsResponse(), dict[bytes, StateTopic]()
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    for row in request.topics:
        topic = ctx.topics.topics.get(row.topic_name)
        count = 0 if topic is None else topic.partitions
        result = AlterShareGroupOffsetsResponseTopic(row.topic_name, bytes(16) if topic is None else topic.topic_id)
        for partition in row.partitions:
            code = ErrorCode.NONE if partition.partition_index < count else unknown
            text = code.text if code else None
            result.partitions.append(AlterShareGroupOffsetsResponsePartition(partition.partition_index, code, text))
        response.responses.append(result)
        if topic is not None:
            numbers = frozenset(p.partition_index for p in row.partitions if p.partition_index < count)
            topics[topic.topic_id] = StateTopic(row.topic_name, numbers, ctx.now_ms)
    response.responses.sort(key=lambda topic: topic.topic_id != bytes(16))  # unknown topics first, as Kafka's
    outcome = Outcome(replies=[Reply(ctx.token, response)])
    if topics:
        outcome.events.append(s.StatePartitionsStored(initializing(group.states, topics), Cause("offsets_altered")))
    return outcome


def decide_delete_offsets(group: ShareGroup, request: DeleteShareGroupOffsetsRequest, ctx: Context) -> Outcome:
    """The states of the topics are to be deleted, of a group without members. The response has the topics with an error, and
    those whose states the share coordinator is to delete without. Raises Refusal NON_EMPTY_GROUP."""
    _check_empty(group)
    response, states = DeleteShareGroupOffsetsResponse(), group.states
    if states is None:
        return Outcome(replies=[Reply(ctx.token, response)])
    ready, deleting = dict(states.initialized), dict(states.deleting)
    for row in request.topics:
        topic = ctx.topics.topics.get(row.topic_name)
        result = DeleteShareGroupOffsetsResponseTopic(row.topic_name)
        if topic is None:
            result.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            result.error_message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.text
        elif topic.topic_id not in ready and topic.topic_id not in deleting:
            result.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            result.error_message = "There is no offset information to delete."
        else:
            ready.pop(topic.topic_id, None)
            deleting[topic.topic_id], result.topic_id = row.topic_name, topic.topic_id
        response.responses.append(result)
    stored = s.StatePartitionsStored(StatePartitions(states.initializing, ready, deleting), Cause("offsets_deleted"))
    return Outcome([stored], [Reply(ctx.token, response)])


def decide_states_deleting(group: ShareGroup, command: StatesDeleting, ctx: Context) -> Outcome:
    """All states of the group are to be deleted, since it is. Raises Refusal NON_EMPTY_GROUP."""
    _check_empty(group)
    states = group.states
    if states is None:
        return _responding(Outcome(), command.response, ctx)
    names = {topic_id: topic.name for topic_id, topic in (states.initializing | states.initialized).items()}  # type: ignore[operator]
    known = {topic.topic_id for topic in ctx.topics.topics.values()}
    names |= {topic_id: name for topic_id, name in states.deleting.items() if topic_id in known}
    return _responding(Outcome([s.StatePartitionsStored(StatePartitions(deleting=names))]), command.response, ctx)


def decide_states_deleted(group: ShareGroup, command: StatesDeleted, ctx: Context) -> Outcome:
    """The share coordinator has deleted the states of these topics."""
    if group.states is None:
        return _responding(Outcome(), command.response, ctx)
    deleting = {t: name for t, name in group.states.deleting.items() if t not in command.topic_ids}
    return _responding(
        Outcome([s.StatePartitionsStored(replace(group.states, deleting=deleting))]), command.response, ctx
    )


def decide_states_of_deleted_topics(group: ShareGroup, topic_ids: frozenset[bytes]) -> Outcome:
    """Topics are deleted, and with them their states (Kafka's maybeCleanupShareGroupState)."""
    states = group.states
    if states is None or not topic_ids & {*states.initializing, *states.initialized, *states.deleting}:
        return Outcome()
    kept = StatePartitions(
        {t: topic for t, topic in states.initializing.items() if t not in topic_ids},
        {t: topic for t, topic in states.initialized.items() if t not in topic_ids},
        {t: name for t, name in states.deleting.items() if t not in topic_ids},
    )
    return Outcome([s.StatePartitionsStored(kept)])


def _check_empty(group: ShareGroup) -> None:
    if group.members:
        raise Refusal(ErrorCode.NON_EMPTY_GROUP)


def _responding(outcome: Outcome, response: object, ctx: Context) -> Outcome:
    if ctx.token is not None and response is not None:
        outcome.replies.append(Reply(ctx.token, response))  # type: ignore[arg-type]
    return outcome


def _numbers(topics: Mapping[bytes, StateTopic], topic_id: bytes) -> frozenset[int]:
    return topics[topic_id].partitions if topic_id in topics else frozenset()


def _without(topics: Mapping[bytes, StateTopic], gone: Numbers) -> dict[bytes, StateTopic]:
    left = {t: replace(topic, partitions=topic.partitions - gone.get(t, frozenset())) for t, topic in topics.items()}
    return {topic_id: topic for topic_id, topic in left.items() if topic.partitions}


def _name(topic_id: bytes, topics: TopicsImage) -> str:
    return next((name for name, topic in topics.topics.items() if topic.topic_id == topic_id), "")
