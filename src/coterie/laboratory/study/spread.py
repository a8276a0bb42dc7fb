"""Many runs side by side, and what each measure spread over: the same seeds give the same table on every machine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

from coterie.laboratory.churn import MembershipChange
from coterie.laboratory.study.questions import TRACES, Point, StudyRow, points, run_point

Traces = tuple[tuple[str, tuple[MembershipChange, ...]], ...]
DECIMALS = 3


@dataclass(frozen=True, slots=True)
class Study:
    """The runs of a study. ``questions``: only these; all if empty."""

    seeds: int
    largest: int
    questions: tuple[int, ...] = ()
    traces: Traces = ()

    def points(self) -> list[Point]:
        return list(_points(self))

    def jobs(self, done: Iterable[StudyRow] = ()) -> list[tuple[int, int]]:
        """(point, seed), without the runs that are done; the largest groups first, so that no worker ends with one of them."""
        points, keys = self.points(), {(*_key(row), row.seed) for row in done}
        jobs = [(index, seed) for index, point in enumerate(points) for seed in range(point.seeds)]
        jobs = [(index, seed) for index, seed in jobs if (*_point_key(points[index]), seed) not in keys]
        return sorted(jobs, key=lambda job: -points[job[0]].members)

    def of(self, rows: Iterable[StudyRow]) -> list[StudyRow]:
        """Those rows that are runs of this study."""
        seeds = {_point_key(point): point.seeds for point in self.points()}
        return [row for row in rows if row.seed < seeds.get(_key(row), 0)]


@lru_cache(maxsize=4)
def _points(study: Study) -> tuple[Point, ...]:
    every = points(study.seeds, study.largest, dict(study.traces))
    requested = {*study.questions, TRACES}  # a trace is always run
    return tuple(p for p in every if not study.questions or p.question in requested)


def run_job(study: Study, job: tuple[int, int]) -> StudyRow:
    """In any process: a job is a number, since the points of a study are the same everywhere."""
    index, seed = job
    return run_point(study.points()[index], seed)


@dataclass(frozen=True, slots=True)
class Cell:
    """A point of the study over its seeds: of each measure mean, lowest, highest."""

    question: int
    workload: str
    setting: str
    members: int
    seeds: int
    measures: dict[str, tuple[float, float, float]]

    def mean(self, measure: str) -> float:
        return self.measures[measure][0]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Cell:
        return cls(**{**fields, "measures": {name: tuple(spread) for name, spread in fields["measures"].items()}})


def summarise(rows: Iterable[StudyRow]) -> list[Cell]:
    """In the order in which the points first come by name."""
    cells: dict[tuple[int, str, str, int], list[StudyRow]] = {}
    for row in sorted(rows, key=lambda row: row.seed):
        cells.setdefault(_key(row), []).append(row)
    return [_cell(same) for same in cells.values()]


def ordered(study: Study, cells: Iterable[Cell]) -> list[Cell]:
    """The cells in the order of the study's points."""
    index = {_point_key(point): n for n, point in enumerate(study.points())}
    return sorted(cells, key=lambda c: index[_key(c)])


def _key(of: StudyRow | Cell) -> tuple[int, str, str, int]:
    return of.question, of.workload, of.setting, of.members


def _point_key(point: Point) -> tuple[int, str, str, int]:
    return point.question, point.workload, point.setting.name, point.members


def _cell(rows: Sequence[StudyRow]) -> Cell:
    first = rows[0]
    caused = [_with_caused(row.measures) for row in rows]
    measures = {
        name: (
            round(sum(m[name] for m in caused) / len(caused), DECIMALS),
            round(min(m[name] for m in caused), DECIMALS),
            round(max(m[name] for m in caused), DECIMALS),
        )
        for name in caused[0]
    }
    return Cell(first.question, first.workload, first.setting, first.members, len(rows), measures)


def _with_caused(measures: dict[str, float]) -> dict[str, float]:
    """``caused``: messages beyond what the group sends at rest."""
    at_rest = measures["idle_per_s"] * measures["duration_s"]
    return measures | {"caused": max(measures["messages"] - at_rest, 0.0)}
