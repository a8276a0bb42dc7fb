"""Reading and cutting by a sparse index as Kafka's followers write it: of several batches that are appended together the
offset of the last is indexed at the position of the first (LogSegment.append), so that the batches between are behind an
entry whose offset is above theirs. The file system in memory beside a walk over all its paths, and what it costs where
there are many folders."""

from __future__ import annotations

import random
import struct
import time

import pytest

from coterie.log.config import LogConfig
from coterie.log.filesystem import MemoryFileSystem
from coterie.log.follower_log import truncate_to
from coterie.log.partition_log import PartitionLog
from coterie.records.batch import BatchHeader, batches
from coterie.records.encoding import encode_batch
from coterie_conformance.fuzzing.disk import FaultyFileSystem

NOW = 1_700_000_000_000
BATCHES = 40
STEM = "t-0/" + "0" * 20
SEEDS = range(4)
FOLDERS = 8_000


def open_log(fs: FaultyFileSystem) -> PartitionLog:
    return PartitionLog.open(fs, "t-0", LogConfig(index_interval_bytes=300), clean=True)


def headers_of(fs: FaultyFileSystem) -> list[tuple[int, BatchHeader]]:
    return list(batches(bytes(fs.files[STEM + ".log"].data)))


def index_of(fs: FaultyFileSystem) -> list[tuple[int, int]]:
    """(last offset, position) of each entry."""
    return list(struct.iter_unpack(">ii", fs.files[STEM + ".index"].data))


def as_by_a_follower(seed: int) -> FaultyFileSystem:
    """One segment, appended by one to eight batches at a time."""
    rng, fs = random.Random(seed), FaultyFileSystem()
    log = open_log(fs)
    for n in range(BATCHES):
        records = rng.randint(1, 3)
        log.append(encode_batch([(NOW + n, b"k", b"v" * rng.randint(1, 60), ())] * records), NOW + n)
    log.close()
    whole, entries, since = headers_of(fs), list[bytes](), 0
    while whole:
        together, whole = whole[: (count := rng.randint(1, 8))], whole[count:]
        if since > 300:
            entries.append(struct.pack(">ii", together[-1][1].last_offset, together[0][0]))
            since = 0
        since += sum(header.size for _, header in together)
    fs.files[STEM + ".index"].truncate(0)
    fs.files[STEM + ".index"].append(b"".join(entries))
    return fs


def assert_reads(log: PartitionLog, whole: list[tuple[int, BatchHeader]]) -> None:
    """Each of the batches is what a read of any of its offsets begins with."""
    for _, header in whole:
        for offset in range(header.base_offset, header.last_offset + 1):
            ((_, first),) = batches(log.read(offset, 1))
            assert (first.base_offset, first.last_offset) == (header.base_offset, header.last_offset), offset


@pytest.mark.parametrize("seed", SEEDS)
def test_a_read_begins_with_the_batch_that_holds_the_offset(seed: int) -> None:
    fs = as_by_a_follower(seed)
    last_offsets = {position: header.last_offset for position, header in headers_of(fs)}
    assert any(last_offsets[position] < offset for offset, position in index_of(fs)), "no entry is of several batches"
    log = open_log(fs)
    assert_reads(log, headers_of(fs))
    assert log.verify()


@pytest.mark.parametrize("seed", SEEDS)
def test_the_first_read_after_a_start_may_be_of_any_offset(seed: int) -> None:
    fs = as_by_a_follower(seed)
    for position, header in headers_of(fs):
        assert_reads(open_log(fs.copy()), [(position, header)])


@pytest.mark.parametrize("seed", SEEDS)
def test_a_cut_removes_the_batches_from_the_offset_on(seed: int) -> None:
    fs = as_by_a_follower(seed)
    whole = headers_of(fs)
    for offset in range(whole[-1][1].last_offset + 1):
        disk = fs.copy()
        log = open_log(disk)
        truncate_to(log, offset)
        kept = [(position, header) for position, header in whole if header.last_offset < offset]
        assert headers_of(disk) == kept
        assert all(last < offset for last, _ in index_of(disk)), "an entry of what is gone is left"
        log.append(encode_batch([(NOW, b"k", b"v", ())] * 5), NOW)
        assert_reads(log, headers_of(disk))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_damaged_batch_takes_no_other_with_it(seed: int) -> None:
    """Its length is wrong: who went by it would read on somewhere behind."""
    fs = as_by_a_follower(seed)
    whole = headers_of(fs)
    for damaged, (at, _) in enumerate(whole[:-1]):
        disk = fs.copy()
        disk.flip(STEM + ".log", at + 11, 4)
        after = whole[damaged + 1 :]
        log = open_log(disk)
        assert_reads(log, after[:1])
        assert_reads(log, after)


def walked(paths: set[str], directory: str) -> list[str]:
    prefix = directory + "/" if directory else ""
    return sorted({path[len(prefix) :].split("/")[0] for path in paths if path.startswith(prefix)})


@pytest.mark.parametrize("seed", range(20))
def test_names_are_those_of_a_walk(seed: int) -> None:
    rng, fs = random.Random(seed), MemoryFileSystem()
    folders = ["a", "b", "a/c", "a/c/d"]
    for _ in range(200):
        folder = rng.choice(folders)
        path = f"{folder}/{rng.randrange(5)}"
        match rng.randrange(6):
            case 0:
                fs.make_directory(folder)
            case 1:
                fs.remove_directory(folder)
            case 2 if path in fs.files:
                fs.remove(path)
            case 3 if path in fs.files:
                fs.rename(path, f"{rng.choice(folders)}/{rng.randrange(5)}")
            case 4 if folder != "a":
                fs.rename(folder, "e")
                fs.rename("e", rng.choice(["b", "f"]))
            case _:
                fs.open(path) if rng.randrange(2) else fs.write_file(path, b"x")
        paths = {*fs.files, *fs.directories}
        for each in ["", *folders, "f"]:
            assert fs.names(each) == walked(paths, each)


def test_many_folders_cost_no_walk_each() -> None:
    """8,000 topics in memory took 30 s."""
    fs, started_s = MemoryFileSystem(), time.thread_time()
    for n in range(FOLDERS):
        fs.make_directory(f"t-{n}")
        fs.open(f"t-{n}/0.log")
        assert fs.names(f"t-{n}") == ["0.log"]
        fs.rename(f"t-{n}/0.log", f"t-{n}/1.log")
    for n in range(FOLDERS):
        fs.remove_directory(f"t-{n}")
    assert time.thread_time() - started_s < 2.0
    assert fs.names("") == []
