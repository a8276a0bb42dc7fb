"""The invariants of clients that read, process and write, judged by what a reader of committed records gets of the output.

- Each committed record of the input before the group's committed offset has one copy, none after it has one, and the copies
  of a partition are in its order.
- A transaction is there whole or not at all: whole where its commit was acknowledged, not at all where its abort was, or where
  no commit was requested.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from coterie.laboratory.node.record_checker import TopicPartition

OUTPUT = "out"
# The partition of the output for the copies of each.
INPUTS: dict[TopicPartition, int] = {("t", 0): 0, ("t", 1): 1, ("u", 0): 1}


def output_of(partition: TopicPartition) -> TopicPartition:
    """Where the copies of this partition's records are."""
    return OUTPUT, INPUTS[partition[0], partition[1]]


def copy_of(partition: TopicPartition, offset: int, value: bytes, transaction: int) -> bytes:
    """No two attempts are equal."""
    return b" ".join([b"%s %d %d" % (partition[0].encode(), partition[1], offset), value, b"%d" % transaction])


@dataclass(slots=True)
class CopyTransaction:
    """``committed``: what was requested last, None before; ``is_acknowledged``: that it is so."""

    number: int
    copies: list[tuple[TopicPartition, bytes]] = field(default_factory=list)
    committed: bool | None = None
    is_acknowledged: bool = False


class CopyChecker:
    """Raises AssertionError."""

    def __init__(self) -> None:
        self.transactions: list[CopyTransaction] = []
        self.checked = 0  # how often, while the story went on

    def begin(self) -> CopyTransaction:
        transaction = CopyTransaction(len(self.transactions))
        self.transactions.append(transaction)
        return transaction

    def copy(self, transaction: CopyTransaction, partition: TopicPartition, value: bytes) -> None:
        transaction.copies.append((partition, value))

    def check(
        self,
        inputs: Mapping[TopicPartition, Iterable[tuple[int, bytes]]],
        outputs: Mapping[TopicPartition, Iterable[bytes]],
        committed: Mapping[TopicPartition, int],
    ) -> None:
        """While no transaction is open. ``inputs`` and ``outputs``: the committed records; ``committed``: the group's
        offsets."""
        visible = {partition: list(values) for partition, values in outputs.items()}
        for partition, records in inputs.items():
            topic, index = partition
            until = committed.get(partition, 0)
            expected = [(offset, value) for offset, value in records if offset < until]
            copies = [value.split(b" ") for value in visible[output_of(partition)]]
            copied = [(int(c[2]), c[3]) for c in copies if (c[0].decode(), int(c[1])) == partition]
            if copied == expected:
                continue
            offsets, wanted = [offset for offset, _ in copied], [offset for offset, _ in expected]
            missing, more = sorted(set(wanted) - set(offsets)), sorted(set(offsets) - set(wanted))
            twice = sorted({offset for offset in offsets if offsets.count(offset) > 1})
            raise AssertionError(
                f"{topic}-{index}, committed up to {until}: without a copy are {missing}, copied twice {twice}, and should"
                f" not be copied {more}; in order: {offsets == sorted(offsets)}"
            )
        self._check_whole({(partition, value) for partition, values in visible.items() for value in values})

    def _check_whole(self, visible: set[tuple[TopicPartition, bytes]]) -> None:
        for transaction in self.transactions:
            there = sum(copy in visible for copy in transaction.copies)
            name = f"{there} of {len(transaction.copies)} copies of transaction {transaction.number} are visible"
            assert there in (0, len(transaction.copies)), name
            if transaction.committed and transaction.is_acknowledged:
                assert there == len(transaction.copies), f"{name}, whose commit was acknowledged"
            elif not transaction.committed:
                assert not there, f"{name}, of which no commit was requested"
