"""The groups' journal in a cluster: each coordinator's lines go to the leader of its one partition, and to all in sync."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable

from coterie.broker.cluster.peers.connections import PEER_FAILED, Address, Dial, PeerConnection, open_stream
from coterie.broker.groups.journal_writer import BATCH_BYTES, JournalRecord, record_bytes
from coterie.broker.storage.topic import JOURNAL_CLIENT_ID
from coterie.coordinator.journal.line import TOPIC
from coterie.records.encoding import encode_batch
from coterie.wire.errors import ErrorCode, Refusal, error_of
from coterie.wire.messages.logs.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData

logger = logging.getLogger(__name__)

PRODUCE_VERSION = 8  # inter.broker.protocol.version 2.6
RECORDS_KEPT = 10_000  # while the journal has no leader; then the oldest go
RETRY_S = 0.1
CLOSED_WITHIN_S = 1.0
_NEW_SEQUENCE = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
    }
)


class JournalSender:
    """``leader``: the address of the journal's leader, None while there is none; then ``create`` requests the topic, unless it
    is there. ``new_producer_id`` may raise Refusal: batches are numbered, so that one that is sent twice is written once."""

    def __init__(
        self,
        timeout_ms: int,
        leader: Callable[[], Address | None],
        create: Callable[[], object],
        new_producer_id: Callable[[], int],
        dial: Dial = open_stream,
    ) -> None:
        self._timeout_ms, self._leader, self._create, self._new_producer_id = (
            timeout_ms,
            leader,
            create,
            new_producer_id,
        )
        self._connection = PeerConnection(JOURNAL_CLIENT_ID, timeout_ms, dial)
        self._records: deque[JournalRecord] = deque()
        self._under_way: list[JournalRecord] = []
        self._producer_id, self._sequence = -1, 0
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False
        self._is_dropping = False

    def add(self, records: list[JournalRecord]) -> None:
        """Returns at once. What does not fit while the journal has no leader is dropped, the oldest first."""
        if self._is_closed:
            return
        self._records += records
        if len(self._records) > RECORDS_KEPT and not self._is_dropping:
            logger.error("%s has no leader that takes records; its oldest lines are dropped until it has one", TOPIC)
        self._is_dropping = len(self._records) > RECORDS_KEPT
        while len(self._records) > RECORDS_KEPT:
            self._records.popleft()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._drain())

    async def _drain(self) -> None:
        try:
            while self._records or self._under_way:
                if not await self._send():
                    await asyncio.sleep(RETRY_S)
        finally:
            self._task = None
            self._connection.close()

    async def _send(self) -> bool:
        """Sends one batch; False where it has to be sent again."""
        address = self._leader()
        if address is None:
            self._create()
            return False
        try:
            data = self._batch()
            rows = [TopicProduceData(TOPIC, partition_data=[PartitionProduceData(0, data)])]
            request = ProduceRequest(None, -1, self._timeout_ms, rows)
            response = await self._connection.request(address, request, ProduceResponse, PRODUCE_VERSION)
        except (*PEER_FAILED, Refusal) as error:
            logger.debug("the journal's leader does not respond: %r", error)
            return False
        return self._responded(error_of(response.responses[0].partition_responses[0].error_code))

    def _batch(self) -> bytes:
        """The next records, the same again until they are written. Raises Refusal."""
        if self._producer_id < 0:
            self._producer_id, self._sequence = self._new_producer_id(), 0
        size = 0
        while self._records and (not self._under_way or 0 < size < BATCH_BYTES):
            size += record_bytes(self._records[0])
            self._under_way.append(self._records.popleft())
        return encode_batch(
            self._under_way, producer_id=self._producer_id, producer_epoch=0, base_sequence=self._sequence
        )

    def _responded(self, error: ErrorCode) -> bool:
        if error in _NEW_SEQUENCE:
            self._producer_id = -1
            return True
        if error not in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            if error.retriable:
                return False
            logger.error("the journal cannot be written: %s; %d lines are lost", error.name, len(self._under_way))
        self._sequence += len(self._under_way)
        self._under_way = []
        return True

    async def close(self) -> None:
        """Sends what is left, for CLOSED_WITHIN_S at most."""
        self._is_closed = True
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=CLOSED_WITHIN_S)
        await self.abandon()

    async def abandon(self) -> None:
        """Ends the sender; what waits is not sent."""
        self._is_closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
