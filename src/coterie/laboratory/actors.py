"""Who lives in the world: one broker's coordinator over a log in memory, and members driving the real machine."""

from __future__ import annotations

from collections.abc import Callable

from coterie.assignors import ASSIGNORS
from coterie.coordinator.offsets.fetch import fetch_offsets
from coterie.coordinator.offsets_log import OffsetsLog
from coterie.coordinator.outcome import Context, CoordinatorConfig
from coterie.coordinator.shard import Command, Decision, Shard, Step, drive
from coterie.coordinator.state import Phase
from coterie.laboratory.checkers import GenerationChecker, Ledger, OffsetChecker, check_group, check_replay
from coterie.laboratory.world import World
from coterie.log.filesystem import MemoryFileSystem
from coterie.log.partition_log import LogConfig, PartitionLog
from coterie.member.machine import (
    Assigned,
    AssignGroup,
    Effect,
    Failed,
    FindCoordinator,
    MemberConfig,
    MemberMachine,
    Revoke,
    Send,
    Stage,
)
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)

GROUP = "g"
Answer = Callable[[Message], None]
API_VERSION = 9


class BrokerActor:
    """A coordinator that can crash and come back. Its log is the real one; its memory is lost with it."""

    def __init__(self, world: World, config: CoordinatorConfig, partitions: dict[str, int]) -> None:
        self.world, self.config, self.partitions = world, config, partitions
        self.fs = MemoryFileSystem()
        self.up = False
        self.incarnation = 0
        self.committed = OffsetChecker()
        self.generations = GenerationChecker()
        self.rebalances = 0
        self.failing_appends = 0
        self._armed_ms = -1
        self._tokens = 0
        self._answers: dict[int, Answer] = {}
        self.start()

    def start(self) -> None:
        """Opens the log, cuts a torn tail, loads the groups."""
        self.log = OffsetsLog(
            PartitionLog.open(self.fs, "__consumer_offsets-0", LogConfig(segment_bytes=64_000), clean=False)
        )
        self.shard = Shard(self.config)
        self.log.load(self.shard)
        self.ledger = Ledger()
        self.up = True
        self.incarnation += 1
        self._armed_ms = -1
        self.generations = GenerationChecker()
        self.committed.check(self.shard)
        for decision in self.shard.loaded(self.world.now_ms):
            self._drive(decision)
        self._arm()

    def crash(self) -> None:
        """Process death: what was written stays, sometimes with the half of a write that was under way."""
        self.up = False
        self._answers.clear()
        if self.world.chance(0.5):
            self.log.log.segments[-1].file.append(self.world.random.randbytes(self.world.random.randint(1, 200)))

    def submit(self, command: Command, ctx: Context, answer: Answer) -> None:
        self._tokens += 1
        token = self._tokens
        self.ledger.asked(token)
        self._answers[token] = answer
        ctx.token = token
        self._drive(self.shard.submit(command, ctx))
        self._check()
        self._arm()

    def _drive(self, decision: Decision) -> None:
        drive(self.shard, decision, self._append, self._kept)

    def _append(self, decision: Decision) -> None:
        if self.failing_appends > 0:
            self.failing_appends -= 1
            raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR)
        self.log.append(decision)

    def _kept(self, decision: Decision, steps: list[Step]) -> None:
        for step in steps:
            self.generations.check(step, decision.group)
            if step.phase_after == Phase.PREPARING and step.phase_before != Phase.PREPARING:
                self.rebalances += 1
        self.committed.answered(decision)
        for reply in decision.outcome.replies:
            token = reply.token
            assert isinstance(token, int)
            self.ledger.answer(token)
            self._answers.pop(token)(reply.response)

    def _check(self) -> None:
        for group in self.shard.groups.values():
            check_group(group)
        self.ledger.check_parked(self.shard)

    def check_log(self) -> None:
        """Replaying the log gives the state."""
        again = Shard(self.config)
        self.log.load(again)
        check_replay(self.shard, again)

    def _arm(self) -> None:
        due_ms = self.shard.next_deadline_ms()
        if due_ms is None or self.world.now_ms < self._armed_ms <= due_ms:
            return
        due_ms = max(due_ms, self.world.now_ms)
        incarnation, self._armed_ms = self.incarnation, due_ms

        def fire() -> None:
            if self.up and self.incarnation == incarnation and self._armed_ms == due_ms:
                self._armed_ms = -1
                for command in self.shard.expired(self.world.now_ms):
                    self._drive(self.shard.submit(command, Context(self.world.now_ms)))
                self._check()
                self._arm()

        self.world.at(due_ms, fire)


