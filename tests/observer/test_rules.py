"""The rules as a table, and what no scenario of tests/spec/observe has the words for."""

from __future__ import annotations

from pathlib import Path

from coterie.assignors.blobs import encode_subscription
from coterie.coordinator.journal.generations import stored_change
from coterie.coordinator.journal.line import CAUSES, EVENTS
from coterie.observer.machine.rules import DEPARTURE_RULES, RULES
from coterie.wire.messages.stored.consumer_offsets import GroupMetadataValue, MemberMetadata
from coterie_conformance.scenarios.observer_scenario import SightedGroup

SPEC = Path(__file__).parents[1] / "spec" / "observe"


def test_every_rule_has_a_scenario_of_its_name_that_concludes_it() -> None:
    scenarios = [part for path in SPEC.glob("*.txt") for part in path.read_text().split("\n== ")[1:]]
    traces = {name: trace for name, _, trace in (part.partition("\n") for part in scenarios)}
    assert [rule for rule in RULES if f"(inferred, {rule})" not in traces.get(rule, "")] == []


def test_every_rule_has_its_words_and_every_kind_is_the_journals() -> None:
    assert DEPARTURE_RULES.keys() < RULES.keys()
    kinds = {"deploy", "member_flaps", "slow_join", "slow_sync", "instance_fenced", "commit_by_stranger"}
    assert kinds | {"member_gone", "not_seen", "coordinator_lost"} < CAUSES.keys()
    assert "pattern_seen" in EVENTS


def test_what_a_cooperative_member_owned_is_no_change_of_its_subscription() -> None:
    """Its subscription's bytes hold the partitions that it owned; only the topics count."""

    def value(owned: dict[str, list[int]]) -> GroupMetadataValue:
        member = MemberMetadata("anna-1", None, "anna", "/h", 1, 1, encode_subscription(["orders"], owned), b"")
        return GroupMetadataValue("consumer", 1, "cooperative-sticky", "anna-1", -1, [member])

    assert value({"orders": [1]}) != value({})
    assert stored_change(value({"orders": [1]}), value({})).resubscribed == []


def test_the_groups_worth_a_description() -> None:
    group = SightedGroup()
    group.stored(0, 1, "anna-1")
    group.observer.listed(["a", "b"])
    assert group.observer.worth_describing(1_000_000, 2) == ["a", "b"]
    group.described(1, "PreparingRebalance", "anna-1")
    assert "crew" in group.observer.worth_describing(1_001_000, 1)
