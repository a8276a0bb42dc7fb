"""The laboratory's consumer, whatever its group protocol: the real machines of member and commits, on a clock of its own and a
network that fails. `member_actors` add what each protocol's machine requests."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from coterie.consuming.commits.offset_commit import CommitOffsets
from coterie.consuming.commits.verdicts import GroupMachine
from coterie.coordinator.outcome import Context
from coterie.laboratory.brokers.broker_actor import MemberBroker, Response
from coterie.laboratory.deliveries import Ownership
from coterie.laboratory.members.actor_commits import ActorCommits
from coterie.laboratory.world import EarliestTimer, World, WorldFlight
from coterie.member.config import ConsumerMemberConfig, MemberConfig
from coterie.member.consumer.decision import ConsumerEffect
from coterie.member.effects import Assigned, Effect, Failed, FindCoordinator, Revoke, Send
from coterie.wire.declaration import Message

GROUP = "g"
SYNC_COMMIT_MS = 5_000
API_VERSION = 9
AUTO_COMMIT_INTERVAL_MS = 2_000
MOST_TURNS = 100  # of a process at one time; more is a loop without an end
ActorEffect = Effect | ConsumerEffect
C = TypeVar("C", bound=MemberConfig | ConsumerMemberConfig)
M = TypeVar("M", bound=GroupMachine)


class _SentRequest:
    """A request under way. A closure that may put itself on hold would be a cycle, one for each request, and work for the
    garbage collector."""

    __slots__ = (
        "_actor",
        "_failed",
        "_has_response",
        "_incarnation",
        "_life",
        "_lost_back",
        "_received",
        "_request",
        "_response",
        "is_lost",
    )

    def __init__(
        self,
        actor: GroupMemberActor[Any, Any],
        request: Message,
        received: Callable[[Message], None],
        failed: Callable[[], None],
    ) -> None:
        self._actor, self._request, self._received, self._failed = actor, request, received, failed
        self._life, self._incarnation, self._has_response = actor.life, actor.broker.incarnation, False
        world = actor.world
        self.is_lost = world.chance(world.faults.break_probability)
        self._lost_back = world.chance(world.faults.break_probability)

    def arrive(self) -> None:
        """The request arrives at the broker."""
        actor = self._actor
        if self.is_lost or not self._is_open():
            self._notice()
            return
        actor.submit(self._request, self._responded)
        if self._lost_back:
            self._notice()
        elif not self._has_response:
            self._watch()

    def _is_open(self) -> bool:
        """Whether the connection is open."""
        actor = self._actor
        return actor.broker.up and actor.broker.incarnation == self._incarnation and not actor.cut_off()

    def _watch(self) -> None:
        """A broker that dies while the request waits in it breaks the connection, and so does a cut."""
        if self._has_response:
            return
        if self._is_open():
            self._actor.world.after(1_000, self._watch)
        else:
            self._notice()

    def _responded(self, response: Message) -> None:
        if not self._lost_back:
            self._has_response, self._response = True, response
            world, delay_ms = self._actor.world, self._actor.world.delay_ms()
            if world.on_flight is not None:
                arrives_ms = None if self._actor.cut_off() else world.now_ms + delay_ms
                world.on_flight(WorldFlight(world.now_ms, arrives_ms, self._actor.name, "response", response))
            world.after(delay_ms, self._back)

    def _back(self) -> None:
        """The response arrives at the process."""
        actor = self._actor
        if actor.cut_off():
            self._notice()
        elif actor.lives(self._life):
            self._received(self._response)
            actor.pump()

    def _notice(self) -> None:
        """The process learns in a while that the connection is broken."""
        world = self._actor.world
        world.after(world.faults.notice_ms, self._broken)

    def _broken(self) -> None:
        actor = self._actor
        if actor.lives(self._life):
            self._failed()
            actor.pump()


class GroupMemberActor(ABC, Generic[C, M]):
    """A consumer process: its member's machine, a listener that takes its time, and the client's commits (`ActorCommits`):
    automatic ones, before partitions are given up too, and now and then one that the user requests."""

    machine: M

    def __init__(
        self, world: World, broker: MemberBroker, name: str, config: C, topics: frozenset[str], ownership: Ownership
    ) -> None:
        self.world, self.broker, self.name, self.config, self.topics = world, broker, name, config, topics
        self.ownership = ownership
        self.checks = True  # itself after every input, and every other member at each assignment
        self.api_version = API_VERSION
        self.listener_ms = 0  # what the user's code takes to give partitions up
        self.owned: set[tuple[str, int]] = set()
        self.alive = False
        self.stalled_until_ms = 0
        self.cut_off_until_ms = 0  # a partition of the network: nothing goes through either way
        # A clock that is off by seconds and runs too fast or too slow.
        self._clock_offset_ms = world.between(-5_000, 5_000)
        self._clock_rate = 1 - world.clock_drift + 2 * world.clock_drift * world.random.random()
        self.failed: Failed | None = None
        self.life = 0
        self._timer = EarliestTimer(world, self.pump)
        ownership.actors.append(self)

    @abstractmethod
    def _make_machine(self) -> None:
        """The machine of a new process."""

    def _make_commits(self) -> ActorCommits:
        """Makes the commits of a new process."""
        return ActorCommits(self, AUTO_COMMIT_INTERVAL_MS)

    @abstractmethod
    def _check_machine(self) -> None:
        """After every input."""

    @abstractmethod
    def _takes_part(self) -> bool:
        """Whether a lookup of the coordinator is of use."""

    def start(self) -> None:
        """Starts the process: a new machine that subscribes, with new commits, and polls."""
        self.alive, self.failed = True, None
        self._own(set())
        self.life += 1
        self._timer.forget()
        self._make_machine()
        self.machine.subscribe(self.topics, self.clock_ms())
        self.commits = self._make_commits()
        self._revocations: deque[tuple[tuple[str, int], ...]] = deque()
        self.pump()
        self._poll()

    @property
    def positions(self) -> CommitOffsets:
        """The next offset of each partition that is read."""
        return self.commits.offsets.positions

    def clock_ms(self) -> int:
        """The time (ms) by this process's clock."""
        world = self.world
        return world.start_ms + self._clock_offset_ms + int((world.now_ms - world.start_ms) * self._clock_rate)

    def _world_ms(self, clock_ms: float) -> int:
        """When this process's clock will show that."""
        world = self.world
        return world.start_ms + int((clock_ms - world.start_ms - self._clock_offset_ms) / self._clock_rate) + 1

    def lives(self, life: int) -> bool:
        """Whether the process is still the one of that ``life``."""
        return self.alive and self.life == life

    def crash(self) -> None:
        self.alive = False
        self._own(set())

    def leave(self) -> None:
        """A clean close that waits for nothing, as KafkaConsumer.close with a timeout of 0."""
        self.commits.commit_before_revocation(lambda: None)
        self.pump()
        self._close()

    def _close(self) -> None:
        self.machine.leave("the consumer is being closed")
        self.pump()
        self.crash()

    # -- driving the machine --------------------------------------------------------------------------------------------

    def _poll(self) -> None:
        life = self.life

        def again() -> None:
            if self.lives(life):
                self._poll_once()
                self._poll()

        self.world.after(self._until_poll_ms(), again)

    def _until_poll_ms(self) -> int:
        return self.world.between(200, 1_500)

    def _poll_once(self) -> None:
        if self.world.now_ms >= self.stalled_until_ms and not self.commits.is_blocking:
            self.machine.polled(self.clock_ms())
            self._work()
            self.pump()

    def _work(self) -> None:
        """What was polled is processed; then a commit may be due. A synchronous one holds the process until it ends."""
        self.commits.offsets.advance(lambda: self.world.between(0, 5))
        self.commits.look_up_positions()
        self.commits.poll()
        if self.owned and self.world.chance(0.2):
            self.commits.commit_async(self.commits.consumed())
        elif self.owned and self.world.chance(0.05):
            self.commits.commit_sync(SYNC_COMMIT_MS)

    def pump(self) -> None:
        """Carries out what is due, until nothing is: then no effect of this time is left."""
        if not self.alive:
            return
        machine, commits, now_ms = self.machine, self.commits, self.clock_ms()
        for _ in range(MOST_TURNS):
            before = machine.state
            effects = machine.next(now_ms)
            for effect in effects:
                self._carry_out(effect)
            if not commits.pump(now_ms) and not effects and machine.state is before:
                break
        else:
            raise AssertionError(f"{self.name} is not at rest at {now_ms}: {machine.state}")
        due_ms: float | None = machine.next_deadline_ms()
        of_commits_ms = commits.next_deadline_ms()
        if due_ms is None or (of_commits_ms is not None and of_commits_ms < due_ms):
            due_ms = of_commits_ms
        if self.checks:
            self._check_machine()
            commits.check()
            assert due_ms is None or due_ms > now_ms, f"a deadline of {due_ms} at {now_ms}, which would be a busy loop"
        if due_ms is not None:
            self._timer.set(max(self._world_ms(due_ms), self.world.now_ms + 1))

    def _carry_out(self, effect: ActorEffect) -> None:
        match effect:
            case FindCoordinator():
                self.find_coordinator(self._coordinator_looked_up)
            case Send(request):
                self._send(request)
            case Revoke(partitions, lost):
                self._give_up(partitions, lost)
            case Assigned(partitions, _, added):
                if self.checks:
                    self._check_free(added)
                self._own(set(partitions))
                self._take(partitions, added)
            case Failed():
                self.failed = effect
                self.alive = False
            case _:
                self._carry_out_own(effect)

    @abstractmethod
    def _carry_out_own(self, effect: ActorEffect) -> None:
        """One that only this protocol's machine has."""

    @abstractmethod
    def _check_free(self, added: tuple[tuple[str, int], ...]) -> None:
        """No other member of the group still has what we are given."""

    def _own(self, partitions: set[tuple[str, int]]) -> None:
        self.ownership.changed(self.name, self.owned, partitions, self.world.now_ms)
        self.owned = partitions

    def _give_up(self, partitions: tuple[tuple[str, int], ...], lost: bool) -> None:
        """They are read no more from now on. The automatic commit is waited for, then the listener's work takes its time,
        before the machine continues; one revocation after the other."""
        self._own(self.owned - set(partitions))
        self._revocations.append(partitions)
        if lost:
            self._revoked()
        else:
            self.commits.commit_before_revocation(self._call_listener)

    def _take(self, partitions: tuple[tuple[str, int], ...], added: tuple[tuple[str, int], ...]) -> None:
        """A new generation's partitions, ``added`` of them new."""
        self.commits.offsets.assigned(partitions)

    def _call_listener(self) -> None:
        if self.listener_ms:
            self._after(self.listener_ms, self._revoked)
        else:
            self._revoked()

    def _revoked(self) -> None:
        self.commits.offsets.revoked(self._revocations.popleft())
        self.machine.revoked()

    def later(self, action: Callable[[], None]) -> None:
        self._after(self.world.delay_ms(), action)

    def _after(self, delay_ms: int, action: Callable[[], None]) -> None:
        life = self.life

        def run() -> None:
            if self.lives(life):
                action()
                self.pump()

        self.world.after(delay_ms, run)

    def find_coordinator(self, ended: Callable[[bool], None]) -> None:
        """Calls ``ended`` later with whether there is one that can be reached, unless the process has ended."""
        self.later(lambda: ended(self.broker.up and not self.cut_off()))

    def _coordinator_looked_up(self, is_there: bool) -> None:
        if is_there and self._takes_part():
            self.commits.coordinator_found()
            self.machine.coordinator_found()
        else:
            self.machine.lookup_failed(self.clock_ms())

    # -- the network ------------------------------------------------------------------------------------------------------

    def cut_off(self) -> bool:
        return self.world.now_ms < self.cut_off_until_ms

    def _send(self, request: Message) -> None:
        """Sends a request of the member machine."""
        self.send(
            request,
            lambda response: self._received(request, response),
            lambda: self.machine.lost_connection(request, self.clock_ms()),
        )

    def _received(self, request: Message, response: Message) -> None:
        """The response to a request of the member machine."""
        self.machine.responded(request, response, self.clock_ms())

    def send(self, request: Message, received: Callable[[Message], None], failed: Callable[[], None]) -> None:
        """To the broker: once, one of the two is called with the result, unless the process ends before."""
        world = self.world
        sent = _SentRequest(self, request, received, failed)
        delay_ms = world.delay_ms()
        if world.on_flight is not None:
            arrives_ms = None if sent.is_lost or self.cut_off() else world.now_ms + delay_ms
            world.on_flight(WorldFlight(world.now_ms, arrives_ms, self.name, "request", request))
        world.after(delay_ms, sent.arrive)

    def submit(self, request: Message, response: Response) -> None:
        """The request arrives at the broker."""
        ctx = Context(0, None, self.world.fresh_id(), self.api_version, self.name, "/lab")
        self.broker.submit(request, ctx, response)  # type: ignore[arg-type]
