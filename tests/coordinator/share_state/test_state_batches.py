"""Batches of state are combined as in Kafka's PersisterStateBatchCombinerTest (examples of 4.4.0):
testStateBatchCombineSameState, testStateBatchCombineDifferentStates, testStateBatchCombineComplexCases,
testStateBatchCombineCornerCases."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.coordinator.share_state.state import DeliveryBatch, combined

Rows = list[tuple[int, int, int, int]]  # first offset, last offset, state, count, in the order of Kafka's test

EXAMPLES: list[tuple[str, Rows, Rows, Rows, int]] = [
    ("pruned midway", [(100, 130, 0, 1)], [], [(120, 130, 0, 1)], 120),
    ("added ones are pruned", [], [(100, 130, 0, 1)], [(120, 130, 0, 1)], 120),
    ("empty", [], [], [], 120),
    ("same offsets", [(100, 110, 0, 1)], [(100, 110, 0, 1)], [(100, 110, 0, 1)], -1),
    ("same state, longer", [(100, 110, 0, 1)], [(105, 115, 0, 1)], [(100, 115, 0, 1)], -1),
    ("contiguous", [(100, 110, 0, 1)], [(111, 115, 0, 1)], [(100, 115, 0, 1)], -1),
    (
        "overlap among the added ones",
        [(100, 110, 0, 1), (121, 130, 0, 1)],
        [(111, 119, 2, 2), (116, 123, 2, 2)],
        [(100, 110, 0, 1), (111, 123, 2, 2), (124, 130, 0, 1)],
        -1,
    ),
    (
        "different priority",
        [(100, 110, 0, 1)],
        [(101, 105, 1, 2), (101, 115, 2, 2), (101, 120, 3, 2)],
        [(100, 100, 0, 1), (101, 120, 3, 2)],
        -1,
    ),
    (
        "with pruning",
        [(100, 110, 0, 1), (121, 130, 0, 1)],
        [(111, 119, 2, 2), (116, 123, 2, 2)],
        [(120, 123, 2, 2), (124, 130, 0, 1)],
        120,
    ),
    (
        "higher states",
        [(111, 120, 0, 1)],
        [(111, 113, 0, 2), (114, 114, 2, 1), (115, 119, 0, 2)],
        [(111, 113, 0, 2), (114, 114, 2, 1), (115, 119, 0, 2), (120, 120, 0, 1)],
        -1,
    ),
    ("lower state, same offsets", [(100, 110, 0, 3)], [(100, 110, 0, 1)], [(100, 110, 0, 3)], -1),
    ("higher state, shorter", [(100, 110, 0, 1)], [(100, 105, 0, 2)], [(100, 105, 0, 2), (106, 110, 0, 1)], -1),
    ("lower state, longer", [(100, 110, 0, 3)], [(100, 115, 0, 1)], [(100, 110, 0, 3), (111, 115, 0, 1)], -1),
    (
        "higher state, within",
        [(100, 110, 0, 1)],
        [(103, 105, 0, 2)],
        [(100, 102, 0, 1), (103, 105, 0, 2), (106, 110, 0, 1)],
        -1,
    ),
    # Combined by 4.4.0's class; 4.3.0's leaves two batches.
    ("a lower one between neighbours is covered", [(4, 4, 0, 2), (5, 5, 0, 1)], [(5, 5, 0, 2)], [(4, 5, 0, 2)], 4),
]


def batches(rows: Rows) -> list[DeliveryBatch]:
    return [DeliveryBatch(first, last, count, state) for first, last, state, count in rows]


@pytest.mark.parametrize(
    ("before", "added", "expected", "start"), [e[1:] for e in EXAMPLES], ids=[e[0] for e in EXAMPLES]
)
def test_batches_are_combined_as_by_kafka(before: Rows, added: Rows, expected: Rows, start: int) -> None:
    assert list(combined(batches(before), batches(added), start)) == batches(expected)


BATCHES = st.lists(
    st.builds(
        lambda first, length, count, state: DeliveryBatch(first, first + length, count, state),
        st.integers(0, 40),
        st.integers(0, 12),
        st.integers(1, 3),
        st.sampled_from((0, 2, 4)),
    ),
    max_size=8,
)


@given(BATCHES, BATCHES, st.integers(-1, 30))
def test_of_each_offset_the_highest_delivery_holds(
    before: list[DeliveryBatch], added: list[DeliveryBatch], start: int
) -> None:
    result = combined(before, added, start)
    every = [*before, *added]
    if len([b for b in every if b.last_offset >= start]) < 2:
        return
    for one, following in itertools.pairwise(result):
        assert one.last_offset < following.first_offset
        assert one.last_offset + 1 < following.first_offset or one.delivery != following.delivery
    for offset in range(60):
        highest = max((b.delivery for b in every if b.first_offset <= offset <= b.last_offset), default=None)
        of_result = [b.delivery for b in result if b.first_offset <= offset <= b.last_offset]
        assert of_result == ([] if highest is None or offset < start else [highest]), offset
