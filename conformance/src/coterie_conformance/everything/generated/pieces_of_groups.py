"""The prerequisites of stories about share groups and streams groups."""

from __future__ import annotations

from coterie.certify.question import Value
from coterie_conformance.everything.generated.domain import Names
from coterie_conformance.everything.generated.domains_of_groups import batches, subtopology, topology

Piece = list[tuple[str, str, int, dict[str, Value]]]
SHARED_WAIT_MS = 10_000  # ends with the first records; the partition's state is read before
_TOPIC_ID: Value = {"@": "topic id", "of": "{topic}"}
_STATE_TOPIC = {"topic_id": _TOPIC_ID}


def _fetched(partition: int, member: str, epoch: int, records: int = 3) -> dict[str, Value]:
    return {
        "group_id": "{group}",
        "member_id": member,
        "share_session_epoch": epoch,
        "max_wait_ms": SHARED_WAIT_MS,
        "min_bytes": 1,
        "max_records": records,
        "batch_size": records,
        "topics": [{"topic_id": _TOPIC_ID, "partitions": [{"partition_index": partition}]}],
    }


def _beat(group: str, member: str, epoch: int, **parts: Value) -> dict[str, Value]:
    return {"group_id": group, "member_id": member, "member_epoch": epoch, **parts}


def _streams(group: str, member: str, epoch: int, **parts: Value) -> dict[str, Value]:
    first: dict[str, Value] = {
        "endpoint_information_epoch": -1,
        "rebalance_timeout_ms": 6_000,
        "topology": topology(subtopology("{topic}")),
        "active_tasks": [],
        "standby_tasks": [],
        "warmup_tasks": [],
        "process_id": "$p",
        "client_tags": [],
    }
    return _beat(group, member, epoch, **(first | parts))


_BEGINNING = [
    {"topic_name": "{topic}", "partitions": [{"partition_index": p, "start_offset": 0} for p in (0, 1)]},
]
GROUP_PIECES: dict[str, Piece] = {
    "share offsets": [
        ("begin {group}", "AlterShareGroupOffsets", 0, {"group_id": "{group}", "topics": _BEGINNING}),
    ],
    "sharer": [
        (
            "sharer {group}",
            "ShareGroupHeartbeat",
            1,
            _beat("{group}", "$m", 0, subscribed_topic_names=["{topic}"]),
        ),
    ],
    "sharer assigned": [("assigned {group}", "ShareGroupHeartbeat", 1, _beat("{group}", "$m", 2))],
    # Another member reads partition 1, whose state the broker has then, and releases it: by name, since Kafka responds to
    # the end of a session before what it releases is written.
    "released": [
        ("other {group}", "ShareFetch", 2, _fetched(1, "$w", 0)),
        (
            "released {group}",
            "ShareFetch",
            2,
            {
                "group_id": "{group}",
                "member_id": "$w",
                "share_session_epoch": -1,
                "topics": [
                    {
                        "topic_id": _TOPIC_ID,
                        "partitions": [{"partition_index": 1, "acknowledgement_batches": batches((0, 2, [2]))}],
                    }
                ],
            },
        ),
    ],
    "acquired": [("acquired {group}", "ShareFetch", 2, _fetched(0, "$m", 0))],
    "accepted": [
        (
            "accepted {group}",
            "ShareAcknowledge",
            2,
            {
                "group_id": "{group}",
                "member_id": "$m",
                "share_session_epoch": 1,
                "topics": [
                    {
                        "topic_id": _TOPIC_ID,
                        "partitions": [{"partition_index": 0, "acknowledgement_batches": batches((0, 1, [1]))}],
                    }
                ],
            },
        )
    ],
    "share state": [
        (
            "state {group}",
            "InitializeShareGroupState",
            0,
            {
                "group_id": "{group}",
                "topics": [
                    _STATE_TOPIC
                    | {"partitions": [{"partition": p, "state_epoch": 1, "start_offset": 0} for p in (0, 1)]}
                ],
            },
        ),
        (
            "written {group}",
            "WriteShareGroupState",
            1,
            {
                "group_id": "{group}",
                "topics": [
                    _STATE_TOPIC
                    | {
                        "partitions": [
                            {
                                "partition": 0,
                                "state_epoch": 1,
                                "leader_epoch": 0,
                                "start_offset": 1,
                                "delivery_complete_count": 1,
                                "state_batches": [
                                    {"first_offset": 1, "last_offset": 2, "delivery_state": 0, "delivery_count": 1},
                                    {"first_offset": 3, "last_offset": 3, "delivery_state": 2, "delivery_count": 1},
                                ],
                            }
                        ]
                    }
                ],
            },
        ),
    ],
    "more records": [
        (
            "more {topic} " + str(p),
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
                                    "batches": [{"codec": 1, "records": [["d", str(n), -500] for n in range(3)]}],
                                },
                            }
                        ],
                    }
                ],
            },
        )
        for p in (0, 1)
    ],
    "streams": [
        ("streams {group}", "StreamsGroupHeartbeat", 1, _streams("{group}", "$m", 0)),
    ],
}
_EACH = Names(group="$g{n}")
_RECORDS = ("topic", "records", "more records")
_ACQUIRED = ("share offsets", "sharer", "released", "acquired")
GROUP_FIXTURES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("ShareFetch", "ShareAcknowledge"), _RECORDS),
    **dict.fromkeys(("ShareGroupHeartbeat", "AlterShareGroupOffsets", "DeleteShareGroupOffsets"), ("topic",)),
    "ShareGroupDescribe": ("topic", "share offsets", "sharer", "sharer assigned"),
    "DescribeShareGroupOffsets": (*_RECORDS, "share offsets", "sharer", "acquired", "accepted"),
    **dict.fromkeys(
        (
            *("InitializeShareGroupState", "ReadShareGroupState", "WriteShareGroupState"),
            *("DeleteShareGroupState", "ReadShareGroupStateSummary"),
        ),
        ("topic",),
    ),
    "StreamsGroupHeartbeat": ("topic",),
    "StreamsGroupDescribe": ("topic", "streams"),
}
GROUP_BEFORE: dict[str, tuple[tuple[str, ...], Names]] = {
    "ShareGroupHeartbeat": (("share offsets", "sharer"), _EACH),
    **dict.fromkeys(("ShareFetch", "ShareAcknowledge"), (_ACQUIRED, _EACH)),
    **dict.fromkeys(("AlterShareGroupOffsets", "DeleteShareGroupOffsets"), (("share offsets",), _EACH)),
    "InitializeShareGroupState": ((), _EACH),
    **dict.fromkeys(
        ("ReadShareGroupState", "WriteShareGroupState", "DeleteShareGroupState", "ReadShareGroupStateSummary"),
        (("share state",), _EACH),
    ),
    "StreamsGroupHeartbeat": (("streams",), _EACH),
}
