"""A group as an observer sees it, in a few words a sight; times in seconds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from coterie.assignors.blobs import encode_assignment, encode_subscription
from coterie.coordinator.events import Event, GroupRemoved, GroupStored, OffsetStored
from coterie.coordinator.journal.line import JournalLine
from coterie.coordinator.state import Cause, CommittedOffset
from coterie.observer.machine import sights
from coterie.observer.machine.observer import GroupObserver
from coterie.wire.messages.stored.consumer_offsets import GroupMetadataValue, MemberMetadata

GROUP, PARTITIONS = "crew", 6
SESSION_S, REBALANCE_S = 45.0, 300.0
START_MS = 1_000_000


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
