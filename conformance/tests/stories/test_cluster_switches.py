"""Rules that keep a cluster right, each switched off, and a seed of three or four brokers that sees it, or a test of its room
(`cluster_rooms`) where no seed does. A change of the code changes the stories of seeds. Prints, for each rule whose seed no
longer sees that the rule is off, the first seed that does:

    python -m conformance.tests.stories.test_cluster_switches [NAME...]
"""

from __future__ import annotations

import inspect
import sys
from dataclasses import dataclass
from typing import Any

import pytest

from conformance.tests.stories import cluster_switches as off
from conformance.tests.stories.cluster_rooms import SEEN_IN_ROOMS
from conformance.tests.stories.cluster_switches import Switch
from coterie_conformance.scenarios.groups.scenario import ScenarioError
from coterie_conformance.stories.story import FuzzFailure, run_story_seed

MINUTES = 0.25
MOST_SEEDS = 100
OTHERS = range(8)  # tried where the known seed sees nothing any more
KILLS = ("broker_killed", "all_brokers_killed", "broker_stopped", "broker_paused")
CUTS = ("zookeeper_lost", "zookeeper_lost_twice", "broker_cut_off", "brokers_separated")
BROKER_FAULTS = (*KILLS, *CUTS, "power_cut", "disk_full")
RECORDS: dict[str, Any] = {
    "idempotent_producers": 4,
    "plain_producers": 1,
    "readers": 0,
    "copiers": 0,
    "transactional_producers": 0,
    "administers": False,
    "pace": 0.15,
}
TOPICS = RECORDS | {"administers": True}
SYNCED = RECORDS | {"readers": 2, "synced": True, "pace": 0.2}
IDS = RECORDS | {"plain_producers": 0, "reserves_ids": True, "only": BROKER_FAULTS}
TRANSACTIONS = {"transactional_producers": 2, "administers": False, "copiers": 1, "read_committed": True}
GROUPS = {"readers": 3, "copiers": 0, "transactional_producers": 0, "administers": False, "pace": 0.2}


@dataclass(frozen=True, slots=True)
class Seen:
    """By that seed of stories with such a plan."""

    seed: int
    plan: dict[str, Any]

    def run(self, *seeds: int) -> None:
        """Raises FuzzFailure where a story fails."""
        for seed in seeds:
            run_story_seed(seed, MINUTES, **{"brokers": 3, **self.plan})


