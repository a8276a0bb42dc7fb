"""Moves of random stories about share groups (KIP-932), the state of their partitions, and streams groups (KIP-1071)."""

from __future__ import annotations

from coterie.certify.question import Step, Value
from coterie_conformance.everything.generated.domains_of_groups import batches, internal_topic, subtopology, topology

_SHARED, _STATES, _STREAMS = "$q{n}", "$z{n}", "$y{n}"
_GROUP = {"group_id": _SHARED}
_ACKNOWLEDGED = "topics.partitions.acknowledgement_batches"
_FIRST_RECORDS_MS = 10_000  # a wait that ends with records; the first one of a group lasts until its state is read
Ranges = tuple[int, int, list[int]]


def _altered(setting: str, value: str) -> tuple[Step, Step]:
    """A setting of the share group, which both brokers then have."""
    resource = {"resources.resource_type": 32, "resources.resource_name": _SHARED}
    configs = {"resources.configs.name": setting, "resources.configs.value": value}
    return (
        ("IncrementalAlterConfigs", resource | configs),
        ("DescribeConfigs", resource | {"resources.configuration_keys": [setting]}),
    )


def _beat(member: str, epoch: int, *topics: str) -> Step:
    return (
        "ShareGroupHeartbeat",
        {
            "group_id": _SHARED,
            "member_id": member,
            "member_epoch": epoch,
            "subscribed_topic_names": [*topics] or None,
        },
    )


def _of_topic(topic: str, partition: int) -> dict[str, Value]:
    return {"topics.topic_id": {"@": "topic id", "of": topic}, "topics.partitions.partition_index": partition}


def _fetched(
    member: str, epoch: int, *acknowledged: Ranges, topic: str = "$t", partition: int = 0, **parts: Value
) -> Step:
    wanted = {"group_id": _SHARED, "member_id": member, "share_session_epoch": epoch}
    acknowledgements = {_ACKNOWLEDGED: batches(*acknowledged)}
    return "ShareFetch", wanted | _of_topic(topic, partition) | acknowledgements | parts


def _acknowledged(member: str, epoch: int, *acknowledged: Ranges, partition: int = 0, **parts: Value) -> Step:
    wanted = {"group_id": _SHARED, "member_id": member, "share_session_epoch": epoch}
    return "ShareAcknowledge", wanted | _of_topic("$t", partition) | {_ACKNOWLEDGED: batches(*acknowledged)} | parts


def _begins(*, partition: int = 0, offset: int = 0, topic: str = "$t") -> Step:
    names = {"topics.topic_name": topic, "topics.partitions.partition_index": partition}
    return "AlterShareGroupOffsets", _GROUP | names | {"topics.partitions.start_offset": offset}


