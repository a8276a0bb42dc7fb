"""Every short course of events of an idempotent producer on one partition, over the broker's own rules for sequence numbers
(`log.producers`): what a broker appends, refuses or loses, in any order, and what must hold at the end.

A course is a choice at each turn; all courses of a length are run.
"""

from __future__ import annotations

from itertools import product

import pytest

from coterie.log.producer_states import Producers
from coterie.producing.batch import ProduceFailure, ProducerBatch
from coterie.producing.partition_queue import PartitionQueue, PartitionSequence
from coterie.records.batch import batches
from coterie.records.decoding import decode_records
from coterie.wire.errors import ErrorCode, Refusal
from tests.producing.one_producer import OneProducer

SEND = "send"  # a record is appended
APPEND = "append"  # the oldest request reaches the broker, and its response the producer
REFUSE = "refuse"  # the same, but the broker fails before the append
NO_RESPONSE = "unanswered"  # it is appended, and the response is lost
LOSE = "lose"  # it is lost on the way
RESTART = "restart"  # the broker knows only the last batch of the producer again
EXPIRE = "expire"  # delivery.timeout.ms of the oldest batch is over
EVENTS = (SEND, APPEND, REFUSE, NO_RESPONSE, LOSE, RESTART, EXPIRE)
LENGTH = 4


class Broker:
    """One partition."""

    def __init__(self) -> None:
        self.producers = Producers()
        self.values: list[bytes] = []

    def append(self, records: bytes) -> tuple[ErrorCode, int]:
        """Error and base offset, as `PartitionLog.append`."""
        (position, header) = next(iter(batches(records)))
        try:
            seen = self.producers.check(header)
        except Refusal as refusal:
            return refusal.code, -1
        if seen is not None:
            return ErrorCode.NONE, seen.base_offset
        base_offset = len(self.values)
        self.values += [record.value or b"" for record in decode_records(records, position, header)]
        self.producers.appended(header, len(self.values) - 1)
        return ErrorCode.NONE, base_offset

    def restart(self) -> None:
        """As after an orderly end (ProducerStateManager's snapshot)."""
        for producer in self.producers.by_id.values():
            last = producer.batches.pop()
            producer.batches.clear()
            producer.batches.append(last)


class Course:
    """A producer and its broker. ``sent`` counts the records."""

    def __init__(self) -> None:
        self.one, self.broker, self.sent = OneProducer(), Broker(), 0
        self.events: list[str] = []
        for event in (SEND, APPEND, SEND, SEND, SEND):  # so that several batches are in flight
            self.happen(event)

    def happen(self, event: str) -> None:
        one = self.one
        self.events.append(event)
        if event == SEND:
            one.send(b"%d" % self.sent)
            self.sent += 1
        elif event == RESTART:
            self.broker.restart()
        elif event == EXPIRE:
            for queue in one.machine.accumulator.busy.values():
                for batch in list(queue.batches)[:1]:
                    batch.created_ms = float("-inf")
            one.machine.flush()  # the deadline is another one now
        elif one.sent:
            self._request(event)
        one.wait()

    def _request(self, event: str) -> None:
        one = self.one
        records = one.sent[0].request.topic_data[0].partition_data[0].records or b""
        if event == REFUSE:
            one.respond(ErrorCode.NOT_ENOUGH_REPLICAS)
        elif event == LOSE:
            one.lose()
        else:
            code, base_offset = self.broker.append(records)
            if event == NO_RESPONSE:
                one.lose()
            else:
                one.respond(code, base_offset)

    def end(self) -> None:
        """Everything works from now on. Raises AssertionError."""
        self.happen(SEND)
        for _ in range(6 * self.sent):
            self.happen(APPEND)
        values = [int(value) for value in self.broker.values]
        assert values == sorted(set(values)), "in order, each once"
        ends = {
            int(item[2] or b""): batch.result_of(n) for batch in self.one.ended for n, item in enumerate(batch.items)
        }
        assert len(ends) == self.sent, "every record has an end"
        for value, result in ends.items():
            if isinstance(result, ProduceFailure):
                assert EXPIRE in self.events, f"{value} failed: {result}"
            else:
                assert value in values, f"{value} is lost"
                assert result[0] in (values.index(value), -1), (
                    f"{value} is at {values.index(value)}, not at {result[0]}"
                )
        if EXPIRE not in self.events:
            assert values == list(range(self.sent)), "all are there"


def complaints(length: int) -> list[str]:
    """The courses of that length after which something does not hold; the first three."""
    broken: list[str] = []
    for events in product(EVENTS, repeat=length):
        course = Course()
        try:
            for event in events:
                course.happen(event)
            course.end()
        except AssertionError as error:
            broken.append(f"{' '.join(events)}: {error}")
            if len(broken) == 3:
                break
    return broken


def test_every_course() -> None:
    assert complaints(LENGTH) == []


def test_without_a_look_at_the_batches_behind_a_refused_one_records_are_there_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def first_refusal_decides(self: PartitionQueue) -> list[ProducerBatch]:
        numbered = [] if self.in_flight else [b for b in self.batches if b.sequence >= 0]
        return numbered if numbered and numbered[0].is_refused else []

    monkeypatch.setattr(PartitionQueue, "refused", first_refusal_decides)
    assert complaints(LENGTH) != []


def test_without_the_rule_of_the_acknowledged_ones_before_records_are_there_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(PartitionSequence, "holds", lambda *_: False)
    assert complaints(LENGTH) != []
