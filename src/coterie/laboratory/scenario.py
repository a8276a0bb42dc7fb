"""The scenario language of tests/spec: what happens, line by line, and under each line what must come of it.

    == testHeartbeatMaintainsSession
    # a heartbeat at half time keeps the member past the original deadline
    join a version=3
        g: Empty -> PreparingRebalance (member_joined a-1)
    advance 3000
        a: JoinGroup NONE generation=1 protocol=range leader=a-1 member=a-1 members=[a-1]

Lines that start at the margin are steps, indented ones the whole trace expected of the step before. Actors (a, b, ...)
remember their member id, instance id and generation. `run_scenario` returns the scenario with the traces that really
came, so that a test compares text with text and `--rewrite` writes it anew. After every step all checkers run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from coterie.assignors.blobs import encode_subscription
from coterie.coordinator import events as e
from coterie.coordinator.describe import describe_group
from coterie.coordinator.offsets.fetch import fetch_offsets
from coterie.coordinator.outcome import Context, CoordinatorConfig, Reply
from coterie.coordinator.shard import (
    Command,
    Decision,
    DeleteGroup,
    ExpireOffsets,
    Shard,
    Step,
    TopicsDeleted,
    drive,
)
from coterie.coordinator.state import Group
from coterie.coordinator.stored import StoredRecord
from coterie.laboratory.checkers import GenerationChecker, Ledger, check_group, check_replay
from coterie.laboratory.saying import say
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode, Refusal, error_of
from coterie.wire.messages.heartbeat import HeartbeatRequest
from coterie.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from coterie.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from coterie.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from coterie.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from coterie.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

INDENT = "    "


@dataclass(slots=True)
class Scenario:
    """Its names (Kafka's, where it re-creates a test), its comment lines and its steps."""

    names: list[str]
    lines: list[str] = field(default_factory=list)

    def steps(self) -> Iterator[str]:
        return (line for line in self.lines if line and not line.startswith(("#", " ")))


def parse_scenarios(text: str) -> list[Scenario]:
    """The scenarios of a file; what stands before the first "==" is the file's own comment."""
    found: list[Scenario] = []
    for line in text.splitlines():
        if line.startswith("== "):
            found.append(Scenario(line[3:].replace(",", " ").split()))
        elif found:
            found[-1].lines.append(line)
    return found


@dataclass(slots=True)
class _Actor:
    member_id: str = ""
    generation: int = -1
    instance: str | None = None


class ScenarioError(ValueError):
    """A step that nobody understands."""


class ScenarioRun:
    """One scenario's world: a shard, its log, virtual time."""

    def __init__(self) -> None:
        self.config = CoordinatorConfig(group_initial_rebalance_delay_ms=0)
        self.shard = Shard(self.config)
        self.log: list[StoredRecord] = []
        self.now_ms = 0
        self.actors: dict[str, _Actor] = {}
        self.ledger, self.generations = Ledger(), GenerationChecker()
        self.trace: list[str] = []
        self._asked = 0
        self._ids_given: set[str] = set()
        self._fail_append: ErrorCode | None = None
        self._verbs: dict[str, Callable[[list[str], dict[str, str]], None]] = {
            "config": self._config,
            "join": self._join,
            "sync": self._sync,
            "heartbeat": self._heartbeat,
            "leave": self._leave,
            "commit": self._commit,
            "fetch": self._fetch,
            "advance": self._advance,
            "describe": self._describe,
            "state": self._state,
            "delete": self._delete,
            "delete-offsets": self._delete_offsets,
            "delete-topic": self._delete_topic,
            "expire-offsets": self._expire_offsets,
            "fail-append": self._fail,
            "restart": self._restart,
            "unload": self._unload,
        }

    def step(self, line: str) -> list[str]:
        """Runs one step; returns its trace."""
        self.trace = []
        words = line.split()
        verb = self._verbs.get(words[0])
        if verb is None:
            raise ScenarioError(f"{words[0]!r} is not a step; there are {', '.join(sorted(self._verbs))}")
        options = dict(w.split("=", 1) for w in words[1:] if "=" in w)
        verb([w for w in words[1:] if "=" not in w], options)
        self._check()
        return self.trace

    def _check(self) -> None:
        for group in self.shard.groups.values():
            check_group(group)
        self.ledger.check_parked(self.shard)
        again = Shard(self.config)
        for record in self.log:
            again.load(record.key, record.value)
        check_replay(self.shard, again)

    # -- the driver ------------------------------------------------------------------------------------------------

    def _submit(self, who: str, command: Command, options: dict[str, str], default_version: int) -> None:
        self._asked += 1
        token = f"{who}#{self._asked}"
        self.ledger.asked(token)
        client = options.get("client", who)
        prefix = self._actor(who).instance or client
        ctx = self._context(token, client, int(options.get("version", default_version)), prefix)
        self._drive(self.shard.submit(command, ctx))

    def _context(self, token: str | None, client: str, version: int, prefix: str) -> Context:
        # Ids are numbered per client, so that traces read well: a-1, a-2.
        number = 1
        while f"{prefix}-{number}" in self._ids_given:
            number += 1
        return Context(self.now_ms, token, str(number), version, client, "/127.0.0.1")

    def _internal(self, command: Command) -> None:
        self._drive(self.shard.submit(command, Context(self.now_ms)))

    def _drive(self, decision: Decision) -> None:
        drive(self.shard, decision, self._append, self._kept)

    def _append(self, records: list[StoredRecord]) -> None:
        if self._fail_append is not None:
            code, self._fail_append = self._fail_append, None
            raise Refusal(code)
        self.log += records

    def _kept(self, decision: Decision, steps: list[Step]) -> None:
        for step in steps:
            self.generations.check(step, decision.group)
            self._tell(step)
        for reply in decision.outcome.replies:
            self._answer(reply)

    def _tell(self, step: Step) -> None:
        event = step.event
        if isinstance(event, e.MemberIdReserved | e.MemberJoined | e.StaticMemberReplaced):
            self._ids_given.add(event.member_id if isinstance(event, e.MemberIdReserved) else event.member.member_id)
        if step.phase_before != step.phase_after:
            causes = getattr(event, "causes", None) or ([event.cause] if isinstance(event, e.GroupRemoved) else [])
            why = ", ".join(f"{c.kind} {c.member_id}".strip() for c in causes)
            self.trace.append(
                f"{step.group_id}: {step.phase_before} -> {step.phase_after}" + (f" ({why})" if why else "")
            )
        elif isinstance(event, e.MemberRemoved | e.ReservationDropped):
            self.trace.append(f"{step.group_id}: {event.member_id} is gone ({event.cause.kind})")
        elif isinstance(event, e.JoinPhaseExtended):
            self.trace.append(f"{step.group_id}: the join phase goes on until {event.deadline_ms}")

    def _answer(self, reply: Reply) -> None:
        self.ledger.answer(reply.token)
        who = str(reply.token).split("#")[0]
        self._learn(self._actor(who), reply.response)
        self.trace.append(f"{who}: {say(reply.response)}")

    @staticmethod
    def _learn(actor: _Actor, response: Message) -> None:
        """An actor remembers the member id and generation that it is told."""
        if isinstance(response, JoinGroupResponse):
            if response.error_code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
                actor.member_id = response.member_id
            if not response.error_code:
                actor.generation = response.generation_id

    def _actor(self, name: str) -> _Actor:
        return self.actors.setdefault(name, _Actor())

    # -- steps -----------------------------------------------------------------------------------------------------

    def _config(self, words: list[str], options: dict[str, str]) -> None:
        for name, value in options.items():
            if not hasattr(self.config, name):
                raise ScenarioError(f"there is no setting {name}")
            setattr(self.config, name, value == "true" if value in ("true", "false") else int(value))

    def _join(self, words: list[str], options: dict[str, str]) -> None:
        who = words[0]
        actor = self._actor(who)
        if "instance" in options:
            actor.instance = options["instance"]
        protocols = []
        for item in options.get("protocols", "range").split(","):
            name, _, metadata = item.partition(":")
            topics = metadata.split("+") if metadata else ["t"]
            protocols.append(
                JoinGroupRequestProtocol(name, b"junk" if metadata == "junk" else encode_subscription(topics))
            )
        request = JoinGroupRequest(
            group_id=_empty(options.get("group", "g")),
            session_timeout_ms=int(options.get("session", 10_000)),
            rebalance_timeout_ms=int(options.get("rebalance", 60_000)),
            member_id=_empty(options.get("member", actor.member_id)),
            group_instance_id=actor.instance,
            protocol_type=_empty(options.get("type", "consumer")),
            protocols=[] if options.get("protocols") == "-" else protocols,
        )
        options.setdefault("client", who)
        self._submit(who, request, options, 8)

    def _sync(self, words: list[str], options: dict[str, str]) -> None:
        who = words[0]
        actor = self._actor(who)
        assignments = []
        for item in filter(None, options.get("assign", "").split(",")):
            name, _, share = item.partition(":")
            member_id = self.actors[name].member_id if name in self.actors else name
            assignments.append(SyncGroupRequestAssignment(member_id, share.encode()))
        request = SyncGroupRequest(
            group_id=_empty(options.get("group", "g")),
            generation_id=int(options.get("generation", actor.generation)),
            member_id=_empty(options.get("member", actor.member_id)),
            group_instance_id=options.get("instance", actor.instance),
            protocol_type=options.get("type"),
            protocol_name=options.get("protocol"),
            assignments=assignments,
        )
        self._submit(who, request, options, 5)

    def _heartbeat(self, words: list[str], options: dict[str, str]) -> None:
        actor = self._actor(words[0])
        request = HeartbeatRequest(
            options.get("group", "g"),
            int(options.get("generation", actor.generation)),
            _empty(options.get("member", actor.member_id)),
            options.get("instance", actor.instance),
        )
        self._submit(words[0], request, options, 4)

    def _leave(self, words: list[str], options: dict[str, str]) -> None:
        """`leave a`; `leave admin members=a,/i1,x/i2`: actor or member id, before a slash; instance id after it."""
        actor = self._actor(words[0])
        identities = [MemberIdentity(actor.member_id, actor.instance)]
        if "members" in options:
            identities = []
            for item in options["members"].split(","):
                name, _, instance = item.partition("/")
                member_id = self.actors[name].member_id if name in self.actors else _empty(name)
                identities.append(MemberIdentity(member_id, instance or None))
        request = LeaveGroupRequest(options.get("group", "g"), identities[0].member_id, identities)
        self._submit(words[0], request, options, 5)

    def _commit(self, words: list[str], options: dict[str, str]) -> None:
        """`commit a t-0=5 t-1=7`; `commit simple t-0=5 generation=-1 member=- metadata=x`."""
        actor = self._actor(words[0])
        topics: dict[str, list[OffsetCommitRequestPartition]] = {}
        for name, value in options.items():
            topic, dash, partition = name.rpartition("-")
            if dash and partition.isdigit():
                metadata = (
                    "x" * int(options["metadata-size"]) if "metadata-size" in options else options.get("metadata", "")
                )
                topics.setdefault(topic, []).append(
                    OffsetCommitRequestPartition(int(partition), int(value), int(options.get("epoch", -1)), metadata)
                )
        request = OffsetCommitRequest(
            _empty(options.get("group", "g")),
            int(options.get("generation", actor.generation)),
            _empty(options.get("member", actor.member_id)),
            options.get("instance", actor.instance),
            int(options.get("retention", -1)),
            [OffsetCommitRequestTopic(t, partitions=p) for t, p in topics.items()],
        )
        self._submit(words[0], request, options, 8)

    def _fetch(self, words: list[str], options: dict[str, str]) -> None:
        """`fetch t-0 t-1`, or `fetch` for all that the group has."""
        asked: dict[str, list[int]] = {}
        for word in words:
            topic, _, partition = word.rpartition("-")
            asked.setdefault(topic, []).append(int(partition))
        found = fetch_offsets(self.shard.groups.get(_empty(options.get("group", "g"))), asked if words else None)
        for topic, partitions in found.items():
            for p in partitions:
                more = f" metadata={p.metadata}" if p.metadata else ""
                more += f" epoch={p.committed_leader_epoch}" if p.committed_leader_epoch >= 0 else ""
                self.trace.append(f"{topic}-{p.partition_index}: {p.committed_offset}{more}")
        if not found:
            self.trace.append("no offsets")

    def _advance(self, words: list[str], options: dict[str, str]) -> None:
        """Time goes on by so many ms; deadlines act in their order, each at its own time."""
        until_ms = self.now_ms + int(words[0])
        while True:
            due_ms = self.shard.next_deadline_ms()
            if due_ms is None or due_ms > until_ms:
                break
            self.now_ms = max(self.now_ms, due_ms)
            for command in self.shard.expired(self.now_ms):
                before = len(self.trace)
                self._internal(command)
                self.trace[before:] = [f"@{self.now_ms} {line}" for line in self.trace[before:]]
        self.now_ms = until_ms

    def _describe(self, words: list[str], options: dict[str, str]) -> None:
        group_id = _empty(options.get("group", "g"))
        said = describe_group(self.shard.groups.get(group_id), group_id, int(options.get("version", 5)))
        kind, protocol = said.protocol_type or "-", said.protocol_data or "-"
        self.trace.append(f"{error_of(said.error_code).name} {said.group_state} type={kind} protocol={protocol}")
        for m in said.members:
            static = f" instance={m.group_instance_id}" if m.group_instance_id else ""
            metadata = "yes" if m.member_metadata else "none"
            self.trace.append(
                f"{m.member_id}{static} metadata={metadata} assignment={m.member_assignment.decode() or '-'}"
            )

    def _state(self, words: list[str], options: dict[str, str]) -> None:
        group: Group | None = self.shard.groups.get(options.get("group", "g"))
        if group is None:
            self.trace.append("no such group")
            return
        members = ",".join(group.members) or "-"
        pending = ",".join(group.reservations)
        line = f"{group.phase} generation={group.generation} leader={group.leader or '-'} members={members}"
        self.trace.append(line + (f" pending={pending}" if pending else ""))

    def _delete(self, words: list[str], options: dict[str, str]) -> None:
        self._submit("admin", DeleteGroup(_empty(options.get("group", "g"))), options, 2)

    def _delete_offsets(self, words: list[str], options: dict[str, str]) -> None:
        topics: dict[str, list[OffsetDeleteRequestPartition]] = {}
        for word in words:
            topic, _, partition = word.rpartition("-")
            topics.setdefault(topic, []).append(OffsetDeleteRequestPartition(int(partition)))
        request = OffsetDeleteRequest(
            options.get("group", "g"), [OffsetDeleteRequestTopic(t, p) for t, p in topics.items()]
        )
        self._submit("admin", request, options, 0)

    def _delete_topic(self, words: list[str], options: dict[str, str]) -> None:
        for group_id in list(self.shard.groups):
            self._internal(TopicsDeleted(group_id, tuple(words)))

    def _expire_offsets(self, words: list[str], options: dict[str, str]) -> None:
        for group_id in list(self.shard.groups):
            self._internal(ExpireOffsets(group_id))

    def _fail(self, words: list[str], options: dict[str, str]) -> None:
        self._fail_append = ErrorCode[words[0]]

    def _restart(self, words: list[str], options: dict[str, str]) -> None:
        """The broker dies and comes back: whoever waited is gone, the log is replayed, sessions start anew."""
        self.ledger.forgotten(set(self.ledger.open))
        self.shard = Shard(self.config)
        for record in self.log:
            self.shard.load(record.key, record.value, self.now_ms)
        for decision in self.shard.loaded(self.now_ms):
            self._drive(decision)

    def _unload(self, words: list[str], options: dict[str, str]) -> None:
        for reply in self.shard.unload():
            self._answer(reply)
        self.log = []


def _empty(text: str) -> str:
    """A dash stands for the empty string."""
    return "" if text == "-" else text


def run_scenario(scenario: Scenario) -> list[str]:
    """The scenario's lines with the traces that really came."""
    run = ScenarioRun()
    lines: list[str] = []
    for line in scenario.lines:
        if line.startswith(" "):
            continue
        lines.append(line.rstrip())
        if line.strip() and not line.startswith("#"):
            lines += [INDENT + said for said in run.step(line)]
    return lines
