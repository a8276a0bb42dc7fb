"""Rules of idempotent and transactional producers."""

from __future__ import annotations

from coterie.certify.question import Question, Value
from coterie_conformance.certify.rule import (
    Body,
    CertifyRule,
    add_group,
    add_partitions,
    ask,
    batch,
    commit_in_transaction,
    committed,
    end,
    fetch,
    init,
    produce,
    producer,
    topic,
)

_IDEMPOTENT = "Idempotent producers"
_TRANSACTIONS = "Transactions"
_READ_COMMITTED: Body = {"isolation_level": 1}


def _sequence(number: int, value: str = "v", epoch: int = 0) -> Value:
    return batch(["k", value, -1000], producer=producer("id"), epoch=epoch, sequence=number)


def _in_transaction(sequence: int = 0, value: str = "v", epoch: int = 0, of: str = "id") -> Value:
    return batch(["k", value, -1000], producer=producer(of), epoch=epoch, sequence=sequence, transactional=True)


def _transactional(name: str, sequence: int = 0, value: str = "v", epoch: int = 0) -> Question:
    return produce(name, _in_transaction(sequence, value, epoch), transactional_id="$x")


def _offsets(name: str, timestamp: int, isolation_level: int = 0) -> Question:
    partitions = [{"partition_index": 0, "timestamp": timestamp}]
    topics = [{"name": "$t", "partitions": partitions}]
    return ask(name, "ListOffsets", 5, isolation_level=isolation_level, topics=topics)


IDEMPOTENT_RULES = (
    CertifyRule(
        "fresh-producer-ids",
        _IDEMPOTENT,
        "InitProducerId without a transactional id always gives a new id with epoch 0",
        "KIP-98, KIP-360",
        (
            *topic(),
            init("id", None),
            init("zero", None, producer_id=0, producer_epoch=0),
            init("own", None, producer_id=producer("id"), producer_epoch=0),
            produce("first", _sequence(0)),
            produce("other", batch(["k", "o", -1000], producer=producer("zero"), epoch=0, sequence=0)),
            fetch("both"),
        ),
    ),
    CertifyRule(
        "duplicate-once",
        _IDEMPOTENT,
        "A batch that is sent twice is kept once and acknowledged with its first offset",
        "KIP-98",
        (*topic(), init("id", None), produce("sent", _sequence(0)), produce("sent again", _sequence(0)), fetch("log")),
    ),
    CertifyRule(
        "sequence-gap",
        _IDEMPOTENT,
        "A sequence number with a gap before it is refused",
        "ProducerStateManager",
        (*topic(), init("id", None), produce("sent", _sequence(0)), produce("gap", _sequence(5)), fetch("log")),
    ),
    CertifyRule(
        "old-epoch",
        _IDEMPOTENT,
        "A batch of an older epoch is refused",
        "ProducerStateManager",
        (
            *topic(),
            init("id", None),
            produce("newer", _sequence(0, epoch=3)),
            produce("older", _sequence(0, epoch=1)),
            produce("newest", _sequence(0, epoch=4)),
            produce("not from 0", _sequence(7, epoch=5)),
            fetch("log"),
        ),
    ),
)

