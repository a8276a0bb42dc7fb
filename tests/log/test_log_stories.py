"""Generated stories of a log beside a model of it, which is a list of batches: every read, offset and refusal is compared."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.log.config import LogConfig
from coterie.log.filesystem import MemoryFileSystem
from coterie.log.partition_log import PartitionLog
from coterie.log.reading import max_timestamp_offset, offset_for_timestamp, read_committed
from coterie.log.retention import delete_records, retain
from coterie.records.batch import TRANSACTIONAL_BIT, batches, stamp
from coterie.records.compression import GZIP, NONE
from coterie.records.decoding import decode_records
from coterie.records.encoding import encode_batch
from coterie.records.markers import end_of_transaction, ends_transaction
from coterie.wire.errors import ErrorCode, Refusal

NOW = 1_700_000_000_000
LAST_SEQUENCE = 2**31 - 1
PRODUCERS = (7, 8)


@dataclass
class StoredBatch:
    """``values`` by offset, None for a marker's; ``written_ms``: 0 since the log was opened again."""

    base: int
    data: bytes
    times: list[int]
    values: list[bytes | None]
    producer: int = -1
    epoch: int = -1
    sequence: int = -1
    transactional: bool = False
    committed: bool | None = None
    written_ms: int = NOW

    @property
    def end(self) -> int:
        return self.base + len(self.times)

    @property
    def last_sequence(self) -> int:
        return (self.sequence + len(self.times) - 1) % (LAST_SEQUENCE + 1)


@dataclass
class Model:
    """The batches in the log's files, and what is known of its producers: epoch, and the batches that a repeat is of."""

    stored: list[StoredBatch] = field(default_factory=list)
    start: int = 0
    end: int = 0
    synced: int = 0
    producers: dict[int, tuple[int, list[StoredBatch]]] = field(default_factory=dict)
    open: dict[int, int] = field(default_factory=dict)

    def add(self, batch: StoredBatch) -> None:
        self.stored.append(batch)
        self.end = batch.end
        self.note(batch)

    def note(self, batch: StoredBatch) -> None:
        if batch.producer < 0:
            return
        epoch, known = self.producers.get(batch.producer, (batch.epoch, []))
        if batch.committed is not None:
            self.producers[batch.producer] = (batch.epoch, known if epoch == batch.epoch else [])
            self.open.pop(batch.producer, None)
            return
        self.producers[batch.producer] = (batch.epoch, [*(known if epoch == batch.epoch else []), batch][-5:])
        if batch.transactional:
            self.open.setdefault(batch.producer, batch.base)

    def replay(self) -> None:
        """Producers and transactions as the batches alone tell them."""
        self.producers, self.open = {}, {}
        for batch in self.stored:
            self.note(batch)

    def verdict(self, producer: int, epoch: int, sequence: int, count: int) -> ErrorCode | StoredBatch | None:
        """A refusal, the batch that this one repeats, or None where it is to be appended (KIP-98, KIP-360)."""
        if producer not in self.producers:
            return None
        current, known = self.producers[producer]
        if epoch != current:
            return self.verdict_of_epoch(epoch, current, sequence)
        for batch in known:
            if batch.sequence == sequence and len(batch.times) == count:
                return batch
        if known and sequence != (known[-1].last_sequence + 1) % (LAST_SEQUENCE + 1):
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        return None

    @staticmethod
    def verdict_of_epoch(epoch: int, current: int, sequence: int) -> ErrorCode | None:
        if epoch < current:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER if sequence else None

    @property
    def records(self) -> list[tuple[int, int]]:
        """(offset, timestamp) of all that the files hold."""
        return [(b.base + n, time) for b in self.stored for n, time in enumerate(b.times)]

    def committed_from(self, offset: int) -> list[tuple[int, bytes | None]]:
        """What a consumer of committed records gets."""
        stable = max(self.start, min(self.open.values(), default=self.end))
        values: list[tuple[int, bytes | None]] = []
        pending: dict[int, list[tuple[int, bytes | None]]] = {}
        for batch in self.stored:
            rows = [(batch.base + n, value) for n, value in enumerate(batch.values)]
            if batch.committed is not None:
                values += pending.pop(batch.producer, []) if batch.committed else []
            elif batch.transactional:
                pending.setdefault(batch.producer, []).extend(rows)
            else:
                values += rows
        return sorted(row for row in values if offset <= row[0] < stable)


