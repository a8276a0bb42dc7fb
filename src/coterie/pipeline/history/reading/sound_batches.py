"""The undamaged batches of a range of a log, and what of it cannot be read: a batch that is damaged costs the tables its own
records, and nothing behind it.

A file is walked with its CRCs. Where a batch is damaged, `log/segments/survey` looks for the next one, as a broker does that
loads the log. Nothing is written: the log may be that of a broker that runs.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from coterie.log.segments.survey import Damage, survey
from coterie.pipeline.reading.log_folders import PIECE_BYTES, FileRange
from coterie.records.batch import HEADER_BYTES, MAGIC, BatchError, batches, check_crc, read_header

if TYPE_CHECKING:
    from coterie.records.columnar import Columns

ENDLESS = 2**62


@dataclass(frozen=True, slots=True)
class UnreadableBatch:
    """Records that no table has: those from ``first_offset`` to ``last_offset``, None where nothing readable follows.
    ``path``, ``position``: the bytes in a file; None where a broker sent them."""

    path: str | None
    position: int | None
    first_offset: int
    last_offset: int | None
    why: str


@dataclass(frozen=True, slots=True)
class Piece:
    """Some batches, as they are stored and unfolded; ``controls``: where in ``data`` the control batches begin."""

    data: bytes
    columns: Columns | None
    controls: list[int]


def read_file(r: FileRange) -> Iterator[Piece | UnreadableBatch]:
    """The batches of a range, some megabytes at a time. What is cut short at the end of a file, as a crash leaves it, and room
    that was set aside are left out."""
    for each in walk(r):
        if isinstance(each, UnreadableBatch):
            yield each
        else:
            yield from unfolded(each[1], r.path, each[0])


def walk(r: FileRange) -> Iterator[tuple[int, bytes] | UnreadableBatch]:
    """The same as they are stored: whole batches, and where in the file they begin."""
    if r.last <= r.first:
        return
    with open(r.path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as whole:
        last = min(r.last, len(whole))
        at, next_offset = r.first, _base_offset(r)
        while at < last:
            end, next_offset = _sound_end(whole, at, last, next_offset)
            if end == at:
                yield from _behind_damage(whole, r.path, at, last, next_offset)
                return
            yield at, whole[at:end]
            at = end


def _base_offset(r: FileRange) -> int:
    name = Path(r.path).stem
    return int(name) if name.isdecimal() else 0


def _sound_end(whole: Any, at: int, last: int, next_offset: int) -> tuple[int, int]:
    """The end of the undamaged batches from ``at`` on, some megabytes of them, and the offset behind them."""
    end = at
    while end + HEADER_BYTES <= last and end - at < PIECE_BYTES:
        header = read_header(whole[end : end + HEADER_BYTES])
        if header.magic != MAGIC or header.size < HEADER_BYTES or end + header.size > last:
            break
        try:
            check_crc(whole[end : end + header.size], 0, header)
        except BatchError:
            break
        end, next_offset = end + header.size, header.last_offset + 1
    return end, next_offset


class _Rest:
    """A range of a file that is mapped into memory, as `log/segments/survey` reads one."""

    def __init__(self, whole: Any, first: int, last: int) -> None:
        self._whole, self._first, self._last = whole, first, last

    def read(self, position: int, length: int) -> bytes:
        start = self._first + position
        return bytes(self._whole[start : min(start + length, self._last)])


def _behind_damage(
    whole: Any, path: str, first: int, last: int, next_offset: int
) -> Iterator[tuple[int, bytes] | UnreadableBatch]:
    rest = survey(cast(Any, _Rest(whole, first, last)), last - first, next_offset, ENDLESS, has_gaps=True)
    sound = {position: header for position, header in rest.batches if position not in rest.restamped}
    damaged = [damage for damage in rest.damages if not damage.torn]
    damaged += [Damage(p, h.size, "its offset contradicts the batches beside it") for p, h in rest.restamped.items()]
    positions = sorted(sound)
    for damage in sorted(damaged, key=lambda each: each.position):
        before = [sound[p].last_offset + 1 for p in positions if p < damage.position]
        behind = [sound[p].base_offset - 1 for p in positions if p > damage.position]
        from_offset = before[-1] if before else next_offset
        why = damage.problem
        if why.startswith("a batch of format"):
            why += "; a broker reads messages of formats 0 and 1: give --bootstrap-server"
        yield UnreadableBatch(path, first + damage.position, from_offset, behind[0] if behind else None, why)
    for position in positions:
        start = first + position
        yield start, bytes(whole[start : start + sound[position].size])


def unfolded(data: bytes, path: str | None = None, position: int | None = None) -> Iterator[Piece | UnreadableBatch]:
    """Batches from ``position`` of a file, or as a broker sent them. Each one that cannot be unfolded is left out."""
    from coterie.records.columnar import unfold  # numpy and Arrow, which `groups dump` does without

    try:
        yield Piece(data, *unfold(data))
        return
    except BatchError:
        stored = list(batches(data))
    for at, header in stored:
        batch = data[at : at + header.size]
        try:
            yield Piece(batch, *unfold(batch))
        except BatchError as error:
            where = None if position is None else position + at
            yield UnreadableBatch(path, where, header.base_offset, header.last_offset, str(error))
