"""Rules that keep one broker and its clients right, each switched off, and a seed of a broker alone that sees it. A change of
the code changes the stories of seeds. Prints, for each rule whose seed sees it no more, the first seed that does:

    python -m conformance.tests.stories.test_switches [NAME...]
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable

import pytest

from conformance.tests.stories import switches_of_consumers as consumers
from conformance.tests.stories import switches_of_logs as logs
from conformance.tests.stories import switches_of_producers as producers
from coterie.laboratory.fuzz import FuzzFailure
from coterie_conformance.stories.story import run_story_seed

Switch = Callable[[pytest.MonkeyPatch], None]
MINUTES = 1.0
MOST_SEEDS = 200
OTHERS = range(4)  # tried where the known seed sees nothing any more

SEEN: dict[Switch, int] = {
    logs.no_response_waits_for_a_sync: 3,
    logs.readers_do_not_wait_for_a_sync: 3,
    logs.deleted_records_come_back: 11,
    logs.transactions_are_not_synced: 6,
    logs.a_repeated_batch_is_appended: 0,
    logs.a_repeated_batch_is_appended_and_a_gap_is_not: 1,
    logs.aborted_transactions_are_not_listed: 1,
    logs.an_offset_is_left_out: 0,
    consumers.a_record_is_left_out: 1,
    consumers.a_record_comes_twice: 0,
    consumers.commits_are_ahead: 1,
    consumers.reading_begins_behind_the_committed_offset: 1,
    consumers.the_epoch_of_a_committed_offset_is_forgotten: 3,
    consumers.a_reset_begins_at_the_end: 1,
    consumers.commits_name_no_leader_epoch: 1,
    consumers.an_epoch_ends_before_its_last_records: 1,
    consumers.a_validation_has_no_result: 1,
    consumers.lost_partitions_are_read_on: 3,
    consumers.positions_outlast_a_revocation: 3,
    consumers.a_partition_is_given_before_it_is_released: 2,
    consumers.an_upgrade_forgets_who_owns_what: 3,
    consumers.a_former_generation_may_commit_in_a_transaction: 6,
    consumers.offsets_are_committed_outside_the_transaction: 1,
    consumers.members_read_what_is_not_committed: 1,
    consumers.nothing_is_read_again_after_an_abort: 1,
    consumers.a_transaction_commits_without_leader_epochs: 1,
    producers.what_is_tried_again_has_another_number: 1,
    producers.a_gap_is_left_under_the_same_epoch: 1,
    producers.a_buffer_keeps_batches_that_have_ended: 0,
    producers.offsets_are_taken_outside_a_transaction: 18,
    producers.a_request_without_a_response_counts_as_acknowledged: 6,
    producers.a_claimed_producer_id_is_given: 5,
    producers.no_block_of_producer_ids_is_reserved: 9,
    producers.what_an_older_coordinator_left_stays_pending: 2,
    producers.a_transaction_goes_on_whose_offsets_were_refused: 3,
    producers.a_coordinator_commits_what_was_aborted: 3,
    producers.a_coordinator_commits_what_was_aborted_in_version_2: 1,
    producers.the_epoch_stays_in_version_2: 1,
}


def run(seed: int) -> None:
    """Raises FuzzFailure where the story fails."""
    run_story_seed(seed, MINUTES, brokers=1)


@pytest.mark.parametrize("switch", SEEN, ids=lambda switch: switch.__name__)
def test_a_seed_sees_that_a_rule_is_off(switch: Switch, monkeypatch: pytest.MonkeyPatch) -> None:
    switch(monkeypatch)
    with pytest.raises(FuzzFailure):
        run_each((SEEN[switch], *OTHERS))


@pytest.mark.parametrize("seed", sorted({*SEEN.values(), 29, 51}))
def test_the_known_seeds_see_nothing_while_all_rules_are_on(seed: int) -> None:
    """29: truncating a file needs no room on a full disk; 51: a hole in the last batch after a power cut."""
    run(seed)


def run_each(seeds: Iterable[int]) -> None:
    for seed in seeds:
        run(seed)


def seeing_seed(switch: Switch) -> int | None:
    """The known seed if it fails while the rule is off, or the first one from 0 on; None where none of them does."""
    with pytest.MonkeyPatch.context() as patch:
        switch(patch)
        for seed in (SEEN[switch], *range(MOST_SEEDS)):
            try:
                run(seed)
            except FuzzFailure:
                return seed
    return None


if __name__ == "__main__":
    for each, known in SEEN.items():
        if (not sys.argv[1:] or each.__name__ in sys.argv[1:]) and (first := seeing_seed(each)) != known:
            print(each.__name__, first, flush=True)
