"""ShareAcknowledge, and the acknowledgements that a ShareFetch carries: checked, then given to the share partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from coterie.authorizer.acls import AclOperation
from coterie.broker.handlers.access.access import Access, access_of
from coterie.broker.handlers.services import Handler, ShareFetchServices
from coterie.broker.requests.calls import Call
from coterie.broker.requests.fetch_sessions import FINAL_EPOCH
from coterie.broker.requests.pending import Pending
from coterie.broker.settings.features import SHARE_VERSION
from coterie.broker.share.share_hosting import Results
from coterie.broker.share.share_sessions import MAX_MEMBER_ID_LENGTH, SessionKey, SharedPartition
from coterie.broker.storage.topics import Topics
from coterie.share.acknowledging import Acknowledgement
from coterie.share.states import RENEW
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.logs.produce import NodeEndpoint
from coterie.wire.messages.share.share_acknowledge import (
    AcknowledgedPartition,
    AcknowledgedTopic,
    AcknowledgementBatch,
    CurrentLeader,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
)
from coterie.wire.messages.share.share_fetch import ShareFetchRequest, SharePartitionData

T = TypeVar("T")
RENEWALS_FROM = 2
_MOVED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


def handle_share_acknowledge(
    broker: ShareFetchServices, request: ShareAcknowledgeRequest, call: Call
) -> Message | Pending:
    """The response comes once all is written. Epoch -1 closes the session, and releases what its member still has."""
    pending = Pending()
    try:
        session = session_key(broker, request)
        broker.share.sessions.acknowledge(session, request.share_session_epoch)
    except Refusal as refusal:
        return ShareAcknowledgeResponse(error_code=refusal.code)

    def acknowledged(results: Results) -> None:
        if request.share_session_epoch == FINAL_EPOCH:
            end_session(broker, session)
        pending.respond(_response(broker, call, session, results))

    acknowledge(broker, request, call, session, acknowledged)
    return pending


def session_key(broker: ShareFetchServices, request: ShareFetchRequest | ShareAcknowledgeRequest) -> SessionKey:
    """Raises Refusal UNSUPPORTED_VERSION where share groups are not served, INVALID_REQUEST for a request without group or with
    a member id that is none."""
    if broker.features.level(SHARE_VERSION) < 1:
        raise Refusal(ErrorCode.UNSUPPORTED_VERSION)
    if request.group_id is None or not request.member_id or len(request.member_id) > MAX_MEMBER_ID_LENGTH:
        raise Refusal(ErrorCode.INVALID_REQUEST)
    return SessionKey(request.group_id, request.member_id)


def end_session(broker: ShareFetchServices, session: SessionKey) -> None:
    """Nobody waits for it: that it is gone already is no error."""
    try:
        broker.share.end_session(session)
    except Refusal as refusal:
        broker.log_lines.warning("the share session of %s in %s: %s", session.member_id, session.group_id, refusal)


def named_partition(topics: Topics, topic_id: bytes, index: int) -> SharedPartition:
    """The partition of a request, with the topic's name where its id is known."""
    topic = topics.by_id.get(topic_id)
    return SharedPartition(topic_id, index, "" if topic is None else topic.name)


