"""The invariants of consumers of a group, judged by what their polls returned and what the group has committed.

- A poll returns records in the order of the log, and leaves out none that was acknowledged to its producer.
- Of one idempotent producer a consumer gets every record once and in order, for as long as it does not seek. This and the
  completeness of polls are checked where what was read stays: a power cut may take records that were read before their sync.
- A group commits nothing that was not delivered, and every acknowledged record below a committed offset was delivered.
- A committed offset has the epoch of the leader that appended what is before it, or none where reading was reset there
  (KIP-320).
- A committed offset whose commit was acknowledged never goes back, unless to that of a commit whose response was lost, which
  may arrive late.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from coterie.laboratory.node.record_checker import RecordChecker, TopicPartition
from coterie.log.epochs.epoch_cache import UNDEFINED_EPOCH, LeaderEpochCache

PLAIN = "p"  # the name of a producer whose late request may come after its next
Delivery = tuple[int, bytes]  # offset and value


@dataclass
class DeliveryChecker:
    """``committed_only``: consumers do not get records of transactions that are open or aborted."""

    records: RecordChecker
    committed_only: bool
    delivered_until: dict[TopicPartition, int] = field(default_factory=dict)
    delivered_offsets: dict[TopicPartition, set[int]] = field(default_factory=dict)
    deliveries: int = 0
    _last: dict[tuple[str, TopicPartition], dict[str, int]] = field(default_factory=dict)
    _acknowledged: dict[TopicPartition, int] = field(default_factory=dict)  # the highest committed offset
    _sought: dict[TopicPartition, set[int]] = field(default_factory=dict)
    _lost: dict[TopicPartition, set[int]] = field(default_factory=dict)  # of commits

    def began(self, consumer: str) -> None:
        """A process begins: it may get again what was not committed."""
        for key in [key for key in self._last if key[0] == consumer]:
            del self._last[key]

    def sought(self, consumer: str, partition: TopicPartition, offset: int) -> None:
        self._sought.setdefault((partition[0], partition[1]), set()).add(offset)
        self._last.pop((consumer, tuple(partition)), None)  # type: ignore[arg-type]

    def delivered(
        self, consumer: str, partition: TopicPartition, before: int, after: int, polled: list[Delivery]
    ) -> None:
        """A poll moved the position from ``before`` to ``after``. Raises AssertionError."""
        partition = (partition[0], partition[1])
        name = f"{consumer} of {partition[0]}-{partition[1]}"
        offsets = [offset for offset, _ in polled]
        assert offsets == sorted(set(offsets)), f"{name}: polled offsets {offsets}"
        fits = before < after and (not offsets or before <= offsets[0] <= offsets[-1] < after)
        assert fits, f"{name}: {offsets} between positions {before} and {after}"
        last = self._last.setdefault((consumer, partition), {})
        for offset, value in polled:
            self.records.observe(partition, offset, value)
            producer, number = value.decode().split(".")
            if producer != PLAIN:
                assert last.get(producer, -1) < int(number), f"{name}: {value!r} after number {last[producer]}"
                last[producer] = int(number)
        self.deliveries += len(polled)
        self.delivered_offsets.setdefault(partition, set()).update(offsets)
        self.delivered_until[partition] = max(self.delivered_until.get(partition, 0), after)
        self._check_complete(name, partition, range(max(before, self._start(partition)), after), set(offsets))

    def commit_acknowledged(self, name: str, partition: TopicPartition, offset: int, before: int) -> None:
        """The coordinator has this offset; ``before`` as in `looked_up`. Raises AssertionError."""
        assert offset >= before, (
            f"{name} of {partition[0]}-{partition[1]} may commit {offset}, acknowledged was {before}"
        )
        self._acknowledged[partition] = max(offset, self.acknowledged_offset(partition))

    def commit_lost(self, offsets: Mapping[TopicPartition, int]) -> None:
        """No response came."""
        for partition, offset in offsets.items():
            self._lost.setdefault(partition, set()).add(offset)

    def acknowledged_offset(self, partition: TopicPartition) -> int:
        """The highest one that was committed; -1: none was."""
        return self._acknowledged.get(partition, -1)

    def looked_up(self, name: str, partition: TopicPartition, offset: int, before: int) -> None:
        """A committed offset was looked up; ``before``: `acknowledged_offset` when its request was sent. Raises
        AssertionError."""
        if offset >= before:
            return
        late = offset in self._lost.get(partition, ())
        assert late, f"{name} of {partition[0]}-{partition[1]}: {offset} is committed, acknowledged was {before}"
        if before == self.acknowledged_offset(partition):
            self._acknowledged[partition] = offset

    def check_committed(self, committed: Mapping[TopicPartition, int]) -> None:
        """``committed``: the group's offsets. Raises AssertionError."""
        for partition, offset in committed.items():
            self.looked_up("the group", partition, offset, self.acknowledged_offset(partition))
            name = f"{partition[0]}-{partition[1]}"
            until = max(self.delivered_until.get(partition, 0), self.records.delete_requested(partition))
            assert offset <= until, f"{name}: {offset} is committed, delivered was up to {until}"
            delivered = self.delivered_offsets.get(partition, set())
            self._check_complete(name, partition, range(self._start(partition), offset), delivered)

    def check_epoch(self, partition: TopicPartition, offset: int, epoch: int, epochs: LeaderEpochCache) -> None:
        """Checks the epoch of a committed offset; ``epochs``: those of the log. Raises AssertionError."""
        name = f"{partition[0]}-{partition[1]}: {offset} is committed with leader epoch {epoch}"
        if epoch == UNDEFINED_EPOCH:
            assert not offset or offset in self._sought.get(partition, ()), f"{name}, although reading moved there"
            return
        begun = [entry.epoch for entry in epochs.entries if entry.start_offset < offset]
        assert not begun or epoch == begun[-1], f"{name}, what is before it is of {begun[-1]}"

    def _start(self, partition: TopicPartition) -> int:
        return self.records.delete_requested(partition)

    def _check_complete(
        self, name: str, partition: TopicPartition, offsets: Iterable[int], delivered: set[int]
    ) -> None:
        """Every acknowledged record of these offsets is among those ``delivered``."""
        for offset in offsets:
            if offset not in delivered:
                value = self.records.due_value(partition, offset, committed_only=self.committed_only)
                assert value is None, f"{name}: {value!r} at offset {offset} was acknowledged and not delivered"
