"""The journal's writer: lines of what happened to groups go to listeners at once, and to `__coterie_journal` in batches; and
its lines of a coordinator that moved, one for each group with members of the partition that was loaded."""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate

from coterie.broker.process.scheduling import Scheduler
from coterie.broker.storage.replicas import ReplicaEffects
from coterie.broker.storage.topics import Topics
from coterie.coordinator.journal.line import JournalLine
from coterie.coordinator.journal.lines import JournalLines
from coterie.coordinator.replay import AnyGroup
from coterie.coordinator.shard import Decision, Shard, Step
from coterie.coordinator.state import Group
from coterie.wire.errors import Refusal

logger = logging.getLogger(__name__)

BATCH_BYTES = 256 * 1024
_RECORD_OVERHEAD_BYTES = 20
JournalRecord = tuple[int, bytes, bytes, tuple[()]]  # time in ms, key, value, headers


def record_bytes(record: JournalRecord) -> int:
    """What it adds to a batch, at most."""
    return len(record[1]) + len(record[2]) + _RECORD_OVERHEAD_BYTES


class JournalWriter:
    """Writes one batch, or as many as are needed, for each turn of the loop. ``enabled``: coterie.journal.enable; without it
    lines go to ``listeners`` only. ``send``: in a cluster, gets the records in the place of the broker's own log."""

    def __init__(self, topics: Topics, scheduler: Scheduler, effects: ReplicaEffects, enabled: bool) -> None:
        self._topics, self._scheduler, self._effects, self._enabled = topics, scheduler, effects, enabled
        self.listeners: list[Callable[[JournalLine], None]] = []
        self._lines = JournalLines(lambda topic_id: topics.name_of("", topic_id, True) or topic_id.hex())
        self._unwritten: list[JournalRecord] = []
        self._steps: list[tuple[list[Step], int, int]] = []  # later ones, with the number of members and the time in ms
        self._is_due = False
        self.send: Callable[[list[JournalRecord]], None] | None = None

    def loaded(self, group: AnyGroup) -> None:
        """Takes the owners from a group that was loaded from the log."""
        self._make_lines()
        self._lines.loaded(group)

    def record(self, decision: Decision, steps: list[Step]) -> None:
        """The lines of a committed decision's steps. Those of a classic group are made at the end of the turn, where nobody
        listens: many in a row take three quarters of the time that they take one by one, between the requests."""
        if not (self._enabled or self.listeners):
            return
        group, now_ms = decision.group, decision.now_ms
        if not isinstance(group, Group):
            self._make_lines()
            lines = [self._lines.line(step, group, now_ms) for step in steps]
            self.add([line for line in lines if line is not None])
            return
        self._steps.append((steps, len(group.members), now_ms))
        if self.listeners:
            self._make_lines()
        if self._enabled:
            self._write_later()

    def add(self, lines: list[JournalLine]) -> None:
        """Lines of groups that are here."""
        self._notify(lines)
        if self._enabled and lines:
            self._make_lines()
            self._unwritten += [(line.time_ms, line.group.encode(), line.to_json().encode(), ()) for line in lines]
            self._write_later()

    def _notify(self, lines: list[JournalLine]) -> None:
        for listener in self.listeners:
            for line in lines:
                listener(line)

    def _write_later(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._scheduler.call_soon(self.write)

    def _make_lines(self) -> None:
        """Makes the lines of the steps that wait."""
        waiting, self._steps = self._steps, []
        make, records = self._lines.classic_json, self._unwritten
        is_enabled, is_heard = self._enabled, bool(self.listeners)
        for steps, members, now_ms in waiting:
            for step in steps:
                text = make(step, members, now_ms)
                if text is None:
                    continue
                if is_enabled:
                    records.append((now_ms, step.group_id.encode(), text.encode(), ()))
                if is_heard:
                    self._notify([JournalLine.from_json(text)])

    def write(self) -> None:
        """Appends the lines of what was recorded since the last call."""
        self._is_due = False
        self._make_lines()
        records, self._unwritten = self._unwritten, []
        if not records:
            return
        if self._topics.in_cluster:
            if self.send is not None:
                self.send(records)
            return
        while records:
            sizes = accumulate(map(record_bytes, records))
            count = max(bisect_right(list(sizes), BATCH_BYTES), 1)
            self._append(records[:count])
            records = records[count:]

    def _append(self, records: list[JournalRecord]) -> None:
        try:
            partition = self._topics.journal_topic().partitions[0]
            self._effects.append(partition, lambda log: log.append_records(records, records[0][0]), records[0][0])
        except (OSError, Refusal) as error:
            # The groups do not depend on the journal: they continue without these lines.
            logger.error("the journal cannot be written: %s", error)
            return
        partition.appended()


@dataclass(frozen=True, slots=True)
class CoordinatorElection:
    """This broker leads a partition of `__consumer_offsets` since ``elected_ms``. ``former``: the leader before, None where
    that is not known."""

    broker_id: int
    leader_epoch: int
    former: int | None
    elected_ms: int


def moved_lines(shard: Shard, election: CoordinatorElection, now_ms: int) -> list[JournalLine]:
    """The shard has been loaded."""
    groups = list(shard.every_group())
    former = None if election.former == election.broker_id else election.former
    return [
        JournalLine(
            now_ms,
            group.group_id,
            group.generation,
            "coordinator_moved",
            group.phase.value,
            group.phase.value,
            members=len(group.members),
            coordinator=election.broker_id,
            coordinator_from=former,
            coordinator_epoch=election.leader_epoch,
            loaded_groups=len(groups),
            load_ms=now_ms - election.elected_ms,
        )
        for group in groups
        if group.members
    ]
