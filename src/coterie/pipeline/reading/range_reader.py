"""The driver of the fetching machine (`consuming/fetching/fetching`) in a Spark task: a range of one partition's offsets over
blocking sockets. One request is sent ahead while the records before it are decoded."""

from __future__ import annotations

from collections.abc import Iterator

from coterie.client.connection.blocking_socket import Awaited, Sockets
from coterie.client.errors import CorruptBatchError, KafkaError, OffsetOutOfRangeError
from coterie.client.pauses.clock import Waits, jitter, now_ms, until_due_thread
from coterie.client.pauses.retrying import backoff_of
from coterie.client.settings.settings import ClientSettings
from coterie.consuming.effects import PartitionFailed, RefreshMetadata, SendFetch
from coterie.consuming.fetching.fetching import Fetching
from coterie.consuming.fetching.position import Position, Stored
from coterie.consuming.fetching.requests import FetchConfig
from coterie.consuming.offset_lookup import SendListOffsets
from coterie.consuming.record import TopicPartition
from coterie.machines.cluster_metadata import ClusterMetadata
from coterie.pipeline.offsets import EARLIEST
from coterie.pipeline.reading.offset_lookups import looked_up
from coterie.pipeline.reading.planning import OffsetRange
from coterie.wire import topic_names
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.logs.fetch import FetchResponse
from coterie.wire.messages.logs.list_offsets import ListOffsetsResponse
from coterie.wire.messages.topics.metadata import MetadataRequest

FETCH_BYTES = 4 * 1024 * 1024


