"""From the lines of a group's journal, one after the other, to its `Timeline`; and what each changed, for a page that is live.

A line has neither a session timeout nor the time of a revocation. As in `generations`, members of an eager protocol revoke
everything when a rebalance starts. Members that were silent have died before their removal: each by an equal part of the line's
`undetected_ms`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from coterie.assignors import is_cooperative
from coterie.coordinator.journal.line import MOVED_SHOWN, JournalLine
from coterie.coordinator.journal.timeline import (
    Band,
    BandPhase,
    Spell,
    Timeline,
    TimelineMark,
    owner_name,
    rebalance_document,
    spell_document,
)
from coterie.machines.ownership import Partition, PartitionOwners, UnownedTimes

PREPARING, COMPLETING = "PreparingRebalance", "CompletingRebalance"
ASSIGNING, RECONCILING = "Assigning", "Reconciling"


class _Sent(NamedTuple):
    """How many of each are known to the page."""

    lanes: int
    owners: int
    unowned: int
    moments: int


class JournalTimeline:
    """One group's, as far as the lines that were added; ``timeline`` may be read at any time."""

    def __init__(self, group: str) -> None:
        self.timeline = Timeline(group)
        self._owners = PartitionOwners()
        self._times = UnownedTimes(spells=[])
        self._names: dict[str, str] = {}  # member id -> owner, which it stays
        self._spells: dict[Partition, int] = {}  # that last, by their position in `owned`
        self._band: Band | None = None
        self._silent: dict[Partition, int] = {}  # whose owner was silent: when it was removed
        self._is_cooperative = False
        self._is_empty = True
        self._last_end_ms: int | None = None  # of a member, since the last generation
        self._reached: set[str] = set()  # members that have the band's epoch (KIP-848)
        self._sent = _Sent(0, 0, 0, 0)
        self._changed: tuple[set[int], set[int]] = set(), set()  # owned, rebalances

    def add(self, line: JournalLine) -> None:
        """The next line of the group."""
        self.timeline.reach(line.time_ms)
        for cause in line.causes:
            if cause.get("member_id"):
                named = cause.get("client_id", ""), cause.get("group_instance_id")
                self._names.setdefault(cause["member_id"], owner_name(cause["member_id"], *named))
        handler = _HANDLERS.get(line.event)
        if handler is not None:
            handler(self, line)
        if self._band is not None:
            self._changed[1].add(len(self.timeline.rebalances) - 1)
        if self._times.spells:
            self.timeline.add_unowned(self._times.spells)
            self._times.spells = []
        self.timeline.waiting = self._times.unowned_since_ms

    def described(self, owners: Mapping[Partition, str], now_ms: int, *, protocol: str | None = None) -> bool:
        """The owners as they are described at that time, of a group of which no line has named one yet; whether they were
        taken. ``protocol``: the assignor."""
        if self.timeline.owned or self._band is not None or not owners:
            return False
        self.timeline.reach(now_ms)
        self._owners.assigned(dict(owners))
        for partition, owner in sorted(owners.items()):
            self._take(partition, owner, now_ms)
        self._is_cooperative, self._is_empty = is_cooperative(protocol), False
        return True

    def document(self, shown: Callable[[str], str] = str) -> dict[str, Any]:
        """`Timeline.document` of a group that goes on; `changes` begins there."""
        self.changes()
        return self.timeline.document(shown, is_live=True)

    def changes(self, shown: Callable[[str], str] = str) -> dict[str, Any]:
        """What has changed since the last call of it or of `document`, for `timeline.js`: of owned and rebalances
        [position, what is there now], of the others what is appended."""
        timeline, (owned, rebalances), sent = self.timeline, self._changed, self._sent
        lanes, owners, unowned, moments = timeline.lanes, timeline.owners, timeline.unowned, timeline.moments
        self._sent = _Sent(len(lanes), len(owners), len(unowned), len(moments))
        self._changed = set(), set()
        return {
            "end_ms": timeline.end_ms or 0,
            "is_whole": timeline.is_whole,
            "lanes": [[shown(str(topic)), number] for topic, number in lanes[sent.lanes :]],
            "owners": [shown(owner) for owner in owners[sent.owners :]],
            "owned": [[n, spell_document(timeline.owned[n])] for n in sorted(owned)],
            "unowned": [list(spell) for spell in unowned[sent.unowned :]],
            "waiting": timeline.waiting_document(),
            "rebalances": [[n, rebalance_document(timeline.rebalances[n], shown)] for n in sorted(rebalances)],
            "moments": [[time_ms, shown(text)] for time_ms, text in moments[sent.moments :]],
        }

    # -- rebalances of a classic group --------------------------------------------------------------------------------------

    def _started(self, line: JournalLine) -> None:
        if self._band is None:
            self._begin(line, PREPARING, line.time_ms)

    def _begin(self, line: JournalLine, state: str, now_ms: int) -> Band:
        self._band = Band(line.generation, [BandPhase(state, now_ms, None)])
        self.timeline.rebalances.append(self._band)
        self.timeline.reach(now_ms)
        self._describe(line)
        if self._is_empty:
            self._times.came(self._owners.last_owners, now_ms)
        elif state == PREPARING and not self._is_cooperative:
            for partition in self._owners.owners:
                self._times.lost(partition, now_ms)
        return self._band

    def _joined(self, line: JournalLine) -> None:
        if self._band is not None and self._band.event == "" and line.state_to == PREPARING:
            self._band.causes += [cause for cause in line.causes if cause not in self._band.causes]
            why = self._why(line)
            self._band.why = "; ".join(filter(None, (self._band.why, why if why not in self._band.why else "")))

    def _formed(self, line: JournalLine) -> None:
        band = self._band
        if band is None:
            band = self._begin(line, PREPARING, line.time_ms - (line.join_ms or 0))
        self._describe(line)
        band.phase_begins(COMPLETING, line.time_ms)

    def _stable(self, line: JournalLine) -> None:
        band, now_ms = self._band, line.time_ms
        is_timed = band is not None or line.join_ms is not None
        if band is None:
            sync_ms = line.sync_ms or 0
            band = self._begin(line, PREPARING, now_ms - sync_ms - (line.join_ms or 0))
            if line.sync_ms is not None:
                band.phase_begins(COMPLETING, now_ms - sync_ms)
        self._describe(line)
        owners = self._owners_after(line)
        self._date_deaths(line.undetected_ms or 0)
        for partition in owners:
            if is_timed and partition not in self._owners.owners and partition not in self._times.unowned_since_ms:
                self._times.lost(partition, band.from_ms)
        self._hand_over(owners, now_ms)
        if line.event == "empty":
            self._times.emptied(now_ms if self._last_end_ms is None else self._last_end_ms)
        self._is_cooperative, self._is_empty = is_cooperative(line.protocol), line.event == "empty"
        unowned = [change.partition for change in self._owners.assigned(owners) if change.owner is None]
        self._times.wait_for(unowned if self._is_cooperative and not self._is_empty else (), now_ms)
        self._end(line)
        self._last_end_ms = None

    def _owners_after(self, line: JournalLine) -> dict[Partition, str]:
        """By the line's owners; without them by what moved, as far as that is there."""
        if line.event == "empty":
            return {}
        if line.owners is not None:
            shares = ((member, topic, n) for member, topics in line.owners.items() for topic, n in topics.items())
            return {(topic, number): self._name(member) for member, topic, n in shares for number in n}
        if len(line.moved) >= MOVED_SHOWN:
            self.timeline.is_whole = False
        owners = dict(self._owners.owners)
        for move in line.moved:
            partition = move["topic"], move["partition"]
            owners.pop(partition, None)
            if move["to"] is not None:
                owners[partition] = self._name(move["to"])
        return owners

    def _hand_over(self, owners: dict[Partition, str], now_ms: int) -> None:
        """The spells that end and begin with a generation, and the unowned times that end."""
        for partition, last_owner in self._owners.owners.items():
            if owners.get(partition) != last_owner:
                self._release(partition, now_ms)
        for partition, owner in sorted(owners.items()):
            self._times.regained(partition, now_ms)
            self._take(partition, owner, now_ms)

    def _date_deaths(self, undetected_ms: int) -> None:
        """The members that were silent died before they were removed."""
        silent = {p: ms for p, ms in self._silent.items() if self._times.unowned_since_ms.get(p) == ms}
        self._silent = {}
        for partition, removed_ms in silent.items() if undetected_ms else ():
            begun = self._spells.get(partition)
            died_ms = removed_ms - round(undetected_ms / len(silent))
            if begun is not None:
                died_ms = max(died_ms, self.timeline.owned[begun].from_ms)
            self._times.lost(partition, died_ms, removed_ms)

    def _replaced(self, line: JournalLine) -> None:
        self._joined(line)
        if line.moved_count is not None:
            self._moved(line)

    def _removed(self, line: JournalLine) -> None:
        self._joined(line)
        if line.owners is not None:
            self._shared(line)
            return
        if line.moved_count is not None:  # of a consumer group
            self._moved(line)
            return
        now_ms, cause = line.time_ms, line.causes[0] if line.causes else {"kind": ""}
        self._last_end_ms = now_ms
        name = self._name(cause.get("member_id", ""))
        for partition in [p for p, owner in self._owners.owners.items() if owner == name]:
            is_owned = partition not in self._times.unowned_since_ms
            self._times.lost(partition, now_ms)
            if is_owned and cause["kind"] == "session_timeout":
                self._silent[partition] = now_ms

    # -- rebalances of a consumer group (KIP-848) ---------------------------------------------------------------------------

    def _epoch_raised(self, line: JournalLine) -> None:
        self._end(line)
        self._reached = set()
        self._begin(line, ASSIGNING, line.time_ms)
        self._is_empty = not line.members
        if self._is_empty:
            self._end(line)
            self._times.emptied(line.time_ms)

    def _computed(self, line: JournalLine) -> None:
        if self._band is not None:
            self._band.moved = line.moved_count
            self._band.phase_begins(RECONCILING, line.time_ms)

    def _reconciled(self, line: JournalLine) -> None:
        if line.owners is not None:
            self._shared(line)
        elif line.event == "member_reconciled":
            self._moved(line)
        if line.member is not None and line.member_epoch == line.generation:
            self._reached.add(line.member)
        is_known = line.state_to in (ASSIGNING, RECONCILING, "Stable")  # else what the members have reached decides
        has_all = line.members is not None and len(self._reached) >= line.members
        if line.state_to == "Stable" or (has_all and not is_known):
            self._end(line)

    def _moved(self, line: JournalLine) -> None:
        """One member's partitions: what it released, and what it took."""
        now_ms = line.time_ms
        for move in line.moved:
            partition = move["topic"], move["partition"]
            if move["to"] is None:
                self._owners.released(self._name(move["from"] or ""), [partition])
                self._release(partition, now_ms)
                if line.members:
                    self._times.lost(partition, now_ms)
            else:
                self._owners.took(self._name(move["to"]), [partition])
                self._times.regained(partition, now_ms)
                self._take(partition, self._name(move["to"]), now_ms)

    # -- a share group (KIP-932) --------------------------------------------------------------------------------------------

    def _shared(self, line: JournalLine) -> None:
        """Several members have a partition at once: its lane's spell is that of all of them."""
        members: dict[Partition, list[str]] = {}
        for member, topics in (line.owners or {}).items():
            for topic, numbers in topics.items():
                for number in numbers:
                    members.setdefault((topic, number), []).append(self._name(member))
        owners = {partition: " + ".join(sorted(names)) for partition, names in members.items()}
        self._hand_over(owners, line.time_ms)
        for change in self._owners.assigned(owners):
            if change.owner is None and line.members:
                self._times.lost(change.partition, line.time_ms)

    # -- what else happens --------------------------------------------------------------------------------------------------

    def _noted(self, line: JournalLine) -> None:
        self.timeline.moments.append(TimelineMark(line.time_ms, line.why()))

    def _group_removed(self, line: JournalLine) -> None:
        self._end(line)
        self._hand_over({}, line.time_ms)
        self._owners, self._is_empty = PartitionOwners(), True
        self._times.emptied(line.time_ms)
        self._noted(line)

    # -- spells and bands -----------------------------------------------------------------------------------------------------

    def _name(self, member_id: str) -> str:
        return self._names.setdefault(member_id, member_id)

    def _why(self, line: JournalLine) -> str:
        """The causes, with members named as owners are."""
        why = line.why()
        for cause in line.causes:
            if cause.get("member_id"):
                why = why.replace(cause["member_id"], self._name(cause["member_id"]))
        return why

    def _take(self, partition: Partition, owner: str, now_ms: int) -> None:
        timeline, lane, begun = self.timeline, self.timeline.lane(partition), self._spells.get(partition)
        if begun is not None:
            if timeline.owners[timeline.owned[begun].owner] == owner:
                return
            self._release(partition, now_ms)
        self._spells[partition] = len(timeline.owned)
        self._changed[0].add(len(timeline.owned))
        timeline.owned.append(Spell(lane, timeline.owner(owner), now_ms))

    def _release(self, partition: Partition, now_ms: int) -> None:
        """Its spell ends, where it became unowned before then."""
        begun = self._spells.pop(partition, None)
        if begun is not None:
            spell = self.timeline.owned[begun]
            spell.until_ms = max(min(self._times.unowned_since_ms.get(partition, now_ms), now_ms), spell.from_ms)
            self._changed[0].add(begun)

    def _describe(self, line: JournalLine) -> None:
        """The band takes what the line knows."""
        band = self._band
        assert band is not None, "one has begun"
        band.generation, band.members = line.generation, line.members
        band.moved, band.unowned = line.moved_count, line.unowned_count
        band.unowned_ms, band.undetected_ms = line.unowned_ms, line.undetected_ms
        if line.causes:
            band.causes, band.why = list(line.causes), self._why(line)

    def _end(self, line: JournalLine) -> None:
        if self._band is not None:
            self._band.event = line.event
            self._band.ends(line.time_ms)
            self._changed[1].add(len(self.timeline.rebalances) - 1)
        self._band = None


def timelines(lines: Iterable[JournalLine]) -> dict[str, JournalTimeline]:
    """By group, from the lines of any groups in their order."""
    made: dict[str, JournalTimeline] = {}
    for line in lines:
        if line.group not in made:
            made[line.group] = JournalTimeline(line.group)
        made[line.group].add(line)
    return made


_HANDLERS: dict[str, Callable[[JournalTimeline, JournalLine], None]] = {
    "rebalance_started": JournalTimeline._started,
    "member_joined": JournalTimeline._joined,
    "member_rejoined": JournalTimeline._joined,
    "member_replaced": JournalTimeline._replaced,
    "member_removed": JournalTimeline._removed,
    "generation_formed": JournalTimeline._formed,
    "stable": JournalTimeline._stable,
    "empty": JournalTimeline._stable,
    "epoch_raised": JournalTimeline._epoch_raised,
    "target_computed": JournalTimeline._computed,
    "member_revokes": JournalTimeline._reconciled,
    "member_reconciled": JournalTimeline._reconciled,
    "coordinator_moved": JournalTimeline._noted,
    "pattern_seen": JournalTimeline._noted,
    "group_removed": JournalTimeline._group_removed,
}
