"""The observer as a machine: sights of groups in, lines of the journal out, and which groups are worth a description next."""

from __future__ import annotations

from collections.abc import Iterable

from coterie.coordinator import events as e
from coterie.coordinator.journal.line import JournalLine
from coterie.coordinator.journal.lines import JournalLines
from coterie.coordinator.journal.patterns import INFERRED, OBSERVED, SLOW_PHASE_MS, deploy, flapping, known_cause
from coterie.coordinator.state import TopicPartition
from coterie.observer.machine import sights as s
from coterie.observer.machine.classic import COMPLETING, EMPTY, PREPARING, baseline, pattern, stored_lines
from coterie.observer.machine.described_groups import described_lines, recall
from coterie.observer.machine.known import KnownGroup, KnownTopics
from coterie.observer.machine.modern import EpochRemoved, ModernEvent, modern_lines, release_leaving
from coterie.observer.machine.rules import Cause, slow_joiner
from coterie.wire.messages.stored.consumer_offsets import GroupMetadataValue

LOG_WAIT_MS = 2_000  # a broker's log is written as soon as the record
REMOVAL_WAIT_MS = 1_000  # a group that changes its protocol has its new records at the same time
SLOW_SYNC: Cause = known_cause("slow_sync", OBSERVED)
HOT_MS = 30_000  # after a movement a group is described before others


