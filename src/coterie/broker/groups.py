"""The group coordinator's driver: shards over the partitions of `__consumer_offsets`, one timer, the journal.

Shards load in the background after a start; until one has, its groups answer COORDINATOR_LOAD_IN_PROGRESS.
"""

from __future__ import annotations

import asyncio
import logging
import math
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from typing import Protocol

from coterie.broker.clock import Clock
from coterie.broker.flusher import Flusher
from coterie.broker.pending import Pending
from coterie.broker.settings import BrokerSettings
from coterie.broker.topics import OFFSETS_TOPIC, Partition, Topics
from coterie.broker.turns import MAX_TURN_S
from coterie.coordinator.commands import Command, DeadlineExpired, ExpireOffsets, TopicsDeleted
from coterie.coordinator.journal_lines import JournalLines
from coterie.coordinator.offsets.delete import has_offsets_of
from coterie.coordinator.offsets_log import OffsetsLog
from coterie.coordinator.outcome import Context, Reply
from coterie.coordinator.partitioning import partition_for
from coterie.coordinator.refusals import refuse
from coterie.coordinator.shard import Decision, Shard, Step, drive
from coterie.coordinator.state import Group
from coterie.journal import JournalLine
from coterie.records.batch import BatchError, encode_batch
from coterie.records.compression import CompressionError
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.txn_offset_commit import TxnOffsetCommitRequest
from coterie.wire.messages.write_txn_markers import WritableTxnMarker

logger = logging.getLogger(__name__)

SEATS_REMEMBERED = 100_000
JOURNAL_BATCH_BYTES = 256 * 1024
JournalItem = tuple[int, bytes, bytes, tuple[()]]


class OpenTransactions(Protocol):
    """What the group coordinator asks of the transaction coordinator."""

    def verify_offsets(self, request: TxnOffsetCommitRequest, version: int) -> None:
        """Raises Refusal where the request is not part of an ongoing transaction."""

    def orphans(self, pending: Iterable[tuple[int, int]], partition: tuple[str, int]) -> list[tuple[int, int]]:
        """Producers (id, epoch) without an open transaction that has the partition."""

    @property
    def loaded(self) -> bool: ...


class _Seat:
    """One shard with its partition and log."""

    def __init__(self, shard: Shard, partition: Partition) -> None:
        self.shard = shard
        self.partition = partition
        self.log = OffsetsLog(partition.log)
        self.loaded = False
        self.deleted_topics: set[str] = set()  # while it was loading: their offsets go once it has
        self.resigned = False
        self.epoch = 0  # of the partition's leadership; an older load or unload is ignored


