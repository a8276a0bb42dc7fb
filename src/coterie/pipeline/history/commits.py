"""Progress by commits: which ones count, how regular they are, where they paused, and the lag. Frame -> Frame."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from coterie.pipeline.history.tables import CADENCE, LAG, STALLS
from coterie.pipeline.tables.frame import Frame, arrow_schema, column_names
from coterie.records.arrow_arrays import batch_of_rows, flag_array, numbers_of, table_of_rows, valid_of

Row = dict[str, Any]
STALL_FACTOR = 10  # a pause is a stall when it is so many times the median interval
STALL_AT_LEAST_MS = 30_000
KEYS = ["group", "topic", "partition"]
# What is counted of a commit; the offset is null for a deletion.
COUNTED = "group string, topic string, partition int, offset bigint, commit_ms bigint, log_offset bigint"
_IN_TRANSACTIONS = f"{COUNTED}, producer_id bigint, log_partition int"
_MARKERS = "producer_id bigint, committed boolean, log_partition int, log_offset bigint"


def counting(commits: Frame, group_log: Frame) -> Frame:
    """COMMITS, GROUP_LOG -> COUNTED: without those of transactions that were aborted or are still open. A commit within a
    transaction counts if the next marker of its producer in the same log partition is a commit."""

    def run(pending: Any, markers: Any) -> Any:
        return pending.filter(flag_array(_decided(pending, markers))).select(column_names(COUNTED))

    pending = commits.where_null("producer_id", is_null=False).select(_IN_TRANSACTIONS)
    markers = group_log.where("kind", "marker").select(_MARKERS)
    ended = pending.cogroup(markers, "log_partition", run, COUNTED)
    return commits.where_null("producer_id").select(COUNTED).union(ended)


def _decided(pending: Any, markers: Any) -> Any:
    """Which of the commits count, as a numpy array of bool."""
    import numpy as np

    ends: dict[int, tuple[list[int], list[bool]]] = {}
    for marker in markers.sort_by("log_offset").to_pylist():
        offsets, verdicts = ends.setdefault(marker["producer_id"], ([], []))
        offsets.append(marker["log_offset"])
        verdicts.append(marker["committed"])

    def counts(producer_id: int, log_offset: int) -> bool:
        offsets, verdicts = ends.get(producer_id, ([], []))
        index = bisect(offsets, log_offset)
        return index < len(offsets) and verdicts[index]

    commits = zip(numbers_of(pending["producer_id"]).tolist(), numbers_of(pending["log_offset"]).tolist(), strict=True)
    return np.fromiter((counts(*commit) for commit in commits), bool, len(pending))


@dataclass(frozen=True, slots=True)
class Grid:
    """Times at equal distances, the last at or after the last commit."""

    first_ms: int
    step_ms: int
    count: int

    @classmethod
    def over(cls, first_ms: int, last_ms: int, count: int) -> Grid:
        """So many times, from the first commit on."""
        return cls(first_ms, max(1, -(-(last_ms - first_ms) // (count - 1))), count)

    def times_ms(self) -> list[int]:
        """The points in time, ascending."""
        return [self.first_ms + n * self.step_ms for n in range(self.count)]


# One row per partition of a group: CADENCE, null where there is no commit but deletions; its stalls, and the offset at each
# time of the grid since its first record, as arrays.
PROGRESS = (
    f"{CADENCE}, stall_from_ms array<bigint>, stall_until_ms array<bigint>, stall_offset array<bigint>, "
    "stall_moved array<bigint>, times_ms array<bigint>, committed array<bigint>"
)
_STALL = ("from_ms", "until_ms", "offset", "moved")


def progress(commits: Frame, grid: Grid | None) -> Frame:
    """COUNTED -> PROGRESS. A group's commits all stand in one log partition, so that the log's offset alone is their order.
    A partition's commits come to one task together, 24 bytes each. ``grid``: None where there is no commit."""

    def run(key: tuple[Any, ...], table: Any) -> Any:
        ordered = table.sort_by("log_offset")
        commit_ms, offset = numbers_of(ordered["commit_ms"]), numbers_of(ordered["offset"])
        made = valid_of(ordered["offset"].combine_chunks())
        row: Row = dict(zip(KEYS, key, strict=True))
        row |= _by_time(commit_ms, offset, made, grid) if grid is not None else {"times_ms": [], "committed": []}
        if made.any():
            row |= _progress(commit_ms[made], offset[made])
        return table_of_rows([row], arrow_schema(PROGRESS))

    return commits.group(KEYS, run, PROGRESS)