SEEN: dict[Switch, Seen] = {
    off.the_isr_is_written_whatever_the_version: Seen(65, TOPICS),
    off.the_controller_writes_whatever_the_version: Seen(11, TOPICS),
    off.a_replaced_controller_goes_on: Seen(11, TOPICS),
    off.logs_are_not_truncated: Seen(3, TOPICS),
    off.logs_are_truncated_to_the_high_watermark: Seen(5, TOPICS),
    off.the_high_watermark_waits_for_nobody: Seen(4, TOPICS),
    off.any_replica_is_elected: Seen(8, TOPICS),
    off.the_high_watermark_leaves_out_who_is_about_to_go: Seen(36, TOPICS),
    off.a_broker_that_lost_power_stays_in_its_isrs: Seen(1, TOPICS | {"only": BROKER_FAULTS}),
    off.a_reassignment_ends_before_its_target_has_caught_up: Seen(
        4, TOPICS | {"brokers": 4, "only": ("power_cut", "broker_killed"), "synced": False, "max_latency_s": 0.1}
    ),
    off.a_broker_keeps_its_roles_in_a_new_session: Seen(1, RECORDS | {"only": CUTS}),
    off.appends_are_not_synced: Seen(30, SYNCED),
    off.followers_do_not_sync: Seen(34, SYNCED),
    off.the_controller_reads_settings_once: Seen(74, TOPICS | {"only": ("broker_killed",)}),
    off.leaders_do_not_learn_of_departures: Seen(
        0, RECORDS | {"only": ("power_cut",), "rebalances_leaders": True, "synced": False}
    ),
    off.the_end_of_a_log_is_trusted_after_a_power_cut: Seen(1, RECORDS | {"only": ("power_cut",), "synced": False}),
    off.a_broker_goes_on_without_its_directory: Seen(0, TOPICS | {"only": ("disk_full", "disk_writes_fail")}),
    off.blocks_are_written_whatever_the_version: Seen(4, IDS),
    off.a_block_that_another_broker_wrote_is_taken: Seen(4, IDS),
    off.a_write_without_a_response_counts_as_done: Seen(4, IDS | {"only": CUTS, "pace": 0.05, "max_latency_s": 0.1}),
    off.decisions_are_answered_before_they_are_replicated: Seen(0, GROUPS | {"only": BROKER_FAULTS}),
    off.a_coordinator_that_resigns_goes_on: Seen(32, GROUPS | {"only": BROKER_FAULTS}),
    off.a_coordinator_begins_without_a_load: Seen(2, GROUPS | {"only": BROKER_FAULTS}),
    off.partitions_are_assigned_before_their_owners_release_them: Seen(0, GROUPS | {"kind": "consumer"}),
    off.a_target_assignment_of_the_future_is_waited_for: Seen(
        4, GROUPS | {"kind": "consumer", "only": ("clock_jumped", "broker_killed", "program_killed")}
    ),
    off.a_repeated_batch_is_appended_again: Seen(0, RECORDS),
    off.followers_know_no_producers: Seen(5, RECORDS),
    off.readers_get_what_is_not_replicated: Seen(11, GROUPS | {"only": BROKER_FAULTS}),
    off.what_is_sent_again_has_another_number: Seen(0, RECORDS),
    off.an_abort_keeps_the_pending_offsets: Seen(1, TRANSACTIONS),
    off.the_producer_is_answered_before_the_decision_is_replicated: Seen(1, TRANSACTIONS),
    off.readers_get_open_transactions: Seen(1, TRANSACTIONS),
    off.altered_settings_are_not_applied_to_replicas: Seen(14, TOPICS | {"only": ("program_paused",), "pace": 0.3}),
    off.a_follower_behind_deleted_records_begins_at_the_leaders_end: Seen(35, TOPICS),
    off.a_log_that_is_cut_keeps_its_producers: Seen(22, RECORDS),
    off.partitions_are_not_added_to_the_transaction: Seen(0, TRANSACTIONS),
    off.a_consumer_delivers_aborted_records: Seen(0, TRANSACTIONS),
    off.a_producer_commits_what_has_failed: Seen(2, TRANSACTIONS | {"only": BROKER_FAULTS}),
}


@pytest.mark.parametrize("switch", SEEN, ids=lambda switch: switch.__name__)
def test_a_seed_sees_that_a_rule_is_off(switch: Switch, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = SEEN[switch]
    switch(monkeypatch)
    with pytest.raises(FuzzFailure):
        seen.run(seen.seed, *OTHERS)


KNOWN = {(seen.seed, repr(seen.plan)): seen for seen in SEEN.values()}


@pytest.mark.parametrize("seen", KNOWN.values(), ids=lambda seen: str(seen.seed))
def test_that_seed_sees_nothing_while_all_rules_are_on(seen: Seen) -> None:
    seen.run(seen.seed)


@pytest.mark.parametrize("switch", SEEN_IN_ROOMS, ids=lambda switch: switch.__name__)
def test_a_room_sees_that_a_rule_is_off(switch: Switch, monkeypatch: pytest.MonkeyPatch) -> None:
    """The room's own run shows that it passes while all rules are on."""
    switch(monkeypatch)
    with pytest.raises((AssertionError, ScenarioError, ValueError, pytest.fail.Exception)):
        SEEN_IN_ROOMS[switch]()


def test_each_switch_is_seen_once() -> None:
    """By a seed, or in its room."""
    switches = [f.__name__ for _, f in inspect.getmembers(off, inspect.isfunction) if f.__module__ == off.__name__]
    own = [name for name in switches if list(inspect.signature(getattr(off, name)).parameters) == ["patch"]]
    assert own == sorted(switch.__name__ for switch in [*SEEN, *SEEN_IN_ROOMS])


def seeing_seed(switch: Switch, seen: Seen) -> int | None:
    """The known seed, or the first one from 0 on, that fails while the rule is off, and not while it is on."""
    for seed in (seen.seed, *range(MOST_SEEDS)):
        with pytest.MonkeyPatch.context() as patch:
            switch(patch)
            try:
                seen.run(seed)
                continue
            except FuzzFailure as failure:
                print(f"{switch.__name__}: {failure}"[:240], flush=True)
        seen.run(seed)
        return seed
    return None


def main(names: list[str]) -> None:
    for switch, seen in SEEN.items():
        if not names or switch.__name__ in names:
            seed = seeing_seed(switch, seen)
            if seed != seen.seed:
                print(f"{switch.__name__}: {seed}, not {seen.seed}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
