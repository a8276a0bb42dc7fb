"""Hard events of streams groups to their records and back, and a record as text. Subtopologies, partitions and keys stand in
order in a record, as Kafka writes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from coterie.coordinator.stored_records.stored_kinds import RecordKind, RecordTable
from coterie.coordinator.streams import events as s
from coterie.coordinator.streams.response import task_ids
from coterie.coordinator.streams.state import CurrentTasks, OwnedTasks, StreamsMemberState, StreamsMetadata
from coterie.coordinator.streams.tasks import TaskId, Tasks
from coterie.wire.messages.stored import streams_group_records as m
from coterie.wire.messages.streams.streams_group_heartbeat import Endpoint, KeyValue, TaskIds

STREAMS_MEMBER_STATES = {1: "stable", 2: "unrevoked tasks", 3: "unreleased tasks"}


def _epoch_value(event: s.StreamsEpochStored) -> m.StreamsGroupMetadataValue:
    return m.StreamsGroupMetadataValue(
        event.epoch,
        event.metadata_hash,
        event.validated_topology_epoch,
        [KeyValue(key, value) for key, value in event.assignment_configs],
        event.stored_description_epoch,
        event.failed_description_epoch,
    )


def _epoch(value: m.StreamsGroupMetadataValue) -> s.StreamsEpochStored:
    return s.StreamsEpochStored(
        value.epoch,
        value.metadata_hash,
        value.validated_topology_epoch,
        tuple((config.key, config.value) for config in value.last_assignment_configs or ()),
        value.stored_description_topology_epoch,
        value.failed_description_topology_epoch,
    )


def _metadata_value(metadata: StreamsMetadata) -> m.StreamsGroupMemberMetadataValue:
    return m.StreamsGroupMemberMetadataValue(
        metadata.instance_id,
        metadata.rack_id,
        metadata.client_id,
        metadata.client_host,
        rebalance_timeout_ms=metadata.rebalance_timeout_ms,
        topology_epoch=metadata.topology_epoch,
        process_id=metadata.process_id,
        user_endpoint=None if metadata.user_endpoint is None else Endpoint(*metadata.user_endpoint),
        client_tags=[KeyValue(key, value) for key, value in metadata.client_tags],
    )


def _metadata(value: m.StreamsGroupMemberMetadataValue) -> StreamsMetadata:
    endpoint = value.user_endpoint
    return StreamsMetadata(
        value.instance_id,
        value.rack_id,
        value.client_id,
        value.client_host,
        value.rebalance_timeout_ms,
        topology_epoch=value.topology_epoch,
        process_id=value.process_id,
        user_endpoint=None if endpoint is None else (endpoint.host, endpoint.port),
        client_tags=tuple(sorted((tag.key, tag.value) for tag in value.client_tags)),
    )


def _target_value(tasks: Tasks) -> m.StreamsGroupTargetAssignmentMemberValue:
    return m.StreamsGroupTargetAssignmentMemberValue(
        task_ids(tasks.active), task_ids(tasks.standby), task_ids(tasks.warmup)
    )


def _target(value: m.StreamsGroupTargetAssignmentMemberValue) -> Tasks:
    return Tasks(_set(value.active_tasks), _set(value.standby_tasks), _set(value.warmup_tasks))


def _set(tasks: Iterable[TaskIds | m.OwnedTaskIds]) -> frozenset[TaskId]:
    return frozenset((t.subtopology_id, partition) for t in tasks for partition in t.partitions)


def _current_value(current: CurrentTasks) -> m.StreamsGroupCurrentMemberAssignmentValue:
    assigned, pending = current.assigned, current.pending_revocation
    return m.StreamsGroupCurrentMemberAssignmentValue(
        current.member_epoch,
        current.previous_member_epoch,
        current.state,
        active_tasks=_active_value(assigned),
        standby_tasks=_replica_value(assigned.standby),
        warmup_tasks=_replica_value(assigned.warmup),
        active_tasks_pending_revocation=_active_value(pending),
        standby_tasks_pending_revocation=_replica_value(pending.standby),
        warmup_tasks_pending_revocation=_replica_value(pending.warmup),
    )


def _active_value(owned: OwnedTasks) -> list[m.OwnedTaskIds]:
    return [
        m.OwnedTaskIds(t.subtopology_id, t.partitions, [owned.active[t.subtopology_id, p] for p in t.partitions])
        for t in task_ids(owned.active)
    ]


def _replica_value(tasks: frozenset[TaskId]) -> list[m.OwnedTaskIds]:
    return [m.OwnedTaskIds(t.subtopology_id, t.partitions) for t in task_ids(tasks)]


def _current(value: m.StreamsGroupCurrentMemberAssignmentValue) -> CurrentTasks:
    epoch = value.member_epoch
    return CurrentTasks(
        epoch,
        value.previous_member_epoch,
        StreamsMemberState(value.state),
        OwnedTasks(_active(value.active_tasks, epoch), _set(value.standby_tasks), _set(value.warmup_tasks)),
        OwnedTasks(
            _active(value.active_tasks_pending_revocation, epoch),
            _set(value.standby_tasks_pending_revocation),
            _set(value.warmup_tasks_pending_revocation),
        ),
    )


def _active(tasks: Iterable[m.OwnedTaskIds], member_epoch: int) -> dict[TaskId, int]:
    """Without an epoch for each task, as before Kafka 4.3, all count as assigned in the member's epoch."""
    owned: dict[TaskId, int] = {}
    for t in tasks:
        epochs = t.assignment_epochs
        if epochs is None or len(epochs) != len(t.partitions):
            epochs = [member_epoch] * len(t.partitions)
        owned |= {(t.subtopology_id, partition): at for partition, at in zip(t.partitions, epochs, strict=True)}
    return owned


