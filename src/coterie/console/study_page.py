"""The study as a page: the answers in a sentence each, one summary table, then each question with its details, pictures and
table, and the method at the end.

The page is a function of the study's cells and of the points measured with real processes; its texts take their figures from
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from coterie.console.growth_chart import Growth, growth_chart
from coterie.console.study_answers import study_answer, text
from coterie.console.svg import Spread, small_multiples
from coterie.laboratory.study.questions import SIZES
from coterie.laboratory.study.spread import Cell

TITLES = {
    1: "Does a rebalance block consumption, for how long, and for whom?",
    2: "Which changes of the join protocol really reduce rebalances, and by how much?",
    3: "What are Kafka's and RocketMQ's rebalance each better and worse at?",
    4: "How do the timeouts trade detection time for false alarms?",
    5: "How does each grow with members and partitions?",
    6: "Is a rebalance of the consumer protocol twenty times as fast?",
    7: "The same protocols on churn traces",
}

# Measure -> heading and unit.
MEASURES = {
    "rebalances": ("rebalances", ""),
    "pause_s": ("pause per member", "s"),
    "paused_members": ("members paused", ""),
    "unowned_s": ("unowned per partition", "s"),
    "longest_unowned_s": ("longest unowned", "s"),
    "doubled_s": ("two readers per partition", "s"),
    "duplicates": ("duplicates", ""),
    "moved": ("partitions moved", ""),
    "agree_s": ("time to converge", "s"),
    "caused": ("messages beyond rest", ""),
    "messages": ("messages", ""),
    "kilobytes": ("kB", ""),
    "busiest_per_s": ("busiest second", "messages"),
    "idle_per_s": ("at rest", "messages/s"),
    "detection_s": ("detection", "s"),
    "false_alarms": ("false alarms", ""),
    "gave_up": ("gave up", ""),
}
COLUMNS = {
    1: ("pause_s", "paused_members", "unowned_s", "longest_unowned_s", "duplicates", "moved", "agree_s"),
    2: ("rebalances", "unowned_s", "pause_s", "moved", "duplicates", "false_alarms"),
    3: ("duplicates", "doubled_s", "unowned_s", "agree_s", "pause_s", "caused", "kilobytes", "busiest_per_s"),
    4: ("detection_s", "false_alarms", "rebalances", "unowned_s", "pause_s", "duplicates", "idle_per_s"),
    5: ("caused", "kilobytes", "agree_s", "unowned_s", "busiest_per_s", "idle_per_s", "gave_up"),
    6: ("agree_s", "unowned_s", "longest_unowned_s", "pause_s", "rebalances", "moved", "messages", "kilobytes"),
    7: ("rebalances", "unowned_s", "pause_s", "moved", "duplicates", "messages", "detection_s", "gave_up"),
}
# Each has one colour in all pictures; yellow, which is faint as a line, is for one that is in no line chart.
COLOURED = (
    "eager",
    "cooperative",
    "static",
    "static, cooperative",
    "ZooKeeper",
    "consumer",
    "static, consumer",
    "RocketMQ",
    "RocketMQ, orderly",
    "streams",
)
# The steps of question 2 that are a protocol of the other questions.
STEPS = {
    "+ initial delay 3 s": "eager",
    "+ cooperative": "cooperative",
    "+ static (eager)": "static",
    "+ static, cooperative": "static, cooperative",
}
EACH_BY_ITSELF = frozenset({"ZooKeeper", "RocketMQ", "RocketMQ, orderly"})  # rebalances of these are not the group's
PANELS = {
    1: ("pause_s", "unowned_s"),
    2: ("rebalances", "unowned_s"),
    3: ("duplicates", "unowned_s"),
    4: ("detection_s", "false_alarms", "unowned_s", "duplicates"),
    6: ("agree_s", "unowned_s"),
    7: ("unowned_s", "duplicates"),
}
GROWING = {
    "caused": "messages",
    "kilobytes": "kB",
    "agree_s": "seconds",
    "busiest_per_s": "messages in a second",
}


@dataclass(frozen=True, slots=True)
class RealPoint:
    """One point of a protocol, measured with real processes beside the laboratory's."""

    protocol: str
    what: str
    measure: str
    unit: str
    real: float
    real_low: float
    real_high: float
    runs: int
    simulated: float
    simulated_low: float
    simulated_high: float
    note: str = ""


