"""What a producer promises, judged by what it was given, what it reported and what the logs hold.

- Every record has one end, by delivery.timeout.ms.
- An acknowledged record is in the log, at its offset; also after a crash, unless the disk lies.
- The records of an idempotent producer are there once, in the order in which it was given them. Without numbers a broker takes
  what comes, also late: then the acknowledged ones are in order.
- No more requests are in flight to a broker than max.in.flight.requests.per.connection.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from coterie.producing.batch import ProduceFailure, TopicPartition


@dataclass(slots=True)
class RecordLedger:
    """What became of the records of one producer. A value names its producer and its number, in the order of the appends."""

    name: str
    is_idempotent: bool
    delivery_timeout_ms: float
    given: int = 0
    acknowledged: dict[TopicPartition, dict[bytes, int]] = field(default_factory=dict)
    failed: int = 0
    _open: dict[bytes, float] = field(default_factory=dict)

    def next_value(self, now_ms: float) -> bytes:
        """The value of the next record, which is appended now."""
        self.given += 1
        value = b"%s:%d:" % (self.name.encode(), self.given)
        self._open[value] = now_ms
        return value

    def ended(
        self,
        partition: TopicPartition,
        value: bytes,
        result: tuple[int, int] | ProduceFailure,
        now_ms: float,
        due_ms: float,
    ) -> None:
        """The result of a record. ``due_ms``: the last moment at which the producer was able to see to it."""
        appended_ms = self._open.pop(value, None)
        assert appended_ms is not None, f"{value!r} has two ends"
        late_ms = now_ms - max(appended_ms + self.delivery_timeout_ms, due_ms)
        assert late_ms <= 0, f"{value!r} has its end {late_ms:g} ms after its delivery timeout"
        if isinstance(result, ProduceFailure):
            self.failed += 1
        else:
            self.acknowledged.setdefault(partition, {})[value] = result[0]

    def forget_open(self) -> None:
        """The producer's process died."""
        self._open.clear()

    def check_all_ended(self) -> None:
        assert not self._open, f"{len(self._open)} records of {self.name} have no end, the first is {min(self._open)!r}"

    def check(self, partition: TopicPartition, log: Iterable[tuple[int, bytes]], *, certain: bool) -> None:
        """Against the whole log of a partition, offsets and values in order. ``certain`` False where the disk lies."""
        offsets: dict[bytes, list[int]] = {}
        prefix = f"{self.name}:".encode()
        for offset, value in log:
            if value.startswith(prefix):
                key = value[: value.index(b":", len(prefix)) + 1]
                offsets.setdefault(key, []).append(offset)
        acknowledged = self.acknowledged.get(partition, {})
        if self.is_idempotent:
            twice = [key for key, places in offsets.items() if len(places) > 1]
            assert not twice, f"{twice[0]!r} is in {partition} twice"
            self._check_order(partition, offsets)
        elif certain:
            self._check_order(partition, [key for key, _ in sorted(acknowledged.items(), key=lambda entry: entry[1])])
        if certain:
            for key, offset in acknowledged.items():
                assert key in offsets, f"{key!r} was acknowledged and is not in {partition}"
                assert offset < 0 or offset in offsets[key], (
                    f"{key!r} was acknowledged at offset {offset} of {partition}"
                )

    def _check_order(self, partition: TopicPartition, keys: Iterable[bytes]) -> None:
        newest = 0
        for key in keys:
            number = int(key.split(b":")[1])
            assert number > newest, f"{key!r} is in {partition} behind record {newest} of its producer"
            newest = number