def _progress(commit_ms: Any, offset: Any) -> Row:
    """One partition's commits in the order of the log."""
    import numpy as np

    pauses: Any = np.diff(commit_ms)
    seconds = float(commit_ms.max() - commit_ms.min()) / 1000
    median, p95 = np.percentile(pauses, [50, 95]).tolist() if pauses.size else (None, None)
    # Commits of one unchanged offset are one pause.
    steps: Any = np.concatenate(([0], np.nonzero(np.diff(offset))[0] + 1))
    stalled_ms = np.diff(commit_ms[steps])
    long = np.nonzero((stalled_ms >= STALL_AT_LEAST_MS) & (stalled_ms >= STALL_FACTOR * (median or 0)))[0]
    return {
        "commits": len(offset),
        "first_ms": int(commit_ms.min()),
        "last_ms": int(commit_ms.max()),
        "mean_interval_ms": float(pauses.mean()) if pauses.size else None,
        "median_interval_ms": median,
        "p95_interval_ms": p95,
        "longest_interval_ms": int(pauses.max()) if pauses.size else None,
        "first_offset": int(offset[0]),
        "last_offset": int(offset[-1]),
        "records_per_s": float(offset[-1] - offset[0]) / seconds if seconds else None,
        "stall_from_ms": commit_ms[steps[long]].tolist(),
        "stall_until_ms": commit_ms[steps[long + 1]].tolist(),
        "stall_offset": offset[steps[long]].tolist(),
        "stall_moved": (offset[steps[long + 1]] - offset[steps[long]]).tolist(),
    }


def _by_time(commit_ms: Any, offset: Any, made: Any, grid: Grid) -> Row:
    """The newest offset at each time of the grid; null once it was deleted (``made`` False)."""
    import numpy as np

    late: Any = np.maximum(commit_ms - grid.first_ms, 0)
    step: Any = -(-late // grid.step_ms)  # a commit counts from the first time at or after it
    by_step: Any = np.argsort(step, kind="stable")  # within a step as in the log
    newest: Any = np.searchsorted(step[by_step], np.arange(grid.count), "right") - 1
    known = newest >= 0
    rows = by_step[newest[known]]
    times_ms: Any = grid.first_ms + np.nonzero(known)[0] * grid.step_ms
    committed = [o if there else None for o, there in zip(offset[rows].tolist(), made[rows].tolist(), strict=True)]
    return {"times_ms": times_ms.tolist(), "committed": committed}


def cadence(progress: Frame) -> Frame:
    """PROGRESS -> CADENCE."""
    return progress.where_null("commits", is_null=False).select(CADENCE)


def stalls(progress: Frame) -> Frame:
    """PROGRESS -> STALLS: pauses of at least half a minute and ten times the partition's median."""
    return _unfolded(progress.where_null("commits", is_null=False), _stalls_of, STALLS)


def _stalls_of(row: Row) -> Iterator[Row]:
    of_partition = {name: row[name] for name in (*KEYS, "median_interval_ms")}
    for values in zip(*(row[f"stall_{name}"] for name in _STALL), strict=True):
        stall = dict(zip(_STALL, values, strict=True))
        yield of_partition | stall | {"pause_ms": stall["until_ms"] - stall["from_ms"]}


EndOffsets = Mapping[tuple[str, int, int], int]  # by topic, partition, and time in ms


def lag(progress: Frame, ends: EndOffsets) -> Frame:
    """PROGRESS -> LAG: at the times of its grid."""

    def lag_of(row: Row) -> Iterator[Row]:
        for time_ms, committed in zip(row["times_ms"], row["committed"], strict=True):
            end = ends.get((row["topic"], row["partition"], time_ms))
            behind = None if end is None or committed is None else max(end - committed, 0)
            of_time = {"time_ms": time_ms, "committed": committed, "end_offset": end, "lag": behind}
            yield {name: row[name] for name in KEYS} | of_time

    return _unfolded(progress, lag_of, LAG)


def _unfolded(frame: Frame, rows_of: Callable[[Row], Iterator[Row]], schema: str) -> Frame:
    def run(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            rows: Sequence[Row] = [made for row in batch.to_pylist() for made in rows_of(row)]
            yield batch_of_rows(rows, arrow_schema(schema))

    return frame.map(run, schema)
