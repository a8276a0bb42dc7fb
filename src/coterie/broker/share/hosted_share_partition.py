"""A share partition as the leader of its partition drives it: its state is loaded and written by the persister, its locks end
by the clock, and fetches that wait for it are called."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import Enum, auto
from functools import partial
from typing import Protocol

from coterie.broker.process.scheduling import Clock, Scheduler, Timer
from coterie.broker.share_state import persister as states
from coterie.broker.share_state.persister import FENCING, SharePersister, StateOf
from coterie.broker.storage.topic import Partition
from coterie.coordinator.share_state.state import SharePartitionKey
from coterie.share.acknowledging import Acknowledgement, acknowledge, expire, release
from coterie.share.acquiring import Acquired, Acquiring, LogBatch, acquire
from coterie.share.dead_letters import DeadRecords
from coterie.share.in_flight import NO_LOCK
from coterie.share.partition import Ended, ShareLimits, SharePartition, StateWrite, loaded
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.share.read_share_group_state import ReadShareGroupStateResponse
from coterie.wire.messages.share.write_share_group_state import WriteShareGroupStateResponse

Done = Callable[[Refusal | None], None]
NO_START_OFFSET = -1


class ShareStage(Enum):
    """How far a hosted share partition is (Kafka's SharePartitionState)."""

    EMPTY = auto()
    LOADING = auto()
    ACTIVE = auto()
    FENCED = auto()


class ShareDriving(Protocol):
    """What a hosted share partition uses of its broker."""

    clock: Clock
    scheduler: Scheduler
    persister: SharePersister

    def limits(self, group_id: str) -> ShareLimits: ...
    def first_offset(self, group_id: str, partition: Partition) -> int: ...
    def ended(self, hosted: HostedSharePartition, ended: Sequence[Ended]) -> None: ...
    def bury(self, hosted: HostedSharePartition, records: DeadRecords, done: Callable[[], None]) -> None: ...
    def drop(self, key: SharePartitionKey) -> None: ...


class HostedSharePartition:
    """One partition in one share group. ``watchers`` are called when a fetch may find more than before."""

    def __init__(self, key: SharePartitionKey, partition: Partition, driving: ShareDriving) -> None:
        self.key, self.partition, self._driving = key, partition, driving
        self.leader_epoch = partition.leader_epoch
        self.stage = ShareStage.EMPTY
        self.watchers: dict[Callable[[], None], None] = {}
        self.state = SharePartition(driving.limits(key.group_id))
        self._state_epoch = 0
        self._timer: Timer | None = None
        self._due_ms = NO_LOCK
        self._loads: list[Done] = []
        self._is_called = False

    # -- loading ------------------------------------------------------------------------------------------------------

    def load(self, done: Done) -> None:
        """Reads the state unless it is there; ``done`` gets the error, at once or later."""
        if self.stage is ShareStage.ACTIVE:
            done(None)
            return
        self._loads.append(done)
        if self.stage is ShareStage.EMPTY:
            self.stage = ShareStage.LOADING
            key = self.key
            request = states.read_request(key.group_id, key.topic_id, key.partition, self.leader_epoch)
            self._driving.persister.send(request, self._read)

    def _read(self, response: ReadShareGroupStateResponse) -> None:
        refusal: Refusal | None = None
        if self.stage is ShareStage.LOADING:
            try:
                self._take(states.read_state(response, self.key.topic_id, self.key.partition))
                self.stage = ShareStage.ACTIVE
            except Refusal as error:
                refusal = error
            except ValueError as error:
                refusal = Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, str(error))
        else:
            refusal = Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if refusal is not None:
            self._driving.drop(self.key)
        loads, self._loads = self._loads, []
        for done in loads:
            done(refusal)
        if refusal is None:
            self._bury(self.state.archiving())
        self.changed()

    def _take(self, read: states.ReadState) -> None:
        """Raises Refusal, ValueError."""
        start = read.start_offset
        if start == NO_START_OFFSET:
            start = self._driving.first_offset(self.key.group_id, self.partition)
        self.state = loaded(self._driving.limits(self.key.group_id), start, read.ranges)
        self._state_epoch = read.state_epoch

    def fence(self) -> None:
        """It is no longer this broker's: what waits for it is called."""
        self.stage = ShareStage.FENCED
        self._stop_timer()
        self.changed()

    # -- what members do ----------------------------------------------------------------------------------------------

    @property
    def has_room(self) -> bool:
        """Whether a fetch may acquire something."""
        return self.stage is ShareStage.ACTIVE and self.state.can_acquire()

    def acquire(self, request: Acquiring, fetch_offset: int, batches: Sequence[LogBatch]) -> list[Acquired]:
        """As `coterie.share.acquiring.acquire`; the locks run from now on."""
        if self.stage is not ShareStage.ACTIVE:
            return []
        acquired = acquire(self.state, request, fetch_offset, batches)
        self._arm()
        if self.state.seeks:
            self.changed()
        return acquired

    def acknowledge(self, member_id: str, acknowledgements: Sequence[Acknowledgement], done: Done) -> None:
        """``done`` once they are written, or with the error."""
        try:
            write = acknowledge(self.state, member_id, acknowledgements, self._driving.clock.now_ms())
        except Refusal as refusal:
            done(refusal)
            return
        self._arm()
        self._write(write, done)

    def release(self, member_id: str, done: Done) -> None:
        """What a member that leaves has acquired."""
        self._write(release(self.state, member_id), done)

    def log_start_moved(self, log_start_offset: int) -> None:
        """Records that were deleted from the log are no longer waited for."""
        self.state.log_start_moved(log_start_offset)
        self.changed()

    def configure(self, limits: ShareLimits) -> None:
        """Puts settings of the group in force."""
        self.state.limits = limits
        self.changed()

    # -- writing ------------------------------------------------------------------------------------------------------

    def _write(self, write: StateWrite, done: Done) -> None:
        if not write.batches:
            done(None)
            return
        key = self.key
        of = StateOf(key.group_id, key.topic_id, key.partition, self._state_epoch, self.leader_epoch)
        self._driving.persister.send(
            states.write_request(of, write), lambda response: self._written(write, response, done)
        )

    def _written(self, write: StateWrite, response: WriteShareGroupStateResponse, done: Done) -> None:
        refusal: Refusal | None = None
        try:
            states.check_written(response, self.key.topic_id, self.key.partition)
        except Refusal as error:
            refusal = error
        self.state.written(write, self._driving.clock.now_ms(), kept=refusal is None)
        self._arm()
        if refusal is None and write.ended:
            self._driving.ended(self, write.ended)
        if refusal is not None and refusal.code in FENCING:
            self._driving.drop(self.key)
        done(refusal)
        self._bury(write.dead_letters)
        self.changed()

    # -- dead letters -------------------------------------------------------------------------------------------------

    def _bury(self, dead: Iterable[DeadRecords]) -> None:
        """Sends letters about the records, and archives them then. Of a share partition that was dropped meanwhile the next
        leader does it, if their state was written."""
        for records in dead:
            if self.stage is ShareStage.ACTIVE:
                self._driving.bury(self, records, partial(self._buried, records))

    def _buried(self, records: DeadRecords) -> None:
        if self.stage is ShareStage.ACTIVE:
            self._write(self.state.buried(records.first, records.last), lambda refusal: None)

    # -- time ---------------------------------------------------------------------------------------------------------

    def _arm(self) -> None:
        """Sets the timer to the first lock that ends."""
        due_ms = self.state.next_deadline_ms
        if due_ms == self._due_ms and self._timer is not None:
            return
        self._stop_timer()
        if due_ms == NO_LOCK or self.stage is not ShareStage.ACTIVE:
            return
        self._due_ms = due_ms
        delay_ms = max(due_ms - self._driving.clock.now_ms(), 0)
        self._timer = self._driving.scheduler.call_later(delay_ms / 1000, self._expire)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._due_ms = None, NO_LOCK

    def _expire(self) -> None:
        self._timer, self._due_ms = None, NO_LOCK
        if self.stage is not ShareStage.ACTIVE:
            return
        self._write(expire(self.state, self._driving.clock.now_ms()), lambda refusal: None)
        self._arm()
        self.changed()

    def changed(self) -> None:
        """Calls the fetches that wait, soon: those of a member that does this now come first."""
        if not self._is_called and self.watchers:
            self._is_called = True
            self._driving.scheduler.call_soon(self._call_watchers)

    def _call_watchers(self) -> None:
        self._is_called = False
        for watcher in list(self.watchers):
            watcher()
