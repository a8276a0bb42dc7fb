"""A row about Kafka 2.6 explains what it is about, and nothing beside it: not another version's answer, nor one of ours."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.certify.question import Question, Story
from coterie.certify.responses import differences
from coterie_conformance.differences.recognisers import DifferingPart, code_at
from coterie_conformance.differences.table import row_of
from coterie_conformance.everything.harmful import spared

OLD, NEW = (2, 6, 3), (3, 9, 1)
FINE, ZERO = {"error_code": "NONE"}, {"base_offset": 0, "log_start_offset": 0}
TOPIC, LOGGER, NOTHING = ({"resource_type": kind, "resource_name": "$t"} for kind in (2, 8, 0))
ADDRESS = {"entries": [{"entity": [{"entity_type": "ip", "entity_name": "10.1.2.3"}]}]}
USER = {"entries": [{"entity": [{"entity_type": "user", "entity_name": "$q"}]}]}
TRANSACTIONAL = {"topic_data": [{"partition_data": [{"records": {"batches": [{"transactional": True}]}}]}]}
STATIC_LEADER = FINE | {"leader": "b", "member_id": "b", "members": [{"member_id": "a"}, {"member_id": "b"}]}
LATE = "no answer in time"
PENDING = {"@": "id", "of": "member@join"}
RECORDS_OF_ITS_TIME = ("topic_data.partition_data.records", "append time")


def _responses(*codes: str) -> dict[str, Any]:
    return {"responses": [{"resource_name": f"$r{n}", "error_code": code} for n, code in enumerate(codes)]}


def _produced(code: str, **fields: int) -> dict[str, Any]:
    return {"responses": [{"name": "$t", "partition_responses": [{"index": 0, "error_code": code, **fields}]}]}


def _fetched(code: str, **fields: Any) -> dict[str, Any]:
    return {"responses": [{"topic": "$t", "partitions": [{"partition_index": 0, "error_code": code, **fields}]}]}


def _looked_up(code: str) -> dict[str, Any]:
    return {"topics": [{"name": "$t", "partitions": [{"partition_index": 0, "error_code": code}]}]}


def _topics(*names: str, code: str = "NONE", where: str = "topics", field: str = "name") -> dict[str, Any]:
    return {where: [{field: name, "error_code": code} for name in names]}


def _left(member_join: str) -> dict[str, Any]:
    return FINE | {"members": [{"member_id": "member@join", "group_instance_id": "$i", "error_code": member_join}]}


def _aborted(*first_offsets: int, control: bool = True) -> dict[str, Any]:
    listed = [{"producer_id": "producer@init", "first_offset": first} for first in first_offsets]
    records = [{"offset": 0, "control": False}, {"offset": 3, "control": control}]
    return _fetched("NONE", aborted_transactions=listed, records=records)


def _marked(code: str) -> dict[str, Any]:
    return {"markers": [{"producer_id": 1, "topics": [{"name": "$t", "partitions": [{"error_code": code}]}]}]}


def _marks_by(need: str, rule: str) -> tuple[Any, ...]:
    covers = (need, f"WriteTxnMarkers v0 ALTER cluster, {rule}, existing")
    return "WriteTxnMarkers", 0, covers, {}, _marked("NONE"), _marked("CLUSTER_AUTHORIZATION_FAILED"), OLD


# api, its version, what the question is about, its body, both answers, the version of Kafka -> the row
CASES: dict[str, tuple[Any, ...]] = {
    "a map's order": (
        "OffsetForLeaderEpoch",
        3,
        ("", ""),
        {},
        _topics("$t", "$u", field="topic"),
        _topics("$u", "$t", field="topic"),
        OLD,
        "2.6 orders",
    ),
    "a map's order since": (
        "OffsetForLeaderEpoch",
        3,
        ("", ""),
        {},
        _topics("$t", "$u", field="topic"),
        _topics("$u", "$t", field="topic"),
        NEW,
        "",
    ),
    "an order of a session": (
        "Fetch",
        11,
        ("", ""),
        {"session_id": {"@": "id"}},
        _topics("$t", "$u", where="responses", field="topic"),
        _topics("$u", "$t", where="responses", field="topic"),
        OLD,
        "2.6 order of a session",
    ),
    "an order without a session": (
        "Fetch",
        11,
        ("", ""),
        {"session_id": 0},
        _topics("$t", "$u", where="responses", field="topic"),
        _topics("$u", "$t", where="responses", field="topic"),
        OLD,
        "",
    ),
    "settings beside those of nothing": (
        "AlterConfigs",
        1,
        ("", ""),
        {"resources": [TOPIC, NOTHING]},
        _responses("NONE", "INVALID_REQUEST"),
        _responses("INVALID_REQUEST", "INVALID_REQUEST"),
        OLD,
        "2.6 refuses all",
    ),
    "settings beside those of a topic": (
        "AlterConfigs",
        1,
        ("", ""),
        {"resources": [TOPIC, TOPIC]},
        _responses("NONE", "INVALID_REQUEST"),
        _responses("INVALID_REQUEST", "INVALID_REQUEST"),
        OLD,
        "",
    ),
    "a logger's level beside a setting": (
        "IncrementalAlterConfigs",
        1,
        ("", ""),
        {"resources": [TOPIC, LOGGER]},
        _responses("NONE", "NONE"),
        _responses("INVALID_REQUEST", "INVALID_REQUEST"),
        OLD,
        "",
    ),
    "settings refused for themselves": (
        "AlterConfigs",
        1,
        ("", ""),
        {"resources": [TOPIC, NOTHING, TOPIC]},
        _responses("NONE", "INVALID_REQUEST", "NONE"),
        _responses("INVALID_REQUEST", "INVALID_REQUEST", "NONE"),
        OLD,
        "",
    ),
    "a quota of an address": (
        "AlterClientQuotas",
        0,
        ("validate_only", "true"),
        ADDRESS,
        {"entries": [{"entity": [{"entity_name": "10.1.2.3"}], "error_code": "NONE"}]},
        {"entries": [{"entity": [{"entity_name": "10.1.2.3"}], "error_code": "INVALID_REQUEST"}]},
        OLD,
        "2.6 quotas of addresses",
    ),
    "a quota of a user": (
        "AlterClientQuotas",
        0,
        ("validate_only", "true"),
        USER,
        {"entries": [{"entity": [{"entity_name": "$q"}], "error_code": "NONE"}]},
        {"entries": [{"entity": [{"entity_name": "$q"}], "error_code": "INVALID_REQUEST"}]},
        OLD,
        "",
    ),
    "too few replicas": (
        "Produce",
        7,
        ("", ""),
        {"acks": -1},
        _produced("NONE", **ZERO),
        _produced("NOT_ENOUGH_REPLICAS", base_offset=-1, log_start_offset=-1),
        OLD,
        "2.6 replicas",
    ),
    "too few replicas of a leader's": (
        "Produce",
        7,
        ("", ""),
        {"acks": 1},
        _produced("NONE", **ZERO),
        _produced("NOT_ENOUGH_REPLICAS", base_offset=-1, log_start_offset=-1),
        OLD,
        "",
    ),
    "too few replicas on both": (
        "Produce",
        7,
        ("", ""),
        {"acks": -1},
        _produced("NOT_ENOUGH_REPLICAS", base_offset=0),
        _produced("NOT_ENOUGH_REPLICAS", base_offset=-1),
        OLD,
        "",
    ),
    "an epoch that the log refuses": (
        "Produce",
        8,
        ("", ""),
        TRANSACTIONAL,
        _produced("INVALID_PRODUCER_EPOCH", log_start_offset=-1),
        _produced("INVALID_PRODUCER_EPOCH", log_start_offset=0),
        OLD,
        "2.6 verifies nothing",
    ),
    "a sequence that the log refuses": (
        "Produce",
        8,
        ("", ""),
        TRANSACTIONAL,
        _produced("OUT_OF_ORDER_SEQUENCE_NUMBER", log_start_offset=-1),
        _produced("OUT_OF_ORDER_SEQUENCE_NUMBER", log_start_offset=0),
        OLD,
        "",
    ),
    "an epoch without a transaction": (
        "Produce",
        8,
        ("", ""),
        {},
        _produced("INVALID_PRODUCER_EPOCH", log_start_offset=-1),
        _produced("INVALID_PRODUCER_EPOCH", log_start_offset=0),
        OLD,
        "",
    ),
    "an offset behind a refused batch": (
        "Produce",
        8,
        ("", ""),
        {},
        _produced("NONE", base_offset=4),
        _produced("NONE", base_offset=3),
        OLD,
        "",
    ),
    "a time of a later version": (
        "ListOffsets",
        5,
        ("", ""),
        {},
        _looked_up("UNSUPPORTED_VERSION"),
        _looked_up("UNKNOWN_LEADER_EPOCH"),
        OLD,
        "2.6 times",
    ),
    "another offset of a time": (
        "ListOffsets",
        0,
        ("topics.partitions.timestamp", "one"),
        {},
        {"topics": [{"name": "$t", "partitions": [{"partition_index": 0, "old_style_offsets": [0]}]}]},
        {"topics": [{"name": "$t", "partitions": [{"partition_index": 0, "old_style_offsets": []}]}]},
        OLD,
        "",
    ),
    "another time": ("ListOffsets", 5, ("", ""), {}, _looked_up("NONE"), _looked_up("FENCED_LEADER_EPOCH"), OLD, ""),
    "a topic deleted twice": (
        "DeleteTopics",
        3,
        ("", "right"),
        {},
        _topics("$t", "$u", where="responses", code="INVALID_REQUEST"),
        _topics("$t", "$t", "$u", where="responses"),
        OLD,
        "2.6 twice",
    ),
    "another topic deleted as well": (
        "DeleteTopics",
        3,
        ("", "right"),
        {},
        _topics("$t", "$t", where="responses", code="INVALID_REQUEST"),
        _topics("$t", "$t", "$u", where="responses"),
        OLD,
        "",
    ),
    "a join that nobody answers": (
        "JoinGroup",
        4,
        ("", ""),
        {},
        STATIC_LEADER,
        LATE,
        OLD,
        "2.6 instances in old versions",
    ),
    "a static leader's own join that nobody answers": (
        "JoinGroup",
        3,
        ("", ""),
        {"member_id": "b"},
        STATIC_LEADER | {"members": [{"member_id": "b"}]},
        LATE,
        OLD,
        "2.6 instances in old versions",
    ),
    "a first join that nobody answers": (
        "JoinGroup",
        3,
        ("", ""),
        {"member_id": ""},
        STATIC_LEADER | {"members": [{"member_id": "b"}]},
        LATE,
        OLD,
        "",
    ),
    "a join with instance ids that nobody answers": ("JoinGroup", 5, ("", ""), {}, STATIC_LEADER, LATE, OLD, ""),
    "a follower's join that nobody answers": (
        "JoinGroup",
        4,
        ("", ""),
        {},
        STATIC_LEADER | {"member_id": "c", "members": []},
        LATE,
        OLD,
        "",
    ),
    "a join that we do not answer": ("JoinGroup", 4, ("", ""), {}, LATE, STATIC_LEADER, OLD, ""),
    "a pending id that leaves with an instance": (
        "LeaveGroup",
        4,
        ("", ""),
        {"members": [{"member_id": "m", "group_instance_id": "i"}]},
        FINE,
        {"error_code": "UNKNOWN_SERVER_ERROR"},
        OLD,
        "2.6 pending leave",
    ),
    "a pending id that leaves": (
        "LeaveGroup",
        4,
        ("", ""),
        {"members": [{"member_id": "m", "group_instance_id": None}]},
        FINE,
        {"error_code": "UNKNOWN_SERVER_ERROR"},
        OLD,
        "",
    ),
    "a pending id that leaves with another's instance": (
        "LeaveGroup",
        3,
        ("", "right"),
        {"members": [{"member_id": PENDING, "group_instance_id": "$i"}]},
        _left(member_join="NONE"),
        _left(member_join="FENCED_INSTANCE_ID"),
        OLD,
        "2.6 pending leave",
    ),
    "a pending id that leaves beside another's instance": (
        "LeaveGroup",
        3,
        ("", "right"),
        {"members": [{"member_id": PENDING}, {"member_id": "", "group_instance_id": "$i"}]},
        _left(member_join="NONE"),
        _left(member_join="FENCED_INSTANCE_ID"),
        OLD,
        "",
    ),
    "an id that only we fence": (
        "LeaveGroup",
        3,
        ("", "right"),
        {"members": [{"member_id": PENDING, "group_instance_id": "$i"}]},
        _left(member_join="FENCED_INSTANCE_ID"),
        _left(member_join="NONE"),
        OLD,
        "",
    ),
    "a pending id that leaves with another's instance since": (
        "LeaveGroup",
        3,
        ("", "right"),
        {"members": [{"member_id": PENDING, "group_instance_id": "$i"}]},
        _left(member_join="NONE"),
        _left(member_join="FENCED_INSTANCE_ID"),
        NEW,
        "",
    ),
    "a batch of the broker's time without acknowledgement": (
        "Produce",
        0,
        RECORDS_OF_ITS_TIME,
        {"acks": 0},
        "no answer",
        "connection closed",
        OLD,
        "2.6 append time",
    ),
    "a batch of the broker's time that only we refuse": (
        "Produce",
        0,
        RECORDS_OF_ITS_TIME,
        {"acks": 0},
        "connection closed",
        "no answer",
        OLD,
        "",
    ),
    "another batch without acknowledgement": (
        "Produce",
        0,
        ("", "right"),
        {"acks": 0},
        "no answer",
        "connection closed",
        OLD,
        "",
    ),
    "quotas that it fails to describe": (
        "DescribeClientQuotas",
        0,
        ("strict", "true"),
        {},
        FINE,
        {"error_code": "UNKNOWN_SERVER_ERROR"},
        OLD,
        "",
    ),
    "a name looked at last": (
        "CreateTopics",
        3,
        ("", ""),
        {},
        _topics("$n_x", code="INVALID_TOPIC_EXCEPTION"),
        _topics("$n_x", code="INVALID_REPLICATION_FACTOR"),
        OLD,
        "2.6 names of new topics",
    ),
    "a name that can be": (
        "CreateTopics",
        3,
        ("", ""),
        {},
        _topics("$n_x", code="INVALID_TOPIC_EXCEPTION"),
        _topics("$n_x", code="NONE"),
        OLD,
        "",
    ),
    "an election of a kind of its own": (
        "ElectLeaders",
        2,
        ("election_type", "unknown"),
        {},
        {"error_code": "INVALID_REQUEST"},
        {"error_code": "UNKNOWN_SERVER_ERROR"},
        OLD,
        "2.6 elections",
    ),
    "no records beside an error": (
        "Fetch",
        2,
        ("", ""),
        {},
        _fetched("UNSUPPORTED_COMPRESSION_TYPE", records=None),
        _fetched("UNSUPPORTED_COMPRESSION_TYPE", records=[]),
        OLD,
        "2.6 records",
    ),
    "no records": ("Fetch", 2, ("", ""), {}, _fetched("NONE", records=None), _fetched("NONE", records=[]), OLD, ""),
    "two aborts, one without records": (
        "Fetch",
        10,
        ("", ""),
        {},
        _aborted(0, control=True),
        _aborted(0, 3, control=True),
        OLD,
        "2.6 aborted without records",
    ),
    "two aborts": ("Fetch", 10, ("", ""), {}, _aborted(0, control=False), _aborted(0, 3, control=False), OLD, ""),
    "markers by ALTER": (*_marks_by("ALTER CLUSTER", "allow"), "2.6 markers by ALTER"),
    "markers by ALTER from a host": (*_marks_by("ALTER CLUSTER", "host"), "2.6 markers by ALTER"),
    "markers without a rule": (*_marks_by("ALTER CLUSTER", "no rule"), ""),
    "markers by a right on topics": (*_marks_by("ALTER TOPIC", "allow"), ""),
    "an abort less": ("Fetch", 10, ("", ""), {}, _aborted(0, 3), _aborted(3), OLD, ""),
    "a record more": (
        "Fetch",
        10,
        ("", ""),
        {},
        _fetched("NONE", records=[1, 1]),
        _fetched("NONE", records=[1]),
        OLD,
        "",
    ),
    "no list of aborts": (
        "Fetch",
        10,
        ("", ""),
        {},
        _fetched("OFFSET_OUT_OF_RANGE", aborted_transactions=[], records=[]),
        _fetched("OFFSET_OUT_OF_RANGE", aborted_transactions=None, records=[]),
        OLD,
        "2.6 aborted",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_row_explains_what_it_is_about(case: str) -> None:
    api, requested, covers, body, ours, theirs, version, expected = CASES[case]
    question = Question("q", api, requested, body, covers=covers)
    rows = [row_of(DifferingPart(question, part, ours, theirs), version) for part in differences(ours, theirs)]
    assert {row.name if row is not None else "" for row in rows} == {expected}


@pytest.mark.parametrize("damage", ["append time", "length", "length, beside"])
def test_what_only_kafka_refuses_leaves_other_offsets(damage: str) -> None:
    """A request of two partitions that 2.6 closes the connection on is written to neither."""
    question = Question("q", "Produce", 8, {}, covers=("topic_data.partition_data.records", damage))
    ours, theirs = _produced("NONE"), _produced("CORRUPT_MESSAGE") if damage == "append time" else "connection closed"
    rows = [row_of(DifferingPart(question, part, ours, theirs), OLD) for part in differences(ours, theirs)]
    assert rows
    assert all(row is not None and row.lasting for row in rows)


def test_the_error_of_a_part() -> None:
    response = {
        "error_code": "NONE",
        "topics": [
            {
                "name": "",
                "partitions": [{"partition_index": 1, "error_code": "A"}, {"partition_index": 0, "error_code": "B"}],
            }
        ],
    }
    assert code_at(response, "topics[0].partitions[0].offset") == "B"
    assert code_at(response, "topics[0].partitions[1].offset") == "A"
    assert code_at(response, "topics[$t].partitions[1].offset") == "NONE"
    assert code_at("connection closed", "") == ""


def _creation(*partitions: int, **fields: Any) -> Question:
    assignments = [{"partition_index": partition, "broker_ids": [1]} for partition in partitions]
    return Question("q", "CreateTopics", 4, {"topics": [{"name": "$n", "assignments": assignments}], **fields})


@pytest.mark.parametrize(
    ("partitions", "is_asked"),
    [
        ((-1, 1), False),
        ((-5, -1, 3), False),
        ((-1,), False),
        ((0, -1), True),
        ((0, 1, -1), True),
        ((0, 1), True),
        ((), True),
    ],
)
def test_kafka_2_6_makes_no_partition_whose_folder_it_cannot_read(partitions: tuple[int, ...], is_asked: bool) -> None:
    """It adds up those of 0 and above, and compares the sum with that of as many consecutive ones."""
    story = Story("s", [_creation(), _creation(*partitions), _creation(*partitions, validate_only=True)], strict=False)
    left = [story.questions[0], *story.questions[1 : 1 + is_asked], story.questions[2]]
    assert spared(story, OLD) == Story("s", left, strict=False)
    assert spared(story, NEW) == story
