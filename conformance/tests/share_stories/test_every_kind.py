"""Stories of the four kinds of groups on one topic: seeds with one broker and with three, and planted defects of each
kind. A share group beside the classic way of doing the same work, and a member's crash."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from conformance.tests.share_stories.test_share_stories import forget_acceptances
from coterie.coordinator.offsets import fetch
from coterie.wire.messages.groups.offset_fetch import OffsetFetchResponsePartition
from coterie_conformance.share_stories import beside_classic, every_kind
from coterie_conformance.share_stories.beside_classic import run_once
from coterie_conformance.share_stories.every_kind import run_kinds_seed
from coterie_conformance.stories.story import FuzzFailure

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("seed", "brokers"), [(0, 1), (1, 1), (0, 3), (2, 3)])
def test_a_story(seed: int, brokers: int) -> None:
    report = run_kinds_seed(seed, brokers=brokers)
    assert report.acknowledged > 0
    assert report.delivered >= len(every_kind.GROUPS) * report.acknowledged


def test_a_seed_repeats_itself() -> None:
    assert run_kinds_seed(3, 0.2, brokers=3) == run_kinds_seed(3, 0.2, brokers=3)


# -- planted defects --------------------------------------------------------------------------------------------------


def forget_owners(patch: pytest.MonkeyPatch) -> None:
    """A task goes to its new member before the former one has given it up."""
    patch.setattr("coterie.coordinator.streams.target._is_active_held", lambda *_: False)


def resume_too_late(patch: pytest.MonkeyPatch) -> None:
    """Members resume one record behind what was committed."""

    def row(index: int, offset: int, *more: Any) -> OffsetFetchResponsePartition:
        return OffsetFetchResponsePartition(index, offset + (offset > 0), *more)

    patch.setattr(fetch, "OffsetFetchResponsePartition", row)


@pytest.mark.parametrize(
    ("plant", "group", "text"),
    [
        (forget_owners, "streams", "is active at streams-"),
        (forget_acceptances, "share", "after it was accepted|by a member that had lost it|is delivered for the"),
        (resume_too_late, "classic", "group classic has not had|group classic has committed"),
        (resume_too_late, "consumer", "group consumer has not had|group consumer has committed"),
        (resume_too_late, "streams", "group streams has not had|group streams has committed"),
    ],
)
def test_a_planted_defect_is_seen(
    plant: Callable[[pytest.MonkeyPatch], None], group: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a story of that kind of group alone, so that no other one sees it first."""
    plant(monkeypatch)
    monkeypatch.setattr(every_kind, "GROUPS", [each for each in every_kind.GROUPS if each.name == group])
    with pytest.raises(FuzzFailure, match=text):
        run_seeds(20)


def run_seeds(count: int) -> None:
    for seed in range(count):
        run_kinds_seed(seed)


def test_a_slow_record_holds_up_its_partition_only_where_it_has_an_owner() -> None:
    by_ownership, as_a_queue = (run_once("one record is slow", protocol) for protocol in ("consumer", "share"))
    assert by_ownership.longest_s > beside_classic.SLOW_S / 2
    assert by_ownership.late > as_a_queue.late


def test_a_record_that_is_never_done_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(beside_classic.CHANGES, "all are killed", _all_are_killed)
    with pytest.raises(AssertionError, match=r"all are killed, share: .* records were never done"):
        run_once("all are killed", "share")


def _all_are_killed(crew: beside_classic.Crew) -> None:
    for number in range(beside_classic.MEMBERS):
        crew.kill(number)