class MemberActor:
    """A consumer process: the real member machine, a listener that remembers, commits now and then."""

    def __init__(
        self, world: World, broker: BrokerActor, name: str, config: MemberConfig, topics: frozenset[str]
    ) -> None:
        self.world, self.broker, self.name, self.config, self.topics = world, broker, name, config, topics
        self.owned: set[tuple[str, int]] = set()
        self.positions: dict[tuple[str, int], int] = {}
        self.alive = False
        self.stalled_until_ms = 0
        self.failed: Failed | None = None
        self._life = 0
        self._armed_ms = -1

    def start(self) -> None:
        self.alive, self.failed, self.owned = True, None, set()
        self._life += 1
        self._armed_ms = -1
        self.machine = MemberMachine(self.config)
        self.machine.subscribe(self.topics, self.world.now_ms)
        self._pump()
        self._poll()

    def crash(self) -> None:
        self.alive, self.owned = False, set()

    def leave(self) -> None:
        """A clean close."""
        self.machine.leave("the consumer is being closed")
        self._pump()
        self.crash()

    # -- driving the machine --------------------------------------------------------------------------------------------

    def _poll(self) -> None:
        life = self._life

        def again() -> None:
            if self.alive and self._life == life:
                if self.world.now_ms >= self.stalled_until_ms:
                    self.machine.polled(self.world.now_ms)
                    self._work()
                    self._pump()
                self._poll()

        self.world.after(self.world.random.randint(100, 1000), again)

    def _work(self) -> None:
        for partition in self.owned:
            self.positions[partition] = self.positions.get(partition, 0) + self.world.random.randint(0, 5)
        if self.owned and self.world.chance(0.3):
            self._send(self._commit())

    def _commit(self) -> OffsetCommitRequest:
        topics: dict[str, list[OffsetCommitRequestPartition]] = {}
        for topic, partition in sorted(self.owned):
            position = self.positions.get((topic, partition), 0)
            topics.setdefault(topic, []).append(OffsetCommitRequestPartition(partition, position))
        m = self.machine
        return OffsetCommitRequest(
            self.config.group_id,
            m.generation,
            m.member_id,
            self.config.group_instance_id,
            topics=[OffsetCommitRequestTopic(t, partitions=p) for t, p in topics.items()],
        )

    def _pump(self) -> None:
        if not self.alive:
            return
        while effects := self.machine.next(self.world.now_ms):
            for effect in effects:
                self._carry_out(effect)
        self._arm()

    def _arm(self) -> None:
        due_ms = self.machine.next_deadline_ms()
        if due_ms is None:
            return
        due_ms = max(due_ms, self.world.now_ms + 1)
        if self.world.now_ms < self._armed_ms <= due_ms:
            return
        life, self._armed_ms = self._life, due_ms

        def fire() -> None:
            if self.alive and self._life == life and self._armed_ms == due_ms:
                self._armed_ms = -1
                self._pump()

        self.world.at(due_ms, fire)

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case FindCoordinator():
                self._later(self._found)
            case Send(request):
                self._send(request)
            case Revoke():
                self.owned = set()
                self.machine.revoked()
            case AssignGroup(protocol, subscribers, _):
                self.machine.group_assigned(ASSIGNORS[protocol](self.broker.partitions, subscribers))
            case Assigned(partitions, _):
                self.owned = set(partitions)
                self._resume()
            case Failed():
                self.failed = effect
                self.alive = False

    def _resume(self) -> None:
        """Positions start from what the group committed."""
        asked: dict[str, list[int]] = {}
        for topic, partition in self.owned:
            asked.setdefault(topic, []).append(partition)
        if self.broker.up:
            for topic, found in fetch_offsets(self.broker.shard.groups.get(self.config.group_id), asked).items():
                for p in found:
                    self.positions[topic, p.partition_index] = max(p.committed_offset, 0)

    def _later(self, action: Callable[[], None]) -> None:
        life = self._life

        def run() -> None:
            if self.alive and self._life == life:
                action()
                self._pump()

        self.world.after(self.world.delay_ms(), run)

    def _found(self) -> None:
        if self.broker.up and self.machine.stage != Stage.OUTSIDE:
            self.machine.coordinator_found()
        else:
            self.machine.lookup_failed(self.world.now_ms)

    # -- the network ------------------------------------------------------------------------------------------------------

    def _send(self, request: Message) -> None:
        world, broker, life = self.world, self.broker, self._life
        incarnation = broker.incarnation
        lost_there, lost_back = (world.chance(world.faults.break_probability) for _ in range(2))

        def back(response: Message) -> None:
            if self.alive and self._life == life:
                if not isinstance(response, OffsetCommitResponse):
                    self.machine.answered(request, response, world.now_ms)
                self._pump()

        def broken() -> None:
            if self.alive and self._life == life:
                self.machine.lost_connection(request, world.now_ms)
                self._pump()

        def arrived() -> None:
            if lost_there or not broker.up or broker.incarnation != incarnation:
                world.after(world.faults.notice_ms, broken)
                return
            ctx = Context(world.now_ms, None, world.fresh_id(), API_VERSION, self.name, "/lab")
            broker.submit(request, ctx, answered)  # type: ignore[arg-type]
            if lost_back:
                world.after(world.faults.notice_ms, broken)
            else:
                watch()

        def answered(response: Message) -> None:
            if not lost_back:
                done.append(True)
                world.after(world.delay_ms(), lambda: back(response))

        def watch() -> None:
            # A broker that dies while the request waits in it breaks the connection.
            if done:
                return
            if not broker.up or broker.incarnation != incarnation:
                world.after(world.faults.notice_ms, broken)
            else:
                world.after(1_000, watch)

        done: list[bool] = []
        world.after(world.delay_ms(), arrived)
