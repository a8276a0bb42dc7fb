"""Rules that keep one broker and its clients right, each switched off, and a seed of a broker alone that sees it, or a test
where no seed is likely to. A change of the code changes the stories of seeds. Prints, for each rule whose seed sees it no more,
the first seed that does:

    python -m conformance.tests.stories.test_switches [NAME...]
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from conformance.tests.stories import switches_of_consumers as consumers
from conformance.tests.stories import switches_of_logs as groups
from conformance.tests.stories import switches_of_logs as logs
from conformance.tests.stories import switches_of_producers as producers
from conformance.tests.stories.cluster_rooms import of_spec
from coterie.coordinator.transactions.state import Status
from coterie.coordinator.transactions.steps import Claim
from coterie.testing import ErrorCode, LocalBroker
from coterie_conformance.scenarios.groups.scenario import ScenarioError
from coterie_conformance.stories.story import FuzzFailure, run_story_seed
from tests.client.consumer import test_consumer_membership, test_consumer_stories
from tests.coordinator.transactions import test_added_partitions
from tests.coordinator.transactions.coordinators import EPOCH, A

Switch = Callable[[pytest.MonkeyPatch], None]
MOST_SEEDS = 200
OTHERS = range(4)  # tried where the known seed sees nothing any more

ALONE: dict[str, Any] = {"plain_producers": 0, "claims": False, "orphan": False, "deletes": False}
SENDERS = ALONE | {"idempotent_producers": 3, "transactional_producers": 0, "readers": 1, "copiers": 0, "pace": 0.3}
WRITERS = ALONE | {"idempotent_producers": 2, "transactional_producers": 0, "pace": 0.4}
READERS = WRITERS | {"kind": "consumer", "readers": 3, "copiers": 0}
COPIERS = WRITERS | {"kind": "consumer", "readers": 0, "copiers": 3}
LATE = ("requests_late", "program_paused", "program_cut_off", "responses_lost")
SYNCS = SENDERS | {
    "synced": True,
    "small_segments": True,
    "only": ("disk_syncs_fail", "power_cut", "broker_killed", "syncs_slow"),
}
RESTARTS = READERS | {
    "idempotent_producers": 1,
    "readers": 1,
    "max_latency_s": 0.3,  # the fewer requests before the story gives up
    "only": ("broker_killed",),
    "pace": 0.2,
}
PAUSED_COPIERS = COPIERS | {"only": ("program_paused",), "transaction_timeout_ms": 60_000, "max_latency_s": 0.1}
RIVALS = ALONE | {
    "idempotent_producers": 0,
    "transactional_producers": 2,
    "readers": 1,
    "copiers": 0,
    "rivals": True,
    "ledger": True,
    "transaction_version": 2,
    "pace": 0.3,
}


@dataclass(frozen=True, slots=True)
class Seen:
    """By that seed, of a story as it draws it or with such a plan."""

    seed: int
    plan: dict[str, Any] = field(default_factory=dict)

    def run(self, *seeds: int) -> None:
        """Raises FuzzFailure where a story fails."""
        for seed in seeds:
            run_story_seed(seed, 0.5 if self.plan else 1.0, brokers=1, **self.plan)


SEEN: dict[Switch, Seen] = {
    logs.no_response_waits_for_a_sync: Seen(3),
    logs.readers_do_not_wait_for_a_sync: Seen(32),
    logs.deleted_records_come_back: Seen(11),
    logs.transactions_are_not_synced: Seen(21),
    logs.a_repeated_batch_is_appended: Seen(0),
    logs.a_repeated_batch_is_appended_and_a_gap_is_not: Seen(1),
    logs.aborted_transactions_are_not_listed: Seen(1),
    logs.an_offset_is_left_out: Seen(0),
    consumers.a_record_is_left_out: Seen(1),
    consumers.a_record_comes_twice: Seen(0),
    consumers.commits_are_ahead: Seen(1),
    consumers.reading_begins_behind_the_committed_offset: Seen(1),
    consumers.the_epoch_of_a_committed_offset_is_forgotten: Seen(7),
    consumers.a_reset_begins_at_the_end: Seen(1),
    consumers.commits_name_no_leader_epoch: Seen(1),
    consumers.an_epoch_ends_before_its_last_records: Seen(1),
    consumers.a_validation_has_no_result: Seen(43, RESTARTS),
    consumers.lost_partitions_are_read_on: Seen(158),
    consumers.positions_outlast_a_revocation: Seen(3),
    consumers.a_partition_is_given_before_it_is_released: Seen(2),
    consumers.an_upgrade_forgets_who_owns_what: Seen(3),
    consumers.offsets_are_committed_outside_the_transaction: Seen(1),
    consumers.members_read_what_is_not_committed: Seen(1),
    consumers.nothing_is_read_again_after_an_abort: Seen(1),
    consumers.a_transaction_commits_without_leader_epochs: Seen(1),
    producers.what_is_tried_again_has_another_number: Seen(1),
    producers.a_gap_is_left_under_the_same_epoch: Seen(1),
    producers.a_buffer_keeps_batches_that_have_ended: Seen(0),
    producers.a_request_without_a_response_counts_as_acknowledged: Seen(6),
    producers.a_claimed_producer_id_is_given: Seen(5),
    producers.no_block_of_producer_ids_is_reserved: Seen(9),
    producers.what_an_older_coordinator_left_stays_pending: Seen(2),
    producers.a_transaction_goes_on_whose_offsets_were_refused: Seen(6),
    producers.a_coordinator_commits_what_was_aborted: Seen(3),
    producers.a_coordinator_commits_what_was_aborted_in_version_2: Seen(1),
    producers.the_epoch_stays_in_version_2: Seen(1),
    logs.a_failed_sync_counts_as_done: Seen(0, SYNCS),
    logs.a_full_segment_that_cannot_be_synced_is_no_fault: Seen(16, SYNCS),
    consumers.no_report_acknowledges_a_revocation: Seen(
        3, READERS | {"only": ("responses_lost", "program_killed", "requests_late")}
    ),
    consumers.a_lost_membership_commits_without_one: Seen(194, COPIERS | {"kind": "eager", "only": LATE}),
    consumers.a_lost_membership_of_the_consumer_protocol_commits_without_one: Seen(6, COPIERS | {"only": LATE}),
    consumers.a_former_epoch_may_commit_in_a_transaction: Seen(10, COPIERS | {"only": LATE}),
    consumers.positions_are_those_before_an_open_transaction: Seen(26, PAUSED_COPIERS),
    producers.the_second_half_of_a_split_batch_goes_first: Seen(1, SENDERS | {"small_batches": True}),
    producers.a_batch_is_given_up_a_second_too_late: Seen(0, SENDERS | {"only": ("broker_paused",), "pace": 1.0}),
    producers.a_producer_is_not_fenced: Seen(3, RIVALS),
    groups.a_deadline_is_always_past: Seen(0, READERS | {"kind": "eager"}),
}


def of_members(test: Callable[[LocalBroker], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """A test of the consumer protocol on a broker of its own."""

    def run() -> None:
        with test_consumer_membership.broker_with_records() as broker:
            asyncio.run(test(broker))

    return run


# What a poll, a queue or a lock hides from seeds: the scenario or test that fails.
SEEN_BY_TESTS: dict[Switch, Callable[[], None]] = {
    producers.offsets_are_taken_outside_a_transaction: partial(
        *(test_added_partitions.test_verify, Status.ONGOING, Claim(0, EPOCH)),
        *(A, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    ),
    groups.a_sync_gets_no_response_when_a_rebalance_begins: of_spec("sync", "testLeaderFailureInSyncGroup"),
    groups.what_is_assigned_is_owned_twice: of_spec("member/commit", "testCommitOffsetIllegalGeneration"),
    consumers.a_former_epoch_may_commit: of_spec(
        "consumer/offsets", "testConsumerGroupOffsetCommitWithStaleMemberEpoch"
    ),
    consumers.a_former_generation_may_commit_in_a_transaction: of_spec(
        "transactions", "testTxnCommitOffsetWithIllegalGeneration"
    ),
    consumers.a_revoked_partition_is_read_on: partial(test_consumer_stories.test_a_story, 1),
    consumers.a_revocation_is_acknowledged_before_its_commit: of_members(
        test_consumer_membership.test_a_commit_before_a_revocation_in_a_stale_epoch_is_made_in_the_new_one
    ),
    consumers.a_revocation_does_not_wait_for_the_transaction: of_members(
        test_consumer_membership.test_what_moves_is_revoked_after_its_commit_and_the_rest_is_read_on
    ),
    producers.no_batch_waits_for_one_before_it: of_spec("producer/batches", "testMutedPartitions"),
    producers.several_batches_are_sent_before_one_is_acknowledged: of_spec(
        "producer/idempotence", "testIdempotenceWithMultipleInflights"
    ),
    producers.what_was_decided_gets_no_markers: of_spec(
        "transactions", "a-decided-transaction-is-completed-on-loading"
    ),
}


@pytest.mark.parametrize("switch", SEEN, ids=lambda switch: switch.__name__)
def test_a_seed_sees_that_a_rule_is_off(switch: Switch, monkeypatch: pytest.MonkeyPatch) -> None:
    switch(monkeypatch)
    seen = SEEN[switch]
    with pytest.raises(FuzzFailure):
        seen.run(seen.seed, *OTHERS)


@pytest.mark.parametrize("switch", SEEN_BY_TESTS, ids=lambda switch: switch.__name__)
def test_a_test_sees_that_a_rule_is_off(switch: Switch, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own run shows that it passes while all rules are on."""
    switch(monkeypatch)
    with pytest.raises((AssertionError, KeyError, ScenarioError)):
        SEEN_BY_TESTS[switch]()


# 29: truncating a file needs no room on a full disk; 51: a hole in the last batch after a power cut.
KNOWN = {(seen.seed, repr(seen.plan)): seen for seen in (*SEEN.values(), Seen(29), Seen(51))}


@pytest.mark.parametrize("seen", KNOWN.values(), ids=lambda seen: str(seen.seed))
def test_the_known_seeds_see_nothing_while_all_rules_are_on(seen: Seen) -> None:
    seen.run(seen.seed)


def seeing_seed(switch: Switch) -> int | None:
    """The known seed if it fails while the rule is off, or the first one from 0 on; None where none of them does."""
    seen = SEEN[switch]
    with pytest.MonkeyPatch.context() as patch:
        switch(patch)
        for seed in (seen.seed, *range(MOST_SEEDS)):
            try:
                seen.run(seed)
            except FuzzFailure:
                return seed
    return None


if __name__ == "__main__":
    for each, known in SEEN.items():
        if (not sys.argv[1:] or each.__name__ in sys.argv[1:]) and (first := seeing_seed(each)) != known.seed:
            print(each.__name__, first, flush=True)
