"""A laboratory consumer's offsets and commits: the client's machines, driven in virtual time over the actor's network."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from coterie.consuming.commits.commits import AutoCommitSchedule, CommitEffect, CommitEnded, Commits, SendCommit
from coterie.consuming.commits.offset_commit import CommitOffsets, Verdict
from coterie.consuming.commits.verdicts import GroupMachine
from coterie.consuming.committed_offsets import CommittedConfig, CommittedLookup, OwnedOffsets, SendOffsetFetch
from coterie.consuming.effects import LookUpCoordinator
from coterie.consuming.record import TopicPartition
from coterie.laboratory.world import World
from coterie.machines.backoff import Backoff
from coterie.machines.cluster_metadata import GROUP as OF_GROUP
from coterie.machines.cluster_metadata import ClusterMetadata
from coterie.member.config import ConsumerMemberConfig, MemberConfig
from coterie.member.consumer.machine import ConsumerMemberMachine
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.groups.find_coordinator import Coordinator, FindCoordinatorResponse
from coterie.wire.messages.groups.offset_commit import OffsetCommitResponse
from coterie.wire.messages.groups.offset_fetch import OffsetFetchResponse

NODE_ID = 1
LOOKUP_MS = 60_000  # default.api.timeout.ms


class CommittingActor(Protocol):
    """The process whose offsets these are: its member, clock and network."""

    @property
    def config(self) -> MemberConfig | ConsumerMemberConfig:
        """The settings of its member."""
        ...

    @property
    def machine(self) -> GroupMachine:
        """The machine of its membership."""
        ...

    @property
    def world(self) -> World:
        """The world of the story."""
        ...

    @property
    def positions(self) -> CommitOffsets:
        """The next offset of each partition that is read: what a commit of everything has."""
        ...

    def clock_ms(self) -> int:
        """The time (ms) by the process's clock."""
        ...

    def find_coordinator(self, ended: Callable[[bool], None]) -> None:
        """Calls ``ended`` later with whether there is one that can be reached, unless the process has ended."""
        ...

    def send(self, request: Message, received: Callable[[Message], None], failed: Callable[[], None]) -> None:
        """Sends a request to the broker; one of the two is called later."""
        ...


