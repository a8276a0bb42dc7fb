"""The laboratory's broker: one coordinator over a real log, in a process that dies and comes back. As the laboratory's
consumers have it, and one that watches whom its coordinator removes, and why: deaths that were noticed, and false alarms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from coterie.coordinator import events as e
from coterie.coordinator.commands import Command
from coterie.coordinator.consumer import events as c
from coterie.coordinator.consumer.offsets import check_fetch
from coterie.coordinator.consumer.state import ConsumerGroup
from coterie.coordinator.offsets.fetch import fetch_offsets
from coterie.coordinator.outcome import Context, CoordinatorConfig
from coterie.coordinator.replay import AnyGroup
from coterie.coordinator.shard import Decision, Shard, Step
from coterie.coordinator.state import Cause, Group, Phase
from coterie.coordinator.stored_records.offsets_log import OffsetsLog
from coterie.coordinator.streams import events as s
from coterie.coordinator.streams.state import StreamsGroup
from coterie.coordinator.write_queue import WriteQueue
from coterie.laboratory.group_checkers import (
    GenerationChecker,
    Ledger,
    OffsetChecker,
    check_consumer_group,
    check_group,
    check_replay,
)
from coterie.laboratory.world import EarliestTimer, World
from coterie.log.config import LogConfig
from coterie.log.filesystem import MemoryFileSystem
from coterie.log.partition_log import PartitionLog
from coterie.wire.declaration import Message
from coterie.wire.errors import Refusal
from coterie.wire.messages.groups.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponseTopics,
)

Response = Callable[[Message], None]
BrokerCommand = Command | OffsetFetchRequest
SEGMENT_BYTES = 104_857_600  # offsets.topic.segment.bytes: groups of thousands have records of megabytes
REMOVALS = e.MemberRemoved | c.SubscriptionRemoved | s.StreamsMetadataRemoved


class BrokerActor:
    """A coordinator that can crash and come back. Its log is the real one; its memory is lost with it. ``checks``: the
    invariants of a group after each of its changes."""

    def __init__(
        self, world: World, config: CoordinatorConfig, partitions: dict[str, int], *, checks: bool = True
    ) -> None:
        self._checks = checks
        self.world, self.config, self.partitions = world, config, partitions
        self.on_step: Callable[[Step], None] | None = None  # sees each step, and changes nothing
        self.fs = MemoryFileSystem()
        self.up = False
        self.incarnation = self.rebalances = self.requests = 0
        self.committed = OffsetChecker()
        self._timer = EarliestTimer(world, self._expire)
        self._changed: dict[str, AnyGroup] = {}
        self._tokens = 0
        self._responses: dict[int, Response] = {}
        self.start()

    def start(self) -> None:
        """Opens the log and loads the groups."""
        config = LogConfig(
            segment_bytes=SEGMENT_BYTES,
            max_message_bytes=SEGMENT_BYTES // 2,
            cleanup_compact=True,
            cleanup_delete=False,
            delete_retention_ms=0,
        )
        self.log = OffsetsLog(PartitionLog.open(self.fs, "__consumer_offsets-0", config, clean=False))
        self.shard = Shard(self.config)
        self.queue = WriteQueue(self.shard, self._append, self._committed, self.log.batch_bytes)
        self.log.load(self.shard)
        self.ledger, self.generations = Ledger(), GenerationChecker()
        self.up = True
        self.incarnation += 1
        self._timer.forget()
        self.committed.check(self.shard)
        for decision in self.shard.loaded(self.world.now_ms):
            self._carry_out(decision)
        self._arm()

    def crash(self) -> None:
        """The process ends."""
        self.up = False
        self._responses.clear()

    def context(self) -> Context:
        """The circumstances of a command of the broker's own."""
        return Context(self.world.now_ms)

    def submit(self, command: BrokerCommand, ctx: Context, response: Response) -> None:
        """Carries a command out; ``response`` is called with it once it is durable, or never if the broker dies
        before."""
        if isinstance(command, OffsetFetchRequest):
            response(self._fetch_offsets(command))
            return
        self._tokens += 1
        self.requests += 1
        token = self._tokens
        self.ledger.requested(token)
        self._responses[token] = response
        ctx.token, ctx.now_ms = token, self.world.now_ms
        self._carry_out(self.shard.decide(command, ctx))
        self._arm()

    def _fetch_offsets(self, request: OffsetFetchRequest) -> OffsetFetchResponse:
        """The offsets of the one group that a consumer requests, as broker/handlers/coordinators/offsets."""
        wanted = request.groups[0]
        group = self.shard.group(wanted.group_id)
        response = OffsetFetchResponseGroup(wanted.group_id)
        try:
            if isinstance(group, ConsumerGroup | StreamsGroup):
                check_fetch(group, wanted.member_id, wanted.member_epoch)
        except Refusal as refusal:
            response.error_code = refusal.code
        else:
            topics = [(topic.name, topic.partition_indexes) for topic in wanted.topics or ()]
            fetched = fetch_offsets(group, topics, require_stable=request.require_stable)
            response.topics = [OffsetFetchResponseTopics(name, partitions=committed) for name, committed in fetched]
        return OffsetFetchResponse(groups=[response])

    def _carry_out(self, decision: Decision) -> None:
        self._changed = {}
        self.queue.carry_out(decision)
        self.queue.write()
        if self._changed and self._checks:  # a heartbeat or a commit changes nothing that these look at
            for group in self._changed.values():
                if isinstance(group, Group):
                    check_group(group)
                elif isinstance(group, ConsumerGroup):
                    check_consumer_group(group)
            self.ledger.check_parked(self.shard, self.queue.tokens())

    def _append(self, decisions: list[Decision]) -> None:
        self.log.append(decisions)

    def _committed(self, decision: Decision, steps: list[Step]) -> None:
        for step in steps:
            if isinstance(decision.group, Group):
                self.generations.check(step, decision.group)
            if step.phase_after == Phase.PREPARING and step.phase_before != Phase.PREPARING:
                self.rebalances += 1
            if self.on_step is not None:
                self.on_step(step)
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

    def _arm(self) -> None:
        due_ms = self.shard.next_deadline_ms()
        if due_ms is not None:
            self._timer.set(due_ms)

    def _expire(self) -> None:
        if not self.up:
            return
        for command in self.shard.expired(self.world.now_ms):
            self._carry_out(self.shard.decide(command, self.context()))
        self._arm()


