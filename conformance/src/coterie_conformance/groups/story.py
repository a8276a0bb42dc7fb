"""One seeded story: a few actors and one group, run on two brokers step by step; after each step both must agree.

A step sends one question to both. What it answers at once is compared; a JoinGroup or SyncGroup may wait. Then the
group is described: our broker has settled by then, so the description of the other is polled until it is the same (at
most CATCH_UP_S), and an actor with a response of the one must have an equal response of the other.
"""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass, field
from typing import Any

from coterie.client.errors import KafkaError
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.groups.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from coterie.wire.messages.groups.heartbeat import HeartbeatRequest
from coterie.wire.messages.groups.join_group import JoinGroupRequest, JoinGroupResponse
from coterie.wire.messages.groups.list_groups import ListGroupsResponse
from coterie.wire.messages.groups.sync_group import SyncGroupResponse
from coterie_conformance.differences.table import story_row
from coterie_conformance.groups.accepted import described_as
from coterie_conformance.groups.questions import KINDS, REQUESTS, GroupActor, GroupQuestion, GroupView, remove
from coterie_conformance.groups.sides import SHARED, GroupStorySide, common_version
from coterie_conformance.groups.transactions import StoryTransactions

CATCH_UP_S = 4.0
DESCRIBE_VERSION = 4
LONG_MS, REBALANCE_MS, SESSION_MS = 120_000, 1_500, 1_500
# A phase that would end by itself soon is waited out, so that both sides stand on the same side of its end.
MARGIN_S = 0.6


@dataclass(slots=True)
class StoryResult:
    """``difference`` is empty when all agreed; ``accepted`` is why a story ended early without being wrong."""

    seed: int
    kind: str
    steps: int = 0
    difference: str = ""
    accepted: str = ""
    log: list[str] = field(default_factory=list)


class Disagreement(Exception):
    """The two sides differ; the text shows how."""


