"""A story's requests: one function per kind, half of them requests of a correct member, half of them wrong.

A question is a request made again for each side, since member ids differ; symbols stand for them until then.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from coterie.assignors.blobs import encode_subscription
from coterie.wire.declaration import Message
from coterie.wire.messages.groups.delete_groups import DeleteGroupsRequest
from coterie.wire.messages.groups.describe_groups import DescribeGroupsRequest
from coterie.wire.messages.groups.heartbeat import HeartbeatRequest
from coterie.wire.messages.groups.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from coterie.wire.messages.groups.leave_group import LeaveGroupRequest, MemberIdentity
from coterie.wire.messages.groups.list_groups import ListGroupsRequest
from coterie.wire.messages.groups.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from coterie.wire.messages.groups.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from coterie.wire.messages.groups.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from coterie.wire.messages.groups.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from coterie.wire.messages.transactions.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from coterie_conformance.groups.sides import SHARED, GroupStorySide, MakeRequest

TOPIC, PARTITIONS, OTHER_TOPIC, NO_TOPIC = "t", 3, "u", "nobody-made-this"
METADATA_MAX_BYTES = 64
STATIC_FROM_JOIN, STATIC_FROM_OTHERS, BATCH_LEAVE_FROM, SEVERAL_FETCH_FROM = 5, 3, 3, 8
INSTANCE_FROM_COMMIT, IDS_FROM, STABLE_FROM_FETCH, TXN_NEWEST = 7, 10, 7, 4
PROTOCOLS: tuple[tuple[str, ...], ...] = (("range", "roundrobin"), ("range",), ("roundrobin", "range"), ("sticky",))


@dataclass(slots=True)
class GroupActor:
    """One process that talks to the group; ``member`` and ``past`` are symbols of member ids."""

    name: str
    instance: str | None = None
    member: str = ""
    generation: int = -1
    past: list[str] = field(default_factory=list)
    protocols: tuple[str, ...] = PROTOCOLS[0]
    topics: tuple[str, ...] = (TOPIC,)
    synced: bool = False


@dataclass(slots=True)
class GroupQuestion:
    """A request under way: who sends it (SHARED: a connection that never waits), its text for a report."""

    actor: str
    make: MakeRequest
    version: int
    text: str
    member: str = ""  # whose join or sync may wait
    before: Callable[[GroupStorySide], Awaitable[None]] | None = None


@dataclass(slots=True)
class GroupView:
    """The input of the makers below: the group as both sides last described it, and the versions that both speak."""

    random: random.Random
    group: str
    actors: Mapping[str, GroupActor]
    session_ms: int
    rebalance_ms: int
    versions: Mapping[type[Message], tuple[int, int]]
    leader: str = ""
    members: tuple[str, ...] = ()
    state: str = "Empty"
    protocol: str = "range"
    oldest_join: int = 0

    def version(self, request: type[Message], at_least: int = 0) -> int:
        """A random version of the request that both sides serve, if possible at least ``at_least``."""
        oldest, newest = self.versions[request]
        if request in (OffsetCommitRequest, OffsetFetchRequest):
            oldest = max(oldest, 1)  # v0 was about offsets in ZooKeeper
        return self.random.randint(max(oldest, min(at_least, newest)), newest)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def group_id(self, unnamed: str = "") -> str:
        """Mostly the story's group; now and then the empty id (where that makes no group), or an unknown one."""
        if self.chance(0.985):
            return self.group
        return self.random.choice([unnamed, f"{self.group}-nobody"])

    def member_id(self, actor: GroupActor) -> str:
        """Mostly the actor's own; now and then an old one, another's, a stranger's or none."""
        if self.chance(0.9):
            return actor.member
        others = [a.member for a in self.actors.values() if a is not actor and a.member]
        return self.random.choice([*actor.past, *others, "stranger", ""])

    def generation_of(self, actor: GroupActor) -> int:
        return actor.generation if self.chance(0.92) else self.random.choice([-1, 0, actor.generation + 1, 99])

    def instance(self, actor: GroupActor, carried: bool) -> str | None:
        if not carried:
            return None
        return actor.instance if self.chance(0.94) else self.random.choice(["i0", "i1", "i9", None])


