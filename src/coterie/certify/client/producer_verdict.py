"""What is wrong with a producer, as a function of what it was given, what it called acknowledged, and what the log has."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from coterie.certify.client.history import ClientEventKind, ClientFinding, ClientHistory, DeliveryPromise

PRODUCER_RULES: dict[str, str] = {
    "lost": "a record was called acknowledged, and the log does not have it",
    "duplicated": "the log has a record twice, and the settings promise once",
    "out of order": "a partition has a later record before an earlier one, and the settings promise the order",
    "stuck": "records were left without an acknowledgement when nothing moved any more",
    "ended": "a process ended by itself",
}


@dataclass(slots=True)
class ProducerRecords:
    """Values as text. ``given``: in their order; ``excused``: of those the values that a process had when it was killed;
    ``acknowledged``: value -> when the program first printed it; ``log``: of each partition."""

    given: list[str] = field(default_factory=list)
    excused: set[str] = field(default_factory=set)
    acknowledged: dict[str, float] = field(default_factory=dict)
    log: dict[int, list[str]] = field(default_factory=dict)


def judge_producer(
    records: ProducerRecords, history: ClientHistory, delivery: DeliveryPromise = DeliveryPromise.AT_LEAST_ONCE
) -> list[ClientFinding]:
    """One finding for each broken rule, in the order of `PRODUCER_RULES`."""
    written = Counter(value for values in records.log.values() for value in values)
    once = delivery is DeliveryPromise.EXACTLY_ONCE
    left = [v for v in records.given if v not in records.acknowledged and v not in records.excused]
    where = f" at the step {history.stuck!r}" if history.stuck else ""
    cases: dict[str, Iterable[tuple[float, str]]] = {
        "lost": [
            (at, f"{v} was acknowledged and is not in the log")
            for v, at in records.acknowledged.items()
            if not written[v]
        ],
        "duplicated": [(history.end_s, f"the log has {v} {n} times") for v, n in written.items() if n > 1 and once],
        "out of order": _out_of_order(records, history.end_s) if once else (),
        "stuck": [(history.end_s, f"nothing moved any more{where}; {v} was not acknowledged") for v in left],
        "ended": [(e.at_s, e.text) for e in history.events if e.kind is ClientEventKind.ENDED],
    }
    return [one for rule, broken in cases.items() if (one := history.finding(rule, list(broken))) is not None]


def _out_of_order(records: ProducerRecords, end_s: float) -> Iterable[tuple[float, str]]:
    """Of values that were given, in each partition; what was sent by another process may come in between."""
    number = {value: n for n, value in enumerate(records.given)}
    for partition, values in records.log.items():
        known = [value for value in dict.fromkeys(values) if value in number and value not in records.excused]
        for one, other in itertools.pairwise(known):
            if number[other] < number[one]:
                yield end_s, f"partition {partition} has {other} behind {one}"
