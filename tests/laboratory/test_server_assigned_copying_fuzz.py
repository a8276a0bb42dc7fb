"""Seeds of clients that read, process and write in transactions as members of the consumer protocol (KIP-848): fresh ones, and
rules of a client or of the broker, each switched off, which seeds must see."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from conformance.tests.stories.switches_of_consumers import (
    a_transaction_commits_without_leader_epochs,
)
from coterie.consuming.committed_lookup import PendingOffsets
from coterie.coordinator.consumer.commits import any_partition
from coterie.coordinator.offsets import transactional
from coterie.laboratory.node.copying_consumer import CopyingConsumer
from coterie.laboratory.node.seeds import SERVER_ASSIGNED_COPYING_FROM, run_clients_seed
from coterie.member.consumer.machine import ConsumerMemberMachine
from tests.laboratory.known_seeds import Defect, KnownSeeds

pytestmark = pytest.mark.slow

Patch = pytest.MonkeyPatch


def run_seed(seed: int, minutes: float) -> object:
    return run_clients_seed(SERVER_ASSIGNED_COPYING_FROM + seed, minutes)


def test_fresh_seeds() -> None:
    first = SERVER_ASSIGNED_COPYING_FROM + 500
    reports = [run_clients_seed(seed, minutes=0.5) for seed in range(first, first + 9)]
    assert sum(r.broker_crashes for r in reports) > 5, "the seeds crash the broker too seldom to say anything"
    assert sum(r.copied for r in reports) > 1_000, "too little is copied to say anything"
    assert sum(r.generation for r in reports) > 12, "the group rebalances too seldom to say anything"
    assert sum(r.with_consumer for r in reports) > 5, "too few groups of the consumer protocol to say anything"
    assert sum(r.with_mixed for r in reports) > 1, "too few groups of both protocols to say anything"


def test_the_same_seed_is_the_same_story() -> None:
    assert run_seed(3, minutes=0.5) == run_seed(3, minutes=0.5)


def a_former_epoch_may_commit(patch: Patch) -> None:
    patch.setattr(transactional, "check_commit", lambda *args, **kwargs: any_partition)


def a_lost_membership_commits_without_one(patch: Patch) -> None:
    patch.setattr(ConsumerMemberMachine, "committing_as", property(lambda machine: ("", -1)))


def a_revocation_does_not_wait_for_the_transaction(patch: Patch) -> None:
    def at_once(consumer: CopyingConsumer[Any, Any], callback: Callable[[], None]) -> None:
        callback()

    patch.setattr(CopyingConsumer, "_at_poll", at_once)


def positions_are_those_before_an_open_transaction(patch: Patch) -> None:
    patch.setattr(CopyingConsumer, "pending_offsets", PendingOffsets.IGNORED)


def nothing_is_read_again_after_an_abort(patch: Patch) -> None:
    patch.setattr(CopyingConsumer, "_rewind", lambda consumer: None)


RULES = KnownSeeds(
    {
        a_former_epoch_may_commit: 260,
        a_lost_membership_commits_without_one: 0,
        a_transaction_commits_without_leader_epochs: 0,
        a_revocation_does_not_wait_for_the_transaction: 6,
        positions_are_those_before_an_open_transaction: 217,
        nothing_is_read_again_after_an_abort: 0,
    },
    partial(run_seed, minutes=1.5),
    range(2),
)


@RULES.each()
def test_seeds_see_whether_a_rule_is_off(defect: Defect | None, monkeypatch: Patch) -> None:
    RULES.check(defect, monkeypatch)
