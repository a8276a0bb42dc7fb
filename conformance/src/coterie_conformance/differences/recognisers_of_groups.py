"""Functions that recognise a known difference about a group, beside those of `recognisers`."""

from __future__ import annotations

from typing import Any

from coterie_conformance.differences.recognisers import ABSENT, DifferingPart, name_of

MIXED_GROUP = "$c"  # the name of a consumer group in a story, of both protocols in some
LAST_ID = "~"  # a member id that begins so is behind all that a broker makes
MADE_ID = ("member@", "<fresh>")  # how an id that a broker makes is written


def _named_group(path: str) -> str:
    """The group in the path of a described or listed group's part; "" without one."""
    return path.removeprefix("groups[").partition("]")[0] if path.startswith("groups[") else ""


def _described(response: Any, group_id: str) -> list[Any]:
    return [group for group in response["groups"] if name_of(group) == group_id]


def forgotten(case: DifferingPart) -> bool:
    """A group of both protocols that ours describes as Empty, lists as if it were, or refuses a member's commit to, and theirs
    does not know."""
    if case.question.api == "OffsetCommit":
        known = (case.part.ours, case.part.theirs) in _COMMITTED_TO_FORGOTTEN
        return known and str(case.question.body.get("group_id", "")).startswith(MIXED_GROUP)
    name = _named_group(case.part.path)
    if case.question.api == "ListGroups":
        listed = name.startswith(MIXED_GROUP) and case.part.theirs == ABSENT
        return listed and bool(case.part.ours.get("group_state", "Empty") == "Empty")
    ours, theirs = (_described(response, name) for response in (case.ours, case.theirs))
    return any(group.get("group_state") == "Empty" for group in ours) and any(
        group.get("error_code") == "GROUP_ID_NOT_FOUND" for group in theirs
    )


_COMMITTED_TO_FORGOTTEN = (("UNKNOWN_MEMBER_ID", "GROUP_ID_NOT_FOUND"), ("UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION"))


def ordered_by_made_ids(case: DifferingPart) -> bool:
    """Of a group of both protocols: a described one in which an id that its broker made is among two dynamic members or more,
    those not counted whose id is behind all others; or the first heartbeat of a member without an id."""
    if case.question.api == "ConsumerGroupHeartbeat":
        body = case.question.body
        return str(body.get("group_id", "")).startswith(MIXED_GROUP) and not body.get("member_id")
    name = _named_group(case.part.path)
    if not name.startswith(MIXED_GROUP):
        return False
    ids = [
        str(member["member_id"])
        for group in _described(case.theirs, name)
        for member in group["members"]
        if member.get("instance_id", member.get("group_instance_id")) is None
    ]
    among = [member_id for member_id in ids if not member_id.startswith(LAST_ID)]
    return len(among) > 1 and any(member_id.startswith(MADE_ID) for member_id in among)


def beside_one_without_topics(case: DifferingPart) -> bool:
    """A partition of our target that theirs lacks, in a group of which a member names no topics."""
    missing = case.part.theirs == ABSENT and case.part.ours != ABSENT
    groups = _described(case.theirs, _named_group(case.part.path))
    return missing and any(not member["subscribed_topic_names"] for group in groups for member in group["members"])


def is_not_stable(case: DifferingPart) -> bool:
    """A member of a group that is not Stable, of which theirs has no assignment."""
    groups = _described(case.ours, _named_group(case.part.path))
    return case.part.theirs == "" and any(group["group_state"] != "Stable" for group in groups)


# A question about a group that only Kafka has, which is Empty and has no protocol: our value and theirs.
_ONLY_IN_KAFKA = {
    "DescribeGroups": (("Dead", "Empty"), ("GROUP_ID_NOT_FOUND", "NONE"), ("a text", None)),
    "DeleteGroups": (("GROUP_ID_NOT_FOUND", "NONE"),),
    "OffsetCommit": (("GROUP_ID_NOT_FOUND", "UNKNOWN_MEMBER_ID"), ("ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID")),
}


def empty_in_kafka(case: DifferingPart) -> bool:
    """A group that exists, Empty, only in Kafka."""
    ours, theirs = case.part.ours, case.part.theirs
    if case.question.api == "ListGroups":
        return bool(ours == ABSENT and theirs["protocol_type"] == "")
    if case.question.api == "OffsetDelete":
        return case.codes() == ("GROUP_ID_NOT_FOUND", "NONE")
    return (ours, theirs) in _ONLY_IN_KAFKA[case.question.api]


