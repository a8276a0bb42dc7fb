"""Brokers for the tests of the consumer's machines: logs, leaders, and the broker's own fetch sessions, without a network."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field

from coterie.broker.requests.fetch_sessions import FetchedPartition, FetchSessions
from coterie.consuming.record import TopicPartition
from coterie.machines.cluster_metadata import EPOCHS_FROM, ClusterMetadata
from coterie.records.batch import TRANSACTIONAL_BIT, stamp
from coterie.records.encoding import encode_batch
from coterie.records.markers import end_of_transaction
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.logs.fetch import AbortedTransaction, FetchRequest, FetchResponse, PartitionData
from coterie.wire.messages.logs.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from coterie.wire.messages.logs.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartitionResult,
    OffsetForLeaderTopicResult,
)
from coterie.wire.messages.logs.produce import LeaderIdAndEpoch
from coterie.wire.messages.topics.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
PARTITIONS = (T0, T1, U0)
NODES = (1, 2)
NO_LEADER = -1


@dataclass
class Log:
    """One partition's batches by their first offset. ``visible`` are the offsets of records of no aborted transaction;
    ``values`` the values of all records; ``epoch_starts`` the first offset of each leader's time."""

    batches: list[tuple[int, int, bytes]] = field(default_factory=list)  # first offset, last offset, bytes
    start: int = 0
    end: int = 0
    visible: list[int] = field(default_factory=list)
    records: list[int] = field(default_factory=list)
    aborted: list[tuple[int, int, int]] = field(default_factory=list)  # producer id, first offset, marker's offset
    values: dict[int, bytes] = field(default_factory=dict)
    epoch_starts: dict[int, int] = field(default_factory=lambda: {0: 0})

    @property
    def epoch(self) -> int:
        return max(self.epoch_starts)

    def elected(self) -> None:
        self.epoch_starts[self.epoch + 1] = self.end

    def truncate(self, end: int) -> None:
        """Cuts the log before the batch that reaches beyond the offset."""
        while self.batches and self.batches[-1][1] >= end:
            self.end = self.batches.pop()[0]
        self.records = [offset for offset in self.records if offset < self.end]
        self.visible = [offset for offset in self.visible if offset < self.end]
        self.aborted = [of for of in self.aborted if of[2] < self.end]
        self.values = {offset: value for offset, value in self.values.items() if offset < self.end}
        self.epoch_starts = {epoch: min(start, self.end) for epoch, start in self.epoch_starts.items()}

    def epoch_end(self, epoch: int) -> tuple[int, int]:
        """The newest epoch up to this one, and where the next begins (Kafka's LeaderEpochFileCache.endOffsetFor)."""
        if epoch > self.epoch:
            return -1, -1
        newer = [start for other, start in self.epoch_starts.items() if other > epoch]
        return max(other for other in self.epoch_starts if other <= epoch), min(newer, default=self.end)

    def append(self, count: int, **producer: int) -> int:
        first = self.end
        values = {first + n: b"%d of %d" % (first + n, self.epoch) for n in range(count)}
        self.values |= values
        batch = encode_batch([(1, None, value, ()) for value in values.values()], **producer)
        self.records += range(first, first + count)
        self._append(batch, count)
        return first

    def _append(self, batch: bytes, count: int) -> None:
        data = bytearray(batch)
        stamp(data, 0, self.end, self.epoch)
        self.batches.append((self.end, self.end + count - 1, bytes(data)))
        self.end += count

    def transaction(self, producer_id: int, count: int, *, committed: bool) -> None:
        first = self.append(count, producer_id=producer_id, producer_epoch=0, attributes=TRANSACTIONAL_BIT)
        if committed:
            self.visible += range(first, first + count)
        else:
            self.aborted.append((producer_id, first, self.end))
        self._append(end_of_transaction(producer_id, 0, committed, 0, 1), 1)

    def plain(self, count: int) -> None:
        first = self.append(count)
        self.visible += range(first, first + count)

    def read(self, offset: int, max_bytes: int) -> bytes:
        parts: list[bytes] = []
        for _, last, data in self.batches:
            if last < offset:
                continue
            if parts and len(data) > max_bytes:
                break
            parts.append(data)
            max_bytes -= len(data)
        return b"".join(parts)

    def aborted_from(self, offset: int) -> list[AbortedTransaction]:
        return [AbortedTransaction(producer, first) for producer, first, marker in self.aborted if marker >= offset]


