"""The values of fields that only share groups (KIP-932) and streams groups (KIP-1071) have; `domains` has the rest.

A member of either kind is "$m", with a share session and three acquired records of "$t" before each case (`pieces_of_groups`).
"""

from __future__ import annotations

from coterie.certify.question import Value
from coterie_conformance.everything.generated.domain import LONG_TEXT, Domain, Names, always

_SESSION_EPOCHS = {"first": 0, "final": -1, "next": 2, "minus two": -2, "huge": 2**31 - 1}
_TYPES: dict[str, Value] = {"gap": 0, "release": 2, "reject": 3, "renew": 4, "unknown": 5, "negative": -1}
_WAIT = always(300, none=0, negative=-1)
_AMOUNT = always(100, one=1, two=2, none=0, negative=-1)


def batches(*ranges: tuple[int, int, list[int]]) -> Value:
    """Acknowledgement batches, of (first offset, last offset, types)."""
    names = ("first_offset", "last_offset", "acknowledge_types")
    return [dict(zip(names, each, strict=True)) for each in ranges]


def internal_topic(name: str, partitions: int = 0, **parts: Value) -> Value:
    """An internal topic of a topology."""
    return {"name": name, "partitions": partitions, "replication_factor": 0, "topic_configs": [], **parts}


def subtopology(topic: str, **parts: Value) -> Value:
    """A subtopology that reads the topic."""
    lists = (
        *("source_topic_regex", "state_changelog_topics", "repartition_sink_topics", "repartition_source_topics"),
        "copartition_groups",
    )
    return {"subtopology_id": "0", "source_topics": [topic], **{name: [] for name in lists}, **parts}


def topology(*subtopologies: Value, epoch: int = 0) -> Value:
    return {"epoch": epoch, "subtopologies": [*subtopologies]}


def _named(wrong: Value = None) -> Domain:
    """A nullable list of structures: null, or none."""
    return Domain(lambda _: wrong, {"none": []})


def _member(right: int) -> dict[str, Domain]:
    """The fields of a heartbeat that both kinds have; ``right`` is the member's epoch."""
    return {
        "member_id": always("$m", unknown="$nobody", long=LONG_TEXT),
        "member_epoch": always(right, join=0, leave=-1, leave_for_a_while=-2, other=right + 1, huge=2**31 - 1),
        "rack_id": always(None, some="r1"),
    }


def _of(api: str, domains: dict[str, Domain]) -> dict[str, Domain]:
    return {f"{api}.{path}": domain for path, domain in domains.items()}


def _first_topic(names: Names) -> Value:
    return names.topic


