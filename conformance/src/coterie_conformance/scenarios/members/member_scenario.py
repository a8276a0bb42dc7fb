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

from collections.abc import Mapping
from typing import Any

from coterie.assignors import AssignableTopics
from coterie.assignors.blobs import decode_assignment, decode_subscription, encode_assignment, encode_subscription
from coterie.consuming.commits.verdicts import may_commit, verdict
from coterie.laboratory.member_checkers import MemberChecker
from coterie.member.config import MemberConfig
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
from coterie.wire.messages.groups.heartbeat import HeartbeatRequest, HeartbeatResponse
from coterie.wire.messages.groups.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from coterie.wire.messages.groups.leave_group import LeaveGroupRequest
from coterie.wire.messages.groups.sync_group import SyncGroupRequest, SyncGroupResponse
from coterie_conformance.scenarios.groups.scenario import ScenarioError
from coterie_conformance.scenarios.members.lone_member_scenario import (
    LoneMemberScenario,
    Options,
    callback_text,
    partitions_text,
)

GROUP = "g"
JUNK = b"\0\1\xff"
KINDS: dict[str, type[Message]] = {"join": JoinGroupRequest, "sync": SyncGroupRequest, "heartbeat": HeartbeatRequest}


class MemberScenario(LoneMemberScenario[MemberMachine]):
    """One member of the classic protocol."""

    config_class = MemberConfig

    def __init__(self) -> None:
        super().__init__()
        self._responded: set[int] = set()  # indexes of ``requests``
        self.verbs |= {
            "subscribe": lambda words, _: self.machine.subscribe(frozenset(words), self.now_ms),
            "enforce-rebalance": lambda words, _: self.machine.enforce_rebalance(" ".join(words)),
            "rejoin": lambda words, _: self.machine.rejoin(" ".join(words)),
            "join": self._join,
            "sync": self._sync,
            "heartbeat": self._heartbeat,
            "disconnect": lambda words, options: self.machine.lost_connection(
                self._request(words[0], options), self.now_ms
            ),
            "assign": self._assign,
            "topics": lambda words, options: self.machine.topics_seen(_topics(words, options)),
            "unassigned": self._unassigned,
            "commit": self._commit,
            "may-commit": lambda *_: self.trace.append(may_commit(self.machine).name),
        }

    def begin(self, settings: Mapping[str, Any]) -> None:
        self.checker = MemberChecker()
        self.machine = MemberMachine(MemberConfig(GROUP, **settings), self.checker.observe)

    def effect_text(self, effect: Effect) -> str:
        return describe_effect(effect)

    def state_text(self) -> str:
        state = self.machine.state
        membership, lost = state.membership, " lost" if state.ownership.lost else ""
        coordinator = "known" if state.coordinator.known else "unknown"
        return (
            f"{state.stage.name} member={membership.member_id or '-'} generation={membership.generation} "
            f"owned={partitions_text(state.ownership.owned)}{lost} coordinator={coordinator}"
        )

    def _commit(self, words: list[str], options: Options) -> None:
        """The response to a commit of the present member and generation, or of those given."""
        sent = options.get("member", self.machine.member_id), int(options.get("generation", self.machine.generation))
        self.trace.append(verdict(self.machine, _code(words), sent).name)

    # -- the coordinator --------------------------------------------------------------------------------------------------

    def _request(self, kind: str, options: Options) -> Message:
        """The newest request of that kind without a response; ``request=2``: the second ever sent, again if need be."""
        positions = [n for n, request in enumerate(self.requests) if isinstance(request, KINDS[kind])]
        if "request" in options:
            positions = positions[int(options["request"]) - 1 :][:1]
        else:
            positions = [n for n in positions if n not in self._responded][-1:]
        if not positions:
            raise ScenarioError(f"there is no {kind} to respond to")
        self._responded.add(positions[0])
        return self.requests[positions[0]]

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
        self.machine.responded(request, response, self.now_ms)

    def _sync(self, words: list[str], options: Options) -> None:
        """``sync t-0 t-1``, or ``sync CODE``; ``sync junk``: an assignment that cannot be read."""
        request, code = self._request("sync", options), _code(words)
        response = SyncGroupResponse(0, code, options.get("type"), options.get("protocol"))
        partitions = by_topic(_partitions("+".join(words))) if not code and words != ["junk"] else {}
        response.assignment = JUNK if words == ["junk"] else encode_assignment(partitions)
        self.machine.responded(request, response, self.now_ms)

    def _heartbeat(self, words: list[str], options: Options) -> None:
        request = self._request("heartbeat", options)
        self.machine.responded(request, HeartbeatResponse(error_code=_code(words)), self.now_ms)

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


def describe_effect(effect: Effect) -> str:
    """One line."""
    match effect:
        case FindCoordinator():
            return "find the coordinator"
        case Send(request):
            return _describe_request(request)
        case Revoke() | Assigned():
            return callback_text(effect, "generation")
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
            protocols = ",".join(p.name for p in request.protocols)
            return (
                f"JoinGroup member={request.member_id or '-'} topics={','.join(sorted(own.topics))} "
                f"owned={partitions_text(owned)} generation={own.generation}{more} protocols={protocols}: {request.reason}"
            )
        case SyncGroupRequest():
            shares = (f"{a.member_id}:{partitions_text(decode_assignment(a.assignment))}" for a in request.assignments)
            assigned = " ".join(shares) or "-"
            return f"SyncGroup member={request.member_id} generation={request.generation_id} assign={assigned}"
        case HeartbeatRequest():
            return f"Heartbeat member={request.member_id} generation={request.generation_id}"
        case LeaveGroupRequest():
            return f"LeaveGroup member={request.members[0].member_id}: {request.members[0].reason}"
        case _:
            raise AssertionError(f"a member sends no {type(request).__name__}")
