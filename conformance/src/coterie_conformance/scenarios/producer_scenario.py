"""Scenarios of one producer (tests/spec/producer): what its user and the brokers do, and everything that follows.

== testRetries
producer-id 7 0
    ...
append t-0 a
    Produce 1 to node 1: t-0 7/0 seq=0 [a]
response 1 NOT_LEADER_OR_FOLLOWER
    forget the leaders of t
    look up the leaders of t

Lines at the margin are inputs; below each are the effects that the driver is to carry out. Every append is one batch, unless
``linger_ms`` is set. `advance` lets deadlines act in their order, each at its own time. After every step the requests are
checked: a sequence number, once sent, always stands for the same records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from coterie.machines.backoff import Backoff
from coterie.producing.accumulator import ProducingConfig
from coterie.producing.batch import OpenedTransaction, ProduceFailure, ProducerBatch, TopicPartition
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
from coterie.records.batch import NO_SEQUENCE, batches
from coterie.records.decoding import decode_records
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.logs.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from coterie_conformance.scenarios.groups.scenario import ScenarioError, run_step

RECORD_BYTES = 100
KIP_580 = ("retry_backoff_ms", "retry_backoff_max_ms")
Options = dict[str, str]


class ProducerScenario:
    """One producer and its virtual time. ``config`` comes before everything else: fields of `ProducingConfig`, and the two
    settings of the pauses, which have no jitter here."""

    machine: ProducerMachine

    def __init__(self) -> None:
        self.now_ms = 0.0
        self.trace: list[str] = []
        self._prefix = ""
        self._leaders: dict[TopicPartition, int] = {}
        self._epochs: dict[TopicPartition, int] = {}
        self.requests: dict[int, SendProduce] = {}  # by token, those without a response
        self._numbered: dict[tuple[TopicPartition, int, int, int], list[str]] = {}
        self.begin({})
        self.verbs: dict[str, Callable[[list[str], Options], None]] = {
            "config": lambda _, options: self.begin(options),
            "leaders": lambda words, _: self._lead(words),
            "append": self._append,
            "flush": lambda *_: self.machine.flush(),
            "close": self._close,
            "response": self._response,
            "disconnect": lambda words, _: self._lose(words[0], ErrorCode.NETWORK_EXCEPTION),
            "timeout": lambda words, _: self._lose(words[0], ErrorCode.REQUEST_TIMED_OUT),
            "written": lambda words, _: self.machine.sent(self._returned(words[0]).token, self.now_ms),
            "metadata": self._metadata,
            "producer-id": self._producer_id,
            "advance": self._advance,
            "deadline": self._deadline,
            "state": self._state,
        }

    def begin(self, options: Options) -> None:
        """Makes the machine with these settings."""
        self.machine = self.made(options, None)

    def made(self, options: Options, transaction: OpenedTransaction | None) -> ProducerMachine:
        """A machine with these settings. Raises ScenarioError."""
        named = dict(options)
        pauses = [int(named.pop(name)) for name in KIP_580 if name in named]
        known = {name: type(getattr(ProducingConfig(), name)) for name in ProducingConfig.__dataclass_fields__}
        if not named.keys() <= known.keys():
            raise ScenarioError(f"there is no setting {', '.join(sorted(named.keys() - known.keys()))}")
        values = {name: value == "yes" if known[name] is bool else int(value) for name, value in named.items()}
        given: dict[str, Any] = {"linger_ms": 0, "backoff": Backoff(*pauses)} | values
        return ProducerMachine(
            ProducingConfig(**given),
            lambda *partition: self._leaders.get(partition),
            transaction=transaction,
            epoch_of=lambda *partition: self._epochs.get(partition, -1),
        )

    def step(self, line: str) -> list[str]:
        """Runs one step; returns its trace. Raises ScenarioError."""
        self.trace = []
        run_step(self.verbs, line)
        self.settle()
        return self.trace

    def add_line(self, line: str) -> None:
        """A line of the trace, with the time where the step has not its own."""
        self.trace.append(self._prefix + line)

    def settle(self) -> None:
        """Everything that is due now, as lines; then what must hold."""
        while effects := self.machine.next(self.now_ms):
            for effect in effects:
                self.carry_out(effect)
        self._check()

    def carry_out(self, effect: Effect) -> None:
        """Writes it down; leaders are forgotten at once, everything else waits for a step."""
        match effect:
            case SendProduce(token, node_id, request):
                self.requests[token] = effect
                self.add_line(f"Produce {token} to node {node_id}: " + "; ".join(self._batch_texts(request)))
            case LookUpLeaders(topics):
                self.add_line(f"look up the leaders of {', '.join(sorted(topics))}")
            case ForgetLeaders(topic):
                self.add_line(f"forget the leaders of {topic}")
                self._leaders = {at: node for at, node in self._leaders.items() if at[0] != topic}
            case GetProducerId():
                self.add_line("InitProducerId")
            case AddPartitions(partitions):
                self.add_partitions(partitions)
            case BatchEnded(batch):
                self.ended(batch)

    def add_partitions(self, partitions: frozenset[TopicPartition]) -> None:
        """The machine's effect, of a producer with transactions."""
        raise AssertionError("this producer has no transaction")

    def ended(self, batch: ProducerBatch) -> None:
        """Writes down what became of its records."""
        for line in _result_texts(batch):
            self.add_line(line)

    def due_ms(self) -> float | None:
        """When something is due without an input."""
        return self.machine.next_deadline_ms()

    # -- the user -----------------------------------------------------------------------------------------------------

    def _append(self, words: list[str], options: Options) -> None:
        """``append t-0 a b``: records with these values; ``size=5000`` bytes each."""
        partition, size = _partition(words[0]), int(options.get("size", RECORD_BYTES))
        for value in words[1:]:
            self.machine.append(partition, (0, None, value.encode(), ()), size, self.now_ms)

    def _close(self, words: list[str], options: Options) -> None:
        """Everything fails, as where the producer is closed without patience."""
        for effect in self.machine.fail(ProduceFailure(ErrorCode.REQUEST_TIMED_OUT, "the producer was closed")):
            self.carry_out(effect)

    # -- the brokers --------------------------------------------------------------------------------------------------

    def _lead(self, words: Iterable[str]) -> None:
        """``t-0:1`` or ``t-0:1@5``: the leader's node id, and its epoch."""
        for word in words:
            name, _, leader = word.rpartition(":")
            node_id, _, epoch = leader.partition("@")
            self._leaders[_partition(name)] = int(node_id)
            if epoch:
                self._epochs[_partition(name)] = int(epoch)

    def _metadata(self, words: list[str], options: Options) -> None:
        """The end of a look-up: ``metadata t-0:2@5``, and for a topic without leaders ``t=CODE``."""
        self._lead(words)
        errors = {topic: ProduceFailure.of_code(ErrorCode[code]) for topic, code in options.items()}
        self.machine.leaders_looked_up(errors, self.now_ms, 0.0)

    def _producer_id(self, words: list[str], options: Options) -> None:
        """``producer-id 7 0``: with its epoch; or the code of an error."""
        if words[0].isupper():
            self.machine.not_identified(ProduceFailure.of_code(ErrorCode[words[0]]), self.now_ms, 0.0)
        else:
            self.machine.identified((int(words[0]), int(words[1])), self.now_ms)

    def _returned(self, word: str) -> SendProduce:
        if int(word) not in self.requests:
            raise ScenarioError(f"there is no request {word} without a response")
        return self.requests.pop(int(word))

    def _lose(self, word: str, code: ErrorCode) -> None:
        failure = ProduceFailure.of_code(code)
        self.machine.request_failed(self._returned(word).token, failure, self.now_ms, 0.0)

    def _response(self, words: list[str], options: Options) -> None:
        """``response 1 NONE offset=10``, of all partitions; ``t-1=CODE``: of that one. ``log_start``, ``message``,
        ``refused=0,2`` the numbers of records, ``leader=2@5`` where another node leads (KIP-951)."""
        sent = self._returned(words[0])
        response = ProduceResponse()
        for topic in sent.request.topic_data:
            of_topic = TopicProduceResponse(topic.name)
            for data in topic.partition_data:
                code = ErrorCode[options.get(f"{topic.name}-{data.index}", words[1])]
                of_partition = PartitionProduceResponse(data.index, code, -1 if code else int(options["offset"]))
                of_partition.log_start_offset = int(options.get("log_start", -1))
                of_partition.error_message = options.get("message")
                refused = options.get("refused", "").split(",")
                of_partition.record_errors = [BatchIndexAndErrorMessage(int(n), None) for n in refused if n]
                if code and "leader" in options:
                    node_id, _, epoch = options["leader"].partition("@")
                    leader = of_partition.current_leader
                    leader.leader_id, leader.leader_epoch = int(node_id), int(epoch)
                of_topic.partition_responses.append(of_partition)
            response.responses.append(of_topic)
        for partition, (leader_id, leader_epoch) in new_leaders(response)[0].items():
            self._leaders[partition], self._epochs[partition] = leader_id, leader_epoch
        self.machine.produced(sent.token, response, self.now_ms, 0.0)

    # -- time ---------------------------------------------------------------------------------------------------------

    def _advance(self, words: list[str], options: Options) -> None:
        until_ms = self.now_ms + int(words[0])
        while (due_ms := self.due_ms()) is not None and due_ms <= until_ms:
            self.now_ms = max(due_ms, self.now_ms)
            self._prefix = f"@{self.now_ms:g} "
            self.settle()
        self.now_ms, self._prefix = until_ms, ""

    def _deadline(self, words: list[str], options: Options) -> None:
        due_ms = self.due_ms()
        self.add_line("no deadline" if due_ms is None else f"due at {due_ms:g}")

    def _state(self, words: list[str], options: Options) -> None:
        for (topic, partition), queue in sorted(self.machine.accumulator.queues.items()):
            sequence = queue.sequence
            self.add_line(
                f"{topic}-{partition}: {_identity(*sequence.producer)} next={sequence.next} "
                f"batches={len(queue.batches)} in flight={queue.in_flight}"
            )

    # -- what must hold -----------------------------------------------------------------------------------------------

    def _check(self) -> None:
        accumulator, config = self.machine.accumulator, self.machine.config
        waiting = [batch for queue in accumulator.queues.values() for batch in queue.batches]
        assert accumulator.buffered_bytes == sum(batch.size for batch in waiting), "what has ended is still counted"
        nodes = list(self.machine.requests_in_flight().values())
        assert all(nodes.count(node) <= config.max_in_flight for node in nodes), "more in flight than allowed"

    def _batch_texts(self, request: ProduceRequest) -> list[str]:
        """Each batch with its producer id and epoch, its first number and its values."""
        texts = []
        for topic in request.topic_data:
            for data in topic.partition_data:
                records = data.records or b""
                for position, header in batches(records):
                    values = [(r.value or b"").decode() for r in decode_records(records, position, header)]
                    partition, first = (topic.name, data.index), header.base_sequence
                    self.numbered(partition, header.producer_id, header.producer_epoch, first, values)
                    number = "" if first == NO_SEQUENCE else f" {_identity(header.producer_id, header.producer_epoch)}"
                    number += "" if first == NO_SEQUENCE else f" seq={first}"
                    texts.append(f"{topic.name}-{data.index}{number} [{' '.join(values)}]")
        return texts

    def numbered(self, partition: TopicPartition, producer_id: int, epoch: int, first: int, values: list[str]) -> None:
        """Raises AssertionError where a record goes out under a number that another record has."""
        if first == NO_SEQUENCE:
            return
        for offset, value in enumerate(values):
            before = self._numbered.setdefault((partition, producer_id, epoch, first + offset), [value])
            assert before == [value], f"{partition} {producer_id}/{epoch}: {first + offset} is {before} and {value}"


def _identity(producer_id: int, epoch: int) -> str:
    return "-" if producer_id < 0 else f"{producer_id}/{epoch}"


def _partition(word: str) -> TopicPartition:
    topic, _, index = word.rpartition("-")
    return topic, int(index)


def _result_texts(batch: ProducerBatch) -> list[str]:
    """One line for the whole batch where its records have one result, else a line for each."""
    topic, index = batch.partition
    values = [(item[2] or b"").decode() for item in batch.items]
    results = [batch.result_of(n) for n in range(len(values))]
    first = results[0]
    if len(batch.results) == 1 and (not isinstance(first, ProduceFailure) or all(r == first for r in results)):
        return [f"{topic}-{index} [{' '.join(values)}] {_result_text(first)}"]
    return [f"{topic}-{index} [{value}] {_result_text(result)}" for value, result in zip(values, results, strict=True)]


def _result_text(result: tuple[int, int] | ProduceFailure) -> str:
    if isinstance(result, ProduceFailure):
        return f"failed: {result.code.name}" + (f", {result.message}" if result.message else "")
    return f"is at {result[0]}" if result[0] >= 0 else "is in the log"
