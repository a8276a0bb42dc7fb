"""Moves of random stories in which a client goes on for a while: a group's second generation, a static member that comes back,
members of both protocols in one group, a producer's second epoch, sequence numbers that start again from 0.
"""

from __future__ import annotations

from coterie.certify.question import Step, Value
from coterie_conformance.everything.topic_moves import (
    INITIALIZED,
    LAST_STABLE,
    STABLE,
    TXN,
    created,
    described,
    produced,
)

_G, _C = "$g{n}", "$c{n}"
_GROUP = {"group_id": "$g{n}"}
_STATIC = {"group_instance_id": "$i"}
_LAST_SEQUENCE = 2**31 - 1


def _id(symbol: str, otherwise: Value) -> Value:
    return {"@": "id", "of": symbol, "or": otherwise}


def _member(response: int) -> Value:
    """The member id in that answer to a JoinGroup of the move, from 0."""
    return _id(f"member@joingroup{{n}}.{response}", "")


def _joined(group: str, member: Value, *topics: str, **parts: Value) -> Step:
    wanted = {"@": "subscription", "topics": list(topics) or ["$t"], "version": 1}
    return "JoinGroup", {"group_id": group, "member_id": member, "protocols.metadata": wanted} | parts


def _as_member(api: str, group: str, member: Value, generation: int, **parts: Value) -> Step:
    """A request of a member in that generation, whatever the API calls it."""
    names = ("generation_id", "generation_id_or_member_epoch")
    return api, {"group_id": group, "member_id": member} | dict.fromkeys(names, generation) | parts


def _synced(group: str, member: Value, generation: int, **parts: Value) -> Step:
    return _as_member("SyncGroup", group, member, generation, **{"assignments.member_id": member}, **parts)


def _left(group: str, member: Value, **parts: Value) -> Step:
    inner = {f"members.{name}": value for name, value in {"member_id": member, **parts}.items()}
    return "LeaveGroup", {"group_id": group, "member_id": member} | inner


def _beat(member: str, epoch: int, group: str, **parts: Value) -> Step:
    return "ConsumerGroupHeartbeat", {"group_id": group, "member_id": member, "member_epoch": epoch} | parts


def _joins_again(before: int, after: int) -> list[Step]:
    """A classic member of a group of both protocols: it learns that it is to join, joins and synchronizes. Generations."""
    member = _member(0)
    return [_as_member("Heartbeat", _C, member, before), _joined(_C, member), _synced(_C, member, after)]


def _seen(group: str) -> tuple[Step, Step]:
    """The group as either protocol describes it."""
    return ("DescribeGroups", {"groups": [group]}), ("ConsumerGroupDescribe", {"group_ids": [group]})


def _id_of(topic: str) -> Value:
    return {"@": "topic id", "of": topic}


def _epoch(response: str) -> dict[str, Value]:
    """The producer's id and epoch in that answer to an InitProducerId of the move: "" the first, ".1" the second."""
    return {
        "producer_id": _id(f"producer@init{{n}}{response}", -1),
        "producer_epoch": _id(f"epoch@init{{n}}{response}", 0),
    }


def _written(response: str, sequence: int, *, transactional: bool, records: int = 2) -> Step:
    epoch = _epoch(response)
    batch = {"producer": epoch["producer_id"], "epoch": epoch["producer_epoch"], "sequence": sequence}
    return produced(*(["k", str(n), -1000] for n in range(records)), transactional=transactional, **batch)


def _in_epoch(response: str, *, committed: bool) -> list[Step]:
    """A whole transaction, of records and of offsets, in the epoch of that answer."""
    epoch = _epoch(response)
    both = {f"transactions.{name}": value for name, value in (TXN | epoch).items()}
    offsets = {"group_id": "$o{n}", "generation_id_or_member_epoch": -1, "member_id": ""}
    return [
        ("AddPartitionsToTxn", TXN | epoch | both | {"topics.name": "$n{n}", "transactions.topics.name": "$n{n}"}),
        _written(response, 0, transactional=True),
        ("AddOffsetsToTxn", TXN | epoch | {"group_id": "$o{n}"}),
        ("TxnOffsetCommit", TXN | epoch | offsets),
        ("EndTxn", TXN | epoch | {"committed": committed}),
        LAST_STABLE,
        STABLE,
        ("OffsetFetch", {"group_id": "$o{n}", "groups.group_id": "$o{n}"}),
    ]


