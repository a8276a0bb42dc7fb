"""The checker of share deliveries sees each of the defects that it is there for."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from coterie_conformance.share_stories.share_checker import AckOutcome, ShareDeliveries

P = ("orders", 0)
WRITTEN, UNKNOWN, REFUSED = AckOutcome.WRITTEN, AckOutcome.UNKNOWN, AckOutcome.REFUSED


def twice_accepted(history: ShareDeliveries) -> None:
    history.acquired("a", P, [(0, 0, 1)])
    history.acknowledged("a", P, 0, "accepted", WRITTEN)
    history.acknowledged("a", P, 0, "accepted", WRITTEN)


def accepted_by_the_former_owner(history: ShareDeliveries) -> None:
    history.acquired("a", P, [(0, 0, 1)])
    history.acquired("b", P, [(0, 0, 2)])
    history.acknowledged("a", P, 0, "accepted", WRITTEN)
    history.start_offset(P, 0)


def delivered_after_it_was_accepted(history: ShareDeliveries) -> None:
    history.acquired("a", P, [(0, 0, 1)])
    history.acknowledged("a", P, 0, "accepted", WRITTEN)
    history.acquired("b", P, [(0, 0, 2)])


def delivered_too_often(history: ShareDeliveries) -> None:
    history.acquired("a", P, [(0, 0, 6)])


def out_of_order(history: ShareDeliveries) -> None:
    history.acquired("a", P, [(3, 4, 1), (2, 2, 1)])


def twice_in_a_batch(history: ShareDeliveries) -> None:
    history.acquired("a", P, [(0, 2, 1), (2, 3, 1)])


def below_the_start(history: ShareDeliveries) -> None:
    history.start_offset(P, 5)
    history.acquired("a", P, [(4, 5, 1)])


def start_goes_back(history: ShareDeliveries) -> None:
    history.start_offset(P, 5)
    history.start_offset(P, 4)


def never_delivered(history: ShareDeliveries) -> None:
    history.acquired("a", P, [(0, 0, 1), (2, 2, 1)])
    history.acknowledged("a", P, 0, "accepted", WRITTEN)
    history.acknowledged("a", P, 2, "accepted", WRITTEN)
    history.check_none_lost({P: 3})


def not_accepted_at_rest(history: ShareDeliveries) -> None:
    history.acquired("a", P, [(0, 0, 1)])
    history.acknowledged("a", P, 0, "accepted", REFUSED)
    history.check_none_lost({P: 1})


def letter_of_an_accepted_record(history: ShareDeliveries) -> None:
    history.acquired("a", P, [(0, 0, 1)])
    history.acknowledged("a", P, 0, "accepted", WRITTEN)
    history.check_no_letter_of_accepted({(P, 0)})


def late_acceptance_of_a_record_with_deliveries_left(history: ShareDeliveries) -> None:
    history.acquired("a", P, [(0, 0, 1)])
    history.acknowledged("a", P, 0, "accepted", AckOutcome.TOO_LATE)
    history.check_no_letter_of_accepted({(P, 0)})


def letter_of_a_record_that_nobody_had(history: ShareDeliveries) -> None:
    history.check_no_letter_of_accepted({(P, 0)})


def accepted_by_a_stranger(history: ShareDeliveries) -> None:
    history.acquired("a", P, [(0, 0, 1)])
    history.acknowledged("b", P, 0, "accepted", WRITTEN)


@pytest.mark.parametrize(
    ("defect", "says"),
    [
        (twice_accepted, "record 0 of .* is accepted by a after it was accepted"),
        (accepted_by_the_former_owner, "record 0 is accepted by a member that had lost it; the group is at 0"),
        (delivered_after_it_was_accepted, "record 0 of .* is delivered to b after it was accepted"),
        (delivered_too_often, "delivered for the 6th time"),
        (out_of_order, "offsets 2 to 2 come after 4"),
        (twice_in_a_batch, "offsets 2 to 3 come after 2"),
        (below_the_start, "record 4 of .* below the start offset 5"),
        (start_goes_back, "the start offset went back from 5 to 4"),
        (never_delivered, "record 1 of .* was never delivered"),
        (not_accepted_at_rest, "record 0 of .* is lost: delivered 1 times, last to a"),
        (letter_of_an_accepted_record, "record 0 of .* was accepted, and has a dead letter"),
        (late_acceptance_of_a_record_with_deliveries_left, "record 0 of .* was accepted, and has a dead letter"),
        (letter_of_a_record_that_nobody_had, "record 0 of .* has a dead letter, and was never delivered"),
        (accepted_by_a_stranger, "accepted by b, who never had it"),
    ],
)
def test_a_defect_is_seen(defect: Callable[[ShareDeliveries], None], says: str) -> None:
    with pytest.raises(AssertionError, match=says):
        defect(ShareDeliveries(5))


def test_a_right_history_passes() -> None:
    history = ShareDeliveries(5)
    history.acquired("a", P, [(0, 1, 1)])
    history.acknowledged("a", P, 0, "accepted", WRITTEN)
    history.acknowledged("a", P, 1, "released", WRITTEN)
    history.start_offset(P, 1)
    history.acquired("b", P, [(1, 2, 2)])
    history.acknowledged("b", P, 1, "rejected", UNKNOWN)
    history.acknowledged("b", P, 2, "rejected", WRITTEN)
    history.acquired("a", P, [(3, 3, 5)])
    history.check_none_lost({P: 4})


def test_letters_that_are_missing() -> None:
    """Of a rejected record and of one whose deliveries are spent, and of no other."""
    history = ShareDeliveries(2)
    history.acquired("a", P, [(0, 2, 1), (3, 4, 2)])
    history.acknowledged("a", P, 0, "rejected", WRITTEN)
    history.acknowledged("a", P, 1, "accepted", WRITTEN)
    history.acknowledged("a", P, 4, "accepted", AckOutcome.TOO_LATE)
    assert history.missing_letters(set()) == [(P, 0), (P, 3), (P, 4)]
    assert history.missing_letters({(P, 0), (P, 3), (P, 4)}) == []
    history.check_no_letter_of_accepted({(P, 0), (P, 3), (P, 4)})
