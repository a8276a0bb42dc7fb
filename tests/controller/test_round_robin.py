"""The brokers of a new topic's partitions, as in Kafka's AdminRackAwareTest and AddPartitionsTest."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.controller.assignment import assign_replicas


def test_replicas_go_round_as_in_kafka() -> None:
    """testReplicaAssignment"""
    assert assign_replicas(range(5), 10, 3, start_index=0, shift=0) == {
        0: (0, 1, 2),
        1: (1, 2, 3),
        2: (2, 3, 4),
        3: (3, 4, 0),
        4: (4, 0, 1),
        5: (0, 2, 3),
        6: (1, 3, 4),
        7: (2, 4, 0),
        8: (3, 0, 1),
        9: (4, 1, 2),
    }


def test_more_replicas_than_brokers() -> None:
    """testReplicaAssignment"""
    with pytest.raises(ValueError, match="replication factor 3 with 2 brokers"):
        assign_replicas([0, 1], 10, 3, start_index=0, shift=0)


@given(
    st.lists(st.integers(0, 99), min_size=1, max_size=6, unique=True),
    st.integers(1, 20),
    st.integers(0, 5),
    st.integers(0, 5),
    st.data(),
)
def test_leaders_and_replicas_are_spread(
    brokers: list[int], partitions: int, start_index: int, shift: int, data: st.DataObject
) -> None:
    factor = data.draw(st.integers(1, len(brokers)))
    assigned = assign_replicas(brokers, partitions, factor, start_index=start_index, shift=shift)
    assert sorted(assigned) == list(range(partitions))
    assert all(len(set(replicas)) == factor for replicas in assigned.values())
    leads = [sum(replicas[0] == broker for replicas in assigned.values()) for broker in brokers]
    assert max(leads) - min(leads) <= 1


@given(st.integers(2, 5), st.integers(1, 8), st.integers(1, 8), st.integers(0, 4))
def test_added_partitions_go_on_where_the_others_end(brokers: int, before: int, added: int, start_index: int) -> None:
    """testIncrementPartitions: with the topic's start, the leaders are those of a topic made with all of them."""
    whole = assign_replicas(range(brokers), before + added, 2, start_index=start_index, shift=0)
    new = assign_replicas(range(brokers), added, 2, start_index=start_index, shift=0, first_partition=before)
    assert {p: r[0] for p, r in new.items()} == {p: r[0] for p, r in whole.items() if p >= before}
