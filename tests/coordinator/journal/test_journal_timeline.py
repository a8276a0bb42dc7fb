"""A journal's lines as a timeline: a consumer group's, what a journal leaves out, and the changes that a live page receives."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.coordinator.journal.journal_timeline import JournalTimeline
from coterie.coordinator.journal.line import JournalLine
from coterie.coordinator.journal.timeline import Timeline
from tests.machines.test_ownership import _churned

ANNA, BEN = "0ca809dc-0d75-4e23-90cf-a59732782b1a", "174e39d2-daa8-4234-a9c9-338da2ae62ee"


def of_consumers() -> list[JournalLine]:
    """Anna has two partitions; ben joins at 10 s, has one of them from 12 s on, which anna released at 11 s."""

    def line(time_ms: int, epoch: int, event: str, state: str, members: int, **fields: Any) -> JournalLine:
        return JournalLine(time_ms, "crew", epoch, event, "Stable", state, members=members, **fields)

    def move(partition: int, from_: str | None, to: str | None) -> dict[str, Any]:
        return {"topic": "t", "partition": partition, "from": from_, "to": to}

    of_anna = [move(0, None, ANNA), move(1, None, ANNA)]
    joined = {
        name: [{"kind": "member_joined", "member_id": member_id, "client_id": name}]
        for name, member_id in (("anna", ANNA), ("ben", BEN))
    }
    left = [{"kind": "member_left", "member_id": BEN, "client_id": "ben"}]
    return [
        line(0, 2, "epoch_raised", "Assigning", 1, causes=joined["anna"]),
        line(0, 2, "target_computed", "Reconciling", 1, moved=of_anna, moved_count=0),
        line(1, 2, "member_reconciled", "Stable", 1, member=ANNA, member_epoch=2, moved=of_anna),
        line(10_000, 3, "epoch_raised", "Assigning", 2, causes=joined["ben"]),
        line(10_500, 3, "target_computed", "Reconciling", 2, moved=[move(1, ANNA, BEN)], moved_count=1),
        line(10_500, 3, "member_reconciled", "Reconciling", 2, member=BEN, member_epoch=3),
        line(10_600, 3, "member_revokes", "Reconciling", 2, member=ANNA, member_epoch=2, moved=[move(1, ANNA, None)]),
        line(11_000, 3, "member_reconciled", "Reconciling", 2, member=ANNA, member_epoch=3, moved=[move(1, ANNA, None)]),
        line(12_000, 3, "member_reconciled", "Stable", 2, member=BEN, member_epoch=3, moved=[move(1, ANNA, BEN)]),
        line(20_000, 3, "member_removed", "Stable", 1, causes=left, moved=[move(1, BEN, None)], moved_count=0, unowned_count=1),
    ]  # fmt: skip


def test_a_consumer_groups_partitions_move_one_by_one_within_a_band() -> None:
    made = JournalTimeline("crew")
    for line in of_consumers():
        made.add(line)
    timeline = made.timeline
    anna, ben = f"anna-{ANNA}", f"ben-{BEN}"
    spells = [(timeline.lanes[s.lane][1], timeline.owners[s.owner], s.from_ms, s.until_ms) for s in timeline.owned]
    assert spells == [(0, anna, 1, None), (1, anna, 1, 11_000), (1, ben, 12_000, 20_000)]
    assert timeline.unowned == [([1, 1], 11_000, 11_000, 12_000)]
    assert timeline.waiting == {("t", 1): 20_000}
    bands = [(b.generation, [tuple(phase) for phase in b.phases], b.moved) for b in timeline.rebalances]
    assert bands[1] == (3, [("Assigning", 10_000, 10_500), ("Reconciling", 10_500, 12_000)], 1)
    assert timeline.rebalances[1].why == f"{ben} joined"


def test_a_share_groups_lane_has_all_owners_at_once() -> None:
    """Ben joins anna at the same partitions, and leaves: one spell of both, between those of anna alone."""

    def line(time_ms: int, event: str, members: int, *owners: str, **fields: Any) -> JournalLine:
        of = {member: {"t": [0, 1]} for member in owners}
        return JournalLine(time_ms, "crew", 2, event, "Stable", "Stable", members=members, owners=of, **fields)

    made = JournalTimeline("crew")
    left = [{"kind": "member_left", "member_id": BEN, "client_id": "ben"}]
    for each in (
        line(1, "member_reconciled", 1, ANNA, member=ANNA, member_epoch=2),
        line(5_000, "member_reconciled", 2, ANNA, BEN, member=BEN, member_epoch=2),
        line(9_000, "member_removed", 1, ANNA, causes=left),
        line(12_000, "member_removed", 0, causes=[{"kind": "member_left", "member_id": ANNA}]),
    ):
        made.add(each)
    timeline = made.timeline
    both = f"{ANNA} + {BEN}"
    spells = [(timeline.lanes[s.lane][1], timeline.owners[s.owner], s.from_ms, s.until_ms) for s in timeline.owned]
    assert spells == [
        (number, owner, *times)
        for owner, times in ((ANNA, (1, 5_000)), (both, (5_000, 9_000)), (ANNA, (9_000, 12_000)))
        for number in (0, 1)
    ]
    assert timeline.unowned == []


def applied(document: dict[str, Any], changes: dict[str, Any]) -> None:
    """As `timeline_model.js` applies changes."""
    for name in ("lanes", "owners", "unowned", "moments"):
        document[name] += changes[name]
    for name in ("owned", "rebalances"):
        for index, item in changes[name]:
            document[name][index : index + 1] = [item]
    document |= {name: changes[name] for name in ("end_ms", "waiting", "is_whole")}


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky", "consumer"])
def test_changes_bring_a_page_to_the_document_of_now(assignor: str) -> None:
    lines = of_consumers() if assignor == "consumer" else _churned(assignor, 2)[0].journal
    for begin in (0, len(lines) // 2):
        made = JournalTimeline("g")
        for line in lines[:begin]:
            made.add(line)
        page = made.document()
        for line in lines[begin:]:
            made.add(line)
            applied(page, made.changes())
        now = made.timeline.document(is_live=True)
        assert page | {"begin_ms": now["begin_ms"]} == now


def test_a_generations_line_alone_tells_when_its_rebalance_began() -> None:
    """`groups history` without --all has no other lines."""
    made = JournalTimeline("crew")
    first = JournalLine(
        10_000, "crew", 1, "stable", "CompletingRebalance", "Stable", members=1, join_ms=3_000, sync_ms=500
    )
    first.owners = {"anna": {"t": [0]}}
    made.add(first)
    assert [tuple(phase) for phase in made.timeline.rebalances[0].phases] == [
        ("PreparingRebalance", 6_500, 9_500),
        ("CompletingRebalance", 9_500, 10_000),
    ]
    assert made.timeline.unowned == [([0, 0], 6_500, 6_500, 10_000)]


def test_a_group_too_large_for_its_owners_to_be_named_is_marked() -> None:
    made = JournalTimeline("crew")
    line = JournalLine(1, "crew", 1, "stable", "CompletingRebalance", "Stable", members=1, moved_count=6_000)
    line.moved = [{"topic": "t", "partition": n, "from": None, "to": "anna"} for n in range(1_000)]
    made.add(line)
    timeline: Timeline = made.timeline
    assert (timeline.is_whole, len(timeline.owned)) == (False, 1_000)
