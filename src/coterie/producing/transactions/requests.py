"""What a transactional producer requests of its driver: each effect is returned once, carried out, and reported back. The
requests in them (KIP-98, KIP-447), and the error that a response amounts to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from coterie.wire import topic_names
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode, error_of
from coterie.wire.messages.transactions.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from coterie.wire.messages.transactions.end_txn import EndTxnRequest
from coterie.wire.messages.transactions.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

TopicPartition = tuple[str, int]
# The newest versions that do not imply a transaction of version 2 (KIP-890).
PRODUCE_OF_VERSION_1 = 11
_OF_VERSION_1: dict[type[Message], int] = {AddPartitionsToTxnRequest: 3, TxnOffsetCommitRequest: 4, EndTxnRequest: 4}
_BY_NAME: dict[type[Message], int] = {TxnOffsetCommitRequest: topic_names.TXN_OFFSET_COMMIT}
# By (topic, partition) the offset, or the offset with leader epoch (-1: unknown) and metadata.
TransactionOffsets = Mapping[Any, int | tuple[int, int, str]]


class CommittingMember(NamedTuple):
    """On whose behalf offsets are committed; generation -1 and member id "" for a group without members."""

    group_id: str
    generation: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


def add_partitions_request(
    transactional_id: str, producer_id: int, epoch: int, partitions: Iterable[TopicPartition]
) -> AddPartitionsToTxnRequest:
    """In the shape of versions up to 3, which name one transaction."""
    topics: dict[str, AddPartitionsToTxnTopic] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, AddPartitionsToTxnTopic(topic)).partitions.append(partition)
    return AddPartitionsToTxnRequest(transactional_id, producer_id, epoch, list(topics.values()))


def offsets_request(
    transactional_id: str, producer_id: int, epoch: int, offsets: TransactionOffsets, member: CommittingMember
) -> TxnOffsetCommitRequest:
    """The offsets that are committed with the transaction."""
    topics: dict[str, TxnOffsetCommitRequestTopic] = {}
    for (topic, partition), committed in offsets.items():
        offset, leader_epoch, text = (committed, -1, "") if isinstance(committed, int) else committed
        entry = topics.setdefault(topic, TxnOffsetCommitRequestTopic(topic))
        entry.partitions.append(TxnOffsetCommitRequestPartition(partition, offset, leader_epoch, text))
    return TxnOffsetCommitRequest(
        transactional_id,
        member.group_id,
        producer_id,
        producer_epoch=epoch,
        generation_id_or_member_epoch=member.generation,
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        topics=list(topics.values()),
    )


def newest_version(request: Message, bumps_epoch: bool) -> int | None:
    """The newest version that a request may be sent in, None for any; ``bumps_epoch`` of its transaction."""
    return (_BY_NAME if bumps_epoch else _OF_VERSION_1).get(type(request))


def error_in(response: Message) -> ErrorCode:
    """The first error of a response, NONE without one; that another part was not attempted counts only where nothing else
    does."""
    received: Any = response
    numbers = [getattr(received, "error_code", 0)]
    for topic in getattr(received, "results_by_topic", ()):
        numbers += [p.partition_error_code for p in topic.results_by_partition]
    for topic in getattr(received, "topics", ()):
        numbers += [p.error_code for p in topic.partitions]
    codes = [error_of(number) for number in numbers if number]
    decisive = [code for code in codes if code != ErrorCode.OPERATION_NOT_ATTEMPTED] or codes
    return decisive[0] if decisive else ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class SendTransactional:
    """Send to that broker, in the version ``highest`` or an older one (None: any), then call `Transactions.responded` or
    `Transactions.request_failed`."""

    node_id: int
    request: Message
    highest: int | None = None


@dataclass(frozen=True, slots=True)
class LookUpCoordinatorOf:
    """Find the coordinator of the transactional id or the group (``kind``), put it into the cluster's metadata, then call
    `Transactions.coordinator_looked_up`."""

    key: str
    kind: int


@dataclass(frozen=True, slots=True)
class TransactionCallEnded:
    """The result of a call, once for each; ``code`` NONE where it succeeded. ``is_refused``: the code is that of the state,
    which an earlier failure left."""

    token: int
    code: ErrorCode
    is_refused: bool = False


TransactionEffect = SendTransactional | LookUpCoordinatorOf | TransactionCallEnded
