"""A row about Kafka 2.6 explains what it is about, and nothing beside it: not another version's response, nor one of ours."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from conformance.tests.differences.case import V2, V3, Case
from coterie.certify.question import Question, Story
from coterie_conformance.differences.recognisers import code_at
from coterie_conformance.differences.table import ROWS
from coterie_conformance.everything.run import spared

of_2_6 = functools.partial(Case, kafka=V2)
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


def _marks_by(need: str, rule: str, row: str) -> Case:
    covers = (need, f"WriteTxnMarkers v0 ALTER cluster, {rule}, existing")
    return of_2_6(
        "WriteTxnMarkers", _marked("NONE"), _marked("CLUSTER_AUTHORIZATION_FAILED"), row=row, covers=covers, requested=0
    )


CASES = {
    "a map's order": of_2_6(
        "OffsetForLeaderEpoch",
        _topics("$t", "$u", field="topic"),
        _topics("$u", "$t", field="topic"),
        row="2.6 orders",
        requested=3,
    ),
    "a map's order since": of_2_6(
        "OffsetForLeaderEpoch",
        _topics("$t", "$u", field="topic"),
        _topics("$u", "$t", field="topic"),
        kafka=V3,
        requested=3,
    ),
    "an order of a session": of_2_6(
        "Fetch",
        _topics("$t", "$u", where="responses", field="topic"),
        _topics("$u", "$t", where="responses", field="topic"),
        row="2.6 order of a session",
        body={"session_id": {"@": "id"}},
        requested=11,
    ),
    "an order without a session": of_2_6(
        "Fetch",
        _topics("$t", "$u", where="responses", field="topic"),
        _topics("$u", "$t", where="responses", field="topic"),
        body={"session_id": 0},
        requested=11,
    ),
    "settings beside those of nothing": of_2_6(
        "AlterConfigs",
        _responses("NONE", "INVALID_REQUEST"),
        _responses("INVALID_REQUEST", "INVALID_REQUEST"),
        row="2.6 refuses all",
        body={"resources": [TOPIC, NOTHING]},
    ),
    "settings beside those of a topic": of_2_6(
        "AlterConfigs",
        _responses("NONE", "INVALID_REQUEST"),
        _responses("INVALID_REQUEST", "INVALID_REQUEST"),
        body={"resources": [TOPIC, TOPIC]},
    ),
    "a logger's level beside a setting": of_2_6(
        "IncrementalAlterConfigs",
        _responses("NONE", "NONE"),
        _responses("INVALID_REQUEST", "INVALID_REQUEST"),
        body={"resources": [TOPIC, LOGGER]},
    ),
    "settings refused for themselves": of_2_6(
        "AlterConfigs",
        _responses("NONE", "INVALID_REQUEST", "NONE"),
        _responses("INVALID_REQUEST", "INVALID_REQUEST", "NONE"),
        body={"resources": [TOPIC, NOTHING, TOPIC]},
    ),
    "a quota of an address": of_2_6(
        "AlterClientQuotas",
        {"entries": [{"entity": [{"entity_name": "10.1.2.3"}], "error_code": "NONE"}]},
        {"entries": [{"entity": [{"entity_name": "10.1.2.3"}], "error_code": "INVALID_REQUEST"}]},
        row="2.6 quotas of addresses",
        body=ADDRESS,
        covers=("validate_only", "true"),
        requested=0,
    ),
    "a quota of a user": of_2_6(
        "AlterClientQuotas",
        {"entries": [{"entity": [{"entity_name": "$q"}], "error_code": "NONE"}]},
        {"entries": [{"entity": [{"entity_name": "$q"}], "error_code": "INVALID_REQUEST"}]},
        body=USER,
        covers=("validate_only", "true"),
        requested=0,
    ),
    "too few replicas": of_2_6(
        "Produce",
        _produced("NONE", **ZERO),
        _produced("NOT_ENOUGH_REPLICAS", base_offset=-1, log_start_offset=-1),
        row="2.6 replicas",
        body={"acks": -1},
        requested=7,
    ),
    "too few replicas of a leader's": of_2_6(
        "Produce",
        _produced("NONE", **ZERO),
        _produced("NOT_ENOUGH_REPLICAS", base_offset=-1, log_start_offset=-1),
        body={"acks": 1},
        requested=7,
    ),
    "too few replicas on both": of_2_6(
        "Produce",
        _produced("NOT_ENOUGH_REPLICAS", base_offset=0),
        _produced("NOT_ENOUGH_REPLICAS", base_offset=-1),
        body={"acks": -1},
        requested=7,
    ),
    "an epoch that the log refuses": of_2_6(
        "Produce",
        _produced("INVALID_PRODUCER_EPOCH", log_start_offset=-1),
        _produced("INVALID_PRODUCER_EPOCH", log_start_offset=0),
        row="2.6 verifies nothing",
        body=TRANSACTIONAL,
        requested=8,
    ),
    "a sequence that the log refuses": of_2_6(
        "Produce",
        _produced("OUT_OF_ORDER_SEQUENCE_NUMBER", log_start_offset=-1),
        _produced("OUT_OF_ORDER_SEQUENCE_NUMBER", log_start_offset=0),
        body=TRANSACTIONAL,
        requested=8,
    ),
    "an epoch without a transaction": of_2_6(
        "Produce",
        _produced("INVALID_PRODUCER_EPOCH", log_start_offset=-1),
        _produced("INVALID_PRODUCER_EPOCH", log_start_offset=0),
        requested=8,
    ),
    "an offset behind a refused batch": of_2_6(
        "Produce", _produced("NONE", base_offset=4), _produced("NONE", base_offset=3), requested=8
    ),
    "a time of a later version": of_2_6(
        "ListOffsets",
        _looked_up("UNSUPPORTED_VERSION"),
        _looked_up("UNKNOWN_LEADER_EPOCH"),
        row="2.6 times",
        requested=5,
    ),
    "another offset of a time": of_2_6(
        "ListOffsets",
        {"topics": [{"name": "$t", "partitions": [{"partition_index": 0, "old_style_offsets": [0]}]}]},
        {"topics": [{"name": "$t", "partitions": [{"partition_index": 0, "old_style_offsets": []}]}]},
        covers=("topics.partitions.timestamp", "one"),
        requested=0,
    ),
    "another time": of_2_6("ListOffsets", _looked_up("NONE"), _looked_up("FENCED_LEADER_EPOCH"), requested=5),
    "a topic deleted twice": of_2_6(
        "DeleteTopics",
        _topics("$t", "$u", where="responses", code="INVALID_REQUEST"),
        _topics("$t", "$t", "$u", where="responses"),
        row="2.6 twice",
        covers=("", "right"),
        requested=3,
    ),
    "another topic deleted as well": of_2_6(
        "DeleteTopics",
        _topics("$t", "$t", where="responses", code="INVALID_REQUEST"),
        _topics("$t", "$t", "$u", where="responses"),
        covers=("", "right"),
        requested=3,
    ),
    "a join that nobody answers": of_2_6(
        "JoinGroup", STATIC_LEADER, LATE, row="2.6 instances in old versions", requested=4
    ),
    "a static leader's own join that nobody answers": of_2_6(
        "JoinGroup",
        STATIC_LEADER | {"members": [{"member_id": "b"}]},
        LATE,
        row="2.6 instances in old versions",
        body={"member_id": "b"},
        requested=3,
    ),
    "a first join that nobody answers": of_2_6(
        "JoinGroup", STATIC_LEADER | {"members": [{"member_id": "b"}]}, LATE, body={"member_id": ""}, requested=3
    ),
    "a join with instance ids that nobody answers": of_2_6("JoinGroup", STATIC_LEADER, LATE, requested=5),
    "a follower's join that nobody answers": of_2_6(
        "JoinGroup", STATIC_LEADER | {"member_id": "c", "members": []}, LATE, requested=4
    ),
    "a join that we do not answer": of_2_6("JoinGroup", LATE, STATIC_LEADER, requested=4),
    "a pending id that leaves with an instance": of_2_6(
        "LeaveGroup",
        FINE,
        {"error_code": "UNKNOWN_SERVER_ERROR"},
        row="2.6 pending leave",
        body={"members": [{"member_id": "m", "group_instance_id": "i"}]},
        requested=4,
    ),
    "a pending id that leaves": of_2_6(
        "LeaveGroup",
        FINE,
        {"error_code": "UNKNOWN_SERVER_ERROR"},
        body={"members": [{"member_id": "m", "group_instance_id": None}]},
        requested=4,
    ),
    "a pending id that leaves with another's instance": of_2_6(
        "LeaveGroup",
        _left(member_join="NONE"),
        _left(member_join="FENCED_INSTANCE_ID"),
        row="2.6 pending leave",
        body={"members": [{"member_id": PENDING, "group_instance_id": "$i"}]},
        covers=("", "right"),
        requested=3,
    ),
    "a pending id that leaves beside another's instance": of_2_6(
        "LeaveGroup",
        _left(member_join="NONE"),
        _left(member_join="FENCED_INSTANCE_ID"),
        body={"members": [{"member_id": PENDING}, {"member_id": "", "group_instance_id": "$i"}]},
        covers=("", "right"),
        requested=3,
    ),
    "an id that only we fence": of_2_6(
        "LeaveGroup",
        _left(member_join="FENCED_INSTANCE_ID"),
        _left(member_join="NONE"),
        body={"members": [{"member_id": PENDING, "group_instance_id": "$i"}]},
        covers=("", "right"),
        requested=3,
    ),
    "a pending id that leaves with another's instance since": of_2_6(
        "LeaveGroup",
        _left(member_join="NONE"),
        _left(member_join="FENCED_INSTANCE_ID"),
        kafka=V3,
        body={"members": [{"member_id": PENDING, "group_instance_id": "$i"}]},
        covers=("", "right"),
        requested=3,
    ),
    "a batch of the broker's time without acknowledgement": of_2_6(
        "Produce",
        "no answer",
        "connection closed",
        row="2.6 append time",
        body={"acks": 0},
        covers=RECORDS_OF_ITS_TIME,
        requested=0,
    ),
    "a batch of the broker's time that only we refuse": of_2_6(
        "Produce", "connection closed", "no answer", body={"acks": 0}, covers=RECORDS_OF_ITS_TIME, requested=0
    ),
    "another batch without acknowledgement": of_2_6(
        "Produce", "no answer", "connection closed", body={"acks": 0}, covers=("", "right"), requested=0
    ),
    "quotas that it fails to describe": of_2_6(
        "DescribeClientQuotas", FINE, {"error_code": "UNKNOWN_SERVER_ERROR"}, covers=("strict", "true"), requested=0
    ),
    "a name looked at last": of_2_6(
        "CreateTopics",
        _topics("$n_x", code="INVALID_TOPIC_EXCEPTION"),
        _topics("$n_x", code="INVALID_REPLICATION_FACTOR"),
        row="2.6 names of new topics",
        requested=3,
    ),
    "a name that can be": of_2_6(
        "CreateTopics", _topics("$n_x", code="INVALID_TOPIC_EXCEPTION"), _topics("$n_x", code="NONE"), requested=3
    ),
    "an election of a kind of its own": of_2_6(
        "ElectLeaders",
        {"error_code": "INVALID_REQUEST"},
        {"error_code": "UNKNOWN_SERVER_ERROR"},
        row="2.6 elections",
        covers=("election_type", "unknown"),
        requested=2,
    ),
    "no records beside an error": of_2_6(
        "Fetch",
        _fetched("UNSUPPORTED_COMPRESSION_TYPE", records=None),
        _fetched("UNSUPPORTED_COMPRESSION_TYPE", records=[]),
        row="2.6 records",
        requested=2,
    ),
    "no records": of_2_6("Fetch", _fetched("NONE", records=None), _fetched("NONE", records=[]), requested=2),
    "two aborts, one without records": of_2_6(
        "Fetch",
        _aborted(0, control=True),
        _aborted(0, 3, control=True),
        row="2.6 aborted without records",
        requested=10,
    ),
    "two aborts": of_2_6("Fetch", _aborted(0, control=False), _aborted(0, 3, control=False), requested=10),
    "markers by ALTER": _marks_by("ALTER CLUSTER", "allow", "2.6 markers by ALTER"),
    "markers by ALTER from a host": _marks_by("ALTER CLUSTER", "host", "2.6 markers by ALTER"),
    "markers without a rule": _marks_by("ALTER CLUSTER", "no rule", ""),
    "markers by a right on topics": _marks_by("ALTER TOPIC", "allow", ""),
    "an abort less": of_2_6("Fetch", _aborted(0, 3), _aborted(3), requested=10),
    "a record more": of_2_6("Fetch", _fetched("NONE", records=[1, 1]), _fetched("NONE", records=[1]), requested=10),
    "no list of aborts": of_2_6(
        "Fetch",
        _fetched("OFFSET_OUT_OF_RANGE", aborted_transactions=[], records=[]),
        _fetched("OFFSET_OUT_OF_RANGE", aborted_transactions=None, records=[]),
        row="2.6 aborted",
        requested=10,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_row_explains_what_it_is_about(case: str) -> None:
    assert CASES[case].rows() == {CASES[case].row}


@pytest.mark.parametrize("damage", ["append time", "length", "length, beside"])
def test_what_only_kafka_refuses_leaves_other_offsets(damage: str) -> None:
    """A request of two partitions that 2.6 closes the connection on is written to neither."""
    theirs = _produced("CORRUPT_MESSAGE") if damage == "append time" else "connection closed"
    covers = ("topic_data.partition_data.records", damage)
    names = of_2_6("Produce", _produced("NONE"), theirs, covers=covers, requested=8).rows()
    assert names
    assert all(row.lasting for row in ROWS if row.name in names)
    assert "" not in names


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
    assert spared(story, V2) == Story("s", left, strict=False)
    assert spared(story, V3) == story