class ActorCommits:
    """The commits of one life of the process. ``interval_ms`` None: no automatic commits. Positions start at the committed
    offsets, which are looked up after an assignment, or at 0."""

    def __init__(self, actor: CommittingActor, interval_ms: int | None) -> None:
        self.offsets = OwnedOffsets()
        self.accepted = 0  # commits
        self._actor = actor
        self._group_id = actor.config.group_id
        self._known = ClusterMetadata()
        self._machine = Commits(self._known, self._group_id, Backoff(), actor.machine)
        self._schedule = AutoCommitSchedule(self._machine, interval_ms)
        self._schedule.restart(actor.clock_ms())
        self._blocking: dict[int, Callable[[], None]] = {}  # what follows the end of a synchronous commit
        self._lookup: CommittedLookup | None = None
        self._lookup_config = CommittedConfig(LOOKUP_MS)

    @property
    def is_blocking(self) -> bool:
        """Whether the process waits for a commit, and polls only after it."""
        return bool(self._blocking)

    @property
    def auto_commit_due_ms(self) -> float:
        """From when on `poll` begins the next automatic commit, by the process's clock."""
        return self._schedule.next_ms

    def poll(self) -> None:
        """Begins the automatic commit that is due."""
        self._schedule.poll(self.consumed, self._actor.clock_ms())

    def consumed(self) -> CommitOffsets:
        """The positions."""
        return dict(sorted(self._actor.positions.items()))

    def commit_async(self, offsets: CommitOffsets) -> None:
        """Tried once; its end is of no consequence."""
        if offsets:
            self._machine.commit_async(offsets)

    def commit_sync(self, timeout_ms: int) -> None:
        """The process does not poll until it has ended."""
        if self._actor.positions:
            self._blocking[self._machine.commit(self.consumed(), self._actor.clock_ms(), timeout_ms)] = lambda: None

    def commit_before_revocation(self, follow: Callable[[], None]) -> None:
        """As `commit_now`, with max.poll.interval.ms as the timeout."""
        self.commit_now(follow, self._actor.config.max_poll_interval_ms)

    def commit_now(self, follow: Callable[[], None], timeout_ms: int) -> None:
        """``follow()`` is called once the commit has ended, ``timeout_ms`` later at most; at once where there is none."""
        token = self._schedule.commit_now(self.consumed, self._actor.clock_ms(), timeout_ms)
        if token is None:
            follow()
        else:
            self._blocking[token] = follow

    # -- driving the machine --------------------------------------------------------------------------------------------

    def pump(self, now_ms: int) -> bool:
        """Carries out what is due; False where nothing was."""
        effects = self._machine.next(now_ms)
        for effect in effects:
            self._carry_out(effect)
        return self._pump_lookup(now_ms) or bool(effects)

    def check(self) -> None:
        """No synchronous commit is open that nothing would end."""
        assert not self._blocking or self._machine.next_deadline_ms() is not None, (
            f"nothing ends the commits {list(self._blocking)}"
        )

    def next_deadline_ms(self) -> float | None:
        """By the process's clock."""
        due_ms = self._machine.next_deadline_ms()
        of_lookup = None if self._lookup is None else self._lookup.next_deadline_ms()
        if due_ms is None or of_lookup is None:
            return of_lookup if due_ms is None else due_ms
        return min(due_ms, of_lookup)

    def _carry_out(self, effect: CommitEffect) -> None:
        match effect:
            case SendCommit(request=request, token=token):
                self._actor.send(
                    request, lambda response: self._received(token, response), lambda: self._lost_connection(token)
                )
            case LookUpCoordinator():
                self._find_coordinator(self._machine)
            case CommitEnded(token=token):
                self.accepted += effect.verdict == Verdict.DONE
                self._schedule.ended(effect, self._actor.clock_ms(), 0)
                self._blocking.pop(token, lambda: None)()

    def _received(self, token: int, response: Message) -> None:
        assert isinstance(response, OffsetCommitResponse)
        self._machine.responded(token, response, self._actor.clock_ms(), self._jitter())

    def _lost_connection(self, token: int) -> None:
        self._machine.request_failed(token, ErrorCode.NETWORK_EXCEPTION, self._actor.clock_ms(), self._jitter())

    def _jitter(self) -> float:
        return self._actor.world.random.uniform(-1, 1)

    def _find_coordinator(self, machine: Commits | CommittedLookup) -> None:
        def ended(is_there: bool) -> None:
            if is_there:
                self.coordinator_found()
            code = ErrorCode.NONE if is_there else ErrorCode.COORDINATOR_NOT_AVAILABLE
            machine.coordinator_looked_up(code, self._actor.clock_ms(), self._jitter())

        self._actor.find_coordinator(ended)

    def coordinator_found(self) -> None:
        """By this part or by the membership: a client's parts share what they know."""
        here = Coordinator(self._group_id, NODE_ID, "laboratory", 9092)
        self._known.coordinator_received(self._group_id, OF_GROUP, FindCoordinatorResponse(coordinators=[here]))

    # -- positions ------------------------------------------------------------------------------------------------------

    def look_up_positions(self) -> None:
        """Begins the lookup of the committed offsets that are missing, unless one is under way; one that fails is begun again
        with a later poll."""
        unknown = self.offsets.unknown()
        if unknown and self._lookup is None:
            machine, now_ms = self._actor.machine, self._actor.clock_ms()
            member = machine if isinstance(machine, ConsumerMemberMachine) and machine.is_in_group else None
            partitions = [TopicPartition(*partition) for partition in unknown]
            self._lookup = CommittedLookup(self._group_id, partitions, self._lookup_config, self._known, now_ms, member)

    def _pump_lookup(self, now_ms: int) -> bool:
        """As `pump`."""
        lookup = self._lookup
        if lookup is None:
            return False
        effect = lookup.next(now_ms)
        match effect:
            case SendOffsetFetch(request=request):
                self._actor.send(
                    request,
                    lambda response: self._offsets_received(lookup, effect, response),
                    lambda: lookup.failed(effect, ErrorCode.NETWORK_EXCEPTION, self._actor.clock_ms(), self._jitter()),
                )
            case LookUpCoordinator():
                self._find_coordinator(lookup)
        if lookup.is_done:
            self._lookup = None
            self.offsets.looked_up(lookup.offsets, dict.fromkeys(lookup.offsets, 0))
        return effect is not None or lookup.is_done

    def _offsets_received(self, lookup: CommittedLookup, sent: SendOffsetFetch, response: Message) -> None:
        assert isinstance(response, OffsetFetchResponse)
        lookup.responded(sent, response, self._actor.clock_ms(), self._jitter())
