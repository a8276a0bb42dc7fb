"""Each step of a member towards its target, as the table reconcile_cases.txt has it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from coterie.coordinator.streams.state import CurrentTasks, OwnedTasks, StreamsMemberState, TaskOwners
from coterie.coordinator.streams.target import TaskStep, reconcile_tasks
from coterie.coordinator.streams.tasks import TaskId, Tasks
from coterie.wire.errors import ErrorCode, Refusal

TABLE = Path(__file__).with_name("reconcile_cases.txt")
ROLES = {"A": "active", "S": "standby", "W": "warmup"}


@dataclass(slots=True)
class Roles:
    """Tasks by role; active ones with their epochs."""

    active: dict[TaskId, int] = field(default_factory=dict)
    standby: set[TaskId] = field(default_factory=set)
    warmup: set[TaskId] = field(default_factory=set)

    @property
    def owned(self) -> OwnedTasks:
        return OwnedTasks(self.active, frozenset(self.standby), frozenset(self.warmup))

    @property
    def tasks(self) -> Tasks:
        return self.owned.tasks


def roles(text: str, epoch: int) -> Roles:
    """`A 1_2@9 1_3 S 2_0`; a dash is nothing."""
    read, role = Roles(), ""
    for word in text.split():
        if word in ROLES:
            role = word
        elif word != "-":
            name, _, at = word.partition("@")
            subtopology_id, _, partition = name.partition("_")
            task = subtopology_id, int(partition)
            if role == "A":
                read.active[task] = int(at or epoch)
            else:
                (read.standby if role == "S" else read.warmup).add(task)
    return read


def owners_of(text: str, tasks: set[TaskId]) -> TaskOwners:
    """`A=P S=Q:1_`: all tasks, or those whose name begins so."""
    owners = TaskOwners()
    for word in text.split():
        if word == "-":
            continue
        role, _, rest = word.partition("=")
        process_id, _, prefix = rest.partition(":")
        for task in sorted(tasks):
            if not f"{task[0]}_{task[1]}".startswith(prefix):
                continue
            if role == "A":
                owners.active[task] = process_id
            else:
                (owners.standby if role == "S" else owners.warmup)[task] = Counter([process_id])
    return owners


def cases() -> Iterator[tuple[str, list[str]]]:
    for line in TABLE.read_text().splitlines():
        if line.startswith("#"):
            continue
        columns = [column.strip() for column in line.split("|")]
        for role in "ASW" if any("R " in column for column in columns) else "-":
            yield columns[0], [column.replace("R ", f"{role} ") for column in columns[1:]]


@pytest.mark.parametrize(("name", "columns"), list(cases()))
def test_the_step(name: str, columns: list[str]) -> None:
    stage, has, pending, target, owners, reports, stage_after, has_after, pending_after = columns
    state, epoch, previous = stage.split()
    given = int(epoch)
    before, to_revoke = roles(has, given), roles(pending, given)
    wanted, _, target_epoch = target.partition("/")
    target_roles = roles(wanted, 0)
    tasks = {
        *before.active,
        *before.standby,
        *before.warmup,
        *target_roles.active,
        *target_roles.standby,
        *target_roles.warmup,
    }
    current = CurrentTasks(given, int(previous), StreamsMemberState[state], before.owned, to_revoke.owned)
    reported = None if reports == "?" else roles(reports, 0).tasks
    step = TaskStep(int(target_epoch), target_roles.tasks, "P", owners_of(owners, tasks), reported)
    state, epoch, previous = stage_after.split()
    if state == "FENCED":
        with pytest.raises(Refusal) as fenced:
            reconcile_tasks(current, step)
        assert fenced.value.code is ErrorCode.FENCED_MEMBER_EPOCH
        return
    after = reconcile_tasks(current, step)
    assert (after.state.name, after.member_epoch, after.previous_member_epoch) == (state, int(epoch), int(previous))
    assert after.assigned == roles(has_after, given).owned
    assert after.pending_revocation == roles(pending_after, given).owned