def check_readable(broker: ShareFetchServices, access: Access | None, partition: SharedPartition) -> None:
    """Raises Refusal TOPIC_AUTHORIZATION_FAILED or UNKNOWN_TOPIC_OR_PARTITION."""
    if access is not None and not access.allows_topic(AclOperation.READ, partition.topic):
        raise Refusal(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    topic = broker.topics.by_id.get(partition.topic_id)
    if topic is None or not 0 <= partition.partition < len(topic.partitions):
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def acknowledge(
    broker: ShareFetchServices,
    request: ShareFetchRequest | ShareAcknowledgeRequest,
    call: Call,
    session: SessionKey,
    done: Callable[[Results], None],
) -> None:
    """Carries the acknowledgements of a request out; ``done`` gets each partition's error, in the request's order; where no
    partition has batches that are in order, those with an error alone (KafkaApis.handleAcknowledgements)."""
    access = access_of(broker, call)
    checked: dict[SharedPartition, Sequence[Acknowledgement]] = {}
    results: Results = {}
    last_type = RENEW if call.api_version >= RENEWALS_FROM else RENEW - 1
    topics: Iterable[Any] = request.topics
    for topic in topics:
        for wanted in topic.partitions:
            partition = named_partition(broker.topics, topic.topic_id, wanted.partition_index)
            results[partition] = None
            try:
                if not partition.topic:
                    raise Refusal(ErrorCode.UNKNOWN_TOPIC_ID)
                _check_batches(wanted.acknowledgement_batches, last_type, renews=request.is_renew_ack)
                check_readable(broker, access, partition)
            except Refusal as refusal:
                results[partition] = refusal
                continue
            if wanted.acknowledgement_batches:
                checked[partition] = [
                    Acknowledgement(batch.first_offset, batch.last_offset, batch.acknowledge_types)
                    for batch in wanted.acknowledgement_batches
                ]
    if not checked:
        done({partition: refusal for partition, refusal in results.items() if refusal is not None})
        return
    broker.share.acknowledge(session, checked, lambda acknowledged: done(results | acknowledged))


def _check_batches(batches: Sequence[AcknowledgementBatch], last_type: int, *, renews: bool) -> None:
    """Raises Refusal INVALID_REQUEST (KafkaApis.validateAcknowledgementBatches)."""
    previous = -1
    for batch in batches:
        first, last, types = batch.first_offset, batch.last_offset, batch.acknowledge_types
        is_valid = (
            previous <= first <= last
            and len(types) in (1, last - first + 1)
            and all(0 <= kind <= last_type for kind in types)
            and (renews or RENEW not in types)
        )
        if not is_valid:
            raise Refusal(ErrorCode.INVALID_REQUEST)
        previous = last


def by_topic(partitions: Mapping[SharedPartition, T], make: Callable[[bytes], Any]) -> list[Any]:
    """The partitions of each topic together, each topic by ``make``."""
    topics: dict[bytes, Any] = {}
    for partition, data in partitions.items():
        topic = topics.get(partition.topic_id)
        if topic is None:
            topic = topics[partition.topic_id] = make(partition.topic_id)
        topic.partitions.append(data)
    return list(topics.values())


def name_share_leaders(
    broker: ShareFetchServices,
    call: Call,
    partitions: Mapping[SharedPartition, AcknowledgedPartition | SharePartitionData],
) -> list[NodeEndpoint]:
    """Partitions that this broker does not lead get their leader; returns the addresses of the leaders."""
    leader_ids = set[int]()
    for named, data in partitions.items():
        topic = broker.topics.by_id.get(named.topic_id)
        if data.error_code not in _MOVED or topic is None or named.partition >= len(topic.partitions):
            continue
        partition = topic.partitions[named.partition]
        role = None if partition.replica is None else partition.replica.role
        if role is not None:
            data.current_leader = CurrentLeader(role.state.leader, role.state.leader_epoch)
        else:
            described = broker.cluster.described(partition)
            data.current_leader = CurrentLeader(described.leader_id, described.leader_epoch)
        leader_ids.add(data.current_leader.leader_id)
    if not leader_ids:
        return []
    brokers = broker.cluster.brokers(broker.address(call))
    return [NodeEndpoint(b.broker_id, b.host, b.port, b.rack) for b in brokers if b.broker_id in leader_ids]


def _response(
    broker: ShareFetchServices, call: Call, session: SessionKey, results: Results
) -> ShareAcknowledgeResponse:
    partitions = {
        partition: AcknowledgedPartition(partition.partition)
        if refusal is None
        else AcknowledgedPartition(partition.partition, refusal.code, refusal.message)
        for partition, refusal in results.items()
    }
    endpoints = name_share_leaders(broker, call, partitions)
    return ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=broker.share.limits(session.group_id).record_lock_duration_ms,
        responses=by_topic(partitions, AcknowledgedTopic),
        node_endpoints=endpoints,
    )


HANDLERS: dict[int, Handler] = {79: handle_share_acknowledge}
