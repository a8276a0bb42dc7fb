"""Generated stories of a replica's log beside a list of batches: what a leader appends, what a follower takes over, what is cut
off, ends of the process, of the power, and a disk that fails."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.log.checked_files import Finding, unreported
from coterie.log.config import LogConfig
from coterie.log.follower_log import append_as_follower, start_anew_at, truncate_to
from coterie.log.leader_epochs import EndOfEpoch
from coterie.log.partition_log import PartitionLog
from coterie.log.reading import max_timestamp_offset, offset_for_timestamp, read_visible
from coterie.records.batch import TRANSACTIONAL_BIT, batches, read_header, stamp
from coterie.records.encoding import encode_batch
from coterie.records.markers import end_of_transaction
from coterie_conformance.fuzzing.disk import FaultyFileSystem

NOW = 1_700_000_000_000
DIRECTORY = "t-0"
PRODUCER = 7


@dataclass
class Story:
    """A log, and ``stored``: the batches that it must hold. ``is_whole``: no operation of the disk has failed."""

    config: LogConfig
    fs: FaultyFileSystem = field(default_factory=FaultyFileSystem)
    stored: list[bytes] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    sequence: int = 0
    number: int = 0
    is_whole: bool = True

    def __post_init__(self) -> None:
        self.log = PartitionLog.open(self.fs, DIRECTORY, self.config, clean=True, high_watermark=0)
        self.log.begin_epoch(0)

    @property
    def end(self) -> int:
        end_offset = read_header(self.stored[-1]).last_offset + 1 if self.stored else 0
        return max(end_offset, self.log.segments[-1].base_offset)

    # -- what happens ---------------------------------------------------------------------------------------------------

    def batch(self, kind: str, count: int) -> bytes:
        """As a producer or coordinator makes it."""
        self.number += 1
        if kind in ("commit", "abort"):
            return end_of_transaction(PRODUCER, 0, kind == "commit", 0, NOW + self.number)
        items = [(NOW + self.number * 3 % 17, b"k", b"%d-%d" % (self.number, n), ()) for n in range(count)]
        if kind == "plain":
            return encode_batch(items)
        known = self.log.producers.by_id.get(PRODUCER)
        sequence = 0 if known is None else known.last_sequence + 1
        attributes = TRANSACTIONAL_BIT if kind == "transactional" else 0
        return encode_batch(
            items, producer_id=PRODUCER, producer_epoch=0, base_sequence=sequence, attributes=attributes
        )

    def begin_epoch(self, by: int) -> None:
        self.log.begin_epoch(max(self.log.leader_epoch, self.log.epochs.cache.latest) + by)

    def append(self, kind: str, count: int) -> None:
        """As the leader."""
        log, data = self.log, self.batch(kind, count)
        self.log.leader_epoch = max(log.leader_epoch, log.epochs.cache.latest)
        stamped = bytearray(data)
        stamp(stamped, 0, self.end, log.leader_epoch)
        own = kind in ("commit", "abort")
        appended = log.append_own(data, NOW) if own else log.append(data, NOW)
        assert appended.base_offset == self.end
        self.stored.append(bytes(stamped))

    def follow(self, kinds: list[str], gap: int, epochs: list[int]) -> None:
        """Takes batches of a leader, the first of them after a gap; a piece of one more is at the end. A log without records
        may start again with the first one, whose second record is at its start: a gap of -1."""
        is_within = gap < 0 < self.log.log_start_offset == self.end
        kinds, gap, before = ["plain", *kinds] if is_within else kinds, gap if is_within else max(gap, 0), self.stored
        offset, epoch, data, taken = self.end + gap, max(self.log.epochs.cache.latest, 0), b"", []
        for number, kind in enumerate(kinds):
            batch = bytearray(self.batch(kind, 2))
            epoch += epochs[number % len(epochs)]
            stamp(batch, 0, offset, epoch)
            offset = read_header(bytes(batch)).last_offset + 1
            taken.append(bytes(batch))
        data = b"".join(taken)
        try:
            assert append_as_follower(self.log, data + taken[-1][:70], NOW) == len(taken)
        finally:
            self.stored = self.held(before) if is_within else before
            self.stored += taken[: sum(read_header(batch).last_offset < self.log.end_offset for batch in taken)]

    def truncate(self, share: int, by: int) -> None:
        offset, before = max(self.end * share // 10 + by, 0), list(self.stored)
        is_below = offset < self.log.segments[0].base_offset
        kept = [batch for batch in before if read_header(batch).last_offset < offset]
        try:
            truncate_to(self.log, offset)
            self.stored = kept
            assert not is_below or self.log.log_start_offset == self.log.end_offset == offset
        except OSError:
            self.stored = [batch for batch in before if read_header(batch).last_offset < self.log.end_offset]
            if is_below:
                self.stored = self.held(before)
            assert self.stored[: len(kept)] == kept
            raise

    def held(self, before: list[bytes]) -> list[bytes]:
        """The batches that are still in the files."""
        files = b"".join(segment.file.read(0, segment.size) for segment in self.log.segments)
        return [batch for batch in before if batch in files]

    def start_anew(self, by: int) -> None:
        offset, before = max(self.end + by, 0), list(self.stored)
        try:
            start_anew_at(self.log, offset)
            self.stored = []
            assert (self.log.log_start_offset, self.log.end_offset) == (offset, offset)
        except OSError:
            self.stored = self.held(before)
            raise

    def high_watermark(self, share: int) -> None:
        self.log.move_high_watermark(self.end * share // 10)

    def sync(self) -> None:
        self.log.sync()

    def reopen(self, how: str, keep: int) -> None:
        log, closed, synced = self.log, None, 0
        if how == "closed":
            closed = log.close()
        elif how == "power cut":
            synced = sum(min(s.size, s.file._file.synced) for s in log.segments)  # type: ignore[attr-defined]
            self.fs.crash(keep)
        watermark, start = log.replicas_high_watermark, log.log_start_offset
        self.findings.clear()
        self.log = PartitionLog.open(
            self.fs,
            DIRECTORY,
            self.config,
            clean=how == "closed",
            start_offset=start,
            high_watermark=watermark,
            closed=closed,
            report=self.findings.append if self.is_whole and how != "power cut" else unreported,
        )
        if how == "power cut":
            self.stored = [b for b in self.stored if read_header(b).last_offset < self.log.end_offset]
            assert sum(map(len, self.stored)) >= synced
        assert not self.findings

    # -- what must hold -------------------------------------------------------------------------------------------------

    def check(self) -> None:
        log, whole = self.log, b"".join(self.stored)
        assert log.end_offset == self.end
        got, offset = b"", log.segments[0].base_offset
        assert b"".join(segment.file.read(0, segment.size) for segment in log.segments) == whole
        offset = log.log_start_offset
        while data := log.read(offset, 150):
            for at, header in batches(data):
                got += data[at : at + header.size]
                offset = header.last_offset + 1
        assert whole.endswith(got)
        assert len(got) == sum(len(b) for b in self.stored if read_header(b).last_offset >= log.log_start_offset)
        self.check_epochs()
        self.check_watermark()
        self.check_times()
        self.check_reopened()

    def check_epochs(self) -> None:
        cache, headers = self.log.epochs.cache, [read_header(batch) for batch in self.stored]
        starts = [(entry.epoch, entry.start_offset) for entry in cache.entries]
        assert starts == sorted(starts)
        assert len({start for _, start in starts}) == len(starts)
        for header in headers:
            if header.last_offset < self.log.log_start_offset:
                continue
            ends = [h.base_offset for h in headers if h.leader_epoch > header.leader_epoch]
            end = cache.end_of(header.leader_epoch, self.end)
            last = [h.last_offset for h in headers if h.leader_epoch == header.leader_epoch][-1]
            assert end == EndOfEpoch(header.leader_epoch, end.end_offset)
            assert last < end.end_offset <= min(ends, default=self.end)

    def check_watermark(self) -> None:
        log = self.log
        assert log.log_start_offset <= log.high_watermark <= self.end
        assert log.last_stable_offset <= log.high_watermark
        visible = read_visible(log, log.log_start_offset, 10_000, at_least_one=True)
        assert all(header.last_offset < log.high_watermark for _, header in batches(visible))

    def check_times(self) -> None:
        log = self.log
        headers = [read_header(batch) for batch in self.stored]
        newest = max((h.max_timestamp for h in headers), default=-1)
        assert max_timestamp_offset(log)[1] == newest
        first = next((h for h in headers if h.max_timestamp >= NOW + 9 and h.last_offset >= log.log_start_offset), None)
        looked_up = offset_for_timestamp(log, NOW + 9)
        assert (looked_up is None) == (first is None)
        if first is not None and looked_up is not None:
            assert first.base_offset <= looked_up[0] <= first.last_offset

    def check_reopened(self) -> None:
        """The log of a process that is killed now: the same batches, producers, transactions and epochs."""
        log, findings = self.log, list[Finding]()
        again = PartitionLog.open(
            self.fs.copy(),
            DIRECTORY,
            self.config,
            clean=False,
            start_offset=log.log_start_offset,
            high_watermark=log.replicas_high_watermark,
            report=findings.append,
        )
        assert again.end_offset == self.end or (not self.stored and not self.is_whole)
        assert again.transactions.open == log.transactions.open
        assert again.transactions.aborted == log.transactions.aborted
        assert again.producers.to_snapshot({}) == log.producers.to_snapshot({})
        last = read_header(self.stored[-1]).leader_epoch if self.stored else -1
        assert again.epochs.cache.latest == last or self.log.epochs.cache.latest > last
        assert not findings or not self.is_whole


kinds = st.sampled_from(("plain", "idempotent", "transactional", "commit", "abort"))
ends = st.sampled_from(("closed", "killed", "power cut"))
faults = st.none() | st.none() | st.tuples(st.integers(0, 12), st.integers(1, 4))
steps = st.one_of(
    st.tuples(st.just("append"), kinds, st.integers(1, 4)),
    st.tuples(st.just("begin_epoch"), st.integers(0, 2)),
    st.tuples(
        st.just("follow"),
        st.lists(kinds, min_size=1, max_size=4),
        st.sampled_from((0, 0, 0, 3, -1)),
        st.lists(st.sampled_from((0, 0, 1, 2)), min_size=1, max_size=4),
    ),
    st.tuples(st.just("truncate"), st.integers(0, 10), st.sampled_from((0, 0, -1, 1, 2))),
    st.tuples(st.just("start_anew"), st.sampled_from((-5, 0, 1, 30))),
    st.tuples(st.just("high_watermark"), st.integers(0, 11)),
    st.tuples(st.just("sync")),
    st.tuples(st.just("reopen"), ends, st.sampled_from((0, 40, 150, 10_000))),
)
configs = st.builds(
    LogConfig,
    segment_bytes=st.sampled_from((300, 500, 1_200, 100_000)),
    index_interval_bytes=st.sampled_from((1, 150, 4_096)),
    preallocate=st.booleans(),
)


@settings(max_examples=80, derandomize=True)
@given(configs, st.lists(steps, min_size=15, max_size=40))
def test_a_replicas_log_is_a_list_of_batches(config: LogConfig, story: list[tuple[Any, ...]]) -> None:
    run = Story(config)
    for name, *arguments in story:
        getattr(run, name)(*arguments)
        run.check()


@settings(max_examples=80, derandomize=True)
@given(configs, st.lists(st.tuples(steps, faults), min_size=15, max_size=40))
def test_also_on_a_disk_that_fails(
    config: LogConfig, story: list[tuple[tuple[Any, ...], tuple[int, int] | None]]
) -> None:
    run = Story(config)
    for (name, *arguments), fault in story:
        failing = run.fs.failing(*fault) if fault is not None and name != "reopen" else nullcontext()
        with failing:
            try:
                getattr(run, name)(*arguments)
            except OSError:
                run.is_whole = False
            run.is_whole = run.is_whole and not run.fs.failed
        run.check()
