"""Functions that recognise a known difference of Kafka 2.6, beside those of `recognisers`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coterie_conformance.differences.recognisers import (
    ABSENT,
    NOT_VERIFIED,
    ZSTD_FROM,
    DifferingPart,
    about,
    code_at,
    lists_more_often,
    no_partitions,
    refused_unacknowledged,
)

INSTANCES_FROM = 5  # JoinGroup before knows no instance ids
ALTERED_TYPES = {"AlterConfigs": (2, 4), "IncrementalAlterConfigs": (2, 4, 8)}  # topics, brokers, loggers
# What 2.6 looks at in a new topic before its name.
_BEFORE_THE_NAME = frozenset({"INVALID_REQUEST", "INVALID_CONFIG", "INVALID_PARTITIONS", "INVALID_REPLICATION_FACTOR"})


def same_when_read(case: DifferingPart) -> bool:
    """Theirs is ours as a reader of settings understands it: trimmed, in small letters, as a decimal number."""
    ours, theirs = str(case.part.ours).strip().lower(), case.part.theirs
    return theirs in (ours, f"{ours}.0")


def instance_overlooked(case: DifferingPart) -> bool:
    """A request with an instance id that one side answers UNKNOWN_MEMBER_ID: 2.6 overlooks the id there."""
    return "group_instance_id" in repr(case.question.body) and "UNKNOWN_MEMBER_ID" in repr(case.ours)


def instance_not_told_of(case: DifferingPart) -> bool:
    """A join in a version without instance ids that fails; or, where another thread than the request's completes it, has no
    answer, and ours is a leader's, of itself with an id that it had before or of a member more."""
    if case.question.version >= INSTANCES_FROM:
        return False
    waits = case.theirs == "no answer in time" and isinstance(case.ours, dict)
    leads = waits and case.ours["leader"] == case.ours["member_id"]
    described = leads and (len(case.ours["members"]) > 1 or bool(case.question.body.get("member_id")))
    return described or case.codes()[1] == "UNSUPPORTED_VERSION"


def leaves_with_an_instance(case: DifferingPart) -> bool:
    """A pending id that leaves with an instance id: theirs fails as a whole, or fences the id where another member has that
    instance id. Ours fences any other id there, and lets a pending one leave."""
    members = [m for m in case.question.body.get("members") or () if m.get("group_instance_id") is not None]
    if (case.part.ours, case.part.theirs) == ("NONE", "FENCED_INSTANCE_ID"):
        return case.part.path in [f"members[{_written_id(member)}].error_code" for member in members]
    return bool(members) and case.codes() == ("NONE", "UNKNOWN_SERVER_ERROR")


def _written_id(member: dict[str, Any]) -> str:
    """The member's id as a response of the story has it."""
    member_id = member.get("member_id", "")
    return str(member_id["of"] if isinstance(member_id, dict) else member_id)


def not_verified(case: DifferingPart) -> bool:
    """They accept what we refuse as not part of the transaction; or an epoch that they accepted so has fenced the producer's
    own; or their log refuses what our coordinator does."""
    ours, theirs = repr(case.ours), repr(case.theirs)
    if refused_unacknowledged(case):
        return "'transactional': True" in repr(case.question.body)
    if case.part.path.endswith("log_start_offset") and case.part.ours == -1:
        codes = {code_at(response, case.part.path) for response in (case.ours, case.theirs)}
        if len(codes) == 1:
            return codes <= NOT_VERIFIED and "'transactional': True" in repr(case.question.body)
    accepted = any(code in ours for code in NOT_VERIFIED) and not any(code in theirs for code in NOT_VERIFIED)
    return accepted or (case.question.api == "TxnOffsetCommit" and case.part.theirs == "INVALID_PRODUCER_EPOCH")


def called_the_brokers_time(case: DifferingPart) -> bool:
    """A batch that calls its time the broker's: of the partition's response, or, without acknowledgement, of the connection
    that the refusal ends."""
    if not about(r"topic_data\.partition_data\.records", "append time")(case):
        return False
    return bool(case.part.path) or (case.part.ours, case.part.theirs) == ("no answer", "connection closed")


def too_few_replicas(case: DifferingPart) -> bool:
    """Records for all replicas in sync, of which their partition never has as many as its setting says."""
    ours, theirs = (code_at(response, case.part.path) for response in (case.ours, case.theirs))
    return case.question.body.get("acks") == -1 and ours != theirs == "NOT_ENOUGH_REPLICAS"


