"""A consumer group's records in `__consumer_offsets` (KIP-848): bytes to messages, back, and to text for a dump.

Byte for byte what Apache Kafka 4.3 writes: int16 kind before a key, int16 version 0 before a value.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence

from coterie.coordinator.stored_records.stored_kinds import (
    GroupRecord,
    RecordKind,
    read_record,
    text_of_record,
    to_bytes,
)
from coterie.wire.messages.stored.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    OwnedPartitions,
    TargetPartitions,
)

__all__ = ["GroupRecord", "from_bytes", "to_bytes"]
MEMBER_STATES = {0: "stable", 1: "unrevoked partitions", 2: "unreleased partitions"}


def from_bytes(key: bytes, value: bytes | None) -> GroupRecord | None:
    """The record; None for a key of another kind. Raises WireError for a damaged one or an unknown value version."""
    return read_record(_KINDS, key, value)


def text_of(record: GroupRecord) -> str:
    """The record as a line of text for a dump."""
    return text_of_record(_KINDS, record, "consumer")


def other_group_text(key: bytes) -> str | None:
    """A record of a share group, or of a kind in no release, which loading skips, as text; None for a key of another kind.
    Raises WireError for one without a group id."""
    name = _OTHER_GROUPS.get(int.from_bytes(key[:2], "big"))
    if name is None:
        return None
    group_id = ConsumerGroupMetadataKey.decode(key, 3, 2).group_id  # the first field of them all
    return f"{name[0]} group {group_id} {name[1]}, skipped"


def _group_text(key: ConsumerGroupMetadataKey, value: ConsumerGroupMetadataValue) -> str:
    return f"epoch {value.epoch}, metadata hash {value.metadata_hash}"


def _topics_text(key: ConsumerGroupPartitionMetadataKey, value: ConsumerGroupPartitionMetadataValue) -> str:
    return "topics " + (" ".join(f"{t.topic_name}({t.num_partitions})" for t in value.topics) or "none")


def _member_text(key: ConsumerGroupMemberMetadataKey, value: ConsumerGroupMemberMetadataValue) -> str:
    instance = f" ({value.instance_id})" if value.instance_id is not None else ""
    topics = "+".join(value.subscribed_topic_names) or "nothing"
    text = f"member {key.member_id}{instance} subscribes to {topics}"
    text += f", regular expression {value.subscribed_topic_regex!r}" if value.subscribed_topic_regex else ""
    text += f", rebalance timeout {value.rebalance_timeout_ms} ms, client {value.client_id} at {value.client_host}"
    text += f", rack {value.rack_id}" if value.rack_id is not None else ""
    text += f", assignor {value.server_assignor}" if value.server_assignor is not None else ""
    classic = value.classic_member_metadata
    if classic is None:
        return text
    protocols = "+".join(p.name for p in classic.supported_protocols)
    return f"{text}, classic protocol with {protocols}, session timeout {classic.session_timeout_ms} ms"


def _target_text(
    key: ConsumerGroupTargetAssignmentMetadataKey, value: ConsumerGroupTargetAssignmentMetadataValue
) -> str:
    return f"target assignment of epoch {value.assignment_epoch}, computed at {value.assignment_timestamp}"


def _member_target_text(
    key: ConsumerGroupTargetAssignmentMemberKey, value: ConsumerGroupTargetAssignmentMemberValue
) -> str:
    return f"target of {key.member_id}: {_partitions(value.topic_partitions)}"


def _current_text(
    key: ConsumerGroupCurrentMemberAssignmentKey, value: ConsumerGroupCurrentMemberAssignmentValue
) -> str:
    state = MEMBER_STATES.get(value.state, "of unknown state")
    text = f"member {key.member_id} epoch {value.member_epoch} after {value.previous_member_epoch}, {state}"
    revoked = value.partitions_pending_revocation
    pending = f", to revoke {_partitions(revoked)}" if revoked else ""
    return f"{text}, owns {_partitions(value.assigned_partitions)}{pending}"


def _regex_text(key: ConsumerGroupRegularExpressionKey, value: ConsumerGroupRegularExpressionValue) -> str:
    topics = "+".join(value.topics) or "nothing"
    return f"regular expression {key.regular_expression!r} is {topics}, resolved at {value.timestamp}"


def _partitions(topics: Sequence[TargetPartitions | OwnedPartitions]) -> str:
    """Topic ids as Kafka prints them, partitions, and after @ the epochs at which they were assigned."""
    parts = []
    for topic in topics:
        name = base64.urlsafe_b64encode(topic.topic_id).decode().rstrip("=")
        epochs = topic.assignment_epochs if isinstance(topic, OwnedPartitions) else None
        for index, partition in enumerate(topic.partitions):
            parts.append(f"{name}-{partition}" + (f"@{epochs[index]}" if epochs and index < len(epochs) else ""))
    return " ".join(parts) or "nothing"


_KINDS: dict[int, RecordKind] = {
    kind.key.versions.first: kind
    for kind in (
        RecordKind(ConsumerGroupMetadataKey, ConsumerGroupMetadataValue, _group_text, lambda key: "its epoch"),
        RecordKind(
            ConsumerGroupPartitionMetadataKey,
            ConsumerGroupPartitionMetadataValue,
            _topics_text,
            lambda key: "its topics",
        ),
        RecordKind(
            ConsumerGroupMemberMetadataKey,
            ConsumerGroupMemberMetadataValue,
            _member_text,
            lambda key: f"member {key.member_id}",
        ),
        RecordKind(
            ConsumerGroupTargetAssignmentMetadataKey,
            ConsumerGroupTargetAssignmentMetadataValue,
            _target_text,
            lambda key: "its target assignment",
        ),
        RecordKind(
            ConsumerGroupTargetAssignmentMemberKey,
            ConsumerGroupTargetAssignmentMemberValue,
            _member_target_text,
            lambda key: f"the target of {key.member_id}",
        ),
        RecordKind(
            ConsumerGroupCurrentMemberAssignmentKey,
            ConsumerGroupCurrentMemberAssignmentValue,
            _current_text,
            lambda key: f"what {key.member_id} owns",
        ),
        RecordKind(
            ConsumerGroupRegularExpressionKey,
            ConsumerGroupRegularExpressionValue,
            _regex_text,
            lambda key: f"regular expression {key.regular_expression!r}",
        ),
    )
}
RECORD_KINDS = tuple((kind.key, kind.value) for kind in _KINDS.values())  # the messages of each kind's key and value
# Kinds 9 and 18 were in no release; Kafka 4.1 skips them too. 17 and 19 to 23 are `streams/stored`'s.
_OTHER_GROUPS: dict[int, tuple[str, str]] = {
    9: ("share", "topics"),
    10: ("share", "member"),
    11: ("share", "epoch"),
    12: ("share", "target assignment"),
    13: ("share", "target of a member"),
    14: ("share", "assignment of a member"),
    15: ("share", "state partitions"),
    18: ("streams", "topics"),
}
