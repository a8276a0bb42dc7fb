"""The sink: a DataFrame's rows as records. Columns as in Spark's Kafka sink: value, and optionally key, topic, partition,
headers.

At least once by default: each task writes as an idempotent producer, and a task that is run again writes its rows again.
With `exactlyOnce`: each task writes within a transaction of its own (one transactional id per query and task), which the
driver ends when every task has succeeded; readers of committed records see all of a batch or, while its transactions are
being ended, a growing part of it, and never a row twice. A batch that Spark runs again after a crash is recognised by its
id, which each transaction commits beside its records, as the offset of the group `coterie-sink-QUERY-TASK`.

A task that Spark has killed may go on for a while, and would begin a transaction without an end. So a write that fails
is first marked as aborted, by an offset of the group `coterie-sink-WRITE-aborted`, then every transactional id is taken
over. A task reads the mark after it has taken its id over: one that was earlier than the driver is fenced, one that is
later sees the mark.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from coterie.client.admin.calls import until_done
from coterie.client.connection.cluster import Cluster, Coordinator
from coterie.client.errors import KafkaError
from coterie.client.offsets.offsets import commit_offsets, committed_offsets
from coterie.client.producer.column_sender import ColumnSender, RecordColumns
from coterie.client.producer.producer import Producer
from coterie.client.producer.transactions import OpenTransaction
from coterie.client.settings.settings import client_settings
from coterie.client.types import ConsumerGroupMetadata, OffsetAndMetadata
from coterie.configuration.value_types import INT
from coterie.consuming.committed_offsets import PendingOffsets
from coterie.pipeline import sentences
from coterie.pipeline.options.options import SinkOptions, sink_options, warn
from coterie.pipeline.options.types import OptionError
from coterie.records.arrow_arrays import blobs_of, numbers_of, valid_of
from coterie.records.batch import Header

# Larger batches than a client's own default: a task writes as fast as it can and then ends.
_DEFAULTS = {"batch.size": "500000", "linger.ms": "20", "client.id": "coterie-spark-sink"}
_ANY_TOPIC = "__consumer_offsets"  # an offset needs a topic that exists, and rows may name theirs themselves
TRANSACTION_TIMEOUT_MS = "900000"  # the default of transaction.max.timeout.ms at the broker
# The allowed types of a column, as Spark's simpleString; other columns are left out, as in Spark's Kafka sink (KafkaWriter).
_COLUMNS = {
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "topic": ("string",),
    "partition": ("int",),
    "headers": ("array<struct<key:string,value:binary>>",),
}


class WriteAborted(Exception):
    """The write has failed while this task was starting; the task has written nothing."""


@dataclass
class Written(WriterCommitMessage):
    """A task's result; ``left``: its transaction, for the driver to end."""

    records: int
    left: OpenTransaction | None = None


@dataclass(frozen=True, slots=True)
class SinkTarget:
    """The target of a write and its columns; plain data that travels to the tasks."""

    client: dict[str, str] = field(repr=False)
    topic: str | None
    columns: tuple[str, ...]  # the columns that become part of a record
    exactly_once: bool
    write_id: str  # of this run of the write; stands for the query in a batch write, which has no id of its own

    @property
    def aborted_group(self) -> str:
        """The group whose offset marks the write as aborted."""
        return f"coterie-sink-{self.write_id}-aborted"

    def producer_settings(self, transactional_id: str | None = None) -> dict[str, str]:
        """Settings by name; with a transactional id those of a producer of one task."""
        settings = _DEFAULTS | _waits(self.client) | {n: v for n, v in self.client.items() if n != "group.id"}
        if transactional_id is None:
            return settings
        return {"transaction.timeout.ms": TRANSACTION_TIMEOUT_MS, **settings, "transactional.id": transactional_id}


@dataclass(frozen=True, slots=True)
class TaskId:
    """A task of a write; ``batch_id`` -1 for a batch write."""

    query_id: str
    batch_id: int
    task: int

    @property
    def name(self) -> str:
        """The transactional id of the task: the same in each attempt, so that an attempt fences the one before."""
        return f"coterie-sink-{self.query_id}-{self.task}"


def _waits(client: Mapping[str, str]) -> dict[str, str]:
    """What a record waits for before it is in a batch ends by delivery.timeout.ms too, where that is given: a task has nothing
    else to do meanwhile."""
    limit_ms = client.get("delivery.timeout.ms")
    if limit_ms is None:
        return {}
    by_default = client_settings({})
    waits = {"max.block.ms": by_default.max_block_ms, "default.api.timeout.ms": by_default.default_api_timeout_ms}
    return {name: str(min(INT.parse(limit_ms), wait_ms)) for name, wait_ms in waits.items()}


def target(options: SinkOptions, schema: StructType) -> SinkTarget:
    """Raises OptionError."""
    columns = {f.name: f.dataType.simpleString() for f in schema.fields if f.name in _COLUMNS}
    if "value" not in columns:
        raise OptionError("the coterie sink needs a column named value (binary or string)")
    if options.topic is not None:
        columns.pop("topic", None)  # the option wins
    elif "topic" not in columns:
        raise OptionError("say where the rows go: give the option topic, or a column topic")
    for name, kind in columns.items():
        if kind not in _COLUMNS[name]:
            raise OptionError(f"the column {name} is {kind}, and must be {' or '.join(_COLUMNS[name])}: cast it")
    return SinkTarget(options.client, options.topic, tuple(columns), options.exactly_once, uuid.uuid4().hex)


