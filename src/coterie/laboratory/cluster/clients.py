"""The clients of a cluster's story: a producer that repeats until it is acknowledged, and a consumer that reads what is
committed. `machine_clients` has those with the machines of the client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from coterie.laboratory.cluster.administrator import ORDERS, Administrator
from coterie.laboratory.cluster.broker import ClusterBroker
from coterie.laboratory.cluster.known_records import KnownRecords
from coterie.laboratory.cluster.process import Network, Process
from coterie.laboratory.cluster.replica_log import Batch
from coterie.replication.states import NO_EPOCH, NO_LEADER, ReplicaError, ReplicaFetched, TopicPartition

RETRY_MS = 100
POLL_MS = 400


class _Client(Process):
    """Knows one partition's leader from any broker's metadata."""

    def __init__(
        self, network: Network, name: str, brokers: Mapping[int, ClusterBroker], partition: TopicPartition
    ) -> None:
        super().__init__(network, name)
        self.brokers, self.partition = brokers, partition
        self.stopped = False
        self._leader: ClusterBroker | None = None

    def start(self) -> None:
        self.started()
        self.again()

    def again(self) -> None:
        if self.stopped:
            return
        if self._leader is None:
            self.find_leader()
        else:
            self.request(self._leader)

    def request(self, leader: ClusterBroker) -> None:
        raise NotImplementedError

    def retry(self) -> None:
        """The broker may not be the leader any more."""
        self._leader = None
        self.later(RETRY_MS, self.again)

    def find_leader(self) -> None:
        """Asks a broker, then goes on."""
        self._leader = None
        target = self.brokers[self.world.random.choice(sorted(self.brokers))]
        self.call(
            target,
            lambda answer: answer(target.metadata.get(self.partition)),
            self._metadata_came,
            lambda: self.later(RETRY_MS, self.again),
        )

    def _metadata_came(self, state: Any) -> None:
        if state is not None and state.leader > NO_LEADER:
            self._leader = self.brokers[state.leader]
        self.later(1 if self._leader is not None else RETRY_MS, self.again)


class ClusterProducer(_Client):
    """``acknowledged``: the values, in order. One request at a time; a value is repeated until it is acknowledged, so that
    it may be there twice."""

    def __init__(
        self, network: Network, name: str, brokers: Mapping[int, ClusterBroker], partition: TopicPartition
    ) -> None:
        super().__init__(network, name, brokers, partition)
        self.acknowledged: list[str] = []
        self._number = 0

    def request(self, leader: ClusterBroker) -> None:
        """Sends the record that is next, and again until it is acknowledged."""
        value = f"{self.name}-{self._number}"

        def answered(error: Any) -> None:
            if error is None:
                self.acknowledged.append(value)
                self._number += 1
                self.later(self.world.between(1, 300), self.again)
            else:
                self.retry()

        self.call(leader, lambda answer: leader.produce(self.partition, value, answer), answered, self.retry)


class ClusterConsumer(_Client):
    """``read``: offset -> the value that was delivered there. What is delivered once must stay. ``changed``: what did not.
    ``rereads``: now and then it reads everything again, perhaps from another leader."""

    def __init__(
        self, network: Network, name: str, brokers: Mapping[int, ClusterBroker], partition: TopicPartition
    ) -> None:
        super().__init__(network, name, brokers, partition)
        self.read: dict[int, str] = {}
        self.changed: list[str] = []
        self.rereads = True
        self._position = 0

    def request(self, leader: ClusterBroker) -> None:
        offset = self._position
        self.call(leader, lambda answer: leader.consume(self.partition, offset, answer), self._fetched, self.retry)

    def _fetched(self, result: Any) -> None:
        if result is ReplicaError.OFFSET_OUT_OF_RANGE and self._leader is not None:
            self._find_start(self._leader)
            return
        if not isinstance(result, ReplicaFetched):
            self.retry()
            return
        batches: list[Batch] = list(result.batches)
        for batch in batches:
            before = self.read.setdefault(batch.offset, batch.value)
            if before != batch.value:
                self.changed.append(f"offset {batch.offset} was {before} and is {batch.value}")
            self._position = batch.offset + 1
        if not self.rereads:
            self._position = max(self.read, default=-1) + 1
        elif not batches and self.world.chance(0.05):
            self._position = 0
        self.later(1 if batches else POLL_MS, self.again)

    def _find_start(self, leader: ClusterBroker) -> None:
        """Records before it were deleted."""

        def came(ends: Any) -> None:
            if not isinstance(ends, ReplicaError):
                self._position = max(self._position, ends[0])
            self.retry()

        self.call(leader, lambda answer: leader.answer_ends(self.partition, NO_EPOCH, answer), came, self.retry)


class StoryClients(Protocol):
    """The clients of a story of the cluster, of all its topics."""

    def made(self, partition: TopicPartition) -> None:
        """A new partition gets its clients."""

    def deleted(self, topic: str) -> None:
        """The topic's deletion was requested: nothing more is produced to it."""

    def names(self) -> list[str]:
        """The processes, which may be cut off from brokers."""

    def finish(self) -> None:
        """Nothing more is produced; consumers read to the end."""

    def produced(self) -> list[KnownRecords]:
        """The records of the topics that are not deleted."""

    def formerly_produced(self) -> list[KnownRecords]:
        """The records of the deleted topics."""

    def delivered(self) -> int:
        """The number of records that consumers have."""

    def violations(self, administrator: Administrator) -> list[str]:
        """What the clients have seen that must not be, at the end."""