_ALL_OFFSETS: Step = ("DescribeShareGroupOffsets", {"groups.group_id": _SHARED, "groups.topics": None})
_DESCRIBED: Step = ("ShareGroupDescribe", {"group_ids": [_SHARED]})
_PRODUCED: Step = ("Produce", {"topic_data.name": "$t", "topic_data.topic_id": {"@": "topic id", "of": "$t"}})
_DELETED: Step = ("DeleteGroups", {"groups_names": [_SHARED]})
_FIRST: dict[str, Value] = {"max_wait_ms": _FIRST_RECORDS_MS}
_RENEWED: dict[str, Value] = {"is_renew_ack": True}
_NO_RECORDS: dict[str, Value] = dict.fromkeys(("max_wait_ms", "min_bytes", "max_bytes", "max_records"), 0)
_SHARE_MOVES: dict[str, tuple[float, list[Step]]] = {
    "share group": (
        3,
        [
            _begins(),
            _beat("$m", 0, "$t"),
            _beat("$m", 2),
            _DESCRIBED,
            _fetched("$m", 0, **_FIRST),
            _acknowledged("$m", 1, (0, 0, [1]), (1, 1, [2]), (2, 2, [3])),
            _fetched("$m", 2),
            _ALL_OFFSETS,
            _PRODUCED,
            _fetched("$m", 3, (1, 1, [1])),
            _beat("$l", 0, "$t"),
            _beat("$m", 2),
            _fetched("$l", 0, max_wait_ms=10),
            _begins(),
            ("DeleteShareGroupOffsets", _GROUP | {"topics.topic_name": "$t"}),
            _DELETED,
            _acknowledged("$m", -1),
            _fetched("$l", 1),
            _beat("$m", -1),
            _fetched("$l", -1),
            _beat("$l", -1),
            _DESCRIBED,
            _ALL_OFFSETS,
            _begins(offset=1),
            ("ListGroups", {"types_filter": ["share"], "states_filter": []}),
            ("DeleteShareGroupOffsets", _GROUP | {"topics.topic_name": "$t"}),
            _ALL_OFFSETS,
            _DELETED,
            _DESCRIBED,
        ],
    ),
    "share group from the start": (
        2,
        [
            *_altered("share.auto.offset.reset", "earliest"),
            _beat("$m", 0, "$t"),
            _beat("$m", 2),
            _DESCRIBED,
            _fetched("$m", 0, partition=1, max_records=2, **_FIRST),
            _fetched("$m", 1, (0, 2, [2]), partition=1),
            *(_fetched("$m", epoch, (0, 2, [2]), partition=1) for epoch in (2, 3, 4, 5)),
            _ALL_OFFSETS,
            _fetched("$m", 6, partition=1, max_wait_ms=10),
            _beat("$m", 3, "$t", "$u"),
            _beat("$m", 4),
            _fetched(
                "$m",
                7,
                topic="$u",
                forgotten_topics_data=[{"topic_id": {"@": "topic id", "of": "$t"}, "partitions": [1]}],
            ),
            _beat("$m", -1),
            _DESCRIBED,
        ],
    ),
    "share session": (
        2,
        [
            _begins(),
            _beat("$m", 0, "$t"),
            _fetched("$m", 0, **_FIRST),
            _fetched("$m", 0, max_wait_ms=10),
            _fetched("$m", 1, (0, 2, [4]), **_RENEWED, **_NO_RECORDS),
            _acknowledged("$m", 2, (0, 2, [4]), **_RENEWED),
            _fetched("$m", 4, max_wait_ms=10),
            _fetched("$m", 3, (0, 2, [1, 0, 1]), topic="$t", max_wait_ms=10),
            _fetched("$m", 4, share_acquire_mode=1, max_records=1, max_wait_ms=10),
            _fetched("$m", -1, (0, 0, [1])),
            _fetched("$m", 0, (0, 0, [1])),
            _acknowledged("$m", 0, (0, 0, [1])),
            _fetched("$w", 0, share_acquire_mode=1, max_records=1),
            _fetched("$w", 1, share_acquire_mode=1, max_records=2),
            _ALL_OFFSETS,
        ],
    ),
    "share reads committed": (
        2,
        [
            *_altered("share.isolation.level", "read_committed"),
            _begins(partition=1),
            _beat("$m", 0, "$t"),
            ("InitProducerId", {"transactional_id": "$x{n}"}),
            ("AddPartitionsToTxn", {"transactional_id": "$x{n}", "topics.name": "$t", "topics.partitions": [1]}),
            (
                "Produce",
                {
                    "transactional_id": "$x{n}",
                    "topic_data.name": "$t",
                    "topic_data.topic_id": {"@": "topic id", "of": "$t"},
                    "topic_data.partition_data.index": 1,
                    "topic_data.partition_data.records": {
                        "@": "records",
                        "batches": [
                            {
                                "records": [["k", "v", -1000]],
                                "transactional": True,
                                "epoch": 0,
                                "sequence": 0,
                                "producer": {"@": "id", "of": "producer@init{n}", "or": -1},
                            }
                        ],
                    },
                },
            ),
            _fetched("$m", 0, partition=1, **_FIRST),
            _fetched("$m", 1, partition=1, max_wait_ms=10),
            ("EndTxn", {"transactional_id": "$x{n}", "committed": False}),
            _fetched("$m", 2, (0, 2, [1]), partition=1, max_wait_ms=10),
            _ALL_OFFSETS,
            _beat("$m", -1),
        ],
    ),
}


def _state(api: str, *, epoch: int = 1, leader: int = 0, **parts: Value) -> Step:
    names = {"group_id": _STATES, "topics.topic_id": {"@": "topic id", "of": "$t"}, "topics.partitions.partition": 0}
    epochs = {"topics.partitions.state_epoch": epoch, "topics.partitions.leader_epoch": leader}
    inner = {f"topics.partitions.{name}": value for name, value in parts.items()}
    return api, names | epochs | inner


