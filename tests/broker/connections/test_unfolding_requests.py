"""A small request whose records unfold to much holds nobody up: they are checked or converted in a thread, in a memory that is
bounded by what unfolds."""

from __future__ import annotations

import struct
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from coterie.broker.connections.accepted_connection import AcceptedConnection
from coterie.broker.requests.message_sets import MessageSets
from coterie.broker.requests.turns import MAX_THREADS, LongWork, Turns, Work, finish
from coterie.log.aside import Outcome
from coterie.log.reading import MAX_TIMESTAMP
from coterie.records import compiled
from coterie.records.compression import GZIP, NONE, compress
from coterie.records.encoding import encode_batch
from coterie.records.message_sets import to_batch, to_message_set
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.framing import decode_response, encode_request
from coterie.wire.messages.logs.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from coterie.wire.messages.logs.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from coterie.wire.messages.logs.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tests.broker.connections.turn_meter import MeteredBroker, metered_broker
from tests.broker.frames_broker import FakeTransport
from tests.broker.process.test_kept_memory import no_records_in_cycles

R = TypeVar("R", bound=Message)
LONGEST_S = 0.100  # of the processor, for which a bystander waits
RECORDS = 200_000
FEW = 20_000  # of a memory that is measured


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[MeteredBroker]:
    with metered_broker(tmp_path) as broker:
        yield broker


@pytest.fixture
def without_compiled_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "COMPILED", False)


def old_message(offset: int, codec: int = NONE, value: bytes = b"") -> bytes:
    """Of format 1."""
    body = struct.pack(">bbqii", 1, codec, 1_000, -1, len(value)) + value
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


def old_set(count: int, codec: int = GZIP) -> bytes:
    """A message that wraps ``count`` of 34 bytes, all alike."""
    return old_message(count - 1, codec, compress(codec, old_message(0) * count))


def batch_of(count: int, codec: int) -> bytes:
    return encode_batch([(1_000, None, None, ())] * count, codec=codec)


def produce(broker: MeteredBroker, records: bytes, version: int) -> int:
    """The error."""
    data = TopicProduceData("t", partition_data=[PartitionProduceData(0, records)])
    response = _asked(broker, ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[data]), version, ProduceResponse)
    return response.responses[0].partition_responses[0].error_code


def fetch(broker: MeteredBroker, version: int) -> bytes:
    request = FetchRequest(
        max_wait_ms=0, topics=[FetchTopic("t", partitions=[FetchPartition(0, partition_max_bytes=2**20)])]
    )
    data = _asked(broker, request, version, FetchResponse).responses[0].partitions[0]
    assert data.error_code == ErrorCode.NONE
    return data.records or b""


def look_up(broker: MeteredBroker, timestamp: int) -> int:
    partition = ListOffsetsPartition(0, timestamp=timestamp)
    request = ListOffsetsRequest(topics=[ListOffsetsTopic("t", partitions=[partition])])
    return _asked(broker, request, 7, ListOffsetsResponse).topics[0].partitions[0].offset


def _asked(broker: MeteredBroker, request: Message, version: int, response: type[R]) -> R:
    return decode_response(response, broker.ask(request, version)[4:], version)


def held_s(broker: MeteredBroker, work: Callable[[], object]) -> float:
    """How long the loop was held by requests that ``work`` makes, at most."""
    longest_s = 0.0
    ask = broker.ask

    def metered(request: Message, version: int) -> bytes:
        nonlocal longest_s
        response = ask(request, version)
        longest_s = max(longest_s, broker.loop.longest_s)
        return response

    broker.ask = metered  # type: ignore[method-assign]
    try:
        work()
    finally:
        broker.ask = ask  # type: ignore[method-assign]
    return longest_s


def test_an_old_set_that_unfolds_to_much(broker: MeteredBroker) -> None:
    """183 kB of gzip held the loop for 4.6 s."""
    produce(broker, old_set(1), 2)
    assert held_s(broker, lambda: produce(broker, old_set(RECORDS), 2)) < LONGEST_S
    assert broker.topics.partition("t", 0).log.end_offset == 1 + RECORDS


def test_old_messages_one_after_the_other(broker: MeteredBroker) -> None:
    data = old_message(0) * 30_000
    produce(broker, data[:34], 2)
    assert held_s(broker, lambda: produce(broker, data, 2)) < LONGEST_S
    assert broker.topics.partition("t", 0).log.end_offset == 30_001


def test_a_batch_that_unfolds_to_much(broker: MeteredBroker, without_compiled_parts: None) -> None:
    """Also where no part of it is compiled: its walk over the records took seconds."""
    data = batch_of(RECORDS, GZIP)
    produce(broker, batch_of(1, GZIP), 9)
    assert held_s(broker, lambda: produce(broker, data, 9)) < LONGEST_S
    assert broker.topics.partition("t", 0).log.end_offset == 1 + RECORDS


