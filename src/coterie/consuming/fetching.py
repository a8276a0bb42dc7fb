"""Fetching ahead: the next request to a leader goes out while the last response is still being read, as long as there is room.

A driver passes in what happened and asks `next` for effects until there are none; it carries each effect out and reports how
it ended. One request is under way per broker. A partition that fails pauses by itself (KIP-580); its neighbours do not wait.
Back-pressure is by bytes: a partition with more than ``buffer_bytes`` unread, or that is paused, is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from coterie.backoff import Backoff, Retries
from coterie.cluster_metadata import NO_NODE, ClusterMetadata
from coterie.consuming.fetch_effects import Effect, PartitionFailed, RefreshMetadata, SendFetch
from coterie.consuming.fetch_errors import FetchRemedy, remedy
from coterie.consuming.fetch_session import FetchSession
from coterie.consuming.position import NEVER_FAILED_MS, FetchState, Position, Stored, Unreadable
from coterie.consuming.record import Record, TopicPartition
from coterie.wire.errors import ErrorCode, error_of
from coterie.wire.messages.fetch import FetchRequest, FetchResponse, PartitionData

Deserialize = Callable[[Record[Any, Any]], Record[Any, Any]]


@dataclass(frozen=True, slots=True)
class FetchConfig:
    """Kafka's fetch settings. ``incremental``: by fetch sessions (KIP-227). ``as_stored``: every batch is handed out, also
    control batches and batches of aborted transactions. ``timeout_ms``: a partition that fails for longer is reported and
    not fetched again."""

    min_bytes: int = 1
    max_bytes: int = 52_428_800
    max_wait_ms: int = 500
    max_partition_bytes: int = 1_048_576
    buffer_bytes: int = 13_107_200
    committed_only: bool = False
    check_crcs: bool = True
    rack_id: str = ""
    incremental: bool = True
    as_stored: bool = False
    backoff: Backoff = field(default_factory=Backoff)
    timeout_ms: float = float("inf")


@dataclass(slots=True)
class _Node:
    """``session_lost``: the last response was that the session is lost, and the request after it is under way or due."""

    session: FetchSession
    in_flight: SendFetch | None = None
    session_lost: bool = False


class Fetching:
    """``known`` has the leaders; the driver keeps it up to date. Times in ms, of the driver's clock; ``jitter`` between -1 and
    1. ``bytes_fetched`` and ``records_taken`` count since the start."""

    def __init__(self, config: FetchConfig, known: ClusterMetadata) -> None:
        self.config, self._known = config, known
        self.positions: dict[TopicPartition, Position] = {}
        self.bytes_fetched = self.records_taken = 0
        self._nodes: dict[int, _Node] = {}
        self._refreshing: RefreshMetadata | None = None
        self._reports: list[PartitionFailed] = []

    # -- what to read -------------------------------------------------------------------------------------------------

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Reads these and no others. A partition that stays keeps its position and what is buffered; a new one has neither."""
        self.positions = {tp: self.positions.get(tp) or Position(tp) for tp in partitions}

    def drop(self, partitions: Iterable[TopicPartition]) -> None:
        """Reads these no more."""
        for partition in partitions:
            self.positions.pop(partition, None)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """UNKNOWN makes the position be looked up again. What is buffered is dropped; a pause after an error stays."""
        old = self.positions[partition]
        new = Position(partition, paused=old.paused)
        new.retries, new.retry_at_ms, new.leader_due = old.retries, old.retry_at_ms, old.leader_due
        new.start_at(offset)
        self.positions[partition] = new

    def initializing(self) -> list[TopicPartition]:
        """The partitions without a position."""
        return [tp for tp, p in self.positions.items() if p.state is FetchState.INITIALIZING]

    def resets_due(self) -> list[TopicPartition]:
        """The partitions whose offset the log does not have, once what was fetched before is handed out."""
        return [tp for tp, p in self.positions.items() if p.state is FetchState.AWAIT_RESET and not p.is_buffered()]

    def polled(self) -> None:
        """Partitions that were reported as failed are tried again."""
        for position in self.positions.values():
            position.refused = False

    # -- what follows -------------------------------------------------------------------------------------------------

    def next(self, now_ms: float) -> list[Effect]:
        """The effects that are due; each is returned once."""
        effects: list[Effect] = [*self._reports]
        self._reports.clear()
        ready: dict[int, dict[TopicPartition, Position]] = {}
        leaderless: set[str] = set()
        for partition, position in self.positions.items():
            if not self._is_wanted(position) or now_ms < position.retry_at_ms:
                continue
            position.retry_at_ms = NEVER_FAILED_MS
            leader = None if position.leader_due else self._known.leader(*partition)
            if leader is None or leader == NO_NODE:
                position.leader_due = True
                leaderless.add(partition.topic)
            else:
                ready.setdefault(leader, {})[partition] = position
        effects += [self._fetch(leader, positions) for leader, positions in ready.items() if self._is_idle(leader)]
        if leaderless and self._refreshing is None:
            self._refreshing = RefreshMetadata(frozenset(leaderless))
            effects.append(self._refreshing)
        return effects

    def next_deadline_ms(self) -> float | None:
        """When to call `next` although nothing happened; None: only after an input."""
        positions = self.positions.values()
        return min(
            (p.retry_at_ms for p in positions if p.retry_at_ms > NEVER_FAILED_MS and self._is_wanted(p)), default=None
        )

    def _is_wanted(self, position: Position) -> bool:
        return (
            position.state is FetchState.FETCHING
            and position.buffered_bytes <= self.config.buffer_bytes
            and not position.paused
            and not position.refused
        )

    def _is_idle(self, node_id: int) -> bool:
        node = self._nodes.get(node_id)
        return node is None or node.in_flight is None

    def _fetch(self, node_id: int, positions: dict[TopicPartition, Position]) -> SendFetch:
        node = self._nodes.get(node_id)
        if node is None:
            node = self._nodes[node_id] = _Node(FetchSession(incremental=self.config.incremental))
        config = self.config
        request = FetchRequest(
            max_wait_ms=config.max_wait_ms,
            min_bytes=config.min_bytes,
            max_bytes=config.max_bytes,
            isolation_level=int(config.committed_only),
            rack_id=config.rack_id,
        )
        wanted = {tp: (p.fetch_offset, self._known.leader_epoch(*tp)) for tp, p in positions.items()}
        node.session.fill(request, wanted, config.max_partition_bytes)
        node.in_flight = SendFetch(node_id, request, positions, wanted)
        return node.in_flight

    # -- inputs from the driver ---------------------------------------------------------------------------------------

    def answered(self, sent: SendFetch, response: FetchResponse, now_ms: float, jitter: float) -> bool:
        """Whether there is something new for the caller of poll: records, a reset, damage."""
        node = self._ended(sent)
        code = node.session.answered(response)
        if code:
            was_lost, node.session_lost = node.session_lost, node.session.is_lost(code)
            if was_lost or not node.session_lost:  # a lost session is made anew at once, but only once
                self._failed(sent, code, now_ms, jitter)
            return False
        node.session_lost = False
        arrived = False
        answered = set()
        for topic in response.responses:
            for data in topic.partitions:
                where = TopicPartition(topic.topic, data.partition_index)
                position = self._current(sent, where)
                if position is not None:
                    answered.add(where)
                    arrived = self._take_in(where, position, sent, data, now_ms, jitter) or arrived
        for where, position in sent.positions.items():
            if (
                position.retries is not None and where not in answered
            ):  # a session's response leaves out what has no news
                _succeeded(position)
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
                position.refused = True

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

    def _ended(self, sent: SendFetch) -> _Node:
        node = self._nodes[sent.node_id]
        assert node.in_flight is sent or node.in_flight is None
        node.in_flight = None
        return node

    def _current(self, sent: SendFetch, where: TopicPartition) -> Position | None:
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

    def _back_off(
        self,
        where: TopicPartition,
        position: Position,
        code: ErrorCode,
        now_ms: float,
        jitter: float,
        *,
        leader_due: bool,
    ) -> None:
        if position.retries is None:
            position.retries = Retries(self.config.backoff, None)
        pause_ms = position.retries.failed(now_ms, self.config.timeout_ms, jitter)
        if pause_ms is None:
            self._report(where, position, code)
            return
        position.retry_at_ms, position.leader_due = now_ms + pause_ms, leader_due

    def _report(self, where: TopicPartition, position: Position, code: ErrorCode) -> None:
        position.refused = True
        self._reports.append(PartitionFailed(where, code))

    def _take_in(
        self,
        where: TopicPartition,
        position: Position,
        sent: SendFetch,
        data: PartitionData,
        now_ms: float,
        jitter: float,
    ) -> bool:
        """Whether it is something for the caller of poll."""
        code = error_of(data.error_code)
        if not code:
            _succeeded(position)
            return position.fetch_offset == sent.wanted[where][0] and self._store(position, data)
        match remedy(code):
            case FetchRemedy.RESET:
                if position.fetch_offset != sent.wanted[where][0] or position.state is not FetchState.FETCHING:
                    return False  # testFetchOffsetOutOfRange...: the error is of an older position
                _succeeded(position)
                position.state = FetchState.AWAIT_RESET
            case FetchRemedy.REPORT:
                self._report(where, position, code)
            case FetchRemedy.FIND_LEADER | FetchRemedy.RETRY as way:
                self._back_off(where, position, code, now_ms, jitter, leader_due=way is FetchRemedy.FIND_LEADER)
                return False
        return True

    def _store(self, position: Position, data: PartitionData) -> bool:
        self.bytes_fetched += len(data.records or b"")
        try:
            config = self.config
            position.store(
                data,
                committed_only=config.committed_only and not config.as_stored,
                check_crcs=config.check_crcs,
                control_batches=config.as_stored,
            )
        except Exception as error:  # any that the bytes made a decoder raise
            position.damaged(Unreadable(position.fetch_offset, position.fetch_offset + 1, error))
        return position.is_buffered() or position.state is FetchState.DAMAGED

    # -- handing out --------------------------------------------------------------------------------------------------

    def take(self, limit: int, deserialize: Deserialize | None = None) -> dict[TopicPartition, list[Record[Any, Any]]]:
        """Up to ``limit`` buffered records, by partition; positions move on past them. A record that ``deserialize`` refuses is
        damage (`damage_due`), with its exception as the cause."""
        self.polled()
        polled: dict[TopicPartition, list[Record[Any, Any]]] = {}
        for where, position in self.positions.items():
            if position.paused:
                continue
            while limit > 0 and position.is_buffered():
                try:
                    records = position.take(limit)
                except Exception as error:  # any that the bytes made a decoder raise
                    header = position.stored[0].header
                    offset = max(position.offset, header.base_offset)
                    position.damaged(Unreadable(offset, max(header.last_offset, offset) + 1, error))
                    break
                if deserialize is not None:
                    records = self._deserialized(where, records, deserialize)
                limit -= len(records)
                if records:
                    polled[where] = polled[where] + records if where in polled else records
                if self.positions[where] is not position:
                    break  # it went back to a record that its deserializer refused
        self.records_taken += sum(map(len, polled.values()))
        self._last_comes_last(polled)
        return polled

    def take_in_hand(
        self, partition: TopicPartition, deserialize: Deserialize | None = None
    ) -> Record[Any, Any] | None:
        """The next record of a partition, if it is decoded already and may be handed out."""
        position = self.positions.get(partition)
        if position is None or position.paused or not position.is_unfolded():
            return None
        records = position.take(1)
        if deserialize is not None:
            records = self._deserialized(partition, records, deserialize)
        self.records_taken += len(records)
        return records[0] if records else None

    def _deserialized(
        self, partition: TopicPartition, records: list[Record[Any, Any]], deserialize: Deserialize
    ) -> list[Record[Any, Any]]:
        """The records before the first that its deserializer refuses; the position goes back to that one."""
        objects: list[Record[Any, Any]] = []
        for record in records:
            try:
                objects.append(deserialize(record))
            except Exception as error:
                self.seek(partition, record.offset)
                self.positions[partition].damaged(Unreadable(record.offset, record.offset + 1, error))
                break
        return objects

    def take_batches(self, limit_bytes: int) -> dict[TopicPartition, tuple[int, list[Stored]]]:
        """Whole batches, with the position that each partition had."""
        self.polled()
        polled: dict[TopicPartition, tuple[int, list[Stored]]] = {}
        for where, position in self.positions.items():
            if not position.paused and position.stored:
                before = position.offset
                polled[where] = (before, list(position.take_batches(limit_bytes)))
        self._last_comes_last(polled)
        return polled

    def put_back(self, partition: TopicPartition, batch: Stored, error: Exception) -> None:
        """A batch that was handed out whole turned out to be damaged: the position goes back to it."""
        if partition in self.positions:
            offset = max(batch.header.base_offset, 0)
            self.seek(partition, offset)
            self.positions[partition].damaged(Unreadable(offset, max(batch.header.last_offset, offset) + 1, error))

    def damage_due(self) -> tuple[TopicPartition, Unreadable] | None:
        """The first damage before which all records are handed out: with every poll until one seeks. A paused partition
        waits."""
        for where, position in self.positions.items():
            damage = position.damage
            if damage is None or position.paused:
                continue
            if not position.is_buffered() or position.offset >= damage.offset:
                return where, damage
        return None

    def _last_comes_last(self, polled: Iterable[TopicPartition]) -> None:
        """So that no partition starves."""
        for where in polled:
            self.positions[where] = self.positions.pop(where)


def _succeeded(position: Position) -> None:
    """The next failure is the first of a new row."""
    if position.retries is not None:
        position.retries, position.retry_at_ms, position.leader_due = None, NEVER_FAILED_MS, False
