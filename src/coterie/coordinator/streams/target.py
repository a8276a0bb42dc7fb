"""The target assignment of a streams group: the tasks that each member is to have in the end (Kafka's streams
TargetAssignmentBuilder); and reconciliation, one step of a member from its current tasks towards it (CurrentAssignmentBuilder).
Warm-up tasks are in no target: the step that would hand them out changes nothing in Kafka 4.4.

| state | the step |
|---|---|
| STABLE | at the target's epoch: nothing; else *advance* |
| UNREVOKED_TASKS | the member still has a task pending revocation: nothing; else *advance* |
| UNRELEASED_TASKS | *advance* |
| UNKNOWN (a newer broker's) | fenced, unless the member owns nothing: *advance* in the target's epoch |

*Advance*: keep what the target has in the same role. Tasks to give up that the member still has: stay in the epoch,
UNREVOKED_TASKS. Else take the target's epoch and every free task: UNRELEASED_TASKS where one is held elsewhere, else STABLE. An
active task is free where no process runs it; a replica where no other member of the same process has the task, since both would
use one folder of state. Within a member a task changes its role at once: no other member is concerned.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from coterie.coordinator import events as e
from coterie.coordinator.outcome import CoordinatorConfig
from coterie.coordinator.streams import events as s
from coterie.coordinator.streams.state import (
    CurrentTasks,
    OwnedTasks,
    RestoredOffsets,
    StreamsGroup,
    StreamsGroupMember,
    StreamsMemberState,
    TaskOwners,
)
from coterie.coordinator.streams.sticky_task_assignor import TASK_ASSIGNORS
from coterie.coordinator.streams.tasks import (
    NO_TASKS,
    AssignableSubtopology,
    ConfiguredTopology,
    TaskAssignmentConfig,
    TaskId,
    TaskMember,
    Tasks,
)
from coterie.wire.errors import ErrorCode, Refusal

_STANDBY_REPLICAS, RACK_AWARE_TAGS = "num.standby.replicas", "rack.aware.assignment.tags"
_NOTHING_RESTORED = RestoredOffsets()
_Tasks = frozenset[TaskId]
_IsHeld = Callable[[TaskId], bool]
_NO_OWNERS: Counter[str] = Counter()


def assignment_configs(config: CoordinatorConfig) -> dict[str, str]:
    """The settings of a target assignment, as the group's record has them (KIP-1357)."""
    configs = {_STANDBY_REPLICAS: str(config.group_streams_num_standby_replicas)}
    tags = config.group_streams_rack_aware_assignment_tags
    return configs | {RACK_AWARE_TAGS: ",".join(tags)} if tags else configs


def assignor_name(config: CoordinatorConfig) -> str:
    """The assignor of a group: the one that it names, if there is one, else the first of the broker's."""
    named = config.streams_assignor_name
    names = config.group_streams_assignors
    return named if named is not None and named in names else names[0]


def compute_task_target(
    group: StreamsGroup,
    members: Mapping[str, StreamsGroupMember],
    before: Mapping[str, Tasks],
    topology: ConfiguredTopology,
    epoch: int,
    config: CoordinatorConfig,
    configs: Mapping[str, str],
    now_ms: int,
) -> tuple[dict[str, Tasks], list[e.Event]]:
    """The tasks of every member, and the events that store what differs from ``before``; none while the topology is not
    ready."""
    assigned: Mapping[str, Tasks] = {}
    if topology.is_ready and topology.subtopologies is not None:
        seen = {member_id: _seen(group, member) for member_id, member in members.items()}
        subtopologies = {
            subtopology_id: AssignableSubtopology(sub.task_count, bool(sub.changelogs))
            for subtopology_id, sub in topology.subtopologies.items()
        }
        tags = configs.get(RACK_AWARE_TAGS, "")
        given = TaskAssignmentConfig(int(configs.get(_STANDBY_REPLICAS, 0)), tuple(tags.split(",")) if tags else ())
        assigned = TASK_ASSIGNORS[assignor_name(config)](seen, subtopologies, given)
    target = {member_id: assigned.get(member_id, NO_TASKS) for member_id in members}
    events: list[e.Event] = [
        s.TaskTargetStored(member_id, tasks) for member_id, tasks in target.items() if before.get(member_id) != tasks
    ]
    events.append(s.TaskTargetEpochStored(epoch, now_ms))
    return target, events


def _seen(group: StreamsGroup, member: StreamsGroupMember) -> TaskMember:
    metadata, restored = member.metadata, group.restored.get(member.member_id, _NOTHING_RESTORED)
    return TaskMember(
        metadata.process_id,
        member.current.assigned.tasks,
        dict(metadata.client_tags),
        metadata.instance_id,
        metadata.rack_id,
        restored.offsets,
        restored.end_offsets,
    )


@dataclass(frozen=True, slots=True)
class TaskStep:
    """What a member's step depends on beside its current tasks: the target and its epoch, its process, the processes that have
    each task, and the tasks that the member reports as its own (None: it reports nothing)."""

    target_epoch: int
    target: Tasks
    process_id: str
    owners: TaskOwners
    reported: Tasks | None = None


