"""One seed, one story of read-process-write: the members of a group copy what they read to another topic, in transactions that
commit their offsets, while producers write the input and everything fails.

The rules are in `copy_checker`, beside those of `consumer_story`: checked whenever no transaction is open, and at rest.
"""

from __future__ import annotations

from typing import ClassVar

from coterie.consuming.fetching.config import FetchConfig
from coterie.laboratory.node.connection import LaboratoryConnection
from coterie.laboratory.node.consumer_story import ConsumersStory
from coterie.laboratory.node.copy_checker import INPUTS, OUTPUT, CopyChecker
from coterie.laboratory.node.copying_consumer import (
    AnyCopyingConsumer,
    ClassicCopyingConsumer,
    ServerAssignedCopyingConsumer,
)
from coterie.laboratory.node.record_checker import TopicPartition, committed_records
from coterie.laboratory.node.transactional_producer import TransactionalProducer
from coterie.laboratory.transacting_producer import TransactionConfig
from coterie.machines.backoff import Backoff
from coterie.member.config import MemberConfig
from coterie.member.consumer.config import ConsumerMemberConfig
from coterie.producing.config import ProducingConfig
from coterie.wire.messages.transactions.init_producer_id import InitProducerIdRequest

INIT_VERSION = 5
AT_REST_MS = 20  # the delay of a message, at most


class CopyingStory(ConsumersStory):
    """A `ConsumersStory` whose consumers are `CopyingConsumer`s. Nothing deletes records."""

    outputs: ClassVar[dict[str, int]] = {OUTPUT: max(INPUTS.values()) + 1}
    committed_only = True
    consumers: list[AnyCopyingConsumer]  # type: ignore[assignment]

    def __init__(self, seed: int) -> None:
        self.copies = CopyChecker()
        super().__init__(seed)
        self.readers = []
        self.delivery.committed_only = True

    def _make_consumer(
        self, name: str, config: MemberConfig | ConsumerMemberConfig, fetch: FetchConfig
    ) -> AnyCopyingConsumer:
        producer = self._transactional_producer(name)
        if isinstance(config, ConsumerMemberConfig):
            return ServerAssignedCopyingConsumer(self._parts(name, config, fetch), producer, self.copies)
        return ClassicCopyingConsumer(self._parts(name, config, fetch), producer, self.copies)

    def _transactional_producer(self, name: str) -> TransactionalProducer:
        rng = self.world.random
        config = ProducingConfig(
            batch_size=rng.choice([200, 500, 1_500]),
            linger_ms=rng.choice([0, 5, 100]),
            delivery_timeout_ms=rng.choice([5_000, 30_000, 120_000]),
            request_timeout_ms=rng.choice([1_000, 3_000]),
            max_in_flight=rng.choice([1, 2, 5]),
            backoff=Backoff(rng.choice([1, 100]), 1_000),
        )
        transaction = TransactionConfig(
            f"copier-{name}",
            timeout_ms=rng.choice([5_000, 20_000, 60_000]),
            api_timeout_ms=rng.choice([5_000, 60_000]),
            newest_version=rng.choice([0, 2]),
        )
        return TransactionalProducer(self.world, self.broker, f"o{name}", self.checker, config, transaction)

    # -- faults ---------------------------------------------------------------------------------------------------------

    def end_faults(self) -> None:
        super().end_faults()
        self.world.faults.max_delay_ms = AT_REST_MS

    def _consumer_fault(self) -> None:
        super()._consumer_fault()
        self._check_copies()
        if self.world.chance(0.2):
            self._fence(self.world.random.choice(self.consumers))

    def _fence(self, consumer: AnyCopyingConsumer) -> None:
        """Another process with the same transactional id begins, and is gone."""
        if self.broker.up:
            config = consumer.producer.transaction_config
            request = InitProducerIdRequest(config.transactional_id, config.timeout_ms)
            connection = LaboratoryConnection(self.world, self.broker, consumer.name)
            connection.send(request, INIT_VERSION, lambda response: None)

    # -- rules ----------------------------------------------------------------------------------------------------------

    def _check_copies(self) -> None:
        is_loaded = self.broker.up and self._group() is not None  # until then its offsets are unknown
        if is_loaded and self.is_written() and not self._has_pending_offsets():
            self.copies.checked += 1
            self.copies.check(self._visible(self.partitions), self._values(), self._committed())

    def _has_pending_offsets(self) -> bool:
        return any(any(group.pending_offsets.values()) for group in self.broker.node.groups.loaded_groups())

    def _visible(self, partitions: list[TopicPartition]) -> dict[TopicPartition, list[tuple[int, bytes]]]:
        logs = self._logs()
        return {partition: list(committed_records(logs[partition])) for partition in partitions}

    def _values(self) -> dict[TopicPartition, list[bytes]]:
        visible = self._visible(self.output_partitions)
        return {partition: [value for _, value in records] for partition, records in visible.items()}

    def _check_at_rest(self) -> None:
        super()._check_at_rest()
        assert not self._has_pending_offsets(), "offsets of a transaction are pending for ever"

    def at_rest(self) -> dict[TopicPartition, list[bytes]]:
        """Checks also the copies, against the input and the committed offsets."""
        values = super().at_rest()
        self.copies.check(self._visible(self.partitions), values, self._committed())
        self.copied = sum(len(values[partition]) for partition in self.output_partitions)
        return values
