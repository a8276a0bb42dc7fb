"""The survey of a segment: which of its bytes are batches, at which offsets, by the bytes alone.

A batch counts if its CRC-32C is right. Base offset, length and leader epoch are outside of the CRC: a length that is wrong is
passed over by looking for the next batch; a base offset or an epoch that is wrong shows in the batches beside it, and is set
right, an offset only where no other fits.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from coterie.log.filesystem import File
from coterie.log.leader_epochs import LeaderEpochs
from coterie.records.batch import (
    HEADER_BYTES,
    LENGTH_END,
    MAGIC,
    BatchError,
    BatchHeader,
    check_crc,
    read_header,
)

SCAN_BYTES = 1024 * 1024
WIDEST = 2**31 - 1  # offsets of a segment are int32 in its index
_MAGIC_AT = 16


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes that are not a batch; ``torn``: the beginning of a batch that goes on behind the file's end, or nothing but zeros;
    ``doubts_rest``: it is the end of a log after a power cut, and any undamaged batches behind them are included."""

    position: int
    size: int
    problem: str
    torn: bool = False
    zeros: bool = False
    doubts_rest: bool = False


@dataclass(slots=True)
class Survey:
    """The undamaged batches of a segment with their right headers; by position, the header as it was of those whose base
    offset or leader epoch was wrong; and the rest."""

    batches: list[tuple[int, BatchHeader]] = field(default_factory=list)
    restamped: dict[int, BatchHeader] = field(default_factory=dict)
    damages: list[Damage] = field(default_factory=list)

    @property
    def undamaged(self) -> bool:
        return not self.restamped and not self.damages


class _Bytes:
    """A file read by windows."""

    def __init__(self, file: File, size: int) -> None:
        self._file, self.size = file, size
        self._window, self._at = b"", 0

    def at(self, position: int, length: int) -> tuple[bytes, int]:
        """A buffer that holds the bytes from ``position`` on, as far as there are any, and where in it they begin."""
        if position < self._at or position + length > self._at + len(self._window):
            wanted = min(max(length, SCAN_BYTES), self.size - position)
            self._window, self._at = self._file.read(position, wanted), position
        return self._window, position - self._at

    def batch(self, position: int) -> BatchHeader:
        """The header of the undamaged batch at ``position``. Raises BatchError with the reason that there is none."""
        data, at = self.at(position, HEADER_BYTES)
        header = read_header(data, at)
        if header.length < HEADER_BYTES - LENGTH_END:
            raise BatchError(f"a batch of {header.length} bytes")
        if position + header.size > self.size:
            raise BatchError(f"a batch of {header.size} bytes, of which {self.size - position} are there")
        if header.magic != MAGIC:
            raise BatchError(f"a batch of format {header.magic}")
        data, at = self.at(position, header.size)
        check_crc(data, at, header)
        return header


def survey(
    file: File,
    size: int,
    base_offset: int,
    bound: int | None = None,
    end_offset: int | None = None,
    *,
    has_gaps: bool = False,
    epochs: LeaderEpochs | None = None,
) -> Survey:
    """Reads a segment whole. ``bound``: the base offset of the next segment; ``end_offset``: where the log ended when it was
    closed, if that is known; ``has_gaps``: damage was removed from it before; ``epochs``: what the log's may be, None to leave
    them as they are."""
    source, result = _Bytes(file, size), Survey()
    walked: list[tuple[int, BatchHeader]] = []
    position, next_offset, limit = 0, base_offset, base_offset + WIDEST if bound is None else bound
    while position < size:
        try:
            header = source.batch(position)
        except BatchError as error:
            end = _next_batch(source, position, next_offset, limit)
            result.damages.append(_damage(source, position, end, str(error)))
            position = end
            continue
        walked.append((position, header))
        next_offset = header.last_offset + 1
        position += header.size
    _put_in_order(walked, result, base_offset, bound, end_offset, has_gaps)
    if epochs is not None:
        _correct_epochs(result, epochs)
    result.damages.sort(key=lambda damage: damage.position)
    return result


def _damage(source: _Bytes, position: int, end: int, problem: str) -> Damage:
    torn = zeros = False
    if end == source.size:
        data, at = source.at(position, end - position)
        zeros = not any(data[at:])
        if zeros or end - position < HEADER_BYTES:
            torn = True
        else:
            header = read_header(data, at)
            torn = header.magic == MAGIC and header.size > end - position
    return Damage(position, end - position, "nothing but zeros" if zeros else problem, torn, zeros)


