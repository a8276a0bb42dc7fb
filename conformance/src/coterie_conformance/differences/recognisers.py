"""Functions that recognise a known difference between two responses; names and reasons are in `differences.ROWS`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from coterie.wire.apis import APIS

if TYPE_CHECKING:
    from coterie.certify.question import Question
    from coterie.certify.responses import Part

ABSENT = "<absent>"
BROKER = 4  # the type of its resource
BATCHES_FROM = 4  # Fetch before has old message sets
ZSTD_FROM = 10  # Fetch before is of clients that may know no zstd
SHORT_FETCH_BYTES = 1000  # less than a story writes


@dataclass(frozen=True, slots=True)
class DifferingPart:
    """One part that differs, with the question and both whole responses."""

    question: Question
    part: Part
    ours: Any
    theirs: Any

    def codes(self) -> tuple[str, str]:
        """The error of each whole response; "" where it has none, or there is none."""
        one, other = (a.get("error_code", "") if isinstance(a, dict) else "" for a in (self.ours, self.theirs))
        return one, other


Recognise = Callable[[DifferingPart], bool]
# The APIs that Kafka serves and coterie does not, by key.
NOT_SERVED = {
    **dict.fromkeys((4, 5, 6, 7), "between ZooKeeper's controller and its brokers"),
    **dict.fromkeys(
        (52, 53, 54, 55, 56, 58, 59, 62, 63, 67, 70, 73, 80, 81, 82), "inside KRaft: its quorum and controllers"
    ),
}
# Versions of a served api that Kafka serves and coterie does not, by api key.
NOT_IN_THIS_VERSION = {
    2: "ListOffsets 11 asks about uploads to tiered storage",
    22: "InitProducerId 6: two-phase commit (KIP-939), which Kafka itself does not enable",
}


def not_served(case: DifferingPart) -> bool:
    """An API that Kafka lists in ApiVersions and coterie does not serve."""
    return case.part.ours == ABSENT and case.part.theirs["api_key"] in NOT_SERVED


def newer_or_older(case: DifferingPart) -> bool:
    """Our range of versions reaches further at this end; or the api is of a later Kafka."""
    if case.part.theirs == ABSENT:
        return case.part.ours["api_key"] in APIS
    if case.part.path.endswith("max_version"):
        return bool(case.part.ours > case.part.theirs)
    return case.part.path.endswith("min_version") and bool(case.part.ours < case.part.theirs)


def version_gap(case: DifferingPart) -> bool:
    """A newest version in ApiVersions that only Kafka serves."""
    key = int(case.part.path.partition("[")[2].partition("]")[0])
    return key in NOT_IN_THIS_VERSION and case.part.path.endswith("max_version")


def named_twice(case: DifferingPart) -> bool:
    """Ours lists what theirs lists, more often."""
    return lists_more_often(case.part.ours, case.part.theirs)


def lists_more_often(one: Any, other: Any) -> bool:
    """Two lists of the same names, of which the first has some more often."""
    if not (isinstance(one, list) and isinstance(other, list) and len(one) > len(other)):
        return False
    return {name_of(item) for item in one} == {name_of(item) for item in other}


def name_of(item: Any) -> str:
    """The name of an element of a response's list; its repr without one."""
    from coterie.certify.responses import element_name

    return element_name(item) or repr(item)


def nothing_inside(case: DifferingPart) -> bool:
    """Ours names a topic of which no partition was named; theirs leaves it out."""
    ours, theirs = case.part.ours, case.part.theirs
    if theirs == ABSENT:
        return no_partitions(ours)
    return theirs == [] and isinstance(ours, list) and all(map(no_partitions, ours))


def no_partitions(item: Any) -> bool:
    """Of a topic, or of all topics inside."""
    if not isinstance(item, dict):
        return False
    inner = [value for name, value in item.items() if isinstance(value, list) and re.search("partition|topic", name)]
    return bool(inner) and all(all(map(no_partitions, value)) for value in inner)


_FEATURES = frozenset(
    f"{name}.version"
    for name in ("metadata", "group", "transaction", "kraft", "share", "streams", "eligible.leader.replicas")
)


