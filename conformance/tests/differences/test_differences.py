"""A row of the table of known differences explains what it is about, and nothing beside it."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.tests.differences.case import V2, V3, Case
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


CASES = {
    "a fault about a size": Case("Fetch", FINE, FAULT, row="fails on sizes", covers=("max_bytes", "lowest")),
    "its variant": Case("Fetch", FINE, FAULT, row="fails on sizes", covers=("max_bytes", "lowest, new session")),
    "a fault about a right size": Case("Fetch", FINE, FAULT, covers=("max_bytes", "right")),
    "a fault of another API": Case("Heartbeat", FINE, FAULT, covers=("max_bytes", "lowest")),
    "a fault of ours": Case("Fetch", FAULT, FINE, covers=("max_bytes", "lowest")),
    "a list of a broker with a value twice": Case(
        "IncrementalAlterConfigs",
        TAKEN,
        {"responses": [{"error_code": "INVALID_REQUEST"}]},
        row="4.4 lists of a broker",
        kafka=(4, 4, 0),
        body={
            "resources": [{"resource_type": 4, "configs": [{"name": "log.cleanup.policy", "value": "delete,delete"}]}]
        },
    ),
    "a setting that came later": Case(
        "IncrementalAlterConfigs",
        TAKEN,
        REFUSED,
        row="settings after 4.3",
        body={"resources": [{"configs": [{"name": "max.decompressed.message.bytes", "value": "1"}]}]},
    ),
    "the target of an emptied group": Case(
        "ConsumerGroupDescribe",
        *({"groups": [{"group_id": "$g", "group_state": "Empty", "assignment_epoch": epoch}]} for epoch in (3, 2)),
        row="emptied target",
    ),
    "small segments": Case("IncrementalAlterConfigs", TAKEN, REFUSED, row="4 small segments", body=SETTING),
    "small segments before 4": Case("IncrementalAlterConfigs", TAKEN, REFUSED, kafka=V3, body=SETTING),
    "a group that Kafka keeps": Case("ListGroups", {"groups": []}, {"groups": [EMPTY]}, row="never joined"),
    "a commit to it": Case("OffsetCommit", *COMMITTED, row="never joined"),
    "a commit to a group of ours": Case("OffsetCommit", *COMMITTED[::-1]),
    "a group with members": Case("ListGroups", {"groups": []}, {"groups": [JOINED]}),
    "a group that Kafka dropped": Case("ListGroups", {"groups": [EMPTY]}, {"groups": []}, row="emptied", kafka=V3),
    "one that Kafka 4 dropped": Case("ListGroups", {"groups": [EMPTY]}, {"groups": []}),
    "a pending id that Kafka dropped": Case(
        "JoinGroup", FINE, UNKNOWN, row="emptied", kafka=V3, body={"member_id": "m"}
    ),
    "a generation of a group that Kafka dropped": Case("JoinGroup", *BEGUN_ANEW, row="emptied", kafka=V3),
    "a generation of a group that Kafka 4 dropped": Case("JoinGroup", *BEGUN_ANEW),
    "a generation of a group that we dropped": Case("JoinGroup", *BEGUN_ANEW[::-1], kafka=V3),
    "a partition without a topic id": Case("Fetch", *WITHOUT_ID, row="fails on no id", kafka=V3),
    "a partition without a topic id of Kafka 4": Case("Fetch", *WITHOUT_ID),
    "a pending id with another's instance": Case(
        "JoinGroup",
        {"error_code": "UNKNOWN_SERVER_ERROR"},
        {"error_code": "FENCED_INSTANCE_ID"},
        row="emptied",
        kafka=V3,
        body={"member_id": "m"},
    ),
    "a pending id that we dropped": Case("JoinGroup", UNKNOWN, FINE, kafka=V3),
    "an aborted transaction ahead": Case("Fetch", *ABORTED, row="aborted ahead", body={"max_bytes": 10}),
    "a second one ahead": Case("Fetch", *ABORTED_AGAIN, row="aborted ahead", body={"max_bytes": 10}),
    "a second one that is left out": Case("Fetch", *ABORTED_AGAIN, body={"max_bytes": 10000}),
    "another one than ours": Case("Fetch", *ABORTED_AGAIN[::-1], body={"max_bytes": 10}),
    "one that is left out": Case("Fetch", *ABORTED, body={"max_bytes": 10000}),
    "zstd for an old client": Case("Fetch", *UNCOMPRESSED[::-1], row="zstd for old clients", kafka=V3),
    "zstd that Kafka 4 refuses": Case("Fetch", *UNCOMPRESSED[::-1]),
    "zstd that we refuse": Case("Fetch", *UNCOMPRESSED, kafka=V3),
    "credentials in the order of a map": Case("DescribeUserScramCredentials", *CREDENTIALS, row="order"),
    "an empty pattern": Case("IncrementalAlterConfigs", TAKEN, REFUSED, row="no pattern", kafka=V3, body=PATTERN),
    "an empty pattern in 4": Case("IncrementalAlterConfigs", TAKEN, REFUSED, body=PATTERN),
    "a piece of old messages": Case("Fetch", *CONVERTED, row="converted together", kafka=V3),
    "more old messages": Case("Fetch", *CONVERTED[::-1], kafka=V3),
    "more compressed old messages": Case("Fetch", *COMPRESSED[::-1], row="converted sizes", kafka=V3),
    "a record without a key": Case("Produce", *WRITTEN, row="settings later", body=KEYLESS),
    "a record without a key beside another error": Case(
        "Produce", *_with_another("NONE", "INVALID_RECORD"), row="settings later", kafka=V2, body=KEYLESS
    ),
    "a record with a key beside another error": Case("Produce", *_with_another("NONE", "INVALID_RECORD"), kafka=V2),
    "a record without a key that we take": Case("Produce", *WRITTEN[::-1], body=KEYLESS),
    "one without acknowledgement": Case(
        "Produce", "connection closed", "no answer", row="settings later", kafka=V2, body=KEYLESS | {"acks": 0}
    ),
    "one that they close on": Case("Produce", "no answer", "connection closed", kafka=V2, body=KEYLESS | {"acks": 0}),
    "one with a key and without acknowledgement": Case(
        "Produce", "connection closed", "no answer", kafka=V2, body={"acks": 0}
    ),
    "verified with a newer request": Case("Produce", *UNVERIFIED, row="verified together"),
    "the words of a refusal": Case("Produce", *WORDED),
    "a record with a key": Case("Produce", *WRITTEN),
    "a setting of consumer groups": Case(
        "IncrementalAlterConfigs",
        {"responses": [{"error_code": "INVALID_CONFIG"}]},
        {"responses": [{"error_code": "NONE"}]},
        body={"resources": [{"resource_type": 32, "configs": [{"name": "consumer.session.timeout.ms", "value": "1"}]}]},
    ),
    "a feature of another Kafka": Case(
        "ApiVersions", {"supported_features": []}, {"supported_features": [{"name": "share.version"}]}, row="features"
    ),
    "a feature of nobody": Case(
        "ApiVersions", {"supported_features": []}, {"supported_features": [{"name": "no.version"}]}
    ),
    "an abort without records": Case("Fetch", *MARKED, row="2.6 aborted without records", kafka=V2),
    "an abort with some": Case("Fetch", *ABORTED, kafka=V2),
    "a repeated claim": Case(
        "InitProducerId", FINE, FENCED, row="fenced by itself", kafka=V3, body={"producer_epoch": 0}
    ),
    "a first claim": Case("InitProducerId", FINE, FENCED, kafka=V3, body={"producer_epoch": -1}),
    "a pending id that left and that Kafka dropped": Case("LeaveGroup", FINE, UNKNOWN, row="emptied", kafka=V3),
    "the protocol of a group that Kafka dropped": Case("DescribeGroups", *DROPPED, row="emptied", kafka=V3),
    "a first join with Kafka's refusal": Case("JoinGroup", FINE, UNKNOWN, kafka=V3, body={"member_id": ""}),
    "offsets of a group that Kafka keeps": Case(
        "OffsetDelete", {"error_code": "GROUP_ID_NOT_FOUND"}, FINE, row="never joined"
    ),
    "a start that Kafka remembers": Case("DescribeTransactions", *STARTED, row="start of the last", kafka=V3),
    "a start that Kafka 4 remembers": Case("DescribeTransactions", *STARTED),
    "a start of a transaction": Case("DescribeTransactions", *ONGOING, kafka=V3),
    "an old Fetch that Kafka closes on": Case("Fetch", OLD, "connection closed", row="times below none", kafka=V3),
    "an old Fetch of nothing": Case("Fetch", NOTHING, "connection closed", kafka=V3),
    "a group that Kafka forgot": Case("ConsumerGroupDescribe", EMPTIED, FORGOTTEN, row="forgotten"),
    "a group that we forgot": Case("ConsumerGroupDescribe", FORGOTTEN, EMPTIED),
    "a list without it": Case("ListGroups", {"groups": [MIXED]}, {"groups": []}, row="forgotten"),
    "a list without another": Case("ListGroups", {"groups": [JOINED]}, {"groups": []}),
    "a group with members forgotten": Case("ConsumerGroupDescribe", STILL_THERE, FORGOTTEN),
    "partitions by ids": Case("ConsumerGroupDescribe", *BY_IDS, row="ids"),
    "partitions of a member alone": Case("ConsumerGroupDescribe", *BY_NAME),
    "a page behind the largest partition": Case(
        "DescribeTopicPartitions",
        {"topics": TWO, "next_cursor": {"topic_name": "$u", "partition_index": 1}},
        {"topics": [], "next_cursor": {"topic_name": "$t", "partition_index": -2147483646}},
        row="cursor overflow",
    ),
    "a page of every topic": Case("DescribeTopicPartitions", *PAGES, row="page of every topic"),
    "a page of a story's topics": Case("DescribeTopicPartitions", *PAGES, body={"topics": TWO}),
    "a page that goes on with the story's topic": Case(
        "DescribeTopicPartitions", PAGES[0], {"next_cursor": {"topic_name": "$u", "partition_index": 0}}
    ),
    "a fault about no member": Case(
        "OffsetFetch", *OF_NO_MEMBER, row="fails on no member", covers=("groups.member_id", "null")
    ),
    "a fault about another group": Case("OffsetFetch", *OF_NO_MEMBER, covers=("groups.group_id", "other")),
    "records under another id": Case("Produce", *_claimed("NONE"), body=TRANSACTIONAL),
    "records under another id before 4": Case(
        "Produce", *_claimed("NONE"), row="records of any epoch", kafka=V3, body=TRANSACTIONAL
    ),
    "records of the next epoch": Case(
        "Produce", *_claimed("NONE", "INVALID_PRODUCER_EPOCH"), row="records of any epoch", kafka=V3, body=TRANSACTIONAL
    ),
    "records of the next epoch in 4": Case("Produce", *_claimed("NONE", "INVALID_PRODUCER_EPOCH"), body=TRANSACTIONAL),
    "records of no transaction": Case("Produce", *_claimed("NONE")),
    "records that both refuse": Case("Produce", *_claimed("INVALID_TXN_STATE"), body=TRANSACTIONAL),
    "verified together beside another error": Case(
        "Produce", *_with_another("TRANSACTION_ABORTABLE"), row="verified together"
    ),
    "another error beside another": Case("Produce", *_with_another("NONE")),
    "old messages twice": Case("Fetch", *TWICE, row="converted twice", kafka=V3),
    "old messages twice in 4": Case("Fetch", *TWICE),
    "other old messages": Case("Fetch", TWICE[0], CONVERTED[0], kafka=V3),
    "a commit in the order of a map": Case("OffsetCommit", *COMMITS, row="order of commits", kafka=V3),
    "a commit in another order": Case("OffsetCommit", *COMMITS),
    "an assignment in a rebalance": Case(
        "DescribeGroups", *_assigned("PreparingRebalance"), row="described assignments", kafka=V3
    ),
    "an assignment of a stable group": Case("DescribeGroups", *_assigned("Stable"), kafka=V3),
    "an old epoch before 4": Case("Produce", *OF_OLD_EPOCH, row="epoch in the log, later", kafka=V3),
    "an old epoch": Case("Produce", *OF_OLD_EPOCH),
    "a topic named twice": Case("Metadata", {"topics": TWO[:1] * 2}, {"topics": TWO[:1]}, row="named twice"),
    "an answer twice": Case("Metadata", {"topics": TWO[:1]}, {"topics": TWO[:1] * 2}),
    "an order that matters": Case("Fetch", {"responses": TWO}, {"responses": TWO[::-1]}),
    "an epoch of a topic of Kafka's": Case("Metadata", *_led("__consumer_offsets"), row="2.6 leader epochs", kafka=V2),
    "an epoch of a topic": Case("Metadata", *_led("$t"), kafka=V2),
    "an order of numbers": Case("DescribeTransactions", *NUMBERED, row="order"),
    "an order of replicas": Case("Metadata", {"isr_nodes": [1, 2]}, {"isr_nodes": [2, 1]}),
    "other numbers": Case("DescribeTransactions", NUMBERED[0], OTHERS),
    "an order of a map": Case("Metadata", {"topics": TWO}, {"topics": TWO[::-1]}, row="order"),
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
    """A row looks at whole responses too, and a broker may close the connection instead."""
    question = Question("q", api, API_BY_NAME[api].request.versions.first, {})
    for pair in (({}, "connection closed"), ("connection closed", {}), ({"error_code": "NONE"}, "no answer")):
        for version in ((2, 6, 3), (3, 9, 1), (4, 3, 0)):
            for part in differences(*pair):
                row_of(DifferingPart(question, part, *pair), version)


@pytest.mark.parametrize("case", CASES)
def test_a_row_explains_what_it_is_about(case: str) -> None:
    assert CASES[case].rows() == {CASES[case].row}


def test_rows_have_names_of_their_own() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS)
