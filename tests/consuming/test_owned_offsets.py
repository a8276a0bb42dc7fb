"""The offsets of a member's partitions over any course of assignments, revocations, look-ups and commits."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given, settings

from coterie.consuming.committed_offsets import OwnedOffsets, Partition

PARTITIONS = [("t", p) for p in range(4)]
SOME = st.lists(st.sampled_from(PARTITIONS), unique=True)
OFFSETS = st.dictionaries(st.sampled_from(PARTITIONS), st.integers(-1, 9))


def test_reading_begins_at_the_committed_offset_or_where_it_starts() -> None:
    offsets = OwnedOffsets()
    offsets.assigned([("t", 0), ("t", 1)])
    assert offsets.unknown() == [("t", 0), ("t", 1)]
    offsets.looked_up({("t", 0): (7, 2, ""), ("t", 1): (-1, -1, "")}, {("t", 1): 3})
    assert offsets.positions == {("t", 0): 7, ("t", 1): 3}
    assert offsets.epochs == {("t", 0): 2, ("t", 1): -1}
    assert offsets.to_commit({("t", 0): 7, ("t", 1): 3, ("t", 2): 9}) == {("t", 1): 3}
    assert offsets.to_commit({("t", 0): 8, ("t", 1): 3}, lost={("t", 0)}) == {("t", 1): 3}
    offsets.commit_made({("t", 1): 3})
    assert offsets.to_commit({("t", 1): 3}) == {}
    offsets.cut(("t", 1), 2, 4)
    assert (offsets.positions[("t", 1)], offsets.epochs[("t", 1)]) == (2, 4)
    assert offsets.to_commit({("t", 1): 3}) == {}, "the position went back, and the log may have other records at 2"
    offsets.positions[("t", 1)] = 3
    assert offsets.to_commit({("t", 1): 3}) == {("t", 1): 3}, "less than was committed before"
    offsets.cut(("t", 1), 3, -1)
    offsets.assigned([("t", 1), ("t", 2)])
    assert offsets.unknown() == [("t", 2)]
    assert offsets.positions == {("t", 1): 3}
    assert offsets.epochs == {("t", 1): -1}


def test_of_a_topic_that_was_created_again_the_group_has_committed_nothing() -> None:
    offsets = OwnedOffsets()
    offsets.assigned([("t", 0)])
    offsets.looked_up({("t", 0): (7, 2, "")}, {})
    offsets.replaced(("t", 0), 0)
    assert offsets.positions == {("t", 0): 0}
    assert offsets.epochs == {("t", 0): -1}
    assert offsets.starts() == {("t", 0): 0}


@settings(max_examples=300, derandomize=True)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("assigned"), SOME),
            st.tuples(st.just("revoked"), SOME),
            st.tuples(st.just("looked up"), OFFSETS),
            st.tuples(st.just("commit"), OFFSETS),
        ),
        max_size=30,
    )
)
def test_nothing_is_committed_that_is_not_owned_and_nothing_goes_back(steps: list[tuple[str, object]]) -> None:
    offsets, owned = OwnedOffsets(), set[Partition]()
    committed: dict[Partition, int] = {}  # since the partition was assigned
    for name, given_ in steps:
        before = dict(offsets.positions)
        match name, given_:
            case "assigned", list(partitions):
                offsets.assigned(partitions)
                owned = set(partitions)
            case "revoked", list(partitions):
                offsets.revoked(partitions)
                owned -= set(partitions)
            case "looked up", dict(looked_up):
                offsets.looked_up({tp: (at, 0, "") for tp, at in looked_up.items()}, dict.fromkeys(looked_up, 0))
                assert before.items() <= offsets.positions.items(), "a look-up that came late moved a position"
            case _, dict(processed):
                wanted = offsets.to_commit(processed)
                assert set(wanted) <= owned
                assert all(offset > committed.get(tp, -1) for tp, offset in wanted.items())
                offsets.commit_made(wanted)
                committed |= wanted
        committed = {tp: offset for tp, offset in committed.items() if tp in offsets.positions}
        assert set(offsets.positions) == set(offsets.committed)
        assert set(offsets.positions) | set(offsets.unknown()) == owned