class _GroupsView(Protocol):
    """A coordinator's groups of the classic protocol, by id."""

    @property
    def groups(self) -> Mapping[str, Group]:
        """The loaded ones."""
        ...


class MemberBroker(Protocol):
    """What a member's process, and what is checked of it, use of the broker that it has for its coordinator."""

    @property
    def up(self) -> bool:
        """Whether connections reach it."""
        ...

    @property
    def incarnation(self) -> int:
        """Counts its processes: a connection ends with one."""
        ...

    @property
    def partitions(self) -> Mapping[str, int]:
        """How many each topic has."""
        ...

    @property
    def shard(self) -> _GroupsView:
        """The shard of the coordinator."""
        ...

    def submit(self, command: BrokerCommand, ctx: Context, response: Response) -> None:
        """Calls ``answer`` with the response, once, unless it ends before."""
        ...


@dataclass(slots=True)
class Removals:
    """``detection_ms``: from a kill until the coordinator knew, summed over ``detected``; ``false_alarms``: removals of
    members that were alive."""

    detected: int = 0
    detection_ms: int = 0
    longest_detection_ms: int = 0
    false_alarms: int = 0
    killed_ms: dict[str, int] = field(default_factory=dict)  # member id -> when its process ended
    closed: set[str] = field(default_factory=set)  # ids of departed members; a static one sends no LeaveGroup

    def noticed(self, killed_ms: int, now_ms: int) -> None:
        """A death was noticed at ``now_ms``."""
        took_ms = now_ms - killed_ms
        self.detected += 1
        self.detection_ms += took_ms
        self.longest_detection_ms = max(self.longest_detection_ms, took_ms)


class WatchingBroker(BrokerActor):
    """``checks`` False for groups of thousands."""

    def __init__(
        self, world: World, config: CoordinatorConfig, partitions: dict[str, int], *, checks: bool = True
    ) -> None:
        self.removals = Removals()
        super().__init__(world, config, partitions, checks=checks)

    def _committed(self, decision: Decision, steps: list[Step]) -> None:
        for step in steps:
            if isinstance(step.event, REMOVALS) and step.event.cause is not None:
                self._removed(step.event.member_id, step.event.cause)
        super()._committed(decision, steps)

    def _removed(self, member_id: str, cause: Cause) -> None:
        removals = self.removals
        killed_ms = removals.killed_ms.pop(member_id, None)
        if killed_ms is not None:
            removals.noticed(killed_ms, self.world.now_ms)
        elif member_id not in removals.closed:
            gave_up = "max.poll.interval.ms" in (cause.reason or "")
            removals.false_alarms += cause.kind not in ("member_left", "member_replaced") or gave_up
