"""The laboratory's brokers as producers see them: real logs, leaders that move, processes that die, errors before and after
an append. The logs are those of the cluster: a new leader has what the old one had.
"""

from __future__ import annotations

from collections.abc import Callable

from coterie.laboratory.broker_actor import Durability
from coterie.laboratory.decoded_reads import DecodedReads
from coterie.laboratory.world import World
from coterie.log.config import LogConfig
from coterie.log.files.filesystem import MemoryFileSystem
from coterie.log.partition_log import PartitionLog
from coterie.log.segments.segment_loader import ClosedLog
from coterie.log.validation import produced_batch
from coterie.producing.batch import TopicPartition
from coterie.records.batch import batches
from coterie.records.decoding import decode_records
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.logs.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

TOPIC = "t"
NODES = (1, 2)
PRODUCE_VERSION = 11
MAX_MESSAGE_BYTES = 700  # so that batches are split
SEGMENT_BYTES = 6_000
TORN_BYTES = 200
BEFORE_APPEND = (
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.INVALID_RECORD,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
)
AFTER_APPEND = (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.REQUEST_TIMED_OUT)


class ProduceCluster:
    """``failing_before`` and ``failing_after``: how many appends from now on fail before, or after, they are in the log;
    ``dies_after``: in so many appends their broker dies, 0 for never. ``crashes`` counts the processes that died; what
    ``on_crash`` holds is called with the node's id. A node that is down answers nothing."""

    def __init__(self, world: World, partitions: int, durability: Durability) -> None:
        self.world, self.durability = world, durability
        self.fs = MemoryFileSystem()
        self.config = LogConfig(segment_bytes=SEGMENT_BYTES, max_message_bytes=MAX_MESSAGE_BYTES)
        self.leaders: dict[TopicPartition, int] = {(TOPIC, n): NODES[n % len(NODES)] for n in range(partitions)}
        self.epochs = dict.fromkeys(self.leaders, 0)
        self.logs = {partition: self._opened(partition) for partition in self.leaders}
        self._reads = {partition: DecodedReads(_decoded) for partition in self.leaders}
        self.up = dict.fromkeys(NODES, True)
        self.on_crash: list[Callable[[int], None]] = []
        self.dies_after = self.failing_before = self.failing_after = self.crashes = self.requests = self.duplicates = (
            self.refused
        ) = 0
        self._ids = 0

    def _opened(self, partition: TopicPartition, closed: ClosedLog | None = None) -> PartitionLog:
        directory, is_clean = f"{partition[0]}-{partition[1]}", closed is not None
        return PartitionLog.open(self.fs, directory, self.config, clean=is_clean, closed=closed)

    # -- faults -------------------------------------------------------------------------------------------------------

    def move_leader(self, partition: TopicPartition) -> None:
        self.leaders[partition] = self.world.random.choice(NODES)
        self.epochs[partition] += 1

    def crash(self, node_id: int) -> None:
        """The process ends, in order or not; then half of a write may be on the disk. All logs are opened again: after an
        orderly end with a snapshot, which holds of each producer the last batch only."""
        self.up[node_id] = False
        self.crashes += 1
        if self.world.chance(0.4):
            self.logs = {partition: self._opened(partition, log.close()) for partition, log in self.logs.items()}
        else:
            self._tear(node_id)
            self.logs = {partition: self._opened(partition) for partition in self.leaders}
        for crashed in self.on_crash:
            crashed(node_id)

    def _tear(self, node_id: int) -> None:
        torn = self.world.between(1, TORN_BYTES) if self.world.chance(0.5) else 0
        if self.durability != Durability.PROCESS:
            self.fs.crash(keep=torn)
        elif torn:
            for partition, leader in self.leaders.items():
                if leader == node_id:
                    self.logs[partition].segments[-1].file.append(self.world.random.randbytes(torn))

    def start(self, node_id: int) -> None:
        self.up[node_id] = True

    # -- requests -----------------------------------------------------------------------------------------------------

    def new_producer(self) -> tuple[int, int]:
        """Producer id and epoch."""
        self._ids += 1
        return self._ids, 0

    def metadata(self) -> dict[TopicPartition, int]:
        """The leaders; -1 while theirs is down, until another is elected."""
        return {partition: node_id if self.up[node_id] else -1 for partition, node_id in self.leaders.items()}

    def produce(self, node_id: int, request: ProduceRequest) -> ProduceResponse | None:
        """None where the broker died of it; what it appended before is in the log."""
        self.requests += 1
        response = ProduceResponse()
        for topic in request.topic_data:
            of_topic = TopicProduceResponse(topic.name)
            of_topic.partition_responses = [
                self._append(node_id, (topic.name, data.index), data) for data in topic.partition_data
            ]
            response.responses.append(of_topic)
        if self.dies_after < 0:
            self.dies_after = 0
            self.crash(node_id)
            return None
        return response

    def _append(self, node_id: int, partition: TopicPartition, data: PartitionProduceData) -> PartitionProduceResponse:
        log = self.logs[partition]
        try:
            if self.leaders[partition] != node_id:
                raise Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            if self.failing_before > 0:
                self.failing_before -= 1
                raise Refusal(self.world.random.choice(BEFORE_APPEND))
            produced = produced_batch(data.records or b"", PRODUCE_VERSION)
            assert produced is not None, "a request has a batch for each of its partitions"
            appended = log.append(produced[0], self.world.now_ms, produced[1])
            self._durable(log)
            self.duplicates += appended.duplicate
            if self.dies_after > 0:
                self.dies_after = self.dies_after - 1 or -1
            if self.failing_after > 0:
                self.failing_after -= 1
                raise Refusal(self.world.random.choice(AFTER_APPEND))
        except Refusal as refusal:
            self.refused += 1
            return PartitionProduceResponse(data.index, refusal.code, log_start_offset=log.log_start_offset)
        return PartitionProduceResponse(
            data.index, ErrorCode.NONE, appended.base_offset, -1, log_start_offset=log.log_start_offset
        )

    def _durable(self, log: PartitionLog) -> None:
        """Before the response. A lying disk reports a sync and forgets it now and then."""
        if self.durability == Durability.POWER or (self.durability == Durability.LYING and not self.world.chance(0.2)):
            log.sync()

    def values(self, partition: TopicPartition) -> list[tuple[int, bytes]]:
        """Offset and value of every record in the log."""
        log, reads, offset = self.logs[partition], self._reads[partition], 0
        listed: list[tuple[int, bytes]] = []
        while offset < log.end_offset:
            records, offset = reads.of(offset, log.read(offset, 1_000_000))
            assert records, (
                f"nothing can be read of {partition} where {listed[-1:]} is the last record, before {log.end_offset}"
            )
            listed += records
        return listed


def _decoded(data: bytes) -> tuple[list[tuple[int, bytes]], int]:
    """Offset and value of each record, and the offset behind them."""
    decoded, end_offset = list[tuple[int, bytes]](), 0
    for position, header in batches(data):
        decoded += [(r.offset, r.value or b"") for r in decode_records(data, position, header)]
        end_offset = header.last_offset + 1
    return decoded, end_offset
