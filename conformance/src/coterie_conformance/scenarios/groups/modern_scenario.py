"""A scenario's world with the broker's topics and with groups that move by their heartbeats: what consumer, share and streams
groups have in common. Their steps:

topics t=3 u=2            the broker's topics with their partitions; `t=-` deletes one, `racks=r1+r2` gives all racks
group                     the group's state, epochs and members
why, journal, dump        the explanation, the journal's lines since the last such step, and the records since the last dump
"""

from __future__ import annotations

from abc import abstractmethod
from enum import StrEnum
from typing import Any, ClassVar, Generic

from coterie.coordinator.commands import Command
from coterie.coordinator.consumer.image import TopicImage, TopicsImage
from coterie.coordinator.journal.line import JournalLine
from coterie.coordinator.journal.lines import JournalLines
from coterie.coordinator.outcome import Context
from coterie.coordinator.replay import K
from coterie.coordinator.shard import Decision, Step
from coterie.coordinator.state import Cause
from coterie.coordinator.stored_records.stored import StoredRecord, record_text
from coterie.laboratory.brokers.consumer_broker_actor import topic_id_of
from coterie_conformance.scenarios.groups.scenario import ScenarioRun
from coterie_conformance.scenarios.groups.scenario_requests import RequestActor, plain


def because(cause: Cause | None) -> str:
    """A cause behind an event, in parentheses."""
    return "" if cause is None else f" ({cause.kind} {cause.member_id}".rstrip() + ")"


def name_of(topic_id: bytes) -> str:
    """The topic's name, of an id by `topic_id_of`."""
    return topic_id.decode().strip(".")


class ModernScenario(ScenarioRun, Generic[K]):
    """``kind``: the groups; ``state``: their phases; ``heartbeat_response``: the response that tells a member its epoch;
    ``stored``: what a group has after its records are read again; ``lane``: what is between a topic and a partition, or a
    subtopology and a task."""

    kind: type[K]
    state: ClassVar[type[StrEnum]]
    heartbeat_response: ClassVar[type[Any]]
    stored: ClassVar[tuple[str, ...]]
    lane: ClassVar[str] = "-"

    def __init__(self) -> None:
        super().__init__()
        self.topics = TopicsImage()
        self._journal_lines, self._lines = JournalLines(name_of), list[JournalLine]()
        self._dumped = 0
        self._verbs |= {
            "topics": self._topics,
            "group": self._group,
            "why": self._why,
            "journal": self._journal,
            "dump": self._dump,
        }

    @abstractmethod
    def _event_text(self, event: object) -> str | None:
        """An event in words; "" for one that is not worth a line, None for one of another kind of group."""

    @abstractmethod
    def _current_text(self, current: Any) -> str:
        """What a member has now."""

    @abstractmethod
    def _explained(self, group: K) -> dict[str, Any]:
        """The explanation of a group."""

    def _one(self, options: dict[str, str]) -> K | None:
        return self.shard.of_kind(self.kind).get(plain(options.get("group", "g")))

    # -- the driver ------------------------------------------------------------------------------------------------

    def _context(self, token: str | None, client: str, version: int, prefix: str) -> Context:
        ctx = super()._context(token, client, version, prefix)
        ctx.topics = self.topics
        return ctx

    def _internal(self, command: Command) -> None:
        self._drive(self.shard.decide(command, Context(self.now_ms, topics=self.topics)))

    def _committed(self, decision: Decision, steps: list[Step]) -> None:
        for step in steps:
            line = self._journal_lines.line(step, decision.group, self.now_ms)
            self._lines += [line] if line is not None else []
        own = [step for step in steps if isinstance(step.phase_after, self.state)]
        if own and own[0].phase_before != own[-1].phase_after:
            # A decision's events are applied at once: nobody sees the phases between them.
            self.trace.append(f"{decision.group.group_id}: {own[0].phase_before} -> {own[-1].phase_after}")
        super()._committed(decision, steps)

    def _record_event(self, step: Step) -> None:
        text = self._event_text(step.event)
        if text is None:
            super()._record_event(step)
        elif text:
            self.trace.append(f"{step.group_id}: {text}")

    def _learn(self, actor: RequestActor, response: Any) -> None:
        super()._learn(actor, response)
        if isinstance(response, self.heartbeat_response) and not response.error_code:
            actor.member_id, actor.generation = response.member_id or "", response.member_epoch

    def _check(self) -> None:
        super()._check()
        loaded = self._loaded().of_kind(self.kind)
        groups = {name: group for name, group in self.shard.of_kind(self.kind).items() if not group.has_no_state()}
        assert groups.keys() == loaded.keys(), f"loaded are {sorted(loaded)}, not {sorted(groups)}"
        for name, group in groups.items():
            for part in self.stored:
                now, then = getattr(group, part), getattr(loaded[name], part)
                assert now == then, f"{name}: {part} is {now}, and {then} once it is loaded"

    # -- steps -----------------------------------------------------------------------------------------------------

    def _topics(self, words: list[str], options: dict[str, str]) -> None:
        topics, version = dict(self.topics.topics), self.topics.version + 1
        racks = frozenset(filter(None, options.pop("racks", "").split("+")))
        created = self.topics.created_version
        for name, count in options.items():
            if count == "-":
                topics.pop(name, None)
                continue
            created = created if name in topics else version
            partitions = int(count)
            topics[name] = TopicImage(name, topic_id_of(name), partitions, (racks,) * partitions if racks else ())
        self.topics = TopicsImage(topics, version, created)

    def _group(self, words: list[str], options: dict[str, str]) -> None:
        group: Any = self._one(options)
        if group is None:
            self.trace.append("no such group")
            return
        self.trace.append(f"{group.phase} epoch={group.group_epoch} target={group.assignment_epoch}")
        self.trace += [f"{member_id} {self._current_text(m.current)}" for member_id, m in group.members.items()]

    def _why(self, words: list[str], options: dict[str, str]) -> None:
        group = self._one(options)
        assert group is not None, "no such group"
        explained = self._explained(group)
        self.trace.append(explained["verdict"])
        self.trace += [f"{w['member_id']} {w['owes']}" for w in explained["waiting_for"]]
        if (timeout := explained["next_timeout"]) is not None:
            text = f"{timeout['name']} of {timeout['member_id']} in {timeout['left_ms']} ms: {timeout['then']}"
            self.trace.append(text)

    def _journal(self, words: list[str], options: dict[str, str]) -> None:
        for line in self._lines:
            moves = ((f"{m['topic']}{self.lane}{m['partition']}", m["from"] or "-", m["to"] or "-") for m in line.moved)
            moved = " ".join(f"{lane}:{before}>{after}" for lane, before, after in moves)
            who = f" {line.member}@{line.member_epoch}" if line.member else ""
            why = f" ({line.why()})" if line.causes else ""
            self.trace.append(f"{line.generation} {line.event}{who}{why}{' ' + moved if moved else ''}")
        self._lines.clear()

    def _dump(self, words: list[str], options: dict[str, str]) -> None:
        for entry, _, _ in self.log[self._dumped :]:
            if isinstance(entry, StoredRecord):
                self.trace.append(record_text(entry.key, entry.value))
        self._dumped = len(self.log)
