"""The study as a page: what was asked, how it was measured, each question's answer with its pictures and its table.

The page is a function of the study's cells (and of what was measured with real processes): every figure in its sentences
is taken from there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from coterie.console.growth_chart import Growth, growth_chart
from coterie.console.study_answers import ANSWERS, Cells
from coterie.console.svg import Spread, small_multiples
from coterie.laboratory.study.questions import SIZES
from coterie.laboratory.study.spread import Cell

TITLES = {
    1: "Does a rebalance block consumption, for how long, and for whom?",
    2: "Which changes of the join protocol really reduce rebalances, and by how much?",
    3: "What are Kafka's and RocketMQ's rebalance each better and worse at?",
    4: "How do the timeouts trade detection time for false alarms?",
    5: "How does each grow with members and partitions?",
    6: "The same protocols on churn traces",
}

# Measure -> heading and unit.
MEASURES = {
    "rebalances": ("rebalances", ""),
    "pause_s": ("pause per member", "s"),
    "paused_members": ("members paused", ""),
    "unowned_s": ("unread per partition", "s"),
    "longest_unowned_s": ("longest unread", "s"),
    "doubled_s": ("read twice per partition", "s"),
    "duplicates": ("records twice", ""),
    "moved": ("partitions moved", ""),
    "agree_s": ("time to agree", "s"),
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
    6: ("rebalances", "unowned_s", "pause_s", "moved", "duplicates", "messages", "detection_s", "gave_up"),
}
EACH_BY_ITSELF = frozenset({"ZooKeeper", "RocketMQ", "RocketMQ, orderly"})  # rebalances of these are not the group's
PANELS = {
    1: ("pause_s", "unowned_s"),
    2: ("rebalances", "unowned_s"),
    3: ("duplicates", "unowned_s"),
    4: ("detection_s", "false_alarms", "unowned_s", "duplicates"),
    6: ("unowned_s", "duplicates"),
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
            panels.append((f"{workload}: {heading}", unit, [_spread(c, c.setting, c.setting, measure) for c in shown]))
    return small_multiples(panels, title)


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
            drawn[f"question-4-{knob}".replace(" ", "-")] = small_multiples(panels, f"{TITLES[4]} {knob}")
    return drawn


def _spread(cell: Cell, name: str, group: str, measure: str) -> Spread:
    return Spread(name, group, *cell.measures[measure])


def _growth(cells: Sequence[Cell], measure: str, title: str, unit: str) -> str:
    sizes = [n for n in SIZES if n in {c.members for c in cells}]
    curves = [
        Growth(setting, [(c.members, *c.measures[measure]) for c in cells if c.setting == setting and _formed(c)])
        for setting in dict.fromkeys(c.setting for c in cells)
    ]
    return growth_chart(curves, title, unit, sizes)


def _formed(cell: Cell) -> bool:
    """Whether the group had come to rest before the change; what a group that never did costs says nothing of a change."""
    return cell.mean("formed") == 1


def markdown(cells: Sequence[Cell], real: Sequence[RealPoint], command: str, folder: str) -> str:
    """The whole page; its pictures are in ``folder``."""
    seeds = max((c.seeds for c in cells), default=0)
    parts = [_INTRODUCTION.format(command=command, seeds=seeds)]
    drawn = pictures(cells)
    for question, title in TITLES.items():
        mine = [c for c in cells if c.question == question]
        if not mine:
            continue
        parts.append(f"## {question}. {title}\n")
        parts += [f"{paragraph}\n" for paragraph in ANSWERS[question](Cells(mine))]
        wanted = f"question-{question}" if question != 5 else "growth-"
        parts += [f"![{name}]({folder}/{name}.svg)\n" for name in drawn if name.startswith(wanted)]
        parts.append(_table(mine, COLUMNS[question], sizes=question == 5))
    if real:
        parts.append(_real(real))
    parts.append(_LIMITS)
    return "\n".join(parts).rstrip() + "\n"


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


def _real(points: Iterable[RealPoint]) -> str:
    lines = [
        "## Beside the real thing\n",
        (
            "Where the model could be wrong: the same point measured with real processes on loopback (`coterie lab study "
            "--real`: coterie's own broker and consumers, a real ZooKeeper, a real RocketMQ name server and two brokers) "
            "and in the laboratory with a network of 0 to 1 ms and clocks that agree.\n"
        ),
        "| protocol | what | measure | real (runs) | laboratory | |",
        "|---|---|---|---:|---:|---|",
    ]
    for p in points:
        real = f"{number(p.real)} ({number(p.real_low)} to {number(p.real_high)}) {p.unit} ({p.runs})"
        simulated = f"{number(p.simulated)} ({number(p.simulated_low)} to {number(p.simulated_high)}) {p.unit}"
        lines.append(f"| {p.protocol} | {p.what} | {p.measure} | {real} | {simulated} | {p.note} |")
    return "\n".join(lines) + "\n"


_INTRODUCTION = """# How the field rebalances, measured

Five protocols share out a topic's partitions among consumers: the ZooKeeper high-level consumer of Kafka 0.8, Kafka's
classic protocol in its eager and its cooperative form and with static members, and RocketMQ's client-side rebalance. The
articles that this project began from compare them in words; this page does it by measurement. Server-side assignment
(KIP-848) will join when coterie speaks it.

**How it was measured.** Every consumer runs the very code that coterie runs for real, driven by a clock that is only
a number: a group of 10,000 is a program, not a data centre, and an hour passes in seconds. The network takes 1 to 20
ms each way; the clocks of the consumers run up to 1 % apart, so that their heartbeats do not stay in step, as they do
not in a group that has been at rest for hours; each change comes at a random moment. Where not said otherwise 12
consumers read 48 partitions at 100 records a second each, settings are each system's own defaults, and offsets are
kept every 5 s. Each figure is the mean over up to {seeds} seeds; the thin line in a bar, or the range in a table,
goes from the lowest to the highest. To make this page again, pictures and all: `{command}`.

**Words.** *Eager*: everybody gives everything back, then all is given out anew. *Cooperative*: only what moves is given
back, in a second round. *Static*: a member has a name and may be away for its session timeout without being missed.
*Unread*: a partition that nobody reads, because nobody owns it or because its owner stands still. *Pause*: a consumer that
owns nothing though it did before and will again. *Records twice*: delivered a second time, because the next owner began
from an older offset, or because two read at once. A consumer is *killed* when its process ends (its connections close);
its *machine is lost* when nobody closes them.
"""

_LIMITS = """## What the model leaves out

- Servers answer one request after the other, at 20,000 a second (Kafka's coordinator, each RocketMQ broker) or 40,000
  (ZooKeeper), whatever the request; disks, processors and full networks are not modelled. In groups of thousands that is
  what decides, so read those figures as orders of magnitude.
- ZooKeeper's consumers read all registrations at once; Kafka 0.8's own read them one after the other, and took longer.
- A group's record in `__consumer_offsets` is larger than the default message.max.bytes of 1 MB from some 4,500 members on:
  Apache Kafka's coordinator cannot write it then, and neither can coterie's; all members beyond fail with
  UNKNOWN_SERVER_ERROR (the laboratory found it so). The figures for 10,000 are with that limit raised.
- Requests of one consumer may overtake each other here; with Kafka's client they do not. The few records that an eager
  group delivers twice in a rolling restart are commits that were overtaken: with a network that keeps the order there are none.
- Records are read at a steady rate and there are always more; a consumer that comes to the end of its partition would
  deliver fewer twice.
"""
