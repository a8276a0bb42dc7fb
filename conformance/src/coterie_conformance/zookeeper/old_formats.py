"""The reads of clients from before record batches from coterie, beside Apache Kafka 2.6.3, the last line that registers in
ZooKeeper and serves every version: Fetch 0 to 3 and ListOffsets 0 message by message, and what the console consumer of
1.1.1 prints of the same records when it finds the broker through ZooKeeper.
"""

from __future__ import annotations

import contextlib
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from coterie.client.connection.blocking_socket import BrokerSocket
from coterie.client.errors import check
from coterie.records import compression
from coterie.records.batch import TRANSACTIONAL_BIT
from coterie.records.encoding import encode_batch
from coterie.testing.local_broker import LocalBroker
from coterie.wire.messages.groups.find_coordinator import FindCoordinatorRequest
from coterie.wire.messages.logs.fetch import FetchPartition, FetchRequest, FetchTopic
from coterie.wire.messages.logs.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from coterie.wire.messages.logs.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from coterie.wire.messages.topics.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from coterie.wire.messages.transactions.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from coterie.wire.messages.transactions.end_txn import EndTxnRequest
from coterie.wire.messages.transactions.init_producer_id import InitProducerIdRequest
from coterie_conformance.servers.kafka import KafkaBroker
from coterie_conformance.zookeeper.high_level_consumer import KAFKA, java, local_zookeeper

BESIDE = "2.6.3"
TOPIC, SMALL_SEGMENTS, APPEND_TIME, TRANSACTIONS = "t", "small", "appended", "transactions"
TOPICS: dict[str, dict[str, str]] = {
    TOPIC: {},
    TRANSACTIONS: {},
    SMALL_SEGMENTS: {"segment.bytes": "1000"},
    APPEND_TIME: {"message.timestamp.type": "LogAppendTime"},
}
FOR_EVER = {"retention.ms": "-1"}  # the records' times are long past
NOW = 1_700_000_000_000
TRANSACTION_WITHIN_S = 30.0
CONSOLE_S, ATTEMPTS = 60.0, 2
SESSION_MS = "60000"  # long: where many programs share the machine, a JVM may stand still for seconds
PRINTED = {TOPIC: 12, SMALL_SEGMENTS: 8}  # topic -> its records
IN_TRANSACTIONS = 6
Message = tuple[int, int, int, int | None, bytes | None, bytes | None]


@dataclass(frozen=True, slots=True)
class RegisteredBroker:
    """A broker and the ZooKeeper that it registers in."""

    name: str
    address: tuple[str, int]
    zookeeper: str


@contextlib.contextmanager
def sides(folder: Path) -> Iterator[list[RegisteredBroker]]:
    """Apache Kafka and coterie, with the same records. Raises CannotRun."""
    theirs = KafkaBroker(BESIDE, folder / f"kafka-{BESIDE}", {"zookeeper.session.timeout.ms": SESSION_MS})
    with (
        local_zookeeper(folder / "zookeeper") as zookeeper,
        LocalBroker({"zookeeper.connect": zookeeper}) as ours,
        contextlib.ExitStack() as stack,
    ):
        stack.callback(theirs.stop)
        theirs.start()
        both = [
            RegisteredBroker(f"kafka {BESIDE}", theirs.address, theirs.zookeeper_address),
            RegisteredBroker("coterie", (ours.host, ours.port), zookeeper),
        ]
        for side in both:
            _fill(side.address)
        yield both


def _fill(address: tuple[str, int]) -> None:
    """Batches of every kind that an old reader can meet: null keys, headers, every codec that it knows, a transaction that
    commits and one that aborts, and a batch after their markers."""
    connection = BrokerSocket(*address)
    try:
        topics = [
            CreatableTopic(name, 1, 1, configs=[CreatableTopicConfig(*pair) for pair in (FOR_EVER | settings).items()])
            for name, settings in TOPICS.items()
        ]
        for created in connection.request(CreateTopicsRequest(topics, 30_000)).topics:
            check(created.error_code, created.name)
        for codec in (compression.NONE, compression.GZIP, compression.SNAPPY, compression.LZ4):
            for topic in (TOPIC, APPEND_TIME):
                _produce(connection, topic, _batch(codec, 3, codec=codec))
        for committed in (True, False):
            _transaction(connection, committed)
        _produce(connection, TRANSACTIONS, _batch(9, 2))
        for number in range(4):
            _produce(connection, SMALL_SEGMENTS, _batch(number, 2))
    finally:
        connection.close()