def _state_batch(first: int, last: int, state: int, deliveries: int = 1) -> Value:
    names = ("first_offset", "last_offset", "delivery_state", "delivery_count")
    return dict(zip(names, (first, last, state, deliveries), strict=True))


_READ, _SUMMARIZED = _state("ReadShareGroupState"), _state("ReadShareGroupStateSummary")
_WRITTEN = "WriteShareGroupState"
_STATE_MOVES: dict[str, tuple[float, list[Step]]] = {
    "share state": (
        2,
        [
            _READ,
            _state("InitializeShareGroupState", start_offset=2),
            _READ,
            _state(_WRITTEN, start_offset=2, state_batches=[_state_batch(2, 9, 0), _state_batch(10, 12, 2)]),
            _SUMMARIZED,
            _state(_WRITTEN, start_offset=2, state_batches=[_state_batch(4, 5, 2, 2), _state_batch(11, 11, 4, 3)]),
            _READ,
            _state(_WRITTEN, start_offset=-1, state_batches=[_state_batch(0, 3, 2), _state_batch(6, 9, 2, 2)]),
            _READ,
            _state(_WRITTEN, start_offset=6, state_batches=[]),
            _READ,
            _state("ReadShareGroupState", leader=1),
            _state(_WRITTEN, start_offset=7),
            _state(_WRITTEN, leader=1, start_offset=7, delivery_complete_count=4),
            _SUMMARIZED,
            _state("InitializeShareGroupState", epoch=2, start_offset=-1),
            _state(_WRITTEN, leader=1, start_offset=8),
            _state("ReadShareGroupState", epoch=2, leader=1),
            _state("DeleteShareGroupState"),
            _SUMMARIZED,
            _state(_WRITTEN, epoch=2, leader=1, start_offset=8),
        ],
    )
}


def _streams(member: str, epoch: int, **parts: Value) -> Step:
    return "StreamsGroupHeartbeat", {"group_id": _STREAMS, "member_id": member, "member_epoch": epoch} | parts


def _first_streams(member: str, *, process: str = "$p", **parts: Value) -> Step:
    own = {"topology": topology(subtopology("$t")), "process_id": process, "client_tags": []}
    tasks: dict[str, Value] = {key: [] for key in ("active_tasks", "standby_tasks", "warmup_tasks")}
    return _streams(member, 0, **(own | tasks | parts))


def _tasks(*partitions: int, subtopology_id: str = "0") -> Value:
    return [{"subtopology_id": subtopology_id, "partitions": [*partitions]}] if partitions else []


def _all_tasks(*partitions: int) -> dict[str, Value]:
    return {"active_tasks": _tasks(*partitions), "standby_tasks": [], "warmup_tasks": []}


def _of_both(*partitions: int) -> dict[str, Value]:
    """The active tasks of both subtopologies."""
    both = [*_tasks(*partitions), *_tasks(*partitions, subtopology_id="1")]
    return _all_tasks() | {"active_tasks": both}