def join(view: GroupView, actor: GroupActor) -> GroupQuestion:
    """A join: fresh, again, with other protocols, or wrong in one of the ways that are checked."""
    rng = view.random
    version = view.version(JoinGroupRequest, STATIC_FROM_JOIN if actor.instance else view.oldest_join)
    if view.chance(0.15):
        actor.protocols = rng.choices(PROTOCOLS, (6, 2, 2, 1))[0]
        actor.topics = rng.choice([(TOPIC,), (TOPIC, OTHER_TOPIC)])
    member = actor.member if view.chance(0.9) else rng.choice(["", "stranger", *actor.past])
    session_ms, kind, protocols = view.session_ms, "consumer", list(actor.protocols)
    match rng.choices(["right", "session", "kind", "none"], (0.95, 0.02, 0.015, 0.015))[0]:
        case "session":
            session_ms = rng.choice([1, 4_000_000])
        case "kind":
            kind = rng.choice(["connect", ""])
        case "none":
            protocols = []
    group, subscription = view.group_id(), encode_subscription(actor.topics)

    def make(side: GroupStorySide) -> Message:
        wanted = [JoinGroupRequestProtocol(p, subscription) for p in protocols]
        return JoinGroupRequest(
            group,
            session_ms,
            rebalance_timeout_ms=view.rebalance_ms,
            member_id=side.real(member),
            group_instance_id=actor.instance,
            protocol_type=kind,
            protocols=wanted,
            reason="because",
        )

    text = f"JoinGroup v{version} member={member!r} instance={actor.instance} {kind}:{','.join(protocols)}"
    return GroupQuestion(actor.name, make, version, f"{text} topics={'+'.join(actor.topics)} group={group!r}", member)


def sync(view: GroupView, actor: GroupActor) -> GroupQuestion:
    """A sync; the leader assigns, sometimes without one of the members."""
    version = view.version(SyncGroupRequest, STATIC_FROM_OTHERS if actor.instance else 0)
    member, generation = view.member_id(actor), view.generation_of(actor)
    shares = [m for m in view.members if view.chance(0.95)] if actor.member == view.leader else []
    kind: str | None = "consumer"
    protocol: str | None = view.protocol
    if view.chance(0.06):
        kind, protocol = view.random.choice([("consumer", None), ("connect", protocol), ("consumer", "nonsense")])
    instance, group = view.instance(actor, version >= STATIC_FROM_OTHERS), view.group_id()

    def make(side: GroupStorySide) -> Message:
        assigned = [SyncGroupRequestAssignment(side.real(m), m.encode()) for m in shares]
        return SyncGroupRequest(
            group,
            generation,
            member_id=side.real(member),
            group_instance_id=instance,
            protocol_type=kind,
            protocol_name=protocol,
            assignments=assigned,
        )

    text = f"SyncGroup v{version} generation={generation} member={member!r} instance={instance}"
    return GroupQuestion(actor.name, make, version, f"{text} {kind}/{protocol} shares={shares} group={group!r}", member)


def heartbeat(view: GroupView, actor: GroupActor) -> GroupQuestion:
    """Heartbeat of a member, or of one that is none."""
    version = view.version(HeartbeatRequest)
    member, generation, group = view.member_id(actor), view.generation_of(actor), view.group_id()
    instance = view.instance(actor, version >= STATIC_FROM_OTHERS)
    text = f"Heartbeat v{version} generation={generation} member={member!r} instance={instance} group={group!r}"
    return GroupQuestion(
        SHARED, lambda side: HeartbeatRequest(group, generation, side.real(member), instance), version, text
    )


def leave(view: GroupView, actor: GroupActor) -> GroupQuestion:
    """One member up to v2, a batch from v3."""
    version, group = view.version(LeaveGroupRequest), view.group_id()
    if version < BATCH_LEAVE_FROM:
        member = view.member_id(actor)
        make: MakeRequest = lambda side: LeaveGroupRequest(group, side.real(member))  # noqa: E731
        return GroupQuestion(SHARED, make, version, f"LeaveGroup v{version} member={member!r} group={group!r}")
    named = [actor, *view.random.sample(list(view.actors.values()), view.random.choice([0, 0, 0, 1]))]
    who = []
    for one in dict.fromkeys(a.name for a in named):
        other = view.actors[one]
        member = "" if other.instance and view.chance(0.4) else view.member_id(other)
        who.append((member, view.instance(other, carried=True)))

    def make_batch(side: GroupStorySide) -> Message:
        return LeaveGroupRequest(group, "", [MemberIdentity(side.real(m), i, "going") for m, i in who])

    return GroupQuestion(SHARED, make_batch, version, f"LeaveGroup v{version} members={who} group={group!r}")


