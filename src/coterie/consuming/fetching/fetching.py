"""Fetching ahead: the next request to a leader goes out while the last response is still being read, as long as there is room.

Theory: a consumer that requests only what the caller of poll waits for spends its time on round trips. One that requests
without a bound holds a topic in memory. So every partition has a buffer, and the request to a broker names each partition that
it leads, that is wanted, and whose buffer has room. One request is under way per broker, because the requests of a fetch
session are numbered (KIP-227). A driver passes in what happened and calls `next` for effects until there are none; it carries
each effect out and reports how it ended. A partition that fails pauses by itself (KIP-580); its neighbours do not wait.

Rule: a response belongs to the position objects that its request was made of. A seek, a revocation and a validation put a new
object in place of the old one; what arrives for the old one counts for nothing (`_current`). Each failure of a partition ends
in one of three ways: a pause, a reset, or a report to the caller of poll, after which it is left out until the next poll
(`refused`). `outcomes` has the three, by its table of errors.

What is ugly: that a leader is to be looked up is in three places, `leader_due` of a position, `_moved` and `_refreshing`, since
a response names topics, a failure partitions, and one refresh serves both. `next` goes through all positions each time. A
version of -1 means that the positions are to be compared with the metadata once more.
"""

from __future__ import annotations

from dataclasses import dataclass

from coterie.consuming.effects import (
    Effect,
    PartitionFailed,
    RefreshMetadata,
    SendFetch,
    SendValidation,
)
from coterie.consuming.fetching.outcomes import FetchOutcomes, FetchRemedy, named_leaders, remedy, succeeded
from coterie.consuming.fetching.position import (
    NEVER_FAILED_MS,
    UNKNOWN_EPOCH,
    FetchState,
    Position,
    epoch_ends,
    is_to_validate,
    validation_request,
)
from coterie.consuming.fetching.requests import FetchConfig, FetchSession
from coterie.consuming.record import TopicPartition
from coterie.machines.cluster_metadata import NO_NODE, ClusterMetadata
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.logs.fetch import FetchResponse
from coterie.wire.messages.logs.offset_for_leader_epoch import OffsetForLeaderEpochResponse


@dataclass(slots=True)
class _FetchNode:
    """``session_lost``: the last response was that the session is lost, and the request after it is under way or due."""

    session: FetchSession
    in_flight: SendFetch | None = None
    validating: SendValidation | None = None
    session_lost: bool = False


