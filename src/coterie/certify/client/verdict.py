"""What is wrong with a consumer, as a function of a story's history; and with a producer, of what it was given, what it
called acknowledged, and what the log has.

The order of the history is exact where it matters: what a program has printed is read before a commit of it is carried out. So
a record that was printed before its commit was sent is never taken for a later one.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from coterie.certify.client.history import ClientEvent, ClientEventKind, ClientFinding, ClientHistory, DeliveryPromise
from coterie.text.quantity import quantity

# A client learns that it has lost a partition with its next heartbeat, 3 s by default, and may process what it holds.
GRACE_S = 5.0

RULES: dict[str, str] = {
    "skipped": "a record was never processed, and later ones of its partition were, or were committed",
    "committed unprocessed": "an offset was committed before the records below it were processed",
    "duplicated": "a record was processed again that was committed when the position was read",
    "two at once": f"two processes processed one partition for more than {GRACE_S:g} s",
    "rewound": "a commit moved the group's offset back",
    "stuck": "records were left when nothing moved any more",
    "uncommitted": "all was processed, and the commits stayed behind",
    "ended": "a process ended by itself",
}

_Case = tuple[float, str]  # at, what
PRODUCER_RULES: dict[str, str] = {
    "lost": "a record was called acknowledged, and the log does not have it",
    "duplicated": "the log has a record twice, and the settings promise once",
    "out of order": "a partition has a later record before an earlier one, and the settings promise the order",
    "stuck": "records were left without an acknowledgement when nothing moved any more",
    "ended": "a process ended by itself",
}


def judge(history: ClientHistory, delivery: DeliveryPromise = DeliveryPromise.AT_LEAST_ONCE) -> list[ClientFinding]:
    """One finding for each broken rule, in the order of `RULES`."""
    by_rule: dict[str, Iterable[_Case]] = {
        "skipped": _each(history, lambda p: _skipped(history, p, delivery)),
        "committed unprocessed": ()
        if delivery is DeliveryPromise.AT_MOST_ONCE
        else _each(history, lambda p: _unprocessed(history, p)),
        "duplicated": _each(history, lambda p: _duplicated(history, p, delivery)),
        "two at once": _each(history, lambda p: _two_at_once(history, p)),
        "rewound": _each(history, lambda p: _rewound(history, p)),
        "stuck": _each(history, lambda p: _stuck(history, p)),
        "uncommitted": _each(history, lambda p: _uncommitted(history, p)),
        "ended": [(e.at_s, e.text) for e in history.events if e.kind is ClientEventKind.ENDED],
    }
    return [one for rule, cases in by_rule.items() if (one := history.finding(rule, list(cases))) is not None]


def _each(history: ClientHistory, cases: Callable[[int], Iterable[_Case]]) -> list[_Case]:
    return [case for partition in sorted(history.ends) for case in cases(partition)]


def _skipped(history: ClientHistory, partition: int, delivery: DeliveryPromise) -> Iterator[_Case]:
    """A skipped record of a client that commits first was lost with a process, where its commit came before later records."""
    events = history.of_partition(partition)
    processed = {e.offset for _, e in events if e.kind is ClientEventKind.PROCESSED}
    missing = [offset for offset in history.required(partition) if offset not in processed]
    for offset in missing:
        later = next((n for n, e in events if _is_beyond(e, offset)), None)
        if later is None:
            continue
        committed = next((n for n, e in events if _is_commit(e) and e.offset > offset), None)
        if delivery is DeliveryPromise.AT_MOST_ONCE and committed is not None and committed <= later:
            continue
        event = history.events[later]
        yield event.at_s, f"record {offset} of partition {partition} was never processed; {_words(event)}"


def _is_beyond(event: ClientEvent, offset: int) -> bool:
    return (event.kind is ClientEventKind.PROCESSED and event.offset > offset) or (
        _is_commit(event) and event.offset > offset
    )


def _is_commit(event: ClientEvent) -> bool:
    return event.kind is ClientEventKind.COMMITTED and event.accepted


def _words(event: ClientEvent) -> str:
    if event.kind is ClientEventKind.COMMITTED:
        return f"{event.offset} was committed"
    return f"process {event.process} processed record {event.offset}"


def _unprocessed(history: ClientHistory, partition: int) -> Iterator[_Case]:
    processed: set[int] = set()
    for _, event in history.of_partition(partition):
        if event.kind is ClientEventKind.PROCESSED:
            processed.add(event.offset)
        elif _is_commit(event):
            missing = [o for o in history.required(partition, event.offset) if o not in processed]
            if missing:
                first = f"record {missing[0]} of partition {partition} was not processed yet"
                yield (
                    event.at_s,
                    f"{event.offset} was committed, and {first} ({quantity(len(missing), 'record')} in all)",
                )
                processed.update(missing)


def _duplicated(history: ClientHistory, partition: int, delivery: DeliveryPromise) -> Iterator[_Case]:
    """What a process still holds of an earlier fetch it may process: it goes on from its last record, within the grace."""
    committed = floor = 0
    processed: set[int] = set()
    last: dict[int, ClientEvent] = {}
    thawed: dict[int, float] = {}
    for event in history.events:
        if event.kind is ClientEventKind.THAWED:
            thawed[event.process] = event.at_s
        if event.partition not in (partition, -1):
            continue
        if event.kind is ClientEventKind.POSITIONED:
            floor = committed
        elif _is_commit(event):
            committed = event.offset
        elif event.kind is ClientEventKind.PROCESSED:
            again, before = event.offset in processed, last.get(event.process)
            since = max(before.at_s if before else -GRACE_S, thawed.get(event.process, -GRACE_S))
            goes_on = before is not None and event.offset > before.offset and event.at_s - since < GRACE_S
            if again and (delivery is DeliveryPromise.AT_MOST_ONCE or (event.offset < floor and not goes_on)):
                what = f"process {event.process} processed record {event.offset} of partition {partition} again"
                yield event.at_s, what + (f"; {floor} was committed when the position was read" if floor else "")
            processed.add(event.offset)
            last[event.process] = event


def _two_at_once(history: ClientHistory, partition: int) -> Iterator[_Case]:
    """By spans of each process without a pause longer than the grace."""
    spans: dict[int, list[list[float]]] = {}
    for _, event in history.of_partition(partition):
        if event.kind is ClientEventKind.PROCESSED:
            own = spans.setdefault(event.process, [])
            if own and event.at_s - own[-1][1] < GRACE_S:
                own[-1][1] = event.at_s
            else:
                own.append([event.at_s, event.at_s])
    flat = sorted((start, end, process) for process, own in spans.items() for start, end in own)
    for n, (_, end, one) in enumerate(flat):
        for start, other_end, other in flat[n + 1 :]:
            together = min(end, other_end) - start
            if one != other and together > GRACE_S:
                text = f"processes {one} and {other} both processed partition {partition} for {together:.1f} s"
                yield start + GRACE_S, text


def _rewound(history: ClientHistory, partition: int) -> Iterator[_Case]:
    committed = 0
    for _, event in history.of_partition(partition):
        if _is_commit(event):
            if event.offset < committed:
                yield event.at_s, f"the offset of partition {partition} went back from {committed} to {event.offset}"
            committed = event.offset


def _stuck(history: ClientHistory, partition: int) -> Iterator[_Case]:
    events = history.of_partition(partition)
    required = history.required(partition)
    reached = max((e.offset for _, e in events if e.kind is ClientEventKind.PROCESSED), default=-1)
    left = [offset for offset in required if offset > reached]
    if left and not any(_is_commit(e) and e.offset > left[0] for _, e in events):
        where = f" at the step {history.stuck!r}" if history.stuck else ""
        left_of = f"{quantity(len(left), 'record')} of partition {partition} from {left[0]} on"
        yield history.end_s, f"nothing moved any more{where}; {left_of} were not processed"


def _uncommitted(history: ClientHistory, partition: int) -> Iterator[_Case]:
    """Up to the last record alone: a transaction's marker may stay behind the committed offset. The broker's own offset counts
    too: a coordinator that dies may have applied a commit whose response nobody saw."""
    events = history.of_partition(partition)
    required = history.required(partition)
    processed = {e.offset for _, e in events if e.kind is ClientEventKind.PROCESSED}
    accepted = next((e.offset for _, e in reversed(events) if _is_commit(e)), 0)
    committed = max(accepted, history.committed.get(partition, 0))
    if required and required[-1] in processed and committed <= required[-1]:
        text = f"{committed} of partition {partition} is committed, and all up to {required[-1]} was processed"
        yield history.end_s, text


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
