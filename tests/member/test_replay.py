"""Any inputs in any order: the events alone give the member's state, its stages follow their table, its parts agree."""

from __future__ import annotations

import ast
from itertools import pairwise
from pathlib import Path
from random import Random

import coterie.member
from coterie.assignors import ASSIGNORS, AssignableTopics
from coterie.assignors.blobs import encode_assignment, encode_subscription
from coterie.consuming.commits.verdicts import may_commit, verdict
from coterie.laboratory.member_checkers import MemberChecker, check_settled
from coterie.member.config import MemberConfig
from coterie.member.effects import Assigned, AssignGroup, FindCoordinator, LookForUnassigned, Revoke, Send
from coterie.member.machine import MemberMachine
from coterie.member.state import LEGAL_SUCCESSORS, Stage
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.groups.heartbeat import HeartbeatRequest, HeartbeatResponse
from coterie.wire.messages.groups.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from coterie.wire.messages.groups.leave_group import LeaveGroupRequest
from coterie.wire.messages.groups.sync_group import SyncGroupRequest, SyncGroupResponse

CODES = (
    *[ErrorCode.NONE] * 14,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.MEMBER_ID_REQUIRED,
)
SUBSCRIPTIONS = (frozenset({"t"}), frozenset({"t", "u"}), frozenset({"u"}))
PARTITIONS = (("t", 0), ("t", 1), ("t", 2), ("u", 0))
PAUSES_MS = (1, 100, 1_000, 3_000, 45_000, 300_001)