def remove(view: GroupView, symbol: str) -> GroupQuestion:
    """Removes a member that is no actor's any more (an older id of an actor that joined again)."""
    version = min(view.versions[LeaveGroupRequest][1], BATCH_LEAVE_FROM - 1)
    version = max(version, view.versions[LeaveGroupRequest][0])

    def make(side: GroupStorySide) -> Message:
        return LeaveGroupRequest(view.group, side.real(symbol), [MemberIdentity(side.real(symbol))])

    return GroupQuestion(SHARED, make, version, f"LeaveGroup v{version} member={symbol!r} (nobody's)")


def commit(view: GroupView, actor: GroupActor) -> GroupQuestion:
    """A commit of some partitions; sometimes of a simple consumer, of no such topic, or with too long a text."""
    rng = view.random
    version = view.version(OffsetCommitRequest)
    if version >= IDS_FROM:
        version = IDS_FROM - 1  # ids differ on the two sides; the test of every version asks v10
    member, generation, instance = view.member_id(actor), view.generation_of(actor), None
    if version >= INSTANCE_FROM_COMMIT:
        instance = view.instance(actor, carried=True)
    if view.chance(0.15):
        member, generation, instance = "", -1, None
    topics, committed = [], []
    names = rng.choices([TOPIC, OTHER_TOPIC, NO_TOPIC], (8, 4, 0.3), k=rng.choice([1, 1, 2]))
    for name in dict.fromkeys(names):
        partition, offset = rng.randrange(PARTITIONS + view.chance(0.03)), rng.randrange(1000)
        text = "x" * rng.choice([0, 0, 0, 3, METADATA_MAX_BYTES, METADATA_MAX_BYTES + 1])
        topics.append(
            OffsetCommitRequestTopic(
                name, partitions=[OffsetCommitRequestPartition(partition, offset, 1, committed_metadata=text)]
            )
        )
        committed.append(f"{name}-{partition}={offset}/{len(text)}")
    group = view.group_id(view.group)

    def make(side: GroupStorySide) -> Message:
        return OffsetCommitRequest(group, generation, side.real(member), instance, -1, topics)

    who = f"generation={generation} member={member!r} instance={instance}"
    return GroupQuestion(SHARED, make, version, f"OffsetCommit v{version} {who} {' '.join(committed)} group={group!r}")


def fetch(view: GroupView, actor: GroupActor) -> GroupQuestion:
    """OffsetFetch of one group or, from version 8 on, of several; of named partitions or of all."""
    version, group = min(view.version(OffsetFetchRequest), IDS_FROM - 1), view.group_id(view.group)
    everything = version >= 2 and view.chance(0.6)
    names = [TOPIC, NO_TOPIC]
    if version >= SEVERAL_FETCH_FROM:
        topics = None if everything else [OffsetFetchRequestTopics(n, partition_indexes=[0, 1, 7]) for n in names]
        groups = [OffsetFetchRequestGroup(g, topics=topics) for g in dict.fromkeys([group, view.group])]
        request = OffsetFetchRequest(groups=groups, require_stable=view.chance(0.5))
    else:
        requested = None if everything else [OffsetFetchRequestTopic(n, [0, 1, 7]) for n in names]
        request = OffsetFetchRequest(group, requested, require_stable=version >= 7 and view.chance(0.5))
    return GroupQuestion(
        SHARED, lambda side: request, version, f"OffsetFetch v{version} all={everything} group={group!r}"
    )


def txn_commit(view: GroupView, actor: GroupActor) -> GroupQuestion:
    """Offsets in the transaction of the actor's producer; with the member's data from v3, sometimes wrong, or none."""
    version = min(view.version(TxnOffsetCommitRequest), TXN_NEWEST)
    member, generation, instance = "", -1, None
    if version >= STATIC_FROM_OTHERS and view.chance(0.7):
        member, generation, instance = (
            view.member_id(actor),
            view.generation_of(actor),
            view.instance(actor, carried=True),
        )
    partition, offset, length = (
        view.random.randrange(PARTITIONS),
        view.random.randrange(1000),
        view.random.choice([0, 3, 65]),
    )
    offsets = [TxnOffsetCommitRequestPartition(partition, offset, 1, "x" * length)]
    topics = [TxnOffsetCommitRequestTopic(TOPIC, partitions=offsets)]

    async def before(side: GroupStorySide) -> None:
        await side.transactions.begin(await side.connection(SHARED), actor.name, view.group)

    def make(side: GroupStorySide) -> Message:
        name = side.transactions.transactional_id(actor.name)
        who = side.transactions.producer(actor.name)
        return TxnOffsetCommitRequest(name, view.group, *who, generation, side.real(member), instance, topics)

    who = f"generation={generation} member={member!r} instance={instance}"
    text = f"TxnOffsetCommit v{version} producer={actor.name} {who} {TOPIC}-{partition}={offset}/{length}"
    return GroupQuestion(SHARED, make, version, text, before=before)


