"""TxnOffsetCommit: offsets that wait for their transaction's marker (KIP-98, KIP-447, KIP-1319;
tests/spec/transactions.txt)."""

from __future__ import annotations

from coterie.coordinator import events as e
from coterie.coordinator.consumer.offsets import (
    TXN_MEMBER_EPOCH_FROM,
    PartitionCheck,
    any_partition,
    check_commit,
)
from coterie.coordinator.consumer.state import ConsumerGroup
from coterie.coordinator.offsets.commit import TOO_LONG, commit_store_error, topic_id_of, validate_commit
from coterie.coordinator.outcome import Context, CoordinatorConfig, Outcome, Reply
from coterie.coordinator.state import CommittedOffset, Group
from coterie.coordinator.streams.offsets import check_streams_commit
from coterie.coordinator.streams.state import StreamsGroup
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.transactions.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)


def txn_commit_refused(request: TxnOffsetCommitRequest, code: ErrorCode) -> TxnOffsetCommitResponse:
    """The same error for every partition of the request."""
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                t.name, t.topic_id, [TxnOffsetCommitResponsePartition(p.partition_index, code) for p in t.partitions]
            )
            for t in request.topics
        ]
    )


# The error of a refused append, or of a transaction that is not its sender's, as a producer gets it: as something to
# try again where that helps, else as it is (scenario testVerificationErrorsForTxnOffsetCommits).
_RETRIED = {
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
}


def decide_txn_commit(
    group: Group | ConsumerGroup | StreamsGroup,
    exists: bool,
    request: TxnOffsetCommitRequest,
    ctx: Context,
    config: CoordinatorConfig,
) -> Outcome:
    """Keeps the offsets as pending. Raises Refusal when the sender may not commit."""
    generation, member_id, instance = (
        request.generation_id_or_member_epoch,
        request.member_id,
        request.group_instance_id,
    )
    check: PartitionCheck = any_partition
    if isinstance(group, ConsumerGroup):
        check = check_commit(group, member_id, instance, generation, ctx.api_version, transactional=True)
    elif isinstance(group, StreamsGroup):
        check = check_streams_commit(group, member_id, instance, generation, ctx.api_version, transactional=True)
    elif exists:
        validate_commit(group, generation, member_id, instance, transactional=True)
    elif generation >= 0:
        knows = ctx.api_version >= TXN_MEMBER_EPOCH_FROM
        raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND if knows else ErrorCode.ILLEGAL_GENERATION)
    outcome, topics = Outcome(producer=(request.producer_id, request.producer_epoch)), []
    for topic in request.topics:
        results = []
        for p in topic.partitions:
            metadata, code = p.committed_metadata or "", ErrorCode.NONE
            if len(metadata.encode()) > config.offset_metadata_max_bytes:
                code = TOO_LONG
            else:
                check(topic.name, topic_id_of(topic.name, topic.topic_id, ctx), p.partition_index)
                committed = CommittedOffset(p.committed_offset, p.committed_leader_epoch, metadata, ctx.now_ms)
                outcome.events.append(
                    e.TransactionalOffsetStored(topic.name, p.partition_index, committed, request.producer_id)
                )
            results.append(TxnOffsetCommitResponsePartition(p.partition_index, code))
        topics.append(TxnOffsetCommitResponseTopic(topic.name, topic.topic_id, results))
    outcome.replies.append(Reply(ctx.token, TxnOffsetCommitResponse(topics=topics)))

    def failed(code: ErrorCode) -> Outcome:
        return Outcome(
            replies=[Reply(ctx.token, txn_commit_refused(request, _RETRIED.get(code) or commit_store_error(code)))]
        )

    outcome.on_append_error = failed
    return outcome
