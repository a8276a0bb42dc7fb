"""The laboratory's broker: one coordinator over a real log on a disk that fails, in a process that dies and comes back.

What a crash leaves depends on `Durability`. "process": SIGKILL, all that was written stays, perhaps with half of a
write after it. "power": the machine goes down and only what was synced stays, so that the broker syncs before it
answers. "lying": the same machine, but its disk reports a sync and sometimes loses it: acknowledged data may be lost, and
only that the broker comes up again and the group works is checked.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Protocol

from coterie.coordinator.commands import Command
from coterie.coordinator.consumer.commits import check_fetch
from coterie.coordinator.consumer.state import ConsumerGroup
from coterie.coordinator.offsets.fetch import fetch_offsets
from coterie.coordinator.offsets_log import OffsetsLog
from coterie.coordinator.outcome import Context, CoordinatorConfig
from coterie.coordinator.replay import AnyGroup
from coterie.coordinator.shard import Decision, Shard, Step
from coterie.coordinator.state import Group, Phase
from coterie.coordinator.write_queue import WriteQueue
from coterie.laboratory.checking.checkers import GenerationChecker, Ledger, OffsetChecker, check_group, check_replay
from coterie.laboratory.checking.consumer_group_checker import check_consumer_group
from coterie.laboratory.earliest_timer import EarliestTimer
from coterie.laboratory.world import World
from coterie.log.compaction import clean, plan, swap
from coterie.log.config import LogConfig
from coterie.log.files.filesystem import MemoryFileSystem
from coterie.log.partition_log import PartitionLog
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.groups.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponseTopics,
)

Response = Callable[[Message], None]
BrokerCommand = Command | OffsetFetchRequest
TORN_BYTES = 200
MESSAGE_BYTES = 1_048_588  # message.max.bytes: the record of a group of some 4,500 members
SMALL_SEGMENT_BYTES = 16_000  # so that logs roll and are compacted; the record of a group must fit in
CLOCK_STEP_MS = 5_000
COMPACT_EVERY_MS = 60_000


class Durability(StrEnum):
    """What of a log survives a crash: all that was written (PROCESS), what was synced (POWER), less the syncs that the disk
    reported and did not make (LYING)."""

    PROCESS = "process"
    POWER = "power"
    LYING = "lying"


class RequestRecorder(Protocol):
    """What a story of requests is recorded by."""

    def asked(self, command: Command, ctx: Context) -> None: ...

    def happened(self, step: Step) -> None: ...

    def append_failed(self) -> None: ...

    def restarted(self, now_ms: int) -> None: ...


class Died(Exception):
    """The broker's process ended in the middle of a step."""