def _next_batch(source: _Bytes, position: int, next_offset: int, limit: int) -> int:
    """The position of the next undamaged batch after the damage at ``position``; the size of the file if there is none."""
    data, at = source.at(position, HEADER_BYTES)
    if len(data) - at >= HEADER_BYTES:
        claimed = read_header(data, at)
        end = position + claimed.size
        follows = end == source.size or (end < source.size and _is_batch(source, end, next_offset, limit))
        if claimed.length >= HEADER_BYTES - LENGTH_END and follows:
            return end
    candidate = position + 1
    while candidate + HEADER_BYTES <= source.size:
        data, at = source.at(candidate, HEADER_BYTES)
        magic = data.find(MAGIC, at + _MAGIC_AT, len(data) - (HEADER_BYTES - _MAGIC_AT) + 1)
        if magic < 0:
            candidate += max(len(data) - at - HEADER_BYTES + 1, 1)
            continue
        candidate += magic - at - _MAGIC_AT
        if _is_batch(source, candidate, next_offset, limit):
            return candidate
        candidate += 1
    return source.size


def _is_batch(source: _Bytes, position: int, next_offset: int, limit: int) -> bool:
    data, at = source.at(position, HEADER_BYTES)
    try:
        header = read_header(data, at)
        if not next_offset <= header.base_offset < limit or header.size > source.size - position:
            return False
        source.batch(position)
    except BatchError:
        return False
    return True


def _put_in_order(
    walked: list[tuple[int, BatchHeader]],
    result: Survey,
    base_offset: int,
    bound: int | None,
    end_offset: int | None,
    has_gaps: bool,
) -> None:
    """Sets base offsets right that contradict the batches beside them; a batch that fits nowhere is damage."""
    next_offset = base_offset
    for number, (position, header) in enumerate(walked):
        following = [h.base_offset for _, h in walked[number + 1 : number + 3]] + ([] if bound is None else [bound])
        is_last = number + 1 == len(walked)
        packed = next_offset + header.last_offset_delta + 1  # where it would end without a gap before it
        if header.base_offset >= next_offset and not (following and header.last_offset >= following[0]):
            gap_expected = has_gaps or bool(result.damages)
            wrong = (
                is_last
                and bound is None
                and header.base_offset > next_offset
                and not _last_fits(header, base_offset, end_offset, gap_expected)
            )
        elif header.base_offset >= next_offset and not is_last:
            # Of two that overlap the first is wrong if it ends where the second begins once it is put without a gap, or
            # if it reaches beyond the second altogether.
            wrong = packed == following[0] or (len(following) > 1 and header.last_offset >= following[1])
        else:
            wrong = True
        if wrong:
            if following and packed != following[0]:
                problem = f"base offset {header.base_offset} does not fit between the batches beside it"
                result.damages.append(Damage(position, header.size, problem))
                continue
            result.restamped[position] = header
            header = header.at(next_offset)
        result.batches.append((position, header))
        next_offset = header.last_offset + 1


def _correct_epochs(result: Survey, epochs: LeaderEpochs) -> None:
    for number, epoch in epochs.corrected([header.leader_epoch for _, header in result.batches]).items():
        position, header = result.batches[number]
        result.restamped.setdefault(position, header)
        result.batches[number] = (position, header._replace(leader_epoch=epoch))


def _last_fits(header: BatchHeader, base_offset: int, end_offset: int | None, gap_expected: bool) -> bool:
    """For the log's last batch behind a gap: whether the log's end, or damage, explains the gap."""
    if end_offset is not None:
        return header.last_offset + 1 == end_offset
    return gap_expected and header.last_offset - base_offset < WIDEST


def before_damage(result: Survey, size: int) -> Survey:
    """The batches before the first damage, or the first batch with a wrong offset; the rest is one damage, but for zeros at its
    end."""
    right = dict(result.batches)
    wrong = [p for p, header in result.restamped.items() if header.base_offset != right[p].base_offset]
    start = min([*wrong, *(damage.position for damage in result.damages)], default=size)
    rest = [damage for damage in result.damages if damage.position >= start]
    if start == size:
        return result
    if len(rest) == 1 and rest[0].position == start and start + rest[0].size == size:
        whole = not rest[0].torn and not rest[0].zeros
        return Survey(result.batches, result.restamped, [*result.damages[:-1], replace(rest[0], doubts_rest=whole)])
    zeros = rest[-1:] if rest and rest[-1].zeros else []
    end = zeros[0].position if zeros else size
    problem = (
        rest[0].problem if rest and rest[0].position == start else "its base offset contradicts the batches beside it"
    )
    batches = [(position, header) for position, header in result.batches if position < start]
    restamped = {position: header for position, header in result.restamped.items() if position < start}
    return Survey(batches, restamped, [Damage(start, end - start, problem, doubts_rest=True), *zeros])