class GroupStory:
    """``kind``: "calm" (nothing times out), "rebalance" (join and sync phases do) or "session" (members fall silent)."""

    def __init__(
        self,
        seed: int,
        kind: str,
        version: str,
        ours: tuple[str, int],
        theirs: tuple[str, int],
    ) -> None:
        self.result = StoryResult(seed, kind)
        self.random = random.Random(seed)
        self.kind, self.version = kind, tuple(int(part) for part in version.split("."))
        self.sides = (
            GroupStorySide("coterie", ours, StoryTransactions(seed)),
            GroupStorySide("kafka", theirs, StoryTransactions(seed)),
        )
        static = self.random.choice([0, 1, 2, 3])
        self.actors = {name: GroupActor(name, f"i{n}" if n < static else None) for n, name in enumerate("abcdef")}
        self.group = f"story-{kind}-{seed}"
        self.phase_ends_at = 0.0
        self.parted: tuple[str, dict[str, Any], dict[str, Any]] | None = None
        self.waiting: dict[str, str] = {}  # actor -> the member that its parked request speaks for
        self.joining: set[str] = set()
        self.last_question = ""
        self.slowest_s = 0.0  # response so far
        self._forced: str | None = None

    @property
    def log(self) -> list[str]:
        return self.result.log

    async def run(self, steps: int) -> StoryResult:
        """So many steps, or fewer when the sides part."""
        try:
            self.view = await self._view()
            for _ in range(steps):
                await self._before_step()
                question = self._choose()
                while question.member and question.member in self.waiting.values():
                    # A second join or sync of one that waits: Kafka never answers the first (see accepted.py).
                    question = self._choose()
                await self._exchange(question)
                self.result.steps += 1
        except Disagreement as disagreement:
            self.result.difference = str(disagreement)
        except KafkaError as error:
            self.result.difference = f"a connection failed: {error}"
        finally:
            for side in self.sides:
                side.close()
        if self.result.difference:
            reason = story_row(self)
            if reason:
                self.result.accepted, self.result.difference = reason, ""
            elif self.kind != "calm" and self.slowest_s > MARGIN_S:
                late = f"a response took {self.slowest_s:.1f} s, and timeouts leave {MARGIN_S:g} s"
                self.result.difference += f"\n{late}: run it at rest"
        return self.result

    async def _view(self) -> GroupView:
        connections = [await side.connection(SHARED) for side in self.sides]
        versions = {r: common_version((connections[0], connections[1]), r) for r in REQUESTS}
        session_ms = SESSION_MS if self.kind == "session" else LONG_MS
        rebalance_ms = REBALANCE_MS if self.kind == "rebalance" else LONG_MS
        view = GroupView(self.random, self.group, self.actors, session_ms, rebalance_ms, versions)
        if self.kind == "rebalance":
            view.oldest_join = 1  # v0 has no rebalance timeout: its session timeout would serve, and be waited out
        if self.version < (3,) and any(a.instance for a in self.actors.values()):
            view.oldest_join = 5  # 2.6 fails where an older client's response would list static members
        return view

    # -- what to ask ------------------------------------------------------------------------------------------------

    def _choose(self) -> GroupQuestion:
        view = self.view
        if self._forced is not None:
            actor, self._forced = self.actors[self._forced], None
            return KINDS["join"][0](view, actor)
        free = [a for a in self.actors.values() if a.name not in self.sides[0].parked]
        nobodys = [m for m in view.members if all(a.member != m for a in self.actors.values())]
        if nobodys and view.chance(0.3):
            return remove(view, self.random.choice(nobodys))
        if view.chance(0.55) and (useful := self._useful(free)) is not None:
            return useful
        names = list(KINDS)
        kind = self.random.choices(names, [KINDS[n][1] for n in names])[0]
        if kind in ("join", "sync") and not free:
            kind = "heartbeat"
        actor = self.random.choice(free if kind in ("join", "sync") else list(self.actors.values()))
        if kind == "leave" and actor.member == view.leader and view.chance(0.7):
            kind = "commit"  # which member leads next is a matter of chance in Kafka, so it is asked for seldom
        return KINDS[kind][0](view, actor)

    def _useful(self, free: list[GroupActor]) -> GroupQuestion | None:
        """The request of a correct member now: join when a rebalance waits for it, sync when it has joined."""
        view = self.view
        if view.state == "PreparingRebalance":
            late = [a for a in free if a.member in view.members] or [a for a in free if a.member]
            return KINDS["join"][0](view, self.random.choice(late)) if late else None
        owing = [a for a in free if a.member in view.members and not a.synced]
        if view.state == "CompletingRebalance" and owing:
            leaders = [a for a in owing if a.member == view.leader]
            return KINDS["sync"][0](view, self.random.choice(leaders if leaders and view.chance(0.4) else owing))
        return None

    # -- time ---------------------------------------------------------------------------------------------------------

    async def _before_step(self) -> None:
        if self.kind == "rebalance":
            while self.view.state in ("PreparingRebalance", "CompletingRebalance"):
                left_s = self.phase_ends_at - time.monotonic()
                if left_s > MARGIN_S and not self.view.chance(0.1):
                    return
                self.result.log.append(f"wait {left_s + MARGIN_S:.1f} s")
                ends_at = self.phase_ends_at
                await asyncio.sleep(max(left_s + MARGIN_S, 0))
                await self._agree()
                self.phase_ends_at = ends_at + REBALANCE_MS / 1000
                if not self.view.members:
                    return
        if self.kind == "session":
            await self._keep_alive(None)
            if self.view.chance(0.07) and self.view.members:
                victim = self.random.choice(self.view.members)
                self.result.log.append(f"{victim} falls silent")
                end = time.monotonic() + SESSION_MS / 1000 * 1.6
                while time.monotonic() < end:
                    await self._keep_alive(victim)
                    await asyncio.sleep(0.15)
                await self._agree()

    async def _keep_alive(self, silent: str | None) -> None:
        """Every member but the silent one heartbeats, so that no session ends by chance."""
        for actor in self.actors.values():
            if actor.member in self.view.members and actor.member != silent:
                make = lambda side, a=actor: heartbeat_of(self.group, a, side)  # noqa: E731
                await self._both(GroupQuestion(SHARED, make, 3, f"keep {actor.member} alive"))

    # -- one step -----------------------------------------------------------------------------------------------------

    async def _exchange(self, question: GroupQuestion) -> None:
        self.last_question = f"{question.actor or '*'}: {question.text}"
        self.result.log.append(self.last_question)
        if question.actor != SHARED:
            self.waiting[question.actor] = question.member
            if isinstance(question.make(self.sides[0]), JoinGroupRequest):
                self.joining.add(question.actor)
            for side in self.sides:
                await side.park(question.actor, question.make(side), question.version)
            await self._both(self._probe())  # our broker reads its sockets in turn: now it has seen the question
        else:
            responses = await self._both(question)
            self._compare(SHARED, responses)
        await self._agree()

    async def _both(self, question: GroupQuestion) -> list[Message]:
        if question.before is not None:
            await asyncio.gather(*(question.before(side) for side in self.sides))
        requests = [side.ask(question.actor, question.make(side), question.version) for side in self.sides]
        began_s = time.monotonic()
        responses = list(await asyncio.gather(*requests))
        self.slowest_s = max(self.slowest_s, time.monotonic() - began_s)
        return responses

    def _probe(self) -> GroupQuestion:
        return GroupQuestion(SHARED, lambda _: DescribeGroupsRequest([self.group]), DESCRIBE_VERSION, "")

    async def _agree(self) -> None:
        """Until both sides describe the same group and have answered the same actors."""
        end = time.monotonic() + CATCH_UP_S
        while True:
            responses = await self._both(self._probe())
            done = [{a for a, task in side.parked.items() if task.done()} for side in self.sides]
            if done[0] == done[1]:
                for actor in sorted(done[0]):
                    self.waiting.pop(actor)
                    self._compare(actor, [side.parked.pop(actor).result() for side in self.sides])
                groups = [
                    described_as(side.plain(response)["groups"][0], self.version)
                    for side, response in zip(self.sides, responses, strict=True)
                ]
                if groups[0] == groups[1] and not done[0]:
                    break
                end = end if not done[0] else time.monotonic() + CATCH_UP_S
            if time.monotonic() > end:
                if done[0] != done[1]:
                    responses_by_actor = [
                        {actor: side.plain(side.parked[actor].result()) for actor in sorted(responded)}
                        for side, responded in zip(self.sides, done, strict=True)
                    ]
                    self.parted = ("answered", {"answers": responses_by_actor[0]}, {"answers": responses_by_actor[1]})
                    raise Disagreement(
                        f"answered\n  coterie {responses_by_actor[0]}\n  kafka   {responses_by_actor[1]}"
                    )
                self.parted = ("group", groups[0], groups[1])
                raise Disagreement(f"the group is\n  coterie {groups[0]}\n  kafka   {groups[1]}")
            if done[0] != done[1] or not done[0]:
                await asyncio.sleep(0.003)
        self._look(groups[0])

    def _compare(self, actor: str, responses: list[Message]) -> None:
        symbols = [side.learn(actor, response) for side, response in zip(self.sides, responses, strict=True)]
        plain = [side.plain(response) for side, response in zip(self.sides, responses, strict=True)]
        if isinstance(responses[0], ListGroupsResponse):
            for one in plain:
                one["groups"] = [g for g in one["groups"] if g["group_id"] == self.group]
        self.result.log.append(f"    {actor or '*'} <- {plain[0]}")
        if isinstance(responses[0], DescribeGroupsResponse):
            for one in plain:
                one["groups"] = [described_as(group, self.version) for group in one["groups"]]
        if plain[0] != plain[1]:
            self.parted = (actor, plain[0], plain[1])
            raise Disagreement(f"{actor or 'shared'} is answered\n  coterie {plain[0]}\n  kafka   {plain[1]}")
        if actor != SHARED:
            self._remember(self.actors[actor], responses[0], symbols[0], plain[0])

    def _remember(self, actor: GroupActor, response: Message, symbol: str | None, plain: dict[str, Any]) -> None:
        if isinstance(response, JoinGroupResponse):
            if symbol is not None and symbol != actor.member:
                if actor.member:
                    actor.past.append(actor.member)
                actor.member = symbol
            if response.error_code == ErrorCode.NONE:
                actor.generation, actor.synced = response.generation_id, False
                self.phase_ends_at = time.monotonic() + REBALANCE_MS / 1000
                self.view.leader, self.view.protocol = plain["leader"], response.protocol_name or "range"
            elif response.error_code == ErrorCode.MEMBER_ID_REQUIRED and self.kind == "session":
                self._forced = actor.name
        elif isinstance(response, SyncGroupResponse) and response.error_code == ErrorCode.NONE:
            actor.synced = True

    def _look(self, group: dict[str, Any]) -> None:
        members = tuple(m["member_id"] for m in group["members"])
        if group["group_state"] != self.view.state or members != self.view.members:
            self.phase_ends_at = time.monotonic() + REBALANCE_MS / 1000
        self.view.state, self.view.members = group["group_state"], members
        self.joining &= set(self.sides[0].parked)


def heartbeat_of(group: str, actor: GroupActor, side: GroupStorySide) -> Message:
    """The heartbeat that keeps an actor in its group on one side."""
    return HeartbeatRequest(group, actor.generation, side.real(actor.member), actor.instance)