class Walk:
    """A member whose driver, user and coordinator do anything they may; a number decides what."""

    def __init__(self, config: MemberConfig) -> None:
        self.checker = MemberChecker()
        self.machine = MemberMachine(config, self.checker.observe)
        self.now_ms, self.generation = 0, 0
        self.sent: list[Message] = []
        self.lookups = self.checks = 0
        self.revocations: list[Revoke] = []
        self.to_revoke: set[tuple[str, int]] = set()  # assigned, and not revoked yet
        self.assignments: list[AssignGroup] = []

    def step(self, action: str, number: int) -> None:
        getattr(self, action)(number)
        while effects := self.machine.next(self.now_ms):
            for effect in effects:
                match effect:
                    case FindCoordinator():
                        self.lookups += 1
                    case Send(request):
                        joins = isinstance(request, JoinGroupRequest)
                        assert not joins or not self.revocations, "joins while its listener revokes"
                        self.sent.append(request)
                    case Revoke(partitions):
                        self.revocations.append(effect)
                        assert self.to_revoke.issuperset(partitions), f"{partitions} revoked twice, or never assigned"
                        self.to_revoke.difference_update(partitions)
                    case AssignGroup():
                        self.assignments.append(effect)
                    case LookForUnassigned():
                        self.checks += 1
                    case Assigned(partitions, _, added):
                        assert self.to_revoke == set(partitions) - set(added), "not the rest and what is new"
                        self.to_revoke = set(partitions)
        self.checker.check(self.machine)
        check_settled(self.machine, self.now_ms)

    # -- the user and the clock -------------------------------------------------------------------------------------------

    def wait(self, number: int) -> None:
        self.now_ms += PAUSES_MS[number % len(PAUSES_MS)]

    def wait_until_due(self, number: int) -> None:
        self.now_ms = max(self.machine.next_deadline_ms() or 0, self.now_ms)

    def subscribe(self, number: int) -> None:
        self.machine.subscribe(SUBSCRIPTIONS[number % len(SUBSCRIPTIONS)], self.now_ms)

    def poll(self, number: int) -> None:
        self.machine.polled(self.now_ms)

    def rejoin(self, number: int) -> None:
        self.machine.rejoin("the user asked for it")

    def leave(self, number: int) -> None:
        if number % 8 == 0:  # ends most of what is of interest
            self.machine.leave("closing")
            self.revocations.clear()
            self.to_revoke.clear()

    def commit(self, number: int) -> None:
        may_commit(self.machine)
        sent = (self.machine.member_id, self.machine.generation - number % 2)
        verdict(self.machine, CODES[number % len(CODES)], sent)

    # -- the driver and the coordinator -----------------------------------------------------------------------------------

    def lookup(self, number: int) -> None:
        if self.lookups:
            self.lookups -= 1
            if number % 4:
                self.machine.coordinator_found()
            else:
                self.machine.lookup_failed(self.now_ms)

    def revoked(self, number: int) -> None:
        if self.revocations:
            self.revocations.pop(0)
            self.machine.revoked()

    def assigned(self, number: int) -> None:
        if not self.assignments:
            return
        effect = self.assignments.pop(0)
        if number % 4 == 0:
            self.machine.assignment_failed("the topics could not be looked up", self.now_ms)
            return
        topics = AssignableTopics({t: n for t, n in (("t", 3), ("u", 1 + number % 2)) if t in effect.topics})
        self.machine.group_assigned(ASSIGNORS[effect.protocol].assign(topics, effect.subscribers), topics)

    def topics(self, number: int) -> None:
        self.machine.topics_seen(AssignableTopics({"t": 3, "u": 1 + number % 2}))

    def unassigned(self, number: int) -> None:
        if self.checks:
            self.checks -= 1
            if number % 3 == 2:
                self.machine.unassigned_unknown(self.now_ms)
            else:
                self.machine.unassigned_seen(number % 3 == 1)

    def lose(self, number: int) -> None:
        if self.sent:
            self.machine.lost_connection(self.sent.pop(number % len(self.sent)), self.now_ms)

    def respond(self, number: int) -> None:
        """Most often to the newest request, with success two times in three."""
        if not self.sent:
            return
        request = self.sent.pop(-1 if number % 3 else number % len(self.sent))
        code = CODES[number // 3 % len(CODES)]
        match request:
            case JoinGroupRequest():
                self.machine.responded(request, self._joined(request, code, number // 7), self.now_ms)
            case SyncGroupRequest():
                self.machine.responded(request, self._synced(code, number // 7), self.now_ms)
            case HeartbeatRequest():
                self.machine.responded(request, HeartbeatResponse(error_code=code), self.now_ms)
            case LeaveGroupRequest():
                pass

    def _joined(self, request: JoinGroupRequest, code: ErrorCode, number: int) -> JoinGroupResponse:
        member_id = request.member_id or f"m{self.generation}"
        if code:
            return JoinGroupResponse(error_code=code, member_id=member_id)
        self.generation += 1
        chosen = request.protocols[number % len(request.protocols)]
        leads = number % 2 == 0
        other = encode_subscription({"t"}, {"t": (2,)}, self.generation - 1)
        return JoinGroupResponse(
            generation_id=self.generation,
            protocol_name=chosen.name,
            leader=member_id if leads else "other",
            skip_assignment=leads and number % 16 == 0,
            member_id=member_id,
            members=[
                JoinGroupResponseMember(member_id, request.group_instance_id, chosen.metadata),
                JoinGroupResponseMember("other", None, other),
            ]
            if leads
            else [],
        )

    def _synced(self, code: ErrorCode, number: int) -> SyncGroupResponse:
        if code == ErrorCode.MEMBER_ID_REQUIRED:
            return SyncGroupResponse(protocol_type="connect")
        if code:
            return SyncGroupResponse(error_code=code)
        topics = self.machine.topics if number % 8 else {"t", "u"}
        share: dict[str, list[int]] = {}
        for bit, (topic, partition) in enumerate(PARTITIONS):
            if topic in topics and number >> bit & 1:
                share.setdefault(topic, []).append(partition)
        return SyncGroupResponse(assignment=encode_assignment(share))


WEIGHTS = {
    "respond": 12,
    "lookup": 4,
    "revoked": 2,
    "assigned": 3,
    "wait": 1,
    "wait_until_due": 5,
    "subscribe": 2,
    "poll": 2,
    "rejoin": 2,
    "leave": 1,
    "commit": 1,
    "topics": 1,
    "unassigned": 1,
    "lose": 1,
}
ASSIGNOR_LISTS = (("range",), ("sticky", "range"), ("cooperative-sticky",), ("range", "cooperative-sticky"))
SEEDS, STEPS = 400, 200


def walked(seed: int) -> set[tuple[Stage, Stage]]:
    """The transitions of one walk."""
    rng = Random(seed)
    config = MemberConfig("g", rng.choice([None, "i"]), assignors=rng.choices(ASSIGNOR_LISTS, [1, 1, 4, 1])[0])
    walk = Walk(config)
    actions = ["subscribe", *rng.choices(list(WEIGHTS), list(WEIGHTS.values()), k=STEPS)]
    for at, action in enumerate(actions):
        try:
            walk.step(action, rng.randrange(4096))
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, step {at} ({action}): {error}") from error
    return set(pairwise(walk.checker.stages))


def test_the_events_alone_give_the_state_and_every_transition_happens() -> None:
    """A transition that no walk takes would be one too many in the table, or out of the walks' reach."""
    transitions: set[tuple[Stage, Stage]] = set()
    for seed in range(SEEDS):
        transitions |= walked(seed)
    assert transitions == {(before, after) for before, afters in LEGAL_SUCCESSORS.items() for after in afters}


def test_only_replay_makes_a_state() -> None:
    """Every part of the state is frozen; `replace` is replay's alone, and so are the constructors of the parts."""
    makers = {"replace", "MembershipState", "CoordinatorState", "HeartbeatState", "RoundState", "OwnershipState"}
    for path in Path(coterie.member.__file__).parent.glob("*.py"):
        calls = (node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
        called = {function.id for function in calls if isinstance(function, ast.Name)}
        assert path.stem in ("replay", "state") or not called & makers, path