class SimulatedCluster:
    """Two brokers. ``errors``: the codes that the next reads of a partition return; ``replicas``: the broker that its leader
    names to read from (KIP-392). ``topic_ids``: fetches name topics by these, where there are any; ``names_leaders``: a broker
    that does not lead names the leader (KIP-951)."""

    def __init__(self, *, slots: int = 10) -> None:
        self.logs = {tp: Log() for tp in PARTITIONS}
        self.leaders = {T0: 1, T1: 2, U0: 1}
        self.errors: dict[TopicPartition, deque[ErrorCode]] = defaultdict(deque)
        self.replicas: dict[TopicPartition, int] = {}
        self.topic_ids: dict[str, bytes] = {}
        self.names_leaders = False
        self.ids = 0
        self.sessions = {node: FetchSessions(slots, self._new_id) for node in NODES}

    def _new_id(self) -> int:
        self.ids += 1
        return self.ids

    def move(self, tp: TopicPartition, node: int) -> None:
        self.leaders[tp] = node
        self.logs[tp].elected()

    def unclean_election(self, tp: TopicPartition, node: int, end: int) -> None:
        """The new leader lacks what came at ``end`` and after it."""
        self.logs[tp].truncate(end)
        self.move(tp, node)

    def metadata(
        self, known: ClusterMetadata, topics: frozenset[str] = frozenset("tu"), version: int = EPOCHS_FROM
    ) -> None:
        by_topic: dict[str, list[MetadataResponsePartition]] = {topic: [] for topic in topics}
        for (topic, index), leader in self.leaders.items():
            if topic in topics:
                epoch = self.logs[TopicPartition(topic, index)].epoch
                by_topic[topic].append(MetadataResponsePartition(0, index, leader, epoch))
        brokers = [MetadataResponseBroker(node, f"b{node}", 9092) for node in NODES]
        response = [
            MetadataResponseTopic(0, topic, self.topic_ids.get(topic, bytes(16)), partitions=parts)
            for topic, parts in by_topic.items()
        ]
        known.metadata_received(MetadataResponse(brokers=brokers, topics=response), now_ms=0, version=version)

    def fetch(self, node: int, request: FetchRequest) -> tuple[FetchResponse, dict[TopicPartition, int]]:
        """The response, and what the broker read for it: the offset of each partition of the request or its session."""
        by_id = bool(self.topic_ids)
        try:
            fetch = self.sessions[node].begin(request, by_id, now_ms=0)
        except Refusal as refusal:
            return FetchResponse(error_code=refusal.code), {}
        wanted = {
            TopicPartition(part.topic, part.wanted.partition): part.wanted.fetch_offset
            for part in fetch.partitions.values()
        }
        read = [(key, part, self._read(node, part)) for key, part in fetch.partitions.items()]
        response = self.sessions[node].respond(fetch, read, now_ms=0)
        for topic in response.responses:
            topic.topic = "" if by_id else topic.topic
        return response, wanted

    def _read(self, node: int, part: FetchedPartition) -> PartitionData:
        tp, wanted = TopicPartition(part.topic, part.wanted.partition), part.wanted
        log, code = self.logs[tp], ErrorCode.NONE
        epoch, replica = wanted.current_leader_epoch, self.replicas.get(tp, node)
        if self.errors[tp]:
            code = self.errors[tp].popleft()
        elif self.leaders[tp] != node and self.replicas.get(tp) != node:
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif 0 <= epoch != log.epoch:
            code = ErrorCode.FENCED_LEADER_EPOCH if epoch < log.epoch else ErrorCode.UNKNOWN_LEADER_EPOCH
        elif not log.start <= wanted.fetch_offset <= log.end:
            code = ErrorCode.OFFSET_OUT_OF_RANGE
        if code:
            data = PartitionData(tp.partition, code)
            if self.names_leaders and code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH):
                data.current_leader = LeaderIdAndEpoch(self.leaders[tp], log.epoch)
            return data
        data = PartitionData(
            tp.partition, high_watermark=log.end, last_stable_offset=log.end, log_start_offset=log.start, records=b""
        )
        if replica != node:
            data.preferred_read_replica = replica
        else:
            data.aborted_transactions = log.aborted_from(wanted.fetch_offset)
            data.records = log.read(wanted.fetch_offset, wanted.partition_max_bytes)
        return data

    def epoch_ends(self, node: int, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
        topics = []
        for topic in request.topics:
            parts = []
            for requested in topic.partitions:
                tp = TopicPartition(topic.topic, requested.partition)
                log, code = self.logs[tp], ErrorCode.NONE
                if self.errors[tp]:
                    code = self.errors[tp].popleft()
                elif self.leaders[tp] != node:
                    code = ErrorCode.NOT_LEADER_OR_FOLLOWER
                elif requested.current_leader_epoch != log.epoch:
                    is_old = requested.current_leader_epoch < log.epoch
                    code = ErrorCode.FENCED_LEADER_EPOCH if is_old else ErrorCode.UNKNOWN_LEADER_EPOCH
                end = (-1, -1) if code else log.epoch_end(requested.leader_epoch)
                parts.append(OffsetForLeaderPartitionResult(code, requested.partition, *end))
            topics.append(OffsetForLeaderTopicResult(topic.topic, parts))
        return OffsetForLeaderEpochResponse(topics=topics)

    def list_offsets(self, node: int, request: ListOffsetsRequest) -> ListOffsetsResponse:
        topics = []
        for topic in request.topics:
            parts = []
            for requested in topic.partitions:
                tp = TopicPartition(topic.name, requested.partition_index)
                log, code = self.logs[tp], ErrorCode.NONE
                if self.errors[tp]:
                    code = self.errors[tp].popleft()
                elif self.leaders[tp] != node:
                    code = ErrorCode.NOT_LEADER_OR_FOLLOWER
                elif 0 <= requested.current_leader_epoch != log.epoch:
                    is_old = requested.current_leader_epoch < log.epoch
                    code = ErrorCode.FENCED_LEADER_EPOCH if is_old else ErrorCode.UNKNOWN_LEADER_EPOCH
                offset = -1 if code else log.start if requested.timestamp == -2 else log.end
                parts.append(ListOffsetsPartitionResponse(requested.partition_index, code, offset=offset))
            topics.append(ListOffsetsTopicResponse(topic.name, parts))
        return ListOffsetsResponse(topics=topics)
