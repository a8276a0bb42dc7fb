"""Scenarios of one member (tests/spec/member): what its user, driver and coordinator do, and everything that follows.

== testNormalJoinGroupFollower
subscribe t
    UNJOINED -> REJOIN_NEEDED
    find the coordinator
coordinator found
    REJOIN_NEEDED -> READY -> JOINING
    JoinGroup member=- topics=t owned=- generation=-1 protocols=range: the consumer has just started

Lines at the margin are inputs; below each, first the stages that the member passes, then the effects that its driver is to
carry out. `advance` lets deadlines act in their order, each at its own time. After every step the member is checked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields

from coterie.assignors import AssignableTopics
from coterie.assignors.blobs import decode_assignment, decode_subscription, encode_assignment, encode_subscription
from coterie.consuming.commit_verdicts import may_commit, verdict
from coterie.laboratory.member_checker import MemberChecker, check_settled
from coterie.laboratory.scenario import ScenarioError
from coterie.member.config import MemberConfig
from coterie.member.departure import GroupMembershipOperation
from coterie.member.effects import (
    Assigned,
    AssignGroup,
    Effect,
    Failed,
    FindCoordinator,
    LookForUnassigned,
    Revoke,
    Send,
    TopicPartition,
    WatchTopics,
)
from coterie.member.machine import MemberMachine
from coterie.member.requests import by_topic
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from coterie.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from coterie.wire.messages.leave_group import LeaveGroupRequest
from coterie.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

GROUP = "g"
JUNK = b"\0\1\xff"
KINDS: dict[str, type[Message]] = {"join": JoinGroupRequest, "sync": SyncGroupRequest, "heartbeat": HeartbeatRequest}
Options = dict[str, str]


class MemberScenario:
    """One member and its virtual time. ``config`` comes before everything else."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.trace: list[str] = []
        self._sent: list[Message] = []
        self._answered: set[int] = set()  # positions in the list of those sent
        self._begin(MemberConfig(GROUP))
        self._verbs: dict[str, Callable[[list[str], Options], None]] = {
            "config": self._config,
            "subscribe": lambda words, _: self.machine.subscribe(frozenset(words), self.now_ms),
            "poll": lambda *_: self.machine.polled(self.now_ms),
            "enforce-rebalance": lambda words, _: self.machine.enforce_rebalance(" ".join(words)),
            "rejoin": lambda words, _: self.machine.rejoin(" ".join(words)),
            "leave": lambda words, options: self.machine.leave(" ".join(words), operation_of(options)),
            "coordinator": self._coordinator,
            "join": self._join,
            "sync": self._sync,
            "heartbeat": self._heartbeat,
            "disconnect": lambda words, options: self.machine.lost_connection(
                self._request(words[0], options), self.now_ms
            ),
            "revoked": lambda *_: self.machine.revoked(),
            "assign": self._assign,
            "topics": lambda words, options: self.machine.topics_seen(_topics(words, options)),
            "unassigned": self._unassigned,
            "commit": self._commit,
            "may-commit": lambda *_: self.trace.append(may_commit(self.machine).name),
            "advance": self._advance,
            "deadline": self._deadline,
            "state": self._state,
        }

    def _begin(self, config: MemberConfig) -> None:
        self.checker = MemberChecker()
        self.checker.stages = [self.checker.state.stage]
        self.machine = MemberMachine(config, self.checker.observe)

    def step(self, line: str) -> list[str]:
        """Runs one step; returns its trace."""
        self.trace = []
        words = line.split()
        if words[0] not in self._verbs:
            raise ScenarioError(f"{words[0]!r} is not a step; there are {', '.join(sorted(self._verbs))}")
        options = dict(w.split("=", 1) for w in words[1:] if "=" in w)
        self._verbs[words[0]]([w for w in words[1:] if "=" not in w], options)
        self._settle("")
        return self.trace

    def _settle(self, prefix: str) -> None:
        """Everything that is due now, as lines."""
        effects: list[Effect] = []
        while more := self.machine.next(self.now_ms):
            effects += more
        self.checker.check(self.machine)
        check_settled(self.machine, self.now_ms)
        stages = self.checker.stages
        if len(stages) > 1:
            self.trace.append(prefix + " -> ".join(stage.name for stage in stages))
        self.checker.stages = stages[-1:]
        for effect in effects:
            if isinstance(effect, Send):
                self._sent.append(effect.request)
            self.trace.append(prefix + describe_effect(effect))

    # -- the user and the clock -------------------------------------------------------------------------------------------

    def _config(self, words: list[str], options: Options) -> None:
        """Settings by the names of `MemberConfig`; ``assignors`` with commas."""
        known = {field.name for field in fields(MemberConfig)}
        if not options.keys() <= known:
            raise ScenarioError(f"there is no setting {', '.join(sorted(options.keys() - known))}")
        values = {
            n: int(v) if n.endswith("_ms") else tuple(v.split(",")) if n == "assignors" else v
            for n, v in options.items()
        }
        self._begin(MemberConfig(GROUP, **values))  # type: ignore[arg-type]

    def _advance(self, words: list[str], options: Options) -> None:
        until_ms = self.now_ms + int(words[0])
        while (due_ms := self.machine.next_deadline_ms()) is not None and due_ms <= until_ms:
            self.now_ms = due_ms
            self._settle(f"@{due_ms} ")
        self.now_ms = until_ms

    def _deadline(self, words: list[str], options: Options) -> None:
        due_ms = self.machine.next_deadline_ms()
        self.trace.append("no deadline" if due_ms is None else f"due at {due_ms}")

    def _state(self, words: list[str], options: Options) -> None:
        state = self.machine.state
        membership, lost = state.membership, " lost" if state.ownership.lost else ""
        coordinator = "known" if state.coordinator.known else "unknown"
        self.trace.append(
            f"{state.stage.name} member={membership.member_id or '-'} generation={membership.generation} "
            f"owned={_names(state.ownership.owned)}{lost} coordinator={coordinator}"
        )

    def _commit(self, words: list[str], options: Options) -> None:
        """The response to a commit of the present member and generation, or of those given."""
        sent = options.get("member", self.machine.member_id), int(options.get("generation", self.machine.generation))
        self.trace.append(verdict(self.machine, _code(words), sent).name)

    # -- the coordinator --------------------------------------------------------------------------------------------------

    def _coordinator(self, words: list[str], options: Options) -> None:
        """``coordinator found`` or ``coordinator unavailable``: the result of the lookup."""
        if words == ["found"]:
            self.machine.coordinator_found()
        else:
            self.machine.lookup_failed(self.now_ms)

    def _request(self, kind: str, options: Options) -> Message:
        """The newest request of that kind without a response; ``request=2``: the second ever sent, again if need be."""
        positions = [n for n, request in enumerate(self._sent) if isinstance(request, KINDS[kind])]
        if "request" in options:
            positions = positions[int(options["request"]) - 1 :][:1]
        else:
            positions = [n for n in positions if n not in self._answered][-1:]
        if not positions:
            raise ScenarioError(f"there is no {kind} to respond to")
        self._answered.add(positions[0])
        return self._sent[positions[0]]

    def _join(self, words: list[str], options: Options) -> None:
        """``join generation=2 leader=me members=me,b:t+u skip=yes``, or ``join CODE``; ``b:t/t-0`` owns t-0, ``b:junk`` has a
        subscription that cannot be read."""
        request = self._request("join", options)
        assert isinstance(request, JoinGroupRequest)
        member_id, code = options.get("member", request.member_id or "me"), _code(words)
        response = JoinGroupResponse(error_code=code, member_id=member_id)
        if not code:
            response.generation_id = int(options.get("generation", 1))
            response.protocol_type = options.get("type")
            response.protocol_name = options.get("protocol", request.protocols[0].name)
            response.leader = options.get("leader", "other")
            response.skip_assignment = options.get("skip") == "yes"
            response.members = [
                _member(item, request.protocols[0].metadata) for item in options.get("members", "").split(",") if item
            ]
        self.machine.answered(request, response, self.now_ms)

    def _sync(self, words: list[str], options: Options) -> None:
        """``sync t-0 t-1``, or ``sync CODE``; ``sync junk``: an assignment that cannot be read."""
        request, code = self._request("sync", options), _code(words)
        response = SyncGroupResponse(0, code, options.get("type"), options.get("protocol"))
        partitions = by_topic(_partitions("+".join(words))) if not code and words != ["junk"] else {}
        response.assignment = JUNK if words == ["junk"] else encode_assignment(partitions)
        self.machine.answered(request, response, self.now_ms)

    def _heartbeat(self, words: list[str], options: Options) -> None:
        request = self._request("heartbeat", options)
        self.machine.answered(request, HeartbeatResponse(error_code=_code(words)), self.now_ms)

    # -- the leader -------------------------------------------------------------------------------------------------------

    def _assign(self, words: list[str], options: Options) -> None:
        """``assign me:t-0,b:t-1+t-2 topics=t:3``: what the assignor made of these topics. ``assign unavailable``: the topics
        are unknown."""
        if words == ["unavailable"]:
            self.machine.assignment_failed("the topics could not be looked up", self.now_ms)
            return
        shares = (item.partition(":") for item in words[0].split(","))
        assignment = {name: by_topic(_partitions(share)) for name, _, share in shares}
        self.machine.group_assigned(assignment, _topics(options.get("topics", "").split(","), {}))

    def _unassigned(self, words: list[str], options: Options) -> None:
        """``unassigned yes``, ``no`` or ``unknown``: the result of the check."""
        if words == ["unknown"]:
            self.machine.unassigned_unknown(self.now_ms)
        else:
            self.machine.unassigned_seen(words == ["yes"])


