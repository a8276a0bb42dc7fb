"""Scenarios of groups of the consumer protocol (tests/spec/consumer): the language of tests/spec, the steps of
`modern_scenario`, and these.

target a:t-0+t-1,b:t-2    what the assignor assigns from now on, in place of ranges by member id
member a join topics=t    ConsumerGroupHeartbeat with epoch 0; `member a`, `member a owns=t-0`, `member a leave`
resolve t.*=t+tu          the topics of regular expressions that were asked for
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from coterie.assignors.server_side import TargetMember, TargetTopic, assign_server_range
from coterie.coordinator.commands import RegexesResolved
from coterie.coordinator.consumer import events as c
from coterie.coordinator.consumer.offsets import check_fetch
from coterie.coordinator.consumer.state import (
    ConsumerGroup,
    ConsumerGroupState,
    CurrentAssignment,
    MigrationPolicy,
    TopicIdPartition,
)
from coterie.coordinator.consumer.target import Target
from coterie.coordinator.outcome import Context
from coterie.coordinator.shard import Decision, Step
from coterie.coordinator.views.consumer_group import describe_consumer_group, explain_consumer_group
from coterie.laboratory.brokers.consumer_broker_actor import topic_id_of
from coterie.laboratory.group_checkers import EpochChecker, check_consumer_group, check_loaded
from coterie.wire.errors import Refusal, error_of
from coterie.wire.messages.groups.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from coterie_conformance.scenarios.groups.modern_scenario import ModernScenario, because
from coterie_conformance.scenarios.groups.scenario_requests import plain


class ConsumerScenario(ModernScenario[ConsumerGroup]):
    """A world with consumer groups, and an assignor of which the scenario decides."""

    kind, state, heartbeat_response = ConsumerGroup, ConsumerGroupState, ConsumerGroupHeartbeatResponse
    stored = ()  # `check_loaded` compares every part

    def __init__(self) -> None:
        super().__init__()
        self.epochs = EpochChecker()
        self.config.consumer_group_assignors = {"uniform": self._assign, "range": self._assign}
        self.config.group_consumer_assignment_interval_ms = 0
        self.config.regex_problem = lambda regex: "missing closing )" if regex.count("(") != regex.count(")") else None
        self._next_target: dict[str, Target] = {}  # by actor or member id
        self._verbs |= {
            "target": self._target,
            "resolve": self._resolve,
            "consumer-describe": self._describe_consumer,
            "policy": self._policy,
        }

    # -- the driver ------------------------------------------------------------------------------------------------

    def _context(self, token: str | None, client: str, version: int, prefix: str) -> Context:
        ctx = super()._context(token, client, version, prefix)
        if any(group.members for group in self.shard.of_kind(ConsumerGroup).values()):
            ctx.fresh_id = f"{prefix}-{ctx.fresh_id}"  # such a group puts no client id before it
        return ctx

    def _check(self) -> None:
        super()._check()
        for group in self.shard.of_kind(ConsumerGroup).values():
            check_consumer_group(group)
        check_loaded(self.shard, self._loaded())

    def _committed(self, decision: Decision, steps: list[Step]) -> None:
        for step in steps:
            self.epochs.check(step)
        super()._committed(decision, steps)
        if decision.outcome.resolve:
            self.trace.append(f"{decision.group.group_id}: resolve {' '.join(sorted(decision.outcome.resolve))}")

    def _record_event(self, step: Step) -> None:
        super()._record_event(step)
        member_id = getattr(step.event, "member_id", "")
        if member_id:
            self._ids_given.add(member_id)

    def _event_text(self, event: object) -> str | None:
        match event:
            case c.GroupEpochStored():
                return f"group epoch {event.epoch}{because(event.cause)}"
            case c.GroupEpochRemoved():
                return f"removed{because(event.cause)}"
            case c.SubscriptionStored(member_id, s):
                regex = f" regex {s.topic_regex}" if s.topic_regex else ""
                classic = " by the classic protocol" if s.classic is not None else ""
                return f"{member_id} subscribes to {'+'.join(sorted(s.topic_names)) or 'no topic'}{regex}{classic}"
            case c.SubscriptionRemoved(member_id, cause):
                return f"{member_id} is gone{because(cause)}"
            case c.TargetStored(member_id, partitions):
                return f"target of {member_id}: {self._names(partitions)}"
            case c.TargetEpochStored(epoch, _):
                return f"target epoch {epoch}"
            case c.CurrentStored(member_id, current):
                return f"{member_id} {self._current_text(current)}"
            case c.RegexStored(regex, resolved):
                return f"regex {regex} is {'+'.join(sorted(resolved.topics)) or 'no topic'}"
            case c.RegexRemoved(regex):
                return f"regex {regex} is gone"
            case c.PartitionMetadataRemoved() | c.PartitionMetadataStored() | c.TargetEpochRemoved():
                return ""
            case c.CurrentRemoved() | c.TargetRemoved() | c.TopicsChecked():
                return ""
            case c.RegexResolutionStarted() | c.RegexResolutionEnded():
                return ""
            case c.ClassicDeadlinesSet() | c.ExpiryDelayed():
                return ""
        return None

    def _current_text(self, current: CurrentAssignment) -> str:
        text = f"epoch {current.member_epoch} {current.state.name} {self._names(current.assigned)}"
        return text + (f" revokes {self._names(current.pending_revocation)}" if current.pending_revocation else "")

    def _names(self, partitions: Iterable[TopicIdPartition]) -> str:
        names = {image.topic_id: image.name for image in self.topics.topics.values()}
        return " ".join(sorted(f"{names.get(t, t.decode().strip('.'))}-{p}" for t, p in partitions)) or "-"

    def _explained(self, group: ConsumerGroup) -> dict[str, Any]:
        return explain_consumer_group(group, self.now_ms, self.config, self.topics)

    # -- steps -----------------------------------------------------------------------------------------------------

    def _target(self, words: list[str], options: dict[str, str]) -> None:
        self._next_target = {}
        for word in words:
            for item in word.split(","):
                name, _, partitions = item.partition(":")
                pairs = (p.rpartition("-") for p in partitions.split("+") if p)
                self._next_target[name] = frozenset((topic_id_of(t), int(p)) for t, _, p in pairs)

    def _assign(self, members: Sequence[TargetMember], topics: Mapping[bytes, TargetTopic]) -> dict[str, Target]:
        if self._next_target:
            given = self._next_target.items()
            return {self.actors[name].member_id if name in self.actors else name: target for name, target in given}
        return assign_server_range(members, topics)

    def _describe_consumer(self, words: list[str], options: dict[str, str]) -> None:
        group_id = plain(options.get("group", "g"))
        assignors = self.config.consumer_group_assignors
        described = describe_consumer_group(self.shard.group(group_id), group_id, self.topics, assignors)
        state = f" {described.group_state} epoch={described.group_epoch} target={described.assignment_epoch}"
        text = state + f" assignor={described.assignor_name}" if not described.error_code else ""
        self.trace.append(f"ConsumerGroupDescribe {error_of(described.error_code).name}{text}")
        for m in described.members:
            static = f" instance={m.instance_id}" if m.instance_id else ""
            has, is_to_have = (
                " ".join(f"{t.topic_name}-{p}" for t in assignment.topic_partitions for p in t.partitions) or "-"
                for assignment in (m.assignment, m.target_assignment)
            )
            kind = {0: "classic", 1: "consumer"}[m.member_type]
            self.trace.append(f"{m.member_id}{static} {kind} epoch={m.member_epoch} has {has}; target {is_to_have}")

    def _policy(self, words: list[str], options: dict[str, str]) -> None:
        self.config.consumer_group_migration_policy = MigrationPolicy(words[0])

    def _fetch(self, words: list[str], options: dict[str, str]) -> None:
        """`fetch t-0 member=a-1 epoch=2`: as a member; without, as an admin."""
        group = self.shard.of_kind(ConsumerGroup).get(plain(options.get("group", "g")))
        if group is not None:
            try:
                check_fetch(group, options.get("member"), int(options.get("epoch", -1)))
            except Refusal as refusal:
                self.trace.append(refusal.code.name)
                return
        super()._fetch(words, options)

    def _resolve(self, words: list[str], options: dict[str, str]) -> None:
        topics = {regex: frozenset(names.split("+")) - {"-"} for regex, names in options.items() if regex != "group"}
        ctx = Context(self.now_ms, topics=self.topics)
        command = RegexesResolved(options.get("group", "g"), topics, self.topics.version)
        self._drive(self.shard.decide(command, ctx))