def _task_id(write_id: str) -> TaskId:
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None, "a task has a context"
    query_id = context.getLocalProperty("sql.streaming.queryId")
    batch_id = context.getLocalProperty("streaming.sql.batchId")
    if query_id is None or batch_id is None:
        return TaskId(write_id, -1, context.partitionId())
    return TaskId(query_id, int(batch_id), context.partitionId())


async def write_rows(to: SinkTarget, batches: Iterator[Any]) -> Written:
    """All rows of the task, at least once. Raises KafkaError, OptionError."""
    async with Producer(to.producer_settings()) as producer:
        return Written(await _send_all(producer, to, batches, []))


async def write_transaction(to: SinkTarget, task_id: TaskId, batches: Iterator[Any]) -> Written:
    """All rows of the task in a transaction that is left open; none, where a former run of the batch has committed it.
    Raises KafkaError, OptionError."""
    async with Producer(to.producer_settings(task_id.name)) as producer:
        await producer.init_transactions()
        async with _connected(to) as cluster:
            if await _newest_offset(cluster, to.aborted_group) is not None:
                raise WriteAborted(f"the write of task {task_id.task} was aborted before it began; nothing is written")
            recorded = await _newest_offset(cluster, task_id.name) if task_id.batch_id >= 0 else None
        if recorded is not None and recorded.offset >= task_id.batch_id:
            return Written(_the_same(recorded, task_id, sum(batch.num_rows for batch in batches)))
        producer.begin_transaction()
        topics: list[str] = []
        try:
            count = await _send_all(producer, to, batches, topics)
            if task_id.batch_id >= 0 and topics:
                group = ConsumerGroupMetadata(task_id.name)
                mark = OffsetAndMetadata(task_id.batch_id, -1, f"{count} rows")
                await producer.send_offsets_to_transaction({(topics[0], 0): mark}, group)
            return Written(count, await producer.leave_transaction_open())
        except BaseException:
            with contextlib.suppress(KafkaError):
                await producer.abort_transaction()
            raise


@contextlib.asynccontextmanager
async def _connected(to: SinkTarget) -> AsyncIterator[Cluster]:
    cluster = Cluster(client_settings(to.producer_settings()))
    try:
        yield cluster
    finally:
        cluster.close()


async def _newest_offset(cluster: Cluster, group_id: str) -> OffsetAndMetadata | None:
    """The largest offset that was committed for the group: for a task's, its newest batch, with the number of rows."""
    coordinator = Coordinator(cluster, group_id)
    committed = await committed_offsets(coordinator, None, pending=PendingOffsets.NEVER_IGNORED)
    return max(committed.values(), key=lambda newest: newest.offset, default=None)


async def _mark_aborted(to: SinkTarget) -> None:
    """Raises KafkaError."""
    topic = to.topic or _ANY_TOPIC
    async with _connected(to) as cluster:
        await cluster.topics([topic], create=True)

        async def commit() -> None:
            node = await Coordinator(cluster, to.aborted_group).node()
            await commit_offsets(cluster, node, to.aborted_group, {(topic, 0): 0})

        await until_done(cluster, commit)


def _the_same(recorded: OffsetAndMetadata, task_id: TaskId, rows: int) -> int:
    """Raises OptionError where the former run had other rows, so that the missing ones are unknown."""
    if recorded.offset == task_id.batch_id and recorded.metadata != f"{rows} rows":
        raise OptionError(
            f"task {task_id.task} of batch {task_id.batch_id} was committed with {recorded.metadata} and has {rows} rows now: "
            "start the query again with the minPartitions and shuffle partitions that it had"
        )
    return rows


async def _send_all(producer: Producer, to: SinkTarget, batches: Iterator[Any], topics: list[str]) -> int:
    """Returns the number of rows; ``topics`` receives the first row's topic."""
    count = 0
    failures: list[KafkaError] = []
    sender = ColumnSender(producer, failures.append)
    # Spark may take longer than delivery.timeout.ms for the next rows: in a thread, so that those before are sent meanwhile.
    while (batch := await asyncio.to_thread(next, batches, None)) is not None:
        for topic, columns in by_topic(batch, to.columns, to.topic):
            topics[:] = topics or [topic]
            await sender.send(topic, columns)
        count += batch.num_rows
        if failures:
            break
    await producer.flush()
    if failures:
        raise failures[0]
    return count


async def end_transactions(to: SinkTarget, messages: Sequence[Any], *, committed: bool) -> None:
    """Ends what the tasks left open. Raises KafkaError."""
    for message in messages:
        if not isinstance(message, Written) or message.left is None:
            continue
        async with Producer(to.producer_settings(message.left.transactional_id)) as producer:
            producer.resume_transaction(message.left)
            await (producer.commit_transaction() if committed else producer.abort_transaction())


