"""Answers in the words of the scenario language."""

from __future__ import annotations

from coterie.assignors.blobs import decode_assignment
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode, error_of
from coterie.wire.messages.groups.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from coterie.wire.messages.groups.delete_groups import DeleteGroupsResponse
from coterie.wire.messages.groups.heartbeat import HeartbeatResponse
from coterie.wire.messages.groups.join_group import JoinGroupResponse
from coterie.wire.messages.groups.leave_group import LeaveGroupResponse
from coterie.wire.messages.groups.offset_commit import OffsetCommitResponse
from coterie.wire.messages.groups.offset_delete import OffsetDeleteResponse
from coterie.wire.messages.groups.sync_group import SyncGroupResponse
from coterie.wire.messages.share.alter_share_group_offsets import AlterShareGroupOffsetsResponse
from coterie.wire.messages.share.delete_share_group_offsets import DeleteShareGroupOffsetsResponse
from coterie.wire.messages.share.share_group_heartbeat import ShareGroupHeartbeatResponse
from coterie.wire.messages.streams.streams_group_heartbeat import StreamsGroupHeartbeatResponse
from coterie.wire.messages.transactions.txn_offset_commit import TxnOffsetCommitResponse


def response_text(response: Message) -> str:
    """One line: the API, the error's name, and what a member would look at."""
    match response:
        case JoinGroupResponse():
            return _join(response)
        case SyncGroupResponse():
            text = f"SyncGroup {_code(response.error_code)}"
            return text if response.error_code else f"{text} assignment={_assignment(response.assignment)}"
        case HeartbeatResponse():
            return f"Heartbeat {_code(response.error_code)}"
        case LeaveGroupResponse():
            members = "".join(f" {m.group_instance_id or m.member_id}={_code(m.error_code)}" for m in response.members)
            return f"LeaveGroup {_code(response.error_code)}{members}"
        case OffsetCommitResponse():
            return "OffsetCommit" + _partitions(response)
        case TxnOffsetCommitResponse():
            return "TxnOffsetCommit" + _partitions(response)
        case OffsetDeleteResponse():
            return f"OffsetDelete {_code(response.error_code)}" + _partitions(response)
        case ConsumerGroupHeartbeatResponse():
            return f"ConsumerGroupHeartbeat {_member(response)}"
        case ShareGroupHeartbeatResponse():
            interval = "" if response.error_code or not response.heartbeat_interval_ms else _interval(response)
            return f"ShareGroupHeartbeat {_member(response)}{interval}"
        case AlterShareGroupOffsetsResponse():
            return f"AlterShareGroupOffsets {_code(response.error_code)}" + "".join(
                f" {t.topic_name}-{p.partition_index}={_code(p.error_code)}"
                for t in response.responses
                for p in t.partitions
            )
        case DeleteShareGroupOffsetsResponse():
            return f"DeleteShareGroupOffsets {_code(response.error_code)}" + "".join(
                f" {t.topic_name}={_code(t.error_code)}" + (f" ({t.error_message})" if t.error_message else "")
                for t in response.responses
            )
        case StreamsGroupHeartbeatResponse():
            return _thread(response)
        case DeleteGroupsResponse():
            return "DeleteGroups " + " ".join(f"{r.group_id or '-'}={_code(r.error_code)}" for r in response.results)
        case _:
            raise AssertionError(f"the scenario language has no text for {response}")


def _thread(response: StreamsGroupHeartbeatResponse) -> str:
    text = f"StreamsGroupHeartbeat {_code(response.error_code)}"
    if response.error_code:
        return f"{text} {response.error_message or ''}".rstrip()
    text += f" member={response.member_id} epoch={response.member_epoch}"
    for role in ("active", "standby", "warmup"):
        tasks = getattr(response, f"{role}_tasks")
        if tasks or (tasks is not None and role == "active"):
            text += f" {role}={'+'.join(f'{t.subtopology_id}_{p}' for t in tasks for p in t.partitions) or '-'}"
    if response.endpoint_information_epoch:
        text += f" endpoints@{response.endpoint_information_epoch}"
    for served in response.partitions_by_user_endpoint or []:
        roles = ("active", served.active_partitions), ("standby", served.standby_partitions)
        topics = "".join(f" {role} {t.topic}{t.partitions}" for role, parts in roles for t in parts).replace(", ", ",")
        text += f" [{served.user_endpoint.host}:{served.user_endpoint.port}{topics}]"
    for status in response.status or []:
        text += f" ({status.status_code}: {status.status_detail})"
    return text


def _assignment(data: bytes) -> str:
    """Text as a scenario sends it, or the partitions of an assignment in Kafka's format."""
    if data[:1] != b"\0":
        return data.decode() or "-"
    return "+".join(f"{topic}-{partition}" for topic, partition in decode_assignment(data)) or "no partitions"


def _code(code: int) -> str:
    return error_of(code).name


def _partitions(response: OffsetCommitResponse | OffsetDeleteResponse | TxnOffsetCommitResponse) -> str:
    return "".join(
        f" {t.name}-{p.partition_index}={_code(p.error_code)}" for t in response.topics for p in t.partitions
    )


def _interval(response: ShareGroupHeartbeatResponse) -> str:
    return "" if response.heartbeat_interval_ms == 5_000 else f" interval={response.heartbeat_interval_ms}"


def _member(response: ConsumerGroupHeartbeatResponse | ShareGroupHeartbeatResponse) -> str:
    text = _code(response.error_code)
    if response.error_code:
        return text
    text += f" member={response.member_id} epoch={response.member_epoch}"
    if response.assignment is None:
        return text
    assigned = [(t.topic_id.decode().strip("."), p) for t in response.assignment.topic_partitions for p in t.partitions]
    return f"{text} assignment={'+'.join(f'{name}-{partition}' for name, partition in assigned) or '-'}"


def _join(response: JoinGroupResponse) -> str:
    text = f"JoinGroup {_code(response.error_code)}"
    if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        return f"{text} member={response.member_id}"
    if response.error_code:
        return text if response.protocol_name is None else f"{text} protocol={response.protocol_name}"
    members = ",".join(m.group_instance_id or m.member_id for m in response.members)
    text += f" generation={response.generation_id} protocol={response.protocol_name} leader={response.leader}"
    text += f" member={response.member_id}" + (f" members=[{members}]" if members else "")
    return text + (" skip-assignment" if response.skip_assignment else "")