class Fetching(FetchOutcomes):
    """``known`` has the leaders; the driver keeps it up to date. Times in ms, of the driver's clock; ``jitter`` between -1 and
    1. ``bytes_fetched`` and ``records_taken`` count since the start."""

    def __init__(self, config: FetchConfig, known: ClusterMetadata) -> None:
        super().__init__(config, known)
        self._nodes: dict[int, _FetchNode] = {}
        self._moved: set[str] = set()  # topics whose new leaders a response named: metadata is to follow
        self._refreshing: RefreshMetadata | None = None
        self._checked_version = -1  # of the metadata with which every position was compared

    def seek(self, partition: TopicPartition, offset: int, epoch: int = UNKNOWN_EPOCH) -> None:
        """As `AssignedPositions.seek`; a position with an epoch is validated where the leader's is newer. Where the epoch is
        newer than the metadata's, the leader is looked up before anything is fetched."""
        super().seek(partition, offset, epoch)
        out_of_range = PartitionFailed(partition, ErrorCode.OFFSET_OUT_OF_RANGE)  # testSeekBeforeException
        self._reports = [report for report in self._reports if report != out_of_range]
        if epoch != UNKNOWN_EPOCH:
            self._known.epoch_seen(*partition, epoch)
            self._checked_version = -1

    # -- what follows -------------------------------------------------------------------------------------------------

    def next(self, now_ms: float) -> list[Effect]:
        """The effects that are due; each is returned once."""
        if self.config.validates and self._checked_version != self._known.version:
            self._await_validation()
        effects: list[Effect] = [*self._reports]
        self._reports.clear()
        ready: dict[int, dict[TopicPartition, Position]] = {}
        to_validate: dict[int, dict[TopicPartition, Position]] = {}
        leaderless = set(self._moved)
        for partition, position in self.positions.items():
            if not position.is_wanted(self.config.buffer_bytes) or now_ms < position.retry_at_ms:
                continue
            position.retry_at_ms = NEVER_FAILED_MS
            leader = None if position.leader_due else self._known.leader(*partition)
            if leader is None or leader == NO_NODE:
                position.leader_due = True
                leaderless.add(partition.topic)
            elif position.state is FetchState.FETCHING:
                ready.setdefault(self._reader(position, leader, now_ms), {})[partition] = position
            else:
                to_validate.setdefault(leader, {})[partition] = position
        effects += [self._validate(leader, p) for leader, p in to_validate.items() if not self._node(leader).validating]
        effects += [self._fetch(node_id, positions) for node_id, positions in ready.items() if self._is_idle(node_id)]
        if leaderless and self._refreshing is None:
            self._refreshing = RefreshMetadata(frozenset(leaderless))
            self._moved.clear()
            effects.append(self._refreshing)
        return effects

    def next_deadline_ms(self) -> float | None:
        """When to call `next` although nothing happened; None: only after an input."""
        wanted = (p for p in self.positions.values() if p.is_wanted(self.config.buffer_bytes))
        return min((p.retry_at_ms for p in wanted if p.retry_at_ms > NEVER_FAILED_MS), default=None)

    def _reader(self, position: Position, leader: int, now_ms: float) -> int:
        """The replica that the leader named, for as long as that counts, else the leader (AbstractFetch.selectReadReplica)."""
        replica = position.read_replica
        if replica is None or now_ms > position.replica_until_ms or self._known.address(replica) is None:
            position.read_replica = None
            return leader
        return replica

    def _is_idle(self, node_id: int) -> bool:
        node = self._nodes.get(node_id)
        return node is None or node.in_flight is None

    def _node(self, node_id: int) -> _FetchNode:
        node = self._nodes.get(node_id)
        if node is None:
            node = self._nodes[node_id] = _FetchNode(FetchSession(incremental=self.config.incremental))
        return node

    def _fetch(self, node_id: int, positions: dict[TopicPartition, Position]) -> SendFetch:
        node, request = self._node(node_id), self.config.request()
        wanted = {tp: (p.fetch_offset, self._known.leader_epoch(*tp)) for tp, p in positions.items()}
        topic_ids = self._known.topic_ids({tp.topic for tp in positions})
        node.session.fill(request, wanted, self.config.max_partition_bytes, topic_ids)
        node.in_flight = SendFetch(node_id, request, positions, wanted, node.session.by_id)
        return node.in_flight

    def close(self) -> list[SendFetch]:
        """The requests that end the sessions with the brokers (AbstractFetch.maybeCloseFetchSessions): the last ones, whose
        responses mean nothing any more."""
        requests = [(node_id, node.session, self.config.request()) for node_id, node in self._nodes.items()]
        return [SendFetch(node_id, request, {}, {}) for node_id, session, request in requests if session.close(request)]

    def _await_validation(self) -> None:
        """The metadata is new (OffsetFetcher.validatePositionsOnMetadataChange)."""
        self._checked_version = self._known.version
        for partition, position in self.positions.items():
            leader_epoch = self._known.leader_epoch(*partition)
            if is_to_validate(position, leader_epoch):
                self.positions[partition] = position.unvalidated()
            elif position.state is FetchState.AWAIT_VALIDATION and leader_epoch == UNKNOWN_EPOCH:
                position.state = FetchState.FETCHING  # a broker without epochs cannot tell

    def _validate(self, node_id: int, positions: dict[TopicPartition, Position]) -> SendValidation:
        epochs = {partition: self._known.leader_epoch(*partition) for partition in positions}
        sent = SendValidation(node_id, validation_request(positions, self._known), positions, epochs)
        self._node(node_id).validating = sent
        return sent

    # -- inputs from the driver ---------------------------------------------------------------------------------------

    def responded(self, sent: SendFetch, response: FetchResponse, now_ms: float, jitter: float) -> bool:
        """Whether there is something new for the caller of poll: records, a reset, damage."""
        node = self._ended(sent)
        code = node.session.responded(response)
        if code:
            was_lost, node.session_lost = node.session_lost, node.session.is_lost(code)
            if was_lost or not node.session_lost:  # a lost session begins again at once, but only once
                self._failed(sent, code, now_ms, jitter)
            return False
        node.session_lost = False
        moved = self._known.leaders_received(*named_leaders(response))
        if moved:
            self._moved |= {topic for topic, _ in moved}
            self._checked_version = -1  # the new leader's log may lack a position
        arrived = False
        responded = set()
        for topic in response.responses:
            for data in topic.partitions:
                where = TopicPartition(topic.topic, data.partition_index)
                position = self._current(sent, where)
                if position is not None:
                    responded.add(where)
                    if where in moved:
                        position.read_replica = None
                        continue
                    arrived = self._take_in(where, position, sent, data, now_ms, jitter) or arrived
        for where, position in sent.positions.items():
            if position.retries is not None and where not in responded:
                succeeded(position)  # a session's response leaves out what has no news
        return arrived

    def failed(self, sent: SendFetch, code: ErrorCode, now_ms: float, jitter: float) -> None:
        """No response came, for a reason that may pass."""
        self._ended(sent)
        self._failed(sent, code, now_ms, jitter)

    def refused(self, sent: SendFetch) -> None:
        """No response came, and none will until something is mended: nothing in it is fetched again before `polled`."""
        self._ended(sent).session.reset()
        for where in sent.positions:
            position = self._current(sent, where)
            if position is not None:
                position.refused, position.read_replica = True, None

    def validated(
        self, sent: SendValidation, response: OffsetForLeaderEpochResponse, now_ms: float, jitter: float
    ) -> bool:
        """Whether there is something new for the caller of poll: a reset, or an error."""
        self._validation_ended(sent)
        arrived = False
        for where, end in epoch_ends(response, sent.positions).items():
            position = self._current(sent, where)
            if position is None:
                continue
            if end.code:
                arrived = self._validation_refused(where, position, end.code, now_ms, jitter) or arrived
            elif self._known.leader_epoch(*where) == sent.leader_epochs[where]:
                succeeded(position)
                arrived = self._compare(where, position, end, sent.leader_epochs[where]) or arrived
        return arrived

    def validation_failed(self, sent: SendValidation, code: ErrorCode, now_ms: float, jitter: float) -> None:
        """No response came to the validation of these positions."""
        self._validation_ended(sent)
        for where in sent.positions:
            position = self._current(sent, where)
            if position is not None:
                self._validation_refused(where, position, code, now_ms, jitter)

    def validation_unserved(self, sent: SendValidation) -> None:
        """The broker is older than Kafka 2.3, which cannot tell: the positions are fetched as they are."""
        self._validation_ended(sent)
        for where in sent.positions:
            position = self._current(sent, where)
            if position is not None:
                position.state, position.validated_epoch = FetchState.FETCHING, sent.leader_epochs[where]

    def _validation_ended(self, sent: SendValidation) -> None:
        node = self._nodes[sent.node_id]
        assert node.validating is sent
        node.validating = None

    def empty(self, partition: TopicPartition, now_ms: float, jitter: float) -> None:
        """The last response had no records of the partition, although the leader's log has some (OFFSET_NOT_AVAILABLE)."""
        position = self.positions[partition]
        self._back_off(partition, position, ErrorCode.OFFSET_NOT_AVAILABLE, now_ms, jitter, leader_due=True)

    def metadata_refreshed(self, refresh: RefreshMetadata, now_ms: float, jitter: float) -> None:
        """The topics' leaders are as new as they can be: also where the request failed."""
        assert refresh is self._refreshing
        self._refreshing = None
        for where, position in self.positions.items():
            if position.leader_due and where.topic in refresh.topics and position.retry_at_ms == NEVER_FAILED_MS:
                position.leader_due = False
                leader = self._known.leader(*where)
                if leader is None or leader == NO_NODE:
                    self._back_off(where, position, ErrorCode.LEADER_NOT_AVAILABLE, now_ms, jitter, leader_due=True)

    def _ended(self, sent: SendFetch) -> _FetchNode:
        node = self._nodes[sent.node_id]
        assert node.in_flight is sent or node.in_flight is None
        node.in_flight = None
        return node

    def _current(self, sent: SendFetch | SendValidation, where: TopicPartition) -> Position | None:
        """None where it was not in the request, or was revoked or sought meanwhile."""
        position = sent.positions.get(where)
        return position if position is not None and self.positions.get(where) is position else None

    def _failed(self, sent: SendFetch, code: ErrorCode, now_ms: float, jitter: float) -> None:
        node = self._nodes[sent.node_id]
        node.session.reset()
        for where in sent.positions:
            position = self._current(sent, where)
            if position is None:
                continue
            if remedy(code) is not FetchRemedy.REPORT:
                self._back_off(where, position, code, now_ms, jitter, leader_due=True)
            else:
                self._report(where, position, code)