def _batch(number: int, count: int, **fields: int) -> bytes:
    """Larger than what becomes of it in an old format, so that nothing is cut short."""
    items = [
        (
            NOW + number * 1000 - n,
            b"key %d" % n if n else None,
            b"value %d-%d" % (number, n),
            [("h", bytes(range(200)))],
        )
        for n in range(count)
    ]
    return encode_batch(items, **fields)


def _produce(connection: BrokerSocket, topic: str, records: bytes, transactional_id: str | None = None) -> None:
    """Until the partition has its leader, which takes a moment after its topic was created."""
    end_s = time.monotonic() + TRANSACTION_WITHIN_S
    data = [TopicProduceData(topic, partition_data=[PartitionProduceData(0, records)])]
    while True:
        response = connection.request(ProduceRequest(transactional_id, -1, 10_000, data), highest=8)
        code = response.responses[0].partition_responses[0].error_code
        if not code or time.monotonic() > end_s:
            check(code, topic)
            return
        time.sleep(0.2)


def _transaction(connection: BrokerSocket, committed: bool) -> None:
    name = f"transaction-{committed}"
    identity = _until_no_error(
        lambda: (
            connection.request(FindCoordinatorRequest(name, 1), highest=2)
            and connection.request(InitProducerIdRequest(name, 60_000), highest=4)
        )
    )
    producer = identity.producer_id, identity.producer_epoch
    added = AddPartitionsToTxnRequest(name, *producer, [AddPartitionsToTxnTopic(TRANSACTIONS, [0])])
    connection.request(added, highest=3)
    fields = {"producer_id": producer[0], "producer_epoch": producer[1], "base_sequence": 0}
    _produce(connection, TRANSACTIONS, _batch(5, 2, attributes=TRANSACTIONAL_BIT, **fields), name)
    _until_no_error(lambda: connection.request(EndTxnRequest(name, *producer, committed), highest=3))
    time.sleep(1)  # Kafka writes the marker after its response


def _until_no_error(ask: Callable[[], Any]) -> Any:
    end_s = time.monotonic() + TRANSACTION_WITHIN_S
    while True:
        response = ask()
        if not response.error_code or time.monotonic() > end_s:
            check(response.error_code)
            return response
        time.sleep(0.2)


def messages(message_set: bytes) -> list[Message]:
    """(offset, format, attributes, timestamp or None, key, value) of each message, those inside of compressed ones after
    their wrapper's; up to the first that is cut short."""
    decoded: list[Message] = []
    at = 0
    while at + 12 <= len(message_set):
        offset, size = struct.unpack_from(">qi", message_set, at)
        message = message_set[at + 12 : at + 12 + size]
        if len(message) < size:
            break
        at += 12 + size
        magic, attributes = message[4], message[5]
        timestamp = struct.unpack_from(">q", message, 6)[0] if magic else None
        key, rest = _bytes(message, 14 if magic else 6)
        value, _ = _bytes(message, rest)
        codec = attributes & 7
        decoded.append((offset, magic, attributes, timestamp, key, None if codec else value))
        if codec and value is not None:
            lz4_of_format_0 = (magic, codec) == (0, compression.LZ4)
            inner = (
                compression.decompress_lz4_format_0(value) if lz4_of_format_0 else compression.decompress(codec, value)
            )
            decoded += messages(inner)
    return decoded


def _bytes(message: bytes, at: int) -> tuple[bytes | None, int]:
    (size,) = struct.unpack_from(">i", message, at)
    return (None, at + 4) if size < 0 else (message[at + 4 : at + 4 + size], at + 4 + size)


def fetched(address: tuple[str, int], version: int, offset: int, max_bytes: int = 1_000_000, topic: str = TOPIC) -> Any:
    """Error, high watermark and messages of a Fetch; times of the append count as one."""
    connection = BrokerSocket(*address)
    try:
        requested = [
            FetchTopic(topic, partitions=[FetchPartition(0, fetch_offset=offset, partition_max_bytes=max_bytes)])
        ]
        request = FetchRequest(max_wait_ms=100, min_bytes=1, topics=requested)
        data = connection.request(request, highest=version).responses[0].partitions[0]
    finally:
        connection.close()
    seen = messages(data.records or b"")
    if topic == APPEND_TIME:
        seen = [(o, m, a, None if t is None else min(t, 0), k, v) for o, m, a, t, k, v in seen]
    return data.error_code, data.high_watermark, bool(data.records), seen


def read_through(address: tuple[str, int], version: int) -> list[Message]:
    """The messages of the topic with transactions, as a reader sees them that goes on after the last message of each
    Fetch and drops what comes a second time: where a control batch is left out, Kafka ends a message set early or repeats
    messages in it."""
    seen: list[Message] = []
    while True:
        position = seen[-1][0] + 1 if seen else 0
        new = [m for m in fetched(address, version, position, topic=TRANSACTIONS)[3] if m[0] >= position]
        if not new:
            return seen
        for message in new:
            if not seen or message[0] > seen[-1][0]:
                seen.append(message)