def pictures(cells: Sequence[Cell]) -> dict[str, str]:
    """File name without its ending -> SVG."""
    drawn: dict[str, str] = {}
    for question, measures in PANELS.items():
        mine = [c for c in cells if c.question == question]
        if mine and question == 4:
            drawn |= _timeouts(mine, measures)
        elif mine:
            drawn[f"question-{question}"] = _panels(mine, measures, TITLES[question])
    grown = [c for c in cells if c.question == 5]
    for workload in dict.fromkeys(c.workload for c in grown):
        for measure, unit in GROWING.items():
            name = f"growth-{workload}-{measure}".replace(" ", "-").removesuffix("_s").replace("_", "-")
            drawn[name] = _growth([c for c in grown if c.workload == workload], measure, f"{workload}: {unit}", unit)
    return drawn


def _panels(cells: Sequence[Cell], measures: Sequence[str], title: str) -> str:
    """A panel per workload and measure."""
    panels = []
    for workload in dict.fromkeys(c.workload for c in cells):
        same = [c for c in cells if c.workload == workload]
        for measure in measures:
            heading, unit = MEASURES[measure]
            shown = [c for c in same if measure != "rebalances" or c.setting not in EACH_BY_ITSELF]
            bars = [_spread(c, c.setting, STEPS.get(c.setting, c.setting), measure) for c in shown]
            panels.append((f"{workload}: {heading}", unit, bars))
    return small_multiples(panels, title, known=COLOURED)


def _timeouts(cells: Sequence[Cell], measures: Sequence[str]) -> dict[str, str]:
    """One picture per setting that was turned."""
    drawn: dict[str, str] = {}
    for knob in ("session", "heartbeat", "max poll interval", "initial delay"):
        mine = [c for c in cells if c.workload.startswith(knob) or (knob == "session" and c.setting == "RocketMQ")]
        shown = measures if knob == "session" else ("agree_s", "unowned_s")
        panels = [
            (
                *MEASURES[measure],
                [_spread(c, f"{c.setting}, {c.workload.removeprefix(knob).strip()}", c.setting, measure) for c in mine],
            )
            for measure in shown
        ]
        if mine:
            drawn[f"question-4-{knob}".replace(" ", "-")] = small_multiples(
                panels, f"{TITLES[4]} {knob}", known=COLOURED
            )
    return drawn


def _spread(cell: Cell, name: str, group: str, measure: str) -> Spread:
    return Spread(name, group, *cell.measures[measure])


def _growth(cells: Sequence[Cell], measure: str, title: str, unit: str) -> str:
    sizes = [n for n in SIZES if n in {c.members for c in cells}]
    curves = [
        Growth(setting, [(c.members, *c.measures[measure]) for c in cells if c.setting == setting and _formed(c)])
        for setting in dict.fromkeys(c.setting for c in cells)
    ]
    return growth_chart(curves, title, unit, sizes, COLOURED)


def _formed(cell: Cell) -> bool:
    """Whether the group had come to rest before the change; what a group that never did costs says nothing of a change."""
    return cell.mean("formed") == 1


# The summary: workload, measure, heading.
SUMMARY = (
    ("one joins", "pause_s", "one joins: pause per member, s"),
    ("one is killed", "longest_unowned_s", "one is killed: unowned for, s"),
    ("one machine is lost", "longest_unowned_s", "one machine is lost: unowned for, s"),
    ("rolling restart", "unowned_s", "rolling restart: unowned per partition, s"),
    ("rolling restart", "duplicates", "rolling restart: duplicates"),
    ("rolling restart", "kilobytes", "rolling restart: kB"),
)


