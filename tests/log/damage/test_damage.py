"""Damage on the disk, and a disk that fails: what a log loses by it, and that it says so."""

from __future__ import annotations

import errno
import os
import random
from collections import Counter
from contextlib import suppress

import pytest

from coterie.log.checked_files import Finding, UnreadableFile
from coterie.log.config import LogConfig
from coterie.log.filesystem import MemoryFileSystem
from coterie.log.partition_log import PartitionLog
from coterie.log.retention import retain
from coterie.log.segments.segment import Segment
from coterie.records.encoding import encode_batch
from coterie_conformance.fuzzing.disk import ERRORS, FaultyFileSystem
from coterie_conformance.fuzzing.disk_fuzz import (
    DIRECTORY,
    IDEMPOTENT,
    PLAIN,
    TRANSACTIONAL,
    AcknowledgedRecord,
    DiskRun,
    read_all,
    run,
)

NOW = 1_700_000_000_000
SEEDS = int(os.environ.get("COTERIE_DISK_SEEDS", "30"))
EVERY_BIT = bool(os.environ.get("COTERIE_EVERY_BIT"))
PLACES = 300  # of the log's files, where not every bit is flipped


def ten_segments() -> tuple[MemoryFileSystem, LogConfig]:
    fs, config = MemoryFileSystem(), LogConfig(segment_bytes=3_000)
    log = PartitionLog.open(fs, DIRECTORY, config, clean=True)
    for n in range(400):
        log.append(encode_batch([(NOW + n, b"k", b"%d" % n, ())]), NOW)
    assert len(log.segments) == 10
    log.close()
    return fs, config


def last_batch_of_the_first(fs: MemoryFileSystem, config: LogConfig) -> tuple[str, int]:
    log = PartitionLog.open(fs, DIRECTORY, config, clean=True)
    first = log.segments[0]
    return first.stem + ".log", first.headers(0)[-1][0]


@pytest.mark.parametrize("at", [*range(8), *range(23, 27)])  # base offset and last offset delta
def test_a_header_never_deletes_segments(at: int) -> None:
    """91 of 96 such bits deleted the later segments, in silence. Kafka 3.9.1 keeps all ten."""
    fs, config = ten_segments()
    path, position = last_batch_of_the_first(fs, config)
    for bit in range(8):
        other = FaultyFileSystem()
        for name, file in fs.files.items():
            other.open(name).append(file.data)
        other.flip(path, position + at, bit)
        findings: list[Finding] = []
        log = PartitionLog.open(other, DIRECTORY, config, clean=True, report=findings.append)
        got = {offset: stored.value for offset, stored in read_all(log).items()}
        assert len(log.segments) == 10
        assert log.end_offset == 400
        assert got == {n: b"%d" % n for n in range(400) if n in got}
        assert len(got) >= 399
        assert [f.file for f in findings] == [path]
        assert findings[0].position == position