def feature_of_another_version(case: DifferingPart) -> bool:
    """A feature in ApiVersions whose levels differ between versions of Kafka."""
    return case.part.path.partition("[")[2].partition("]")[0] in _FEATURES


def about(path: str, classes: str = ".*") -> Recognise:
    """The question is about the field there, with a value of one of these classes; both are regular expressions."""

    def recognises(case: DifferingPart) -> bool:
        field, name = case.question.covers
        return re.fullmatch(path, field) is not None and re.fullmatch(f"({classes})(, .*)?", name) is not None

    return recognises


def fails_about(path: str, classes: str = ".*") -> Recognise:
    """`about`, and the other broker fails with an exception of its own."""
    requested = about(path, classes)
    return lambda case: "UNKNOWN_SERVER_ERROR" in repr(case.theirs) and requested(case)


def fails_on_no_id(case: DifferingPart) -> bool:
    """A Fetch of a partition without a topic id, for which the other broker fails."""
    return _without_an_id(case) > 0


def fails_on_no_id_twice(case: DifferingPart) -> bool:
    """A Fetch of two partitions or more without a topic id, for which the other broker fails."""
    return _without_an_id(case) > 1


def _without_an_id(case: DifferingPart) -> int:
    if not isinstance(case.ours, dict) or case.codes()[1] != "UNKNOWN_SERVER_ERROR":
        return 0
    without = [topic for topic in case.ours.get("responses", ()) if topic.get("topic_id") == "none"]
    return sum(len(topic["partitions"]) for topic in without)


def ends_in_another_story(case: DifferingPart) -> bool:
    """A page of all topics, of which one response's goes on with another story's topic."""
    cursors = [response.get("next_cursor") for response in (case.ours, case.theirs) if isinstance(response, dict)]
    others = [cursor for cursor in cursors if cursor is not None and not cursor["topic_name"].startswith("$")]
    return bool(others) and not case.question.body.get("topics")


def names_setting(*names: str) -> Recognise:
    """The question, or the part's path, names one of these settings."""
    quoted = [f"'{name}'" for name in names]

    def recognises(case: DifferingPart) -> bool:
        body = repr(case.question.body)
        return any(name in body for name in quoted) or any(f"[{name}]" in case.part.path for name in names)

    return recognises


def codes_of(case: DifferingPart) -> set[str]:
    """The error codes of both responses."""
    return set(re.findall("error_code': '([A-Z_]+)'", repr((case.ours, case.theirs))))


def code_at(response: Any, path: str) -> str:
    """The error of the innermost structure on the way to that part of a response that has one; "" without any."""
    from coterie.certify.responses import element_name

    code, at = response.get("error_code", "") if isinstance(response, dict) else "", response
    for name, element in re.findall(r"(\w+)(?:\[([^\]]*)\])?", path):
        at = at.get(name) if isinstance(at, dict) else None
        if isinstance(at, list):
            at = next((item for n, item in enumerate(at) if (element_name(item) or str(n)) == element), None)
        code = at.get("error_code", code) if isinstance(at, dict) else code
    return code


def refused_unacknowledged(case: DifferingPart) -> bool:
    """A Produce without acknowledgement that we refuse, which ends its connection, and that they accept."""
    return (case.part.ours, case.part.theirs) == ("connection closed", "no answer")


def theirs_is(*values: Any) -> Callable[[DifferingPart], bool]:
    """Kafka's part is one of these values."""
    return lambda case: case.part.theirs in values


def pair(ours: Any, theirs: Any) -> Callable[[DifferingPart], bool]:
    """Both parts are these values."""
    return lambda case: (case.part.ours, case.part.theirs) == (ours, theirs)


def names_unknown_transaction_version(case: DifferingPart) -> bool:
    """A WriteTxnMarkers with another transaction version than 0 to 2."""
    return any(not 0 <= marker.get("transaction_version", 0) <= 2 for marker in case.question.body.get("markers") or ())


