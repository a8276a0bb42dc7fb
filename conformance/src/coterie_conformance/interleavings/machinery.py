"""The production machines over one state at a time: what may happen next, and the state after it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import replace

from coterie.assignors import ASSIGNORS, AssignableTopics
from coterie.assignors.blobs import decode_assignment
from coterie.coordinator.commands import Command
from coterie.coordinator.outcome import Context
from coterie.coordinator.shard import Decision, Shard, Step
from coterie.coordinator.state import Phase
from coterie.coordinator.write_queue import BATCH_BYTES, WriteQueue
from coterie.laboratory.group_checkers import check_group
from coterie.laboratory.member_checkers import MemberChecker
from coterie.member.effects import Assigned, AssignGroup, Failed, FindCoordinator, LookForUnassigned, Revoke, Send
from coterie.member.machine import MemberMachine
from coterie.member.state import MemberState, Stage
from coterie.wire.declaration import Message
from coterie_conformance.interleavings.state import (
    BACK,
    BROKEN,
    GROUP,
    OUT,
    PARKED,
    START_MS,
    TOPIC,
    Flight,
    MemberProcess,
    SmallGroup,
    State,
    Transition,
    TransitionKind,
    copied,
    deadlines_of,
)

MOST_TURNS = 50
OF_THE_BROKER = {
    TransitionKind.REQUEST_ARRIVES,
    TransitionKind.TIME_PASSES,
    TransitionKind.TIME_PASSES_MEANWHILE,
    TransitionKind.BROKER_RESTARTS,
}


class Machinery:
    """The production machines over one state at a time."""

    def __init__(self, small: SmallGroup) -> None:
        self.small = small
        self.member_configs = [small.member_config(n) for n in range(small.members)]
        self.coordinator_config = small.coordinator_config()
        self.topics = AssignableTopics({TOPIC: small.partitions})
        self.everything = {(TOPIC, p) for p in range(small.partitions)}

    def first(self) -> State:
        """All members have started and are about to join."""
        state = State(
            START_MS, None, [], {}, tuple(MemberProcess(MemberState()) for _ in self.member_configs), self.small.faults
        )
        for n in range(self.small.members):
            self._input(state, n, lambda machine: machine.subscribe(frozenset({TOPIC}), state.now_ms))
        return state

    # -- what may happen -------------------------------------------------------------------------------------------------

    def events(self, state: State) -> Iterator[Transition]:
        """All that may happen next, first that which happens where nothing goes wrong."""
        normal = list(self._deliveries(state))
        yield from normal
        if not normal:
            yield Transition(TransitionKind.TIME_PASSES)
        faults = state.faults
        if normal and faults.slow:
            yield Transition(TransitionKind.TIME_PASSES_MEANWHILE)
        for n, process in enumerate(state.processes):
            if process.state is not None and faults.crashes:
                yield Transition(TransitionKind.MEMBER_CRASHES, n)
            if faults.losses:
                for flight in process.flights:
                    if flight.where == OUT or (flight.where == BACK and process.state is not None):
                        yield Transition(TransitionKind.IS_LOST, n, flight.serial)
                    if flight.where in (OUT, PARKED) and not flight.given_up and process.state is not None:
                        yield Transition(TransitionKind.CONNECTION_IS_GIVEN_UP, n, flight.serial)
        if faults.broker_crashes:
            yield Transition(TransitionKind.BROKER_RESTARTS)

    @staticmethod
    def _deliveries(state: State) -> Iterator[Transition]:
        for n, process in enumerate(state.processes):
            for flight in process.flights:
                if flight.where == OUT:
                    yield Transition(TransitionKind.REQUEST_ARRIVES, n, flight.serial)
                elif flight.where == BACK:
                    yield Transition(TransitionKind.RESPONSE_ARRIVES, n, flight.serial)
                elif flight.where == BROKEN:
                    yield Transition(TransitionKind.LOSS_IS_NOTICED, n, flight.serial)
            if process.revocations:
                yield Transition(TransitionKind.LISTENER_RETURNS, n)

    def after(self, state: State, event: Transition) -> State:
        """The state after that event. AssertionError where a rule is broken."""
        if event.kind in OF_THE_BROKER:
            after = replace(state, group=copied(state.group), heap=list(state.heap), stored=dict(state.stored))
        else:
            after = replace(state)
        HAPPENS[event.kind](self, after, event.process, event.serial)
        return after

    # -- events: each changes the state -----------------------------------------------------------------------------------

    def _response_arrives(self, state: State, n: int, serial: int) -> None:
        flight = _flight(state, n, serial)
        response = flight.response
        assert response is not None
        self._without(state, n, flight)
        self._input(state, n, lambda machine: machine.responded(flight.request, response, state.now_ms))

    def _is_lost(self, state: State, n: int, serial: int) -> None:
        state.faults = state.faults._replace(losses=state.faults.losses - 1)
        flight = _flight(state, n, serial)
        if state.processes[n].state is None or flight.given_up:
            self._without(state, n, flight)
        else:
            self._with(state, n, replace(flight, where=BROKEN, response=None, key=0))

    def _loss_is_noticed(self, state: State, n: int, serial: int) -> None:
        flight = _flight(state, n, serial)
        self._without(state, n, flight)
        self._input(state, n, lambda machine: machine.lost_connection(flight.request, state.now_ms))

    def _connection_is_given_up(self, state: State, n: int, serial: int) -> None:
        state.faults = state.faults._replace(losses=state.faults.losses - 1)
        flight = _flight(state, n, serial)
        self._with(state, n, replace(flight, given_up=True))
        self._input(state, n, lambda machine: machine.lost_connection(flight.request, state.now_ms))

    def _listener_returns(self, state: State, n: int, serial: int) -> None:
        process = state.processes[n]
        self._put(state, n, replace(process, revocations=process.revocations - 1))
        self._input(state, n, MemberMachine.revoked)

    def _crashes(self, state: State, n: int, serial: int) -> None:
        """SIGKILL: what was sent is with the kernel, and arrives."""
        state.faults = state.faults._replace(crashes=state.faults.crashes - 1)
        process = state.processes[n]
        sent = tuple(flight for flight in process.flights if flight.where in (OUT, PARKED))
        self._put(state, n, replace(process, state=None, flights=sent, revocations=0))

    # -- the coordinator -------------------------------------------------------------------------------------------------

    def _shard(self, state: State) -> Shard:
        shard = Shard(self.coordinator_config)
        if state.group is not None:
            shard.groups[GROUP] = state.group
        shard._deadlines._heap = state.heap
        return shard

    def _submit(self, state: State, shard: Shard, command: Command, ctx: Context) -> None:
        def append(decisions: list[Decision]) -> None:
            for decision in decisions:
                state.stored.update({record.key: record.value for record in decision.records})

        def committed(decision: Decision, steps: list[Step]) -> None:
            for reply in decision.outcome.replies:
                self._reply(state, reply.token, reply.response)

        queue = WriteQueue(shard, append, committed, lambda: BATCH_BYTES)
        queue.execute(command, ctx)
        queue.write()

    def _keep(self, state: State, shard: Shard) -> None:
        state.group, state.heap = shard.groups.get(GROUP), shard._deadlines._heap
        assert not shard.modern_groups
        if state.group is not None:
            check_group(state.group)
            parked = {*state.group.waiting_joins.values(), *state.group.waiting_syncs.values()}
            waiting = {(n, f.serial) for n, p in enumerate(state.processes) for f in p.flights if f.where == PARKED}
            assert waiting <= parked, f"no response will come for {waiting - parked}"

    def _request_arrives(self, state: State, n: int, serial: int) -> None:
        process, flight = state.processes[n], _flight(state, n, serial)
        self._put(state, n, replace(process, ids=process.ids + 1))
        self._with(state, n, replace(flight, where=PARKED, key=0))
        ctx = Context(state.now_ms, (n, flight.serial), f"{n}.{process.ids}", 9, f"c{n}", "")
        before = set(state.group.members) | set(state.group.reservations) if state.group else set()
        shard = self._shard(state)
        self._submit(state, shard, flight.request, ctx)  # type: ignore[arg-type]
        self._keep(state, shard)
        after = set(state.group.members) | set(state.group.reservations) if state.group else set()
        if not any(member_id.endswith(ctx.fresh_id) for member_id in after - before):
            self._put(state, n, replace(state.processes[n], ids=process.ids))

    def _reply(self, state: State, token: Hashable, response: Message) -> None:
        assert isinstance(token, tuple)
        n, serial = token
        process = state.processes[n]
        flight = next((f for f in process.flights if f.serial == serial and f.where == PARKED), None)
        if flight is None:
            return  # its connection is broken
        if process.state is None or flight.given_up:
            self._without(state, n, flight)
        else:
            self._with(state, n, replace(flight, where=BACK, response=response, key=hash(repr(response))))

    def _broker_restarts(self, state: State, n: int, serial: int) -> None:
        """SIGKILL and a start: all that was written is there, all that waited and all connections are gone."""
        state.faults = state.faults._replace(broker_crashes=state.faults.broker_crashes - 1)
        for n, process in enumerate(state.processes):
            kept = [f for f in process.flights if not f.given_up and process.state is not None]
            flights = tuple(replace(f, where=BROKEN, response=None, key=0) for f in kept)
            self._put(state, n, replace(process, flights=flights))
        shard = Shard(self.coordinator_config)
        for key, value in state.stored.items():
            shard.load(key, value, state.now_ms)
        for decision in shard.loaded(state.now_ms):
            raise AssertionError(f"not of a small group: {decision}")
        self._keep(state, shard)

    # -- time ------------------------------------------------------------------------------------------------------------

    def _time_passes_meanwhile(self, state: State, n: int, serial: int) -> None:
        state.faults = state.faults._replace(slow=state.faults.slow - 1)
        self._time_passes(state, n, serial)

    def _time_passes(self, state: State, n: int, serial: int) -> None:
        """To the next deadline; then it is met by the coordinator and by every member."""
        due = [*deadlines_of(state.group)]
        for n, process in enumerate(state.processes):
            if process.state is not None:
                member_ms = self._machine(n, process).next_deadline_ms()
                if member_ms is not None and process.state.stage != Stage.FAILED:
                    due.append(member_ms)
        if not due:
            return
        before_ms, state.now_ms = state.now_ms, max(min(due), state.now_ms)
        shard = self._shard(state)
        queued_ms = shard.next_deadline_ms()
        group_ms = min(deadlines_of(state.group), default=None)
        assert group_ms is None or (queued_ms is not None and queued_ms <= group_ms), "a deadline would be missed"
        for command in shard.expired(state.now_ms):
            self._submit(state, shard, command, Context(state.now_ms))
        self._keep(state, shard)
        for n in range(len(state.processes)):
            if state.processes[n].state is not None:
                self._input(state, n, lambda m: m.polled(state.now_ms))
        assert state.now_ms > before_ms, "a deadline that has passed is not met"

    # -- the members -----------------------------------------------------------------------------------------------------

    def _machine(self, n: int, process: MemberProcess) -> MemberMachine:
        machine = MemberMachine(self.member_configs[n])
        assert process.state is not None
        machine.state = process.state
        return machine

    def _input(self, state: State, n: int, give: Callable[[MemberMachine], object]) -> None:
        """An input, and what follows from it at once; effects that take time become flights and calls of the listener."""
        checker = MemberChecker()
        machine = self._machine(n, state.processes[n])
        checker.state = machine.state
        machine._observe = checker.observe
        give(machine)
        for _ in range(MOST_TURNS):
            before = machine.state
            effects = machine.next(state.now_ms)
            for effect in effects:
                self._carry_out(state, n, machine, effect)
            if not effects and machine.state is before:
                break
        else:
            raise AssertionError(f"member {n} is not at rest at {state.now_ms}: {machine.state}")
        checker.check(machine)
        self._put(state, n, replace(state.processes[n], state=machine.state))

    def _carry_out(self, state: State, n: int, machine: MemberMachine, effect: object) -> None:
        match effect:
            case FindCoordinator():
                machine.coordinator_found()
            case Send(request):
                process = state.processes[n]
                used = {f.serial for f in process.flights}
                serial = next(s for s in range(len(used) + 1) if s not in used)
                flight = Flight(serial, request, OUT, hash(repr(request)))
                self._put(state, n, replace(process, flights=(*process.flights, flight)))
            case Revoke(_, lost):
                if lost:
                    machine.revoked()
                else:
                    process = state.processes[n]
                    self._put(state, n, replace(process, revocations=process.revocations + 1))
            case Assigned(_, generation, added):
                for other, process in enumerate(state.processes):
                    if other != n and process.state is not None and process.state.membership.generation == generation:
                        both = set(added) & set(process.state.ownership.kept())
                        assert not both, f"member {n} was given {sorted(both)} while {other} still has it"
            case AssignGroup(protocol, subscribers, _):
                machine.group_assigned(ASSIGNORS[protocol].assign(self.topics, subscribers), self.topics)
            case LookForUnassigned():
                members = state.group.members.values() if state.group is not None else ()
                given = {tp for m in members for tp in decode_assignment(m.assignment)}
                machine.unassigned_seen(bool(self.everything - given))
            case Failed(code, message):
                raise AssertionError(f"member {n} failed: {code.name} {message}")

    # -- states ----------------------------------------------------------------------------------------------------------

    @staticmethod
    def _put(state: State, n: int, process: MemberProcess) -> None:
        state.processes = (*state.processes[:n], process, *state.processes[n + 1 :])

    def _with(self, state: State, n: int, flight: Flight) -> None:
        process = state.processes[n]
        flights = tuple(flight if f.serial == flight.serial else f for f in process.flights)
        self._put(state, n, replace(process, flights=flights))

    def _without(self, state: State, n: int, flight: Flight) -> None:
        process = state.processes[n]
        self._put(state, n, replace(process, flights=tuple(f for f in process.flights if f.serial != flight.serial)))

    def is_at_rest(self, state: State) -> bool:
        """Every living member is in one stable generation with its share, and every partition has one owner; nothing is on its
        way."""
        group, living = state.group, [p for p in state.processes if p.state is not None]
        if any(p.flights or p.revocations for p in living) or group is None:
            return False
        if group.phase != Phase.STABLE or len(group.members) != len(living):
            return False
        owned: list[tuple[str, int]] = []
        shares: list[int] = []
        for process in living:
            assert process.state is not None
            membership = process.state.membership
            stable = process.state.stage == Stage.STABLE and membership.generation == group.generation
            if not stable or membership.member_id not in group.members:
                return False
            owned += process.state.ownership.owned
            shares.append(len(process.state.ownership.owned))
        return sorted(owned) == sorted(self.everything) and max(shares) - min(shares) <= 1


def _flight(state: State, n: int, serial: int) -> Flight:
    return next(flight for flight in state.processes[n].flights if flight.serial == serial)


HAPPENS = {
    TransitionKind.REQUEST_ARRIVES: Machinery._request_arrives,
    TransitionKind.RESPONSE_ARRIVES: Machinery._response_arrives,
    TransitionKind.LOSS_IS_NOTICED: Machinery._loss_is_noticed,
    TransitionKind.LISTENER_RETURNS: Machinery._listener_returns,
    TransitionKind.TIME_PASSES: Machinery._time_passes,
    TransitionKind.TIME_PASSES_MEANWHILE: Machinery._time_passes_meanwhile,
    TransitionKind.MEMBER_CRASHES: Machinery._crashes,
    TransitionKind.IS_LOST: Machinery._is_lost,
    TransitionKind.CONNECTION_IS_GIVEN_UP: Machinery._connection_is_given_up,
    TransitionKind.BROKER_RESTARTS: Machinery._broker_restarts,
}