@dataclass(slots=True)
class _Role:
    """The tasks of one role of which the member keeps some, gives some up and gets some."""

    kept: set[TaskId]
    revoked: set[TaskId]
    granted: set[TaskId]
    unreleased: bool


def reconcile_tasks(current: CurrentTasks, given: TaskStep) -> CurrentTasks:
    """The member's next current tasks; ``current`` itself where there is no step. Raises Refusal FENCED_MEMBER_EPOCH."""
    match current.state:
        case StreamsMemberState.STABLE if current.member_epoch == given.target_epoch:
            return current
        case StreamsMemberState.UNREVOKED_TASKS:
            if _still_has(current.pending_revocation, given):
                return current
            return _advance(current, given, current.member_epoch + 1)
        case StreamsMemberState.UNKNOWN:
            if given.reported is None or given.reported != Tasks():
                text = (
                    "The streams group member is in a unknown state. The member must abandon all its tasks and rejoin."
                )
                raise Refusal(ErrorCode.FENCED_MEMBER_EPOCH, text)
            return _advance(current, given, given.target_epoch)
        case _:
            return _advance(current, given, current.member_epoch)


def _still_has(revoked: OwnedTasks, given: TaskStep) -> bool:
    """Whether the member may still run one of these; absence of a report is not an acknowledgement."""
    return given.reported is None or revoked.shares_any(given.reported)


def _advance(current: CurrentTasks, given: TaskStep, member_epoch: int) -> CurrentTasks:
    owned, target = current.assigned, given.target
    active = _role(frozenset(owned.active), target.active, lambda t: _is_active_held(t, owned, given))
    standby = _role(owned.standby, target.standby, lambda t: _is_standby_held(t, owned, given))
    warmup = _role(owned.warmup, target.warmup, lambda t: _is_warmup_held(t, owned, given))
    demoted = owned.active.keys() & standby.granted
    standby.kept |= demoted
    standby.granted -= demoted
    _convert(owned.standby, standby, warmup)
    _convert(owned.warmup, warmup, standby)
    for had, role in ((owned.standby, standby), (owned.warmup, warmup)):
        role.revoked -= had & target.active  # a replica of what becomes active stays until it does
    revoked = OwnedTasks(
        {t: owned.active[t] for t in active.revoked}, frozenset(standby.revoked), frozenset(warmup.revoked)
    )
    must_revoke = bool(revoked) and _still_has(revoked, given)
    promoted: set[TaskId] = set() if must_revoke else active.granted
    standby.kept |= (owned.standby & target.active) - promoted
    warmup.kept |= (owned.warmup & target.active) - promoted
    kept = {t: owned.active[t] for t in active.kept}
    if must_revoke:
        assigned = OwnedTasks(kept, frozenset(standby.kept), frozenset(warmup.kept))
        state = StreamsMemberState.UNREVOKED_TASKS
        return CurrentTasks(member_epoch, current.member_epoch, state, assigned, revoked)
    unreleased = active.unreleased or standby.unreleased or warmup.unreleased
    state = StreamsMemberState.UNRELEASED_TASKS if unreleased else StreamsMemberState.STABLE
    granted = dict.fromkeys(sorted(active.granted), given.target_epoch)
    assigned = OwnedTasks(
        kept | granted, frozenset(standby.kept | standby.granted), frozenset(warmup.kept | warmup.granted)
    )
    return CurrentTasks(given.target_epoch, current.member_epoch, state, assigned)


def _role(owned: _Tasks, target: _Tasks, is_held: _IsHeld) -> _Role:
    missing = target - owned
    held = {task for task in missing if is_held(task)}
    return _Role(set(owned & target), set(owned - target), set(missing - held), bool(held))


def _convert(had: _Tasks, outgoing: _Role, incoming: _Role) -> None:
    """A replica that changes from standby to warm-up, or back, needs no revocation."""
    converted = had & incoming.granted
    incoming.granted -= converted
    incoming.kept |= converted
    outgoing.revoked -= converted


def _is_active_held(task: TaskId, owned: OwnedTasks, given: TaskStep) -> bool:
    return (
        task in given.owners.active
        or _is_with_another(given.owners.standby, owned.standby, task, given)
        or _is_with_another(given.owners.warmup, owned.warmup, task, given)
    )


def _is_standby_held(task: TaskId, owned: OwnedTasks, given: TaskStep) -> bool:
    runs_here = given.owners.active.get(task) == given.process_id and task not in owned.active
    return (
        runs_here
        or given.process_id in given.owners.standby.get(task, _NO_OWNERS)
        or _is_with_another(given.owners.warmup, owned.warmup, task, given)
    )


def _is_warmup_held(task: TaskId, owned: OwnedTasks, given: TaskStep) -> bool:
    return (
        given.owners.active.get(task) == given.process_id
        or _is_with_another(given.owners.standby, owned.standby, task, given)
        or given.process_id in given.owners.warmup.get(task, _NO_OWNERS)
    )


def _is_with_another(owners: Mapping[TaskId, Counter[str]], mine: _Tasks, task: TaskId, given: TaskStep) -> bool:
    """Whether another member of this process has the task in that role."""
    return given.process_id in owners.get(task, _NO_OWNERS) and task not in mine
