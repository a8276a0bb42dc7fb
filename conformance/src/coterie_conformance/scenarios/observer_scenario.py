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
from typing import Any

from coterie.assignors.blobs import encode_assignment, encode_subscription
from coterie.coordinator.events import Event, GroupRemoved, GroupStored, OffsetStored
from coterie.coordinator.journal.line import JournalLine
from coterie.coordinator.share import events as h
from coterie.coordinator.share.state import ShareSubscription, StatePartitions, StateTopic
from coterie.coordinator.state import Cause, CommittedOffset
from coterie.coordinator.streams import events as s
from coterie.coordinator.streams.state import StreamsMetadata
from coterie.observer.machine import sights
from coterie.observer.machine.observer import GroupObserver
from coterie.wire.messages.stored.consumer_offsets import GroupMetadataValue, MemberMetadata
from coterie_conformance.scenarios.groups.scenario import run_step

TOPIC_ID = b"orders".ljust(16, b"-")
GROUP, PARTITIONS = "crew", 6
SESSION_S, REBALANCE_S = 45.0, 300.0
START_MS = 1_000_000


class ModernRecords:
    """Of one group; ``kind`` is share or streams. A member id is NAME-LIFE."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def member(self, member_id: str, options: dict[str, str]) -> Event:
        """A member, as it is from now on."""
        client_id = member_id.split("-")[0]
        if self.kind == "share":
            topics = frozenset(options.get("topics", "orders").split(","))
            return h.ShareMemberStored(member_id, ShareSubscription(topics, client_id=client_id))
        process_id = options.get("process", member_id)
        return s.StreamsMetadataStored(member_id, StreamsMetadata(client_id=client_id, process_id=process_id))

    def gone(self, member_id: str) -> Event:
        """Its tombstone."""
        return h.ShareMemberRemoved(member_id) if self.kind == "share" else s.StreamsMetadataRemoved(member_id)

    def epoch(self, epoch: int, options: dict[str, str]) -> Event:
        """``hash`` of the subscribed topics; of a streams group also the validated ``topology``, -1: topics are lacking."""
        metadata_hash = int(options.get("hash", "7"))
        if self.kind == "share":
            return h.ShareEpochStored(epoch, metadata_hash)
        return s.StreamsEpochStored(epoch, metadata_hash, int(options.get("topology", "0")))

    def states(self, partitions: int) -> Event:
        """So many partitions of the topic have a state at the share coordinator."""
        return h.StatePartitionsStored(
            StatePartitions(initialized={TOPIC_ID: StateTopic("orders", frozenset(range(partitions)))})
        )

    def ended(self) -> Event:
        """The group's tombstone."""
        return h.ShareEpochRemoved() if self.kind == "share" else s.StreamsEpochRemoved()


def at(time_s: float) -> int:
    return START_MS + round(time_s * 1000)


class SightedGroup:
    """``members``: their names; ``member_id`` is NAME-LIFE, ``client_id`` NAME."""

    def __init__(self, **settings: Any) -> None:
        self.observer = GroupObserver(**settings)
        self.lines: list[JournalLine] = []
        self.protocol = "range"
        self.topics: dict[str, int] = {"orders": PARTITIONS}
        self.subscription = ["orders"]
        self.own: dict[str, list[str]] = {}  # subscriptions other than that of all, by client
        self.static: set[str] = set()
        self.session_s, self.rebalance_s = SESSION_S, REBALANCE_S

    def see(self, sight: sights.Sight) -> list[JournalLine]:
        """Each line is read back from its JSON."""
        lines = self.observer.see(sight)
        for line in lines:
            assert JournalLine.from_json(line.to_json()) == line
        self.lines += lines
        return lines

    def members(self, names: Iterable[str]) -> list[MemberMetadata]:
        """They own the partitions of the subscribed topics in turn."""
        names = list(names)
        shares: dict[str, dict[str, list[int]]] = {name: {} for name in names}
        for topic in self.subscription:
            for partition in range(self.topics[topic]) if names else ():
                shares[names[partition % len(names)]].setdefault(topic, []).append(partition)
        return [
            MemberMetadata(
                name,
                name.split("-")[0] if name.split("-")[0] in self.static else None,
                name.split("-")[0],
                "/10.0.0.1",
                round(self.rebalance_s * 1000),
                round(self.session_s * 1000),
                encode_subscription(self.own.get(name.split("-")[0], self.subscription)),
                encode_assignment(shares[name]),
            )
            for name in names
        ]

    def stored(self, time_s: float, generation: int, *names: str) -> list[JournalLine]:
        """The record of a generation with these members, the first of which leads."""
        members = self.members(names)
        leader = names[0] if names else None
        value = GroupMetadataValue(
            "consumer", generation, self.protocol if names else None, leader, at(time_s), members
        )
        return self.see(sights.RecordRead(at(time_s), GROUP, GroupStored(value)))

    def removed(self, time_s: float) -> list[JournalLine]:
        return self.see(sights.RecordRead(at(time_s), GROUP, GroupRemoved(Cause("tombstone"))))

    def modern(self, time_s: float, event: Event) -> list[JournalLine]:
        """A record of a group with an epoch."""
        return self.see(sights.RecordRead(at(time_s), GROUP, event))

    def commit(self, time_s: float, partition: int, topic: str = "orders") -> list[JournalLine]:
        committed = CommittedOffset(1, -1, "", at(time_s))
        return self.see(sights.RecordRead(at(time_s), GROUP, OffsetStored(topic, partition, committed)))

    def commits(self, until_s: float, partition: int, every_s: float = 5, since_s: float = 5) -> None:
        """Of the owner of that partition."""
        time_s = since_s
        while time_s <= until_s:
            self.commit(time_s, partition)
            time_s += every_s

    def described(self, time_s: float, state: str, *names: str, coordinator: int = 1) -> list[JournalLine]:
        """What the broker ``coordinator`` describes: no timeouts."""
        members = self.members(names)
        for member in members:
            member.session_timeout = member.rebalance_timeout = 0
        leader = (coordinator, 7)
        return self.see(
            sights.Described(at(time_s), GROUP, state, "consumer", self.protocol, tuple(members), None, leader)
        )

    def seen_topics(self, time_s: float) -> None:
        self.see(sights.TopicsSeen(at(time_s), dict(self.topics)))

    def tick(self, time_s: float) -> list[JournalLine]:
        return self.see(sights.Tick(at(time_s)))


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