def unsupported_time(case: DifferingPart) -> bool:
    """A time with a meaning that the request's version does not have yet."""
    return code_at(case.ours, case.part.path) == "UNSUPPORTED_VERSION"


def refused_together(case: DifferingPart) -> bool:
    """Settings beside those of a resource of a type that cannot be altered: they refuse all."""
    types = ALTERED_TYPES[case.question.api]
    another = any(resource.get("resource_type", 0) not in types for resource in case.question.body["resources"])
    return another and {resource["error_code"] for resource in case.theirs["responses"]} == {"INVALID_REQUEST"}


def of_addresses(case: DifferingPart) -> bool:
    """Quotas of addresses, which they refuse."""
    return "'entity_type': 'ip'" in repr(case.question.body) and "INVALID_REQUEST" in repr(case.theirs)


def named_behind(case: DifferingPart) -> bool:
    """A new topic's name that cannot be, beside something else that cannot be."""
    return case.part.ours == "INVALID_TOPIC_EXCEPTION" and case.part.theirs in _BEFORE_THE_NAME


def responded_twice(case: DifferingPart) -> bool:
    """Theirs lists what ours lists, more often."""
    return lists_more_often(case.part.theirs, case.part.ours)


def nothing_inside_theirs(case: DifferingPart) -> bool:
    """A topic without partitions that only Kafka's response has."""
    return bool(case.part.ours == ABSENT) and no_partitions(case.part.theirs)


def no_records(case: DifferingPart) -> bool:
    """A partition without records beside a refused compression or conversion, where ours has null."""
    refused = code_at(case.theirs, case.part.path) in ("UNSUPPORTED_COMPRESSION_TYPE", "UNSUPPORTED_VERSION")
    return case.question.version < ZSTD_FROM and refused and (case.part.ours, case.part.theirs) == (None, [])


def in_a_session(case: DifferingPart) -> bool:
    """A Fetch in a session."""
    return bool(case.question.body.get("session_id"))


def aborted_without_records(case: DifferingPart) -> bool:
    """Theirs lists transactions more, each of which begins with its own marker."""
    ours, theirs = (_listed(value) for value in (case.part.ours, case.part.theirs))
    more = [transaction for transaction in theirs if transaction not in ours]
    partitions = [partition for topic in case.theirs["responses"] for partition in topic["partitions"]]
    written = [batch for partition in partitions for batch in partition["records"] or []]
    markers = {batch["offset"] for batch in written if batch.get("control")}
    return len(theirs) == len(ours) + len(more) > len(ours) and all(t["first_offset"] in markers for t in more)


def _listed(value: Any) -> list[Any]:
    """The elements of a part that is a list or an element of one."""
    return value if isinstance(value, list) else [value] if isinstance(value, dict) else []


def asks_about(*needs: str) -> Callable[[DifferingPart], bool]:
    """A question of the part `acls` about one of those needs, such as WRITE TOPIC."""
    return lambda case: any(covered in needs for covered in case.question.covers)


def denied_beside(*needs: str) -> Callable[[DifferingPart], bool]:
    """The same, where the other denies the topic."""
    return lambda case: asks_about(*needs)(case) and case.part.theirs == "TOPIC_AUTHORIZATION_FAILED"


def denied_unseen(*needs: str) -> Callable[[DifferingPart], bool]:
    """The same, where the topic does not exist and coterie says so, as Kafka 4.3."""
    return lambda case: denied_beside(*needs)(case) and case.part.ours == "UNKNOWN_TOPIC_OR_PARTITION"


def denied_without_text(case: DifferingPart) -> bool:
    """A question of the part `acls` that changes settings or quotas: a text here and none there."""
    requested = asks_about("ALTER_CONFIGS TOPIC", "ALTER_CONFIGS CLUSTER")(case)
    return requested and case.part.ours == "a text" and case.part.theirs is None


def marks_by_alter(case: DifferingPart) -> bool:
    """A WriteTxnMarkers of the part `acls` whose user may ALTER the cluster, and no more of it."""
    need, story = case.question.covers
    allowed = need == "ALTER CLUSTER" and story.split(", ")[1] in ("allow", "host")
    return allowed and (case.part.ours, case.part.theirs) == ("NONE", "CLUSTER_AUTHORIZATION_FAILED")