def operation_of(options: Options) -> GroupMembershipOperation:
    """``operation=leave_group`` or ``remain_in_group``."""
    return GroupMembershipOperation(options.get("operation", "default"))


def _code(words: list[str]) -> ErrorCode:
    return ErrorCode[words[0]] if words and words[0].isupper() else ErrorCode.NONE


def _partitions(text: str) -> list[TopicPartition]:
    pairs = (item.rpartition("-") for item in text.split("+") if item)
    return [(topic, int(partition)) for topic, _, partition in pairs]


def _topics(words: list[str], options: Options) -> AssignableTopics:
    """``t:3 u:1 racks=t:a+b/a/b``: numbers of partitions, and the racks of each partition's replicas."""
    counts = {topic: int(count) for topic, _, count in (word.partition(":") for word in words if word)}
    racks = {}
    if "racks" in options:
        topic, _, partitions = options["racks"].partition(":")
        racks[topic] = [frozenset(partition.split("+")) for partition in partitions.split("/")]
    return AssignableTopics(counts, racks)


def _member(item: str, own_metadata: bytes) -> JoinGroupResponseMember:
    """``me`` with the subscription that was sent, or another member with its topics and owned partitions."""
    member_id, colon, subscription = item.partition(":")
    topics, _, owned = subscription.partition("/")
    metadata = JUNK if topics == "junk" else encode_subscription(topics.split("+"), by_topic(_partitions(owned)))
    return JoinGroupResponseMember(member_id, None, metadata if colon else own_metadata)