class GroupObserver:
    """Sees `sights` in the order in which they come; those of one group's records in the order of the log. ``reads_records``
    and ``reads_logs``: which sights to expect; without records a description stands for a generation."""

    def __init__(self, *, reads_records: bool = True, reads_logs: bool = False) -> None:
        self.reads_records, self._reads_logs = reads_records, reads_logs
        self.groups: dict[str, KnownGroup] = {}
        self._topics = KnownTopics()
        self._modern = JournalLines(lambda topic_id: self._topics.names.get(topic_id, topic_id.hex()))
        self._waiting: dict[str, list[tuple[int, s.RecordRead]]] = {}  # for the line of a log, and what follows
        self._removals: set[str] = set()  # groups whose removal has no line yet
        self._now_ms = 0

    def see(self, sight: s.Sight) -> list[JournalLine]:
        """The lines that the sight calls for."""
        match sight:
            case s.RecordRead():
                return self._read(sight)
            case s.StoredBefore(_, name, value):
                self._group(name).before = value
                recall(self._group(name))
                return []
            case s.Described():
                return self._described(sight)
            case s.Logged(time_ms, row):
                group = self._group(row["group"])
                group.logged[row["generation"]] = row
                for old in sorted(group.logged)[:-4]:
                    del group.logged[old]
                return self._released(group.group, time_ms)
            case s.TopicsSeen(time_ms, partitions, ids):
                self._topics.seen(partitions, ids, time_ms)
                return []
            case s.ShareStateRead():
                return []  # of which no cause follows: it names no member
            case s.NoCoordinatorSeen(time_ms, name):
                group = self._group(name)
                is_new, group.is_lost = not group.is_lost, True
                return pattern(group, known_cause("coordinator_lost", OBSERVED), time_ms) if is_new else []
            case s.Tick(time_ms):
                return self._ticked(time_ms)

    def worth_describing(self, now_ms: int, most: int) -> list[str]:
        """The groups to describe next: those where something moves, then the others, the longest unseen first."""
        order = sorted(self.groups.values(), key=lambda g: (not self._is_hot(g, now_ms), g.described_ms or 0, g.group))
        chosen = order[:most]
        for group in chosen:
            group.described_ms = now_ms
        return [group.group for group in chosen]

    def listed(self, names: Iterable[str]) -> None:
        """The groups of the cluster, as its brokers list them."""
        for name in names:
            self._group(name)

    def _group(self, name: str) -> KnownGroup:
        group = self.groups.get(name)
        if group is None:
            group = self.groups[name] = KnownGroup(name)
        return group

    @staticmethod
    def _is_hot(group: KnownGroup, now_ms: int) -> bool:
        if group.is_hot or group.described is None:
            return True
        if group.moved_ms is not None and now_ms - group.moved_ms < HOT_MS:
            return True
        return any(
            m.every_ms is not None and now_ms - (m.last_commit_ms or 0) > 2 * m.every_ms for m in group.members.values()
        )

    # -- records ------------------------------------------------------------------------------------------------------

    def _read(self, sight: s.RecordRead) -> list[JournalLine]:
        group, event = self._group(sight.group), sight.event
        if isinstance(event, e.OffsetStored | e.TransactionalOffsetStored):
            return self._committed(group, (event.topic, event.partition), sight.time_ms)
        waiting = self._waiting.get(group.group)
        if self._reads_logs and isinstance(event, e.GroupStored) and (waiting or not self._is_logged(group, event)):
            self._waiting.setdefault(group.group, []).append((self._now_ms + LOG_WAIT_MS, sight))
            return []
        return self._happened(group, sight)

    @staticmethod
    def _is_logged(group: KnownGroup, event: e.GroupStored) -> bool:
        return event.value.generation in group.logged

    def _released(self, name: str, now_ms: int, *, only_due: bool = False) -> list[JournalLine]:
        """The lines of the stored generations whose log lines are there, or whose time is over."""
        lines: list[JournalLine] = []
        group, waiting = self._group(name), self._waiting.get(name, [])
        while waiting:
            due_ms, sight = waiting[0]
            assert isinstance(sight.event, e.GroupStored)
            if due_ms > now_ms and (only_due or not self._is_logged(group, sight.event)):
                break
            del waiting[0]
            lines += self._happened(group, sight)
        if not waiting:
            self._waiting.pop(name, None)
        return lines

    def _happened(self, group: KnownGroup, sight: s.RecordRead) -> list[JournalLine]:
        event, time_ms = sight.event, sight.time_ms
        lines = release_leaving(group, event, time_ms) + self._removal(group, event, time_ms)
        if isinstance(event, e.GroupStored):
            generation = group.stored
            lines += stored_lines(group, event.value, time_ms, self._topics)
            if group.stored is not generation:
                group.strangers.clear()
        elif isinstance(event, e.GroupRemoved):
            self._removed(group, time_ms)
        elif isinstance(event, ModernEvent):
            made = modern_lines(group, event, time_ms, self._modern)
            if isinstance(event, EpochRemoved) and made:
                self._remove(group, made.pop())
            lines += made
            if group.leaving:
                self._removals.add(group.group)
        if any(line.event in ("stable", "empty", "epoch_raised") for line in lines):
            lines += self._patterns(group, time_ms)
        return lines

    def _remove(self, group: KnownGroup, line: JournalLine) -> None:
        group.removal = line
        self._removals.add(group.group)

    def _removed(self, group: KnownGroup, time_ms: int) -> None:
        if group.stored is None and not group.members:
            return
        line = JournalLine(
            time_ms, group.group, group.generation, "group_removed", group.course.state or "Empty", "Dead"
        )
        line.causes = [known_cause("tombstone", OBSERVED)]
        self._remove(group, line)
        group.stored = GroupMetadataValue("", 0, None, None, members=[])
        group.ownership = type(group.ownership)()

    def _removal(self, group: KnownGroup, event: e.Event, time_ms: int) -> list[JournalLine]:
        """The line of a removal that waited: what follows at the same time is the group under the other protocol."""
        line = group.removal
        if line is None:
            return []
        group.removal = None
        if time_ms == line.time_ms and isinstance(event, e.GroupStored | ModernEvent):
            kind = "downgraded" if isinstance(event, e.GroupStored) else "upgraded"
            line.causes = [{"kind": kind, "evidence": OBSERVED}]
            if isinstance(event, e.GroupStored):
                # No rebalance: what follows is compared with this, and its causes are the members that are not in it.
                stayed = {m.member_id for m in event.value.members}
                group.notes = [cause for cause in group.notes if cause.get("member_id") not in stayed]
                baseline(group, event.value, time_ms)
                group.is_baseline = False
            else:
                group.notes = [line.causes[0]]
        return [line]

    def _committed(self, group: KnownGroup, partition: TopicPartition, time_ms: int) -> list[JournalLine]:
        member = group.owner_of(partition, self._topics.ids.get(partition[0], b""))
        if member is not None:
            member.committed(time_ms)
            return []
        if group.modern is not None:
            # Members whose records came before the observer are in a description alone.
            is_empty = group.described is not None and group.described.state == EMPTY
            is_known = is_empty and not group.modern.members
        else:
            is_unowned = partition not in group.ownership.partitions.owners
            is_known = group.stored is not None and not group.is_baseline and is_unowned
        if not is_known or time_ms <= group.stored_ms or partition in group.strangers:
            return []
        is_late = partition in group.ownership.partitions.last_owners or group.course.state in (PREPARING, COMPLETING)
        if group.members and is_late:
            return []  # the last commit of an owner before
        group.strangers.add(partition)
        cause: Cause = known_cause("commit_by_stranger", INFERRED, "commit_of_no_member")
        return pattern(group, cause, time_ms)

    # -- descriptions, and time ---------------------------------------------------------------------------------------

    def _described(self, sight: s.Described) -> list[JournalLine]:
        group = self._group(sight.group)
        lines = described_lines(group, sight, self._topics, reads_records=self.reads_records)
        recall(group)
        return lines + self._slow(group, sight.time_ms)

    def _ticked(self, now_ms: int) -> list[JournalLine]:
        self._now_ms = now_ms
        lines: list[JournalLine] = []
        for name in list(self._waiting):
            lines += self._released(name, now_ms, only_due=True)
        for name in sorted(self._removals):
            group = self.groups[name]
            if group.leaving and now_ms - group.leaving[0].time_ms > REMOVAL_WAIT_MS:
                lines += release_leaving(group, None, now_ms)
            if group.removal is not None and now_ms - group.removal.time_ms > REMOVAL_WAIT_MS:
                lines.append(group.removal)
                del self.groups[name]
            if name not in self.groups or not (group.leaving or group.removal):
                self._removals.remove(name)
        return lines

    @staticmethod
    def _slow(group: KnownGroup, now_ms: int) -> list[JournalLine]:
        """That a phase of a rebalance lasts long, once."""
        course = group.course
        if course.is_reported or course.state not in (PREPARING, COMPLETING):
            return []
        if now_ms - course.since_ms < SLOW_PHASE_MS:
            return []
        course.is_reported = True
        is_joining = course.state == PREPARING
        cause = slow_joiner(group.members.values(), course.since_ms) if is_joining else SLOW_SYNC
        return pattern(group, dict(cause), now_ms)

    @staticmethod
    def _patterns(group: KnownGroup, now_ms: int) -> list[JournalLine]:
        causes = (flapping(group.lives, now_ms), deploy(group.lives, len(group.members), now_ms))
        return [line for cause in causes if cause is not None for line in pattern(group, cause, now_ms)]
