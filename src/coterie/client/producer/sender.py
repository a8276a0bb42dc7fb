"""A producer's machine (`coterie.producing`) on an event loop: its effects become requests and ends of batches. No error
ends the sending: what goes wrong fails the batches that it is about."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Callable, Coroutine
from typing import Any

from coterie.client.connection.cluster import DATA, Cluster
from coterie.client.connection.connection import Connection
from coterie.client.errors import KafkaError, check
from coterie.client.pauses import clock
from coterie.client.pauses.retrying import backoff_of
from coterie.client.producer.delivery import BatchEnd, error_of_failure, failure_of
from coterie.client.producer.transactions import TransactionManager
from coterie.client.types import TopicPartition
from coterie.producing.accumulator import FOREVER_MS, BatchClosed, ProducingConfig
from coterie.producing.batch import ABORTED, Acknowledged, ProduceFailure, ProducerBatch, is_unsent
from coterie.producing.machine import ProducerMachine
from coterie.producing.requests import (
    AddPartitions,
    BatchEnded,
    Effect,
    ForgetLeaders,
    GetProducerId,
    LookUpLeaders,
    SendProduce,
    new_leaders,
)
from coterie.producing.transactions.requests import PRODUCE_OF_VERSION_1
from coterie.records.compression import CODEC_BY_NAME
from coterie.wire import topic_names
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.logs.produce import ProduceRequest, ProduceResponse
from coterie.wire.messages.transactions.init_producer_id import InitProducerIdRequest

ZSTD_FROM = 7
END_S = 1.0  # in which cancelled tasks must end


class Sender:
    """Drives a `ProducerMachine` over the cluster's connections. ``batch_closed`` as `Accumulator` calls it."""

    def __init__(
        self,
        cluster: Cluster,
        acks: int,
        idempotent: bool,
        transactions: TransactionManager | None,
        batch_closed: BatchClosed,
    ) -> None:
        self._cluster, self._settings, self._transactions = cluster, cluster.settings, transactions
        settings = self._settings
        self.config = ProducingConfig(
            acks=acks,
            is_idempotent=idempotent,
            batch_size=settings.batch_size,
            linger_ms=settings.linger_ms,
            buffer_memory=settings.buffer_memory,
            delivery_timeout_ms=settings.delivery_timeout_ms,
            request_timeout_ms=settings.request_timeout_ms,
            max_request_size=settings.max_request_size,
            max_in_flight=settings.max_in_flight_requests_per_connection,
            backoff=backoff_of(settings),
            codec=CODEC_BY_NAME[settings.compression_type],
        )
        self._transaction = None if transactions is None else transactions.view()
        self.machine = ProducerMachine(
            self.config,
            cluster.known.leader,
            batch_closed,
            self._transaction,
            cluster.known.leader_epoch,
        )
        self.accumulator = self.machine.accumulator
        self.ends: dict[ProducerBatch, BatchEnd] = {}  # of the batches without an end
        self._room = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due_ms = FOREVER_MS
        self._is_awake = False
        self._closed = False  # no more records; what is there is still sent, and repeated, until it is over
        self._is_over = False
        self._flushed: Callable[[], None] | None = None  # called once no batch is without an end
        self._tasks: set[asyncio.Task[None]] = set()

    # -- records ------------------------------------------------------------------------------------------------------

    def begun(self, batch: ProducerBatch) -> BatchEnd:
        """Follows a batch that has its first record, by `Accumulator.append`."""
        end = self.ends[batch] = BatchEnd()
        self._wake()
        return end

    async def until_room(self, size: int) -> None:
        """Waits for room in buffer.memory, max.block.ms at most. Raises KafkaError."""
        block_ms = self._settings.max_block_ms
        if size > self.config.buffer_memory:
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, f"a record of {size} bytes; buffer.memory is less")
        try:
            async with asyncio.timeout(block_ms / 1000):
                while not self.accumulator.has_room(size) and not self._closed:
                    self._room.clear()
                    self.machine.flush()  # no batch waits for more records while there is no room for them
                    self._wake()
                    await self._room.wait()
        except TimeoutError:
            text = f"buffer.memory had no room for the record within max.block.ms={block_ms}"
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, text) from None

    # -- the machine --------------------------------------------------------------------------------------------------

    def _wake(self) -> None:
        """Runs the machine at the next turn of the loop."""
        if not self._is_awake:
            self._is_awake = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self._run(clock.now_ms())

    def _run(self, now_ms: float, take_in: Callable[..., None] | None = None, *arguments: Any) -> None:
        """An input, its method first, or none; then what follows of it, and when to come again."""
        self._is_awake = False
        if self._is_over:
            return
        machine = self.machine
        try:
            if take_in is not None:
                take_in(*arguments)
            while effects := machine.next(now_ms):
                for effect in effects:
                    self._carry_out(effect)
            due_ms = machine.next_deadline_ms()
        except Exception as error:
            for effect in machine.fail(failure_of(error), lambda batch: not batch.is_in_flight):
                self._carry_out(effect)
            due_ms = None
        # A timer that is set for earlier stays, and looks again then: most batches end long before their deadline.
        if due_ms is not None and due_ms < self._timer_due_ms:
            self._come_again(due_ms)

    def _come_again(self, due_ms: float) -> None:
        if self._is_over:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_due_ms = due_ms
        self._timer = asyncio.get_running_loop().call_at(due_ms / 1000, self._fire)

    def _fire(self) -> None:
        self._timer, self._timer_due_ms = None, FOREVER_MS
        self._turn()

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case SendProduce():
                self._send(effect)
            case BatchEnded(batch):
                self._ended(batch)
            case ForgetLeaders(topic):
                self._cluster.forget(topic)
            case LookUpLeaders(topics):
                self._task(self._look_up_leaders(topics))
            case GetProducerId():
                self._task(self._get_producer_id())
            case AddPartitions(partitions):
                self._task(self._add_partitions(partitions))

    def _task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _ended(self, batch: ProducerBatch) -> None:
        self._room.set()
        if self._transactions is not None:
            for _, result in batch.results:
                if isinstance(result, ProduceFailure) and not result.is_of_transaction:
                    self._transactions.failed(error_of_failure(result))
        first = batch.results[0][1]
        is_of_all = len(batch.results) == 1
        self.ends.pop(batch).reach(first if is_of_all and isinstance(first, Acknowledged) else None)
        if self._flushed is not None and not self.ends:
            self._flushed()
            self._flushed = None

    # -- requests -----------------------------------------------------------------------------------------------------

    def _send(self, effect: SendProduce) -> None:
        """At once where there is a connection, which spares a task."""
        connection = self._cluster.open_connection(effect.node_id, DATA)
        if connection is None:
            self._task(self._connect_and_send(effect))
        else:
            self._send_on(connection, effect)

    async def _connect_and_send(self, effect: SendProduce) -> None:
        try:
            connection = await self._cluster.connection(effect.node_id)
        except Exception as error:
            self._failed(effect.token, error)
        else:
            self._send_on(connection, effect)

    def _send_on(self, connection: Connection, effect: SendProduce) -> None:
        """The machine gets the result in a later turn of the loop, as it may be running now."""
        token, loop = effect.token, asyncio.get_running_loop()
        try:
            version = connection.version_of(ProduceRequest, self._highest())
            self._check_codec(version)
            if self.config.acks == 0:
                connection.tell(effect.request)
                loop.call_soon(self._sent, token)
            else:
                responded = functools.partial(self._responded, connection, token, version)
                failed = functools.partial(self._failed, token)
                connection.begin(effect.request, version, self._cluster.timeout_s, responded, failed)
        except Exception as error:
            loop.call_soon(self._failed, token, error)

    def _sent(self, token: int) -> None:
        now_ms = clock.now_ms()
        self._run(now_ms, self.machine.sent, token, now_ms)

    def _responded(self, connection: Connection, token: int, version: int, frame: bytes) -> None:
        try:
            response = connection.decoded(ProduceResponse, frame, version)
        except Exception as error:
            self._failed(token, error)
        else:
            for topic in response.responses:
                codes = [(partition.index, partition.error_code) for partition in topic.partition_responses]
                self._cluster.waits.responded_each("the acknowledgement of", topic.name, codes)
            leaders, addresses = new_leaders(response)
            if leaders:
                self._cluster.known.leaders_received(leaders, addresses)
            now_ms = clock.now_ms()
            self._run(now_ms, self.machine.produced, token, response, now_ms, clock.jitter())

    def _failed(self, token: int, error: Exception) -> None:
        now_ms = clock.now_ms()
        self._run(now_ms, self.machine.request_failed, token, failure_of(error), now_ms, clock.jitter())

    def _highest(self) -> int:
        """The newest version of Produce that has topics by name and implies no newer transaction than the open one."""
        of_version_1 = self._transactions is not None and not self._transactions.bumps_epoch
        return PRODUCE_OF_VERSION_1 if of_version_1 else topic_names.PRODUCE

    def _check_codec(self, version: int) -> None:
        """An older broker would store what its consumers cannot read (KIP-110). Raises KafkaError."""
        if self._settings.compression_type == "zstd" and version < ZSTD_FROM:
            text = "zstd needs Produce version 7, which Apache Kafka has from 2.1 on"
            raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, text)

    async def _look_up_leaders(self, topics: frozenset[str]) -> None:
        errors = {t: failure_of(KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"topic {t}")) for t in topics}
        try:
            for name, info in (await self._cluster.refresh(topics)).items():
                code = info.error or ErrorCode.LEADER_NOT_AVAILABLE
                errors[name] = failure_of(KafkaError(code, f"topic {name}"))
        except Exception as error:
            errors = dict.fromkeys(topics, failure_of(error))
        now_ms = clock.now_ms()
        self._run(now_ms, self.machine.leaders_looked_up, errors, now_ms, clock.jitter())

    async def _get_producer_id(self) -> None:
        try:
            response = await self._cluster.request(InitProducerIdRequest(None, 0))
            check(response.error_code)
        except Exception as error:
            now_ms = clock.now_ms()
            self._run(now_ms, self.machine.not_identified, failure_of(error), now_ms, clock.jitter())
        else:
            now_ms, producer = clock.now_ms(), (response.producer_id, response.producer_epoch)
            self._run(now_ms, self.machine.identified, producer, now_ms)

    async def _add_partitions(self, partitions: frozenset[tuple[str, int]]) -> None:
        assert self._transactions is not None
        try:
            await self._transactions.add([TopicPartition(*p) for p in partitions])
        except Exception as error:
            now_ms = clock.now_ms()
            self._run(now_ms, self.machine.partitions_refused, failure_of(error), now_ms, clock.jitter())
        else:
            self._run(clock.now_ms(), self.machine.partitions_added)

    # -- ending -------------------------------------------------------------------------------------------------------

    def abort_unsent(self) -> None:
        """Fails what was not sent yet, with the transaction's failure where it has one: the transaction is aborted. What was
        sent before is repeated until it has a result."""
        failure = None if self._transaction is None else self._transaction.failure
        for effect in self.machine.fail(failure or ABORTED, is_unsent):
            self._carry_out(effect)

    async def flush(self) -> None:
        """Returns once everything appended so far is acknowledged or has failed."""
        self.machine.flush()
        self._turn()
        for end in list(self.ends.values()):
            await end
        await asyncio.sleep(0)  # so that callbacks of deliveries have run

    def flush_then(self, flushed: Callable[[], None]) -> None:
        """Calls it once everything is acknowledged or has failed; no record is appended before that."""
        self.machine.flush()
        self._turn()
        if self.ends:
            self._flushed = flushed
        else:
            flushed()

    async def close(self, timeout_s: float) -> None:
        """Flushes within that time; what is left then fails with REQUEST_TIMED_OUT."""
        self._closed = True
        self._room.set()
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self.flush()
        finally:
            self._is_over = True
            if self._timer is not None:
                self._timer.cancel()
            text = "the producer was closed before the record was acknowledged"
            for effect in self.machine.fail(ProduceFailure(ErrorCode.REQUEST_TIMED_OUT, text)):
                self._carry_out(effect)
            for task in self._tasks:
                task.cancel()
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=END_S)