TRANSACTION_RULES = (
    CertifyRule(
        "commit-shows-records",
        _TRANSACTIONS,
        "Records of an open transaction are hidden from read_committed until it commits",
        "KIP-98",
        (
            *topic(),
            init("id"),
            add_partitions("added", "id"),
            _transactional("sent"),
            fetch("uncommitted"),
            fetch("hidden", **_READ_COMMITTED),
            end("committed", "id", commit=True),
            fetch("shown", **_READ_COMMITTED),
            _offsets("stable end", -1, 1),
        ),
    ),
    CertifyRule(
        "abort-names-records",
        _TRANSACTIONS,
        "A read_committed fetch names the aborted transactions of what it returns",
        "KIP-98",
        (
            *topic(),
            init("id"),
            add_partitions("added", "id"),
            _transactional("sent"),
            end("aborted", "id", commit=False),
            fetch("committed", **_READ_COMMITTED),
            fetch("uncommitted"),
        ),
    ),
    CertifyRule(
        "new-producer-fences",
        _TRANSACTIONS,
        "InitProducerId raises the epoch, aborts what was open and fences the one before",
        "KIP-98",
        (
            *topic(),
            init("id"),
            add_partitions("added", "id"),
            _transactional("sent"),
            init("successor"),
            _transactional("zombie's", 1),
            add_partitions("zombie adds", "id"),
            end("zombie ends", "id", commit=True),
            fetch("log", **_READ_COMMITTED),
        ),
    ),
    CertifyRule(
        "partition-not-added",
        _TRANSACTIONS,
        "Transactional records for a partition that was not added are refused",
        "KIP-890",
        (*topic(), init("id"), _transactional("sent"), fetch("log")),
    ),
    CertifyRule(
        "end-without-begin",
        _TRANSACTIONS,
        "EndTxn without an open transaction is refused; repeated, it is answered as before",
        "TransactionCoordinator",
        (
            *topic(),
            init("id"),
            end("nothing open", "id", commit=True),
            add_partitions("added", "id"),
            end("committed", "id", commit=True),
            end("committed again", "id", commit=True),
            end("aborted after", "id", commit=False),
        ),
    ),
    CertifyRule(
        "unknown-producer",
        _TRANSACTIONS,
        "A transactional id that is unknown, or another producer's, is refused",
        "TransactionCoordinator",
        (
            *topic(),
            init("id"),
            ask(
                "other id",
                "AddPartitionsToTxn",
                1,
                transactional_id="$x",
                producer_id=4_000_000_000,
                producer_epoch=0,
                topics=[{"name": "$t", "partitions": [0]}],
            ),
            ask("unknown", "EndTxn", 1, transactional_id="$nowhere", producer_id=1, producer_epoch=0, committed=True),
        ),
    ),
    CertifyRule(
        "add-unknown-partition",
        _TRANSACTIONS,
        "A partition that does not exist is not added, nor any that is named beside it",
        "KafkaApis.handleAddPartitionsToTxnRequest",
        (*topic(), init("id"), add_partitions("unknown", "id", "$nowhere"), add_partitions("known", "id")),
    ),
    CertifyRule(
        "transaction-timeout",
        _TRANSACTIONS,
        "A transaction timeout beyond transaction.max.timeout.ms, or of zero, is refused",
        "transaction.max.timeout.ms",
        (init("too long", transaction_timeout_ms=2**31 - 1), init("zero", transaction_timeout_ms=0)),
    ),
    CertifyRule(
        "offsets-commit-with-transaction",
        _TRANSACTIONS,
        "Offsets of a transaction are seen once it commits, and are unstable until then",
        "KIP-98, KIP-447",
        (
            *topic(),
            init("id"),
            add_group("added", "id"),
            commit_in_transaction("sent", "id"),
            committed("before"),
            committed("unstable", require_stable=True),
            end("committed", "id", commit=True),
            committed("after", require_stable=True),
        ),
    ),
    CertifyRule(
        "offsets-abort-with-transaction",
        _TRANSACTIONS,
        "Offsets of a transaction that aborts are forgotten",
        "KIP-98",
        (
            *topic(),
            init("id"),
            add_group("added", "id"),
            commit_in_transaction("sent", "id"),
            end("aborted", "id", commit=False),
            committed("after", require_stable=True),
        ),
    ),
    CertifyRule(
        "offsets-need-transaction",
        _TRANSACTIONS,
        "TxnOffsetCommit is refused outside an open transaction that has the group",
        "KIP-890",
        (
            *topic(),
            init("id"),
            commit_in_transaction("group not added", "id"),
            add_group("added", "id"),
            end("committed", "id", commit=True),
            commit_in_transaction("after the end", "id"),
            committed("fetched"),
            committed("stable", require_stable=True),
        ),
    ),
    CertifyRule(
        "zombie-offsets-fenced",
        _TRANSACTIONS,
        "TxnOffsetCommit of a fenced producer is refused, and its successor commits nothing of it",
        "KIP-447",
        (
            *topic(),
            init("id"),
            add_group("added", "id"),
            init("successor"),
            add_group("successor adds", "id", epoch=2),
            commit_in_transaction("zombie's", "id", 7),
            end("successor commits", "id", commit=True, epoch=2),
            committed("fetched"),
        ),
    ),
)
