"""Recovery of a damaged segment: what happens to the bytes that its `survey` does not count as batches.

They are set aside in a file of their own, never deleted; only a batch that a crash cut short, and zeros that were reserved, are
simply cut off.

Where the machine may have gone down, the last segment ends at its first damage: any page that was not synced may be missing,
and what follows a lost batch is set aside with it, such as the marker of its transaction. Kafka cuts each log off there after
every unclean end.
"""

from __future__ import annotations

import struct
import zlib

from coterie.log.checked_files import Finding, Report, UnreadableFile
from coterie.log.filesystem import File, FileSystem
from coterie.log.leader_epochs import LeaderEpochs
from coterie.log.segments.segment import Segment
from coterie.log.segments.survey import Damage, Survey, before_damage, survey
from coterie.records.batch import HEADER_BYTES, LENGTH_END, BatchHeader, stamp
from coterie.records.message_sets import is_legacy

COPY_BYTES = 4 * 1024 * 1024
_CRC_END = 16
SET_ASIDE = ".damaged-"  # and the position
UNSYNCED = ".unsynced-"  # for the end of a log after a power cut, which counts as not written


def _holds_old_messages(file: File) -> bool:
    """Whether the file begins with a message of format 0 or 1 whose CRC-32 is right."""
    data = file.read(0, HEADER_BYTES)
    if not is_legacy(data):
        return False
    size, crc = struct.unpack_from(">iI", data, 8)
    return bool(14 <= size <= file.size() - LENGTH_END) and zlib.crc32(file.read(_CRC_END, size - 4)) == crc


def recover(
    fs: FileSystem,
    directory: str,
    base_offset: int,
    report: Report,
    *,
    epochs: LeaderEpochs,
    bound: int | None = None,
    end_offset: int | None = None,
    has_gaps: bool = False,
    crashed: bool = False,
    lost_power: bool = False,
    problem: str | None = None,
    index_interval_bytes: int = 4096,
) -> Segment:
    """Opens a segment from its batches alone. ``bound``, ``end_offset`` and ``has_gaps`` as for `survey`.
    ``crashed``: a batch cut short at the end is what a crash leaves; ``lost_power``: it ends at its first damage;
    ``problem``: why the segment was not trusted, a finding of its own if the batches turn out undamaged. Raises OSError,
    and UnreadableFile for a log of an older format."""
    segment = Segment(fs, directory, base_offset)
    path = segment.stem + ".log"
    if _holds_old_messages(segment.file):
        segment.close_files()
        raise UnreadableFile(
            path, "it holds message sets of format 0 or 1", "have Apache Kafka 3 rewrite it, or move its partition away"
        )
    aside = segment.stem.rpartition("/")[2] + ".log" + SET_ASIDE
    names = fs.names(directory)
    has_gaps = has_gaps or any(name.startswith(aside) for name in names)
    result = survey(segment.file, segment.size, base_offset, bound, end_offset, has_gaps=has_gaps, epochs=epochs)
    if lost_power:
        result = before_damage(result, segment.size)
    if result.undamaged:
        if problem is not None:
            report(Finding(path, None, problem, "all of its batches are undamaged; the index is rebuilt"))
    else:
        segment = _mended(fs, directory, segment, result, report=report, bound=bound, crashed=crashed)
    size = 0
    headers: list[tuple[int, BatchHeader]] = []
    for _, header in result.batches:
        headers.append((size, header))
        size += header.size
    segment.rebuild_index(headers, index_interval_bytes)
    segment.drop_index_files()
    segment.index.write()
    return segment


def _mended(
    fs: FileSystem, directory: str, segment: Segment, result: Survey, report: Report, bound: int | None, crashed: bool
) -> Segment:
    """The segment with its undamaged batches only; the file is replaced as a whole, or cut where only its tail goes."""
    path, findings = segment.stem + ".log", []
    gap_offset: int | None = None
    for damage in result.damages:
        action = f"{damage.size} bytes are cut off"
        if not (damage.torn and crashed) and not damage.zeros:
            aside = f"{path}{UNSYNCED if damage.doubts_rest else SET_ASIDE}{damage.position}"
            _set_aside(fs, segment.file, damage, aside)
            action = f"{damage.size} bytes are set aside in {aside.rpartition('/')[2]}"
            if damage.doubts_rest:
                action += ", all that follows included, because the machine may have gone down before it was synced"
        first, end_offset = _missing_offsets(result, damage, segment.base_offset, bound)
        if end_offset is None:
            action += f", with whatever records it held from offset {first} on"
        elif first < end_offset:
            action += f", with offsets {first} to {end_offset - 1}"
            gap_offset = first if gap_offset is None else gap_offset
        findings.append(Finding(path, damage.position, damage.problem, action))
    right = dict(result.batches)
    for position, header in result.restamped.items():
        findings += _corrections(path, position, header, right[position])
    end = sum(header.size for _, header in result.batches)
    if not result.restamped and all(damage.position >= end for damage in result.damages):
        segment.file.truncate(end)
        segment.size = end
    else:
        _rewrite(fs, segment, result)
        segment.close_files()
        segment = Segment(fs, directory, segment.base_offset)
    segment.gap_offset = gap_offset
    for finding in findings:
        report(finding)
    return segment


def _set_aside(fs: FileSystem, source: File, damage: Damage, path: str) -> None:
    if fs.exists(path):
        fs.remove(path)
    file = fs.open(path)
    try:
        _copy(source, file, damage.position, damage.position + damage.size)
        file.sync()
    finally:
        file.close()


def _corrections(path: str, position: int, wrong: BatchHeader, right: BatchHeader) -> list[Finding]:
    findings = []
    if wrong.base_offset != right.base_offset:
        action = f"{right.base_offset} is the only one that fits, and is put there"
        problem = f"base offset {wrong.base_offset} contradicts the batches beside it"
        findings.append(Finding(path, position, problem, action))
    if wrong.leader_epoch != right.leader_epoch:
        problem = f"leader epoch {wrong.leader_epoch} does not fit the log or contradicts the batches beside it"
        findings.append(Finding(path, position, problem, f"it is replaced by {right.leader_epoch}"))
    return findings


def _missing_offsets(result: Survey, damage: Damage, base_offset: int, bound: int | None) -> tuple[int, int | None]:
    """The offsets that the damage took, by the batches before and after it: the first, and the end, None where no batch of the
    log follows."""
    before = [h.last_offset + 1 for p, h in result.batches if p < damage.position]
    after = [h.base_offset for p, h in result.batches if p > damage.position]
    return before[-1] if before else base_offset, after[0] if after else bound


def _rewrite(fs: FileSystem, segment: Segment, result: Survey) -> None:
    path = segment.stem + ".log"
    if fs.exists(path + ".cleaned"):
        fs.remove(path + ".cleaned")
    file = fs.open(path + ".cleaned")
    try:
        start = end = 0  # of neighbours that are copied together
        for position, header in result.batches:
            if position in result.restamped:
                _copy(segment.file, file, start, end)
                batch = bytearray(segment.file.read(position, header.size))
                stamp(batch, 0, header.base_offset, header.leader_epoch)
                file.append(batch)
                start = end = position + header.size
                continue
            if position != end:
                _copy(segment.file, file, start, end)
                start = position
            end = position + header.size
        _copy(segment.file, file, start, end)
        file.sync()
    finally:
        file.close()
    fs.rename(path + ".cleaned", path)


def _copy(source: File, target: File, start: int, end: int) -> None:
    for position in range(start, end, COPY_BYTES):
        target.append(source.read(position, min(COPY_BYTES, end - position)))
