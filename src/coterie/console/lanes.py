"""A group's timeline in a terminal: a lane of letters for each partition or member, in the colours of their owners.

A letter is an owner; `·` unowned, `×` its owner was dead and not detected, a space no owner as the group had no members. Above
the lanes stand the rebalances: the generation where one begins, `▒` while members join, `▓` at the assignment. Letters say what
colours say, for terminals without them. A column shows what holds in the middle of its time.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from coterie.console.tables import ShortIds
from coterie.console.terminal import text_of
from coterie.coordinator.journal.timeline import Band, Timeline
from coterie.text.hidden import visible
from coterie.text.quantity import span

if TYPE_CHECKING:
    from rich.text import Text

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
# 256-colour numbers near those of timeline.css.
COLOURS = (32, 214, 36, 175, 74, 166, 185, 246, 125, 28, 130)
UNOWNED, DEAD, NOBODY, SOME_OTHER = "·", "×", " ", "?"
JOINING, ASSIGNING = "▒", "▓"
CLASSIC_PHASES, CONSUMER_PHASES = ("members join", "assignment"), ("target assignment", "members reconcile")
RECENT_BANDS, LEAST_SHOWN_MS, NAME_WIDTH = 5, 60_000, 24
LEAST_COLUMNS = 20
LINES_BESIDE = 8  # of a drawing: above and below its lanes, and the empty one


class ShownTime(NamedTuple):
    """The time that is shown, in ms, and how many columns it has."""

    from_ms: int
    until_ms: int
    columns: int

    def column(self, time_ms: float) -> int:
        """That of a time, before the first and behind the last too."""
        return int((time_ms - self.from_ms) * self.columns // max(self.until_ms - self.from_ms, 1))

    def middle_ms(self, column: int) -> float:
        return self.from_ms + (self.until_ms - self.from_ms) * (column + 0.5) / self.columns


def recent_ms(timeline: Timeline, now_ms: int) -> int:
    """How long ago the last rebalances began, at least a minute, and no longer than the timeline."""
    bands = timeline.rebalances[-RECENT_BANDS:]
    since_ms = bands[0].from_ms if bands else now_ms
    begin_ms = now_ms if timeline.begin_ms is None else timeline.begin_ms
    return min(max(now_ms - since_ms, LEAST_SHOWN_MS), max(now_ms - begin_ms, 1000))


def lanes(
    timeline: Timeline, now_ms: int, width: int, rows: int, *, by_member: bool | None = None, last_ms: int | None = None
) -> list[Text]:
    """The lines of the drawing in ``width`` columns, at most ``rows`` of them lanes. ``by_member`` None: where there are more
    partitions than rows; ``last_ms``: the time shown, until now."""
    by_member = len(timeline.lanes) > rows if by_member is None else by_member
    short = ShortIds(timeline.owners)
    owners = [visible(short(owner)).removesuffix("-…").removesuffix("…") for owner in timeline.owners]
    names = owners if by_member else [visible(f"{topic}-{number}") for topic, number in timeline.lanes]
    order = list(range(len(names))) if by_member else sorted(range(len(names)), key=timeline.lanes.__getitem__)
    shown = order[:rows]
    label = min(max([len(names[lane]) for lane in shown] + [4]), max(min(NAME_WIDTH, width // 4), 4))
    columns = max(width - label - 1, LEAST_COLUMNS)
    window = ShownTime(now_ms - (recent_ms(timeline, now_ms) if last_ms is None else last_ms), now_ms, columns)
    letters = owner_letters(owners)
    lines = [*_head(timeline, window, label)]
    cells = _shares(timeline, window) if by_member else _owned(timeline, window, letters)
    for lane in shown:
        name = names[lane] if len(names[lane]) <= label else f"…{names[lane][1 - label :]}"
        line = text_of(f"{name:>{label}} ")
        colour = {letters[lane]: lane} if by_member else {letter: n for n, letter in enumerate(letters)}
        lines.append(_painted(line, cells[lane], colour, lane if by_member else None))
    if len(order) > len(shown):
        lines.append(text_of(f"{'':{label}} and {len(order) - len(shown):,} more"))
    is_of_consumers = bool(timeline.rebalances) and timeline.rebalances[-1].phases[0].state == "Assigning"  # KIP-848
    lines += _legend(owners, letters, width, CONSUMER_PHASES if is_of_consumers else CLASSIC_PHASES)
    if timeline.rebalances:
        band = timeline.rebalances[-1]
        lines.append(text_of(ShortIds([band.why])(band_text(band, now_ms))[: 2 * width]))
    return lines


def band_text(band: Band, now_ms: int) -> str:
    """``generation 5 since 12:40:47, 3.2 s: ben-… was silent for its session timeout``."""
    lasts = "takes" if band.until_ms is None else "took"
    took = span((now_ms if band.until_ms is None else band.until_ms) - band.from_ms)
    return (
        f"generation {band.generation} at {_clock(band.from_ms)} {lasts} {took}: {band.why or 'the cause is unknown'}"
    )


def owner_letters(owners: Sequence[str]) -> list[str]:
    """The first letter of each name, or the next that is free; of the others `?`."""
    free, chosen = list(LETTERS), list[str]()
    for owner in owners:
        letter = next((c for c in owner.lower()[:1] + owner.upper()[:1] if c in free), free[0] if free else SOME_OTHER)
        if letter in free:
            free.remove(letter)
        chosen.append(letter)
    return chosen


def _owned(timeline: Timeline, window: ShownTime, letters: Sequence[str]) -> list[str]:
    """Of each lane its columns."""
    cells = [[NOBODY] * window.columns for _ in timeline.lanes]
    for spell in timeline.owned:
        for column in _columns(window, spell.from_ms, spell.until_ms):
            cells[spell.lane][column] = letters[spell.owner]
    for ranges, since_ms, detected_ms, until_ms in timeline.unowned:
        dead, unowned = _columns(window, since_ms, detected_ms), _columns(window, detected_ms, until_ms)
        for first, last in zip(ranges[::2], ranges[1::2], strict=True) if dead or unowned else ():
            for lane in range(first, last + 1):
                for column in dead:
                    cells[lane][column] = DEAD
                for column in unowned:
                    cells[lane][column] = UNOWNED
    for partition, since_ms in timeline.waiting.items():
        for column in _columns(window, since_ms, None):
            cells[timeline.lane(partition)][column] = UNOWNED
    return ["".join(row) for row in cells]


def _columns(window: ShownTime, from_ms: int, until_ms: int | None) -> range:
    """Those whose middle is in that time; the last one also if it lasts."""
    first = window.column(from_ms)
    first += window.middle_ms(first) < from_ms
    if until_ms is None:
        return range(max(min(first, window.columns - 1), 0), window.columns)
    last = window.column(until_ms)
    last += window.middle_ms(last) < until_ms
    return range(max(first, 0), min(last, window.columns))


def _shares(timeline: Timeline, window: ShownTime) -> list[str]:
    """Of each owner how many partitions are assigned to it."""
    counts = [[0] * window.columns for _ in timeline.owners]
    for spell in timeline.owned:
        for column in _columns(window, spell.from_ms, spell.until_ms):
            counts[spell.owner][column] += 1
    return [_counted(row) for row in counts]


def _counted(counts: Sequence[int]) -> str:
    """`12─────8──`: a count where it changes, as far as there is room for it."""
    cells, last = list[str](), 0
    for column, count in enumerate(counts):
        if count != last:
            lasting = next((n for n, other in enumerate(counts[column:]) if other != count), len(counts) - column)
            text = str(count) if count and len(str(count)) < lasting else ""
            cells[column:] = text.ljust(lasting, "─" if count else NOBODY)[:lasting]
            last = count
        elif len(cells) <= column:
            cells.append("─" if count else NOBODY)
    return "".join(cells)


def _head(timeline: Timeline, window: ShownTime, label: int) -> list[Text]:
    """The times at both ends, the generations, and the bands."""
    begin, end = _clock(window.from_ms), _clock(window.until_ms)
    times = f"{begin}{end:>{max(window.columns - len(begin), 0)}}"
    numbers, bands = [" "] * window.columns, [" "] * window.columns
    free = 0
    for band in timeline.rebalances:
        if band.until_ms is not None and band.until_ms < window.from_ms:
            continue
        for number, (_, from_ms, until_ms) in enumerate(band.phases):
            first, last = window.column(from_ms), window.column(window.until_ms if until_ms is None else until_ms)
            for column in range(max(first, 0), min(max(last, first + (number == 0)), window.columns)):
                bands[column] = ASSIGNING if number else JOINING
        first, text = window.column(band.from_ms), str(band.generation)
        if free <= first <= window.columns - len(text):
            numbers[first : first + len(text)] = text
            free = first + len(text) + 1
    margin = " " * (label + 1)
    phases = text_of(margin + "".join(bands))
    phases.highlight_regex(JOINING + "+", "red")
    phases.highlight_regex(ASSIGNING + "+", "magenta")
    return [text_of(margin + times, "dim"), text_of(margin + "".join(numbers), "bold"), phases]


def _painted(line: Text, cells: str, colour: dict[str, int], owner: int | None) -> Text:
    """The cells behind the label, in the colours of their letters; of a member all in its own."""
    begin = 0
    for end in range(1, len(cells) + 1):
        if end < len(cells) and cells[end] == cells[begin] and owner is None:
            continue
        letter = cells[begin]
        number = owner if owner is not None and letter != NOBODY else colour.get(letter)
        style = "dim" if letter == UNOWNED else "bold red" if letter == DEAD else ""
        if number is not None:
            style = f"black on color({COLOURS[number % len(COLOURS)]})"
        line.append(cells[begin:end], style)
        begin = end
    return line


def _legend(owners: Sequence[str], letters: Sequence[str], width: int, phases: tuple[str, str]) -> list[Text]:
    line = text_of("")
    for number, (owner, letter) in enumerate(zip(owners, letters, strict=True)):
        name = owner if len(owner) <= NAME_WIDTH else f"{owner[: NAME_WIDTH - 1]}…"
        more = f"and {len(owners) - number} more"
        if len(line) + len(name) + len(more) + 4 > width:
            line.append(more)
            break
        line.append(letter, f"black on color({COLOURS[number % len(COLOURS)]})")
        line.append_text(text_of(f" {name}  "))
    signs = f"{UNOWNED} unowned  {DEAD} owner dead, not detected  {JOINING} {phases[0]}  {ASSIGNING} {phases[1]}"
    return [line, text_of(signs[:width], "dim")]


def _clock(time_ms: int) -> str:
    return datetime.datetime.fromtimestamp(time_ms / 1000).strftime("%H:%M:%S")
