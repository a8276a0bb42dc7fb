"""The rows of the list of groups, with what changed since a reader last looked, and the marks of a group: what a reader
should look at first. No clock, no IO."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Final, TypedDict

from coterie.coordinator.journal.line import JournalLine

REMOVED_KEPT = 10_000
# mark -> its meaning; the texts of the page are those of `mark.NAME` in texts.json.
MARKS: Final = {
    "waits": "a rebalance has been under way for over a second",
    "flaps": "three rebalances or more in five minutes",
    "stalls": "a partition has lag, and its committed offset has not moved for a minute",
    "lost": "the group has no coordinator",
}
WAITS_AFTER_MS = 1_000
FLAPS_WITHIN_MS, FLAPS_AT = 5 * 60_000, 3
REBALANCES = frozenset({"stable", "empty", "epoch_raised"})  # the events that end one, or stand for it
SETTLED = frozenset({"Stable", "Empty", "Dead", ""})


class LiveRow(TypedDict):
    """A group in the list. ``kind``: classic, consumer (KIP-848), share, streams, simple (only commits), or a protocol type
    such as connect. ``members``, ``generation`` (of a consumer group its epoch) and ``lag`` (records) are null where they are
    not known; ``since_ms``: when it came into its state, as far as that was seen; ``course``: its lag at the last looks, oldest
    first (`GroupCourse.lags`). ``rebalance_ms``, ``causes`` and ``more_causes``: the time and the first causes of its last
    rebalance, as a line of the journal has them, and how many more there are. ``marks``: of `MARKS`."""

    group: str
    kind: str
    state: str
    members: int | None
    generation: int | None
    lag: int | None
    course: list[int]
    since_ms: int | None
    rebalance_ms: int | None
    causes: list[dict[str, str]]
    more_causes: int
    marks: list[str]


class LiveRows:
    """By group, in the order of their last change. A reader keeps the ``revision`` that it has seen."""

    def __init__(self) -> None:
        self.revision = 0
        self._rows: OrderedDict[str, tuple[int, LiveRow, str]] = OrderedDict()
        self._removed: OrderedDict[str, int] = OrderedDict()
        self._forgotten = 0  # the newest revision of a removal that is no longer kept

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, group: str) -> bool:
        return group in self._rows

    def get(self, group: str) -> LiveRow | None:
        """None where there is no such group."""
        kept = self._rows.get(group)
        return None if kept is None else kept[1]

    def put(self, row: LiveRow) -> None:
        """A row that is the same as before changes nothing."""
        kept = self._rows.get(row["group"])
        if kept is not None and kept[1] == row:
            return
        self.revision += 1
        self._rows[row["group"]] = (self.revision, row, json.dumps(row, separators=(",", ":")))
        self._rows.move_to_end(row["group"])
        self._removed.pop(row["group"], None)

    def remove(self, group: str) -> None:
        """A group that is not there is passed over."""
        if self._rows.pop(group, None) is None:
            return
        self.revision += 1
        self._removed[group] = self.revision
        self._removed.move_to_end(group)
        while len(self._removed) > REMOVED_KEPT:
            self._forgotten = self._removed.popitem(last=False)[1]

    def changes(self, revision: int) -> str | None:
        """The data of an event `rows` with all that is newer; None where nothing is. Revision 0, or one whose removals are no
        longer known: every row."""
        is_whole = revision == 0 or revision < self._forgotten or revision > self.revision
        if not is_whole and revision == self.revision:
            return None
        rows = ",".join(text for _, _, text in self._newer(0 if is_whole else revision))
        removed: list[str] = [] if is_whole else [group for group, at in self._removed.items() if at > revision]
        reset = "true" if is_whole else "false"
        return f'{{"reset":{reset},"rows":[{rows}],"removed":{json.dumps(removed)}}}'

    def _newer(self, revision: int) -> Iterator[tuple[int, LiveRow, str]]:
        for kept in reversed(self._rows.values()):
            if kept[0] <= revision:
                break
            yield kept


def marks(
    state: str, in_state_ms: int | None, rebalances_ms: Sequence[int], now_ms: int, *, stalls: bool, is_lost: bool
) -> list[str]:
    """The marks of a group; ``rebalances_ms``: when its last rebalances were."""
    recent = sum(1 for at in rebalances_ms if now_ms - at < FLAPS_WITHIN_MS)
    rules = {
        "waits": state not in SETTLED and (in_state_ms or 0) >= WAITS_AFTER_MS,
        "flaps": recent >= FLAPS_AT,
        "stalls": stalls,
        "lost": is_lost,
    }
    return [mark for mark in MARKS if rules[mark]]


def is_rebalance(line: JournalLine) -> bool:
    """Whether the line stands for a whole rebalance, with its causes."""
    return line.event in REBALANCES