def no_time(case: DifferingPart) -> bool:
    """A timeout of no time at all."""
    return case.question.body.get("timeout_ms", 1) <= 0 and "REQUEST_TIMED_OUT" in repr(case.theirs)


def follower(case: DifferingPart) -> bool:
    """A request that names a replica id, as only followers do, which Kafka answers NOT_LEADER_OR_FOLLOWER."""
    return "NOT_LEADER_OR_FOLLOWER" in repr(case.theirs) and case.question.body.get("replica_id", 0) >= 0


def other_size(case: DifferingPart) -> bool:
    """Ours is where theirs begins, in a version for which records are converted down, and some are compressed."""
    ours, theirs = case.part.ours, case.part.theirs
    lists = isinstance(ours, list) and isinstance(theirs, list)
    compressed = lists and any(isinstance(message, dict) and message.get("codec") for message in theirs)
    return case.question.version < BATCHES_FROM and compressed and ours == theirs[: len(ours)]


def aborted_beyond(case: DifferingPart) -> bool:
    """Theirs lists transactions more, of a Fetch for little."""
    limits = re.findall(r"max_bytes': (-?\d+)", repr(case.question.body))
    return lists_also(case) and any(int(limit) < SHORT_FETCH_BYTES for limit in limits)


def lists_also(case: DifferingPart) -> bool:
    """An element that only theirs has, or a list that begins as ours and goes on."""
    ours, theirs = case.part.ours, case.part.theirs
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(theirs) > len(ours) and theirs[: len(ours)] == ours
    return bool(ours == ABSENT)


def zstd_refused(case: DifferingPart) -> bool:
    """A Fetch of a version of before zstd, from a topic that is compressed by it, which only they refuse."""
    refused = "UNSUPPORTED_COMPRESSION_TYPE" in repr(case.theirs) and "UNSUPPORTED_COMPRESSION_TYPE" not in repr(
        case.ours
    )
    return refused and case.question.version < ZSTD_FROM


def prefix_of_converted(case: DifferingPart) -> bool:
    """Theirs is where ours begins, in a version for which records are converted down."""
    ours, theirs = case.part.ours, case.part.theirs
    lists = isinstance(ours, list) and isinstance(theirs, list)
    return case.question.version < BATCHES_FROM and lists and theirs == ours[: len(theirs)]


def repeated_beginning(case: DifferingPart) -> bool:
    """Theirs is ours behind a piece of where ours begins, in a version for which records are converted down."""
    ours, theirs = case.part.ours, case.part.theirs
    if case.question.version >= BATCHES_FROM or not (isinstance(ours, list) and isinstance(theirs, list)):
        return False
    more = len(theirs) - len(ours)
    return 0 < more <= len(ours) and theirs == ours[:more] + ours


def setting_of_a_broker(*names: str) -> Recognise:
    """A broker's described setting: one of these, of coterie's own, or (without names) any."""
    quoted = (*(f"[{name}]" for name in names), "[coterie.")

    def recognises(case: DifferingPart) -> bool:
        path = case.part.path.partition(".configs")[2]
        about_broker = any(resource.get("resource_type") == BROKER for resource in case.question.body["resources"])
        return about_broker and (not names or path.startswith(quoted))

    return recognises


def other_setting_of_a_broker(case: DifferingPart) -> bool:
    """A broker's setting that only coterie describes."""
    return case.part.theirs == ABSENT and setting_of_a_broker()(case)


def fenced_by_itself(case: DifferingPart) -> bool:
    """We take the epoch that the request claims; they have fenced it."""
    fenced = re.search("PRODUCER_FENCED|INVALID_PRODUCER_EPOCH", repr(case.theirs)) is not None
    return fenced and "'NONE'" in repr(case.ours) and case.question.body.get("producer_epoch", -1) != -1


# Codes of the verification of a transaction, and what a TxnOffsetCommit may be answered after it.
NOT_VERIFIED = frozenset(
    {
        "INVALID_PRODUCER_ID_MAPPING",
        "INVALID_PRODUCER_EPOCH",
        "INVALID_REQUEST",
        "INVALID_TXN_STATE",
        "TRANSACTION_ABORTABLE",
    }
)
_AFTER_VERIFICATION = frozenset(
    {
        "NONE",
        "GROUP_ID_NOT_FOUND",
        "ILLEGAL_GENERATION",
        "OFFSET_METADATA_TOO_LARGE",
        "STALE_MEMBER_EPOCH",
        "UNKNOWN_MEMBER_ID",
    }
)