# A question about a group without members, or with a pending one alone, that Kafka has dropped: our value and theirs.
_GONE_IN_KAFKA = {
    "DescribeGroups": (("Empty", "Dead"),),
    "DeleteGroups": (("NONE", "GROUP_ID_NOT_FOUND"),),
    "LeaveGroup": (("NONE", "UNKNOWN_MEMBER_ID"),),
}


RESERVED_TWICE = ("UNKNOWN_SERVER_ERROR", "FENCED_INSTANCE_ID")  # an id not yet joined with, and another's instance id


def gone_in_kafka(case: DifferingPart) -> bool:
    """A group that exists only in coterie."""
    ours, theirs, api = case.part.ours, case.part.theirs, case.question.api
    if api == "ListGroups":
        return bool(theirs == ABSENT and ours.get("group_state", "Empty") == "Empty")
    if api == "OffsetDelete":
        return case.codes() == ("NONE", "GROUP_ID_NOT_FOUND")
    if api == "DescribeGroups" and case.part.general() == "groups[].protocol_type":
        return theirs == "" and "'Empty'" in repr(case.ours) and "'Dead'" in repr(case.theirs)
    if api == "JoinGroup":
        codes = case.codes()
        if case.part.general() == "generation_id" and codes == ("NONE", "NONE"):
            return bool(theirs == 1 < ours)  # theirs begins again
        is_unknown = codes[0] != codes[1] == "UNKNOWN_MEMBER_ID" or codes == RESERVED_TWICE
        return is_unknown and bool(case.question.body.get("member_id"))
    return (ours, theirs) in _GONE_IN_KAFKA[api]


RELEASE = 2  # a type of acknowledgement


def released_in_the_request(case: DifferingPart) -> bool:
    """A ShareFetch that releases records, which it acquires again in our response, and not in theirs."""
    partitions = [partition for topic in case.question.body["topics"] for partition in topic.get("partitions", ())]
    batches = [batch for partition in partitions for batch in partition.get("acknowledgement_batches") or ()]
    return any(RELEASE in batch.get("acknowledge_types", ()) for batch in batches)


def _shared_partitions(case: DifferingPart) -> list[tuple[str, int]]:
    topics = case.question.body.get("topics") or []
    return [(str(t.get("topic_id")), p.get("partition_index", 0)) for t in topics for p in t.get("partitions") or []]


def fails_on_shared_twice(case: DifferingPart) -> bool:
    """A ShareFetch that begins a session with a partition twice, for which the other broker fails."""
    named, begins = _shared_partitions(case), not case.question.body.get("share_session_epoch", 0)
    failed = isinstance(case.theirs, dict) and case.theirs.get("error_code") == "UNKNOWN_SERVER_ERROR"
    return begins and failed and len(set(named)) < len(named)


SHORT_WAIT_MS = 300  # within which Kafka's persister may read a state, or not


def read_too_late(case: DifferingPart) -> bool:
    """A ShareFetch of a short wait, whose response names a partition without a state in ours alone."""
    is_short = int(case.question.body.get("max_wait_ms", 0)) <= SHORT_WAIT_MS
    ours = case.part.ours if isinstance(case.part.ours, dict) else {}
    codes = {part.get("error_code") for part in ours.get("partitions", [ours])}
    return is_short and case.part.theirs == ABSENT and codes == {"UNKNOWN_SERVER_ERROR"}


def assigns_as_many(case: DifferingPart) -> bool:
    """Each member that a response about a share group names has as many partitions of each topic on both sides."""
    return bool(_partitions_of_members(case.ours) == _partitions_of_members(case.theirs))


def _partitions_of_members(response: Any) -> list[tuple[str, list[tuple[str, int]]]]:
    members = [member for group in response.get("groups", ()) for member in group["members"]] or [response]
    return sorted(
        (
            str(member["member_id"]),
            sorted(
                (t["topic_id"], len(t["partitions"])) for t in (member["assignment"] or {}).get("topic_partitions", ())
            ),
        )
        for member in members
    )