def markdown(cells: Sequence[Cell], real: Sequence[RealPoint], command: str, folder: str, conditions: str = "") -> str:
    """The whole page; its pictures are in ``folder``. ``conditions``: a sentence on how the real points were measured."""
    by_question = {question: [c for c in cells if c.question == question] for question in TITLES}
    sentences = {question: study_answer(question, mine) for question, mine in by_question.items() if mine}
    drawn = pictures(cells)
    parts = [text("introduction", {}), "## Answers\n"]
    parts += [f"**{question}. {TITLES[question]}** {a.sentence}\n" for question, a in sentences.items()]
    if by_question[1]:
        parts += ["## Summary\n", _summary(by_question[1])]
    for question, one in sentences.items():
        parts.append(f"## {question}. {TITLES[question]}\n")
        parts += [f"{one.details}\n"] if one.details else []
        name = f"question-{question}" if question != 5 else "growth-"
        parts += [f"![{picture}]({folder}/{picture}.svg)\n" for picture in drawn if picture.startswith(name)]
        parts.append(_table(by_question[question], COLUMNS[question], sizes=question == 5))
    if real:
        parts.append(_real(real, conditions))
    parts.append(text("method", {"seeds": str(max((c.seeds for c in cells), default=0)), "command": command}))
    return "\n".join(parts).rstrip() + "\n"


def _summary(cells: Sequence[Cell]) -> str:
    """One row for each protocol, the mean of each measure."""
    by_name = {(c.workload, c.setting): c for c in cells}
    lines = [f"| protocol | {' | '.join(heading for _, _, heading in SUMMARY)} |", f"|---|{'---:|' * len(SUMMARY)}"]
    for setting in dict.fromkeys(c.setting for c in cells):
        shown = [by_name.get((workload, setting)) for workload, _, _ in SUMMARY]
        figures = [
            "-" if c is None else number(c.mean(measure)) for c, (_, measure, _) in zip(shown, SUMMARY, strict=True)
        ]
        lines.append(f"| {setting} | {' | '.join(figures)} |")
    return "\n".join(lines) + "\n"


def _table(cells: Sequence[Cell], measures: Sequence[str], *, sizes: bool) -> str:
    headings = [" ".join(word for word in MEASURES[m] if word) for m in measures]
    first = ["workload", "setting", *(["members"] if sizes else [])]
    lines = ["<details><summary>In figures: mean (lowest to highest)</summary>\n"]
    lines.append(f"| {' | '.join([*first, *headings])} |")
    lines.append(f"|{'---|' * len(first)}{'---:|' * len(headings)}")
    for c in cells:
        name = c.setting if _formed(c) else f"{c.setting} (had not come to rest)"
        values = [c.workload, name, *([f"{c.members:,}"] if sizes else []), *(_figure(c, m) for m in measures)]
        lines.append(f"| {' | '.join(values)} |")
    return "\n".join([*lines, "\n</details>\n"])


def _figure(cell: Cell, measure: str) -> str:
    mean, low, high = cell.measures[measure]
    return number(mean) if low == high else f"{number(mean)} ({number(low)} to {number(high)})"


def number(value: float) -> str:
    """Three digits that matter."""
    if value >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _real(points: Iterable[RealPoint], conditions: str) -> str:
    lines = [
        "## Compared with real processes\n",
        (
            "Where the model could be wrong: the same point measured with real processes on loopback (`./run study`: "
            "coterie's own broker and consumers, a real ZooKeeper, a real RocketMQ name server and two brokers) "
            f"and in the laboratory with a network of 0 to 1 ms and clocks that agree. {conditions}".rstrip()
            + "\n"
        ),
        "| protocol | what | measure | real (runs) | laboratory | |",
        "|---|---|---|---:|---:|---|",
    ]
    for p in points:
        real = f"{number(p.real)} ({number(p.real_low)} to {number(p.real_high)}) {p.unit} ({p.runs})"
        simulated = f"{number(p.simulated)} ({number(p.simulated_low)} to {number(p.simulated_high)}) {p.unit}"
        lines.append(f"| {p.protocol} | {p.what} | {p.measure} | {real} | {simulated} | {p.note} |")
    return "\n".join(lines) + "\n"
