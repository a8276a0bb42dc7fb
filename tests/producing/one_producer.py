"""A producer's machine with a clock, leaders and responses that a test sets by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coterie.machines.backoff import Backoff
from coterie.producing.accumulator import ProducingConfig
from coterie.producing.batch import ProduceFailure, ProducerBatch
from coterie.producing.machine import ProducerMachine
from coterie.producing.requests import (
    AddPartitions,
    BatchEnded,
    Effect,
    ForgetLeaders,
    GetProducerId,
    LookUpLeaders,
    SendProduce,
)
from coterie.records.batch import batches
from coterie.records.decoding import decode_records
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.logs.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)

RECORD_BYTES = 100
PAUSE_MS = 10
NETWORK = ProduceFailure.of_code(ErrorCode.NETWORK_EXCEPTION)


class Transaction:
    """A transaction that has the partitions that the test names, and fails when the test says so."""

    transactional_id = "mover"

    def __init__(self) -> None:
        self.producer = (7, 0)
        self.partitions: set[tuple[str, int]] = set()
        self.failure: ProduceFailure | None = None
        self.fails_with_a_batch = False

    def has(self, partition: tuple[str, int]) -> bool:
        return partition in self.partitions


class OneProducer:
    """``sent`` are the requests that have no response yet, oldest first; ``ended`` the batches at their end."""

    def __init__(self, transaction: Transaction | None = None, **config: Any) -> None:
        given: dict[str, Any] = {"linger_ms": 0, "backoff": Backoff(PAUSE_MS, PAUSE_MS)} | config
        self.now_ms = 0.0
        self.leaders: dict[tuple[str, int], int] = {("t", 0): 1, ("t", 1): 1, ("u", 0): 2}
        self.forgotten: list[str] = []
        self.epochs: dict[tuple[str, int], int] = {}
        self.closed: list[tuple[str, int]] = []
        self.transaction = transaction
        self.machine = ProducerMachine(
            ProducingConfig(**given),
            lambda *p: self.leaders.get(p),
            lambda *p: self.closed.append(p),
            transaction,
            lambda *p: self.epochs.get(p, -1),
        )
        self.sent: list[SendProduce] = []
        self.requested: list[Effect] = []
        self.ended: list[ProducerBatch] = []
        self.ids = iter(range(1, 100))
        self.identifies = True

    def append(
        self, value: bytes = b"v", partition: int = 0, topic: str = "t", size: int = RECORD_BYTES
    ) -> tuple[ProducerBatch, int]:
        return self.machine.append((topic, partition), (0, None, value, ()), size, self.now_ms)

    def run(self) -> None:
        """Carries out what is due now."""
        while effects := self.machine.next(self.now_ms):
            for effect in effects:
                self._carry_out(effect)

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case SendProduce():
                self.sent.append(effect)
            case GetProducerId() if self.identifies:
                self.machine.identified((next(self.ids), 0), self.now_ms)
            case AddPartitions() if self.transaction is not None:
                self.requested.append(effect)
            case GetProducerId() | LookUpLeaders():
                self.requested.append(effect)
            case ForgetLeaders():
                self.forgotten.append(effect.topic)
            case BatchEnded():
                self.ended.append(effect.batch)
                result = effect.batch.results[0][1]
                if self.transaction and self.transaction.fails_with_a_batch and isinstance(result, ProduceFailure):
                    self.transaction.failure = result

    def send(self, *values: bytes, partition: int = 0) -> None:
        """Each value in a batch of its own."""
        for value in values:
            self.append(value, partition)
            self.run()

    def wait(self, ms: float = PAUSE_MS) -> None:
        self.now_ms += ms
        self.run()

    def respond(
        self,
        code: ErrorCode = ErrorCode.NONE,
        offset: int = -1,
        *,
        number: int = 0,
        log_start_offset: int = -1,
        message: str | None = None,
        record_errors: Mapping[int, str | None] | None = None,
        codes: Mapping[int, ErrorCode] | None = None,
    ) -> None:
        """Of all partitions of a request, by default of the oldest; ``codes``: of some partitions."""
        effect = self.sent.pop(number)
        response = ProduceResponse()
        for topic in effect.request.topic_data:
            of_topic = TopicProduceResponse(topic.name)
            for data in topic.partition_data:
                result = PartitionProduceResponse(data.index, (codes or {}).get(data.index, code), offset)
                result.log_start_offset = log_start_offset
                result.error_message = message
                result.record_errors = [BatchIndexAndErrorMessage(i, m) for i, m in (record_errors or {}).items()]
                of_topic.partition_responses.append(result)
            response.responses.append(of_topic)
        self.machine.produced(effect.token, response, self.now_ms, 0.0)
        self.run()

    def lose(self, number: int = 0, failure: ProduceFailure = NETWORK) -> None:
        """No response comes to a request."""
        self.machine.request_failed(self.sent.pop(number).token, failure, self.now_ms, 0.0)
        self.run()

    def batches_of(self, number: int = -1) -> list[tuple[str, int, int, int, int, list[bytes | None]]]:
        """Of a request: topic, partition, producer id, epoch, sequence, values."""
        listed = []
        for topic in self.sent[number].request.topic_data:
            for data in topic.partition_data:
                records = data.records or b""
                for position, header in batches(records):
                    values = [r.value for r in decode_records(records, position, header)]
                    numbers = header.producer_id, header.producer_epoch, header.base_sequence
                    listed.append((topic.name, data.index, *numbers, values))
        return listed

    def numbers(self) -> list[tuple[int, int, list[bytes | None]]]:
        """Epoch, sequence and values of what is in flight, each request with one batch."""
        return [
            (epoch, sequence, values)
            for n in range(len(self.sent))
            for *_, epoch, sequence, values in self.batches_of(n)
        ]

    def results(self) -> list[Any]:
        """Of the records of what has ended, in order: the offset, or the error's name."""
        listed: list[Any] = []
        for batch in self.ended:
            for index in range(len(batch.items)):
                result = batch.result_of(index)
                listed.append(result.code.name if isinstance(result, ProduceFailure) else result[0])
        return listed