class Story:
    """A log and its model under the same operations."""

    def __init__(self, config: LogConfig) -> None:
        self.fs, self.config, self.model = MemoryFileSystem(), config, Model()
        self.log = PartitionLog.open(self.fs, "t-0", config, clean=True)
        self.now_ms = NOW

    def append(self, times: list[int], own: bool, codec: int) -> None:
        self.write(StoredBatch(self.model.end, b"", times, self.values(len(times))), own, codec)

    def values(self, count: int) -> list[bytes | None]:
        return [b"%d" % (self.model.end + n) for n in range(count)]

    def write(self, batch: StoredBatch, own: bool, codec: int = NONE) -> None:
        data = encode_batch(
            [(time, b"k", value, ()) for time, value in zip(batch.times, batch.values, strict=True)],
            codec=codec,
            producer_id=batch.producer,
            producer_epoch=batch.epoch,
            base_sequence=batch.sequence,
            attributes=TRANSACTIONAL_BIT if batch.transactional else 0,
        )
        self.store(batch, data, own)

    def store(self, batch: StoredBatch, data: bytes, own: bool) -> None:
        appended = self.log.append_own(data, self.now_ms) if own else self.log.append(data, self.now_ms)
        assert (appended.base_offset, appended.last_offset, appended.duplicate) == (batch.base, batch.end - 1, False)
        stamped = bytearray(data)
        stamp(stamped, 0, batch.base, 0)
        batch.data, batch.written_ms = bytes(stamped), self.now_ms
        if len(self.log.segments) > 1:
            self.model.synced = max(self.model.synced, self.log.segments[-1].base_offset)
        self.model.add(batch)

    def produce(self, producer: int, kind: str, count: int, transactional: bool) -> None:
        """A batch of an idempotent producer: the next one, a repeat, after a gap, or of another epoch."""
        epoch, known = self.model.producers.get(producer, (0, []))
        sequence = (known[-1].last_sequence + 1) % (LAST_SEQUENCE + 1) if known else LAST_SEQUENCE - 3
        if kind == "repeat" and known:
            again = known[count % len(known)]
            sequence, count = again.sequence, len(again.times)
        elif kind == "gap":
            sequence = (sequence + 2) % (LAST_SEQUENCE + 1)
        elif kind in ("new epoch", "new epoch with a gap"):
            epoch, sequence = epoch + 1, int(kind != "new epoch")
        elif kind == "old epoch":
            epoch -= 1
        if epoch < 0 or (kind == "new epoch" and producer in self.model.open):
            return
        batch = StoredBatch(self.model.end, b"", [self.now_ms] * count, self.values(count), producer, epoch, sequence)
        batch.transactional = transactional or producer in self.model.open
        expected = self.model.verdict(producer, epoch, sequence, count)
        if expected is None:
            self.write(batch, own=False)
        elif isinstance(expected, StoredBatch):
            data = encode_batch(
                [(self.now_ms, b"k", b"", ())] * count,
                producer_id=producer,
                producer_epoch=epoch,
                base_sequence=sequence,
            )
            repeat = self.log.append(data, self.now_ms)
            assert (repeat.duplicate, repeat.base_offset, repeat.last_offset) == (True, expected.base, expected.end - 1)
        else:
            with pytest.raises(Refusal) as refusal:
                self.write(batch, own=False)
            assert refusal.value.code == expected

    def produce_many(self, producer: int) -> None:
        """The last five batches may be repeated, and none before (Kafka's ProducerStateEntry)."""
        before = len(self.model.stored)
        for _ in range(6):
            self.produce(producer, "next", 2, False)
        for number in range(5):
            self.produce(producer, "repeat", number, False)
        oldest = self.model.stored[before]
        assert self.model.verdict(producer, oldest.epoch, oldest.sequence, 2) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        with pytest.raises(Refusal) as refusal:
            self.write(oldest, own=False)
        assert refusal.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    def end_transaction(self, producer: int, committed: bool) -> None:
        if producer in self.model.open:
            epoch = self.model.producers[producer][0]
            data = end_of_transaction(producer, epoch, committed, 0, self.now_ms)
            batch = StoredBatch(self.model.end, b"", [self.now_ms], [None], producer, epoch, -1, True, committed)
            self.store(batch, data, own=True)

    def wait(self, time_ms: int) -> None:
        self.now_ms += time_ms

    def sync(self) -> None:
        self.log.sync()
        self.model.synced = self.model.end

    def delete_records(self, share: int) -> None:
        self.model.start = max(self.model.start, self.model.end * share // 10)
        assert delete_records(self.log, self.model.end * share // 10) == self.model.start
        with pytest.raises(Refusal) as refusal:
            delete_records(self.log, self.model.end + 1)
        assert refusal.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
        self.forget()

    def retain(self, retention_ms: int, kept: int) -> None:
        """To the size of the last ``kept`` segments, or a byte less for a negative number; 0: to any size. By time a segment
        without timestamps counts as of its last write (Kafka's LogSegment.largestTimestamp)."""
        retention_bytes = max(1, sum(s.size for s in self.log.segments[-abs(kept) :]) - (kept < 0)) if kept else -1
        self.config.retention_ms, self.config.retention_bytes = retention_ms, retention_bytes
        edges = [segment.base_offset for segment in self.log.segments] + [self.model.end]
        pieces = [[b for b in self.model.stored if a <= b.base < z] for a, z in pairwise(edges)]
        whole, gone = sum(len(b.data) for piece in pieces for b in piece), 0
        while gone < len(pieces) - 1 and edges[gone + 1] <= self.model.start:
            gone += 1
        for number, piece in enumerate(pieces[gone:], gone):
            newest = max((time for b in piece for time in b.times), default=-1)
            newest = newest if newest >= 0 else max((b.written_ms for b in piece), default=NOW * 2)
            if retention_ms < 0 or self.now_ms - newest <= retention_ms:
                break
            gone = number + 1
        whole -= sum(len(b.data) for piece in pieces[:gone] for b in piece)
        for piece in pieces[gone:-1] if retention_bytes >= 0 else []:
            whole -= sum(len(b.data) for b in piece)
            if whole < retention_bytes:
                break
            gone += 1
        assert retain(self.log, self.now_ms) == gone
        self.model.start = max(self.model.start, edges[gone])
        self.forget()

    def forget(self) -> None:
        """Whole segments before the start are gone, and the rest is there."""
        first = self.log.segments[0].base_offset
        assert first <= self.model.start
        assert len(self.log.segments) == 1 or self.model.start < self.log.segments[1].base_offset
        self.model.stored = [batch for batch in self.model.stored if batch.base >= first]
        if len(self.log.segments) == 1 and first == self.model.end:
            self.model.synced = self.model.end

    def reopen(self, how: str, keep: int) -> None:
        model, closed = self.model, None
        if how == "power cut":
            self.fs.crash(keep)
        else:
            closed = self.log.close()
        if how != "closed":
            closed = None
        had_aborts = any(name.endswith(".txnindex") for name in self.fs.names("t-0"))
        clean = how in ("closed", "closed by an older version")
        self.log = PartitionLog.open(self.fs, "t-0", self.config, clean=clean, start_offset=model.start, closed=closed)
        if how == "power cut":
            assert model.synced <= self.log.end_offset <= model.end
            model.stored = [b for b in model.stored if b.base < self.log.end_offset]
            model.end = self.log.end_offset
            if model.start > model.end:
                model.start = self.log.segments[0].base_offset
        if how == "closed" or (clean and not had_aborts and model.producers):
            model.producers = {p: (epoch, known[-1:]) for p, (epoch, known) in model.producers.items()}
        else:
            model.replay()
        model.synced = model.end
        for batch in model.stored:
            batch.written_ms = 0

    def check(self, data: st.DataObject) -> None:
        log, model = self.log, self.model
        assert (log.log_start_offset, log.end_offset) == (model.start, model.end)
        assert log.last_stable_offset == max(model.start, min(model.open.values(), default=model.end))
        assert log.size == sum(len(batch.data) for batch in model.stored)
        offset = data.draw(st.integers(model.start - 1, model.end + 1))
        max_bytes = data.draw(st.sampled_from((0, 1, 61, 100, 300, 10_000)))
        if not model.start <= offset <= model.end:
            with pytest.raises(Refusal) as refusal:
                log.read(offset, max_bytes)
            assert refusal.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
        else:
            self.check_read(offset, max_bytes)
        time = data.draw(st.sampled_from((0, NOW)) | st.sampled_from([t for _, t in model.records] or [1]))
        time += data.draw(st.sampled_from((0, 1)))
        expected = next(((o, t) for o, t in model.records if o >= model.start and t >= max(time, 0)), None)
        assert offset_for_timestamp(log, max(time, 0)) == expected
        newest = max((t for _, t in model.records if t >= 0), default=-1)
        assert max_timestamp_offset(log) == next(((o, t) for o, t in model.records if t == newest >= 0), (-1, -1))

    def check_read(self, offset: int, max_bytes: int) -> None:
        log, model = self.log, self.model
        rest = [batch for batch in model.stored if batch.end > offset]
        edge = next((s.base_offset for s in log.segments if rest and s.base_offset > rest[0].base), model.end)
        whole = b"".join(batch.data for batch in rest if batch.base < edge)
        first = len(rest[0].data) if rest else 0
        assert log.read(offset, max_bytes) == whole[: max(max_bytes, first)]
        assert log.read(offset, max_bytes, at_least_one=False) == (whole[:max_bytes] if first <= max_bytes else b"")
        assert self.consumed(offset, max_bytes) == model.committed_from(offset)

    def consumed(self, offset: int, max_bytes: int) -> list[tuple[int, bytes | None]]:
        """The records that a consumer of committed records reads, by KIP-98's rule for aborted transactions."""
        values: list[tuple[int, bytes | None]] = []
        position = offset
        while True:
            records, aborted = read_committed(self.log, position, max_bytes, at_least_one=True)
            waiting, dropped = sorted(aborted, key=lambda a: a.first_offset), set[int]()
            start = position
            for at, header in batches(records):
                while waiting and waiting[0].first_offset <= header.last_offset:
                    dropped.add(waiting.pop(0).producer_id)
                decoded = decode_records(records, at, header)
                if header.is_control:
                    if ends_transaction(decoded[0]) is False:
                        dropped.discard(header.producer_id)
                elif not (header.is_transactional and header.producer_id in dropped):
                    values += [(r.offset, r.value) for r in decoded if r.offset >= offset]
                position = header.last_offset + 1
            if position == start:
                return values


counts = st.integers(1, 4)
times = st.lists(st.sampled_from((-1, 0, 5, NOW, NOW + 1, NOW - 9_000, NOW + 9_000)), min_size=1, max_size=4)
untimed = st.integers(1, 4).map(lambda count: [-1] * count)
kinds = st.sampled_from(("next", "next", "next", "repeat", "gap", "new epoch", "new epoch with a gap", "old epoch"))
ends = st.sampled_from(("closed", "closed by an older version", "not closed in order", "power cut"))
steps = st.one_of(
    st.tuples(st.just("append"), times | untimed, st.booleans(), st.sampled_from((NONE, GZIP))),
    st.tuples(st.just("produce"), st.sampled_from(PRODUCERS), kinds, counts, st.booleans()),
    st.tuples(st.just("produce"), st.sampled_from(PRODUCERS), st.just("next"), counts, st.just(True)),
    st.tuples(st.just("produce_many"), st.sampled_from(PRODUCERS)),
    st.tuples(st.just("end_transaction"), st.sampled_from(PRODUCERS), st.booleans()),
    st.tuples(st.just("wait"), st.sampled_from((1, 5_000))),
    st.tuples(st.just("sync")),
    st.tuples(st.just("delete_records"), st.integers(0, 10)),
    st.tuples(st.just("retain"), st.sampled_from((-1, 4_000, 20_000)), st.sampled_from((0, 1, 2, 3, -1, -2))),
    st.tuples(st.just("reopen"), ends, st.sampled_from((0, 40, 150, 10_000))),
)
configs = st.builds(
    LogConfig,
    segment_bytes=st.sampled_from((200, 200, 300, 500, 1_200, 100_000)),
    index_interval_bytes=st.sampled_from((1, 150, 4_096)),
    preallocate=st.booleans(),
)


@settings(max_examples=60, derandomize=True)
@given(configs, st.lists(steps, min_size=15, max_size=40), st.data())
def test_the_log_is_a_list_of_batches(config: LogConfig, story: list[tuple[Any, ...]], data: st.DataObject) -> None:
    run = Story(config)
    for name, *arguments in story:
        getattr(run, name)(*arguments)
        run.check(data)
