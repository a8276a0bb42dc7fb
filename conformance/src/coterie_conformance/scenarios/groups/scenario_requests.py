"""The scenario language's requests: from an actor and a step's words to the message that is sent.

A step is `verb actor word... name=value...`; each function here lists the names that it reads. A dash stands for the empty
string.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from coterie.assignors.blobs import encode_subscription
from coterie.coordinator.commands import Command, DeleteGroup
from coterie.laboratory.brokers.consumer_broker_actor import topic_id_of
from coterie.wire.messages.groups.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from coterie.wire.messages.groups.heartbeat import HeartbeatRequest
from coterie.wire.messages.groups.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from coterie.wire.messages.groups.leave_group import LeaveGroupRequest, MemberIdentity
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
from coterie.wire.messages.groups.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from coterie.wire.messages.stored.consumer_protocol import ConsumerProtocolAssignment
from coterie.wire.messages.stored.consumer_protocol import TopicPartitions as TopicPartitionsOfAssignment
from coterie.wire.messages.transactions.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

Options = dict[str, str]


@dataclass(slots=True)
class RequestActor:
    """A client of the group with the ids and generation of its last responses."""

    member_id: str = ""
    generation: int = -1
    instance: str | None = None
    transactional_id: str = ""
    producer_id: int = -1
    producer_epoch: int = -1


Actors = Mapping[str, RequestActor]


def plain(text: str) -> str:
    """A dash stands for the empty string."""
    return "" if text == "-" else text


def _group(options: Options) -> str:
    return plain(options.get("group", "g"))


def _member(actor: RequestActor, options: Options) -> str:
    return plain(options.get("member", actor.member_id))


def join(actor: RequestActor, actors: Actors, words: list[str], options: Options) -> Command:
    """`join a protocols=range:t+u,roundrobin type=consumer session=10000 rebalance=60000 instance=i`; `range:t@3` is a
    subscription that names generation 3, `range:t~1` one that names version 1 and has the fields of version 0,
    `range:t!t-0+t-1` one that names owned partitions."""
    if "instance" in options:
        actor.instance = options["instance"]
    protocols = []
    for item in options.get("protocols", "range").split(","):
        name, _, metadata = item.partition(":")
        metadata, _, named_version = metadata.partition("~")
        metadata, _, owns = metadata.partition("!")
        topics, _, generation = metadata.partition("@")
        owned = by_topic(owns.split("+")) if owns else None
        subscription = encode_subscription(topics.split("+") if topics else ["t"], owned, int(generation or -1))
        if named_version:
            oldest = encode_subscription(topics.split("+"), version=0)
            subscription = int(named_version).to_bytes(2, "big", signed=True) + oldest[2:]
        protocols.append(JoinGroupRequestProtocol(name, b"junk" if metadata == "junk" else subscription))
    return JoinGroupRequest(
        group_id=_group(options),
        session_timeout_ms=int(options.get("session", 10_000)),
        rebalance_timeout_ms=int(options.get("rebalance", 60_000)),
        member_id=_member(actor, options),
        group_instance_id=actor.instance,
        protocol_type=plain(options.get("type", "consumer")),
        protocols=[] if options.get("protocols") == "-" else protocols,
    )


def sync(actor: RequestActor, actors: Actors, words: list[str], options: Options) -> Command:
    """`sync a assign=a:x,b:y type=consumer protocol=range`; `assigned=a:t-0+t-1 user-data=x` in Kafka's own format."""
    assignments = []
    for item in filter(None, options.get("assigned", "").split(",")):
        name, _, share = item.partition(":")
        partitions = [TopicPartitionsOfAssignment(t, p) for t, p in by_topic(share.split("+")).items()]
        user_data = options["user-data"].encode() if "user-data" in options else None
        blob = b"\0\0" + ConsumerProtocolAssignment(partitions, user_data).encode(0)
        assignments.append(SyncGroupRequestAssignment(actors[name].member_id, blob))
    for item in filter(None, options.get("assign", "").split(",")):
        name, _, share = item.partition(":")
        member_id = actors[name].member_id if name in actors else name
        assignments.append(SyncGroupRequestAssignment(member_id, share.encode()))
    return SyncGroupRequest(
        group_id=_group(options),
        generation_id=int(options.get("generation", actor.generation)),
        member_id=_member(actor, options),
        group_instance_id=options.get("instance", actor.instance),
        protocol_type=options.get("type"),
        protocol_name=options.get("protocol"),
        assignments=assignments,
    )


def heartbeat(actor: RequestActor, actors: Actors, words: list[str], options: Options) -> Command:
    """`heartbeat a generation=3`; generation, member and instance are the actor's own by default."""
    generation = int(options.get("generation", actor.generation))
    instance = options.get("instance", actor.instance)
    return HeartbeatRequest(_group(options), generation, _member(actor, options), instance)


def leave(actor: RequestActor, actors: Actors, words: list[str], options: Options) -> Command:
    """`leave a`; `leave admin members=a,/i1,x/i2`: actor or member id, before a slash; instance id after it."""
    identities = [MemberIdentity(actor.member_id, actor.instance)]
    if "members" in options:
        identities = []
        for item in options["members"].split(","):
            name, _, instance = item.partition("/")
            member_id = actors[name].member_id if name in actors else plain(name)
            identities.append(MemberIdentity(member_id, instance or None))
    return LeaveGroupRequest(_group(options), identities[0].member_id, identities)


