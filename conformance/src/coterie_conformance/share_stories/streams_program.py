"""A thread of a streams application by raw requests (KIP-1071): it heartbeats, reads the partitions of its active tasks and
commits them as the member that it is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from coterie.client import Consumer, KafkaError, TopicPartition
from coterie.client.connection.connection import Connection
from coterie.client.errors import check
from coterie.wire.messages.groups.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from coterie.wire.messages.groups.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from coterie.wire.messages.groups.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from coterie.wire.messages.streams.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TaskIds,
    Topology,
)

REQUEST_S = 10.0
BEAT_S = 0.5
LEAVES = -1  # as a member epoch


class StreamsProgram:
    """One life of a thread in ``group``, whose one subtopology reads ``topic``."""

    def __init__(self, servers: str, group: str, member_id: str, topic: str) -> None:
        self._servers, self._group, self._member_id, self._topic = servers, group, member_id, topic
        self._epoch = self._endpoint_epoch = 0
        self._tasks: list[int] = []
        self._reported: list[int] | None = None  # the tasks in its last report

    async def run(self, has: Callable[[int, int], None], pause_s: Callable[[], float]) -> None:
        """Until it is killed; ``has(partition, offset)`` is called with each record. Raises KafkaError where the coordinator is
        lost or the member fenced."""
        coordinator = await self._coordinator()
        try:
            async with Consumer({"bootstrap.servers": self._servers}) as consumer:
                while True:
                    if await self._beat(coordinator):
                        await self._resume(coordinator, consumer)
                    ends_s = time.monotonic() + BEAT_S
                    while (left_s := ends_s - time.monotonic()) > 0:
                        await self._process(coordinator, consumer, left_s, has)
                        await asyncio.sleep(min(pause_s(), left_s))
        finally:
            coordinator.close()

    async def leave(self) -> None:
        """After `run`: the group has one member less. Raises KafkaError."""
        coordinator = await self._coordinator()
        request = StreamsGroupHeartbeatRequest(self._group, self._member_id, LEAVES)
        response = await coordinator.request(request, StreamsGroupHeartbeatResponse, REQUEST_S)
        coordinator.close()
        check(response.error_code, response.error_message)

    async def _coordinator(self) -> Connection:
        failures = []
        for server in self._servers.split(","):
            host, _, port = server.rpartition(":")
            try:
                connection = await Connection.connect(host, int(port), self._member_id, REQUEST_S)
                request = FindCoordinatorRequest(coordinator_keys=[self._group])
                response = await connection.request(request, FindCoordinatorResponse, REQUEST_S)
                connection.close()
                at = response.coordinators[0]
                check(at.error_code, at.error_message)
                return await Connection.connect(at.host, at.port, self._member_id, REQUEST_S)
            except (KafkaError, OSError) as error:
                failures.append(error)
        raise failures[0]

    async def _beat(self, coordinator: Connection) -> bool:
        """Whether the tasks are others. They are reported where they have changed, as Kafka Streams does it."""
        request = StreamsGroupHeartbeatRequest(self._group, self._member_id, self._epoch, self._endpoint_epoch)
        if self._tasks != self._reported or not self._epoch:
            tasks = [TaskIds("0", self._tasks)] if self._tasks else []
            request.active_tasks, request.standby_tasks, request.warmup_tasks = tasks, [], []
        if not self._epoch:
            request.topology = Topology(0, [Subtopology("0", [self._topic])])
            request.process_id, request.rebalance_timeout_ms = self._member_id, 5_000
        response = await coordinator.request(request, StreamsGroupHeartbeatResponse, REQUEST_S)
        check(response.error_code, response.error_message)
        self._epoch, self._endpoint_epoch = response.member_epoch, response.endpoint_information_epoch
        self._reported = self._tasks
        if response.active_tasks is None:
            return False
        before, self._tasks = self._tasks, sorted(p for task in response.active_tasks for p in task.partitions)
        return before != self._tasks

    async def _resume(self, coordinator: Connection, consumer: Consumer[bytes, bytes]) -> None:
        """Reads on at the committed offsets of its tasks."""
        wanted = OffsetFetchRequestGroup(self._group, self._member_id, self._epoch)
        wanted.topics = [OffsetFetchRequestTopics(self._topic, partition_indexes=self._tasks)]
        request = OffsetFetchRequest(groups=[wanted], require_stable=True)
        response = await coordinator.request(request, OffsetFetchResponse, REQUEST_S, highest=9)
        group = response.groups[0]
        check(group.error_code)
        await consumer.assign([TopicPartition(self._topic, p) for p in self._tasks])
        for topic in group.topics:
            for data in topic.partitions:
                check(data.error_code)
                consumer.seek(TopicPartition(self._topic, data.partition_index), max(data.committed_offset, 0))

    async def _process(
        self, coordinator: Connection, consumer: Consumer[bytes, bytes], limit_s: float, has: Callable[[int, int], None]
    ) -> None:
        if not self._tasks:
            await asyncio.sleep(limit_s)
            return
        polled = await consumer.poll(limit_s * 1000)
        offsets = []
        for where, records in polled.items():
            for record in records:
                has(where.partition, record.offset)
            offsets.append(OffsetCommitRequestPartition(where.partition, records[-1].offset + 1))
        if not offsets:
            return
        topics = [OffsetCommitRequestTopic(self._topic, partitions=offsets)]
        request = OffsetCommitRequest(self._group, self._epoch, self._member_id, topics=topics)
        response = await coordinator.request(request, OffsetCommitResponse, REQUEST_S, highest=9)
        for topic in response.topics:
            for data in topic.partitions:
                check(data.error_code)
