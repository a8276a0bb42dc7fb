"""The numbers of idempotent producers' batches, without a log."""

from __future__ import annotations

import pytest

from coterie.log.producer_states import UNVERIFIED_KEPT, Producers
from coterie.records.batch import TRANSACTIONAL_BIT, BatchHeader, read_header
from coterie.records.encoding import encode_batch
from coterie.wire.errors import ErrorCode, Refusal


def header(sequence: int, epoch: int = 0, producer_id: int = 7) -> BatchHeader:
    batch = encode_batch(
        [(0, None, b"v", ())],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        attributes=TRANSACTIONAL_BIT,
    )
    return read_header(batch)


def refusal(producers: Producers, batch: BatchHeader) -> ErrorCode:
    try:
        producers.check(batch)
    except Refusal as refusal:
        return refusal.code
    return ErrorCode.NONE


@pytest.mark.parametrize(
    ("unverified", "refused"),
    [
        ([], []),
        ([(4, 0)], [5, 9]),
        ([(4, 0), (9, 0)], [5, 9]),
        ([(9, 0), (4, 0)], [5, 9]),
        ([(0, 0), (5, 1)], [9]),
        ([(5, 1), (0, 0)], [9]),
    ],
)
def test_nothing_comes_ahead_of_the_lowest_number_of_an_epoch(
    unverified: list[tuple[int, int]], refused: list[int]
) -> None:
    """(number, epoch) of the batches whose transaction was not verified -> the numbers of the newest epoch that are refused."""
    producers, epoch = Producers(), max((epoch for _, epoch in unverified), default=0)
    for batch in unverified:
        producers.note_unverified(header(*batch))
    codes = {sequence: refusal(producers, header(sequence, epoch)) for sequence in (0, 4, 5, 9)}
    assert [sequence for sequence, code in codes.items() if code] == refused
    assert set(codes.values()) <= {ErrorCode.NONE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER}


def test_the_first_batch_or_marker_in_the_log_ends_it() -> None:
    for ends in (lambda p: p.appended(header(4), 0), lambda p: p.ended(header(-1), 0)):
        producers = Producers()
        producers.note_unverified(header(4))
        ends(producers)
        assert not producers.lowest
        producers.note_unverified(header(5))
        assert not producers.lowest, "its numbers go on from the last batch"


def test_so_many_producers_are_remembered() -> None:
    producers = Producers()
    for producer_id in range(UNVERIFIED_KEPT + 2):
        producers.note_unverified(header(0, producer_id=producer_id))
    assert [*producers.lowest] == [*range(2, UNVERIFIED_KEPT + 2)]