_RECORDS: dict[type, Callable[[str, Any], tuple[Any, Any]]] = {
    s.StreamsEpochStored: lambda g, x: (m.StreamsGroupMetadataKey(g), _epoch_value(x)),
    s.StreamsEpochRemoved: lambda g, x: (m.StreamsGroupMetadataKey(g), None),
    s.StreamsMetadataStored: lambda g, x: (
        m.StreamsGroupMemberMetadataKey(g, x.member_id),
        _metadata_value(x.metadata),
    ),
    s.StreamsMetadataRemoved: lambda g, x: (m.StreamsGroupMemberMetadataKey(g, x.member_id), None),
    s.TaskTargetEpochStored: lambda g, x: (
        m.StreamsGroupTargetAssignmentMetadataKey(g),
        m.StreamsGroupTargetAssignmentMetadataValue(x.epoch, x.timestamp_ms),
    ),
    s.TaskTargetEpochRemoved: lambda g, x: (m.StreamsGroupTargetAssignmentMetadataKey(g), None),
    s.TaskTargetStored: lambda g, x: (m.StreamsGroupTargetAssignmentMemberKey(g, x.member_id), _target_value(x.tasks)),
    s.TaskTargetRemoved: lambda g, x: (m.StreamsGroupTargetAssignmentMemberKey(g, x.member_id), None),
    s.CurrentTasksStored: lambda g, x: (
        m.StreamsGroupCurrentMemberAssignmentKey(g, x.member_id),
        _current_value(x.current),
    ),
    s.CurrentTasksRemoved: lambda g, x: (m.StreamsGroupCurrentMemberAssignmentKey(g, x.member_id), None),
    s.TopologyStored: lambda g, x: (m.StreamsGroupTopologyKey(g), x.topology),
    s.TopologyRemoved: lambda g, x: (m.StreamsGroupTopologyKey(g), None),
}
# Of a key: the event of a value, and that of a tombstone.
_EVENTS: dict[type, tuple[Callable[[Any, Any], s.StreamsEvent], Callable[[Any], s.StreamsEvent]]] = {
    m.StreamsGroupMetadataKey: (lambda key, value: _epoch(value), lambda key: s.StreamsEpochRemoved()),
    m.StreamsGroupMemberMetadataKey: (
        lambda key, value: s.StreamsMetadataStored(key.member_id, _metadata(value)),
        lambda key: s.StreamsMetadataRemoved(key.member_id),
    ),
    m.StreamsGroupTargetAssignmentMetadataKey: (
        lambda key, value: s.TaskTargetEpochStored(value.assignment_epoch, value.assignment_timestamp),
        lambda key: s.TaskTargetEpochRemoved(),
    ),
    m.StreamsGroupTargetAssignmentMemberKey: (
        lambda key, value: s.TaskTargetStored(key.member_id, _target(value)),
        lambda key: s.TaskTargetRemoved(key.member_id),
    ),
    m.StreamsGroupCurrentMemberAssignmentKey: (
        lambda key, value: s.CurrentTasksStored(key.member_id, _current(value)),
        lambda key: s.CurrentTasksRemoved(key.member_id),
    ),
    m.StreamsGroupTopologyKey: (lambda key, value: s.TopologyStored(value), lambda key: s.TopologyRemoved()),
}


def _epoch_text(key: m.StreamsGroupMetadataKey, value: m.StreamsGroupMetadataValue) -> str:
    configs = ", ".join(f"{config.key}={config.value}" for config in value.last_assignment_configs or ())
    validated = value.validated_topology_epoch
    topology = "topology not ready" if validated < 0 else f"topology epoch {validated}"
    text = f"epoch {value.epoch}, metadata hash {value.metadata_hash}, {topology}"
    return f"{text}, {configs}" if configs else text


