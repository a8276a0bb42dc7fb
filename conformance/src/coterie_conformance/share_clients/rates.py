"""Share groups under load (KIP-932): members of one group that acquire records and accept them with their next fetch, over raw
connections."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from coterie.client.connection.blocking_socket import BrokerSocket
from coterie.client.errors import check
from coterie.records.encoding import encode_batch
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.groups.find_coordinator import FindCoordinatorRequest
from coterie.wire.messages.logs.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from coterie.wire.messages.settings.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from coterie.wire.messages.share.share_acknowledge import AcknowledgementBatch
from coterie.wire.messages.share.share_fetch import ShareFetchPartition, ShareFetchRequest, ShareFetchTopic
from coterie.wire.messages.share.share_group_heartbeat import ShareGroupHeartbeatRequest
from coterie.wire.messages.topics.create_topics import CreatableTopic, CreateTopicsRequest

Address = tuple[str, int]
RECORD = b"x" * 100
GROUP_RESOURCE, SET = 32, 0
ACCEPT = 1
JOIN_S = 60.0
PAUSE_S, STALLED_S = 0.2, 30.0
SPARE = 2_000
MEMBER_ID = "AAAAAAAAAAAAAAAAAAAAAA"


@dataclass
class ShareLoad:
    """One member of the share group ``name`` with one partition, which has so many records, ``batch`` in each record batch."""

    address: Address
    name: str
    records: int
    batch: int
    _topic_id: bytes = b""
    _session_epoch: int = 0
    _acks: list[AcknowledgementBatch] = field(default_factory=list)

    def begin(self) -> None:
        """Makes the topic with its records, and joins. Raises KafkaError, AssertionError."""
        self._broker = BrokerSocket(*self.address, timeout_s=60)
        broker = self._broker
        for result in broker.request(CreateTopicsRequest([CreatableTopic(self.name, 1, 1)])).topics:
            check(result.error_code, result.error_message)
            self._topic_id = result.topic_id
        changes = [AlterableConfig("share.auto.offset.reset", SET, "earliest")]
        resource = AlterConfigsResource(GROUP_RESOURCE, self.name, changes)
        for altered in broker.request(IncrementalAlterConfigsRequest([resource], False)).responses:
            check(altered.error_code, altered.error_message)
        data = encode_batch([(0, None, RECORD, ())] * self.batch)
        topics = [TopicProduceData(self.name, partition_data=[PartitionProduceData(0, data)])]
        for _ in range(self.records // self.batch):
            produced = broker.request(ProduceRequest(None, -1, 30_000, topics), highest=9)
            check(produced.responses[0].partition_responses[0].error_code)
        broker.request(FindCoordinatorRequest(key=self.name), highest=3)
        self._join()

    def _join(self) -> None:
        end, epoch = time.monotonic() + JOIN_S, 0
        while True:
            request = ShareGroupHeartbeatRequest(self.name, MEMBER_ID, epoch)
            if not epoch:
                request.subscribed_topic_names = [self.name]
            response = self._broker.request(request)
            if response.error_code not in (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
                check(response.error_code, response.error_message)
                epoch = response.member_epoch
                if response.assignment is not None and response.assignment.topic_partitions:
                    return
            assert time.monotonic() < end, f"no assignment within {JOIN_S:g} s"
            time.sleep(PAUSE_S)

    def accept(self, records: int) -> float:
        """Acquires and accepts so many records; returns seconds. Raises AssertionError where none comes for STALLED_S."""
        started, accepted = time.perf_counter(), 0
        moved = started
        while accepted < records:
            acquired = self._fetch()
            accepted += acquired
            moved = time.perf_counter() if acquired else moved
            assert time.perf_counter() - moved < STALLED_S, f"{self.name}: {accepted} of {records} records, then none"
        return time.perf_counter() - started

    def _fetch(self) -> int:
        """One request: accepts the records of the one before, acquires others; how many."""
        partition = ShareFetchPartition(0, self._acks)
        request = ShareFetchRequest(
            self.name,
            MEMBER_ID,
            self._session_epoch,
            max_wait_ms=500,
            min_bytes=1,
            max_records=500,
            batch_size=500,
            topics=[ShareFetchTopic(self._topic_id, [partition])],
        )
        response = self._broker.request(request)
        check(response.error_code, response.error_message)
        self._session_epoch += 1
        self._acks, acquired = [], 0
        for topic in response.responses:
            for data in topic.partitions:
                check(data.error_code, data.error_message)
                check(data.acknowledge_error_code, data.acknowledge_error_message)
                for a in data.acquired_records:
                    acquired += a.last_offset - a.first_offset + 1
                    self._acks.append(AcknowledgementBatch(a.first_offset, a.last_offset, [ACCEPT]))
        return acquired

    def close(self) -> None:
        """Without leaving the group."""
        self._broker.close()


def accept_rate(address: Address, name: str, batch: int, warm_up: int, measured: int) -> float:
    """Records/s that one member acquires and accepts, ``batch`` in each record batch, after a warm-up of so many."""
    load = ShareLoad(address, name, warm_up + measured + SPARE, batch)  # the warm-up may take a response more
    load.begin()
    load.accept(warm_up)
    seconds = load.accept(measured)
    load.close()
    return measured / seconds