def committed_unverified(case: DifferingPart) -> bool:
    """They accept what we refuse; or an epoch that they accepted so has fenced the producer's own."""
    ours, theirs = case.part.ours, case.part.theirs
    accepted = ours in NOT_VERIFIED and theirs in _AFTER_VERIFICATION
    return accepted or (ours in _AFTER_VERIFICATION and theirs == "INVALID_PRODUCER_EPOCH")


def produced_unverified(case: DifferingPart) -> bool:
    """Transactional records of an epoch that our log or coordinator refuses, for which theirs was not asked: they are in the
    log, or refused for another reason."""
    transactional = "'transactional': True" in repr(case.question.body)
    ours, theirs = (code_at(response, case.part.path) for response in (case.ours, case.theirs))
    refused = ours in ("INVALID_PRODUCER_EPOCH", "INVALID_PRODUCER_ID_MAPPING")
    return transactional and refused and theirs in ("NONE", "INVALID_REQUIRED_ACKS", "INVALID_PRODUCER_EPOCH")


def verified_together(case: DifferingPart) -> bool:
    """An error of another version than the request's, with its words."""
    other = {"INVALID_TXN_STATE", "TRANSACTION_ABORTABLE"}
    if case.part.path.endswith("error_code"):
        return {case.part.ours, case.part.theirs} == other
    return other <= codes_of(case)


def start_of_the_last(case: DifferingPart) -> bool:
    """A transactional id without a transaction, whose last one's start they still have."""
    state = next((s for s in case.theirs["transaction_states"] if s["transactional_id"] in case.part.path), None)
    return state is not None and state["transaction_state"] == "Empty" and case.part.ours == -1


def unconvertible(case: DifferingPart) -> bool:
    """We convert messages down, in a response that they do not give."""
    failed = case.theirs == "connection closed" or "UNKNOWN_SERVER_ERROR" in repr(case.theirs)
    return failed and case.question.version < BATCHES_FROM and "'magic'" in repr(case.ours)


def settings_later(case: DifferingPart) -> bool:
    """We refuse what a compacted topic does not take, and they take it."""
    codes = code_at(case.ours, case.part.path), code_at(case.theirs, case.part.path)
    keyless = re.search(r"\[None, '\w*'", repr(case.question.body)) is not None
    refused = codes == ("INVALID_RECORD", "NONE") or refused_unacknowledged(case)
    return (keyless and refused) or codes == ("POLICY_VIOLATION", "NONE")


_LOOKED_UP = re.compile(r"topics\[(?P<name>.*)\]\.partitions\[(?P<index>\d+)\]\.\w+")


def finds_none_of_a_time(case: DifferingPart) -> bool:
    """A time, of which theirs finds no record, and ours one of that time or a later one."""
    at = _LOOKED_UP.fullmatch(case.part.path)
    if at is None:
        return False
    requested, ours, theirs = (
        _looked_up(body, at["name"], int(at["index"])) for body in (case.question.body, case.ours, case.theirs)
    )
    if (theirs.get("error_code"), theirs.get("offset")) != ("NONE", -1):
        return False
    wanted, met = requested.get("timestamp"), re.fullmatch(r"start([+-]\d+) ms", str(ours.get("timestamp")))
    if not isinstance(wanted, dict) or wanted["@"] != "now" or met is None:
        return False
    return int(met[1]) >= int(wanted["ms"])


def _looked_up(body: Any, name: str, index: int) -> dict[str, Any]:
    """The partition of a ListOffsets request or response; empty without it."""
    topics = [topic for topic in body.get("topics") or () if topic.get("name") == name]
    partitions = [each for topic in topics for each in topic.get("partitions") or ()]
    return next((each for each in partitions if each.get("partition_index", 0) == index), {})
