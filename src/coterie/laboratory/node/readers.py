"""Readers of the laboratory: they fetch, at either isolation, delete records, and look offsets up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from coterie.laboratory.node.broker import LaboratoryBroker
from coterie.laboratory.node.client import ClientProcess, Request, Sleep, Steps
from coterie.laboratory.node.record_checker import RecordChecker, TopicPartition
from coterie.laboratory.world import World
from coterie.log.time_lookup import EARLIEST_TIMESTAMP
from coterie.records.batch import batches, check_crc
from coterie.records.decoding import decode_records
from coterie.records.markers import marker_of
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.logs.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from coterie.wire.messages.logs.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from coterie.wire.messages.logs.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

FETCH_VERSIONS = (4, 11)
NO_SESSION_EPOCH = -1


class RecordReader(ClientProcess):
    """Fetches partitions from their start on; ``values``: what a consumer of that isolation gets, by partition. ``eager``:
    only with large limits."""

    def __init__(
        self,
        world: World,
        broker: LaboratoryBroker,
        name: str,
        partitions: Sequence[TopicPartition],
        checker: RecordChecker,
        *,
        committed: bool,
        eager: bool = False,
    ) -> None:
        super().__init__(world, broker, name, partitions, checker)
        self._committed = committed
        self._sizes = (10_000,) if eager else (1, 500, 10_000)
        self.positions: dict[TopicPartition, int] = {}
        self.values: dict[TopicPartition, list[bytes]] = {}
        self.high_watermarks: dict[TopicPartition, int] = {}

    def _process(self) -> Steps:
        self.positions.clear()
        self.values.clear()
        self.high_watermarks.clear()
        while True:
            for topic, index in self.partitions:
                if (topic, index) not in self.positions:
                    wanted = ListOffsetsTopic(topic, [ListOffsetsPartition(index, timestamp=EARLIEST_TIMESTAMP)])
                    response = yield Request(ListOffsetsRequest(topics=[wanted]), 5)
                    if response is not None and not response.topics[0].partitions[0].error_code:
                        self.positions[topic, index] = response.topics[0].partitions[0].offset
                        self.values[topic, index] = []
            response = yield Request(self._fetch(), self.world.between(*FETCH_VERSIONS))
            if response is not None:
                for fetched in response.responses:
                    for data in fetched.partitions:
                        self._take((fetched.topic, data.partition_index), data)
            yield Sleep(self.world.between(0, 500))

    def _fetch(self) -> FetchRequest:
        rng, topics = self.world.random, dict[str, list[FetchPartition]]()
        for (topic, index), offset in self.positions.items():
            size = rng.choice(self._sizes)
            topics.setdefault(topic, []).append(FetchPartition(index, fetch_offset=offset, partition_max_bytes=size))
        return FetchRequest(
            replica_id=-1,
            max_wait_ms=rng.choice([0, 100, 2_000]),
            min_bytes=rng.choice([1, 1, 3_000]),
            max_bytes=100 * rng.choice(self._sizes),
            isolation_level=int(self._committed),
            session_epoch=NO_SESSION_EPOCH,
            topics=[FetchTopic(topic, partitions=partitions) for topic, partitions in topics.items()],
        )

    def _take(self, partition: TopicPartition, data: PartitionData) -> None:
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            del self.positions[partition]  # deleted, or not on the disk after a power cut: it begins anew
        if data.error_code or partition not in self.positions:
            return
        self.high_watermarks[partition] = data.high_watermark
        for offset, value in self._visible(partition, data):
            self.values[partition].append(value)
            self.checker.observe(partition, offset, value)

    def _visible(self, partition: TopicPartition, data: PartitionData) -> Iterator[tuple[int, bytes]]:
        """The records from the position on, as a consumer returns them, and the next position."""
        aborted = sorted((a.first_offset, a.producer_id) for a in data.aborted_transactions or [])
        dropped: set[int] = set()
        records = data.records or b""
        for position, header in batches(records):
            check_crc(records, position, header)
            while aborted and aborted[0][0] <= header.last_offset:
                dropped.add(aborted.pop(0)[1])
            if header.is_control:
                if marker_of(records, position, header) is False:
                    dropped.discard(header.producer_id)
            elif not (header.is_of_a_transaction and header.producer_id in dropped):
                for record in decode_records(records, position, header):
                    if record.offset >= self.positions[partition]:
                        yield record.offset, record.value or b""
            self.positions[partition] = max(self.positions[partition], header.last_offset + 1)

    def is_done(self) -> bool:
        """Whether everything was read."""
        return all(self.positions.get(p, -1) >= self.high_watermarks.get(p, 2**62) for p in self.partitions)


class RecordDeleter(ClientProcess):
    """Deletes the older records of a partition now and then, up to an offset that exists."""

    def _process(self) -> Steps:
        rng = self.world.random
        while True:
            yield Sleep(rng.randint(1_000, 60_000))
            topic, index = rng.choice(self.partitions)
            offset = self.checker.acknowledged_offset(rng, (topic, index))
            if offset is None:
                continue
            self.checker.request_delete((topic, index), offset)
            wanted = DeleteRecordsTopic(topic, [DeleteRecordsPartition(index, offset)])
            response = yield Request(DeleteRecordsRequest([wanted], 5_000), rng.randint(0, 2))
            if response is not None:
                result = response.topics[0].partitions[0]
                if not result.error_code:
                    self.checker.deleted((topic, index), result.low_watermark)
