"""An admin's calls about transactions and producers (KIP-664, KIP-360)."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeVar

from coterie.client import arguments
from coterie.client.admin.brokers import of_each_broker
from coterie.client.admin.calls import only, repeated, reported, until_done
from coterie.client.admin.cluster_types import (
    ActiveProducer,
    TransactionDescription,
    TransactionListing,
    TransactionState,
)
from coterie.client.admin_types import Node
from coterie.client.connection.cluster import Cluster, Coordinator
from coterie.client.errors import KafkaError, check, error_about
from coterie.client.types import PartitionLike, TopicPartition
from coterie.machines.cluster_metadata import NO_NODE, TRANSACTION
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.transactions.describe_producers import (
    DescribeProducersPartitionResponse,
    DescribeProducersRequest,
    DescribeProducersTopicRequest,
)
from coterie.wire.messages.transactions.describe_transactions import DescribedTransaction, DescribeTransactionsRequest
from coterie.wire.messages.transactions.init_producer_id import InitProducerIdRequest
from coterie.wire.messages.transactions.list_transactions import ListTransactionsRequest
from coterie.wire.messages.transactions.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

R = TypeVar("R")


class TransactionCalls:
    """Of `Admin`."""

    _cluster: Cluster

    @repeated
    async def list_transactions(
        self,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        *,
        duration_ms: int = -1,
        pattern: str | None = None,
        errors: dict[Node, KafkaError] | None = None,
    ) -> list[TransactionListing]:
        """The transactional ids that every coordinator knows, by name: all, or those in one of ``states``
        (`TransactionState`, or its text), of these producer ids, open for longer than ``duration_ms`` (Kafka 3.8), whose name
        as a whole matches ``pattern`` (RE2; Kafka 4.1). ``errors`` as in `list_groups`.

        >>> await admin.list_transactions()
        []
        """
        request = ListTransactionsRequest(
            arguments.names(states, "states"),
            [arguments.integer(producer_id, "a producer id") for producer_id in producer_ids],
            arguments.integer(duration_ms, "duration_ms"),
            None if pattern is None else arguments.text(pattern, "pattern"),
        )

        async def of(node_id: int) -> list[TransactionListing]:
            response = await self._cluster.request(request, node_id)
            check(response.error_code)
            return [
                TransactionListing(t.transactional_id, t.producer_id, TransactionState(t.transaction_state))
                for t in response.transaction_states
            ]

        listed = await of_each_broker(self._cluster, of, errors)
        return sorted(transaction for of_broker in listed.values() for transaction in of_broker)

    async def describe_transactions(
        self, transactional_ids: Iterable[str], *, errors: dict[str, KafkaError] | None = None
    ) -> dict[str, TransactionDescription]:
        """Each transactional id as its coordinator has it. Raises KafkaError TRANSACTIONAL_ID_NOT_FOUND,
        TRANSACTIONAL_ID_AUTHORIZATION_FAILED of the first with one; with ``errors`` each of these is put there with its error,
        and the others are returned.

        >>> errors = {}
        >>> await admin.describe_transactions(["none"], errors=errors)
        {}
        >>> errors["none"].code
        <ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: 105>
        """

        async def one(name: str) -> TransactionDescription:
            node_id = await Coordinator(self._cluster, name, TRANSACTION).node()
            response = await self._cluster.request(DescribeTransactionsRequest([name]), node_id)
            described = only(response.transaction_states, f"transactional id {name}")
            check(described.error_code, subject=f"transactional id {name}")
            return _description(Node(node_id, *(self._cluster.address(node_id) or ("", -1))), described)

        return await self._each_id(transactional_ids, one, errors)

    @repeated
    async def describe_producers(
        self, partitions: Iterable[PartitionLike], *, errors: dict[TopicPartition, KafkaError] | None = None
    ) -> dict[TopicPartition, tuple[ActiveProducer, ...]]:
        """The producers that the log of each partition knows, by the partition's leader. Raises KafkaError
        UNKNOWN_TOPIC_OR_PARTITION of the first partition with one; ``errors`` as in `list_offsets`.

        >>> await admin.describe_producers([("orders", 1)])
        {TopicPartition(topic='orders', partition=1): ()}
        """
        wanted = arguments.partitions(partitions)
        led = await self._leaders(wanted)
        requests = {node: _of_topics(of) for node, of in led.items() if node != NO_NODE}
        responses = await asyncio.gather(*(self._cluster.request(r, node) for node, r in requests.items()))
        rows = {TopicPartition(t.name, p.partition_index): p for r in responses for t in r.topics for p in t.partitions}
        unknown = DescribeProducersPartitionResponse(-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        by_partition = {tp: rows.get(tp, unknown) for tp in wanted}
        return {tp: tuple(map(_producer, by_partition[tp].active_producers)) for tp in reported(by_partition, errors)}

    @repeated
    async def abort_transaction(
        self, partition: PartitionLike, producer_id: int, producer_epoch: int, coordinator_epoch: int
    ) -> None:
        """Ends the open transaction of a producer in one partition, whatever its coordinator has of it: for one that hangs,
        which no coordinator knows. The epochs are those of `describe_producers`. Raises KafkaError
        UNKNOWN_TOPIC_OR_PARTITION, INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED, CLUSTER_AUTHORIZATION_FAILED.

        >>> await admin.abort_transaction(("orders", 1), 7, 0, 0)
        """
        topic, index = where = arguments.topic_partition(partition)
        (node_id,) = await self._leaders([where])
        if node_id == NO_NODE:
            raise error_about(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic}-{index}")
        marker = WritableTxnMarker(
            arguments.integer(producer_id, "producer_id"),
            arguments.whole_number(producer_epoch, "producer_epoch", 0, 2**15 - 1),
            False,
            [WritableTxnMarkerTopic(topic, [index])],
            max(arguments.whole_number(coordinator_epoch, "coordinator_epoch", -1, arguments.INT32[1]), 0),
        )
        response = await self._cluster.request(WriteTxnMarkersRequest([marker]), node_id)
        for row in (p for m in response.markers for t in m.topics for p in t.partitions):
            check(row.error_code, subject=f"{topic}-{index}")

    async def fence_producers(
        self, transactional_ids: Iterable[str], *, errors: dict[str, KafkaError] | None = None
    ) -> dict[str, tuple[int, int]]:
        """Fences the producers of these transactional ids, and aborts what they have open; returns the producer id and the
        epoch after it, by transactional id. Raises KafkaError TRANSACTIONAL_ID_AUTHORIZATION_FAILED of the first with one;
        ``errors`` as in `describe_transactions`.

        >>> sorted(await admin.fence_producers(["payments-1"]))
        ['payments-1']
        """

        async def one(name: str) -> tuple[int, int]:
            node_id = await Coordinator(self._cluster, name, TRANSACTION).node()
            timeout_ms = self._cluster.settings.request_timeout_ms
            response = await self._cluster.request(InitProducerIdRequest(name, timeout_ms), node_id)
            check(response.error_code, subject=f"transactional id {name}")
            return response.producer_id, response.producer_epoch

        return await self._each_id(transactional_ids, one, errors)

    async def _each_id(
        self, transactional_ids: Iterable[str], one: Callable[[str], Awaitable[R]], errors: dict[str, KafkaError] | None
    ) -> dict[str, R]:
        """The result of ``one`` by transactional id, each repeated by itself. Raises KafkaError."""
        results: dict[str, R] = {}
        for name in dict.fromkeys(arguments.names(transactional_ids, "transactional_ids")):
            try:
                results[name] = await until_done(self._cluster, functools.partial(one, name))
            except KafkaError as error:
                if errors is None:
                    raise
                errors[name] = error
        return results

    async def _leaders(self, partitions: Iterable[TopicPartition]) -> Mapping[int, list[TopicPartition]]:
        """The partitions by their leaders, NO_NODE where there is none. Raises KafkaError, LEADER_NOT_AVAILABLE too."""
        wanted = list(partitions)
        infos = await self._cluster.refresh({topic for topic, _ in wanted})
        led: dict[int, list[TopicPartition]] = {}
        for tp in wanted:
            leaders = infos[tp.topic].leaders if tp.topic in infos else {}
            if leaders.get(tp.partition) == NO_NODE:
                raise error_about(ErrorCode.LEADER_NOT_AVAILABLE, f"{tp.topic}-{tp.partition}")
            led.setdefault(leaders.get(tp.partition, NO_NODE), []).append(tp)
        return led


def _of_topics(partitions: Iterable[TopicPartition]) -> DescribeProducersRequest:
    topics: dict[str, DescribeProducersTopicRequest] = {}
    for topic, index in partitions:
        topics.setdefault(topic, DescribeProducersTopicRequest(topic)).partition_indexes.append(index)
    return DescribeProducersRequest(list(topics.values()))


def _producer(state: Any) -> ActiveProducer:
    start = state.current_txn_start_offset
    return ActiveProducer(
        state.producer_id,
        state.producer_epoch,
        state.last_sequence,
        state.last_timestamp,
        state.coordinator_epoch,
        None if start < 0 else start,
    )


def _description(coordinator: Node, described: DescribedTransaction) -> TransactionDescription:
    start_ms = described.transaction_start_time_ms
    return TransactionDescription(
        coordinator,
        TransactionState(described.transaction_state),
        described.producer_id,
        described.producer_epoch,
        described.transaction_timeout_ms,
        None if start_ms < 0 else start_ms,
        frozenset(TopicPartition(t.topic, p) for t in described.topics for p in t.partitions),
    )
