"""Seeds of clients that read, process and write in transactions: fresh ones, and rules of a client or of the broker, each
switched off, which seeds must see."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest

from conformance.tests.stories.switches_of_consumers import (
    a_lost_membership_commits_without_one,
)
from conformance.tests.stories.switches_of_logs import (
    aborted_transactions_are_not_listed,
)
from coterie.consuming.commits.requests import commit_request, first_error
from coterie.consuming.committed_lookup import PendingOffsets
from coterie.coordinator.offsets import transactional
from coterie.coordinator.transactions import machine as coordinator
from coterie.laboratory.client_connections import COORDINATORS
from coterie.laboratory.node.copying_consumer import CopyingConsumer
from coterie.laboratory.node.copying_story import CopyingStory
from coterie.laboratory.node.seeds import COPYING_FROM, run_clients_seed
from coterie.laboratory.node.transactional_producer import TransactionalProducer
from coterie.laboratory.transacting_producer import Ended
from coterie.producing.transactions.requests import CommittingMember
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.groups.offset_commit import OffsetCommitResponse
from tests.laboratory.known_seeds import Defect, KnownSeeds

pytestmark = pytest.mark.slow

Patch = pytest.MonkeyPatch


def run_copying_seed(seed: int, minutes: float) -> object:
    return run_clients_seed(COPYING_FROM + seed, minutes)


def test_fresh_seeds() -> None:
    reports = [run_clients_seed(seed, minutes=0.5) for seed in range(COPYING_FROM + 500, COPYING_FROM + 508)]
    assert sum(r.broker_crashes for r in reports) > 5, "the seeds crash the broker too seldom to say anything"
    assert sum(r.copied for r in reports) > 1_000, "too little is copied to say anything"
    assert sum(r.generation for r in reports) > 12, "the group rebalances too seldom to say anything"


@pytest.mark.parametrize(("seed", "minutes"), [(400_007, 1), (400_021, 1), (400_017, 0.5), (400_069, 1)])
def test_a_seed_that_once_failed(seed: int, minutes: float) -> None:
    """A batch that was refused in a transaction ended twice. A member that had lost its membership committed without one. After
    a fatal error a partition was added to the transaction for ever. An index that a power cut tore was right enough to be used,
    and the batch before the one that was looked for was read."""
    run_clients_seed(seed, minutes)


def test_the_same_seed_is_the_same_story() -> None:
    assert run_copying_seed(3, minutes=0.5) == run_copying_seed(3, minutes=0.5)


def test_copies_are_compared_once_the_group_is_loaded() -> None:
    """Until then, after a crash, its committed offsets are unknown: they were taken for none (seed 640627)."""
    story = CopyingStory(1)
    story.run_clients(20_000)
    checked = story.copies.checked
    story._check_copies()
    assert story.copies.checked == checked + 1
    story.broker.crash(power=False)
    story.broker.start()
    assert story.is_written()
    story._check_copies()
    assert story.copies.checked == checked + 1


def a_former_generation_may_commit(patch: Patch) -> None:
    patch.setattr(transactional, "validate_commit", lambda *args, **kwargs: None)


def offsets_are_committed_outside_the_transaction(patch: Patch) -> None:
    def send(
        producer: TransactionalProducer, offsets: Mapping[Any, int], member: CommittingMember, ended: Ended
    ) -> None:
        def received(response: Message | None) -> None:
            code = ErrorCode.NETWORK_EXCEPTION
            if isinstance(response, OffsetCommitResponse):
                code = first_error(response)[0]
            producer._after(0, lambda: ended(code))

        group_id, generation, member_id, instance = member
        request = commit_request(group_id, offsets, generation, member_id, instance)
        producer._request(COORDINATORS, None, request, 9, received)

    patch.setattr(TransactionalProducer, "send_offsets", send)


def members_read_what_is_not_committed(patch: Patch) -> None:
    patch.setattr(CopyingStory, "committed_only", False)


def positions_are_those_before_an_open_transaction(patch: Patch) -> None:
    patch.setattr(CopyingConsumer, "pending_offsets", PendingOffsets.IGNORED)


def a_producer_is_not_fenced(patch: Patch) -> None:
    patch.setattr(coordinator, "check_producer", lambda transaction, claim: transaction)


def nothing_is_read_again_after_an_abort(patch: Patch) -> None:
    patch.setattr(CopyingConsumer, "_rewind", lambda consumer: None)


RULES = KnownSeeds(
    {
        a_former_generation_may_commit: 29,
        a_lost_membership_commits_without_one: 140,
        offsets_are_committed_outside_the_transaction: 1,
        members_read_what_is_not_committed: 3,
        positions_are_those_before_an_open_transaction: 70,
        a_producer_is_not_fenced: 3,
        nothing_is_read_again_after_an_abort: 0,
        aborted_transactions_are_not_listed: 0,
    },
    partial(run_copying_seed, minutes=1.5),
    range(2),
)


@RULES.each()
def test_seeds_see_whether_a_rule_is_off(defect: Defect | None, monkeypatch: Patch) -> None:
    RULES.check(defect, monkeypatch)
