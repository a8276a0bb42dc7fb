"""Tables in the width of a terminal: ids without their UUIDs, the date once, short headers, and at last the last column folded.

Away from a terminal nothing is shortened or folded, so that `grep` and `awk` find what there is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

UUID = re.compile(r"([^\s,;:()]*?)([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})")
UUID_PART = 4  # of two ids that begin alike
DATED = re.compile(r"(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d(?:\.\d+)?)")
LEAST = 10  # columns of the last one; where fewer are left, another that is wider than FOLDED_FROM is folded too
FOLDED_FROM = 20
# Headers that are longer than what stands below them, in the form that takes less width.
NARROW = {
    "ADDING": "ADD-\nING",
    "ASSIGNOR": "ASSIGN-\nOR",
    "COMMITTED": "COMMIT-\nTED",
    "COORDINATOR": "COORDI-\nNATOR",
    "EVERY PARTITION OWNED": "ALL\nOWNED",
    "GENERATION": "GEN",
    "LAST FETCH": "LAST\nFETCH",
    "LAST HEARD": "LAST\nHEARD",
    "MEMBERS": "MEM-\nBERS",
    "MEMBERS PAUSED": "MEMBERS\nPAUSED",
    "PARTITION": "PARTI-\nTION",
    "PARTITIONS": "PARTI-\nTIONS",
    "REBALANCES": "REBAL-\nANCES",
    "REMOVING": "REMOV-\nING",
    "REPLICAS": "REPLI-\nCAS",
    "SESSION LEFT": "SESSION\nLEFT",
    "UNDER-REPLICATED": "UNDER-\nREPLI-\nCATED",
    "UNOWNED": "UN-\nOWNED",
    "UNOWNED TIME": "UNOWNED\nTIME",
    "ZOOKEEPER": "ZOO-\nKEEPER",
}


class ShortIds:
    """Member ids and the like without their UUIDs, as far as they are unique in ``texts``: `anna-…`, or `anna-3f2c…` where
    there are two annas."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._uuids: dict[str, set[str]] = {}
        for text in texts:
            for match in UUID.finditer(text):
                self._uuids.setdefault(match[1], set()).add(match[2])

    def __call__(self, text: str) -> str:
        return UUID.sub(lambda match: f"{match[1]}{self._part(match[1], match[2])}…", text)

    def _part(self, prefix: str, uuid: str) -> str:
        others = self._uuids.get(prefix, set()) - {uuid}
        if prefix and not others:
            return ""
        return next(
            uuid[:length]
            for length in range(UUID_PART, len(uuid) + 1)
            if not any(other.startswith(uuid[:length]) for other in others)
        )


class Lines(NamedTuple):
    """A table as text, without trailing spaces."""

    headers: list[str]
    body: list[str]


def table_lines(
    headers: Sequence[str],
    rows: Sequence[Sequence[str]],
    width: int | None,
    brief: Callable[[str], str] = str,
) -> Lines:
    """The table in so many columns; None for as many as it takes, with nothing shortened. ``brief``: a cell of the last column
    in fewer words, before it is folded."""
    if width is None:
        return _lines(headers, rows, _widths([headers, *rows]), 2)
    short = ShortIds(cell for row in rows for cell in row)
    cells = _with_date_rows([[short(cell) for cell in row] for row in rows])
    narrow = [NARROW.get(header, header) for header in headers]
    widths = _widths([headers, *cells])
    for heads, gap in ((headers, 2), (narrow, 2), (narrow, 1)):
        widths = _widths([heads, *cells])
        if sum(widths) + gap * (len(widths) - 1) <= width:
            return _lines(heads, cells, widths, gap)
    cells = [[*row[:-1], brief(row[-1])] if len(row) == len(headers) else row for row in cells]
    return _lines(narrow, cells, _folded(_widths([narrow, *cells]), width), 1)


def _folded(widths: list[int], width: int) -> list[int]:
    """The last column takes what is left; where that is too little, the widest of the others give some."""
    room, least = width - (len(widths) - 1), min(widths[-1], LEAST)
    from_width = min(FOLDED_FROM, room // len(widths))
    while room - sum(widths[:-1]) < least and max(widths[:-1], default=0) > from_width:
        widths[widths.index(max(widths[:-1]))] -= 1
    return [*widths[:-1], max(room - sum(widths[:-1]), 1)]


def _with_date_rows(rows: list[list[str]]) -> list[list[str]]:
    """A first column of dates and times as times alone, with a row for each date."""
    if not rows or not all(DATED.fullmatch(row[0]) for row in rows):
        return rows
    dated: list[list[str]] = []
    date = ""
    for first, *others in rows:
        today, _, time = first.partition(" ")
        if today != date:
            dated.append([today])
        date = today
        dated.append([time, *others])
    return dated


def _widths(rows: Sequence[Sequence[str]]) -> list[int]:
    from rich.cells import cell_len

    widths = [0] * max(map(len, rows))
    for row in rows:
        for index, cell in enumerate(row):
            widths[index] = max(widths[index], *map(cell_len, cell.split("\n")))
    return widths


def _lines(headers: Sequence[str], rows: Sequence[Sequence[str]], widths: list[int], gap: int) -> Lines:
    heads = [header.split("\n") for header in headers]
    above = max(map(len, heads), default=0)
    padded = [[""] * (above - len(lines)) + lines for lines in heads]  # the last line of each stands on the cells
    return Lines(
        _joined(padded, widths, gap),
        [
            line
            for row in rows
            for line in _joined([_folds(c, w) for c, w in zip(row, widths, strict=False)], widths, gap)
        ],
    )


def _joined(cells: Sequence[list[str]], widths: Sequence[int], gap: int) -> list[str]:
    """The lines of one row, whose cells have several."""
    from rich.cells import set_cell_size

    lines = []
    for number in range(max(map(len, cells), default=0)):
        parts = [cell[number] if number < len(cell) else "" for cell in cells]
        line = (" " * gap).join(set_cell_size(part, width) for part, width in zip(parts, widths, strict=False))
        lines.append(line.rstrip())
    return lines


def _folds(cell: str, width: int) -> list[str]:
    """The cell in lines of at most ``width`` columns, between words where that is possible."""
    from rich.cells import cell_len, chop_cells

    lines = [""]
    for word in cell.split(" "):
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        if cell_len(joined) <= width:
            lines[-1] = joined
            continue
        pieces = chop_cells(word, width) if cell_len(word) > width else [word]
        lines = [*lines, *pieces] if lines[-1] else pieces if len(lines) == 1 else [*lines[:-1], *pieces]
    return lines
