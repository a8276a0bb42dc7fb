"""What the requests of transactions explain."""

from __future__ import annotations

from coterie.records.encoding import encode_batch
from coterie.wire.messages.logs.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from coterie.wire.messages.transactions.end_txn import EndTxnRequest, EndTxnResponse
from coterie.wire.messages.transactions.init_producer_id import InitProducerIdRequest
from coterie.wire.messages.transactions.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.exactly_once.explained import findings
from tests.exactly_once.recording_proxy import END_TXN, INIT_PRODUCER_ID, PRODUCE, TXN_OFFSET_COMMIT, Exchange

NAME = "copier"


def _produce(partition: int, sequence: int, epoch: int = 0) -> Exchange:
    ids = {"producer_id": 1, "producer_epoch": epoch, "base_sequence": sequence}
    data = [PartitionProduceData(partition, encode_batch([(0, None, b"v", ())], **ids))]
    return Exchange(PRODUCE, ProduceRequest(NAME, -1, 1000, [TopicProduceData("output", partition_data=data)]))


def _offsets(partition: int, offset: int) -> Exchange:
    topic = TxnOffsetCommitRequestTopic("input", partitions=[TxnOffsetCommitRequestPartition(partition, offset)])
    return Exchange(TXN_OFFSET_COMMIT, TxnOffsetCommitRequest(NAME, "copiers", 1, 0, topics=[topic]))


def _end(*, committed: bool, responded: bool = True) -> Exchange:
    return Exchange(END_TXN, EndTxnRequest(NAME, 1, 0, committed), EndTxnResponse() if responded else None)


def test_a_copy_with_a_batch_and_a_commit_that_are_sent_again() -> None:
    batch, end = _produce(0, 0), _end(committed=True)
    lost = _end(committed=True, responded=False)
    assert findings([batch, batch, _offsets(0, 1), lost, end, _produce(0, 1), _offsets(0, 2), end], "output") == []


def test_records_without_their_offsets() -> None:
    rows = findings([_produce(0, 0), _produce(1, 0), _offsets(0, 1), _end(committed=True)], "output")
    assert rows == ["copier: transaction 1 committed records of partitions [0, 1] with the offsets {0: 1}"]


def test_offsets_without_their_records() -> None:
    aborted = [_produce(1, 0), _offsets(1, 10), _end(committed=False)]
    rows = findings([*aborted, _produce(0, 0), _offsets(0, 5), _offsets(1, 10), _end(committed=True)], "output")
    assert rows == ["copier: transaction 2 committed records of partitions [0] with the offsets {0: 5, 1: 10}"]


def test_a_sequence_that_the_next_transaction_sends_again() -> None:
    aborted = [_produce(0, 0), _end(committed=False)]
    again = [_produce(0, 0), _offsets(0, 1), _end(committed=True)]
    text = "copier: transaction 2 sent to output-0 the sequence 0 of epoch 0, which transaction 1 had sent"
    assert findings([*aborted, *again], "output") == [text]


def test_a_new_epoch_begins_its_sequences_anew() -> None:
    begun = Exchange(INIT_PRODUCER_ID, InitProducerIdRequest(NAME, 1000))
    again = [_produce(0, 0, epoch=1), _offsets(0, 1), _end(committed=True)]
    assert findings([_produce(0, 0), begun, *again], "output") == []
