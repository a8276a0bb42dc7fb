"""Ends of partitions for the lag of share groups, whichever broker leads them (Kafka's NetworkPartitionMetadataClient)."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING

from coterie.broker.cluster.cluster_view import ClusterView
from coterie.broker.cluster.peers.connections import PeerRequests
from coterie.broker.process.scheduling import Scheduler
from coterie.broker.storage.topics import Topics
from coterie.coordinator.state import TopicPartition
from coterie.log.reading import LATEST_TIMESTAMP
from coterie.wire.errors import ErrorCode, Refusal, error_of

if TYPE_CHECKING:
    from coterie.wire.messages.logs.list_offsets import ListOffsetsResponse

ATTEMPTS = 6
FIRST_PAUSE_MS = 1_000
VERSION = 5  # the first with OFFSET_NOT_AVAILABLE
Ends = dict[TopicPartition, int | Refusal]


class EndOffsets:
    """Looks up high watermarks. ``peers`` is None for a broker alone."""

    def __init__(self, topics: Topics, view: ClusterView, scheduler: Scheduler) -> None:
        self._topics, self._view, self._scheduler = topics, view, scheduler
        self.peers: PeerRequests | None = None

    def look_up(self, partitions: Collection[TopicPartition], done: Callable[[Ends], None]) -> None:
        """``done`` gets the end of each partition, or its error, perhaps before this returns. A leader without a response is
        requested again after pauses, 6 times in all."""
        _LookUp(self, done).send(partitions)

    def own(self, named: TopicPartition) -> int | Refusal:
        """That of a partition which this broker leads."""
        try:
            partition = self._topics.partition(*named)
            partition.check_leader()
            partition.check_high_watermark()
        except Refusal as refusal:
            return refusal
        return partition.log.high_watermark

    def by_leader(self, partitions: Collection[TopicPartition]) -> dict[int | None, list[TopicPartition]]:
        """The partitions by the broker that leads them; None: none does now."""
        leaders: dict[int | None, list[TopicPartition]] = {}
        for named in partitions:
            state = self._view.states.get(named)
            leader = None if state is None or state.leader not in self._view.live else state.leader
            leaders.setdefault(leader if self._topics.in_cluster else self._view.node_id, []).append(named)
        return leaders

    def is_own(self, leader: int) -> bool:
        """Whether that is this broker."""
        return leader == self._view.node_id

    def send_to(
        self,
        leader: int,
        partitions: Collection[TopicPartition],
        responded: Callable[[ListOffsetsResponse | None], None],
    ) -> None:
        """``responded`` gets None where no response came."""
        from coterie.wire.messages.logs.list_offsets import (  # a broker alone has no use for it, and starts sooner
            ListOffsetsPartition,
            ListOffsetsRequest,
            ListOffsetsResponse,
            ListOffsetsTopic,
        )

        topics: dict[str, list[ListOffsetsPartition]] = {}
        for topic, index in partitions:
            topics.setdefault(topic, []).append(ListOffsetsPartition(index, timestamp=LATEST_TIMESTAMP))
        request = ListOffsetsRequest(topics=[ListOffsetsTopic(topic, rows) for topic, rows in topics.items()])
        assert self.peers is not None
        self.peers.send(leader, request, ListOffsetsResponse, VERSION, responded)

    def later(self, pause_ms: int, call: Callable[[], object]) -> None:
        """Calls ``call`` after the pause."""
        self._scheduler.call_later(pause_ms / 1000, call)


class _LookUp:
    """One call, until each partition has a result."""

    def __init__(self, offsets: EndOffsets, done: Callable[[Ends], None]) -> None:
        self._offsets, self._done = offsets, done
        self._ends: Ends = {}
        self._again: list[TopicPartition] = []
        self._attempt = self._waiting = 0

    def send(self, partitions: Collection[TopicPartition]) -> None:
        """One attempt for these partitions."""
        self._attempt, self._again = self._attempt + 1, []
        leaders = self._offsets.by_leader(partitions)
        self._waiting = 1 + sum(leader is not None and not self._offsets.is_own(leader) for leader in leaders)
        for leader, theirs in leaders.items():
            if leader is None:
                self._ends |= {named: Refusal(ErrorCode.LEADER_NOT_AVAILABLE) for named in theirs}
            elif self._offsets.is_own(leader):
                self._ends |= {named: self._offsets.own(named) for named in theirs}
            else:
                self._offsets.send_to(leader, theirs, partial(self._responded, theirs))
        self._end()

    def _responded(self, partitions: list[TopicPartition], response: ListOffsetsResponse | None) -> None:
        absent = ErrorCode.NETWORK_EXCEPTION if response is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        self._ends |= {named: Refusal(absent) for named in partitions}
        if response is None:
            self._again += partitions
        else:
            for topic in response.topics:
                for row in topic.partitions:
                    end = Refusal(error_of(row.error_code)) if row.error_code else row.offset
                    self._ends[topic.name, row.partition_index] = end
        self._end()

    def _end(self) -> None:
        self._waiting -= 1
        if self._waiting:
            return
        if self._again and self._attempt < ATTEMPTS:
            again = self._again
            self._offsets.later(FIRST_PAUSE_MS << (self._attempt - 1), lambda: self.send(again))
        else:
            self._done(self._ends)