def old_offsets(address: tuple[str, int], timestamp: int, limit: int, topic: str = SMALL_SEGMENTS) -> Any:
    """Error and offsets of a ListOffsets 0."""
    connection = BrokerSocket(*address)
    try:
        requested = [ListOffsetsTopic(topic, [ListOffsetsPartition(0, timestamp=timestamp, max_num_offsets=limit)])]
        response = connection.request(ListOffsetsRequest(topics=requested), highest=0).topics[0].partitions[0]
        return response.error_code, response.old_style_offsets
    finally:
        connection.close()


def printed(zookeeper: str, folder: Path, topic: str, count: int) -> list[str]:
    """What the console consumer of Kafka 1.1.1, which finds the broker through ZooKeeper, prints of so many records; started
    again, as another group, where it does not come to its end in time."""
    words = ["--zookeeper", zookeeper, "--topic", topic, "--from-beginning", "--max-messages", str(count)]
    for name in ("print.key", "print.timestamp"):
        words += ["--property", f"{name}=true"]
    words += ["--consumer-property", f"zookeeper.session.timeout.ms={SESSION_MS}"]
    command, output = java("kafka.tools.ConsoleConsumer", *words), b""
    for _attempt in range(ATTEMPTS):
        with (folder / "console.log").open("ab") as log, contextlib.suppress(subprocess.TimeoutExpired):
            output = subprocess.run(
                command, stdout=subprocess.PIPE, stderr=log, stdin=subprocess.DEVNULL, timeout=CONSOLE_S, check=False
            ).stdout
            break
    return output.decode().splitlines()


def run_checks(folder: Path, report: Callable[[str, str], None]) -> dict[str, bool]:
    """Each check with whether both brokers agree; ``report`` is called with its name and the difference. Raises CannotRun."""
    agreed: dict[str, bool] = {}
    folder.mkdir(parents=True, exist_ok=True)
    with sides(folder) as both:

        def compare(name: str, look: Callable[[RegisteredBroker], Any]) -> None:
            theirs, ours = (look(side) for side in both)
            agreed[name] = theirs == ours
            report(name, "" if theirs == ours else f"{both[0].name} {theirs!r}, coterie {ours!r}")

        end = fetched(both[0].address, 0, 0)[1]
        for version in range(4):
            for offset in range(end + 2):
                compare(f"Fetch {version} from offset {offset}", partial(_fetch, version, offset=offset))
            for topic in (APPEND_TIME, "nowhere"):
                compare(f"Fetch {version} of topic {topic}", partial(_fetch, version, topic=topic))
            for size in (0, 50, 300):
                compare(f"Fetch {version} of {size} bytes", partial(_fetch, version, max_bytes=size))
            compare(f"Fetch {version} through transactions", partial(_read_through, version))
        for timestamp in (-1, -2, 5, 2**62):
            for limit in (0, 1, 3, 100):
                compare(f"ListOffsets 0 at {timestamp}, up to {limit}", partial(_offsets, timestamp, limit))
        compare("ListOffsets 0 of an unknown topic", partial(_offsets, -1, 1, topic="nowhere"))
        for topic, count in PRINTED.items():
            name = f"Kafka {KAFKA}'s console consumer prints topic {topic} as it does on Kafka {BESIDE}"
            compare(name, partial(_print, folder, topic, count))
        # Not compared: Kafka's reader stops at the first marker, whose place Kafka fills with a message cut short.
        lines = printed(both[1].zookeeper, folder, TRANSACTIONS, IN_TRANSACTIONS)
        name = f"Kafka {KAFKA}'s console consumer reads on after the markers of transactions"
        agreed[name] = len(lines) == IN_TRANSACTIONS
        report(name, "" if agreed[name] else f"it printed {lines}")
    return agreed


def _fetch(
    version: int, side: RegisteredBroker, offset: int = 0, max_bytes: int = 1_000_000, topic: str = TOPIC
) -> Any:
    return fetched(side.address, version, offset, max_bytes, topic)


def _read_through(version: int, side: RegisteredBroker) -> Any:
    return read_through(side.address, version)


def _offsets(timestamp: int, limit: int, side: RegisteredBroker, topic: str = SMALL_SEGMENTS) -> Any:
    return old_offsets(side.address, timestamp, limit, topic)


def _print(folder: Path, topic: str, count: int, side: RegisteredBroker) -> Any:
    lines = printed(side.zookeeper, folder, topic, count)
    return lines if len(lines) == count else f"{len(lines)} of {count} lines on {side.name}"