def _offsets(options: Options) -> Iterator[tuple[str, int, int, int, str]]:
    """Topic, partition, offset, leader epoch and text of every `t-0=5`; `metadata=`, `metadata-size=` are the text, the
    latter of topic t only, so that one partition's text can be too long and another's not."""
    for name, value in options.items():
        topic, dash, partition = name.rpartition("-")
        if dash and partition.isdigit():
            text = options.get("metadata", "")
            if topic == "t" and "metadata-size" in options:
                text = "x" * int(options["metadata-size"])
            yield topic, int(partition), int(value), int(options.get("epoch", -1)), text


def commit(actor: RequestActor, actors: Actors, words: list[str], options: Options) -> Command:
    """`commit a t-0=5 t-1=7`; `commit simple t-0=5 generation=-1 member=- metadata=x`."""
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for topic, partition, offset, epoch, text in _offsets(options):
        topics.setdefault(topic, []).append(
            OffsetCommitRequestPartition(partition, offset, epoch, committed_metadata=text)
        )
    return OffsetCommitRequest(
        _group(options),
        int(options.get("generation", actor.generation)),
        _member(actor, options),
        options.get("instance", actor.instance),
        int(options.get("retention", -1)),
        [OffsetCommitRequestTopic(t, partitions=p) for t, p in topics.items()],
    )


def txn_commit(actor: RequestActor, actors: Actors, words: list[str], options: Options) -> Command:
    """`txn-commit a t-0=5`; like commit, in the actor's transaction. `producer=1 producer-epoch=2 id=x`: another's."""
    producer_id = int(options.get("producer", actor.producer_id))
    producer_epoch = 0 if "producer" in options else actor.producer_epoch
    topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
    for topic, partition, offset, epoch, text in _offsets(options):
        topics.setdefault(topic, []).append(TxnOffsetCommitRequestPartition(partition, offset, epoch, text))
    return TxnOffsetCommitRequest(
        transactional_id=plain(options.get("id", actor.transactional_id or f"txn-{producer_id}")),
        group_id=_group(options),
        producer_id=producer_id,
        producer_epoch=int(options.get("producer-epoch", producer_epoch)),
        generation_id_or_member_epoch=int(options.get("generation", actor.generation)),
        member_id=_member(actor, options),
        group_instance_id=options.get("instance", actor.instance),
        topics=[TxnOffsetCommitRequestTopic(t, partitions=p) for t, p in topics.items()],
    )


def by_topic(names: Iterable[str]) -> dict[str, list[int]]:
    """`t-0`, `t-1` as t: [0, 1]."""
    grouped: dict[str, list[int]] = {}
    for topic, _, partition in (name.rpartition("-") for name in names):
        grouped.setdefault(topic, []).append(int(partition))
    return grouped


def member(actor: RequestActor, actors: Actors, words: list[str], options: Options) -> Command:
    """`member a join topics=t+u regex=t.* owns=t-0+t-1 rebalance=60000 instance=i rack=r assignor=range epoch=3 member=x`; also
    `member a full`, `member a leave`, `member a leave-static`. A dash is the empty list or string, `null` none at all."""
    kind = words[0] if words else ""
    if kind == "join" and ("id" in options or not actor.member_id):
        actor.member_id = plain(options.get("id", f"{options['actor']}-1"))
    if kind in ("join", "full"):
        options = {"topics": "null" if "regex" in options else "t", "rebalance": "60000", "owns": "-", **options}
    if "instance" in options:
        actor.instance = None if options["instance"] == "null" else plain(options["instance"])
    epochs = {"join": 0, "leave": -1, "leave-static": -2}
    owns = _list(options.get("owns", "null"))
    owned = [TopicPartitions(topic_id_of(t), partitions) for t, partitions in by_topic(owns or ()).items()]
    regex = options.get("regex", "null")
    return ConsumerGroupHeartbeatRequest(
        _group(options),
        _member(actor, options),
        member_epoch=int(options.get("epoch", epochs.get(kind, actor.generation))),
        instance_id=actor.instance,
        rack_id=plain(options["rack"]) if "rack" in options else None,
        rebalance_timeout_ms=int(options.get("rebalance", -1)),
        subscribed_topic_names=_list(options.get("topics", "null")),
        subscribed_topic_regex=None if regex == "null" else plain(regex),
        server_assignor=options.get("assignor"),
        topic_partitions=None if owns is None else owned,
    )


def _list(text: str) -> list[str] | None:
    if text == "null":
        return None
    return [] if text == "-" else text.split("+")


def delete(actor: RequestActor, actors: Actors, words: list[str], options: Options) -> Command:
    """`delete admin group=g`."""
    return DeleteGroup(_group(options))


def delete_offsets(actor: RequestActor, actors: Actors, words: list[str], options: Options) -> Command:
    """`delete-offsets admin t-0 t-1`."""
    topics: dict[str, list[OffsetDeleteRequestPartition]] = {}
    for word in words:
        topic, _, partition = word.rpartition("-")
        topics.setdefault(topic, []).append(OffsetDeleteRequestPartition(int(partition)))
    return OffsetDeleteRequest(_group(options), [OffsetDeleteRequestTopic(t, p) for t, p in topics.items()])


# verb -> (its request, the version it is sent in)
REQUESTS: dict[str, tuple[Callable[[RequestActor, Actors, list[str], Options], Command], int]] = {
    "member": (member, 1),
    "join": (join, 8),
    "sync": (sync, 5),
    "heartbeat": (heartbeat, 4),
    "leave": (leave, 5),
    "commit": (commit, 8),
    "txn-commit": (txn_commit, 3),
    "delete": (delete, 2),
    "delete-offsets": (delete_offsets, 0),
}
WITHOUT_ACTOR = frozenset({"delete", "delete-offsets"})  # sent by "admin"
