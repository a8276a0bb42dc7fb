"""The invariants of producers and transactions, judged by appends and responses, not by the machine's state.

- No two answers to InitProducerId without transactional id share a producer id, nor one with a transactional producer.
- No TxnOffsetCommit is accepted outside an ongoing transaction of its producer that has the group's partition.
- No offset is pending without a transaction that is ongoing, or decided and not yet marked.
- What a group has committed is, of the offsets accepted in committed transactions, the one appended last.
- A transaction that its producer was reported committed has all its offsets committed, one reported aborted none.
- What was sent for a transaction that was reported aborted is in no later one either.

A copy of a request of version 1 that arrives in the next transaction is taken for one of it: offsets are committed that were
aborted, or a part of the transaction ends with another result. Where copies may arrive so late, such *torn* transactions of
version 1 are counted; version 2 has none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from coterie.coordinator.events import Event, TransactionalOffsetStored
from coterie.coordinator.shard import Shard
from coterie.coordinator.transactions.state import BUMPS_FROM, PREPARED, Status, TopicPartition, Transaction
from coterie.wire.messages.transactions.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

OFFSETS_PARTITION = ("__consumer_offsets", 0)
GROUP = "transactional"
Producer = tuple[int, int]  # producer id and epoch


class TransactionChecker:
    """``certain`` False where the disk may forget what it synced: then committed offsets and ids are not checked.
    ``copies_are_late``: a request may arrive again when its transaction is over."""

    def __init__(self, *, certain: bool) -> None:
        self.certain = certain
        self.copies_are_late = False
        self.states: dict[str, Transaction] = {}
        self.commits = self.aborts = self.commits_of_version_2 = self.torn = 0
        self._aborted: dict[int, bool] = {}  # offsets of transactions that were reported so; whether of version 2
        self._ids_without_name: set[int] = set()
        self._ids_with_name: set[int] = set()
        self._order = 0
        self._in_committed: set[int] = set()  # the offsets that committed transactions had
        self._undecided: dict[Producer, list[tuple[TopicPartition, int]]] = {}
        self._committed: dict[TopicPartition, tuple[int, int]] = {}  # (order, offset) of the newest
        self._order_of: dict[int, int] = {}  # offset -> order; offsets are unique in a story

    # -- what happened ------------------------------------------------------------------------------------------------

    def initialized(self, request: InitProducerIdRequest, response: InitProducerIdResponse) -> None:
        """No producer id is given to two producers, and a new one begins with epoch 0."""
        if response.error_code:
            return
        producer_id = response.producer_id
        if request.transactional_id is not None:
            self._ids_with_name.add(producer_id)
            assert producer_id not in self._ids_without_name, f"producer id {producer_id} has two owners"
            return
        assert producer_id not in self._ids_without_name, f"producer id {producer_id} was given to two producers"
        assert producer_id not in self._ids_with_name, f"producer id {producer_id} has two owners"
        assert response.producer_epoch == 0, f"a new producer id begins with epoch {response.producer_epoch}"
        self._ids_without_name.add(producer_id)

    def accepted(self, producer: Producer, events: Iterable[Event]) -> None:
        """Offsets of a TxnOffsetCommit were appended, and will be answered so."""
        mine = [t for t in self.states.values() if (t.producer_id, t.epoch) == producer]
        good = any(t.status == Status.ONGOING and OFFSETS_PARTITION in t.partitions for t in mine)
        assert good, f"an offset of producer {producer} was accepted outside an ongoing transaction"
        for event in events:
            if isinstance(event, TransactionalOffsetStored):
                self._order += 1
                self._order_of[event.committed.offset] = self._order
                offsets = self._undecided.setdefault(producer, [])
                offsets.append(((event.topic, event.partition), event.committed.offset))

    def kept(self, transaction: Transaction) -> None:
        """A state was appended; a prepared one decides what was accepted in it."""
        before = self.states.get(transaction.transactional_id)
        self.states[transaction.transactional_id] = transaction
        if transaction.status in PREPARED:
            assert before is not None, f"{transaction.transactional_id} is prepared without a beginning"
            self.commits_of_version_2 += transaction.is_commit and transaction.client_transaction_version == BUMPS_FROM
            self._decide((before.producer_id, before.epoch), transaction.is_commit)

    def reloaded(self, states: Mapping[str, Transaction]) -> None:
        """The broker is back: decisions without a response hold from now on as its log has them."""
        self.states = dict(states)
        if not self.certain:
            self._undecided.clear()
            self._committed.clear()
            return
        for producer in list(self._undecided):
            mine = [t for t in self.states.values() if _is_of(t, producer)]
            if any(t.status == Status.ONGOING for t in mine):
                continue
            self._decide(producer, any(t.status in (Status.PREPARE_COMMIT, Status.COMPLETE_COMMIT) for t in mine))

    def _decide(self, producer: Producer, committed: bool) -> None:
        offsets = self._undecided.pop(producer, [])
        if committed:
            self.commits += 1
            self._in_committed.update(offset for _, offset in offsets)
            self._check_torn([offset for _, offset in offsets if offset in self._aborted])
            for partition, offset in offsets:
                self._committed[partition] = max(
                    self._committed.get(partition, (0, 0)), (self._order_of[offset], offset)
                )
        else:
            self.aborts += 1

    def _check_torn(self, offsets: list[int]) -> None:
        strict = [offset for offset in offsets if self._aborted[offset] or not self.copies_are_late]
        assert not strict, f"offsets {strict} of an aborted transaction are committed with a later one"
        self.torn += bool(offsets)

    def reported(self, committed: bool, offsets: Iterable[int], bumps_epoch: bool) -> None:
        """A producer's commit or abort has succeeded, of a transaction with these offsets; ``bumps_epoch``: of version 2."""
        if not self.certain:
            return
        for offset in offsets:
            is_in = offset in self._in_committed
            if is_in != committed and self.copies_are_late and not bumps_epoch:
                self.torn += 1
                return
            assert is_in or not committed, f"offset {offset} of a committed transaction is not committed"
            assert committed or not is_in, f"offset {offset} of an aborted transaction is committed"
            if not committed:
                self._aborted[offset] = bumps_epoch

    # -- what must hold -----------------------------------------------------------------------------------------------

    def check(self, shard: Shard) -> None:
        """What is pending is of an open transaction; what has ended counts, or does not, as it ended."""
        for group in shard.groups.values():
            for producer_id in group.pending_offsets:
                self._check_pending(producer_id, group.group_id)
        for producer_id, _ in shard.pending_producers():
            self._check_pending(producer_id, "the partition")
        if self.certain and not any(t.status in PREPARED for t in self.states.values()):
            self._check_committed(shard)

    def _check_pending(self, producer_id: int, where: str) -> None:
        mine = [t for t in self.states.values() if t.producer_id == producer_id]
        good = any(t.status in (Status.ONGOING, *PREPARED) for t in mine)
        assert good, f"{where} has offsets of producer {producer_id} pending, which has no open transaction"

    def _check_committed(self, shard: Shard) -> None:
        group = shard.groups.get(GROUP)
        held = {} if group is None else {partition: o.offset for partition, o in group.offsets.items()}
        expected = {partition: offset for partition, (_, offset) in self._committed.items()}
        assert held == expected, f"{GROUP} has committed {held}, its transactions {expected}"


def _is_of(transaction: Transaction, producer: Producer) -> bool:
    """Whether the state is that of the producer's transaction: its end may have bumped the epoch."""
    bumped = (
        transaction.status not in (Status.EMPTY, Status.ONGOING)
        and transaction.client_transaction_version == BUMPS_FROM
    )
    return (transaction.producer_id, transaction.epoch - bumped) == producer