class HandMadeClients:
    """A producer for each partition, and a consumer for each of the topic that stays."""

    def __init__(self, network: Network, brokers: Mapping[int, ClusterBroker]) -> None:
        self._network, self._brokers = network, brokers
        self._producers: list[ClusterProducer] = []
        self._former: list[ClusterProducer] = []  # of topics that were deleted
        self._consumers: dict[TopicPartition, ClusterConsumer] = {}

    def made(self, partition: TopicPartition) -> None:
        """See `StoryClients`."""
        number = len(self._producers) + len(self._former)
        producer = ClusterProducer(self._network, f"p{number}", self._brokers, partition)
        self._producers.append(producer)
        producer.start()
        if partition[0] == ORDERS:
            self._consumers[partition] = ClusterConsumer(self._network, f"c{number}", self._brokers, partition)
            self._consumers[partition].start()

    def deleted(self, topic: str) -> None:
        """See `StoryClients`."""
        for producer in [p for p in self._producers if p.partition[0] == topic]:
            producer.stopped = True
            self._producers.remove(producer)
            self._former.append(producer)

    def names(self) -> list[str]:
        """See `StoryClients`."""
        return [client.name for client in (*self._producers, *self._consumers.values())]

    def finish(self) -> None:
        """See `StoryClients`."""
        for producer in self._producers:
            producer.stopped = True
        for consumer in self._consumers.values():
            consumer.rereads = False

    def produced(self) -> list[KnownRecords]:
        """See `StoryClients`."""
        return [self._produced(producer) for producer in self._producers]

    def _produced(self, producer: ClusterProducer) -> KnownRecords:
        consumer = self._consumers.get(producer.partition)
        return KnownRecords(
            producer.partition, producer.acknowledged, () if consumer is None else (consumer.read.items(),)
        )

    def formerly_produced(self) -> list[KnownRecords]:
        """See `StoryClients`."""
        return [KnownRecords(producer.partition, producer.acknowledged) for producer in self._former]

    def delivered(self) -> int:
        """See `StoryClients`."""
        return sum(len(consumer.read) for consumer in self._consumers.values())

    def violations(self, administrator: Administrator) -> list[str]:
        """See `StoryClients`."""
        return [f"{partition}: {change}" for partition, c in self._consumers.items() for change in c.changed]
