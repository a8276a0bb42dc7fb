"""Acquiring records of a share group, and acknowledging them (KIP-932; Kafka's ShareConsumeRequestManager).

Theory: a broker acquires records for a member for a limited time, so nothing is fetched ahead: a request goes out once the
caller of poll wants records and none are buffered. One request is under way per broker, because the requests of a share
session are numbered. Acknowledgements travel with the next ShareFetch, or in a ShareAcknowledge where a caller waits for them
or no fetch is due; they go to the broker that delivered the records, and end exactly once: `ended` has them in order.

A driver passes in what happened and calls `next` for effects until there are none; it carries each effect out and reports how
it ended. Errors that no retry mends are in ``errors`` for the caller of poll.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from coterie.consuming.fetching.outcomes import FetchRemedy, remedy
from coterie.consuming.record import TopicPartition
from coterie.consuming.sharing.acknowledgements import Acknowledgements, TopicIdPartition
from coterie.consuming.sharing.completed_fetch import CompletedShareFetch
from coterie.consuming.sharing.node import (
    LOST,
    RECORD_LIMIT,
    RefreshLeaders,
    SendShare,
    ShareNode,
    SharingConfig,
    SharingEffect,
    by_partition,
)
from coterie.machines.cluster_metadata import NO_NODE, ClusterMetadata
from coterie.wire.errors import ErrorCode, error_of
from coterie.wire.messages.share.share_acknowledge import (
    AcknowledgedPartition,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
)
from coterie.wire.messages.share.share_fetch import (
    ShareFetchRequest,
    ShareFetchResponse,
    SharePartitionData,
)

_E = ErrorCode
_MOVED = frozenset({_E.NOT_LEADER_OR_FOLLOWER, _E.FENCED_LEADER_EPOCH})
_GONE = frozenset({_E.UNKNOWN_TOPIC_OR_PARTITION, _E.UNKNOWN_TOPIC_ID})


class Sharing:
    """``known`` has the leaders; the driver keeps it up to date. Times in ms, of the driver's clock. ``buffered``: acquired,
    and not handed out yet."""

    def __init__(self, config: SharingConfig, known: ClusterMetadata) -> None:
        self.config = config
        self.buffered: deque[CompletedShareFetch] = deque()
        self.ended: list[Acknowledgements] = []
        self.errors: deque[tuple[TopicPartition | None, ErrorCode, str | None]] = deque()
        self._known = known
        self._partitions: list[TopicPartition] = []
        self._nodes: dict[int, ShareNode] = {}
        self._wanted = False  # records are to be acquired
        self._limited_to: int | None = None  # the broker whose turn it is, with RECORD_LIMIT
        self._stale: set[str] = set()  # topics whose leaders are to be looked up
        self._refreshing: RefreshLeaders | None = None
        self._refresh_failures = 0
        self._refresh_at_ms = float("-inf")

    # -- inputs from the user -----------------------------------------------------------------------------------------

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Records of these are acquired and no others; what is buffered stays."""
        self._partitions = list(dict.fromkeys(partitions))

    def want(self, acknowledged: Iterable[Acknowledgements] = ()) -> None:
        """Records are to be acquired, until some are; the requests for them carry the acknowledgements."""
        self._wanted = True
        for each in acknowledged:
            node = self._nodes.get(each.node_id)
            if node is None:
                self._end(each, _E.NETWORK_EXCEPTION)
            else:
                node.carry(each)

    def commit(self, acknowledged: Iterable[Acknowledgements], deadline_ms: float) -> None:
        """Sends the acknowledgements without waiting for a fetch, again after an error that passes, until the deadline."""
        for each in acknowledged:
            node = self._nodes.get(each.node_id)
            if node is None:
                self._end(each, self._unsent_commit(each))
            else:
                each.deadline_ms = deadline_ms
                node.queued.append(each)

    def close(self, acknowledged: Iterable[Acknowledgements]) -> None:
        """Ends the sessions, each with a request that has the last acknowledgements: the brokers release what else is
        acquired. Nothing is fetched any more."""
        self.want(acknowledged)
        self._wanted = False
        for node in self._nodes.values():
            node.closing = True

    @property
    def is_closed(self) -> bool:
        """After `close`: whether all sessions have ended."""
        return not any(node.closing or node.in_flight for node in self._nodes.values())

    # -- what follows -------------------------------------------------------------------------------------------------

    def next(self, now_ms: float) -> list[SharingEffect]:
        """The effects that are due; each is returned once."""
        effects: list[SharingEffect] = []
        for node_id, node in self._nodes.items():
            if node.in_flight is None and self._known.address(node_id) is None:
                self._leave(node)
            self._expire(node, now_ms)
            if now_ms >= node.retry_at_ms:
                node.retry_at_ms = float("-inf")  # no deadline any more, also where nothing is to be sent
            if node.in_flight is None and now_ms >= node.retry_at_ms:
                sent = self._acknowledge(node_id, node)
                if sent is not None:
                    effects.append(sent)
        if self._wanted:
            effects += self._fetch(now_ms)
        if self._stale and self._refreshing is None and now_ms >= self._refresh_at_ms:
            self._refreshing = RefreshLeaders(frozenset(self._stale))
            effects.append(self._refreshing)
        return effects

    def next_deadline_ms(self) -> float | None:
        """When to call `next` although nothing happened; None: only after an input."""
        times: list[float] = []
        for node in self._nodes.values():
            times += [each.deadline_ms for each in node.queued if each.attempts]
            if node.in_flight is None and (self._wanted or node.queued or node.closing):
                times.append(node.retry_at_ms)
        if self._stale and self._refreshing is None:
            times.append(self._refresh_at_ms)
        return min((time for time in times if float("-inf") < time < float("inf")), default=None)

    def _leave(self, node: ShareNode) -> None:
        """The broker is none of the cluster's any more: its session is over, and nothing is sent to it."""
        queued, node.queued = node.queued, []
        for each in queued:
            self._end(each, self._unsent_commit(each))
        for each in node.take_carried():
            self._end(each, _E.NETWORK_EXCEPTION)
        node.session.reset()

    def _unsent_commit(self, acknowledged: Acknowledgements) -> ErrorCode:
        """The error of a commit whose broker cannot be reached, or has no session."""
        leader = self._known.leader(*acknowledged.partition.named)
        moved = leader not in (None, acknowledged.node_id) and self._known.address(leader) is not None
        return _E.NOT_LEADER_OR_FOLLOWER if moved else _E.NETWORK_EXCEPTION

    def _expire(self, node: ShareNode, now_ms: float) -> None:
        late = [each for each in node.queued if each.attempts and now_ms >= each.deadline_ms]
        node.queued = [each for each in node.queued if each not in late]
        for each in late:
            self._end(each, _E.REQUEST_TIMED_OUT)

    def _acknowledge(self, node_id: int, node: ShareNode) -> SendShare | None:
        if not node.queued and not node.closing:
            return None
        is_last = not node.queued
        carried = node.take_carried() if is_last else node.take_queued()
        if node.session.is_new:  # the broker has no session that could have these as acquired
            for each in carried:
                self._end(each, _E.SHARE_SESSION_NOT_FOUND)
            if is_last:
                node.closing = False
                return None
            return self._acknowledge(node_id, node)
        if is_last:
            node.session.finish()
        request = ShareAcknowledgeRequest(self.config.group_id, self.config.member_id)
        request.is_renew_ack = any(each.renews for each in carried)
        node.session.fill_acknowledge(request, carried)
        node.in_flight = SendShare(node_id, request, carried)
        return node.in_flight

    def _fetch(self, now_ms: float) -> list[SharingEffect]:
        led: dict[int, list[TopicIdPartition]] = {}
        topic_ids = self._known.topic_ids({where.topic for where in self._partitions})
        for where in self._partitions:
            leader = self._known.leader(*where)
            if leader is None or self._known.address(leader) is None or where.topic not in topic_ids:
                self._stale.add(where.topic)
            else:
                led.setdefault(leader, []).append(TopicIdPartition(topic_ids[where.topic], *where))
                self._nodes.setdefault(leader, ShareNode())
        sent: list[SharingEffect] = []
        for node_id, node in self._nodes.items():
            if node.in_flight is None and now_ms >= node.retry_at_ms and not node.closing:
                is_empty = not node.session.is_new and not node.session.partitions
                if is_empty and node_id not in led and not self._has_records(node_id, node):
                    node.closing = True  # no partition of the broker's is wanted, and nothing that it acquired is left
                effect = self._acknowledge(node_id, node) if node.closing else None
                sent += [effect] if effect is not None else self._fetch_from(node_id, node, led.get(node_id, []))
        return sent

    def _has_records(self, node_id: int, node: ShareNode) -> bool:
        return bool(node.renewed) or any(each.node_id == node_id for each in self.buffered)

    def _fetch_from(self, node_id: int, node: ShareNode, led: list[TopicIdPartition]) -> list[SharingEffect]:
        carried = node.take_carried()
        if node.session.is_new:
            for each in carried:
                self._end(each, _E.NETWORK_EXCEPTION)
            carried = []
        has_turn = bool(led)
        if self.config.acquire_mode == RECORD_LIMIT and has_turn:
            has_turn = self._limited_to in (None, node_id)
            if has_turn and self._limited_to is None:
                self._limited_to = node_id
                self._partitions.remove(led[0].named)  # another broker's turn comes next
                self._partitions.append(led[0].named)
        if not has_turn and not carried and not (led if node.session.is_new else node.session.changes(led)):
            return []
        renews = any(each.renews for each in carried)
        request = self._request(acquires=has_turn and not renews)
        request.is_renew_ack = renews
        node.session.fill_fetch(request, led, carried)
        node.in_flight = SendShare(node_id, request, carried)
        return [node.in_flight]

    def _request(self, *, acquires: bool) -> ShareFetchRequest:
        """Without partitions yet; one that acquires nothing only changes the session, or carries acknowledgements."""
        config = self.config
        request = ShareFetchRequest(config.group_id, config.member_id)
        request.max_wait_ms = request.min_bytes = request.max_bytes = request.max_records = request.batch_size = 0
        if acquires:
            request.max_wait_ms, request.min_bytes = config.max_wait_ms, config.min_bytes
            request.max_bytes = config.max_bytes
            request.max_records = request.batch_size = config.max_poll_records
        request.share_acquire_mode = config.acquire_mode
        return request

    # -- inputs from the driver ---------------------------------------------------------------------------------------

    def disconnected(self, node_id: int) -> None:
        """The broker has released what it had acquired for this member: what is buffered would be delivered twice, and could
        not be acknowledged."""
        self.buffered = deque(each for each in self.buffered if each.node_id != node_id)

    def responded(
        self, sent: SendShare, response: ShareFetchResponse | ShareAcknowledgeResponse, now_ms: float
    ) -> None:
        """The response to a request."""
        node = self._returned(sent)
        code = error_of(response.error_code)
        node.session.responded(code)
        if code in LOST:
            self.disconnected(sent.node_id)
        if sent.request.share_session_epoch < 0:
            node.session.reset()
            node.closing = False
            code = ErrorCode.NONE if code in LOST else code
        carried = by_partition(sent.carried)
        if code:
            self._refused(sent, node, code, response.error_message, now_ms)
            return
        self._keep_leaders(response)
        failed = False
        names = {
            (tip.topic_id, tip.partition): tip
            for tip in (*node.session.partitions, *(c.partition for c in sent.carried))
        }
        for topic in response.responses:
            for data in topic.partitions:
                key = topic.topic_id, data.partition_index
                if key in names:
                    failed |= self._take_in(
                        sent, names[key], data, carried.get(key), response.acquisition_lock_timeout_ms
                    )
        for each in sent.carried:
            if each.code is None and each not in node.queued:
                self._end(each, _E.INVALID_RECORD_STATE, "the broker's response left the partition out")
        if failed:
            self._back_off(node, now_ms)
        else:
            node.failures, node.retry_at_ms = 0, float("-inf")

    def failed(self, sent: SendShare, code: ErrorCode, message: str | None, now_ms: float) -> None:
        """No response came. The broker may have acted upon the request: its acknowledgements have failed, and the session
        begins again."""
        node = self._returned(sent)
        node.session.reset()
        self.disconnected(sent.node_id)
        node.closing = node.closing and sent.request.share_session_epoch >= 0
        for each in sent.carried:
            self._end(each, code, message)
        if not code.retriable:
            self.errors.append((None, code, message))
        self._stale |= {tip.topic for tip in self._partitions}
        self._back_off(node, now_ms)

    def is_awaited(self, sent: SendShare) -> bool:
        """Whether neither a response nor a failure of the request is known."""
        return self._nodes[sent.node_id].in_flight is sent

    def leaders_refreshed(self, refresh: RefreshLeaders, now_ms: float) -> None:
        """The topics' leaders are as new as they can be: also where the request failed."""
        assert refresh is self._refreshing
        self._refreshing = None
        self._stale -= refresh.topics
        unled = any(
            self._known.leader(*where) in (None, NO_NODE) for where in self._partitions if where.topic in refresh.topics
        )
        self._refresh_failures = self._refresh_failures + 1 if unled else 0
        self._refresh_at_ms = now_ms + self.config.backoff.pause_ms(self._refresh_failures)

    def _returned(self, sent: SendShare) -> ShareNode:
        node = self._nodes[sent.node_id]
        assert node.in_flight is sent
        node.in_flight = None
        if self._limited_to == sent.node_id:
            self._limited_to = None
        return node

    def _refused(self, sent: SendShare, node: ShareNode, code: ErrorCode, message: str | None, now_ms: float) -> None:
        """The response as a whole is an error."""
        is_fetch = isinstance(sent.request, ShareFetchRequest)
        for each in sent.carried:
            if not is_fetch and code.retriable and sent.request.share_session_epoch >= 0:
                self._send_again(node, each)
            else:
                self._end(each, _E.NETWORK_EXCEPTION if is_fetch and code in LOST else code, message)
        if not code.retriable:
            self.errors.append((None, code, message))
        if code in _GONE:
            self._stale |= {where.topic for where in self._partitions}
        self._back_off(node, now_ms)

    def _take_in(
        self,
        sent: SendShare,
        partition: TopicIdPartition,
        data: SharePartitionData | AcknowledgedPartition,
        acknowledged: Acknowledgements | None,
        lock_timeout_ms: int,
    ) -> bool:
        """A partition's part of a response; whether the next request to the broker is to wait for a pause."""
        node, code, failed = self._nodes[sent.node_id], error_of(data.error_code), False
        if isinstance(data, AcknowledgedPartition):
            if acknowledged is not None and code.retriable and code not in _MOVED | _GONE:
                self._send_again(node, acknowledged)
                return True
            if acknowledged is not None:
                self._end(acknowledged, code, data.error_message, lock_timeout_ms)
            if code in _MOVED | _GONE:
                self._stale.add(partition.topic)
            return False
        if acknowledged is not None:
            why = error_of(data.acknowledge_error_code)
            self._end(acknowledged, why, data.acknowledge_error_message, lock_timeout_ms)
        if code:
            failed = remedy(code) is not FetchRemedy.REPORT
            if failed:
                self._stale.add(partition.topic)
            else:
                self.errors.append((partition.named, code, data.error_message))
        elif data.acquired_records:
            self._wanted = False
            self.buffered.append(
                CompletedShareFetch(sent.node_id, partition, data, lock_timeout_ms, check_crcs=self.config.check_crcs)
            )
        return failed

    def _keep_leaders(self, response: ShareFetchResponse | ShareAcknowledgeResponse) -> None:
        """Of the leaders that a broker names in place of itself (KIP-951)."""
        names = self._known.topic_names([topic.topic_id for topic in response.responses])
        leaders: dict[TopicPartition, tuple[int, int]] = {}
        for topic in response.responses:
            for data in topic.partitions:
                leader = data.current_leader
                named = NO_NODE not in (leader.leader_id, leader.leader_epoch)
                if data.error_code in _MOVED and named and topic.topic_id in names:
                    where = TopicPartition(names[topic.topic_id], data.partition_index)
                    leaders[where] = leader.leader_id, leader.leader_epoch
        addresses = {node.node_id: (node.host, node.port) for node in response.node_endpoints}
        self._known.leaders_received(leaders, addresses)

    def _send_again(self, node: ShareNode, acknowledged: Acknowledgements) -> None:
        acknowledged.attempts += 1
        node.queued.insert(0, acknowledged)

    def _back_off(self, node: ShareNode, now_ms: float) -> None:
        node.retry_at_ms = now_ms + self.config.backoff.pause_ms(node.failures)
        node.failures += 1

    def _end(
        self, acknowledged: Acknowledgements, code: ErrorCode, message: str | None = None, lock_timeout_ms: int = 0
    ) -> None:
        node = self._nodes.get(acknowledged.node_id)
        if node is not None:
            node.took(acknowledged, code)
        acknowledged.end(code, message, lock_timeout_ms or None)
        self.ended.append(acknowledged)