# The first member of each group is classic; it joins by the id that the first response gives.
_JOINS = [_joined(_C, ""), _joined(_C, _member(0))]
# The consumer of a group of both protocols: who gets which partition depends on the order of the ids, and each broker makes
# those of the classic members. This one is behind all of them.
_LAST = "~$m"
CLIENT_MOVES: dict[str, tuple[float, list[Step]]] = {
    "next generation": (
        2,
        [
            _joined(_G, ""),
            _joined(_G, _member(0)),
            _synced(_G, _member(0), 1),
            _joined(_G, _member(0), "$t", "$u"),
            *(_as_member("Heartbeat", _G, _member(0), generation) for generation in (1, 2)),
            _synced(_G, _member(0), 1),
            _synced(_G, _member(0), 2),
            *(_as_member("Heartbeat", _G, _member(0), generation) for generation in (1, 2)),
            *(_as_member("OffsetCommit", _G, _member(0), generation) for generation in (1, 2)),
            INITIALIZED,
            ("AddOffsetsToTxn", TXN | _GROUP),
            *(_as_member("TxnOffsetCommit", _G, _member(0), generation, **TXN) for generation in (1, 2)),
            ("OffsetFetch", {"groups.group_id": _G, "group_id": _G, "require_stable": True}),
            ("EndTxn", TXN),
            ("OffsetDelete", _GROUP | {"topics.name": "$u"}),
            ("ListGroups", {"states_filter": ["Stable"]}),
            ("DescribeGroups", {"groups": [_G]}),
            _joined(_G, _member(0), "$u", **{"protocols.name": "sticky"}),
            _synced(_G, _member(0), 3, protocol_name="sticky"),
            _as_member("Heartbeat", _G, _member(0), 3),
            ("DescribeGroups", {"groups": [_G]}),
            _left(_G, _member(0)),
            ("OffsetFetch", {"groups.group_id": _G, "group_id": _G, "topics": None, "groups.topics": None}),
        ],
    ),
    "static member": (
        2,
        [
            _joined(_G, "", **_STATIC),
            _synced(_G, _member(0), 1, **_STATIC),
            _as_member("Heartbeat", _G, _member(0), 1, **_STATIC),
            _joined(_G, "", **_STATIC),
            *(_as_member("Heartbeat", _G, _member(response), 1, **_STATIC) for response in (0, 1)),
            *(_as_member("OffsetCommit", _G, _member(response), 1, **_STATIC) for response in (0, 1)),
            *(_synced(_G, _member(response), 1, **_STATIC) for response in (0, 1)),
            INITIALIZED,
            ("AddOffsetsToTxn", TXN | _GROUP),
            *(_as_member("TxnOffsetCommit", _G, _member(response), 1, **TXN, **_STATIC) for response in (0, 1)),
            ("EndTxn", TXN),
            _joined(_G, _member(0), **_STATIC),
            _joined(_G, "", "$t", "$u", **_STATIC),
            _synced(_G, _member(3), 2, **_STATIC),
            ("DescribeGroups", {"groups": [_G]}),
            _left(_G, "", group_instance_id="$nobody"),
            _left(_G, _member(0), **_STATIC),
            _left(_G, "", **_STATIC),
            ("DescribeGroups", {"groups": [_G]}),
        ],
    ),
    "classic member of a consumer group": (
        2,
        [
            _beat(_LAST, 0, _C, topic_partitions=[]),
            _beat(_LAST, 2, _C),
            *_JOINS,
            *_seen(_C),
            _beat(_LAST, 2, _C),
            _synced(_C, _member(0), 3),
            _as_member("Heartbeat", _C, _member(0), 3),
            _beat(_LAST, 3, _C, topic_partitions=[]),
            *_joins_again(3, 3),
            _as_member("OffsetCommit", _C, _member(0), 3),
            _as_member("Heartbeat", _C, _member(0), 2),
            *_seen(_C),
            _beat(_LAST, -1, _C),
            *_seen(_C),
            _as_member("Heartbeat", _C, _member(0), 3),
            _joined(_C, _member(0)),
            _left(_C, _member(0)),
            *_seen(_C),
        ],
    ),
    "consumer of a classic group": (
        2,
        [
            *_JOINS,
            _synced(_C, _member(0), 1),
            _as_member("OffsetCommit", _C, _member(0), 1),
            _beat(_LAST, 0, _C, topic_partitions=[]),
            *_seen(_C),
            *_joins_again(1, 2),
            _as_member("Heartbeat", _C, _member(0), 2),
            _beat(_LAST, 2, _C, topic_partitions=[]),
            *_seen(_C),
            _left(_C, _member(0)),
            _beat(_LAST, 2, _C),
            *_seen(_C),
            ("OffsetFetch", {"groups.group_id": _C, "group_id": _C, "topics": None, "groups.topics": None}),
            _beat(_LAST, -1, _C),
            _joined(_C, ""),
            *_seen(_C),
        ],
    ),
    "transaction of a consumer": (
        2,
        [
            _as_member("TxnOffsetCommit", _C, "$m", 2, **TXN),
            _beat("$m", 0, _C, topic_partitions=[]),
            _beat("$m", 2, _C),
            INITIALIZED,
            ("AddOffsetsToTxn", TXN | {"group_id": _C}),
            *(_as_member("TxnOffsetCommit", _C, member, epoch, **TXN) for member in ("$m", "$l") for epoch in (2, 3, 1)),
            _beat("$m", 2, _C, subscribed_topic_names=["$t", "$u"]),
            *(_as_member("TxnOffsetCommit", _C, "$m", epoch, **TXN) for epoch in (3, 2, 1)),
            _as_member("TxnOffsetCommit", _C, "$m", 2, **TXN | {"topics.name": "$u", "topics.topic_id": _id_of("$u")}),
            ("EndTxn", TXN),
            ("OffsetFetch", {"groups.group_id": _C, "group_id": _C, "require_stable": True}),
        ],
    ),
    "next epoch": (
        2,
        [
            created(),
            INITIALIZED,
            INITIALIZED,
            *_in_epoch(".1", committed=True),
            ("InitProducerId", TXN | _epoch(".1")),
            *_in_epoch(".2", committed=False),
            ("InitProducerId", TXN | _epoch(".1")),
            described(),
        ],
    ),
    "sequences from 0 again": (
        1,
        [
            created(),
            ("InitProducerId", {"transactional_id": None}),
            *(_written("", sequence, transactional=False) for sequence in (_LAST_SEQUENCE - 1, 0, _LAST_SEQUENCE - 1, 2, 0)),
            ("InitProducerId", {"transactional_id": None}),
            _written(".1", _LAST_SEQUENCE - 1, transactional=False, records=4),
            *(_written(".1", sequence, transactional=False) for sequence in (_LAST_SEQUENCE, 3, 2, 4)),
            described(),
            STABLE,
        ],
    ),
    "names that collide": (
        0.5,
        [
            ("CreateTopics", {"topics.name": "$n{n}.x"}),
            ("CreateTopics", {"topics.name": "$n{n}_x"}),
            ("CreateTopics", {"topics.name": "$n{n}_x.y"}),
            (
                "CreateTopics",
                {
                    "topics": [
                        {"name": f"$n{{n}}{end}", "num_partitions": 1, "replication_factor": 1} for end in (".y", "_x", ".z")
                    ]
                },
            ),
            ("Metadata", {"topics": [{"name": f"$n{{n}}{end}"} for end in (".x", "_x", ".y", ".z")]}),
        ],
    ),
    "pages": (
        0.5,
        [
            ("CreateTopics", {"topics.name": "$n{n}", "topics.num_partitions": 5}),
            *(
                (
                    "DescribeTopicPartitions",
                    {
                        "topics": [{"name": name} for name in ("$u", "$nowhere", "$n{n}", "$t")],
                        "response_partition_limit": limit,
                        "cursor": None if topic is None else {"topic_name": topic, "partition_index": first},
                    },
                )
                for limit, topic, first in (
                    (3, None, 0),
                    (3, "$n{n}", 3),
                    (1, "$n{n}", 4),
                    (3, "$nowhere", 0),
                    (2, "$t", 1),
                    (3, "$other", 2),
                    (9, "$u", 7),
                )
            ),
        ],
    ),
}  # fmt: skip