async def abort_write(to: SinkTarget, messages: Sequence[Any], query_id: str | None) -> None:
    """Aborts what the tasks of a failed write left open. ``query_id``: that of the tasks' transactional ids, which are taken
    over where Spark has no message of a task, because it was killed; None where the write is run again, which takes them
    over itself. Raises KafkaError, after everything was tried."""
    try:
        await _mark_aborted(to)
    finally:
        await end_transactions(to, messages, committed=False)
        for task, message in enumerate(messages):
            if message is None and query_id is not None:
                async with Producer(to.producer_settings(TaskId(query_id, -1, task).name)) as producer:
                    await producer.init_transactions()


class _Writer:
    """The part of both writers."""

    def __init__(self, options: dict[str, str], schema: StructType) -> None:
        parsed = sink_options(options)
        self.target, self.warnings = target(parsed, schema), parsed.warnings

    @sentences.alone()
    def write(self, iterator: Iterator[Any]) -> Written:
        if not self.target.exactly_once:
            return asyncio.run(write_rows(self.target, iterator))
        return asyncio.run(write_transaction(self.target, _task_id(self.target.write_id), iterator))

    def end(self, messages: Sequence[Any], *, committed: bool) -> None:
        if self.target.exactly_once:
            asyncio.run(end_transactions(self.target, messages, committed=committed))


class CoterieWriter(_Writer, DataSourceArrowWriter):
    """`df.write.format("coterie")`."""

    def __init__(self, options: dict[str, str], schema: StructType) -> None:
        super().__init__(options, schema)
        warn(self.warnings)

    @sentences.alone()
    def commit(self, messages: list[Any]) -> None:
        """Called once all tasks have ended: their transactions are committed."""
        self.end(messages, committed=True)

    @sentences.alone()
    def abort(self, messages: list[Any]) -> None:
        """Without exactlyOnce what was written stays."""
        if self.target.exactly_once:
            asyncio.run(abort_write(self.target, messages, self.target.write_id))


class CoterieStreamWriter(_Writer, DataSourceStreamArrowWriter):
    """`df.writeStream.format("coterie")`."""

    @sentences.alone()
    def commit(self, messages: list[Any], batchId: int) -> None:
        """Called once all tasks of the batch have ended: their transactions are committed."""
        if batchId == 0:
            warn(self.warnings)  # a writer is made again for every batch
        self.end(messages, committed=True)

    @sentences.alone()
    def abort(self, messages: list[Any], batchId: int) -> None:
        """Without exactlyOnce what was written stays, and Spark runs the batch again; with it, running it again takes the
        transactional ids of its tasks over, which aborts what a killed one left open."""
        if self.target.exactly_once:
            asyncio.run(abort_write(self.target, messages, None))


def by_topic(batch: Any, names: Sequence[str], topic: str | None) -> Iterator[tuple[str, RecordColumns]]:
    """The rows of an Arrow batch by topic, in order: all in ``topic``, or where that is None in those of the column topic.
    ``names``: the columns that become part of a record. Raises OptionError."""
    rows = _record_columns(batch, names)
    if topic is not None:
        yield topic, rows
        return
    indexes: defaultdict[str, list[int]] = defaultdict(list)
    for index, name in enumerate(batch.column("topic").to_pylist()):
        indexes[name].append(index)
    if None in indexes:
        raise OptionError("a row has no topic: give the option topic, or fill the column topic")
    for name, of_topic in indexes.items():
        yield name, rows if len(indexes) == 1 else rows.selected(of_topic)


def _record_columns(batch: Any, names: Sequence[str]) -> RecordColumns:
    keys = blobs_of(batch.column("key")) if "key" in names else None
    partitions = batch.column("partition").to_pylist() if "partition" in names else None
    headers, header_bytes = _headers(batch.column("headers")) if "headers" in names else (None, None)
    return RecordColumns(blobs_of(batch.column("value")), keys, partitions, headers, header_bytes)


def _headers(column: Any) -> tuple[list[tuple[Header, ...]], list[int]]:
    """The headers of each row, none where they are null, and their size in bytes. Raises OptionError."""
    names, values = (field.to_pylist() for field in column.values.flatten())
    if None in (distinct := set(names)):
        raise OptionError("a header has no name: fill the field key of the column headers")
    name_bytes = {name: len(name.encode()) for name in distinct}
    offsets = numbers_of(column.offsets)
    begins, ends = offsets[:-1], offsets[1:]
    if column.null_count:
        ends = ends * (valid := valid_of(column))
        begins = begins * valid
    pairs = list(zip(names, values, strict=True))
    sizes = [name_bytes[name] + len(value or b"") for name, value in pairs]
    if len(pairs) == len(column) and (ends - begins == 1).all():
        return list(zip(pairs, strict=True)), sizes
    bounds = list(zip(begins.tolist(), ends.tolist(), strict=True))
    before = [0, *accumulate(sizes)]
    return [tuple(pairs[begin:end]) for begin, end in bounds], [before[end] - before[begin] for begin, end in bounds]
