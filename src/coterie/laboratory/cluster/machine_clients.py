"""The clients of a cluster's story with the client's own machines: a producer for each topic, and consumers of several."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from coterie.consuming.fetching.config import FetchConfig
from coterie.laboratory.cluster.administrator import ORDERS, Administrator
from coterie.laboratory.cluster.known_records import KnownRecords
from coterie.laboratory.cluster.machine_consumer import DeliveredRecords, MachineConsumer
from coterie.laboratory.cluster.machine_producer import MachineProducer
from coterie.laboratory.cluster.process import Network
from coterie.laboratory.cluster.serving_broker import ServingBroker
from coterie.laboratory.requesting_producer import RECORD_BYTES
from coterie.producing.config import ProducingConfig
from coterie.replication.states import TopicPartition

CLIENT_FAULT_MS = 20_000  # at most
DOWN_MS = 3_000  # at most
BUFFER_BYTES = 15 * RECORD_BYTES  # what is there at the end of a story ends soon, also with one small batch at a time


class MachineClients:
    """See `StoryClients`. One consumer reads the topic that stays, the other one all."""

    def __init__(self, network: Network, brokers: Mapping[int, ServingBroker]) -> None:
        self._network, self._brokers, self._world = network, brokers, network.world
        self._producers: dict[str, MachineProducer] = {}
        self._former: list[tuple[MachineProducer, list[TopicPartition]]] = []  # of topics that were deleted
        fetch = FetchConfig(max_bytes=1_500, max_partition_bytes=600, validates=True)
        self._consumers = [MachineConsumer(network, name, brokers, fetch) for name in ("c0", "c1")]
        for consumer in self._consumers:
            consumer.start()

    def made(self, partition: TopicPartition) -> None:
        """See `StoryClients`."""
        topic = partition[0]
        if topic not in self._producers:
            number = len(self._producers) + len(self._former)
            self._producers[topic] = MachineProducer(self._network, f"p{number}", self._brokers, self._config())
        self._producers[topic].add(partition)
        self._producers[topic].start()
        for consumer in self._consumers if topic == ORDERS else self._consumers[1:]:
            consumer.add(partition)

    def _config(self) -> ProducingConfig:
        rng = self._world.random
        return ProducingConfig(
            batch_size=rng.choice((90, 160, 400)),
            linger_ms=rng.choice((0, 5, 100)),
            delivery_timeout_ms=rng.choice((20_000, 120_000)),
            request_timeout_ms=rng.choice((3_000, 8_000)),
            max_in_flight=rng.choice((1, 5, 5)),
            buffer_memory=BUFFER_BYTES,
        )

    def deleted(self, topic: str) -> None:
        """See `StoryClients`."""
        producer = self._producers.pop(topic, None)
        if producer is not None:
            producer.crash()
            self._former.append((producer, list(producer.partitions)))
        for consumer in self._consumers:
            consumer.drop(topic)

    def names(self) -> list[str]:
        """See `StoryClients`."""
        return [client.name for client in self._all()]

    def _all(self) -> list[MachineProducer | MachineConsumer]:
        return [*self._producers.values(), *self._consumers]

    def strike_until(self, end_ms: int) -> None:
        """Clients are killed, and start anew."""
        self._world.strike_until(end_ms, CLIENT_FAULT_MS, self._kill_one)

    def _kill_one(self) -> None:
        client = self._world.random.choice(self._all())
        client.crash()
        self._world.after(self._world.between(0, DOWN_MS), partial(self._start_again, client))

    def _start_again(self, client: MachineProducer | MachineConsumer) -> None:
        """Unless it has no topic any more."""
        if isinstance(client, MachineConsumer) or client in self._producers.values():
            client.start()

    def finish(self) -> None:
        """See `StoryClients`."""
        for client in self._all():
            client.finish()

    # -- what must hold -------------------------------------------------------------------------------------------------

    def produced(self) -> list[KnownRecords]:
        """See `StoryClients`."""
        return [
            KnownRecords(partition, producer.acknowledged(partition), self._read(partition))
            for producer in self._producers.values()
            for partition in producer.partitions
        ]

    def _read(self, partition: TopicPartition) -> list[set[tuple[int, str]]]:
        return [c.delivered[tp].records for c in self._consumers for tp in c.delivered if tp == partition]

    def formerly_produced(self) -> list[KnownRecords]:
        """See `StoryClients`."""
        return [
            KnownRecords(partition, producer.acknowledged(partition))
            for producer, partitions in self._former
            for partition in partitions
        ]

    def delivered(self) -> int:
        """See `StoryClients`."""
        return sum(len(delivered.read) for c in self._consumers for delivered in c.delivered.values())

    @property
    def validations(self) -> int:
        """How many positions were validated after elections."""
        return sum(consumer.validations for consumer in self._consumers)

    def violations(self, administrator: Administrator) -> list[str]:
        """See `StoryClients`."""
        seen: list[str] = []
        for producer in self._producers.values():
            if producer.unfinished():
                seen.append(f"{producer.name} has records without an end at rest")
            for partition in producer.partitions:
                seen += self._violations_of(producer, partition, administrator)
        for consumer in self._consumers:
            for tp, delivered in consumer.delivered.items():
                what = delivered.changed + self._unexpected_moves(tp, delivered, administrator)
                seen += [f"{consumer.name} of {tp.topic}-{tp.partition}: {one}" for one in what]
        return seen

    def _unexpected_moves(
        self, tp: TopicPartition, delivered: DeliveredRecords, administrator: Administrator
    ) -> list[str]:
        """A position goes back where the log was cut, after an unclean election: its validation notices it, unless it follows
        no record. It is out of range where records before it were deleted, perhaps at one leader alone."""
        floor, is_unclean = administrator.record_deletions.floors.get(tp, 0), tp[0] in administrator.unclean
        resets = [
            f"position {at} was out of range of a log that began before it"
            for at, follows_record in delivered.resets
            if at >= floor and (follows_record or not is_unclean)
        ]
        return resets + ([] if is_unclean else delivered.cuts)

    def _violations_of(
        self, producer: MachineProducer, partition: TopicPartition, administrator: Administrator
    ) -> list[str]:
        """What the log holds, read without any client."""
        assignment = administrator.partitions().get(partition)
        if assignment is None:
            return []  # which the replicas' checker reports
        batches = self._brokers[assignment.replicas[0]].logs[partition].batches
        try:
            producer.check(partition, [(batch.offset, batch.value.encode()) for batch in batches])
        except AssertionError as error:
            return [str(error)]
        if partition[0] in administrator.unclean:
            return []
        held = {batch.offset: batch.value for batch in batches}
        return [
            f"{value!r} was acknowledged at offset {offset} of {partition}, where {held[offset]!r} is"
            for value, offset in producer.acknowledged(partition).items()
            if held.get(offset, value) != value
        ]
