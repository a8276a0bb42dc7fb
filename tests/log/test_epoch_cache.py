"""The leader epochs of a log: Kafka's LeaderEpochFileCacheTest, by its names."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from coterie.log.epoch_cache import UNDEFINED_EPOCH, EndOfEpoch, EpochStart, LeaderEpochCache

END = 100


def cache(*entries: tuple[int, int]) -> LeaderEpochCache:
    made = LeaderEpochCache()
    for epoch, start_offset in entries:
        made.assign(epoch, start_offset)
    return made


def entries(made: LeaderEpochCache) -> list[tuple[int, int]]:
    return [(e.epoch, e.start_offset) for e in made.entries]


def test_should_add_epoch_and_message_offset_to_cache() -> None:
    made = cache((2, 10))
    assert made.latest == 2
    assert made.entries == [EpochStart(2, 10)]
    assert made.end_of(2, 11) == EndOfEpoch(2, 11)


def test_should_return_log_end_offset_if_latest_epoch_requested() -> None:
    assert cache((2, 11), (2, 12)).end_of(2, 14) == EndOfEpoch(2, 14)


def test_should_return_undefined_offset_if_undefined_epoch_requested() -> None:
    assert cache((2, 11), (3, 12)).end_of(UNDEFINED_EPOCH, END) == EndOfEpoch()


def test_should_not_overwrite_offset_for_a_leader_epoch_once_it_has_been_assigned() -> None:
    made = cache((2, 6))
    assert not made.assign(2, 7)
    assert entries(made) == [(2, 6)]


def test_should_enforce_monotonically_increasing_start_offsets() -> None:
    assert entries(cache((2, 9), (3, 9))) == [(3, 9)]


def test_should_enforce_monotonically_increasing_epochs() -> None:
    assert entries(cache((1, 5), (2, 6), (1, 7))) == [(1, 7)]


def test_should_enforce_offsets_increase_monotonically() -> None:
    assert entries(cache((2, 6), (3, 5))) == [(3, 5)]


def test_should_return_unsupported_if_no_epoch_recorded() -> None:
    assert cache().end_of(0, END) == EndOfEpoch()
    assert cache().end_of(UNDEFINED_EPOCH, END) == EndOfEpoch()
    assert cache().latest == UNDEFINED_EPOCH


def test_should_return_first_epoch_if_requested_epoch_less_than_first_epoch() -> None:
    assert cache((5, 11), (6, 12), (7, 13)).end_of(4, END) == EndOfEpoch(4, 11)


def test_should_truncate_if_matching_epoch_but_earlier_starting_offset() -> None:
    assert entries(cache((5, 11), (6, 12), (7, 13), (9, 12))) == [(5, 11), (9, 12)]


def test_should_get_first_offset_of_subsequent_epoch_when_offset_requested_for_previous_epoch() -> None:
    assert cache((1, 11), (1, 12), (2, 13), (2, 14), (3, 15)).end_of(2, 17) == EndOfEpoch(2, 15)


def test_should_return_next_available_epoch_if_there_is_no_exact_epoch_for_the_one_requested() -> None:
    assert cache((0, 10), (2, 13), (4, 17)).end_of(1, END) == EndOfEpoch(0, 13)
    assert cache((0, 10), (2, 13), (4, 17)).end_of(3, END) == EndOfEpoch(2, 17)


def test_should_return_invalid_offset_if_epoch_is_requested_which_is_not_currently_tracked() -> None:
    assert cache((2, 100)).end_of(3, END) == EndOfEpoch()


def test_should_support_epochs_that_do_not_start_from_zero() -> None:
    assert cache((2, 6)).end_of(2, 7) == EndOfEpoch(2, 7)


def test_should_increase_and_track_epochs_as_leaders_change_many_times() -> None:
    made = cache((0, 0), (1, 0))
    assert made.end_of(1, 0) == EndOfEpoch(1, 0)
    made.assign(2, 5)
    assert made.end_of(1, 9) == EndOfEpoch(1, 5)
    made.assign(3, 10)
    assert made.end_of(2, 12) == EndOfEpoch(2, 10)


def test_should_drop_entries_on_epoch_boundary_when_removing_latest_entries() -> None:
    made = cache((2, 6), (3, 8), (4, 11))
    made.truncate_from_end(8)
    assert entries(made) == [(2, 6)]


def test_should_drop_entries_between_epoch_boundary_when_removing_newest() -> None:
    made = cache((2, 6), (3, 8), (4, 11))
    made.truncate_from_end(9)
    assert entries(made) == [(2, 6), (3, 8)]


def test_should_preserve_reset_offset_on_clear_earliest_if_one_exists() -> None:
    made = cache((2, 6), (3, 8), (4, 11))
    made.truncate_from_start(8)
    assert entries(made) == [(3, 8), (4, 11)]


def test_should_update_saved_offset_when_offset_to_clear_to_is_between_epochs() -> None:
    made = cache((2, 6), (3, 8), (4, 11))
    made.truncate_from_start(9)
    assert entries(made) == [(3, 9), (4, 11)]


def test_should_not_clear_anything_if_offset_too_early() -> None:
    made = cache((2, 6), (3, 8), (4, 11))
    made.truncate_from_start(1)
    assert entries(made) == [(2, 6), (3, 8), (4, 11)]


def test_should_retain_latest_epoch_on_clear_all_earliest_and_update_its_offset() -> None:
    made = cache((2, 6), (3, 8), (4, 11))
    made.truncate_from_start(15)
    assert entries(made) == [(4, 15)]


def test_an_empty_cache_stays_empty() -> None:
    """shouldClearEarliestOnEmptyCache, shouldClearLatestOnEmptyCache"""
    made = cache()
    made.truncate_from_start(7)
    made.truncate_from_end(7)
    assert entries(made) == []


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 12)), max_size=12))
def test_epochs_and_offsets_rise_whatever_is_assigned(assigned: list[tuple[int, int]]) -> None:
    made = cache(*assigned)
    kept = entries(made)
    assert kept == sorted(kept)
    assert len({e for e, _ in kept}) == len({o for _, o in kept}) == len(kept)


@given(st.lists(st.integers(0, 2), min_size=1, max_size=12), st.integers(-1, 30))
def test_the_end_of_an_epoch_is_where_the_next_begins(steps: list[int], asked: int) -> None:
    """Beside a log of which every record's epoch is known."""
    epochs = [sum(steps[: n + 1]) for n in range(len(steps))]
    made = LeaderEpochCache()
    for offset, epoch in enumerate(epochs):
        made.assign(epoch, offset)
    answer = made.end_of(asked, len(epochs))
    if asked < 0 or asked > epochs[-1]:
        assert answer == EndOfEpoch()
    else:
        assert answer.end_offset == sum(epoch <= asked for epoch in epochs)
