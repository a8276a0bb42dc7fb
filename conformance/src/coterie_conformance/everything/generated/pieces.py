"""The prerequisites of a story: topics with records, members, offsets, transactions, by the needs of each api's cases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from coterie.certify.question import API_BY_NAME, Question, Value
from coterie.wire.fields import Versions
from coterie_conformance.everything.generated.domain import Names
from coterie_conformance.everything.generated.pieces_of_groups import GROUP_BEFORE, GROUP_FIXTURES, GROUP_PIECES

Common = Mapping[str, Versions]  # api -> the versions that both sides and we speak
PRODUCER = {"@": "id", "of": "producer@{producer}", "or": -1}
# The requests of a piece of a story: (api, newest version used, body), with the names' fields in braces.
PIECES: dict[str, list[tuple[str, str, int, dict[str, Value]]]] = {
    "topic": [
        (
            "create {topic}",
            "CreateTopics",
            4,
            {"topics": [{"name": "{topic}", "num_partitions": 2, "replication_factor": 1}]},
        ),
        ("look {topic}", "Metadata", 12, {"topics": [{"name": "{topic}"}], "allow_auto_topic_creation": False}),
    ],
    "records": [
        (
            "fill {topic} " + str(p),
            "Produce",
            7,
            {
                "acks": -1,
                "timeout_ms": 5000,
                "topic_data": [
                    {
                        "name": "{topic}",
                        "partition_data": [
                            {
                                "index": p,
                                "records": {
                                    "@": "records",
                                    "batches": [
                                        {
                                            "records": [
                                                ["a", "1", -3000],
                                                [None, "2", -2000],
                                                ["c", None, -1000, [["h", "x"]]],
                                            ]
                                        }
                                    ],
                                },
                            }
                        ],
                    }
                ],
            },
        )
        for p in (0, 1)
    ],
    "member": [
        (
            "{member}",
            "JoinGroup",
            3,
            {
                "group_id": "{group}",
                "session_timeout_ms": 60_000,
                "rebalance_timeout_ms": 10_000,
                "protocol_type": "consumer",
                "protocols": [
                    {"name": "range", "metadata": {"@": "subscription", "topics": ["{topic}"], "version": 1}}
                ],
            },
        ),
    ],
    "synced": [
        (
            "sync {member}",
            "SyncGroup",
            2,
            {
                "group_id": "{group}",
                "generation_id": 1,
                "member_id": {"@": "id", "of": "member@{member}"},
                "assignments": [
                    {
                        "member_id": {"@": "id", "of": "member@{member}"},
                        "assignment": {"@": "assignment", "topics": {"{topic}": [0]}},
                    }
                ],
            },
        ),
    ],
    "offsets": [
        (
            "commit {group}",
            "OffsetCommit",
            6,
            {
                "group_id": "{group}",
                "topics": [
                    {
                        "name": "{topic}",
                        "partitions": [{"partition_index": 0, "committed_offset": 1, "committed_metadata": "m"}],
                    }
                ],
            },
        ),
    ],
    "producer": [
        ("{producer}", "InitProducerId", 1, {"transactional_id": "{txn}", "transaction_timeout_ms": 60_000}),
    ],
    "transaction": [
        (
            "add {txn}",
            "AddPartitionsToTxn",
            1,
            {"transactional_id": "{txn}", "producer_id": PRODUCER, "topics": [{"name": "{topic}", "partitions": [0]}]},
        ),
    ],
    "group in transaction": [
        (
            "add group {txn}",
            "AddOffsetsToTxn",
            1,
            {"transactional_id": "{txn}", "producer_id": PRODUCER, "group_id": "{group}"},
        ),
    ],
    "folders": [("folders", "DescribeLogDirs", 4, {"topics": None})],
    "cluster": [("the cluster", "DescribeCluster", 0, {})],
    "credential": [
        (
            "credential",
            "AlterUserScramCredentials",
            0,
            {
                "upsertions": [
                    {
                        "name": "$v",
                        "mechanism": 1,
                        "iterations": 8192,
                        "salt": {"@": "hex", "of": "00ff"},
                        "salted_password": {"@": "hex", "of": "cd" * 32},
                    }
                ]
            },
        ),
    ],
    "quota": [
        (
            "quota",
            "AlterClientQuotas",
            1,
            {
                "entries": [
                    {
                        "entity": [{"entity_type": "user", "entity_name": "$q"}],
                        "ops": [{"key": "consumer_byte_rate", "value": 2048.0}],
                    },
                    {
                        "entity": [
                            {"entity_type": "user", "entity_name": "$q"},
                            {"entity_type": "client-id", "entity_name": "$c"},
                        ],
                        "ops": [{"key": "request_percentage", "value": 50.5}],
                    },
                ]
            },
        ),
    ],
    "consumer": [
        (
            "consumer {group}",
            "ConsumerGroupHeartbeat",
            1,
            {
                "group_id": "{group}",
                "member_id": "$m",
                "member_epoch": 0,
                "rebalance_timeout_ms": 6_000,
                "subscribed_topic_names": ["{topic}"],
                "topic_partitions": [],
            },
        ),
    ],
    **GROUP_PIECES,
}
TOPIC = ("topic", "records")
MEMBER = ("topic", "member", "synced")
FIXTURES: dict[str, tuple[str, ...]] = {
    "Heartbeat": MEMBER,
    "DescribeGroups": MEMBER,
    "OffsetCommit": MEMBER,
    "ListGroups": MEMBER,
    "OffsetFetch": ("topic", "offsets"),
    "FindCoordinator": (),
    "ApiVersions": ("cluster",),
    "DescribeCluster": (),
    "InitProducerId": ("producer",),
    "JoinGroup": (),
    "SyncGroup": (),
    "LeaveGroup": (),
    "DeleteGroups": ("topic",),
    "DeleteTopics": (),
    "CreatePartitions": (),
    "CreateTopics": ("topic",),
    "AddPartitionsToTxn": ("topic", "producer"),
    "AddOffsetsToTxn": ("topic", "producer"),
    "EndTxn": ("topic",),
    "TxnOffsetCommit": ("topic", "member", "synced", "producer", "group in transaction"),
    "DescribeTransactions": ("topic", "producer", "transaction"),
    "ListTransactions": ("topic", "producer", "transaction"),
    "OffsetDelete": ("topic",),
    "DeleteRecords": (),
    "WriteTxnMarkers": ("topic", "producer", "transaction"),
    "AlterReplicaLogDirs": ("topic", "folders"),
    "AlterClientQuotas": ("quota",),
    "DescribeClientQuotas": ("quota",),
    "AlterUserScramCredentials": ("credential",),
    "DescribeUserScramCredentials": ("credential",),
    "ConsumerGroupHeartbeat": ("topic",),
    "ConsumerGroupDescribe": ("topic", "consumer"),
    **GROUP_FIXTURES,
}
BEFORE: dict[str, tuple[tuple[str, ...], Names]] = {
    "JoinGroup": ((), Names(group="$g{n}", member="nobody{n}")),
    "SyncGroup": (("member",), Names(group="$g{n}", member="join{n}")),
    "LeaveGroup": (("member",), Names(group="$g{n}", member="join{n}")),
    "DeleteGroups": (("offsets",), Names(group="$g{n}")),
    "OffsetDelete": (("offsets",), Names(group="$g{n}")),
    "DeleteTopics": (("topic",), Names(topic="$d{n}")),
    "CreateTopics": ((), Names(new_topic="$n{n}")),
    "CreatePartitions": (("topic",), Names(topic="$d{n}")),
    "DeleteRecords": (TOPIC, Names(topic="$d{n}")),
    "EndTxn": (("producer", "transaction"), Names(txn="$x{n}", producer="init{n}")),
    "ConsumerGroupHeartbeat": (("consumer",), Names(group="$g{n}")),
    **GROUP_BEFORE,
}


def piece(name: str, names: Names, common: Common) -> Iterator[Question]:
    """The questions of one piece, in the newest version that both speak, up to the piece's own."""
    for text, api, newest, body in PIECES[name]:
        if api in common:
            version = max(min(newest, common[api].last), common[api].first)
            known = {spec.name for spec in API_BY_NAME[api].request.fields if version in spec.versions}
            filled = {k: v for k, v in _filled(body, names).items() if k in known}
            yield Question(_filled(text, names), api, version, filled)


def _filled(value: Any, names: Names) -> Any:
    if isinstance(value, str):
        for part in ("topic", "group", "member", "txn", "producer"):
            value = value.replace("{" + part + "}", getattr(names, part))
        return value
    if isinstance(value, list):
        return [_filled(item, names) for item in value]
    return {_filled(k, names): _filled(v, names) for k, v in value.items()} if isinstance(value, dict) else value
