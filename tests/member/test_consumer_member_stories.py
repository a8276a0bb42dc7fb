"""A member of the consumer protocol with any inputs in any order: the events alone give its state, its stages follow their
table, its parts agree, and it reads nothing that the coordinator may give to others."""

from __future__ import annotations

import ast
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

import coterie.member.consumer
from coterie.laboratory.member_checkers import ConsumerMemberChecker, check_settled
from coterie.member.config import ConsumerMemberConfig
from coterie.member.consumer import events, reconcile, replay
from coterie.member.consumer.decision import LookUpTopics
from coterie.member.consumer.machine import ConsumerMemberMachine
from coterie.member.consumer.state import CONSUMER_SUCCESSORS, ConsumerStage
from coterie.member.effects import Assigned, FindCoordinator, Revoke, Send
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.groups.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

NAMES = {b"t" * 16: "t", b"u" * 16: "u", b"v" * 16: "v"}
PARTITIONS = (("t", 0), ("t", 1), ("u", 0), ("v", 0))
IDS = {name: topic_id for topic_id, name in NAMES.items()}
CODES = (
    *[ErrorCode.NONE] * 24,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
)
FATAL = (ErrorCode.FENCED_INSTANCE_ID, ErrorCode.UNSUPPORTED_ASSIGNOR)
PAUSES_MS = (1, 100, 1_000, 5_000)
Partitions = frozenset[tuple[str, int]]


