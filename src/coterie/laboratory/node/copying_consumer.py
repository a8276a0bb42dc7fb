"""A client that reads, processes and writes: a member of a group whose records become one record each of the output topic, in
transactions that commit its offsets (KIP-98, KIP-447)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Mapping
from typing import Any

from coterie.consuming.commits.requests import CommitOffsets
from coterie.consuming.committed_lookup import PendingOffsets
from coterie.consuming.record import Record, TopicPartition
from coterie.laboratory.actor_commits import ActorCommits
from coterie.laboratory.group_member_actor import C, M
from coterie.laboratory.node.consumer import ConsumerActor, ConsumerParts
from coterie.laboratory.node.copy_checker import CopyChecker, copy_of, output_of
from coterie.laboratory.node.group_consumers import ClassicConsumer, ServerAssignedConsumer
from coterie.laboratory.node.transactional_producer import TransactionalProducer
from coterie.member.config import MemberConfig
from coterie.member.consumer.config import ConsumerMemberConfig
from coterie.member.consumer.machine import ConsumerMemberMachine
from coterie.member.machine import MemberMachine
from coterie.producing.transactions.requests import CommittingMember
from coterie.producing.transactions.state import TransactionState
from coterie.wire.errors import ErrorCode

ABORTED = 0.2  # of the transactions, without an error
PAUSES_MS = (0, 0, 20, 500, 4_000)  # of the user's work on what a poll returned
S = TransactionState
# The user's code: it yields what begins a call, and gets its error code, or a pause in ms.
Begin = Callable[[Callable[[ErrorCode], None]], None]
Steps = Generator["Begin | int", Any, None]


class CopyingConsumer(ConsumerActor[C, M]):
    """While a transaction is under way it does not poll, and what a rebalance asks of it waits for the next poll."""

    pending_offsets = PendingOffsets.NEVER_IGNORED

    def _copies_by(self, producer: TransactionalProducer, copies: CopyChecker) -> None:
        self.producer, self._copies = producer, copies
        self._steps: Steps | None = None  # of the user's code, while it works
        self._hurries = False

    # -- its life -----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._steps = None
        self._for_poll: deque[Callable[[], None]] = deque()
        self.producer.start()
        super().start()

    def _make_commits(self) -> ActorCommits:
        return ActorCommits(self, None, self.pending_offsets)

    def crash(self) -> None:
        super().crash()
        self.producer.crash()
        self._steps = None

    # -- the user's code ------------------------------------------------------------------------------------------------

    def _poll_once(self) -> None:
        if self._steps is None:
            super()._poll_once()

    def _work(self) -> None:
        while self._for_poll:
            self._for_poll.popleft()()
        if self.producer.state != S.READY:
            self._begin_steps(self._new_producer())
            return
        self.commits.look_up_positions()
        self._find_positions()
        before = self.positions
        polled = self.fetching.take(self.world.between(1, self._polled_at_most))
        self._note_positions(polled)
        assert self.fetching.damage_due() is None, f"{self.name} cannot read {self.fetching.damage_due()}"
        moved = {tp: at for tp, at in self.positions.items() if at != before.get(tp)}
        if moved:
            self._begin_steps(self._copy(polled, moved))

    def _begin_steps(self, steps: Steps) -> None:
        self._steps = steps
        self._resume(steps, None)

    def _resume(self, steps: Steps, result: ErrorCode | None) -> None:
        """Goes on with the result of a call, unless the process has ended; later where it is stalled."""
        if self._steps is not steps:
            return
        wait_ms = self.stalled_until_ms - self.world.now_ms
        if wait_ms > 0:
            self.world.after(wait_ms, lambda: self._resume(steps, result))
            return
        try:
            step = steps.send(result)
        except StopIteration:
            self._steps = None
            return
        if isinstance(step, int):
            self.world.after(step, lambda: self._resume(steps, None))
        else:
            step(lambda code: self._resume(steps, code))

    def _new_producer(self) -> Steps:
        """Takes the transactional id over, and reads from the committed offsets on."""
        if self.producer.state != S.UNINITIALIZED:
            self.producer.start()
        yield self.producer.init
        self._rewind()

    def _copy(self, polled: Mapping[TopicPartition, list[Record[Any, Any]]], offsets: CommitOffsets) -> Steps:
        """One transaction, and its abort where it fails or the user wants it."""
        producer, rng = self.producer, self.world.random
        producer.begin()
        copies = self._copies.begin()
        for partition, records in polled.items():
            for record in records:
                value = copy_of(partition, record.offset, record.value or b"", copies.number)
                self._copies.copy(copies, output_of(partition), value)
                producer.append(output_of(partition), value)
        yield rng.choice(PAUSES_MS) if not self._hurries else 0
        is_wanted = rng.random() >= ABORTED or self._hurries
        if producer.state == S.IN_TRANSACTION:
            member = self._committing_member()
            code = yield lambda ended: producer.send_offsets(offsets, member, ended)
            if not code and is_wanted and producer.state == S.IN_TRANSACTION:
                copies.committed = True
                if not (yield lambda ended: producer.end(True, ended)):
                    copies.is_acknowledged = True
                    return
        if producer.state in (S.IN_TRANSACTION, S.ABORTABLE_ERROR):
            is_open = copies.committed is None
            if not (yield lambda ended: producer.end(False, ended)) and is_open:
                copies.committed, copies.is_acknowledged = False, True
        self._rewind()

    def _committing_member(self) -> CommittingMember:
        """As the consumer's group_metadata has it."""
        (member_id, generation), config = self.machine.committing_as, self.config
        return CommittingMember(config.group_id, generation, member_id, config.group_instance_id)

    def _rewind(self) -> None:
        owned = [TopicPartition(*tp) for tp in sorted(self.fetching.positions)]
        self.commits.rewind(owned)
        self.fetching.drop(owned)
        self.fetching.assign(owned)

    def fetch_eagerly(self) -> None:
        """Nor does the user's code take its time, or abort what could be committed."""
        super().fetch_eagerly()
        self._hurries = True

    # -- rebalances -----------------------------------------------------------------------------------------------------

    def _give_up(self, partitions: tuple[tuple[str, int], ...], lost: bool) -> None:
        self._at_poll(lambda: super(CopyingConsumer, self)._give_up(partitions, lost))

    def _take(self, partitions: tuple[tuple[str, int], ...], added: tuple[tuple[str, int], ...]) -> None:
        self._at_poll(lambda: super(CopyingConsumer, self)._take(partitions, added))

    def _at_poll(self, callback: Callable[[], None]) -> None:
        """Now where nothing is under way, and nothing before it waits."""
        if self._steps is None and not self._for_poll:
            callback()
        else:
            self._for_poll.append(callback)


class ClassicCopyingConsumer(CopyingConsumer[MemberConfig, MemberMachine], ClassicConsumer):
    """A copying client that is a member by the classic protocol."""

    def __init__(
        self, parts: ConsumerParts[MemberConfig], producer: TransactionalProducer, copies: CopyChecker
    ) -> None:
        ClassicConsumer.__init__(self, parts)
        self._copies_by(producer, copies)


class ServerAssignedCopyingConsumer(
    CopyingConsumer[ConsumerMemberConfig, ConsumerMemberMachine], ServerAssignedConsumer
):
    """By the consumer protocol (KIP-848): its member epoch is the generation of what it commits."""

    def __init__(
        self, parts: ConsumerParts[ConsumerMemberConfig], producer: TransactionalProducer, copies: CopyChecker
    ) -> None:
        ServerAssignedConsumer.__init__(self, parts)
        self._copies_by(producer, copies)


AnyCopyingConsumer = ClassicCopyingConsumer | ServerAssignedCopyingConsumer
