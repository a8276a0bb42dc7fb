"""Stories of producers under seeds, and that the rules notice when a rule of the machine is switched off."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from conformance.tests.stories.cluster_switches import (
    numbered_anew,
    sent_at_once,
)
from coterie.laboratory.fuzz import FuzzFailure
from coterie.laboratory.produce_fuzz import run_produce_seed
from coterie.producing.accumulator import Accumulator
from coterie.producing.batch import ProducerBatch
from coterie.producing.machine import ProducerMachine
from coterie.producing.partition_queue import PartitionQueue
from coterie.producing.sequences import CurrentProducer, PartitionSequence

ENOUGH_SEEDS = 15


def test_fresh_seeds() -> None:
    reports = [run_produce_seed(seed, minutes=1) for seed in range(ENOUGH_SEEDS)]
    assert sum(r.acknowledged for r in reports) > 5_000, "too few records are acknowledged to say anything"
    assert sum(r.failed for r in reports) > 1_000, "too few records fail to say anything"
    assert sum(r.duplicates for r in reports) > 100, "too few batches are sent twice to say anything"
    assert sum(r.splits for r in reports) > 30, "too few batches are split to say anything"
    assert sum(r.broker_crashes for r in reports) > 20, "the brokers die too seldom to say anything"


def test_the_same_seed_is_the_same_story() -> None:
    assert run_produce_seed(7, minutes=0.5) == run_produce_seed(7, minutes=0.5)


def complaint() -> str:
    """Of the first seed that fails; empty where all pass."""
    for seed in range(ENOUGH_SEEDS):
        try:
            run_produce_seed(seed, minutes=1)
        except FuzzFailure as failure:
            return str(failure)
    return ""


_BEGIN, _SPLIT = PartitionSequence.begin, ProducerBatch.split
_FINISH, _DEADLINE = Accumulator.remove, Accumulator._deadline_ms


def known_at_once(self: PartitionSequence, producer: tuple[int, int]) -> None:
    """Several batches are in flight before the broker knows the producer."""
    _BEGIN(self, producer)
    self.is_acknowledged = True


def first_refusal_decides(self: PartitionQueue) -> list[ProducerBatch]:
    """Numbers are given anew without a look at the batches behind the refused one."""
    numbered = [] if self.in_flight else [b for b in self.batches if b.sequence >= 0]
    return numbered if numbered and numbered[0].is_refused else []


def same_epoch(self: CurrentProducer, before: tuple[int, int]) -> None:
    """A gap is left behind under the same epoch."""


def swapped(self: ProducerBatch) -> tuple[ProducerBatch, ProducerBatch]:
    """The second half goes first."""
    first, second = _SPLIT(self)
    return second, first


def late(self: Accumulator, batch: ProducerBatch) -> float:
    """A batch is given up a second too late."""
    return _DEADLINE(self, batch) + 1_000


def buffer_kept(self: Accumulator, queue: PartitionQueue, batch: ProducerBatch) -> None:
    """The bytes of a batch at its end still count."""
    _FINISH(self, queue, batch)
    self.buffered_bytes += batch.size


def lost_is_good(self: ProducerMachine, token: int, failure: Any, now_ms: float, jitter: float) -> None:
    """A request without a response counts as acknowledged."""
    self.sent(token, now_ms)


@pytest.mark.parametrize(
    ("where", "name", "instead", "rule"),
    [
        (PartitionSequence, "begin", known_at_once, "was acknowledged and is not in"),
        (PartitionQueue, "refused", first_refusal_decides, "twice"),
        (PartitionQueue, "refused", numbered_anew, "twice"),
        (CurrentProducer, "bump", same_epoch, "cannot send any more"),
        (ProducerBatch, "split", swapped, "is in"),
        (Accumulator, "_deadline_ms", late, "after its delivery timeout"),
        (Accumulator, "remove", buffer_kept, "of its buffer in use"),
        (ProducerMachine, "request_failed", lost_is_good, "was acknowledged and is not in"),
        (PartitionQueue, "next_to_send", sent_at_once, "behind record"),
    ],
)
@pytest.mark.slow
def test_without_a_rule_a_promise_is_broken_within_a_few_seeds(
    monkeypatch: pytest.MonkeyPatch, where: type, name: str, instead: Callable[..., Any], rule: str
) -> None:
    monkeypatch.setattr(where, name, instead)
    assert rule in complaint()