@pytest.mark.parametrize(("codec", "version"), [(NONE, 1), (GZIP, 3)])
def test_a_batch_is_converted_for_an_old_client(
    broker: MeteredBroker, codec: int, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And once for all that ask for it."""
    fetch(broker, version)
    data = batch_of(110_000 if codec == NONE else RECORDS, codec)
    assert produce(broker, data, 9) == ErrorCode.NONE
    converted: list[int] = []

    def counted(data: bytes, magic: int, first_offset: int) -> bytes:
        converted.append(magic)
        return to_message_set(data, magic, first_offset)

    monkeypatch.setattr("coterie.broker.requests.message_sets.to_message_set", counted)
    responses: list[bytes] = []
    assert held_s(broker, lambda: responses.extend(fetch(broker, version) for _ in range(20))) < LONGEST_S
    assert set(responses) == {to_message_set(data, version // 2, 0)}
    assert converted == [version // 2]


@pytest.mark.parametrize("timestamp", [999, MAX_TIMESTAMP])
def test_a_look_up_by_time_in_a_batch_that_unfolds_to_much(broker: MeteredBroker, timestamp: int) -> None:
    assert produce(broker, batch_of(RECORDS, GZIP), 9) == ErrorCode.NONE
    look_up(broker, -1)
    assert held_s(broker, lambda: look_up(broker, timestamp)) < LONGEST_S
    assert look_up(broker, timestamp) == 0


def test_the_largest_timestamp_of_many_batches(broker: MeteredBroker) -> None:
    """The headers of a whole segment were read for it."""
    log = broker.topics.partition("t", 0).log
    for n in range(20_000):
        log.append(encode_batch([(1_000 + min(n, 15_000), None, b"", ())]), 0)
    look_up(broker, -1)
    assert held_s(broker, lambda: look_up(broker, MAX_TIMESTAMP)) < 0.005
    assert look_up(broker, MAX_TIMESTAMP) == 15_000


def test_requests_of_others_are_answered_while_one_is_converted(broker: MeteredBroker) -> None:
    """And what is checked before a thread's work is checked again behind it: the partition may have gone."""
    waiting: list[tuple[LongWork, Callable[[Outcome], None]]] = []
    broker.turns = Turns(broker.loop, lambda work, then: waiting.append((work, then)))
    connection, transport = AcceptedConnection(broker), FakeTransport()
    connection.connection_made(transport)
    data = TopicProduceData("t", partition_data=[PartitionProduceData(0, old_set(10_000))])
    request = ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[data])
    connection.data_received(encode_request(1, "old", request, 2))
    assert produce(broker, batch_of(1, NONE), 9) == ErrorCode.NONE
    ((work, then),) = waiting
    finish(broker.topics.deleting(broker.topics.by_name["t"]))
    then(work())
    broker.loop.run_until(lambda: transport.written)
    response = decode_response(ProduceResponse, b"".join(transport.written)[4:], 2)
    assert response.responses[0].partition_responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_long_requests_are_in_no_cycle(broker: MeteredBroker) -> None:
    """An error refers to what was unfolded, and its frames to the error: 64 MB for each bomb."""
    bomb = encode_batch([(1_000, None, bytes(8_000_000), ())], codec=GZIP)
    damaged = old_message(0, GZIP, compress(GZIP, old_message(0) * 200_000 + old_message(0, GZIP)))
    assert produce(broker, bomb, 9) == ErrorCode.NONE
    with no_records_in_cycles():
        assert produce(broker, bomb, 9) == ErrorCode.NONE
        assert produce(broker, damaged, 2) == ErrorCode.INVALID_RECORD
        assert fetch(broker, 1)
        assert look_up(broker, 0) == 0


def test_at_most_two_threads_work_aside(broker: MeteredBroker) -> None:
    waiting: list[tuple[LongWork, Callable[[Outcome], None]]] = []
    turns = Turns(broker.loop, lambda work, then: waiting.append((work, then)))
    done: list[object] = []

    def work(number: int) -> Work:
        outcome = yield lambda: (number, None)
        done.append(outcome[0])
        return ProduceResponse()

    for number in range(5):
        turns.run(work(number))
    assert len(waiting) == MAX_THREADS
    while waiting:
        each, then = waiting.pop(0)
        then(each())
    broker.loop.run_until(lambda: len(done) == 5)
    assert done == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("convert", "data"),
    [(to_batch, old_set(FEW)), (lambda data: to_message_set(data, 1, 0), batch_of(FEW, GZIP))],
    ids=["to a batch", "to a message set"],
)
def test_memory_is_bounded_by_what_unfolds(convert: Callable[[bytes], bytes], data: bytes) -> None:
    """Each message was several objects: 200,000 of them took 131 MB, and 70 MB the other way."""
    convert(data)
    tracemalloc.start()
    try:
        convert(data)
        assert tracemalloc.get_traced_memory()[1] < 5 * 34 * FEW
    finally:
        tracemalloc.stop()


def test_a_wrapper_unfolds_to_as_much_as_a_stored_batch() -> None:
    with pytest.raises(Refusal, match="unfold to more than 67108864 bytes") as refused:
        to_batch(old_set(64 * 2**20 // 34 + 1))
    assert refused.value.code == ErrorCode.MESSAGE_TOO_LARGE


def test_few_message_sets_are_kept() -> None:
    sets = MessageSets(limit_bytes=250)
    one, other = batch_of(3, NONE), encode_batch([(1_000, b"k", b"v", ())] * 3)
    first, second = sets.of(one, 1, 0), sets.of(other, 1, 0)
    assert sets.of(one, 1, 0) is first
    assert sets.of(other, 1, 0) is second
    assert sets.of(one, 0, 0) == to_message_set(one, 0, 0)
    assert sets.of(other, 1, 0) is second
    assert sets.of(one, 1, 0) is not first
