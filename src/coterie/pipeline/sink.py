"""The sink: a DataFrame's rows as records. Columns as in Spark's Kafka sink: value, and optionally key, topic, partition,
headers. At least once: a task that is run again writes its rows again; each task writes as an idempotent producer."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from coterie.client.blocking_socket import BrokerSocket
from coterie.client.errors import KafkaError, check
from coterie.client.partitioner import partition_for_key
from coterie.pipeline.options import OptionError, bootstrap
from coterie.records.batch import Header, encode_batch
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.init_producer_id import InitProducerIdRequest
from coterie.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from coterie.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

BATCH_BYTES = 500_000
PRODUCE_NAMES_UP_TO = 12
RETRIES = 10
_COLUMNS = {"key", "value", "topic", "partition", "headers"}


@dataclass
class Written(WriterCommitMessage):  # type: ignore[misc]
    """How many records a task wrote."""

    records: int


class _RecordWriter:
    """Runs in a worker: gathers records per partition and sends them as idempotent batches."""

    def __init__(self, options: dict[str, str]) -> None:
        host, port = bootstrap({k.lower(): v for k, v in options.items()})
        self._bootstrap = BrokerSocket(host, port, client_id="coterie-spark-sink")
        self._sockets: dict[tuple[str, int], BrokerSocket] = {(host, port): self._bootstrap}
        self._leaders: dict[str, dict[int, tuple[str, int]]] = {}
        self._open: dict[tuple[str, int], list[tuple[int, bytes | None, bytes | None, tuple[Header, ...]]]] = {}
        self._sizes: dict[tuple[str, int], int] = {}
        self._sequences: dict[tuple[str, int], int] = {}
        self._next = 0
        self.count = 0
        response = self._bootstrap.request(InitProducerIdRequest(None, 0))
        check(response.error_code)
        self._producer_id, self._epoch = response.producer_id, response.producer_epoch

    def _partitions(self, topic: str) -> dict[int, tuple[str, int]]:
        if topic not in self._leaders:
            for attempt in range(RETRIES):
                response = self._bootstrap.request(MetadataRequest([MetadataRequestTopic(name=topic)], True))
                (found,) = response.topics
                if not found.error_code:
                    break
                if attempt == RETRIES - 1:
                    check(found.error_code, f"topic {topic}")
                time.sleep(0.2)
            brokers = {b.node_id: (b.host, b.port) for b in response.brokers}
            self._leaders[topic] = {p.partition_index: brokers[p.leader_id] for p in found.partitions}
        return self._leaders[topic]

    def write(
        self, topic: str, key: bytes | None, value: bytes | None, partition: int | None, headers: tuple[Header, ...]
    ) -> None:
        count = len(self._partitions(topic))
        if partition is None:
            partition = self._next % count if key is None else partition_for_key(key, count)
        elif not 0 <= partition < count:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic} has partitions 0 to {count - 1}")
        where = (topic, partition)
        self._open.setdefault(where, []).append((int(time.time() * 1000), key, value, headers))
        size = self._sizes[where] = self._sizes.get(where, 0) + len(key or b"") + len(value or b"") + 20
        self.count += 1
        if size >= BATCH_BYTES:
            self._send(where)
            self._next += 1

    def flush(self) -> None:
        for where in list(self._open):
            self._send(where)

    def close(self) -> None:
        for socket in self._sockets.values():
            socket.close()

    def _send(self, where: tuple[str, int]) -> None:
        items = self._open.pop(where)
        self._sizes.pop(where, None)
        sequence = self._sequences.get(where, 0)
        self._sequences[where] = (sequence + len(items)) % 2**31
        data = encode_batch(items, producer_id=self._producer_id, producer_epoch=self._epoch, base_sequence=sequence)
        topic, partition = where
        request = ProduceRequest(
            None, -1, 30_000, [TopicProduceData(topic, partition_data=[PartitionProduceData(partition, data)])]
        )
        for attempt in range(RETRIES):
            try:
                response = self._socket(self._leaders[topic][partition]).request(request, highest=PRODUCE_NAMES_UP_TO)
                result = response.responses[0].partition_responses[0]
                check(result.error_code, result.error_message)
                return
            except KafkaError as error:
                if not error.code.retriable or attempt == RETRIES - 1:
                    raise
                self._sockets.pop(self._leaders[topic][partition], None)
                time.sleep(0.2 * (attempt + 1))

    def _socket(self, address: tuple[str, int]) -> BrokerSocket:
        if address not in self._sockets:
            self._sockets[address] = BrokerSocket(*address, client_id="coterie-spark-sink")
        return self._sockets[address]


def write_batches(options: dict[str, str], batches: Iterator[Any]) -> Written:
    """Writes all rows of the task. Raises KafkaError, OptionError."""
    topic_option = next((v for k, v in options.items() if k.lower() == "topic"), None)
    writer = _RecordWriter(options)
    try:
        for batch in batches:
            columns = {name: batch.column(name).to_pylist() for name in batch.schema.names}
            count = batch.num_rows
            nothing = [None] * count
            topics = columns.get("topic", nothing)
            keys, values = columns.get("key", nothing), columns["value"]
            partitions, headers = columns.get("partition", nothing), columns.get("headers", nothing)
            for row in range(count):
                topic = topic_option or topics[row]
                if topic is None:
                    raise OptionError("a row has no topic: give the option topic, or fill the column topic")
                told = tuple((h["key"], h["value"]) for h in headers[row] or ())
                writer.write(topic, _bytes(keys[row]), _bytes(values[row]), partitions[row], told)
        writer.flush()
        return Written(writer.count)
    finally:
        writer.close()


def _bytes(value: Any) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def _check_schema(schema: StructType) -> None:
    names = set(schema.fieldNames())
    if "value" not in names:
        raise OptionError("the coterie sink needs a column named value (binary or string)")
    if names - _COLUMNS:
        strange = sorted(names - _COLUMNS)[0]
        raise OptionError(f"the coterie sink has no column {strange}; it has {', '.join(sorted(_COLUMNS))}")


class CoterieWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """`df.write.format("coterie")`."""

    def __init__(self, options: dict[str, str], schema: StructType) -> None:
        _check_schema(schema)
        self.options = options

    def write(self, iterator: Iterator[Any]) -> Written:
        return write_batches(self.options, iterator)


class CoterieStreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """`df.writeStream.format("coterie")`."""

    def __init__(self, options: dict[str, str], schema: StructType) -> None:
        _check_schema(schema)
        self.options = options

    def write(self, iterator: Iterator[Any]) -> Written:
        return write_batches(self.options, iterator)

    def commit(self, messages: list[Any], batchId: int) -> None:
        """Nothing is left to do: what a task wrote is acknowledged before the task ends."""

    def abort(self, messages: list[Any], batchId: int) -> None:
        """What was written stays; Spark runs the batch again (at least once)."""
