"""The costs of a run, measured alike for every protocol: readers of partitions over time, and traffic."""

from __future__ import annotations

from dataclasses import dataclass, field

from coterie.laboratory.ownership import Ownership, TopicPartition


@dataclass(slots=True)
class Measures:
    """One run's. Times in seconds.

    ``unowned_s``: per partition, without a reader while the group had members: it was unowned or its owner was stalled.
    ``doubled_s``: per partition, in which two members read it. ``pause_s``: per member, in which it owned
    nothing though it had before and would again; ``paused_members``: how many had that. ``agree_s``: from a change until
    the last partition had found its owner, mean over the changes. ``idle_per_s``: messages in a second of the group at
    rest; ``busiest_per_s``: in the busiest second at the coordinator, at ZooKeeper, or at all RocketMQ brokers.
    ``false_alarms``: members taken for dead that were not; ``gave_up``: that stopped trying; ``formed``: whether the
    group had come to rest before the first change.
    """

    changes: int = 0
    rebalances: int = 0
    unowned_s: float = 0.0
    longest_unowned_s: float = 0.0
    doubled_s: float = 0.0
    pause_s: float = 0.0
    paused_members: int = 0
    moved: int = 0
    duplicates: int = 0
    agree_s: float = 0.0
    longest_agree_s: float = 0.0
    messages: int = 0
    kilobytes: float = 0.0
    idle_per_s: float = 0.0
    busiest_per_s: int = 0
    detection_s: float = 0.0
    false_alarms: int = 0
    gave_up: int = 0
    formed: int = 1
    duration_s: float = 0.0


@dataclass(slots=True)
class Meter(Ownership):
    """Ownership, seen from outside: a partition without a reader, or with two; a member that reads nothing."""

    readers: dict[TopicPartition, int] = field(default_factory=dict)
    doubled_ms: int = 0
    longest_ms: int = 0
    pause_ms: dict[str, int] = field(default_factory=dict)
    last_change_ms: int = 0
    _still: dict[str, set[TopicPartition]] = field(default_factory=dict)  # stalled member -> its partitions
    _doubled_since_ms: dict[TopicPartition, int] = field(default_factory=dict)
    _idle_since_ms: dict[str, int] = field(default_factory=dict)

    def changed(self, name: str, before: set[TopicPartition], after: set[TopicPartition], now_ms: int) -> None:
        """A member's partitions have changed at ``now_ms``; a stalled member's count only once it goes on."""
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
            self.moves += self._last_owner.get(partition, name) != name
            self._last_owner[partition] = name
        if before and not after:
            self._idle_since_ms[name] = now_ms
        elif after and not before and name in self._idle_since_ms:
            self.pause_ms[name] = self.pause_ms.get(name, 0) + now_ms - self._idle_since_ms.pop(name)

    def gone(self, name: str) -> None:
        """It does not pause, it is no more."""
        self._idle_since_ms.pop(name, None)

    def _one_reader_less(self, partition: TopicPartition, now_ms: int) -> None:
        self.readers[partition] -= 1
        if self.readers[partition] == 1:
            self.doubled_ms += now_ms - self._doubled_since_ms.pop(partition)
        elif self.readers[partition] == 0:
            self.unowned_since_ms[partition] = now_ms

    def stalled(self, name: str, owned: set[TopicPartition], now_ms: int) -> None:
        """Its partitions are stalled until `resumed`, or until another member owns them too."""
        if name not in self._still:
            self._still[name] = set(owned)
            for partition in owned:
                self._one_reader_less(partition, now_ms)

    def resumed(self, name: str, now_ms: int) -> None:
        for partition in self._still.pop(name, ()):
            self._one_reader_more(partition, now_ms)

    def _one_reader_more(self, partition: TopicPartition, now_ms: int) -> None:
        self.readers[partition] = self.readers.get(partition, 0) + 1
        if self.readers[partition] == 2:
            self._doubled_since_ms[partition] = now_ms
        since_ms = self.unowned_since_ms.pop(partition, None)
        if since_ms is not None:
            self.unowned_ms[partition] = self.unowned_ms.get(partition, 0) + now_ms - since_ms
            self.longest_ms = max(self.longest_ms, now_ms - since_ms)

    def begin(self, now_ms: int) -> None:
        """From here on: what was counted so far is forgotten, and what lasts counts from now."""
        self.measure()
        self.pause_ms.clear()
        self.doubled_ms = self.longest_ms = 0
        self.last_change_ms = now_ms
        self.unowned_since_ms = dict.fromkeys(self.unowned_since_ms, now_ms)
        self._doubled_since_ms = dict.fromkeys(self._doubled_since_ms, now_ms)
        self._idle_since_ms.clear()

    def is_whole(self, partitions: int) -> bool:
        """Whether every partition has one reader."""
        return len(self.readers) == partitions and all(count == 1 for count in self.readers.values())

    def end(self, now_ms: int, alive: set[str]) -> None:
        """Open intervals are counted until now; a partition without a reader only if the group has members."""
        for partition, since_ms in self.unowned_since_ms.items() if alive else ():
            self.unowned_ms[partition] = self.unowned_ms.get(partition, 0) + now_ms - since_ms
            self.longest_ms = max(self.longest_ms, now_ms - since_ms)
        for since_ms in self._doubled_since_ms.values():
            self.doubled_ms += now_ms - since_ms
        for name in self._idle_since_ms.keys() & alive:
            since_ms = self._idle_since_ms[name]
            self.pause_ms[name] = self.pause_ms.get(name, 0) + now_ms - since_ms