def _names(partitions: tuple[TopicPartition, ...]) -> str:
    return ",".join(f"{topic}-{partition}" for topic, partition in partitions) or "-"


def describe_effect(effect: Effect) -> str:
    """One line."""
    match effect:
        case FindCoordinator():
            return "find the coordinator"
        case Send(request):
            return _describe_request(request)
        case Revoke(partitions, lost):
            return f"{'on_partitions_lost' if lost else 'on_partitions_revoked'} {_names(partitions)}"
        case Assigned(partitions, generation, added):
            return f"on_partitions_assigned {_names(added)} of {_names(partitions)} generation={generation}"
        case AssignGroup(protocol, subscribers, topics):
            members = ",".join(f"{s.member_id}:{'+'.join(sorted(s.topics))}" for s in subscribers)
            return f"assign {','.join(sorted(topics))} to {members} by {protocol}"
        case WatchTopics(topics):
            return f"watch {','.join(sorted(topics))}"
        case LookForUnassigned(topics):
            return f"check for unassigned partitions of {','.join(sorted(topics))}"
        case Failed(code, message):
            return f"FAILED {code.name}: {message}"


def _describe_request(request: Message) -> str:
    match request:
        case JoinGroupRequest():
            own = decode_subscription(request.protocols[0].metadata)
            owned = tuple((topic, p) for topic, partitions in own.owned.items() for p in partitions)
            more = f" rack={own.rack}" if own.rack else ""
            more += f" user_data={len(own.user_data)} bytes" if own.user_data else ""
            return (
                f"JoinGroup member={request.member_id or '-'} topics={','.join(sorted(own.topics))} owned={_names(owned)} "
                f"generation={own.generation}{more} protocols={','.join(p.name for p in request.protocols)}: {request.reason}"
            )
        case SyncGroupRequest():
            shares = (f"{a.member_id}:{_names(tuple(decode_assignment(a.assignment)))}" for a in request.assignments)
            assigned = " ".join(shares) or "-"
            return f"SyncGroup member={request.member_id} generation={request.generation_id} assign={assigned}"
        case HeartbeatRequest():
            return f"Heartbeat member={request.member_id} generation={request.generation_id}"
        case LeaveGroupRequest():
            return f"LeaveGroup member={request.members[0].member_id}: {request.members[0].reason}"
        case _:
            raise AssertionError(f"a member sends no {type(request).__name__}")
