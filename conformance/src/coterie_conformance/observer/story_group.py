"""The group of a story: what its script does to it, and with that the causes that are true of it."""

from __future__ import annotations

import asyncio
import itertools
import signal
import time
from pathlib import Path
from typing import Protocol

from coterie.client import Admin, GroupState, KafkaError
from coterie.coordinator.journal.line import JournalLine
from coterie.coordinator.journal.patterns import UNKNOWN
from coterie.testing import LocalProxy
from coterie_conformance.observer.programs import StoryMember

PARTITIONS, MORE_PARTITIONS = 4, 6
CADENCE_S = 6.0  # for a cadence of commits, once a second
PATIENCE_S = 90.0
STATED = {
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "1000",
    "auto.commit.interval.ms": "1000",
    "metadata.max.age.ms": "2000",
}
COMMITTING = {"auto.commit.interval.ms": "1000", "metadata.max.age.ms": "2000"}
STATED_BY_PROTOCOL = {
    "classic": STATED,
    "consumer": COMMITTING | {"group.protocol": "consumer"},
    "share": {"group.protocol": "share"},
    "streams": {"group.protocol": "streams"},
}


class ClusterOfStory(Protocol):
    """What a story uses of its cluster: ``address`` of the proxy, and of ``faulty``, a proxy with fault hooks before it;
    ``commands`` run members, by client; to the topics in ``fed``, with their partitions, come records."""

    address: str
    faulty: LocalProxy
    admin: Admin
    folder: Path
    commands: dict[str, list[str]]
    fed: dict[str, int]
    starting: asyncio.Semaphore

    def assignor(self, name: str) -> str:
        """Java's class."""

    async def stop_second(self) -> None:
        """The second broker stops in order."""


class StoryGroup:
    """``truth``: (kind, client id or "") of the causes that the script has brought about. Raises AssertionError where the group
    does not get there."""

    def __init__(self, cluster: ClusterOfStory, group: str, topic: str, client: str, protocol: str) -> None:
        self.cluster, self.group, self.topic, self.topics = cluster, group, topic, topic
        self.protocol, self.is_static, self.is_fed = protocol, False, True
        self.address = cluster.address
        self.settings: dict[str, str] = {}
        self.truth: set[tuple[str, str]] = set()
        self.members: dict[str, StoryMember] = {}
        self._command, self._ended, self._admin = cluster.commands[client], list[StoryMember](), cluster.admin
        self._log: Path = cluster.folder / f"{group}.log"

    def may(self, kind: str, who: str = "") -> None:
        """The cause is a true one."""
        self.truth.add((kind, who))

    async def create_topic(self, topic: str) -> None:
        """On the first broker."""
        await self._admin.create_topic(topic, assignments={number: [1] for number in range(PARTITIONS)})
        if self.is_fed:
            self.cluster.fed[topic] = PARTITIONS

    async def crew(self, *names: str) -> None:
        """They join, and commit for a while."""
        await self.create_topic(self.topic)
        await asyncio.gather(*map(self.start, names))
        await self.stable(len(names))
        await asyncio.sleep(CADENCE_S)

    async def start(self, name: str) -> None:
        """One more member, or one again."""
        stated = STATED_BY_PROTOCOL[self.protocol]
        settings = (
            stated | {"client.id": name} | ({"group.instance.id": name} if self.is_static else {}) | self.settings
        )
        self._ended += [self.members.pop(name)] if name in self.members else []
        async with self.cluster.starting:
            args = self.address, self.group, self.topics, settings, self._log
            self.members[name] = StoryMember.start(self._command, *args)
            await asyncio.sleep(0.5)
        self.truth |= {("member_joined", name), ("static_member_returned", name), ("member_replaced", name)}
        if self.protocol == "share":
            self.may("states_initialized")  # of the partitions that the group has since

    async def stable(self, members: int) -> None:
        """Until the coordinator describes it so."""
        await self._until(GroupState.STABLE, members)

    async def assigning(self, members: int) -> None:
        """Until the coordinator describes it so: it waits for the leader."""
        await self._until(GroupState.COMPLETING_REBALANCE, members)

    async def empty(self) -> None:
        """Until the coordinator describes it so."""
        await self._until(GroupState.EMPTY, 0)

    async def _until(self, state: GroupState, members: int) -> None:
        end_s, described = time.monotonic() + PATIENCE_S, None
        while time.monotonic() < end_s:
            try:
                described = await self._admin.describe_consumer_group(self.group)
            except KafkaError:
                described = None
            if described is not None and (described.state, len(described.members)) == (state, members):
                await asyncio.sleep(1)
                return
            await asyncio.sleep(0.3)
        raise AssertionError(f"{self.group} is {described}, not {state} with {members} members")

    # -- what happens to members --------------------------------------------------------------------------------------------

    def kill(self, name: str, *, is_noticed: bool = True) -> None:
        """``is_noticed``: its session will time out."""
        self.members[name].signal(signal.SIGKILL)
        if is_noticed:
            self.may("session_timeout", name)

    def leave(self, name: str) -> None:
        """In order."""
        self.members[name].signal(signal.SIGTERM)
        self.may("member_left", name)

    async def restart(self, name: str) -> None:
        """It leaves, and comes again once that is noticed."""
        members = len(self.members)
        self.leave(name)
        await self.stable(members - 1)
        await self.start(name)

    def pause(self, name: str) -> None:
        """For good."""
        self.members[name].signal(signal.SIGSTOP)
        self.may("session_timeout", name)

    def sleep(self, name: str, seconds: float) -> None:
        """It does not poll for so long, which is longer than it may be, so that it leaves."""
        self.members[name].command(f"sleep {seconds:g}")
        self.may("member_left", name)

    def callback(self, name: str, seconds: float) -> None:
        """Its next callback takes so long that it is removed."""
        self.members[name].command(f"callback {seconds:g}")
        self.truth |= {("rebalance_timeout", name), ("slow_join", name), ("slow_join", "")}

    def subscribe(self, name: str, topics: str) -> None:
        """To other topics."""
        self.members[name].command(f"subscribe {topics}")
        self.may("subscription_changed", name)

    # -- what happens beside them -------------------------------------------------------------------------------------------

    async def add_partitions(self) -> None:
        """To the topic: a member that sees it joins again."""
        await self._admin.create_partitions(self.topic, MORE_PARTITIONS)
        self.may("topic_metadata_changed")
        self.truth |= set(itertools.product(("leader_rejoined", "subscription_changed"), self.members))

    async def commit(self) -> None:
        """By an administrator, through the proxy."""
        async with Admin({"bootstrap.servers": self.cluster.address, "client.id": "operator"}) as admin:
            await admin.alter_consumer_group_offsets(self.group, {(self.topic, 0): 1})
        self.may("commit_by_stranger", "operator")

    def end(self) -> None:
        """Kills all members."""
        for member in [*self.members.values(), *self._ended]:
            member.end()

    # -- what was concluded ----------------------------------------------------------------------------------------------

    def wrong(self, lines: list[JournalLine]) -> list[dict[str, str]]:
        """The causes that are stated or inferred, and not true."""
        known = [cause for line in lines for cause in line.causes if cause["evidence"] != UNKNOWN]
        return [cause for cause in known if not is_true(cause, self.truth)]


def is_true(cause: dict[str, str], truth: set[tuple[str, str]]) -> bool:
    """Whether the cause is one of them; one that names nobody stands for any member's."""
    kind, who = cause["kind"], cause.get("client_id", "")
    return (kind, who) in truth or (not who and any(true == kind for true, _ in truth))
