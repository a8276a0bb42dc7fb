"""The verdict on a consumer and on a producer, over histories made by hand: each rule finds its case."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from coterie.certify.client.history import (
    ClientEvent,
    ClientEventKind,
    ClientHistory,
    DeliveryPromise,
    records_in,
    value_of,
)
from coterie.certify.client.verdict import PRODUCER_RULES, RULES, ProducerRecords, judge, judge_producer

AT_MOST_ONCE, EXACTLY_ONCE = DeliveryPromise.AT_MOST_ONCE, DeliveryPromise.EXACTLY_ONCE


def story(text: str, end: int, optional: tuple[int, ...] = ()) -> ClientHistory:
    """Of partition 0, an event each second: a3 is record 3 by process a, c4 a commit, r4 a refused one, + a position read,
    ta process a after a freeze, xa its end, . a second in which nothing happens."""
    history = ClientHistory(ends={0: end}, optional={(0, offset) for offset in optional}, end_s=99)
    history.steps.append((0.0, "read 100"))
    history.journal.append((0.5, "generation 1: stable"))
    history.events = list(_events(text.split()))
    return history


def _events(words: list[str]) -> Iterator[ClientEvent]:
    for at, word in enumerate(words):
        head, number = word[0], word[1:]
        if head in "cr":
            yield ClientEvent(at, ClientEventKind.COMMITTED, partition=0, offset=int(number), accepted=head == "c")
        elif head == "+":
            yield ClientEvent(at, ClientEventKind.POSITIONED, partition=-1)
        elif head in "tx":
            yield ClientEvent(
                at, ClientEventKind.THAWED if head == "t" else ClientEventKind.ENDED, word, "ab".index(number)
            )
        elif head != ".":
            yield ClientEvent(at, ClientEventKind.PROCESSED, process="ab".index(head), partition=0, offset=int(number))


RIGHT = [
    ("a right one", "+ a0 a1 c2 a2 c3", 3, (), DeliveryPromise.AT_LEAST_ONCE),
    ("a refused commit", "+ a0 a1 r2 a1 a2 c3", 3, (), DeliveryPromise.AT_LEAST_ONCE),
    ("again from the committed offset", "+ a0 c1 a1 a2 + b1 b2 c3", 3, (), DeliveryPromise.AT_LEAST_ONCE),
    ("what was deleted", "+ a0 c1 + a3 c4", 4, (1, 2), DeliveryPromise.AT_LEAST_ONCE),
    ("a marker behind the committed offset", "+ a0 a1 c2", 3, (2,), DeliveryPromise.AT_LEAST_ONCE),
    ("the rest of a fetch after a freeze", "+ a0 + b0 b1 b2 c3 + ta a1 a2", 3, (), DeliveryPromise.AT_LEAST_ONCE),
    ("commits first, and loses with its process", "+ c3 a0 + a3 c4", 4, (), AT_MOST_ONCE),
]
WRONG = [
    ("skipped", "+ a0 a2 c3", 3, DeliveryPromise.AT_LEAST_ONCE),
    ("skipped", "+ a0 a1 + c3", 3, DeliveryPromise.AT_LEAST_ONCE),
    ("skipped", "+ a0 a2 c3", 3, AT_MOST_ONCE),
    ("committed unprocessed", "+ c2 a0 a1", 2, DeliveryPromise.AT_LEAST_ONCE),
    ("duplicated", "+ a0 a1 c2 + a0 a1", 2, DeliveryPromise.AT_LEAST_ONCE),
    ("duplicated", "+ a0 a1 c2 + b0", 2, DeliveryPromise.AT_LEAST_ONCE),
    ("duplicated", "+ a0 . + b0 b1 b2 c3 + . . . a1", 3, DeliveryPromise.AT_LEAST_ONCE),
    ("duplicated", "+ c1 a0 + a0", 1, AT_MOST_ONCE),
    ("two at once", "+ a0 b1 a2 b3 a4 b5 a6 b7 a8 c9", 9, DeliveryPromise.AT_LEAST_ONCE),
    ("rewound", "+ a0 a1 c2 c1 c2", 2, DeliveryPromise.AT_LEAST_ONCE),
    ("stuck", "+ a0 c1", 2, DeliveryPromise.AT_LEAST_ONCE),
    ("uncommitted", "+ a0 a1 c1", 2, DeliveryPromise.AT_LEAST_ONCE),
    ("ended", "+ a0 c1 xa", 1, DeliveryPromise.AT_LEAST_ONCE),
]


@pytest.mark.parametrize(("name", "text", "end", "optional", "delivery"), RIGHT, ids=[row[0] for row in RIGHT])
def test_what_is_right(name: str, text: str, end: int, optional: tuple[int, ...], delivery: DeliveryPromise) -> None:
    assert judge(story(text, end, optional), delivery) == []


@pytest.mark.parametrize(("rule", "text", "end", "delivery"), WRONG, ids=[f"{row[0]}: {row[1]}" for row in WRONG])
def test_what_breaks_a_rule(rule: str, text: str, end: int, delivery: DeliveryPromise) -> None:
    findings = {finding.rule: finding for finding in judge(story(text, end), delivery)}
    assert rule in findings
    assert findings[rule].text
    assert findings[rule].after == "read 100"
    assert findings[rule].journal in ("0.5 s generation 1: stable", "")


def test_a_commit_that_a_dead_coordinator_applied_counts() -> None:
    """Nobody saw the response; the broker has the offset."""
    history = story("+ a0 a1 r2", 2)
    assert [finding.rule for finding in judge(history)] == ["uncommitted"]
    history.committed = {0: 2}
    assert judge(history) == []


def test_every_rule_has_a_case() -> None:
    assert {row[0] for row in WRONG} == RULES.keys()
    assert {row[0] for row in PRODUCER_CASES} == PRODUCER_RULES.keys()


def test_a_value_is_found_in_any_line() -> None:
    assert records_in(f'{{"value": {value_of(3, 17)}}}') == [(3, 17)]
    assert records_in("at 1764370000123 ms: nothing") == []


PRODUCER_CASES = [
    ("lost", ProducerRecords(["1", "2"], set(), {"1": 1, "2": 2}, {0: ["1"]}), DeliveryPromise.AT_LEAST_ONCE),
    ("duplicated", ProducerRecords(["1"], set(), {"1": 1}, {0: ["1"], 1: ["1"]}), EXACTLY_ONCE),
    ("out of order", ProducerRecords(["1", "2"], set(), {"1": 1, "2": 2}, {0: ["2", "1"]}), EXACTLY_ONCE),
    ("stuck", ProducerRecords(["1", "2"], set(), {"1": 1}, {0: ["1"]}), DeliveryPromise.AT_LEAST_ONCE),
    ("ended", ProducerRecords(), DeliveryPromise.AT_LEAST_ONCE),
]


@pytest.mark.parametrize(("rule", "records", "delivery"), PRODUCER_CASES, ids=[row[0] for row in PRODUCER_CASES])
def test_what_a_producer_breaks(rule: str, records: ProducerRecords, delivery: DeliveryPromise) -> None:
    history = story("xa" if rule == "ended" else "", 0)
    assert [finding.rule for finding in judge_producer(records, history, delivery)] == [rule]


def test_what_a_producer_may_do() -> None:
    twice = ProducerRecords(["1", "2", "3"], {"3"}, {"1": 1, "2": 2}, {0: ["2", "1", "1"]})
    assert judge_producer(twice, story("", 0)) == []
