"""A group to play with: time goes on, step by step or back, members are added, stalled, cut off and killed.

A run is a function of its setting and of the actions with their times: the same ones give the same events on every machine.
Going back begins again with the same seed and repeats the actions up to that time.
"""

from __future__ import annotations

import re
from bisect import insort_right
from collections.abc import Iterable
from typing import Any

from coterie.coordinator.consumer.state import ConsumerGroup
from coterie.coordinator.journal.journal_timeline import JournalTimeline
from coterie.coordinator.journal.timeline import Timeline
from coterie.coordinator.state import Group
from coterie.coordinator.views.classic_group import explain_group
from coterie.coordinator.views.consumer_group import explain_consumer_group
from coterie.laboratory.deliveries import TopicPartition
from coterie.laboratory.members.group_member_actor import GROUP
from coterie.laboratory.playground.recording import PlayedRecording, SeenTimeline, WatchedOwnership
from coterie.laboratory.playground.settings import MOST_MEMBERS, MOST_PARTITIONS, SCRIPTED, PlaygroundSetting
from coterie.laboratory.study.classic import ConsumerProtocolGroup, KafkaGroup
from coterie.laboratory.study.course import StudyCourse
from coterie.laboratory.study.workload import Event, Plan

OF_MEMBERS = frozenset({"join", "leave", "kill", "vanish", "pause", "cut", "slow"})
LASTING = frozenset({"pause", "cut", "slow"})
ACTIONS = OF_MEMBERS | {"grow"}
_NAME = re.compile(r"[\w.@-]{1,60}")
# A member's own name in its ids: "m1-0123456789abcdef", "m1-012345" (KIP-848), "g_m1" (ZooKeeper), "10.0.0.1@m1#2" (RocketMQ).
_ID = re.compile(r"(?:g_|10\.0\.0\.1@)([\w.@-]+)(?:#\d+)?|([\w.@-]+?)-(?:[0-9a-f]{16}|[0-9a-f]{6})(?![\w-])")


class UnfitAction(ValueError):
    """An action that this group cannot have; the text says why."""


def shown(text: str) -> str:
    """A text with its member ids as the names of the members."""
    return _ID.sub(lambda match: match[1] or match[2], text)


def _shown_in(value: Any) -> Any:
    """A document with its texts shown."""
    match value:
        case str():
            return shown(value)
        case dict():
            return {key: _shown_in(item) for key, item in value.items()}
        case list() | tuple():
            return [_shown_in(item) for item in value]
    return value