class ConsumerWalk:
    """A member whose driver, user and coordinator do anything they may; a number decides what. ``reads``: the partitions
    between the callback of their assignment and the end of that of their revocation. ``held``: those that the coordinator
    gives to nobody else, as the member was told and has reported."""

    def __init__(self, config: ConsumerMemberConfig) -> None:
        self.checker = ConsumerMemberChecker()
        self.machine = ConsumerMemberMachine(config, self.checker.observe)
        self.now_ms = self.epoch = 0
        self.sent: list[ConsumerGroupHeartbeatRequest] = []
        self.lookups = 0
        self.topic_lookups: list[frozenset[bytes]] = []
        self.calls: list[Revoke | Assigned] = []
        self.reads: Partitions = frozenset()
        self.held: Partitions = frozenset()

    def step(self, action: str, number: int) -> None:
        getattr(self, action)(number)
        if self.machine.stage == ConsumerStage.UNSUBSCRIBED:  # the user's own callback has released everything
            self.calls.clear()
            self.reads = frozenset()
        while effects := self.machine.next(self.now_ms):
            for effect in effects:
                match effect:
                    case FindCoordinator():
                        self.lookups += 1
                    case Send(request):
                        assert isinstance(request, ConsumerGroupHeartbeatRequest)
                        self._sends(request)
                    case LookUpTopics(topic_ids):
                        assert not self.topic_lookups, "two lookups at once"
                        self.topic_lookups.append(topic_ids)
                    case Revoke(partitions):
                        assert self.reads.issuperset(partitions), f"{partitions} revoked, {self.reads} are read"
                        self.calls.append(effect)
                    case Assigned(partitions, _, added):
                        assert self.reads == frozenset(partitions) - frozenset(added), "not the rest and the new ones"
                        self.reads = frozenset(partitions)
                        self.calls.append(effect)
        self.checker.check(self.machine)
        check_settled(self.machine, self.now_ms)
        assert self.machine.lost or self.reads <= self.held, f"{self.reads - self.held} may be given to others"
        assert frozenset(self.machine.owned) == self.reads

    def _sends(self, request: ConsumerGroupHeartbeatRequest) -> None:
        if request.member_epoch == 0:
            assert not self.reads, "joins and reads"
            assert request.topic_partitions == []
            assert request.subscribed_topic_names is not None
        if request.member_epoch < 0:
            self.held = frozenset()
        elif request.topic_partitions is not None:
            reported = frozenset((NAMES[t.topic_id], n) for t in request.topic_partitions for n in t.partitions)
            assert reported <= self.held, "reports what it was never given"
            self.held = reported  # what it leaves out, the coordinator may have given away
        self.sent.append(request)

    # -- the user and the clock -------------------------------------------------------------------------------------------

    def wait(self, number: int) -> None:
        self.now_ms += PAUSES_MS[number % len(PAUSES_MS)]

    def wait_until_due(self, number: int) -> None:
        self.now_ms = max(self.machine.next_deadline_ms() or 0, self.now_ms)

    def subscribe(self, number: int) -> None:
        topics = [frozenset({"t"}), frozenset({"t", "u"}), frozenset[str]()][number % 3]
        self.machine.subscribe(topics, self.now_ms, None if topics else ".*")

    def poll(self, number: int) -> None:
        self.machine.polled(self.now_ms)

    def leave(self, number: int) -> None:
        if number % 6 == 0:  # ends most of what is of interest
            self.machine.leave("closing")
        elif number % 6 == 1:
            self.machine.prepare_leave()

    def returned(self, number: int) -> None:
        if not self.calls:
            return
        call = self.calls.pop(0)
        failed = number % 8 == 0
        reconciles = self.machine.state.assignment.reconciling is not None
        if isinstance(call, Revoke) and not (failed and reconciles):
            self.reads -= frozenset(call.partitions)
        if failed:
            self.machine.callback_failed()
        elif isinstance(call, Revoke):
            self.machine.revoked()
        else:
            self.machine.assigned()

    # -- the driver and the coordinator -----------------------------------------------------------------------------------

    def lookup(self, number: int) -> None:
        if self.lookups:
            self.lookups -= 1
            if number % 4:
                self.machine.coordinator_found()
            else:
                self.machine.lookup_failed(self.now_ms)

    def topics(self, number: int) -> None:
        if self.topic_lookups:
            topic_ids = self.topic_lookups.pop()
            names = {t: NAMES[t] for n, t in enumerate(sorted(topic_ids)) if number >> n & 3}
            self.machine.topics_looked_up(names, self.now_ms)

    def lose(self, number: int) -> None:
        if self.sent:
            self.machine.lost_connection(self.sent.pop(number % len(self.sent)), self.now_ms)

    def elsewhere(self, number: int) -> None:
        if self.machine.owes_heartbeats():
            self.machine.heartbeat_sent_elsewhere()

    def refuse(self, number: int) -> None:
        if number % 8 == 0:
            self.machine.membership_refused(ErrorCode.UNKNOWN_MEMBER_ID)

    def respond(self, number: int) -> None:
        """Most often to the newest heartbeat, most often with success; one in sixty with an error for good."""
        if not self.sent:
            return
        request = self.sent.pop(-1 if number % 3 else number % len(self.sent))
        code = FATAL[number % 2] if number % 64 == 5 else CODES[number // 3 % len(CODES)]
        response = ConsumerGroupHeartbeatResponse(error_code=code, member_epoch=-1, heartbeat_interval_ms=1_000)
        counts = request is self.machine.state.heartbeat.request
        if not code:
            self.epoch += number // 5 % 2
            response.member_epoch = max(self.epoch, 1) if request.member_epoch >= 0 else request.member_epoch
            if request.member_epoch == 0 or number % 2:
                share = frozenset(p for bit, p in enumerate(PARTITIONS) if number // 7 >> bit & 1)
                response.assignment = Assignment([TopicPartitions(IDS[t], [n]) for t, n in sorted(share)])
                if counts:
                    self.held |= share
        self.machine.responded(request, response, self.now_ms)


WEIGHTS = {
    "respond": 12,
    "lookup": 5,
    "returned": 8,
    "topics": 5,
    "wait": 1,
    "wait_until_due": 4,
    "subscribe": 1,
    "poll": 3,
    "leave": 2,
    "elsewhere": 1,
    "refuse": 1,
    "lose": 1,
}
SEEDS, STEPS = 400, 150


def walked(seed: int) -> set[tuple[ConsumerStage, ConsumerStage]]:
    """The transitions of one walk."""
    rng = Random(seed)
    max_poll_interval_ms = rng.choice([5_000, 60_000])
    config = ConsumerMemberConfig("g", "me", rng.choice([None, "i"]), max_poll_interval_ms)
    walk = ConsumerWalk(config)
    actions = ["subscribe", *rng.choices(list(WEIGHTS), list(WEIGHTS.values()), k=STEPS)]
    for at, action in enumerate(actions):
        try:
            walk.step(action, rng.randrange(4096))
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, step {at} ({action}): {error}") from error
    return set(pairwise(walk.checker.stages))


def test_the_events_alone_give_the_state_and_every_transition_happens() -> None:
    """A transition that no walk takes would be one too many in the table, or out of the walks' reach."""
    transitions: set[tuple[ConsumerStage, ConsumerStage]] = set()
    for seed in range(SEEDS):
        transitions |= walked(seed)
    assert transitions == {(before, after) for before, afters in CONSUMER_SUCCESSORS.items() for after in afters}


def _walk_until_wrong() -> None:
    for seed in range(SEEDS):
        walked(seed)


def test_an_acknowledgement_before_the_revocation_ended_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def report_target(config, state, *, full=False):  # type: ignore[no-untyped-def]
        request = ConsumerGroupHeartbeatRequest(config.group_id, config.member_id, state.epochs.epoch, None)
        request.subscribed_topic_names = []
        request.topic_partitions = [TopicPartitions(t, [n]) for t, n in sorted(state.assignment.target.partitions)]
        return request

    monkeypatch.setattr("coterie.member.consumer.heartbeat.state_request", report_target)
    with pytest.raises(AssertionError, match="may be given to others"):
        _walk_until_wrong()


def test_a_reconciliation_that_outlives_its_membership_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = replay._lost

    def forget(state, partitions):  # type: ignore[no-untyped-def]
        return replay._assignment(lost(state, partitions), reconciling=state.assignment.reconciling)

    monkeypatch.setattr(replay, "_lost", forget)
    with pytest.raises(AssertionError):
        _walk_until_wrong()


def test_an_assignment_without_its_revocation_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def assign_at_once(decision):  # type: ignore[no-untyped-def]
        if decision.state.stage == ConsumerStage.RECONCILING and not decision.state.assignment.calls:
            resolved = decision.state.resolved()
            if resolved != decision.state.assignment.current:
                decision.record(events.ReconciliationStarted(resolved, frozenset()))
                reconcile._assign(decision)

    monkeypatch.setattr("coterie.member.consumer.machine.settle_reconciliation", assign_at_once)
    with pytest.raises(AssertionError, match="not the rest and the new ones"):
        _walk_until_wrong()


def test_only_replay_makes_a_state() -> None:
    """Every part of the state is frozen; `replace` is replay's alone, and so are the constructors of the parts."""
    makers = {"replace", "EpochState", "HeartbeatProgress", "TopicNames", "AssignmentState", "ConsumerMembershipState"}
    for path in Path(coterie.member.consumer.__file__).parent.glob("*.py"):
        calls = (node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
        called = {function.id for function in calls if isinstance(function, ast.Name)}
        assert path.stem in ("replay", "state", "machine") or not called & makers, path