_BATCHES: dict[str, Value] = {
    "accepted": batches((0, 2, [1])),
    "one by one": batches((0, 0, [1]), (1, 1, [2]), (2, 2, [3])),
    "each its own": batches((0, 2, [1, 0, 3])),
    "too few types": batches((0, 2, [1, 2])),
    "renewed": batches((0, 2, [4])),
    "overlapping": batches((0, 1, [1]), (1, 2, [1])),
    "backwards": batches((2, 2, [1]), (0, 1, [1])),
    "not acquired": batches((3, 5, [1])),
    "beyond": batches((0, 5, [1])),
}
_OTHER_TOPICS: dict[str, Value] = {"unknown": "$nowhere", "existing": "$u", "bad": "$bad/name"}
_OFFSETS = always(0, first_acquired=1, past=1000, minus_two=-2, huge=2**63 - 1)
GROUP_DOMAINS: dict[str, Domain] = {
    **_of("ShareGroupHeartbeat", _member(2)),
    **_of("StreamsGroupHeartbeat", _member(2)),
    # -- share sessions and what a member of one has acquired
    "share_session_epoch": always(1, **_SESSION_EPOCHS),
    "ShareFetch.member_id": always("$m", other="$l", unknown="$nobody", long=LONG_TEXT),
    "ShareAcknowledge.member_id": always("$m", other="$w", unknown="$nobody", long=LONG_TEXT),
    "ShareFetch.max_wait_ms": _WAIT,
    "ShareFetch.min_bytes": always(1, none=0, negative=-1, huge=2**31 - 1),
    "max_records": _AMOUNT,
    "batch_size": _AMOUNT,
    "share_acquire_mode": always(0, limit=1, unknown=2, negative=-1),
    "is_renew_ack": always(False),
    "acknowledgement_batches": Domain(lambda _: [], _BATCHES),
    "ShareAcknowledge.acknowledgement_batches": always(batches((0, 2, [1])), **_BATCHES),
    "acknowledgement_batches.first_offset": always(0, second=1, past=3, negative=-1, huge=2**63 - 1),
    "acknowledgement_batches.last_offset": always(2, second=1, past=5, negative=-1, huge=2**63 - 1),
    "acknowledge_types": always(1, **_TYPES),
    # -- the state of share partitions, at the share coordinator
    "state_epoch": always(1, before=0, after=2, huge=2**31 - 1),
    "ReadShareGroupState.leader_epoch": always(0, before=-1, after=1, huge=2**31 - 1),
    "ReadShareGroupStateSummary.leader_epoch": always(0, before=-1, after=1, huge=2**31 - 1),
    "WriteShareGroupState.leader_epoch": always(0, before=-1, after=1, huge=2**31 - 1),
    "start_offset": _OFFSETS,
    "delivery_complete_count": always(1, none=0, unknown=-1, minus_two=-2),
    "state_batches": Domain(lambda _: [], {}),
    "state_batches.first_offset": always(3, before=0, past=8),
    "state_batches.last_offset": always(5, before=1, past=9),
    "delivery_state": always(0, acknowledged=2, archived=4, acquired=1, unknown=7),
    "delivery_count": always(1, more=3, none=0),
    # -- streams groups
    "endpoint_information_epoch": always(-1, first=0, ahead=5),
    "StreamsGroupHeartbeat.instance_id": always(None, some="$i"),
    "topology": Domain(
        lambda _: None,
        {"some": topology(subtopology("$t")), "none inside": topology()},
    ),
    "topology.epoch": always(0, next=1),
    "subtopology_id": always("0", other="1", empty=""),
    "source_topics": Domain(_first_topic, {"unknown": "$nowhere", "other": "$u", "bad": "$bad/name"}),
    "source_topic_regex": always("$t.*", broken="(", empty=""),
    "repartition_sink_topics": always("$u", unknown="$nowhere", bad="$bad/name"),
    "state_changelog_topics": Domain(lambda _: [], {}),
    "repartition_source_topics": Domain(lambda _: [], {}),
    "copartition_groups": Domain(lambda _: [], {}),
    "copartition_groups.source_topics": always(0, second=1, negative=-1),
    "copartition_groups.source_topic_regex": always(0, second=1, negative=-1),
    "copartition_groups.repartition_source_topics": always(0, second=1, negative=-1),
    "state_changelog_topics.name": Domain(lambda n: f"{n.group}-changelog", _OTHER_TOPICS),
    "repartition_source_topics.name": Domain(lambda n: f"{n.group}-repartition", _OTHER_TOPICS),
    "state_changelog_topics.partitions": always(0, one=1, two=2, negative=-1),
    "repartition_source_topics.partitions": always(2, one=1, none=0, negative=-1),
    "topic_configs": Domain(lambda _: [], {}),
    "topic_configs.key": always("cleanup.policy", unknown="no.such.setting", empty=""),
    "topic_configs.value": always("compact", other="delete", bad="nosuch", empty=""),
    "client_tags.key": always("zone", empty=""),
    "client_tags.value": always("a", empty=""),
    "active_tasks": _named(),
    "standby_tasks": _named(),
    "warmup_tasks": _named(),
    "client_tags": _named(),
    "task_offsets": _named(),
    "task_end_offsets": _named(),
    "user_endpoint": Domain(lambda _: None, {"some": {"host": "localhost", "port": 8080}}),
    "user_endpoint.host": always("localhost", empty=""),
    "user_endpoint.port": always(8080),
    "process_id": always(None, some="$p", empty=""),
    "task_offsets.offset": always(2, none=0, negative=-1),
    "task_end_offsets.offset": always(3, none=0, negative=-1),
}