class Playground:
    """``actions`` come at their times (ms since the beginning), as a lesson or a journal has them. ``checks``: the laboratory's
    own, which take half of the time and change no event."""

    def __init__(self, setting: PlaygroundSetting, actions: Iterable[Event] = (), *, checks: bool = False) -> None:
        self.setting, self._checks = setting, checks
        self.actions: list[Event] = []
        for action in sorted(actions, key=lambda action: action.time_ms):
            self._check(action)
            self.actions.append(action)
        self.restarts = 0
        self._start()

    def _start(self) -> None:
        """From the beginning, before the first action."""
        study, plan = self.setting.study, Plan(0, self.setting.partitions)
        self.recording = PlayedRecording(study, shown)
        self._meter = WatchedOwnership(self._owns)
        self.course = StudyCourse(study, plan, self.setting.seed, checks=self._checks, meter=self._meter)
        self._world = self.course.world
        group = self.course.group
        self._kafka = group if isinstance(group, KafkaGroup) else None
        if self._kafka is not None:
            self._kafka.broker.on_step = self.recording.happened
        self.recording.watch(self._world, None if self._kafka is None else self._kafka.broker.shard.group)
        self._journal, self._lines = JournalTimeline(GROUP), 0
        self._seen = SeenTimeline(GROUP, self._world.start_ms, shown)
        self._done = 0
        names = [f"m{number + 1}" for number in range(self.setting.members)]
        first = [Event(self._world.between(0, plan.spread_ms), "join", name) for name in names]
        for event in first:
            self._world.at(self._world.start_ms + event.time_ms, lambda event=event: self._happen(event))  # type: ignore[misc]

    # -- time ---------------------------------------------------------------------------------------------------------------

    @property
    def now_ms(self) -> int:
        """Since the beginning."""
        return self._world.now_ms - self._world.start_ms

    @property
    def steps(self) -> int:
        """How many events of the world there were."""
        return self._world.events

    def run_until(self, time_ms: int) -> None:
        """Everything up to that time, also back."""
        if time_ms < self.now_ms:
            self.restarts += 1
            self._start()
        while self._done < len(self.actions) and self.actions[self._done].time_ms <= time_ms:
            action = self.actions[self._done]
            self._done += 1
            self._world.run_until(self._world.start_ms + action.time_ms)
            self._happen(action)
        self._world.run_until(self._world.start_ms + time_ms)

    def step(self) -> None:
        """Up to the next time at which something happens."""
        due_ms = self._world.next_ms()
        times = [] if due_ms is None else [due_ms - self._world.start_ms]
        times += [action.time_ms for action in self.actions[self._done : self._done + 1]]
        if times:
            self.run_until(min(times))

    def act(self, kind: str, member: str = "", ms: int = 0, partitions: int = 0) -> None:
        """Something that the reader does now. What was planned for later still comes. Raises UnfitAction."""
        action = Event(self.now_ms, kind, member, ms, partitions)
        self._check(action)
        insort_right(self.actions, action, lo=self._done, key=lambda other: other.time_ms)
        self.run_until(self.now_ms)

    def _check(self, action: Event) -> None:
        if action.kind not in ACTIONS:
            raise UnfitAction(f"there is no action {action.kind}; there are {', '.join(sorted(ACTIONS))}")
        if action.kind in OF_MEMBERS and not _NAME.fullmatch(action.member):
            raise UnfitAction(f"{action.kind} needs the name of a member, of letters, digits, dots and dashes")
        if action.kind in LASTING and action.ms < 1:
            raise UnfitAction(f"{action.kind} needs ms, for how long")
        if action.kind == "grow":
            if self.setting.study.protocol in SCRIPTED:
                raise UnfitAction(f"{self.setting.protocol} has no topic that grows here")
            if not 0 < action.partitions <= MOST_PARTITIONS:
                raise UnfitAction(f"partitions must be from 1 to {MOST_PARTITIONS}")

    def _happen(self, event: Event) -> None:
        if event.kind == "join" and len(self.course.group.alive()) >= MOST_MEMBERS:
            return
        if event.kind == "grow" and event.partitions <= self.course.load.partitions:
            return
        duration = f"{event.ms} ms" if event.ms else str(event.partitions or "")
        self.recording.acted(event.kind, event.member, duration)
        self._seen.acted(event.kind, event.member)
        self.course.happen(event)

    def _owns(self, name: str, before: Any, after: Any, now_ms: int) -> None:
        self.recording.owns(name, before, after, now_ms)
        if self._kafka is None:
            self._seen.owns(name, before, after, self._meter, self.course.load.partitions)

    # -- what is seen ---------------------------------------------------------------------------------------------------------

    @property
    def shown_timeline(self) -> Timeline:
        """Up to now; its times are the world's."""
        now_ms = self._world.now_ms
        if self._kafka is None:
            return self._seen.until(now_ms, self._meter)
        for line in self.recording.lines[self._lines :]:
            self._journal.add(line)
        self._lines = len(self.recording.lines)
        self._journal.timeline.reach(self._world.start_ms, now_ms)
        return self._journal.timeline

    def timeline(self) -> dict[str, Any]:
        """Its document, with members by their names."""
        return self.shown_timeline.document(shown)

    def members(self) -> list[dict[str, Any]]:
        """Name, alive, owned partitions, stage of the machine, and what holds the member up."""
        return [self._member(name, member) for name, member in self.course.group.members.items()]

    def _member(self, name: str, member: Any) -> dict[str, Any]:
        now_ms = self._world.now_ms
        if self._kafka is None:
            held = "cut" if member.cut_off else "pause" if member.paused else ""
        else:
            held = "pause" if member.cut_off_until_ms > now_ms else "slow" if member.stalled_until_ms > now_ms else ""
        stage = getattr(member.machine, "stage", "") if member.alive else ""
        owned: list[TopicPartition] = sorted(member.owned)
        return {
            "name": name,
            "alive": member.alive,
            "owned": [f"{topic}-{number}" for topic, number in owned],
            "stage": getattr(stage, "name", stage).lower(),
            "held": held if member.alive else "",
        }

    def explanation(self) -> dict[str, Any] | None:
        """What the group waits for, as `groups why` reports it; None without a coordinator or before its first member."""
        if self._kafka is None:
            return None
        broker = self._kafka.broker
        group = broker.shard.group(GROUP)
        if group is None:
            return None
        if isinstance(group, ConsumerGroup):
            assert isinstance(self._kafka, ConsumerProtocolGroup), "only its broker has such groups"
            explained = explain_consumer_group(group, broker.world.now_ms, broker.config, self._kafka.topics)
        else:
            assert isinstance(group, Group), "its broker has groups of consumers alone"
            explained = explain_group(group, broker.world.now_ms, broker.config)
        return {
            "state": explained["state"],
            "generation": explained["generation"],
            "verdict": shown(explained["verdict"]),
            "verdict_phrase": _shown_in(explained["verdict_phrase"]),
        }

    def costs(self) -> dict[str, int]:
        """What the rebalances have cost so far, as `coterie.machines.ownership` defines it."""
        meter, now_ms = self._meter, self._world.now_ms
        waiting_ms = sum(now_ms - since_ms for since_ms in meter.unowned_since_ms.values())
        return {
            "rebalances": self.course.group.rebalances(),
            "unowned_ms": sum(meter.unowned_ms.values()) + waiting_ms * bool(self.course.group.alive()),
            "moved": meter.moves,
            "duplicates": self.course.load.delivered.duplicates,
            "messages": self.course.group.traffic()[0],
        }