@pytest.mark.parametrize("orderly", [True, False])
@pytest.mark.parametrize("number", [0, 20, -1])
def test_each_bit_of_a_leader_epoch_is_put_right(number: int, orderly: bool) -> None:
    """No CRC covers it. A log of ours has no other epoch than 0."""
    fs, config = ten_segments()
    path = f"{DIRECTORY}/00000000000000000000.log"
    whole = bytes(fs.files[path].data)
    position = PartitionLog.open(fs, DIRECTORY, config, clean=True).segments[0].headers(0)[number][0]
    for bit in range(32):
        other = FaultyFileSystem()
        for name, file in fs.files.items():
            other.open(name).append(file.data)
        other.flip(path, position + 12 + bit // 8, bit % 8)
        findings: list[Finding] = []
        log = PartitionLog.open(other, DIRECTORY, config, clean=orderly, report=findings.append)
        assert len(read_all(log)) == 400
        assert [(f.file, f.position) for f in findings] == [(path, position)], bit
        assert findings[0].action == "it is replaced by 0"
        assert bytes(other.files[path].data) == whole


@pytest.mark.parametrize(
    ("recorded", "epochs", "wrong", "right"),
    [
        ([3, 5], [3, 3, 5, 5, 0, 0], {}, {}),  # taken over by us
        ([3, 5], [3, 0, 5, 0, 0], {}, {}),  # given back, and taken over again
        ([0, 1, 2, 3], [-1, -1, 0, 1, 2, 3], {}, {}),
        ([4], [3, 3, 5, 5, 5], {}, {}),  # the checkpoint is wrong, not the batches
        ([3, 5], [3, 3, 5, 5, 5], {3: 1}, {3: 5}),
        ([3, 5], [3, 3, 5, 5, 5], {1: 2**30 + 3}, {1: 3}),
        ([3, 5], [3, 3, 5, 5, 5], {0: -2}, {0: 3}),
        ([3, 5], [3, 3, 5, 5, 5], {4: -(2**31) + 5}, {4: 5}),
        ([3, 5], [3, 3, 5, 5, 5], {4: 7}, {4: 5}),
        ([1, 3, 5], [3, 3, 5, 0, 0], {2: 1}, {2: 3}),
        ([1, 3, 5], [1, 3, 3, 3, 3], {2: 5}, {2: 3}),
        ([1, 3, 5], [1, 3, 3, 3, 5], {3: 1}, {3: 3}),
        (None, [3, 3, 3, 5, 5], {2: 2**30 + 3}, {2: 3}),
        (None, [3, 3, 3, 5, 5], {4: 2**30 + 3}, {}),
        (None, [3, 3, 3, 5, 5], {4: -3}, {4: 5}),
        ([5], [5], {0: 7}, {0: 5}),
        ([5], [2, 3, 5], {}, {}),  # what was before the log's start is in its first segment, and not in the file
        ([5, 6], [2, 2, 5, 6], {1: 7}, {1: 2}),
        ([5, 6], [5, 5, 5, 6], {2: 3}, {2: 5}),
        ([], [0], {0: 7}, {0: 0}),
    ],
)
def test_leader_epochs_of_a_log_that_kafka_wrote(
    recorded: list[int] | None, epochs: list[int], wrong: dict[int, int], right: dict[int, int]
) -> None:
    kept = [wrong.get(number, epoch) for number, epoch in enumerate(epochs)]
    fs, config = MemoryFileSystem(), LogConfig()
    log = PartitionLog.open(fs, DIRECTORY, config, clean=True)
    for number, epoch in enumerate(kept):
        log.begin_epoch(epoch)
        log.append(encode_batch([(NOW, b"k", b"%d" % number, ())]), NOW)
    positions = [position for position, _ in log.segments[0].headers(0)]
    closed = log.close()
    lines = ["not a checkpoint"] if recorded is None else [f"{epoch} 0" for epoch in recorded]
    fs.write_file(f"{DIRECTORY}/leader-epoch-checkpoint", "\n".join(["0", str(len(lines)), *lines, ""]).encode())
    findings: list[Finding] = []
    log = PartitionLog.open(fs, DIRECTORY, config, clean=True, closed=closed, report=findings.append)
    assert len(read_all(log)) == len(epochs)
    of_batches = [f.position for f in findings if f.file.endswith(".log")]
    assert of_batches == [positions[number] for number in right]
    expected = [right.get(number, epoch) for number, epoch in enumerate(kept)]
    assert [header.leader_epoch for _, header in log.segments[0].headers(0)] == expected


def test_an_index_that_cannot_be_written_fails_no_append() -> None:
    """The record was in the log, the client was told 56 and sent it again: stored once for each try."""
    fs, config = FaultyFileSystem(), LogConfig(index_interval_bytes=100)
    log = PartitionLog.open(fs, DIRECTORY, config, clean=True)
    for n in range(20):
        with fs.failing(1, 1_000):  # whatever comes after the write of the log
            batch = encode_batch([(NOW, b"k", b"%d" % n, ())], producer_id=7, producer_epoch=0, base_sequence=n)
            assert log.append(batch, NOW).base_offset == n
    assert fs.failed
    assert all(".index" in failed for failed in fs.failed)
    closed = log.close()
    findings: list[Finding] = []
    again = PartitionLog.open(fs, DIRECTORY, config, clean=True, closed=closed, report=findings.append)
    assert len(again.segments[0].index.offsets) > 5, "the index was written again at the close"
    assert findings == []
    assert sorted(read_all(again)) == list(range(20))


def test_an_abort_whose_index_cannot_be_written_is_known_after_each_kind_of_end() -> None:
    for orderly in (True, False):
        story = DiskRun(1)
        log = story.open()
        story.append(log, TRANSACTIONAL)
        with story.fs.failing(1, 1_000):
            story.end_transaction(log, committed=False)
        assert log.transactions.aborted
        story.stop(log, orderly=orderly)
        assert story.open().transactions.aborted == log.transactions.aborted


def _story(story: DiskRun) -> None:
    """Appends of every kind over some segments, a close in between, a compaction, retention."""
    log = _opened(story)
    for n in range(24):
        story.append(log, (IDEMPOTENT, TRANSACTIONAL, PLAIN)[n % 3])
        if n % 6 == 4:
            story.end_transaction(log, committed=n % 12 == 4)
    if story.compacts:
        story.compact(log)
    story.stop(log, orderly=True)
    log = _opened(story)
    for n in range(6):
        story.append(log, (IDEMPOTENT, PLAIN)[n % 2])
    if story.compacts:
        story.compact(log)
    else:
        dropped = log.segments[0]
        log.config.retention_bytes = log.size - dropped.size
        with suppress(OSError):
            retain(log, NOW)
        story.acknowledged = {o: s for o, s in story.acknowledged.items() if o >= log.log_start_offset}
        log.config.retention_bytes = -1


def _opened(story: DiskRun) -> PartitionLog:
    for _ in range(6):
        try:
            return story.open()
        except OSError:
            continue
    raise AssertionError("the log does not open again")


@pytest.mark.parametrize("compacts", [False, True])
@pytest.mark.parametrize("count", [1, 3])
def test_every_operation_fails_in_turn(compacts: bool, count: int) -> None:
    """ENOSPC, EIO, EMFILE at every write, open, sync, rename and removal: nothing acknowledged is lost, nothing is stored
    twice, nothing is found damaged but a tail that was torn."""
    counted = DiskRun(3, compacts=compacts)
    _story(counted)
    operations = counted.fs.operations
    assert operations > 100
    for number in range(operations):
        story = DiskRun(3, compacts=compacts)
        with story.fs.failing(number, count, ERRORS[number % 3]):
            _story(story)
        story.closed = None
        log = story.check(None)
        tail = log.segments[-1].stem + ".log"
        harmless = [
            f for f in story.findings if f.action.endswith("is rebuilt") or (f.file == tail and "cut" in f.action)
        ]
        assert story.findings == harmless, (number, story.fs.failed, [str(f) for f in story.findings])
        log.close()


@pytest.mark.parametrize("seed", range(SEEDS))
def test_lives_on_a_disk_that_fails_and_rots(seed: int) -> None:
    run(seed)


def test_the_lives_meet_every_kind_of_damage() -> None:
    kinds: Counter[str] = Counter()
    for seed in range(20):
        kinds += run(seed).kinds
    assert {"flip .log", "tear .log", "lose .log", "flip .index", "flip .timeindex", "flip .txnindex"} <= set(kinds)


@pytest.mark.parametrize("orderly", [True, False])
def test_a_bit_flips_anywhere(orderly: bool) -> None:
    """Every byte of the small files and many places of the `.log`: no record is wrong, one batch at most is lost, and a
    finding says so. All places, every bit of them, with COTERIE_EVERY_BIT=1."""
    story = DiskRun(4)
    log = story.open()
    story.live(log, 90)
    story.stop(log, orderly=orderly)
    undamaged = story.fs
    sizes = {path: file.size() for path, file in undamaged.files.items()}
    logs = [(path, at) for path, size in sizes.items() for at in range(size) if path.endswith(".log")]
    places = [(path, at) for path, size in sizes.items() for at in range(size) if not path.endswith(".log")]
    chosen = random.Random(5)
    places += logs if EVERY_BIT else chosen.sample(logs, PLACES)
    table: Counter[str] = Counter()
    for path, at in places:
        for bit in range(8) if EVERY_BIT else [chosen.randrange(8)]:
            table[_flipped(story, undamaged, path, at, bit)] += 1
    print("\n".join(f"{count:7} {what}" for what, count in sorted(table.items())))
    assert sum(table.values()) >= PLACES
    assert not any(what.startswith(".log") and what.endswith("no effect") for what in table)


def _flipped(story: DiskRun, undamaged: FaultyFileSystem, path: str, at: int, bit: int) -> str:
    trial = DiskRun(story.seed, fs=undamaged.copy(), closed=story.closed)
    trial.acknowledged = dict(story.acknowledged)
    trial.fs.flip(path, at, bit)
    trial.check(f"flip of bit {bit} at {at} of {path}")
    lost = len({s.batch for s in story.acknowledged.values()}) - len({s.batch for s in trial.acknowledged.values()})
    kind = path.rpartition(".")[2]
    return f".{kind}: {lost} batches lost, {'a finding' if trial.findings else 'no effect'}"


def test_compaction_does_not_seal_a_damaged_batch() -> None:
    """It gave changed records a new, right CRC."""
    fs = FaultyFileSystem()
    story = DiskRun(6, compacts=True, fs=fs)
    log = story.open()
    for _ in range(20):
        story.append(log, PLAIN)
    path = log.segments[0].stem + ".log"
    position, header = log.segments[0].headers(0)[2]
    fs.flip(path, position + header.size - 3, 0)
    story.closed = None
    log = story.open()
    story.compact(log)  # refused, and the damaged batch goes
    story.compact(log)
    values = {s.value for s in story.acknowledged.values()}
    assert {s.value for s in read_all(log).values()} <= values
    assert any(".damaged-" in name for name in fs.names(DIRECTORY))


def test_an_interrupted_exchange_of_segments_is_finished() -> None:
    """A crash at each step of a compaction's renaming: the newest value of each key is there, and no older one returns."""
    whole = DiskRun(9, compacts=True)
    log = whole.open()
    for _ in range(30):
        whole.append(log, PLAIN)
    before = whole.fs.copy()
    whole.compact(whole.open(before))
    steps = before.operations
    newest = {s.value for s in whole.acknowledged.values()}
    for crash_after in range(steps):
        fs = whole.fs.copy()
        story = DiskRun(9, compacts=True, fs=fs)
        with fs.failing(crash_after, 10_000, errno.EIO):
            try:
                story.compact(story.open())
            except OSError:
                continue
        findings: list[Finding] = []
        again = PartitionLog.open(fs, DIRECTORY, story.config, clean=False, report=findings.append)
        assert newest <= {s.value for s in read_all(again).values()}
        assert all(finding.action.endswith("the index is rebuilt") for finding in findings)


def test_messages_of_an_old_format_are_left_alone() -> None:
    """They are no damage: the log says what they are, and nothing is set aside."""
    from coterie.records.message_sets import to_message_set

    fs = MemoryFileSystem()
    batch = encode_batch([(NOW, b"k", b"v", ())])
    fs.open(f"{DIRECTORY}/00000000000000000000.log").append(to_message_set(batch, 1, 0))
    fs.make_directory(DIRECTORY)
    with pytest.raises(UnreadableFile, match="format 0 or 1"):
        PartitionLog.open(fs, DIRECTORY, LogConfig(), clean=False)
    assert fs.names(DIRECTORY) == ["00000000000000000000.log"]


def test_a_start_beyond_the_end_is_not_believed() -> None:
    fs, config = ten_segments()
    findings: list[Finding] = []
    log = PartitionLog.open(fs, DIRECTORY, config, clean=True, start_offset=401, report=findings.append)
    assert (log.log_start_offset, len(findings)) == (0, 1)
    assert "beyond its end 400" in str(findings[0])


def test_what_is_there_is_read_whole_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading stays as fast as it was: nothing is verified twice, nor what this process appended."""
    fs, config = ten_segments()
    log = PartitionLog.open(fs, DIRECTORY, config, clean=True)
    read_all(log)
    assert not any(segment.unverified for segment in log.segments)
    monkeypatch.setattr(Segment, "verify", lambda *_: pytest.fail("verified again"))
    log.append(encode_batch([(NOW, b"k", b"v", ())]), NOW)
    assert read_all(log)[400] == AcknowledgedRecord(b"v", 400)
