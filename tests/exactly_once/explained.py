"""What explains that a copy has records twice, or lacks some: read from the requests of the transactions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from coterie.records.batch import read_header
from tests.exactly_once.recording_proxy import END_TXN, INIT_PRODUCER_ID, PRODUCE, TXN_OFFSET_COMMIT, Exchange

Sequence = tuple[int, int, int, int]  # producer id, epoch, partition, base sequence


@dataclass(slots=True)
class SentTransaction:
    """``number``: among the transactions of its transactional id; ``written``: the partitions of its records; ``offsets``: what
    it commits, by partition of the input."""

    number: int
    written: set[int] = field(default_factory=set)
    offsets: dict[int, int] = field(default_factory=dict)


def findings(exchanges: Iterable[Exchange], output: str) -> list[str]:
    """Of copies from each partition to the same one of ``output``: transactions that were committed with the offsets of other
    partitions than those of their records, and sequences that a later transaction sent again, which a broker acknowledges as
    repeated and does not write."""
    current: dict[str, SentTransaction] = {}
    sent: dict[Sequence, int] = {}
    rows: list[str] = []
    for exchange in exchanges:
        request = exchange.request
        name = request.transactional_id
        if name is None:
            continue
        transaction = current.setdefault(name, SentTransaction(1))
        if exchange.api_key == PRODUCE:
            rows += _produced(exchange, transaction, sent, output)
        elif exchange.api_key == TXN_OFFSET_COMMIT:
            rows_of = (partition for topic in request.topics for partition in topic.partitions)
            transaction.offsets.update({row.partition_index: row.committed_offset for row in rows_of})
        elif exchange.api_key == END_TXN and request.committed and transaction.written != set(transaction.offsets):
            rows.append(
                f"{name}: transaction {transaction.number} committed records of partitions {sorted(transaction.written)} "
                f"with the offsets {transaction.offsets}"
            )
        is_ended = exchange.api_key == END_TXN and exchange.response is not None and not exchange.response.error_code
        if is_ended or exchange.api_key == INIT_PRODUCER_ID:
            current[name] = SentTransaction(transaction.number + 1)
    return rows


def _produced(exchange: Exchange, transaction: SentTransaction, sent: dict[Sequence, int], output: str) -> list[str]:
    rows = []
    for topic in exchange.request.topic_data:
        for data in topic.partition_data:
            header = read_header(bytes(data.records))
            transaction.written.add(data.index)
            sequence = header.producer_id, header.producer_epoch, data.index, header.base_sequence
            first = sent.setdefault(sequence, transaction.number)
            if first != transaction.number:
                rows.append(
                    f"{exchange.request.transactional_id}: transaction {transaction.number} sent to {output}-{data.index} the "
                    f"sequence {header.base_sequence} of epoch {header.producer_epoch}, which transaction {first} had sent"
                )
    return rows
