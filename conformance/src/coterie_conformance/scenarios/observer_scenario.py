"""Scenarios of the observer (tests/spec/observe): what is seen of a group, and the lines that follow.

== silent_for_session
stored 0 1 anna-1 ben-1
commits 1 until=60
stored 106 2 anna-1

Times are in seconds. A member is NAME-LIFE; members own the partitions of each topic in turn. Share groups and streams groups
have records of their own: member, gone, epoch, states and ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from coterie.coordinator.journal.line import JournalLine
from coterie.observer.machine import sights
from coterie_conformance.scenarios.modern_records import ModernRecords
from coterie_conformance.scenarios.sighted_group import GROUP, START_MS, SightedGroup, at
from coterie_conformance.scenarios.steps import run_step

Options = dict[str, str]


class ObserverScenario:
    """One group and its observer."""

    def __init__(self) -> None:
        self.group, self.records = SightedGroup(), ModernRecords("share")
        self.trace: list[str] = []
        self.verbs: dict[str, Callable[[list[str], Options], Iterable[JournalLine] | None]] = {
            "observer": self._observer,
            "group": self._group,
            "partitions": lambda _, options: self._partitions(options),
            "metadata": self._metadata,
            "stored": lambda words, _: self.group.stored(float(words[0]), int(words[1]), *words[2:]),
            "removed": lambda words, _: self.group.removed(float(words[0])),
            "commit": lambda words, _: self.group.commit(float(words[0]), int(words[1]), *words[2:3]),
            "commits": self._commits,
            "described": self._described,
            "member": self._member,
            "gone": lambda words, _: self.group.modern(float(words[0]), self.records.gone(words[1])),
            "epoch": lambda words, options: self.group.modern(
                float(words[0]), self.records.epoch(int(words[1]), options)
            ),
            "states": lambda words, _: self.group.modern(float(words[0]), self.records.states(int(words[1]))),
            "ended": lambda words, _: self.group.modern(float(words[0]), self.records.ended()),
            "coordinator-lost": lambda words, _: self.group.see(sights.NoCoordinatorSeen(at(float(words[0])), GROUP)),
            "tick": lambda words, _: self.group.tick(float(words[0])),
        }

    def step(self, line: str) -> list[str]:
        """Runs one step; returns its lines. Raises ScenarioError."""
        lines = run_step(self.verbs, line)
        return [line_text(line) for line in lines or ()]

    def _observer(self, words: list[str], _: Options) -> None:
        """``without records``: it may not read `__consumer_offsets`."""
        self.group = SightedGroup(reads_records=words != ["without", "records"])

    def _member(self, words: list[str], options: Options) -> list[JournalLine]:
        """TIME NAME: the record of a member, of a share group with its ``topics``, of a streams group with its ``process``."""
        return self.group.modern(float(words[0]), self.records.member(words[1], options))

    def _group(self, _: list[str], options: Options) -> None:
        """``kind`` share or streams of a group with an epoch; of a classic one ``protocol``, names with commas in ``static``
        and ``subscription`` or ``own=CLIENT:TOPICS``, and the timeouts ``session`` and ``rebalance``."""
        group = self.group
        self.records = ModernRecords(options.get("kind", self.records.kind))
        group.protocol = options.get("protocol", group.protocol)
        group.static |= {*filter(None, options.get("static", "").split(","))}
        group.session_s = float(options.get("session", group.session_s))
        group.rebalance_s = float(options.get("rebalance", group.rebalance_s))
        if "own" in options:
            client, own = options["own"].split(":")
            group.own[client] = own.split(",")
        if "subscription" in options:
            group.subscription = options["subscription"].split(",")

    def _partitions(self, options: Options) -> None:
        """TOPIC=COUNT: what the leader assigns from now on."""
        self.group.topics |= {topic: int(count) for topic, count in options.items()}

    def _metadata(self, words: list[str], options: Options) -> None:
        """At that time all topics are seen, after those changes."""
        self._partitions(options)
        self.group.seen_topics(float(words[0]))

    def _commits(self, words: list[str], options: Options) -> None:
        """Of the owner of a partition: ``since``, ``until`` and ``every`` so many seconds."""
        times = {
            name: float(options.get(name, default)) for name, default in (("since", 5), ("until", 60), ("every", 5))
        }
        self.group.commits(times["until"], int(words[0]), times["every"], times["since"])

    def _described(self, words: list[str], options: Options) -> list[JournalLine]:
        """TIME STATE MEMBER…, by the broker ``coordinator``."""
        return self.group.described(
            float(words[0]), words[1], *words[2:], coordinator=int(options.get("coordinator", 1))
        )


def line_text(line: JournalLine) -> str:
    """``@TIME EVENT GENERATION``, what is worth it of the rest, and the causes."""
    text = f"@{(line.time_ms - START_MS) / 1000:g} {line.event} {line.generation} {line.state_from} -> {line.state_to}"
    if line.coordinator is not None:
        text += f" coordinator {line.coordinator_from} -> {line.coordinator} epoch={line.coordinator_epoch}"
    for name in ("members", "join_ms", "sync_ms", "unowned_ms"):
        value = getattr(line, name)
        text += f" {name}={value}" if value else ""
    return f"{text}: {'; '.join(map(cause_text, line.causes))}" if line.causes else text


def cause_text(cause: dict[str, str]) -> str:
    """``KIND CLIENT (EVIDENCE, RULE)``."""
    evidence = ", ".join(filter(None, (cause["evidence"], cause.get("rule"))))
    return " ".join(filter(None, (cause["kind"], cause.get("client_id"), f"({evidence})")))