class GroupCoordinator:
    """All groups of the broker."""

    def __init__(
        self, settings: BrokerSettings, topics: Topics, clock: Clock, loop: asyncio.AbstractEventLoop, flusher: Flusher
    ) -> None:
        self._topics, self._clock, self._loop, self._flusher = topics, clock, loop, flusher
        self.config = settings.coordinator()
        self.transactions: OpenTransactions | None = None
        self.orphans_left = False  # the disk failed when they were to be aborted
        self.listeners: list[Callable[[JournalLine], None]] = []
        self.load_seconds = 0.0
        self._seats: list[_Seat] = []
        self._seat_by_group: dict[str, _Seat] = {}  # spares hashing the id with every request
        self._journal_lines = JournalLines()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0
        self._untold: list[JournalLine] = []
        self._journal = settings.current.coterie_journal_enable
        self._loading: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Takes the shards that are on the disk and begins to load them."""
        if OFFSETS_TOPIC in self._topics.by_name:
            self._take_seats()
            self._loading = self._loop.create_task(self._load())

    def _take_seats(self) -> None:
        self._seats = [_Seat(self._shard(), p) for p in self._topics.offsets_topic().partitions]

    def _shard(self) -> Shard:
        return Shard(self.config, self._verify)

    def _verify(self, request: TxnOffsetCommitRequest, version: int) -> None:
        assert self.transactions is not None, "a broker has a transaction coordinator before it takes requests"
        self.transactions.verify_offsets(request, version)

    async def _load(self) -> None:
        total, started = 0, self._loop.time()
        for seat in self._seats:
            for loaded in self._load_seat(seat):
                total += loaded
                await asyncio.sleep(0)
        self.load_seconds = self._loop.time() - started
        logger.info("loaded %d records of %s", total, OFFSETS_TOPIC)

    def _load_seat(self, seat: _Seat) -> Iterator[int]:
        """Reads one partition piece by piece and starts its members' sessions; says how many records a piece had."""
        try:
            yield from seat.log.load_by_chunks(seat.shard)
        except (BatchError, CompressionError, Refusal) as error:
            # What can be read is loaded (scenario testLoadGroupAndOffsetsWithCorruptedLog).
            logger.error("%s-%d cannot be read whole: %s", OFFSETS_TOPIC, seat.partition.index, error)
        seat.loaded = True
        for group in seat.shard.groups.values():
            self._journal_lines.loaded(group)
        for decision in seat.shard.loaded(self._clock.now_ms()):
            self._drive(seat, decision)
        if self.transactions is not None and self.transactions.loaded:
            self._abort_orphans(seat, self.transactions)
        if seat.deleted_topics:
            names, seat.deleted_topics = tuple(seat.deleted_topics), set()
            self._forget_offsets(seat, names)
        self._arm(seat)

    async def loaded(self) -> None:
        """Returns once the partitions that were on the disk are loaded."""
        if self._loading is not None:
            await asyncio.shield(self._loading)

    def resign(self, index: int, epoch: int) -> bool:
        """Gives up a partition: whoever waits in it is answered NOT_COORDINATOR, as is everyone who asks from now on.
        False, and nothing done, for an epoch older than the one it was taken with."""
        self.ready()
        seat = self._seats[index]
        if epoch < seat.epoch:
            return False
        seat.epoch, seat.resigned, seat.loaded = epoch, True, False
        for reply in seat.shard.unload():
            self._answer(reply)
        return True

    def elect(self, index: int, epoch: int) -> bool:
        """Takes a partition (again) and loads it. False, and nothing done, for an epoch that is not newer."""
        self.ready()
        seat = self._seats[index]
        if epoch <= seat.epoch:
            return False
        seat.epoch, seat.resigned, seat.shard = epoch, False, self._shard()
        for _ in self._load_seat(seat):
            pass
        return True

    def ready(self) -> None:
        """Makes `__consumer_offsets` if it is not there yet. Raises Refusal where the disk fails."""
        if not self._seats:
            try:
                self._take_seats()
            except Refusal as error:
                logger.error("%s cannot be made: %s", OFFSETS_TOPIC, error)
                raise Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error)) from error
            for seat in self._seats:
                seat.loaded = True

    def _seat(self, group_id: str) -> _Seat:
        """Raises Refusal while its partition is loading."""
        self.ready()
        seat = self._seat_by_group.get(group_id)
        if seat is None:
            seat = self._seats[partition_for(group_id, len(self._seats))]
            if len(self._seat_by_group) < SEATS_REMEMBERED:
                self._seat_by_group[group_id] = seat
        if seat.resigned:
            raise Refusal(ErrorCode.NOT_COORDINATOR)
        if not seat.loaded:
            raise Refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return seat

    def group(self, group_id: str) -> Group | None:
        """Raises Refusal while its partition is loading."""
        return self._seat(group_id).shard.groups.get(group_id)

    def groups(self) -> Iterator[Group]:
        """Every group of the loaded partitions. Raises Refusal while one is loading."""
        for seat in self._seats:
            if not seat.loaded and not seat.resigned:
                raise Refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            yield from seat.shard.groups.values()

    def loaded_groups(self) -> Iterator[Group]:
        """Every group that can be told of now."""
        return (group for seat in self._seats if seat.loaded for group in seat.shard.groups.values())

    def submit(self, command: Command, token: Pending, version: int, client_id: str, client_host: str) -> None:
        """Carries a command out; ``token`` is answered, with the refusal where the group's partition is not available."""
        try:
            seat = self._seat(command.group_id)
        except Refusal as refusal:
            token.answer(refuse(command, refusal.code))
            return
        ctx = Context(self._clock.now_ms(), token, "", version, client_id, client_host)
        if getattr(command, "member_id", None) == "":
            ctx.fresh_id = str(uuid.uuid4())
        self._drive(seat, seat.shard.submit(command, ctx))
        self._arm(seat)

    def _drive(self, seat: _Seat, decision: Decision) -> None:
        outcome = decision.outcome
        if not outcome.events and not decision.records and len(outcome.replies) == 1:
            # A heartbeat or a refusal: nothing happened to the group, so there is nothing to settle.
            seat.shard.commit(decision)
            self._answer(outcome.replies[0])
            return
        drive(
            seat.shard,
            decision,
            lambda kept: self._append(seat, kept),
            lambda kept, steps: self._kept(seat, kept, steps),
        )

    def _append(self, seat: _Seat, decision: Decision) -> None:
        try:
            seat.log.append(decision)
        except OSError as error:
            logger.error("%s-%d cannot be written: %s", OFFSETS_TOPIC, seat.partition.index, error)
            raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR) from error
        seat.partition.appended()

    def _kept(self, seat: _Seat, decision: Decision, steps: list[Step]) -> None:
        if steps and (self._journal or self.listeners):
            self._tell(decision, steps)
        replies = decision.outcome.replies
        if decision.records and seat.partition.sync_due():
            self._flusher.after_sync(seat.partition.log, lambda: self._answer_all(replies))
            return
        self._answer_all(replies)

    def _answer_all(self, replies: list[Reply]) -> None:
        for reply in replies:
            self._answer(reply)

    @staticmethod
    def _answer(reply: Reply) -> None:
        if isinstance(reply.token, Pending):
            reply.token.answer(reply.response)

    def _tell(self, decision: Decision, steps: list[Step]) -> None:
        told = [self._journal_lines.line(step, decision.group, decision.now_ms) for step in steps]
        lines = [line for line in told if line is not None]
        for listener in self.listeners:
            for line in lines:
                listener(line)
        if self._journal and lines:
            # Written once per turn of the loop: a batch for all that happened in it.
            if not self._untold:
                self._loop.call_soon(self._write_journal)
            self._untold += lines

    def _write_journal(self) -> None:
        lines, self._untold = self._untold, []
        batch, size = list[JournalItem](), 0
        for line in lines:
            said = line.to_json().encode()
            if batch and size + len(said) > JOURNAL_BATCH_BYTES:
                self._append_journal(batch)
                batch, size = [], 0
            batch.append((line.time_ms, line.group.encode(), said, ()))
            size += len(said) + len(line.group) + 20
        if batch:
            self._append_journal(batch)

    def _append_journal(self, items: list[JournalItem]) -> None:
        partition = self._topics.journal_topic().partitions[0]
        try:
            partition.log.append_own(encode_batch(items), items[0][0])
        except (OSError, Refusal) as error:
            # The journal explains; it must not keep a group from going on.
            logger.error("the journal cannot be written: %s", error)
            return
        partition.appended()

    def end_transaction(self, index: int, marker: WritableTxnMarker) -> None:
        """Appends a transaction's marker to a partition of `__consumer_offsets` and settles its groups. Raises Refusal."""
        self.ready()
        if not 0 <= index < len(self._seats):
            raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        seat, now_ms = self._seats[index], self._clock.now_ms()
        if not seat.loaded:
            raise Refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        committed = marker.transaction_result
        try:
            seat.log.append_marker(
                marker.producer_id, marker.producer_epoch, committed, marker.coordinator_epoch, now_ms
            )
        except OSError as error:
            raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR) from error
        seat.shard.end_transaction(marker.producer_id, committed, now_ms)
        seat.partition.appended()

    def abort_orphans(self, transactions: OpenTransactions) -> None:
        """Once both coordinators are loaded: an offset that is pending without an open transaction would stay so for ever."""
        self.orphans_left = False
        for seat in [s for s in self._seats if s.loaded]:
            self._abort_orphans(seat, transactions)

    def _abort_orphans(self, seat: _Seat, transactions: OpenTransactions) -> None:
        index = seat.partition.index
        for producer_id, epoch in transactions.orphans(seat.shard.pending_producers(), (OFFSETS_TOPIC, index)):
            logger.warning(
                "%s-%d: dropping offsets of producer %d, which has no open transaction",
                OFFSETS_TOPIC,
                index,
                producer_id,
            )
            try:
                self.end_transaction(index, WritableTxnMarker(producer_id, epoch, False))
            except Refusal as refusal:
                logger.error("%s-%d cannot be written: %s", OFFSETS_TOPIC, index, refusal)
                self.orphans_left = True

    def expire_member(self, group_id: str, member_id: str) -> None:
        """Ends a member's session now, as if it had been silent for its whole length. Raises Refusal."""
        seat = self._seat(group_id)
        command = DeadlineExpired(group_id, member_id, at_once=True)
        self._drive(seat, seat.shard.submit(command, Context(self._clock.now_ms())))
        self._arm(seat)

    def time_jumped(self) -> None:
        """The clock was moved: what is due now acts now."""
        if self._timer is not None:
            self._timer.cancel()
        self._expire_until(math.inf)

    # -- time -------------------------------------------------------------------------------------------------------

    def _arm(self, seat: _Seat) -> None:
        due_ms = seat.shard.next_deadline_ms()
        if due_ms is None or (self._timer is not None and self._timer_ms <= due_ms):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ms = due_ms
        delay_ms = max(due_ms - self._clock.now_ms(), 0) + 1
        self._timer = self._loop.call_later(delay_ms / 1000, self._fire)

    def _fire(self) -> None:
        """Many deadlines may pass at once: what a turn has no time for is left to the next timer."""
        self._expire_until(self._loop.time() + MAX_TURN_S)

    def _expire_until(self, ends_s: float) -> None:
        self._timer = None
        now_ms = self._clock.now_ms()
        for seat in [s for s in self._seats if s.loaded]:
            with closing(seat.shard.expired(now_ms)) as commands:
                for command in commands:
                    self._drive(seat, seat.shard.submit(command, Context(now_ms)))
                    if self._loop.time() > ends_s:
                        break
        for seat in self._seats:
            self._arm(seat)

    # -- upkeep -----------------------------------------------------------------------------------------------------

    def expire_offsets(self) -> None:
        """Every offsets.retention.check.interval.ms."""
        for seat in [s for s in self._seats if s.loaded]:  # half loaded, the newest commit may be yet to come
            self._for_groups(seat, list(seat.shard.groups), ExpireOffsets)

    def topics_deleted(self, names: tuple[str, ...]) -> None:
        """The offsets of deleted topics go."""
        for seat in self._seats:
            if seat.loaded:
                self._forget_offsets(seat, names)
            else:
                seat.deleted_topics.update(names)

    def _forget_offsets(self, seat: _Seat, topics: tuple[str, ...]) -> None:
        concerned = [g.group_id for g in seat.shard.groups.values() if has_offsets_of(g, topics)]
        self._for_groups(seat, concerned, lambda group_id: TopicsDeleted(group_id, topics))

    def _for_groups(self, seat: _Seat, group_ids: Iterable[str], command: Callable[[str], Command]) -> None:
        now_ms = self._clock.now_ms()
        for group_id in group_ids:
            self._drive(seat, seat.shard.submit(command(group_id), Context(now_ms)))

    def close(self) -> None:
        """Every request that waits is answered NOT_COORDINATOR."""
        if self._timer is not None:
            self._timer.cancel()
        if self._loading is not None:
            self._loading.cancel()
        for seat in self._seats:
            for reply in seat.shard.unload():
                self._answer(reply)
        self._write_journal()
