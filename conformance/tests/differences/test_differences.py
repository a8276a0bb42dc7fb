"""A row of the table of known differences explains what it is about, and nothing beside it."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.certify.question import API_BY_NAME, Question
from coterie.certify.responses import differences
from coterie_conformance.differences.recognisers import DifferingPart
from coterie_conformance.differences.table import ROWS, row_of

FAULT = {"error_code": "UNKNOWN_SERVER_ERROR"}
FINE = {"error_code": "NONE"}
SETTING = {"resources": [{"configs": [{"name": "segment.bytes", "value": "1024"}]}]}
PATTERN = {"resources": [{"resource_type": 16, "configs": [{"name": "match", "value": ""}]}]}
REFUSED = {"responses": [{"error_code": "INVALID_CONFIG"}]}
TAKEN = {"responses": [{"error_code": "NONE"}]}
MIXED = {"group_id": "$c1", "protocol_type": "consumer"}
EMPTY, JOINED = {"group_id": "$g", "protocol_type": ""}, {"group_id": "$g", "protocol_type": "consumer"}
BEGUN_ANEW = FINE | {"generation_id": 3}, FINE | {"generation_id": 1}
WITHOUT_ID = (
    {"error_code": "NONE", "responses": [{"topic_id": "none", "partitions": [{}]}]},
    {"error_code": "UNKNOWN_SERVER_ERROR"},
)
UNKNOWN, FENCED = {"error_code": "UNKNOWN_MEMBER_ID"}, {"error_code": "PRODUCER_FENCED"}
ABORTED = [
    {
        "responses": [
            {"topic": "$t", "partitions": [{"partition_index": 0, "records": [], "aborted_transactions": aborted}]}
        ]
    }
    for aborted in ([], [{"producer_id": "producer@init", "first_offset": 3}])
]
ABORTED_AGAIN = [
    {"responses": [{"partitions": [{"records": [], "aborted_transactions": aborted}]}]}
    for aborted in (
        [{"producer_id": "producer@init", "first_offset": 0}],
        [{"producer_id": "producer@init", "first_offset": 0}, {"producer_id": "producer@init", "first_offset": 3}],
    )
]
CONVERTED = [{"responses": [{"partitions": [{"records": [1, 2, 3][:count]}]}]} for count in (3, 1)]
COMPRESSED = [{"responses": [{"partitions": [{"records": [{"codec": 1}] * count}]}]} for count in (3, 1)]
KEYLESS = {"topic_data": [{"partition_data": [{"records": {"batches": [{"records": [[None, "w"]]}]}}]}]}
WRITTEN = [
    {"responses": [{"name": "$t", "partition_responses": [{"index": 0, "error_code": error}]}]}
    for error in ("INVALID_RECORD", "NONE")
]
UNVERIFIED, WORDED = (
    [
        {"responses": [{"partition_responses": [{"error_code": error, "error_message": words}]}]}
        for error, words in (("INVALID_TXN_STATE", "a text"), (other, None))
    ]
    for other in ("TRANSACTION_ABORTABLE", "INVALID_TXN_STATE")
)
COMMITTED = [
    {"topics": [{"name": "$t", "partitions": [{"partition_index": 0, "error_code": error}]}]}
    for error in ("GROUP_ID_NOT_FOUND", "UNKNOWN_MEMBER_ID")
]
MARKED = [
    {"responses": [{"partitions": [{"records": [{"offset": 3, "control": True}], "aborted_transactions": aborted}]}]}
    for aborted in ([], [{"producer_id": "producer@init", "first_offset": 3}])
]
STARTED, ONGOING = (
    [
        {
            "transaction_states": [
                {"transactional_id": "$x", "transaction_state": state, "transaction_start_time_ms": start}
            ]
        }
        for start in (-1, "about now")
    ]
    for state in ("Empty", "Ongoing")
)
DROPPED = [
    {"groups": [{"group_id": "$g", "group_state": "Empty", "protocol_type": "connect"}]},
    {"groups": [{"group_id": "$g", "group_state": "Dead", "protocol_type": ""}]},
]
OLD, NOTHING = (
    {"responses": [{"partitions": [{"records": records}]}]} for records in ([{"offset": 0, "magic": 1}], [])
)
NUMBERED = [
    {"transaction_states": [{"transactional_id": "$x", "topics": [{"topic": "$t", "partitions": partitions}]}]}
    for partitions in ([0, 1], [1, 0])
]
OTHERS = {"transaction_states": [{"transactional_id": "$x", "topics": [{"topic": "$t", "partitions": [1, 2]}]}]}
UNCOMPRESSED = [
    {"responses": [{"partitions": [{"partition_index": 0, "error_code": error}]}]}
    for error in ("UNSUPPORTED_COMPRESSION_TYPE", "NONE")
]
CREDENTIALS = [
    {"results": [{"user": "$s", "credential_infos": [{"mechanism": m, "iterations": 4096 * m} for m in order]}]}
    for order in ((1, 2), (2, 1))
]
EMPTIED, STILL_THERE, FORGOTTEN = (
    {"groups": [{"group_id": "$g", "error_code": error, "group_state": state}]}
    for error, state in (("NONE", "Empty"), ("NONE", "Stable"), ("GROUP_ID_NOT_FOUND", ""))
)
BY_IDS, BY_NAME = (
    [
        {
            "groups": [
                {
                    "group_id": "$c",
                    "group_state": "Stable",
                    "members": [
                        {
                            "member_id": member,
                            "assignment": {"topic_partitions": [{"topic_name": "$t", "partitions": [partition]}]},
                        }
                        for member, partition in zip(members, partitions, strict=True)
                    ],
                }
            ]
        }
        for partitions in ([0, 1], [1, 0])
    ]
    for members in (("member@joingroup0.0", "member@joingroup0.1"), ("~$m", "member@joingroup0.0"))
)
TRANSACTIONAL = {"records": {"batches": [{"transactional": True}]}}
TWICE = [{"responses": [{"partitions": [{"records": records}]}]} for records in ([1, 2], [1, 1, 2])]
COMMITS = [
    {"topics": [{"name": "$t", "partitions": [{"partition_index": p, "error_code": "NONE"} for p in order]}]}
    for order in ((0, 1), (1, 0))
]
PAGES = [{"next_cursor": {"topic_name": name, "partition_index": 1}} for name in ("$t", "e000168-n4")]
OF_NO_MEMBER = [
    {"groups": [{"group_id": "$c", "error_code": error}]} for error in ("UNKNOWN_MEMBER_ID", "UNKNOWN_SERVER_ERROR")
]
OF_OLD_EPOCH = [
    {"responses": [{"partition_responses": [{"error_code": error}]}]}
    for error in ("INVALID_PRODUCER_EPOCH", "INVALID_PRODUCER_ID_MAPPING")
]
TWO = [{"name": "$t"}, {"name": "$u"}]


def _led(topic: str) -> list[dict[str, Any]]:
    """A topic of leader epoch 0, and of 1."""
    partitions = [[{"partition_index": 0, "leader_epoch": epoch}] for epoch in (0, 1)]
    return [{"topics": [{"name": topic, "partitions": each}]} for each in partitions]


def _claimed(code: str, ours: str = "INVALID_PRODUCER_ID_MAPPING") -> list[dict[str, Any]]:
    """A Produce that our coordinator refuses, and theirs with this error."""
    return [
        {"responses": [{"name": "$t", "partition_responses": [{"index": 0, "error_code": each}]}]}
        for each in (ours, code)
    ]


def _with_another(code: str, ours: str = "INVALID_TXN_STATE") -> list[dict[str, Any]]:
    """A Produce to two partitions, of which the second is refused for a reason of its own."""
    return [
        {
            "responses": [
                {
                    "name": "$t",
                    "partition_responses": [
                        {"index": 0, "error_code": each},
                        {"index": 1, "error_code": "CORRUPT_MESSAGE"},
                    ],
                }
            ]
        }
        for each in (ours, code)
    ]


def _assigned(state: str) -> list[dict[str, Any]]:
    """A group with a member in that state, with its assignment and without."""
    return [
        {
            "groups": [
                {"group_id": "$g", "group_state": state, "members": [{"member_id": "m", "member_assignment": blob}]}
            ]
        }
        for blob in ("x", "")
    ]


# api, what the question is about, its body, both answers, the version of Kafka -> the row
CASES: dict[str, tuple[Any, ...]] = {
    "a fault about a size": ("Fetch", ("max_bytes", "lowest"), {}, FINE, FAULT, (4, 3, 0), "fails on sizes"),
    "its variant": ("Fetch", ("max_bytes", "lowest, new session"), {}, FINE, FAULT, (4, 3, 0), "fails on sizes"),
    "a fault about a right size": ("Fetch", ("max_bytes", "right"), {}, FINE, FAULT, (4, 3, 0), ""),
    "a fault of another API": ("Heartbeat", ("max_bytes", "lowest"), {}, FINE, FAULT, (4, 3, 0), ""),
    "a fault of ours": ("Fetch", ("max_bytes", "lowest"), {}, FAULT, FINE, (4, 3, 0), ""),
    "a list of a broker with a value twice": (
        "IncrementalAlterConfigs",
        ("", ""),
        {"resources": [{"resource_type": 4, "configs": [{"name": "log.cleanup.policy", "value": "delete,delete"}]}]},
        TAKEN,
        {"responses": [{"error_code": "INVALID_REQUEST"}]},
        (4, 4, 0),
        "4.4 lists of a broker",
    ),
    "a setting that came later": (
        "IncrementalAlterConfigs",
        ("", ""),
        {"resources": [{"configs": [{"name": "max.decompressed.message.bytes", "value": "1"}]}]},
        TAKEN,
        REFUSED,
        (4, 3, 0),
        "settings after 4.3",
    ),
    "the target of an emptied group": (
        "ConsumerGroupDescribe",
        ("", ""),
        {},
        *({"groups": [{"group_id": "$g", "group_state": "Empty", "assignment_epoch": epoch}]} for epoch in (3, 2)),
        (4, 3, 0),
        "emptied target",
    ),
    "small segments": ("IncrementalAlterConfigs", ("", ""), SETTING, TAKEN, REFUSED, (4, 3, 0), "4 small segments"),
    "small segments before 4": ("IncrementalAlterConfigs", ("", ""), SETTING, TAKEN, REFUSED, (3, 9, 1), ""),
    "a group that Kafka keeps": (
        "ListGroups",
        ("", ""),
        {},
        {"groups": []},
        {"groups": [EMPTY]},
        (4, 3, 0),
        "never joined",
    ),
    "a commit to it": ("OffsetCommit", ("", ""), {}, *COMMITTED, (4, 3, 0), "never joined"),
    "a commit to a group of ours": ("OffsetCommit", ("", ""), {}, *COMMITTED[::-1], (4, 3, 0), ""),
    "a group with members": ("ListGroups", ("", ""), {}, {"groups": []}, {"groups": [JOINED]}, (4, 3, 0), ""),
    "a group that Kafka dropped": (
        "ListGroups",
        ("", ""),
        {},
        {"groups": [EMPTY]},
        {"groups": []},
        (3, 9, 1),
        "emptied",
    ),
    "one that Kafka 4 dropped": ("ListGroups", ("", ""), {}, {"groups": [EMPTY]}, {"groups": []}, (4, 3, 0), ""),
    "a pending id that Kafka dropped": ("JoinGroup", ("", ""), {"member_id": "m"}, FINE, UNKNOWN, (3, 9, 1), "emptied"),
    "a generation of a group that Kafka dropped": ("JoinGroup", ("", ""), {}, *BEGUN_ANEW, (3, 9, 1), "emptied"),
    "a generation of a group that Kafka 4 dropped": ("JoinGroup", ("", ""), {}, *BEGUN_ANEW, (4, 3, 0), ""),
    "a generation of a group that we dropped": ("JoinGroup", ("", ""), {}, *BEGUN_ANEW[::-1], (3, 9, 1), ""),
    "a partition without a topic id": ("Fetch", ("", ""), {}, *WITHOUT_ID, (3, 9, 1), "fails on no id"),
    "a partition without a topic id of Kafka 4": ("Fetch", ("", ""), {}, *WITHOUT_ID, (4, 3, 0), ""),
    "a pending id with another's instance": (
        "JoinGroup",
        ("", ""),
        {"member_id": "m"},
        {"error_code": "UNKNOWN_SERVER_ERROR"},
        {"error_code": "FENCED_INSTANCE_ID"},
        (3, 9, 1),
        "emptied",
    ),
    "a pending id that we dropped": ("JoinGroup", ("", ""), {}, UNKNOWN, FINE, (3, 9, 1), ""),
    "an aborted transaction ahead": ("Fetch", ("", ""), {"max_bytes": 10}, *ABORTED, (4, 3, 0), "aborted ahead"),
    "a second one ahead": ("Fetch", ("", ""), {"max_bytes": 10}, *ABORTED_AGAIN, (4, 3, 0), "aborted ahead"),
    "a second one that is left out": ("Fetch", ("", ""), {"max_bytes": 10_000}, *ABORTED_AGAIN, (4, 3, 0), ""),
    "another one than ours": ("Fetch", ("", ""), {"max_bytes": 10}, *ABORTED_AGAIN[::-1], (4, 3, 0), ""),
    "one that is left out": ("Fetch", ("", ""), {"max_bytes": 10_000}, *ABORTED, (4, 3, 0), ""),
    "zstd for an old client": ("Fetch", ("", ""), {}, *UNCOMPRESSED[::-1], (3, 9, 1), "zstd for old clients"),
    "zstd that Kafka 4 refuses": ("Fetch", ("", ""), {}, *UNCOMPRESSED[::-1], (4, 3, 0), ""),
    "zstd that we refuse": ("Fetch", ("", ""), {}, *UNCOMPRESSED, (3, 9, 1), ""),
    "credentials in the order of a map": (
        "DescribeUserScramCredentials",
        ("", ""),
        {},
        *CREDENTIALS,
        (4, 3, 0),
        "order",
    ),
    "an empty pattern": ("IncrementalAlterConfigs", ("", ""), PATTERN, TAKEN, REFUSED, (3, 9, 1), "no pattern"),
    "an empty pattern in 4": ("IncrementalAlterConfigs", ("", ""), PATTERN, TAKEN, REFUSED, (4, 3, 0), ""),
    "a piece of old messages": ("Fetch", ("", ""), {}, *CONVERTED, (3, 9, 1), "converted together"),
    "more old messages": ("Fetch", ("", ""), {}, *CONVERTED[::-1], (3, 9, 1), ""),
    "more compressed old messages": ("Fetch", ("", ""), {}, *COMPRESSED[::-1], (3, 9, 1), "converted sizes"),
    "a record without a key": ("Produce", ("", ""), KEYLESS, *WRITTEN, (4, 3, 0), "settings later"),
    "a record without a key beside another error": (
        "Produce",
        ("", ""),
        KEYLESS,
        *_with_another("NONE", "INVALID_RECORD"),
        (2, 6, 3),
        "settings later",
    ),
    "a record with a key beside another error": (
        "Produce",
        ("", ""),
        {},
        *_with_another("NONE", "INVALID_RECORD"),
        (2, 6, 3),
        "",
    ),
    "a record without a key that we take": ("Produce", ("", ""), KEYLESS, *WRITTEN[::-1], (4, 3, 0), ""),
    "one without acknowledgement": (
        "Produce",
        ("", ""),
        KEYLESS | {"acks": 0},
        "connection closed",
        "no answer",
        (2, 6, 3),
        "settings later",
    ),
    "one that they close on": (
        "Produce",
        ("", ""),
        KEYLESS | {"acks": 0},
        "no answer",
        "connection closed",
        (2, 6, 3),
        "",
    ),
    "one with a key and without acknowledgement": (
        "Produce",
        ("", ""),
        {"acks": 0},
        "connection closed",
        "no answer",
        (2, 6, 3),
        "",
    ),
    "verified with a newer request": ("Produce", ("", ""), {}, *UNVERIFIED, (4, 3, 0), "verified together"),
    "the words of a refusal": ("Produce", ("", ""), {}, *WORDED, (4, 3, 0), ""),
    "a record with a key": ("Produce", ("", ""), {}, *WRITTEN, (4, 3, 0), ""),
    "a setting of consumer groups": (
        "IncrementalAlterConfigs",
        ("", ""),
        {"resources": [{"resource_type": 32, "configs": [{"name": "consumer.session.timeout.ms", "value": "1"}]}]},
        {"responses": [{"error_code": "INVALID_CONFIG"}]},
        {"responses": [{"error_code": "NONE"}]},
        (4, 3, 0),
        "",
    ),
    "a feature of another Kafka": (
        "ApiVersions",
        ("", ""),
        {},
        {"supported_features": []},
        {"supported_features": [{"name": "share.version"}]},
        (4, 3, 0),
        "features",
    ),
    "a feature of nobody": (
        "ApiVersions",
        ("", ""),
        {},
        {"supported_features": []},
        {"supported_features": [{"name": "no.version"}]},
        (4, 3, 0),
        "",
    ),
    "an abort without records": ("Fetch", ("", ""), {}, *MARKED, (2, 6, 3), "2.6 aborted without records"),
    "an abort with some": ("Fetch", ("", ""), {}, *ABORTED, (2, 6, 3), ""),
    "a repeated claim": (
        "InitProducerId",
        ("", ""),
        {"producer_epoch": 0},
        FINE,
        FENCED,
        (3, 9, 1),
        "fenced by itself",
    ),
    "a first claim": ("InitProducerId", ("", ""), {"producer_epoch": -1}, FINE, FENCED, (3, 9, 1), ""),
    "a pending id that left and that Kafka dropped": ("LeaveGroup", ("", ""), {}, FINE, UNKNOWN, (3, 9, 1), "emptied"),
    "the protocol of a group that Kafka dropped": ("DescribeGroups", ("", ""), {}, *DROPPED, (3, 9, 1), "emptied"),
    "a first join with Kafka's refusal": ("JoinGroup", ("", ""), {"member_id": ""}, FINE, UNKNOWN, (3, 9, 1), ""),
    "offsets of a group that Kafka keeps": (
        "OffsetDelete",
        ("", ""),
        {},
        {"error_code": "GROUP_ID_NOT_FOUND"},
        FINE,
        (4, 3, 0),
        "never joined",
    ),
    "a start that Kafka remembers": ("DescribeTransactions", ("", ""), {}, *STARTED, (3, 9, 1), "start of the last"),
    "a start that Kafka 4 remembers": ("DescribeTransactions", ("", ""), {}, *STARTED, (4, 3, 0), ""),
    "a start of a transaction": ("DescribeTransactions", ("", ""), {}, *ONGOING, (3, 9, 1), ""),
    "an old Fetch that Kafka closes on": (
        "Fetch",
        ("", ""),
        {},
        OLD,
        "connection closed",
        (3, 9, 1),
        "times below none",
    ),
    "an old Fetch of nothing": ("Fetch", ("", ""), {}, NOTHING, "connection closed", (3, 9, 1), ""),
    "a group that Kafka forgot": ("ConsumerGroupDescribe", ("", ""), {}, EMPTIED, FORGOTTEN, (4, 3, 0), "forgotten"),
    "a group that we forgot": ("ConsumerGroupDescribe", ("", ""), {}, FORGOTTEN, EMPTIED, (4, 3, 0), ""),
    "a list without it": ("ListGroups", ("", ""), {}, {"groups": [MIXED]}, {"groups": []}, (4, 3, 0), "forgotten"),
    "a list without another": ("ListGroups", ("", ""), {}, {"groups": [JOINED]}, {"groups": []}, (4, 3, 0), ""),
    "a group with members forgotten": ("ConsumerGroupDescribe", ("", ""), {}, STILL_THERE, FORGOTTEN, (4, 3, 0), ""),
    "partitions by ids": ("ConsumerGroupDescribe", ("", ""), {}, *BY_IDS, (4, 3, 0), "ids"),
    "partitions of a member alone": ("ConsumerGroupDescribe", ("", ""), {}, *BY_NAME, (4, 3, 0), ""),
    "a page behind the largest partition": (
        "DescribeTopicPartitions",
        ("", ""),
        {},
        {"topics": TWO, "next_cursor": {"topic_name": "$u", "partition_index": 1}},
        {"topics": [], "next_cursor": {"topic_name": "$t", "partition_index": -2147483646}},
        (4, 3, 0),
        "cursor overflow",
    ),
    "a page of every topic": ("DescribeTopicPartitions", ("", ""), {}, *PAGES, (4, 3, 0), "page of every topic"),
    "a page of a story's topics": (
        "DescribeTopicPartitions",
        ("", ""),
        {"topics": TWO},
        *PAGES,
        (4, 3, 0),
        "",
    ),
    "a page that goes on with the story's topic": (
        "DescribeTopicPartitions",
        ("", ""),
        {},
        PAGES[0],
        {"next_cursor": {"topic_name": "$u", "partition_index": 0}},
        (4, 3, 0),
        "",
    ),
    "a fault about no member": (
        "OffsetFetch",
        ("groups.member_id", "null"),
        {},
        *OF_NO_MEMBER,
        (4, 3, 0),
        "fails on no member",
    ),
    "a fault about another group": ("OffsetFetch", ("groups.group_id", "other"), {}, *OF_NO_MEMBER, (4, 3, 0), ""),
    "records under another id": (
        "Produce",
        ("", ""),
        TRANSACTIONAL,
        *_claimed("NONE"),
        (4, 3, 0),
        "",
    ),
    "records under another id before 4": (
        "Produce",
        ("", ""),
        TRANSACTIONAL,
        *_claimed("NONE"),
        (3, 9, 1),
        "records of any epoch",
    ),
    "records of the next epoch": (
        "Produce",
        ("", ""),
        TRANSACTIONAL,
        *_claimed("NONE", "INVALID_PRODUCER_EPOCH"),
        (3, 9, 1),
        "records of any epoch",
    ),
    "records of the next epoch in 4": (
        "Produce",
        ("", ""),
        TRANSACTIONAL,
        *_claimed("NONE", "INVALID_PRODUCER_EPOCH"),
        (4, 3, 0),
        "",
    ),
    "records of no transaction": ("Produce", ("", ""), {}, *_claimed("NONE"), (4, 3, 0), ""),
    "records that both refuse": ("Produce", ("", ""), TRANSACTIONAL, *_claimed("INVALID_TXN_STATE"), (4, 3, 0), ""),
    "verified together beside another error": (
        "Produce",
        ("", ""),
        {},
        *_with_another("TRANSACTION_ABORTABLE"),
        (4, 3, 0),
        "verified together",
    ),
    "another error beside another": ("Produce", ("", ""), {}, *_with_another("NONE"), (4, 3, 0), ""),
    "old messages twice": ("Fetch", ("", ""), {}, *TWICE, (3, 9, 1), "converted twice"),
    "old messages twice in 4": ("Fetch", ("", ""), {}, *TWICE, (4, 3, 0), ""),
    "other old messages": ("Fetch", ("", ""), {}, TWICE[0], CONVERTED[0], (3, 9, 1), ""),
    "a commit in the order of a map": ("OffsetCommit", ("", ""), {}, *COMMITS, (3, 9, 1), "order of commits"),
    "a commit in another order": ("OffsetCommit", ("", ""), {}, *COMMITS, (4, 3, 0), ""),
    "an assignment in a rebalance": (
        "DescribeGroups",
        ("", ""),
        {},
        *_assigned("PreparingRebalance"),
        (3, 9, 1),
        "described assignments",
    ),
    "an assignment of a stable group": ("DescribeGroups", ("", ""), {}, *_assigned("Stable"), (3, 9, 1), ""),
    "an old epoch before 4": ("Produce", ("", ""), {}, *OF_OLD_EPOCH, (3, 9, 1), "epoch in the log, later"),
    "an old epoch": ("Produce", ("", ""), {}, *OF_OLD_EPOCH, (4, 3, 0), ""),
    "a topic named twice": (
        "Metadata",
        ("", ""),
        {},
        {"topics": TWO[:1] * 2},
        {"topics": TWO[:1]},
        (4, 3, 0),
        "named twice",
    ),
    "an answer twice": ("Metadata", ("", ""), {}, {"topics": TWO[:1]}, {"topics": TWO[:1] * 2}, (4, 3, 0), ""),
    "an order that matters": ("Fetch", ("", ""), {}, {"responses": TWO}, {"responses": TWO[::-1]}, (4, 3, 0), ""),
    "an epoch of a topic of Kafka's": (
        "Metadata",
        ("", ""),
        {},
        *_led("__consumer_offsets"),
        (2, 6, 3),
        "2.6 leader epochs",
    ),
    "an epoch of a topic": ("Metadata", ("", ""), {}, *_led("$t"), (2, 6, 3), ""),
    "an order of numbers": ("DescribeTransactions", ("", ""), {}, *NUMBERED, (4, 3, 0), "order"),
    "an order of replicas": ("Metadata", ("", ""), {}, {"isr_nodes": [1, 2]}, {"isr_nodes": [2, 1]}, (4, 3, 0), ""),
    "other numbers": ("DescribeTransactions", ("", ""), {}, NUMBERED[0], OTHERS, (4, 3, 0), ""),
    "an order of a map": ("Metadata", ("", ""), {}, {"topics": TWO}, {"topics": TWO[::-1]}, (4, 3, 0), "order"),
}


@pytest.mark.parametrize(
    ("requested", "ours", "theirs", "row"),
    [
        ({"@": "now", "ms": -4500}, (2, "start-4000 ms"), (-1, -1), "time in a segment"),
        ({"@": "now", "ms": -4500}, (2, "start-5000 ms"), (-1, -1), ""),
        ({"@": "now", "ms": -4500}, (2, "start-4000 ms"), (1, "start-3000 ms"), ""),
        ({"@": "now", "ms": -4500}, (-1, -1), (2, "start-4000 ms"), ""),
        (-3, (2, "start-4000 ms"), (-1, -1), ""),
    ],
)
@pytest.mark.parametrize("version", [(2, 6, 3), (4, 3, 0)])
def test_a_time_of_which_kafka_finds_no_record(
    requested: Any, ours: Any, theirs: Any, row: str, version: tuple[int, ...]
) -> None:
    def respond(offset: int, timestamp: Any) -> dict[str, Any]:
        of_partition = FINE | {"partition_index": 0, "offset": offset, "timestamp": timestamp}
        return {"topics": [{"name": "$n", "partitions": [of_partition]}]}

    damaged: list[dict[str, Any]] = [{}, {"name": {"@": "text", "of": "x", "times": 300}}]
    body = {"topics": [*damaged, {"name": "$n", "partitions": [{"timestamp": requested}]}]}
    question = Question("q", "ListOffsets", 4, body)
    parts = [(part, respond(*ours), respond(*theirs)) for part in differences(respond(*ours), respond(*theirs))]
    rows = [row_of(DifferingPart(question, *each), version) for each in parts]
    assert {each.name if each is not None else "" for each in rows} == {row}


@pytest.mark.parametrize("api", sorted(API_BY_NAME))
def test_every_row_can_be_asked_about_no_answer(api: str) -> None:
    """A row looks at whole answers too, and a broker may close the connection instead."""
    question = Question("q", api, API_BY_NAME[api].request.versions.first, {})
    for pair in (({}, "connection closed"), ("connection closed", {}), ({"error_code": "NONE"}, "no answer")):
        for version in ((2, 6, 3), (3, 9, 1), (4, 3, 0)):
            for part in differences(*pair):
                row_of(DifferingPart(question, part, *pair), version)


@pytest.mark.parametrize("case", CASES)
def test_a_row_explains_what_it_is_about(case: str) -> None:
    api, covers, body, ours, theirs, version, expected = CASES[case]
    question = Question("q", api, 1, body, covers=covers)
    rows = [row_of(DifferingPart(question, part, ours, theirs), version) for part in differences(ours, theirs)]
    assert {row.name if row is not None else "" for row in rows} == {expected}


def test_rows_have_names_of_their_own() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS)
