"""Who reads each partition over time, and what a change costs: the one definition of *moved*, *unowned* and *pause*.

A partition has *moved* once a member owns it that is another than the last that owned it: a first owner is no move, nor is a
lost one. It is *unowned* while no live member owns it and the group has a live member; the part of that time in which its owner
was dead and the coordinator had not noticed is *undetected*. A member *pauses* while it owns nothing between two times in which
it owns something.

The laboratory's actors and the processes of `bench study` report what they read; `coordinator/journal/generations` what a
coordinator knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Partition = tuple[Any, int]  # a topic's name or id, and the number


def has_moved(last_owner: str | None, owner: str | None) -> bool:
    """Whether a partition moves by that change of its owner; None: it never had one, or has none now."""
    return last_owner is not None and owner is not None and last_owner != owner


class OwnerChange(NamedTuple):
    """A partition with its last owner (None: it never had one) and its owner now (None: it is unowned)."""

    partition: Partition
    last_owner: str | None
    owner: str | None


def count_moved(changes: Iterable[OwnerChange]) -> int:
    """How many partitions moved by the changes."""
    return sum(has_moved(change.last_owner, change.owner) for change in changes)


def unowned_text(unowned_ms: int | None, unowned: int | None) -> str | None:
    """``19.3 s``, summed over partitions; ``4 still``, partitions without an owner; ``0.2 s, 2 still``; None: unknown."""
    if unowned_ms is None and not unowned:
        return None
    duration = "" if unowned_ms is None or (unowned and not unowned_ms) else f"{unowned_ms / 1000:,.1f} s"
    return ", ".join(filter(None, (duration, f"{unowned} still" if unowned else "")))


@dataclass(slots=True)
class PartitionOwners:
    """The owners of partitions, one whole assignment after the other. A member is its id; a static one that returns under
    another is the same member."""

    owners: dict[Partition, str] = field(default_factory=dict)
    last_owners: dict[Partition, str] = field(default_factory=dict)  # of partitions without an owner
    _instances: dict[str, str] = field(default_factory=dict)  # group.instance.id -> member id

    def renamed(self, member_id: str, new_member_id: str) -> None:
        """A static member has returned under another id."""
        for owners in (self.owners, self.last_owners):
            owners.update([(tp, new_member_id) for tp, owner in owners.items() if owner == member_id])

    def present(self, members: Iterable[tuple[str, str | None]]) -> dict[str, str]:
        """``members``: id and group.instance.id of some in the group; returns the new ids of static ones by their former."""
        static = [(instance_id, member_id) for member_id, instance_id in members if instance_id is not None]
        known = self._instances
        new_ids = {known[i]: new for i, new in static if known.get(i, new) != new}
        known.update(static)
        for member_id, new_member_id in new_ids.items():
            self.renamed(member_id, new_member_id)
        return new_ids

    def assigned(self, owners: dict[Partition, str]) -> list[OwnerChange]:
        """From now on these are the owners; returns the changes, at the end those of partitions that have none any more."""
        before, last = self.owners, self.last_owners | self.owners
        self.owners, self.last_owners = owners, {tp: owner for tp, owner in last.items() if tp not in owners}
        changes = [OwnerChange(tp, last.get(tp), owner) for tp, owner in owners.items() if last.get(tp) != owner]
        return changes + [OwnerChange(tp, owner, None) for tp, owner in before.items() if tp not in owners]

    def took(self, member_id: str, partitions: Iterable[Partition]) -> list[OwnerChange]:
        """A member owns these from now on."""
        changes = []
        for partition in partitions:
            last_owner = self.last_owners.pop(partition, None)
            changes.append(OwnerChange(partition, self.owners.get(partition, last_owner), member_id))
            self.owners[partition] = member_id
        return changes

    def released(self, member_id: str, partitions: Iterable[Partition]) -> list[OwnerChange]:
        """A member owns these no more."""
        changes = []
        for partition in partitions:
            if self.owners.get(partition) == member_id:
                self.last_owners[partition] = self.owners.pop(partition)
            changes.append(OwnerChange(partition, member_id, None))
        return changes


class UnownedSpell(NamedTuple):
    """A time in which a partition was unowned, in ms; until ``detected_ms`` its dead owner was taken for alive."""

    partition: Partition
    since_ms: int
    detected_ms: int
    until_ms: int


@dataclass(slots=True)
class UnownedTimes:
    """How long partitions were unowned. Times in ms of any one clock; one may lie before the last one, as the death of a member
    that is noticed later. ``unowned_ms`` and ``undetected_ms`` are sums of what has ended, ``longest_ms`` is the longest."""

    unowned_since_ms: dict[Partition, int] = field(default_factory=dict)
    unowned_ms: dict[Partition, int] = field(default_factory=dict)
    undetected_ms: int = 0
    longest_ms: int = 0
    spells: list[UnownedSpell] | None = None  # the ended ones, where they are kept
    _detected_ms: dict[Partition, int] = field(default_factory=dict)

    def lost(self, partition: Partition, now_ms: int, detected_ms: int | None = None) -> None:
        """No member owns it from now on; ``detected_ms``: its owner died, which was noticed then. What had been revoked from
        the dead member in the meantime was noticed by that."""
        since_ms = self.unowned_since_ms.get(partition)
        if detected_ms is not None:
            self._detected_ms[partition] = detected_ms if since_ms is None else min(detected_ms, since_ms)
        self.unowned_since_ms[partition] = now_ms if since_ms is None else min(since_ms, now_ms)

    def regained(self, partition: Partition, now_ms: int) -> None:
        """A member owns it from now on."""
        since_ms, detected_ms = self.unowned_since_ms.pop(partition, None), self._detected_ms.pop(partition, None)
        if since_ms is None:
            return
        duration_ms = max(now_ms - since_ms, 0)
        self.unowned_ms[partition] = self.unowned_ms.get(partition, 0) + duration_ms
        self.longest_ms = max(self.longest_ms, duration_ms)
        if detected_ms is not None:
            self.undetected_ms += min(max(detected_ms - since_ms, 0), duration_ms)
        if self.spells is not None and duration_ms:
            detected_ms = since_ms if detected_ms is None else min(max(detected_ms, since_ms), now_ms)
            self.spells.append(UnownedSpell(partition, since_ms, detected_ms, now_ms))

    def came(self, partitions: Iterable[Partition], now_ms: int) -> None:
        """The group has its first live member: from now on each partition should have an owner."""
        self.unowned_since_ms = dict.fromkeys(partitions, now_ms)

    def wait_for(self, partitions: Iterable[Partition], now_ms: int) -> None:
        """Only these should have an owner and have none: since when they had none, or from now on."""
        self.unowned_since_ms = {p: self.unowned_since_ms.get(p, now_ms) for p in partitions}
        self._detected_ms = {p: ms for p, ms in self._detected_ms.items() if p in self.unowned_since_ms}

    def emptied(self, now_ms: int) -> None:
        """The last live member has ended: nothing counts as unowned any more."""
        for partition in list(self.unowned_since_ms):
            self.regained(partition, now_ms)


@dataclass(slots=True)
class OwnershipMeter(UnownedTimes):
    """The readers of partitions, seen from outside: a partition without one, or with two; a member that reads nothing."""

    readers: dict[Partition, int] = field(default_factory=dict)
    doubled_ms: int = 0
    pause_ms: dict[str, int] = field(default_factory=dict)
    moves: int = 0
    last_change_ms: int = 0
    _last_owner: dict[Partition, str] = field(default_factory=dict)
    _still: dict[str, set[Partition]] = field(default_factory=dict)  # stalled member -> its partitions
    _doubled_since_ms: dict[Partition, int] = field(default_factory=dict)
    _idle_since_ms: dict[str, int] = field(default_factory=dict)

    def changed(self, name: str, before: Set[Partition], after: Set[Partition], now_ms: int) -> None:
        """A member's partitions have changed at ``now_ms``; a stalled member's count only once it continues."""
        if before == after:
            return
        self.last_change_ms = now_ms
        if name in self._still:
            self._still[name] = set(after)
        else:
            for partition in before - after:
                self._one_reader_less(partition, now_ms)
            for partition in after - before:
                self._one_reader_more(partition, now_ms)
        for partition in after - before:
            self.moves += has_moved(self._last_owner.get(partition), name)
            self._last_owner[partition] = name
        if before and not after:
            self._idle_since_ms[name] = now_ms
        elif after and not before and name in self._idle_since_ms:
            self.pause_ms[name] = self.pause_ms.get(name, 0) + now_ms - self._idle_since_ms.pop(name)

    def gone(self, name: str) -> None:
        """The member has ended, which is no pause."""
        self._idle_since_ms.pop(name, None)

    def _one_reader_less(self, partition: Partition, now_ms: int) -> None:
        self.readers[partition] -= 1
        if self.readers[partition] == 1:
            self.doubled_ms += now_ms - self._doubled_since_ms.pop(partition)
        elif self.readers[partition] == 0:
            self.lost(partition, now_ms)

    def stalled(self, name: str, owned: Set[Partition], now_ms: int) -> None:
        """Its partitions are stalled until `resumed`, or until another member owns them too."""
        if name not in self._still:
            self._still[name] = set(owned)
            for partition in owned:
                self._one_reader_less(partition, now_ms)

    def resumed(self, name: str, now_ms: int) -> None:
        """A stalled member reads what it owns by now."""
        for partition in self._still.pop(name, ()):
            self._one_reader_more(partition, now_ms)

    def _one_reader_more(self, partition: Partition, now_ms: int) -> None:
        self.readers[partition] = self.readers.get(partition, 0) + 1
        if self.readers[partition] == 2:
            self._doubled_since_ms[partition] = now_ms
        self.regained(partition, now_ms)

    def begin(self, now_ms: int) -> None:
        """From here on: what was counted so far is forgotten, and what lasts counts from now."""
        self.unowned_ms.clear()
        self.pause_ms.clear()
        self.moves = self.doubled_ms = self.longest_ms = 0
        self.last_change_ms = now_ms
        self.unowned_since_ms = dict.fromkeys(self.unowned_since_ms, now_ms)
        self._doubled_since_ms = dict.fromkeys(self._doubled_since_ms, now_ms)
        self._idle_since_ms.clear()

    def is_whole(self, partitions: int) -> bool:
        """Whether every partition has one reader."""
        return len(self.readers) == partitions and all(count == 1 for count in self.readers.values())

    def end(self, now_ms: int, alive: Set[str]) -> None:
        """Open intervals are counted until now; a partition without a reader only if the group has live members."""
        if alive:
            self.emptied(now_ms)
        for since_ms in self._doubled_since_ms.values():
            self.doubled_ms += now_ms - since_ms
        for name in self._idle_since_ms.keys() & alive:
            since_ms = self._idle_since_ms[name]
            self.pause_ms[name] = self.pause_ms.get(name, 0) + now_ms - since_ms