def txn_end(view: GroupView, actor: GroupActor) -> GroupQuestion:
    """Ends the actor's transaction, if it has one, and looks at the offsets."""
    committed = view.chance(0.6)
    stable = view.versions[OffsetFetchRequest][1] >= STABLE_FROM_FETCH

    async def before(side: GroupStorySide) -> None:
        if actor.name in side.transactions.open:
            await side.transactions.end(await side.connection(SHARED), actor.name, view.group, committed)

    request = OffsetFetchRequest(view.group, None, require_stable=stable)
    text = f"end of {actor.name}'s transaction: {'commit' if committed else 'abort'}, then OffsetFetch v7 of all"
    return GroupQuestion(SHARED, lambda side: request, STABLE_FROM_FETCH if stable else 6, text, before=before)


def describe(view: GroupView, actor: GroupActor) -> GroupQuestion:
    """DescribeGroups of the story's group or another."""
    version, group = view.version(DescribeGroupsRequest), view.group_id(view.group)
    return GroupQuestion(
        SHARED, lambda side: DescribeGroupsRequest([group]), version, f"DescribeGroups v{version} group={group!r}"
    )


def list_groups(view: GroupView, actor: GroupActor) -> GroupQuestion:
    """ListGroups with filters that exist and that do not."""
    version = view.version(ListGroupsRequest)
    states = [view.random.choice(["Stable", "EMPTY", "preparingrebalance", "Nonsense"])] if version >= 4 else []
    types = [view.random.choice(["classic", "Consumer"])] if version >= 5 and view.chance(0.5) else []
    return GroupQuestion(
        SHARED, lambda side: ListGroupsRequest(states, types), version, f"ListGroups v{version} {states} {types}"
    )


def delete_group(view: GroupView, actor: GroupActor) -> GroupQuestion:
    """DeleteGroups of the story's group or another."""
    version, group = view.version(DeleteGroupsRequest), view.group_id(view.group)
    return GroupQuestion(
        SHARED, lambda side: DeleteGroupsRequest([group]), version, f"DeleteGroups v{version} group={group!r}"
    )


def delete_offsets(view: GroupView, actor: GroupActor) -> GroupQuestion:
    """OffsetDelete of topics that the group has and has not."""
    version, group = view.version(OffsetDeleteRequest), view.group_id()
    names = view.random.choice([[TOPIC], [OTHER_TOPIC], [TOPIC, NO_TOPIC]])
    topics = [OffsetDeleteRequestTopic(n, [OffsetDeleteRequestPartition(p) for p in (0, 1)]) for n in names]
    return GroupQuestion(
        SHARED,
        lambda side: OffsetDeleteRequest(group, topics),
        version,
        f"OffsetDelete v{version} {names} group={group!r}",
    )


# kind of question -> (its maker, how often it is asked when nothing else is called for)
KINDS: dict[str, tuple[Callable[[GroupView, GroupActor], GroupQuestion], float]] = {
    "join": (join, 14),
    "sync": (sync, 9),
    "heartbeat": (heartbeat, 9),
    "leave": (leave, 4),
    "commit": (commit, 8),
    "fetch": (fetch, 5),
    "txn-commit": (txn_commit, 2),
    "txn-end": (txn_end, 1.6),
    "describe": (describe, 2),
    "list": (list_groups, 1),
    "delete": (delete_group, 1.2),
    "delete-offsets": (delete_offsets, 2),
}
REQUESTS: tuple[type[Message], ...] = (
    JoinGroupRequest,
    SyncGroupRequest,
    HeartbeatRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
    DeleteGroupsRequest,
    OffsetDeleteRequest,
    TxnOffsetCommitRequest,
)