class BrokerActor:
    """A coordinator that can crash and come back. Its log is the real one; its memory is lost with it. ``turn_ms``: how long
    decisions are collected before they are written; None where each is written at once."""

    def __init__(
        self,
        world: World,
        config: CoordinatorConfig,
        partitions: dict[str, int],
        durability: Durability = Durability.PROCESS,
        recorder: RequestRecorder | None = None,
        *,
        compacts: bool = True,
        checks: bool = True,
        segment_bytes: int = SMALL_SEGMENT_BYTES,
        turn_ms: int | None = None,
    ) -> None:
        self._turn_ms = turn_ms
        self._compacts, self._checks, self._segment_bytes = compacts, checks, segment_bytes
        self.world, self.config, self.partitions, self.durability = world, config, partitions, durability
        self.recorder = recorder
        self.fs = MemoryFileSystem()
        self.up = False
        self.incarnation = self.rebalances = self.crashes = self.compactions = self.requests = 0
        self.committed = OffsetChecker()
        self.failing_appends = self.failing_syncs = self.forgetful_syncs = 0
        self.clock_offset_ms = 0
        self._timer = EarliestTimer(world, self._expire)
        self._changed: dict[str, AnyGroup] = {}
        self._tokens = 0
        self._responses: dict[int, Response] = {}
        self.start()

    def now_ms(self) -> int:
        """The broker's own clock: a restart may set it forward or back."""
        return self.world.now_ms + self.clock_offset_ms

    def start(self) -> None:
        """Opens the log, cuts a torn tail, loads the groups."""
        if self.incarnation and self.world.chance(0.3):
            self.clock_offset_ms = self.world.between(-CLOCK_STEP_MS, CLOCK_STEP_MS)
        config = LogConfig(
            segment_bytes=self._segment_bytes,
            max_message_bytes=max(self._segment_bytes // 2, MESSAGE_BYTES),
            cleanup_compact=True,
            cleanup_delete=False,
            delete_retention_ms=0,
        )
        self.log = OffsetsLog(PartitionLog.open(self.fs, "__consumer_offsets-0", config, clean=False))
        self.shard = self._new_shard()
        self.queue = WriteQueue(self.shard, self._append, self._committed, self.log.batch_bytes)
        self._turn_ends = False  # at a time that is set
        self.log.load(self.shard)
        self.ledger, self.generations = Ledger(), GenerationChecker()
        self.up = True
        self.incarnation += 1
        self._timer.forget()
        if self.recorder is not None and self.incarnation > 1:
            self.recorder.restarted(self.now_ms())
        if self.durability == Durability.LYING:
            self.committed = OffsetChecker()  # what the disk forgot was promised in vain
        self.committed.check(self.shard)
        self._recover()
        for decision in self.shard.loaded(self.now_ms()):
            self._carry_out(lambda decision=decision: self.queue.carry_out(decision), self._write)  # type: ignore[misc]
        self._arm()
        if self._compacts:
            self._compact_later(self.incarnation)

    def _new_shard(self) -> Shard:
        return Shard(self.config)

    def _recover(self) -> None:
        """The broker's loading after its groups; for subclasses."""

    def crash(self) -> None:
        """The process ends, or the machine; sometimes with half of a write on the disk."""
        self.up = False
        self.crashes += 1
        self._responses.clear()
        torn = self.world.between(1, TORN_BYTES) if self.world.chance(0.5) else 0
        if self.durability == Durability.PROCESS:
            if torn:
                self.log.log.segments[-1].file.append(self.world.random.randbytes(torn))
        else:
            self.fs.crash(keep=torn)

    def context(self) -> Context:
        """The circumstances of a command of the broker's own."""
        return Context(self.now_ms())

    def submit(self, command: BrokerCommand, ctx: Context, response: Response) -> None:
        """Carries a command out; ``answer`` is called with the response once it is durable, or never if the broker dies
        before."""
        if isinstance(command, OffsetFetchRequest):
            response(self._fetch_offsets(command))
            return
        self._tokens += 1
        self.requests += 1
        token = self._tokens
        self.ledger.asked(token)
        self._responses[token] = response
        ctx.token, ctx.now_ms = token, self.now_ms()
        if self.recorder is not None:
            self.recorder.asked(command, ctx)
        if self._turn_ms is None:
            alive = self._submit_alone(command, ctx)
        else:
            alive = self._carry_out(lambda: self.queue.execute(command, ctx), self._write_later)
        if alive:
            self._arm()

    def _fetch_offsets(self, request: OffsetFetchRequest) -> OffsetFetchResponse:
        """The offsets of the one group that a consumer asks for, as broker/handlers/coordinators/offsets."""
        wanted = request.groups[0]
        group = self.shard.group(wanted.group_id)
        response = OffsetFetchResponseGroup(wanted.group_id)
        try:
            if isinstance(group, ConsumerGroup):
                check_fetch(group, wanted.member_id, wanted.member_epoch)
        except Refusal as refusal:
            response.error_code = refusal.code
        else:
            topics = [(topic.name, topic.partition_indexes) for topic in wanted.topics or ()]
            fetched = fetch_offsets(group, topics, require_stable=request.require_stable)
            response.topics = [OffsetFetchResponseTopics(name, partitions=committed) for name, committed in fetched]
        return OffsetFetchResponse(groups=[response])

    def _submit_alone(self, command: Command, ctx: Context) -> bool:
        """A command that shares no write with others."""
        if self.queue and not self._carry_out(self._write):
            return False
        decision = self.shard.decide(command, ctx)
        return self._carry_out(lambda: self.queue.carry_out(decision), self._write)

    def _carry_out(self, *actions: Callable[[], object]) -> bool:
        """False when the broker died of it."""
        self._changed = {}
        try:
            for action in actions:
                action()
        except Died:
            self.crash()
            return False
        if self._changed and self._checks:  # a heartbeat or a commit changes nothing that these look at
            for group in self._changed.values():
                if isinstance(group, Group):
                    check_group(group)
                else:
                    check_consumer_group(group)
            self.ledger.check_parked(self.shard, self.queue.tokens())
        return True

    def _write(self) -> None:
        self.queue.write()

    def _write_later(self) -> None:
        if not self.queue or self._turn_ends:
            return
        incarnation, self._turn_ends = self.incarnation, True

        def end_turn() -> None:
            if self.up and self.incarnation == incarnation:
                self._turn_ends = False
                if self._carry_out(self._write):
                    self._arm()

        assert self._turn_ms is not None
        self.world.after(self._turn_ms, end_turn)

    def _append(self, decisions: list[Decision]) -> None:
        if self.failing_appends > 0:
            self.failing_appends -= 1
            if self.recorder is not None:
                self.recorder.append_failed()
            raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR)
        self.log.append(decisions)
        self._durable(self.log.log)

    def _durable(self, log: PartitionLog) -> None:
        """Before the response. A failed fsync ends the broker, since what is on disk is unknown."""
        if self.durability == Durability.PROCESS:
            return
        if self.failing_syncs > 0:
            self.failing_syncs -= 1
            raise Died
        if self.durability == Durability.LYING and self.forgetful_syncs > 0:
            self.forgetful_syncs -= 1
            return
        log.sync()

    def _committed(self, decision: Decision, steps: list[Step]) -> None:
        for step in steps:
            if isinstance(decision.group, Group):
                self.generations.check(step, decision.group)
            if step.phase_after == Phase.PREPARING and step.phase_before != Phase.PREPARING:
                self.rebalances += 1
            if self.recorder is not None:
                self.recorder.happened(step)
        self.committed.responded(decision)
        for reply in decision.outcome.replies:
            token = reply.token
            assert isinstance(token, int)
            self.ledger.respond(token)
            self._responses.pop(token)(reply.response)
        if steps:
            self._changed[decision.group.group_id] = decision.group

    def check_log(self) -> None:
        """Replaying the log gives the state."""
        again = Shard(self.config)
        self.log.load(again)
        check_replay(self.shard, again)

    def _compact_later(self, incarnation: int) -> None:
        """Every minute, as the real broker's cleaner does; now and then the process dies before the swap."""

        def compact() -> None:
            if not self.up or self.incarnation != incarnation:
                return
            wanted = plan(self.log.log, self.now_ms(), force=True)
            if wanted is not None:
                cleaned = clean(wanted)
                if self.world.chance(0.05):
                    self.crash()
                    self.world.after(1_000, self.restart)
                    return
                assert swap(self.log.log, cleaned), "the log changed while it was compacted"
                self.compactions += 1
                self.check_log()
            self.world.after(COMPACT_EVERY_MS, compact)

        self.world.after(COMPACT_EVERY_MS, compact)

    def restart(self) -> None:
        """Starts the process, unless it runs."""
        if not self.up:
            self.start()

    def fail_disk(self) -> None:
        """One of the disk's faults: the next appends fail, a sync fails and the process is started again, or syncs lie."""
        rng = self.world.random
        match rng.choice(["append", "sync", "lie"]):
            case "append":
                self.failing_appends = rng.randint(1, 3)
            case "sync" if self.durability != Durability.PROCESS:
                self.failing_syncs = 1
                self.world.after(rng.randint(5_000, 10_000), self.restart)
            case "lie":
                self.forgetful_syncs = rng.randint(1, 20)

    def _arm(self) -> None:
        due_ms = self.shard.next_deadline_ms()
        if due_ms is not None:
            self._timer.set(due_ms - self.clock_offset_ms)

    def _expire(self) -> None:
        if not self.up:
            return
        for command in self.shard.expired(self.now_ms()):
            if not self._submit_alone(command, self.context()):
                return
        self._arm()