class RangeReader:
    """``settings``' isolation.level and timeouts hold; errors that pass are retried for default.api.timeout.ms.
    ``as_stored``: all batches, control batches too, and their checksums are not verified."""

    def __init__(self, r: OffsetRange, settings: ClientSettings, sockets: Sockets, *, as_stored: bool = False) -> None:
        self._end, self._settings, self._sockets = r.end, settings, sockets
        self._partition = TopicPartition(r.topic, r.partition)
        self.known = ClusterMetadata(settings.metadata_max_age_ms)
        self.known.assume_leader(r.topic, r.partition, (r.host, r.port))
        config = FetchConfig(
            max_wait_ms=1000,
            max_bytes=FETCH_BYTES,
            max_partition_bytes=FETCH_BYTES,
            buffer_bytes=0,
            committed_only=settings.committed_only,
            check_crcs=settings.check_crcs and not as_stored,
            incremental=False,
            as_stored=as_stored,
            backoff=backoff_of(settings),
            timeout_ms=settings.default_api_timeout_ms,
        )
        self._machine = Fetching(config, self.known)
        self._machine.assign([self._partition])
        self._under_way: tuple[SendFetch, Awaited] | None = None
        self._waits = Waits("a Spark task")
        self.seek(r.start)

    @property
    def position(self) -> Position:
        """The position in the partition; ``offset`` is that of the next batch."""
        return self._machine.positions[self._partition]

    def seek(self, offset: int) -> None:
        """The next batch is the one there."""
        self._machine.seek(self._partition, offset)

    def batches(self) -> Iterator[list[Stored]]:
        """What each response holds; the first batch may begin before the range, the last end behind it. Ends before the range
        does where the log has no more for this reader. Raises KafkaError; OffsetOutOfRangeError where the log has no such
        offset, CorruptBatchError."""
        try:
            while self.position.fetch_offset < self._end:
                self._until_sent()
                begin = self.position.fetch_offset
                if not self._received():
                    continue
                if self.position.fetch_offset == begin:
                    self._raise_where_it_cannot_be_read()
                    if self._end > self.position.high_watermark:
                        return  # compaction has taken the rest
                    self._machine.empty(self._partition, now_ms(), jitter())
                    continue
                stored = list(self.position.take_batches(2 * FETCH_BYTES))
                if self.position.damage is None and self.position.fetch_offset < self._end:
                    self._carry_out()
                yield stored
                self._raise_where_it_cannot_be_read()
        finally:
            if self._under_way is not None:
                self._forget(self._under_way[0].node_id)

    def _raise_where_it_cannot_be_read(self) -> None:
        if self._machine.resets_due():
            where = f"{self._partition.topic}-{self._partition.partition} at {self.position.fetch_offset}"
            raise OffsetOutOfRangeError(ErrorCode.OFFSET_OUT_OF_RANGE, where)
        damage = self.position.damage
        if damage is not None:
            raise CorruptBatchError(
                *self._partition, damage.offset, damage.next_offset, str(damage.cause)
            ) from damage.cause

    def _until_sent(self) -> None:
        """Pauses where the machine does. Raises KafkaError that no retry mends, or at the timeout."""
        while self._under_way is None:
            if self._carry_out():
                continue
            deadline_ms = self._machine.next_deadline_ms()
            assert deadline_ms is not None, "nothing is under way and nothing is due"
            until_due_thread(deadline_ms)

    def _carry_out(self) -> bool:
        """Whether anything was due."""
        effects = self._machine.next(now_ms())
        for effect in effects:
            match effect:
                case SendFetch():
                    self._send(effect)
                case RefreshMetadata():
                    self._refresh(effect)
                case PartitionFailed(partition, code):
                    text = f"{partition.topic}-{partition.partition} at {self.position.fetch_offset}"
                    raise KafkaError(code, text)
        return bool(effects)

    def _send(self, sent: SendFetch) -> None:
        address = self.known.address(sent.node_id)
        assert address is not None
        try:
            self._under_way = sent, self._sockets.at(address).send(sent.request, highest=topic_names.FETCH)
        except KafkaError as error:
            self._failed(sent, error)

    def _received(self) -> bool:
        """Whether the partition was read without error."""
        assert self._under_way is not None
        (sent, awaited), self._under_way = self._under_way, None
        address = self.known.address(sent.node_id)
        assert address is not None
        try:
            response: FetchResponse = self._sockets.at(address).receive(awaited)
        except KafkaError as error:
            self._failed(sent, error)
            return False
        self._machine.responded(sent, response, now_ms(), jitter())
        codes = [(p.partition_index, p.error_code) for topic in response.responses for p in topic.partitions]
        self._waits.responded_each("records of", self._partition.topic, codes)
        if self.position.retries is not None:
            self._forget(sent.node_id)
            return False
        return not self.position.refused

    def _failed(self, sent: SendFetch, error: KafkaError) -> None:
        self._forget(sent.node_id)
        if not error.retriable:
            raise error
        self._waits.failed(f"records of {self._partition.topic}-{self._partition.partition}", error)
        self._machine.failed(sent, error.code, now_ms(), jitter())

    def _refresh(self, refresh: RefreshMetadata) -> None:
        self._look_up_leaders(refresh.topics)
        self._machine.metadata_refreshed(refresh, now_ms(), jitter())

    def _look_up_leaders(self, topics: frozenset[str]) -> None:
        """From the leader that is known, or else a bootstrap server; where none responds, the leader stays."""
        request = self.known.metadata_request(sorted(topics))
        for address in self.known.addresses(self._settings.bootstrap()):
            try:
                socket = self._sockets.at(address)
                response = socket.request(request)
            except KafkaError:
                self._sockets.forget(address)
                continue
            self.known.metadata_received(response, now_ms(), version=socket.version_of(MetadataRequest))
            return

    def first_offset(self) -> int:
        """The first one that the partition's log still has. Raises KafkaError at the timeout."""
        timeout_ms = self._settings.default_api_timeout_ms
        offsets = looked_up(
            {self._partition: EARLIEST},
            self._settings,
            self.known,
            self._list_offsets,
            self._look_up_leaders,
            waits=self._waits,
            unknown_topic_timeout_ms=timeout_ms,
        )
        return offsets[self._partition]

    def _list_offsets(self, sent: SendListOffsets) -> ListOffsetsResponse:
        address = self.known.address(sent.node_id)
        assert address is not None
        try:
            response: ListOffsetsResponse = self._sockets.at(address).request(sent.request)
        except KafkaError:
            self._sockets.forget(address)
            raise
        return response

    def _forget(self, node_id: int) -> None:
        self._sockets.forget(self.known.address(node_id))
