"""The inputs of a shard: the requests of groups as they are on the wire, and commands of the coordinator's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from coterie.wire.declaration import Message
from coterie.wire.messages.groups.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from coterie.wire.messages.groups.heartbeat import HeartbeatRequest
from coterie.wire.messages.groups.join_group import JoinGroupRequest
from coterie.wire.messages.groups.leave_group import LeaveGroupRequest
from coterie.wire.messages.groups.offset_commit import OffsetCommitRequest
from coterie.wire.messages.groups.offset_delete import OffsetDeleteRequest
from coterie.wire.messages.groups.sync_group import SyncGroupRequest
from coterie.wire.messages.share.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from coterie.wire.messages.share.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
from coterie.wire.messages.share.share_group_heartbeat import ShareGroupHeartbeatRequest
from coterie.wire.messages.streams.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from coterie.wire.messages.transactions.txn_offset_commit import TxnOffsetCommitRequest


@dataclass(frozen=True, slots=True)
class DeadlineExpired:
    """Our own command: a member's deadline has passed; "" for a deadline of the group itself. ``at_once``: whether it has
    or not, as a test wants it."""

    group_id: str
    member_id: str = ""
    at_once: bool = False


@dataclass(frozen=True, slots=True)
class DeleteGroup:
    """DeleteGroups for one group. Refused with NON_EMPTY_GROUP or GROUP_ID_NOT_FOUND."""

    group_id: str


@dataclass(frozen=True, slots=True)
class ExpireOffsets:
    """Tombstones for the group's offsets past offsets.retention.minutes (KIP-211)."""

    group_id: str


@dataclass(frozen=True, slots=True)
class TopicsDeleted:
    """Tombstones for the group's offsets of deleted topics, each with its id."""

    group_id: str
    topics: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class RegexesResolved:
    """The response to `Outcome.resolve`: the topics of each regular expression, in the metadata of ``version``. Without any:
    the lookup failed, and a later heartbeat requests it again."""

    group_id: str
    topics: Mapping[str, frozenset[str]]
    version: int


@dataclass(frozen=True, slots=True)
class StatesInitialized:
    """The share coordinator has initialized the states of these partitions, by topic id, or has failed to. ``response`` is sent
    once that is stored."""

    group_id: str
    partitions: Mapping[bytes, frozenset[int]]
    succeeded: bool = True
    response: Message | None = None


@dataclass(frozen=True, slots=True)
class StatesDeleting:
    """All states of a share group are to be deleted, before it is. Refused with NON_EMPTY_GROUP."""

    group_id: str
    response: Message | None = None


@dataclass(frozen=True, slots=True)
class StatesDeleted:
    """The share coordinator has deleted the states of these topics. ``response`` is sent once that is stored."""

    group_id: str
    topic_ids: frozenset[bytes]
    response: Message | None = None


Command = (
    JoinGroupRequest
    | SyncGroupRequest
    | HeartbeatRequest
    | LeaveGroupRequest
    | OffsetCommitRequest
    | OffsetDeleteRequest
    | TxnOffsetCommitRequest
    | DeadlineExpired
    | DeleteGroup
    | ExpireOffsets
    | TopicsDeleted
    | ConsumerGroupHeartbeatRequest
    | RegexesResolved
    | StreamsGroupHeartbeatRequest
    | ShareGroupHeartbeatRequest
    | AlterShareGroupOffsetsRequest
    | DeleteShareGroupOffsetsRequest
    | StatesInitialized
    | StatesDeleting
    | StatesDeleted
)