_STATEFUL = topology(
    subtopology(
        "$t",
        state_changelog_topics=[
            internal_topic("$y{n}-changelog", topic_configs=[{"key": "cleanup.policy", "value": "compact"}])
        ],
        repartition_sink_topics=["$y{n}-repartition"],
    ),
    {
        **subtopology("$t"),
        "subtopology_id": "1",
        "source_topics": [],
        "repartition_source_topics": [internal_topic("$y{n}-repartition", 2)],
    },
)
_SEEN: Step = ("StreamsGroupDescribe", {"group_ids": [_STREAMS]})
_STREAMS_MOVES: dict[str, tuple[float, list[Step]]] = {
    "streams group": (
        3,
        [
            _first_streams("$m", user_endpoint={"host": "localhost", "port": 8080}),
            _SEEN,
            _streams("$m", 2, **_all_tasks(0, 1)),
            _first_streams("$l", process="$r", user_endpoint={"host": "localhost", "port": 8081}),
            _SEEN,
            _streams("$m", 2, **_all_tasks(0, 1)),
            _streams("$m", 2, **_all_tasks(0)),
            _streams("$l", 3, **_all_tasks()),
            _streams("$l", 3, **_all_tasks(1), task_offsets=[{"subtopology_id": "0", "partition": 1, "offset": 2}]),
            _SEEN,
            (
                "OffsetCommit",
                {
                    "group_id": _STREAMS,
                    "member_id": "$m",
                    "generation_id_or_member_epoch": 3,
                    "group_instance_id": None,
                },
            ),
            ("OffsetFetch", {"groups.group_id": _STREAMS, "groups.member_id": "$m", "groups.member_epoch": 3}),
            _first_streams("$o", topology=topology(subtopology("$u"))),
            _first_streams("$o", topology=topology(subtopology("$t"), epoch=1)),
            _streams("$m", 3, shutdown_application=True),
            _streams("$l", 3),
            ("ListGroups", {"types_filter": ["streams"], "states_filter": []}),
            ("DescribeGroups", {"groups": [_STREAMS]}),
            ("DeleteGroups", {"groups_names": [_STREAMS]}),
            _streams("$l", -1),
            _streams("$m", 3),
            _streams("$m", -1),
            _SEEN,
            ("OffsetDelete", {"group_id": _STREAMS}),
            ("DeleteGroups", {"groups_names": [_STREAMS]}),
            _SEEN,
        ],
    ),
    "streams with state": (
        2,
        [
            _first_streams("$m", topology=_STATEFUL),
            _SEEN,
            _streams("$m", 2, **_all_tasks()),
            _first_streams("$l", topology=_STATEFUL, process="$r"),
            _streams("$m", 3, **_of_both(0, 1)),
            _streams("$m", 3, **_of_both(0)),
            _streams("$l", 4, **_all_tasks()),
            _streams("$m", 4),
            _SEEN,
            _streams("$l", -1),
            _streams("$m", 4),
            _SEEN,
        ],
    ),
    "streams static member": (
        1,
        [
            _first_streams("$m", instance_id="$i"),
            _streams("$m", -2, instance_id="$i"),
            _SEEN,
            _first_streams("$l", instance_id="$i"),
            _streams("$m", 2, instance_id="$i"),
            _streams("$l", 2, instance_id="$i", **_all_tasks(0, 1)),
            _first_streams("$r", instance_id="$i"),
            _SEEN,
            _streams("$l", -1, instance_id="$i"),
            _SEEN,
        ],
    ),
    "streams without a topic": (
        1,
        [
            _first_streams("$m", topology=topology(subtopology("$n{n}"))),
            _SEEN,
            ("CreateTopics", {"topics.name": "$n{n}", "topics.num_partitions": 2}),
            _streams("$m", 2, **_all_tasks()),
            _SEEN,
            ("CreatePartitions", {"topics.name": "$n{n}", "topics.count": 3}),
            _streams("$m", 3, **_all_tasks(0, 1)),
            _streams("$m", 4, **_all_tasks(0, 1, 2)),
            _SEEN,
        ],
    ),
    "kinds of groups in one name": (
        1,
        [
            _first_streams("$m"),
            (
                "ShareGroupHeartbeat",
                {"group_id": _STREAMS, "member_id": "$l", "member_epoch": 0, "subscribed_topic_names": ["$t"]},
            ),
            (
                "ConsumerGroupHeartbeat",
                {"group_id": _STREAMS, "member_id": "$l", "member_epoch": 0, "topic_partitions": []},
            ),
            ("JoinGroup", {"group_id": _STREAMS, "member_id": ""}),
            ("ShareGroupDescribe", {"group_ids": [_STREAMS]}),
            ("ConsumerGroupDescribe", {"group_ids": [_STREAMS]}),
            ("DescribeShareGroupOffsets", {"groups.group_id": _STREAMS}),
            ("AlterShareGroupOffsets", {"group_id": _STREAMS}),
            ("DeleteShareGroupOffsets", {"group_id": _STREAMS}),
            _streams("$m", -1),
            (
                "ShareGroupHeartbeat",
                {"group_id": _STREAMS, "member_id": "$l", "member_epoch": 0, "subscribed_topic_names": ["$t"]},
            ),
            _first_streams("$m"),
            _SEEN,
        ],
    ),
}
SHARE_MOVES = {**_SHARE_MOVES, **_STATE_MOVES, **_STREAMS_MOVES}
