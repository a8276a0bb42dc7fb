"""The scenario language of tests/spec: what happens, line by line, and under each line what must come of it.

    == testHeartbeatMaintainsSession
    # a heartbeat at half time keeps the member past the original deadline
    join a version=3
        g: Empty -> PreparingRebalance (member_joined a-1)
    advance 3000
        a: JoinGroup NONE generation=1 protocol=range leader=a-1 member=a-1 members=[a-1]

Lines that start at the margin are steps, indented ones the whole trace expected of the step before. Actors (a, b, ...)
remember their member id, instance id and generation. `run_scenario` returns the scenario with the traces that really
came, so that a test compares text with text and `--rewrite` writes it again. After every step all checkers run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from coterie.coordinator import events as e
from coterie.coordinator.commands import Command, ExpireOffsets, TopicsDeleted
from coterie.coordinator.offsets.fetch import fetch_offsets
from coterie.coordinator.outcome import Context, CoordinatorConfig, Reply
from coterie.coordinator.refusals import refuse
from coterie.coordinator.shard import Decision, Shard, Step
from coterie.coordinator.state import Group
from coterie.coordinator.stored_records.stored import StoredRecord
from coterie.coordinator.views.classic_group import describe_group
from coterie.coordinator.write_queue import drive
from coterie.laboratory.group_checkers import GenerationChecker, Ledger, check_group, check_replay
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode, Refusal, error_of
from coterie.wire.messages.groups.join_group import JoinGroupResponse
from coterie.wire.messages.transactions.txn_offset_commit import TxnOffsetCommitRequest
from coterie_conformance.scenarios.groups.scenario_requests import REQUESTS, WITHOUT_ACTOR, RequestActor, plain
from coterie_conformance.scenarios.groups.scenario_responses import response_text
from coterie_conformance.scenarios.groups.scenario_transactions import ScenarioTransactions

INDENT = "    "
T = TypeVar("T")


@dataclass(slots=True)
class Scenario:
    """Its names (Kafka's, where it re-creates a test), its comment lines and its steps."""

    names: list[str]
    lines: list[str] = field(default_factory=list)

    def steps(self) -> Iterator[str]:
        return (line for line in self.lines if line and not line.startswith(("#", " ")))


def parse_scenarios(text: str) -> list[Scenario]:
    """The scenarios of a file; what stands before the first "==" is the file's own comment."""
    scenarios: list[Scenario] = []
    for line in text.splitlines():
        if line.startswith("== "):
            scenarios.append(Scenario(line[3:].replace(",", " ").split()))
        elif scenarios:
            scenarios[-1].lines.append(line)
    return scenarios


class ScenarioError(ValueError):
    """A step that is not in the scenario language."""


class ScenarioRun:
    """One scenario's world: a shard, its log, virtual time."""

    def __init__(self) -> None:
        self.config = CoordinatorConfig(group_initial_rebalance_delay_ms=0)
        self.transactions = ScenarioTransactions(self._marker, lambda: self.now_ms)
        self.shard = Shard(self.config)
        self.log: list[tuple[StoredRecord | bool, int, int]] = []  # a record or an end, its producer id and epoch
        self.now_ms = 0
        self.actors: dict[str, RequestActor] = {}
        self.ledger, self.generations = Ledger(), GenerationChecker()
        self.trace: list[str] = []
        self._requested = 0
        self._ids_given: set[str] = set()
        self._fail_append: ErrorCode | None = None
        self._requests = dict(REQUESTS)
        self._verbs: dict[str, Callable[[list[str], dict[str, str]], None]] = {
            "config": self._config,
            "fetch": self._fetch,
            "txn-end": self._txn_end,
            "init": self._init,
            "add-offsets": self._add_offsets,
            "end": self._end,
            "fail-marker": self._fail_marker,
            "transactions-upkeep": self._transactions_upkeep,
            "transaction-version": self._transaction_version,
            "use-epochs": self._use_epochs,
            "owes-sync": self._owes_sync,
            "advance": self._advance,
            "describe": self._describe,
            "state": self._state,
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
        options = dict(w.split("=", 1) for w in words[1:] if "=" in w)
        plain_words = [w for w in words[1:] if "=" not in w]
        if words[0] in self._requests:
            self._ask(words[0], plain_words, options)
        elif words[0] in self._verbs:
            self._verbs[words[0]](plain_words, options)
        else:
            raise ScenarioError(
                f"{words[0]!r} is not a step; there are {', '.join(sorted([*self._requests, *self._verbs]))}"
            )
        self._check()
        return self.trace

    def _check(self) -> None:
        for group in self.shard.groups.values():
            check_group(group)
        self.ledger.check_parked(self.shard)
        check_replay(self.shard, self._loaded())

    def _loaded(self) -> Shard:
        """The state that a failover would load."""
        shard = Shard(self.config)
        for entry, producer_id, epoch in self.log:
            if isinstance(entry, StoredRecord):
                shard.load(entry.key, entry.value, self.now_ms, producer_id, epoch)
            else:
                shard.end_transaction(producer_id, entry, self.now_ms)
        return shard

    # -- the driver ------------------------------------------------------------------------------------------------

    def _ask(self, verb: str, words: list[str], options: dict[str, str]) -> None:
        make, version = self._requests[verb]
        who = "admin" if verb in WITHOUT_ACTOR else words.pop(0)
        actor = self._actor(who)
        options.setdefault("actor", who)
        command = make(actor, self.actors, words, options)
        self._requested += 1
        token = f"{who}#{self._requested}"
        self.ledger.requested(token)
        client = options.get("client", who)
        ctx = self._context(token, client, int(options.get("version", version)), actor.instance or client)
        try:
            if isinstance(command, TxnOffsetCommitRequest):
                self.transactions.verify(command, ctx.api_version)
        except Refusal as refusal:
            self._respond(Reply(token, refuse(command, refusal.code, refusal.message)))
        else:
            self._drive(self.shard.decide(command, ctx))

    def _context(self, token: str | None, client: str, version: int, prefix: str) -> Context:
        # Ids are numbered per client, so that traces read well: a-1, a-2.
        number = 1
        while f"{prefix}-{number}" in self._ids_given:
            number += 1
        return Context(self.now_ms, token, str(number), version, client, "/127.0.0.1")

    def _internal(self, command: Command) -> None:
        self._drive(self.shard.decide(command, Context(self.now_ms)))

    def _drive(self, decision: Decision) -> None:
        drive(self.shard, decision, self._append, self._committed)

    def _append(self, decisions: list[Decision]) -> None:
        if self._fail_append is not None:
            code, self._fail_append = self._fail_append, None
            raise Refusal(code)
        for decision in decisions:
            producer = decision.outcome.producer or (-1, -1)
            self.log += [(record, *producer) for record in decision.records]

    def _committed(self, decision: Decision, steps: list[Step]) -> None:
        for step in steps:
            if isinstance(decision.group, Group):
                self.generations.check(step, decision.group)
            self._record_event(step)
        for reply in decision.outcome.replies:
            self._respond(reply)

    def _record_event(self, step: Step) -> None:
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

    def _respond(self, reply: Reply) -> None:
        self.ledger.respond(reply.token)
        who = str(reply.token).split("#")[0]
        self._learn(self._actor(who), reply.response)
        self.trace.append(f"{who}: {response_text(reply.response)}")

    def _learn(self, actor: RequestActor, response: Message) -> None:
        """An actor keeps the member id and generation of its responses."""
        if isinstance(response, JoinGroupResponse):
            if response.error_code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
                actor.member_id = response.member_id
            if not response.error_code:
                actor.generation = response.generation_id

    def _actor(self, name: str) -> RequestActor:
        return self.actors.setdefault(name, RequestActor())

    # -- steps -----------------------------------------------------------------------------------------------------

    def _config(self, words: list[str], options: dict[str, str]) -> None:
        for name, value in options.items():
            if not hasattr(self.config, name):
                raise ScenarioError(f"there is no setting {name}")
            setattr(self.config, name, value == "true" if value in ("true", "false") else int(value))

    def _fetch(self, words: list[str], options: dict[str, str]) -> None:
        """`fetch t-0 t-1`, or `fetch` for all that the group has; `stable=true` requires stability."""
        requested: dict[str, list[int]] = {}
        for word in words:
            topic, _, partition = word.rpartition("-")
            requested.setdefault(topic, []).append(int(partition))
        group = self.shard.group(plain(options.get("group", "g")))
        fetched = fetch_offsets(group, requested.items() if words else None, require_stable="stable" in options)
        for topic, partitions in fetched:
            for p in partitions:
                if p.error_code:
                    self.trace.append(f"{topic}-{p.partition_index}: {error_of(p.error_code).name}")
                    continue
                more = f" metadata={p.metadata}" if p.metadata else ""
                more += f" epoch={p.committed_leader_epoch}" if p.committed_leader_epoch >= 0 else ""
                self.trace.append(f"{topic}-{p.partition_index}: {p.committed_offset}{more}")
        if not fetched:
            self.trace.append("no offsets")

    def _txn_end(self, words: list[str], options: dict[str, str]) -> None:
        """`txn-end commit producer=1`: the marker of that producer's transaction reaches this partition."""
        self._marker(int(options["producer"]), 0, words == ["commit"])

    def _marker(self, producer_id: int, epoch: int, committed: bool) -> None:
        self.log.append((committed, producer_id, epoch))
        settled = self.shard.end_transaction(producer_id, committed, self.now_ms)
        self.trace.append(f"settled: {','.join(settled) or '-'}")

    def _init(self, words: list[str], options: dict[str, str]) -> None:
        self.trace.append(self.transactions.init(self._actor(words[0]), words[0], options))

    def _add_offsets(self, words: list[str], options: dict[str, str]) -> None:
        self.trace.append(self.transactions.add_offsets(self._actor(words[0]), words[0], options))

    def _end(self, words: list[str], options: dict[str, str]) -> None:
        self.trace.append(self.transactions.end(self._actor(words[0]), words[0], words[1] == "commit", options))

    def _fail_marker(self, words: list[str], options: dict[str, str]) -> None:
        """The next marker cannot be written."""
        self.transactions.failing_markers += 1

    def _transactions_upkeep(self, words: list[str], options: dict[str, str]) -> None:
        self.trace += self.transactions.upkeep()

    def _transaction_version(self, words: list[str], options: dict[str, str]) -> None:
        """`transaction-version 2`: the finalized level."""
        self.transactions.finalized = int(words[0])

    def _use_epochs(self, words: list[str], options: dict[str, str]) -> None:
        """`use-epochs p 32766`: the producer has had so many transactions that this is its epoch now."""
        self.transactions.use_epochs(self._actor(words[0]), int(words[1]))

    def _owes_sync(self, words: list[str], options: dict[str, str]) -> None:
        group = self.shard.groups.get(options.get("group", "g"))
        owing = [m for m in group.members if m in group.pending_sync] if group is not None else []
        self.trace.append(",".join(owing) or "-")

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
        group_id = plain(options.get("group", "g"))
        described = describe_group(self.shard.groups.get(group_id), group_id, int(options.get("version", 5)))
        kind, protocol = described.protocol_type or "-", described.protocol_data or "-"
        self.trace.append(
            f"{error_of(described.error_code).name} {described.group_state} type={kind} protocol={protocol}"
        )
        for m in described.members:
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

    def _delete_topic(self, words: list[str], options: dict[str, str]) -> None:
        for group_id in [group.group_id for group in self.shard.every_group()]:
            self._internal(TopicsDeleted(group_id, tuple((word, bytes(16)) for word in words)))

    def _expire_offsets(self, words: list[str], options: dict[str, str]) -> None:
        for group_id in [group.group_id for group in self.shard.every_group()]:
            self._internal(ExpireOffsets(group_id))

    def _fail(self, words: list[str], options: dict[str, str]) -> None:
        self._fail_append = ErrorCode[words[0]]

    def _restart(self, words: list[str], options: dict[str, str]) -> None:
        """The broker dies and comes back: waiting requests are lost, the log is replayed, sessions start again."""
        self.ledger.forgotten(set(self.ledger.open))
        # That of a group which wrote nothing goes back, as in the laboratory's broker.
        self.generations = GenerationChecker()
        self.shard = self._loaded()
        self.transactions.reload(self.shard)
        for decision in self.shard.loaded(self.now_ms):
            self._drive(decision)

    def _unload(self, words: list[str], options: dict[str, str]) -> None:
        for reply in self.shard.unload():
            self._respond(reply)
        self.log = []


class Run(Protocol):
    """A world in which steps happen."""

    def step(self, line: str) -> list[str]: ...


def run_scenario(scenario: Scenario, world: Callable[[], Run] = ScenarioRun) -> list[str]:
    """The scenario's lines with the traces that really came, in a fresh world."""
    run = world()
    lines: list[str] = []
    for line in scenario.lines:
        if line.startswith(" "):
            continue
        lines.append(line.rstrip())
        if line.strip() and not line.startswith("#"):
            lines += [INDENT + entry for entry in run.step(line)]
    return lines


def run_step(verbs: Mapping[str, Callable[[list[str], dict[str, str]], T]], line: str) -> T:
    """What the verb of the line returns for its words and options. Raises ScenarioError for a verb that is not among these."""
    verb, *words = line.split()
    if verb not in verbs:
        raise ScenarioError(f"{verb!r} is not a step; there are {', '.join(sorted(verbs))}")
    options = dict(word.split("=", 1) for word in words if "=" in word)
    return verbs[verb]([word for word in words if "=" not in word], options)