def _metadata_text(key: m.StreamsGroupMemberMetadataKey, value: m.StreamsGroupMemberMetadataValue) -> str:
    instance = f" ({value.instance_id})" if value.instance_id is not None else ""
    text = f"member {key.member_id}{instance} of process {value.process_id}, topology epoch {value.topology_epoch}"
    text += f", rebalance timeout {value.rebalance_timeout_ms} ms, client {value.client_id} at {value.client_host}"
    text += f", rack {value.rack_id}" if value.rack_id is not None else ""
    text += f", endpoint {value.user_endpoint.host}:{value.user_endpoint.port}" if value.user_endpoint else ""
    tags = ", ".join(f"{tag.key}={tag.value}" for tag in value.client_tags)
    return f"{text}, tags {tags}" if tags else text


def _target_epoch_text(key: object, value: m.StreamsGroupTargetAssignmentMetadataValue) -> str:
    return f"target assignment of epoch {value.assignment_epoch}, computed at {value.assignment_timestamp}"


def _target_text(key: m.StreamsGroupTargetAssignmentMemberKey, value: m.StreamsGroupTargetAssignmentMemberValue) -> str:
    return f"target of {key.member_id}: {_roles(value.active_tasks, value.standby_tasks, value.warmup_tasks)}"


def _current_text(
    key: m.StreamsGroupCurrentMemberAssignmentKey, value: m.StreamsGroupCurrentMemberAssignmentValue
) -> str:
    state = STREAMS_MEMBER_STATES.get(value.state, "of unknown state")
    text = f"member {key.member_id} epoch {value.member_epoch} after {value.previous_member_epoch}, {state}, owns "
    text += _roles(value.active_tasks, value.standby_tasks, value.warmup_tasks)
    pending = (
        value.active_tasks_pending_revocation,
        value.standby_tasks_pending_revocation,
        value.warmup_tasks_pending_revocation,
    )
    return f"{text}, to revoke {_roles(*pending)}" if any(pending) else text


def _topology_text(key: object, value: m.StreamsGroupTopologyValue) -> str:
    subtopologies = [
        f"{sub.subtopology_id} of {'+'.join([*sub.source_topics, *(t.name for t in sub.repartition_source_topics)])}"
        for sub in value.subtopologies
    ]
    return f"topology of epoch {value.epoch}: {', '.join(subtopologies) or 'nothing'}"


def _roles(active: Sequence[Any], standby: Sequence[Any], warmup: Sequence[Any]) -> str:
    """Tasks as Kafka prints them, after @ the epochs at which they were assigned."""
    named = [("", active), ("standby ", standby), ("warm-up ", warmup)]
    texts = [name + " ".join(_task_texts(tasks)) for name, tasks in named if tasks]
    return ", ".join(texts) or "nothing"


def _task_texts(tasks: Iterable[TaskIds | m.OwnedTaskIds]) -> list[str]:
    texts = []
    for t in tasks:
        epochs = t.assignment_epochs if isinstance(t, m.OwnedTaskIds) else None
        for index, partition in enumerate(t.partitions):
            at = f"@{epochs[index]}" if epochs and index < len(epochs) else ""
            texts.append(f"{t.subtopology_id}_{partition}{at}")
    return texts


_KINDS: dict[int, RecordKind] = {
    kind.key.versions.first: kind
    for kind in (
        RecordKind(m.StreamsGroupMetadataKey, m.StreamsGroupMetadataValue, _epoch_text, lambda key: "its epoch"),
        RecordKind(
            m.StreamsGroupMemberMetadataKey,
            m.StreamsGroupMemberMetadataValue,
            _metadata_text,
            lambda key: f"member {key.member_id}",
        ),
        RecordKind(
            m.StreamsGroupTargetAssignmentMetadataKey,
            m.StreamsGroupTargetAssignmentMetadataValue,
            _target_epoch_text,
            lambda key: "its target assignment",
        ),
        RecordKind(
            m.StreamsGroupTargetAssignmentMemberKey,
            m.StreamsGroupTargetAssignmentMemberValue,
            _target_text,
            lambda key: f"the target of {key.member_id}",
        ),
        RecordKind(
            m.StreamsGroupCurrentMemberAssignmentKey,
            m.StreamsGroupCurrentMemberAssignmentValue,
            _current_text,
            lambda key: f"what {key.member_id} owns",
        ),
        RecordKind(m.StreamsGroupTopologyKey, m.StreamsGroupTopologyValue, _topology_text, lambda key: "its topology"),
    )
}
STREAMS_RECORDS = RecordTable("streams", _RECORDS, _EVENTS, _KINDS)
