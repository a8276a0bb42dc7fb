"""ShareFetch: a member of a share group acknowledges, and acquires records now or after a wait for min.bytes of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from coterie.broker.handlers.access.access import access_of
from coterie.broker.handlers.logs.share_acknowledge import (
    acknowledge,
    by_topic,
    check_readable,
    end_session,
    name_share_leaders,
    named_partition,
    session_key,
)
from coterie.broker.handlers.services import Handler, ShareFetchServices
from coterie.broker.requests.calls import Call
from coterie.broker.requests.fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH, next_epoch
from coterie.broker.requests.pending import Pending
from coterie.broker.share.share_hosting import Results
from coterie.broker.share.share_sessions import SessionKey, SharedPartition, ShareFetchContext
from coterie.broker.share.waiting_share_fetch import Fetched, ShareFetching, WaitingShareFetch
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.share.share_fetch import (
    AcquiredRecords,
    ShareFetchableTopic,
    ShareFetchRequest,
    ShareFetchResponse,
    SharePartitionData,
)

RENEWS_FROM = 2


def handle_share_fetch(broker: ShareFetchServices, request: ShareFetchRequest, call: Call) -> Message | Pending:
    """Errors of the session are the response's, all others a partition's. A broker with as many sessions as it may have returns
    after max.wait.ms, so that the member does not repeat it at once."""
    pending = Pending()
    acknowledges = any(p.acknowledgement_batches for topic in request.topics for p in topic.partitions)
    try:
        session = session_key(broker, request)
        _check_renewal(request, call)
        if request.share_session_epoch == INITIAL_EPOCH and acknowledges:
            raise Refusal(ErrorCode.INVALID_REQUEST)
        context = _begin(broker, request, call, session)
    except Refusal as refusal:
        if refusal.code is not ErrorCode.SHARE_SESSION_LIMIT_REACHED:
            return ShareFetchResponse(error_code=refusal.code)
        response = ShareFetchResponse(error_code=refusal.code)
        timer = broker.scheduler.call_later(request.max_wait_ms / 1000, partial(pending.respond, response))
        pending.cancel = timer.cancel
        return pending
    parts = _Parts(broker, request, call, session, context, pending)
    if acknowledges:
        acknowledge(broker, request, call, session, parts.acknowledged)
    else:
        parts.acknowledged({})
    parts.fetch()
    return pending


def _check_renewal(request: ShareFetchRequest, call: Call) -> None:
    """A request that renews locks must not fetch. Raises Refusal INVALID_REQUEST."""
    fetches = (request.max_bytes, request.min_bytes, request.max_records, request.max_wait_ms)
    if call.api_version >= RENEWS_FROM and request.is_renew_ack and any(fetches):
        raise Refusal(ErrorCode.INVALID_REQUEST)


def _begin(
    broker: ShareFetchServices, request: ShareFetchRequest, call: Call, session: SessionKey
) -> ShareFetchContext:
    named = [
        named_partition(broker.topics, topic.topic_id, wanted.partition_index)
        for topic in request.topics
        for wanted in topic.partitions
    ]
    forgotten = [(topic.topic_id, index) for topic in request.forgotten_topics_data for index in topic.partitions]
    epoch = request.share_session_epoch
    return broker.share.sessions.begin(session, epoch, named, forgotten, call.connection, call.client_id)


@dataclass(slots=True)
class _Parts:
    """A response of two parts: what was acknowledged, and what was fetched; sent when both are there."""

    broker: ShareFetchServices
    request: ShareFetchRequest
    call: Call
    session: SessionKey
    context: ShareFetchContext
    pending: Pending
    results: Results | None = None
    fetched: dict[SharedPartition, SharePartitionData] | None = None
    refused: dict[SharedPartition, SharePartitionData] = field(default_factory=dict)

    def acknowledged(self, results: Results) -> None:
        """What became of the acknowledgements."""
        self.results = results
        self._respond()

    def fetch(self) -> None:
        """Begins to fetch, unless the request renews locks alone."""
        readable = [] if self._renews else self._readable()
        if not readable:
            self._fetched({})
            return
        request, broker = self.request, self.broker
        room = broker.response_memory.room
        fetching = ShareFetching(
            group_id=self.session.group_id,
            member_id=self.session.member_id,
            max_bytes=min(request.max_bytes, broker.max_fetch_bytes, room),
            min_bytes=min(request.min_bytes, request.max_bytes, broker.max_fetch_bytes),
            max_records=request.max_records,
            batch_size=request.batch_size,
            acquire_mode=request.share_acquire_mode,
            reads_committed=broker.share.settings_of(self.session.group_id).reads_committed,
        )
        rotated = rotated_partitions(readable, self.context.epoch)
        idle_ms = broker.max_idle_ms
        wait_ms = request.max_wait_ms if idle_ms < 0 else min(request.max_wait_ms, idle_ms)
        waiting = WaitingShareFetch(broker.share, fetching, self._fetched, broker.log_lines)
        self.pending.cancel = waiting.stop
        waiting.start(rotated, wait_ms)

    @property
    def _renews(self) -> bool:
        return self.call.api_version >= RENEWS_FROM and self.request.is_renew_ack

    def _readable(self) -> list[SharedPartition]:
        access, readable = access_of(self.broker, self.call), []
        for partition in self.context.partitions:
            try:
                if not partition.topic:
                    raise Refusal(ErrorCode.UNKNOWN_TOPIC_ID)
                check_readable(self.broker, access, partition)
            except Refusal as refusal:
                self.refused[partition] = SharePartitionData(partition.partition, refusal.code, records=b"")
            else:
                readable.append(partition)
        return readable

    def _fetched(self, fetched: Mapping[SharedPartition, Fetched]) -> None:
        self.fetched = {partition: _data(partition, part) for partition, part in fetched.items()} | self.refused
        self._respond()

    def _respond(self) -> None:
        if self.results is None or self.fetched is None:
            return
        broker, code = self.broker, ErrorCode.NONE
        endpoints = name_share_leaders(broker, self.call, self.fetched)
        fetched, session = self.fetched, self.context.session
        if session is not None:
            if session.epoch != next_epoch(self.context.epoch):  # another request overtook this one while it waited
                code, fetched = ErrorCode.INVALID_SHARE_SESSION_EPOCH, {}
            fetched = {partition: data for partition, data in fetched.items() if session.takes(partition.key, data)}
        for partition, refusal in self.results.items():
            data = fetched.get(partition)
            if data is None:
                data = fetched[partition] = SharePartitionData(partition.partition, records=b"")
            if refusal is not None:
                data.acknowledge_error_code, data.acknowledge_error_message = refusal.code, refusal.message
        if self.request.share_session_epoch == FINAL_EPOCH:
            end_session(broker, self.session)
        self.pending.respond(
            ShareFetchResponse(
                error_code=code,
                acquisition_lock_timeout_ms=broker.share.limits(self.session.group_id).record_lock_duration_ms,
                responses=by_topic(fetched, ShareFetchableTopic),
                node_endpoints=endpoints,
            )
        )


def _data(partition: SharedPartition, fetched: Fetched) -> SharePartitionData:
    if isinstance(fetched, Refusal):  # without its text, as in Kafka (KafkaApis.getResponsePartitionData)
        return SharePartitionData(partition.partition, fetched.code, records=b"")
    acquired = [AcquiredRecords(*part) for part in fetched.acquired]
    return SharePartitionData(partition.partition, records=fetched.records, acquired_records=acquired)


def rotated_partitions(partitions: list[SharedPartition], epoch: int) -> list[SharedPartition]:
    """Each request of a session begins with another partition (Kafka's PartitionRotateStrategy)."""
    at = epoch % len(partitions) if epoch >= 1 else 0
    return partitions[at:] + partitions[:at]


HANDLERS: dict[int, Handler] = {78: handle_share_fetch}
