"""Serializers and deserializers: objects and functions, Kafka's formats, and a record that cannot be read (KIP-334)."""

from __future__ import annotations

import asyncio
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.client import (
    BytesDeserializer,
    BytesSerializer,
    ConfigError,
    Consumer,
    IntegerDeserializer,
    IntegerSerializer,
    JsonDeserializer,
    JsonSerializer,
    LongDeserializer,
    LongSerializer,
    Producer,
    RecordDeserializationError,
    SerializationError,
    StringDeserializer,
    StringSerializer,
    TopicPartition,
)
from coterie.testing import LocalBroker

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)
PAIRS: list[tuple[Any, Any, st.SearchStrategy[Any]]] = [
    (BytesSerializer(), BytesDeserializer(), st.binary()),
    (StringSerializer(), StringDeserializer(), st.text()),
    (StringSerializer("utf-16"), StringDeserializer("utf-16"), st.text()),
    (IntegerSerializer(), IntegerDeserializer(), st.integers(-(2**31), 2**31 - 1)),
    (LongSerializer(), LongDeserializer(), st.integers(-(2**63), 2**63 - 1)),
    (JsonSerializer(), JsonDeserializer(), JSON),
]
T0 = TopicPartition("t", 0)


@pytest.mark.parametrize(("serializer", "deserializer", "values"), PAIRS)
def test_what_is_serialized_is_deserialized(serializer: Any, deserializer: Any, values: st.SearchStrategy[Any]) -> None:
    @given(values)
    def both_ways(value: Any) -> None:
        assert deserializer.deserialize("t", serializer.serialize("t", value)) == value

    both_ways()


def test_the_bytes_are_those_of_kafka() -> None:
    """Big-endian, as IntegerSerializer and LongSerializer of org.apache.kafka.common.serialization."""
    assert IntegerSerializer().serialize("t", -2) == b"\xff\xff\xff\xfe"
    assert LongSerializer().serialize("t", 2**40 + 1) == b"\0\0\1\0\0\0\0\1"
    assert StringSerializer().serialize("t", "é") == b"\xc3\xa9"
    assert JsonSerializer().serialize("t", {"a": ["é", None]}) == '{"a":["é",null]}'.encode()
    with pytest.raises(ValueError, match="IntegerDeserializer needs 4 bytes, not 8"):
        IntegerDeserializer().deserialize("t", bytes(8))


def settings(broker: LocalBroker) -> dict[str, Any]:
    return {"bootstrap.servers": broker.bootstrap_servers, "auto.offset.reset": "earliest"}


async def read(consumer: Consumer[Any, Any], count: int) -> list[tuple[Any, Any]]:
    pairs: list[tuple[Any, Any]] = []
    async with asyncio.timeout(20):
        while len(pairs) < count:
            pairs += [(r.key, r.value) for records in (await consumer.poll(100)).values() for r in records]
    return pairs


async def test_objects_and_functions_serialize_keys_and_values(coterie_broker: LocalBroker) -> None:
    """None stays Kafka's null: neither is called for it."""
    coterie_broker.create_topic("t", 1)
    producer = Producer(settings(coterie_broker), key_serializer=IntegerSerializer(), value_serializer=str.encode)
    async with producer:
        await producer.send("t", "one", 1)
        await producer.send("t", None, 2)
        await producer.send("t", "three")
    key = IntegerDeserializer()
    async with Consumer(settings(coterie_broker), key_deserializer=key, value_deserializer=bytes.decode) as consumer:
        await consumer.assign([T0])
        assert await read(consumer, 3) == [(1, "one"), (2, None), (None, "three")]


class ByTopic:
    def serialize(self, topic: str, data: str) -> bytes:
        return f"{topic}:{data}".encode()


async def test_a_serializer_receives_the_topic_and_the_partitioner_the_bytes(coterie_broker: LocalBroker) -> None:
    coterie_broker.create_topic("t", 3)
    keys: list[bytes | None] = []

    def partitioner(topic: str, key: bytes | None, count: int) -> int:
        keys.append(key)
        return 2

    given = settings(coterie_broker) | {"partitioner": partitioner}
    async with Producer(given, key_serializer=ByTopic(), value_serializer=ByTopic()) as producer:
        assert (await producer.send_and_wait("t", "v", "k")).partition == 2
    assert keys == [b"t:k"]
    async with Consumer(settings(coterie_broker)) as consumer:
        await consumer.assign([("t", 2)])
        assert await read(consumer, 1) == [(b"t:k", b"t:v")]


@pytest.mark.parametrize(("part", "arguments"), [("value", ("t", "no")), ("key", ("t", 1, "no"))])
async def test_what_a_serializer_refuses_is_not_sent(
    coterie_broker: LocalBroker, part: str, arguments: tuple[Any, ...]
) -> None:
    coterie_broker.create_topic("t", 1)
    number = LongSerializer()
    async with Producer(settings(coterie_broker), key_serializer=number, value_serializer=number) as producer:
        with pytest.raises(SerializationError, match=f"the {part} of a record for t cannot be serialized") as caught:
            await producer.send(*arguments)
        assert isinstance(caught.value.__cause__, Exception)
        assert (await producer.send_and_wait("t", 5)).offset == 0


@pytest.mark.parametrize("wrong", [StringSerializer, 5, "org.apache.kafka.common.serialization.StringSerializer"])
def test_what_is_no_serializer_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigError, match="value_serializer must be"):
        Producer({}, value_serializer=wrong)


# -- records that cannot be read --------------------------------------------------------------------------------------


@pytest.mark.parametrize("max_records", [1, 2, 500])
async def test_a_record_that_does_not_deserialize_stops_its_partition_until_a_seek(
    coterie_broker: LocalBroker, max_records: int
) -> None:
    """KafkaConsumerTest's testSecondPollWithDeserializationErrorThrowsRecordDeserializationException; other partitions are read
    on."""
    coterie_broker.create_topic("t", 2)
    coterie_broker.produce("t", b"1", b"2", b"three", b"4", partition=0)
    coterie_broker.produce("t", b"5", partition=1)
    async with Consumer(settings(coterie_broker), value_deserializer=int) as consumer:
        await consumer.assign([("t", 0), ("t", 1)])
        values: list[int | None] = []
        errors: list[RecordDeserializationError] = []
        async with asyncio.timeout(20):
            while len(errors) < 3 or len(values) < 3:
                try:
                    polled = await consumer.poll(100, max_records)
                except RecordDeserializationError as error:
                    errors.append(error)
                    if len(values) < 3:
                        consumer.pause([("t", 0)])  # so that the other partition is read
                    else:
                        consumer.resume([("t", 0)])
                    continue
                values += [r.value for records in polled.values() for r in records]
                if len(values) == 3:
                    consumer.resume([("t", 0)])
        assert sorted(v for v in values if v) == [1, 2, 5]
        error = errors[0]
        assert (error.topic, error.partition, error.offset, error.part) == ("t", 0, 2, "value")
        assert error.record.value == b"three"
        assert "the value of t-0 at offset 2 cannot be deserialized: ValueError" in str(error)
        assert consumer.position(T0) == 2
        assert pickle.loads(pickle.dumps(error)).record == error.record
        consumer.seek(T0, error.offset + 1)
        assert await read(consumer, 1) == [(None, 4)]


async def test_iterating_raises_at_the_record_and_not_before(coterie_broker: LocalBroker) -> None:
    coterie_broker.create_topic("t", 1)
    coterie_broker.produce("t", b"1", b"two", b"3")
    values: list[int | None] = []
    async with Consumer(settings(coterie_broker), value_deserializer=int) as consumer, asyncio.timeout(20):
        await consumer.assign([T0])
        while len(values) < 2:
            try:
                async for record in consumer:
                    values.append(record.value)
                    if record.offset == 2:
                        break
            except RecordDeserializationError as error:
                assert values == [1]
                consumer.seek((error.topic, error.partition), error.offset + 1)
    assert values == [1, 3]


# -- by settings -------------------------------------------------------------------------------------------------------


class Doubling:
    """A user's own, named by its import path."""

    def serialize(self, _: str, data: int) -> bytes:
        return b"%d" % (2 * data)

    def deserialize(self, _: str, data: bytes) -> int:
        return int(data) // 2


def as_text(data: bytes) -> str:
    return data.decode()


HERE = "tests.client.test_serialization."
JAVA = "org.apache.kafka.common.serialization."


@pytest.mark.parametrize(
    ("serializer", "deserializer", "value"),
    [
        (f"{JAVA}IntegerSerializer", f"{JAVA}IntegerDeserializer", 7),
        ("LongSerializer", " LongDeserializer ", 2**40),
        (f"{JAVA}ByteArraySerializer", f"{JAVA}ByteArrayDeserializer", b"\xff"),
        (f"{JAVA}BytesSerializer", "BytesDeserializer", b"\xff"),
        (StringSerializer, StringDeserializer(), "é"),
        ("JsonSerializer", "coterie.client.JsonDeserializer", {"a": [1]}),
        (f"{HERE}Doubling", f"{HERE}Doubling", 4),
        (str.encode, f"{HERE}as_text", "x"),
    ],
)
async def test_settings_name_serializers_as_kafka_does(
    serializer: Any, deserializer: Any, value: Any, coterie_broker: LocalBroker
) -> None:
    """By Kafka's class names, import paths, classes, objects and functions."""
    coterie_broker.create_topic("t", 1)
    writing = {"key.serializer": serializer, "value.serializer": serializer}
    async with Producer[Any, Any](settings(coterie_broker) | writing) as producer:
        await producer.send("t", value, value)
        await producer.send("t", None)
    reading = {"key_deserializer": deserializer, "value_deserializer": deserializer}
    async with Consumer[Any, Any](settings(coterie_broker) | reading) as consumer:
        await consumer.assign([T0])
        assert await read(consumer, 2) == [(value, value), (None, None)]


async def test_an_argument_has_precedence_over_the_setting(coterie_broker: LocalBroker) -> None:
    """As the constructors of Kafka's clients."""
    coterie_broker.create_topic("t", 1)
    given = settings(coterie_broker) | {
        "value.serializer": "LongSerializer",
        "value.deserializer": "LongDeserializer",
    }
    async with Producer(given, value_serializer=StringSerializer()) as producer:
        await producer.send("t", "x")
    async with Consumer(given, value_deserializer=StringDeserializer()) as consumer:
        await consumer.assign([T0])
        assert await read(consumer, 1) == [(None, "x")]


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("NoSerializer", "there is no NoSerializer; there are .*StringSerializer.*, or the import path of one"),
        (f"{JAVA}UUIDSerializer", f"there is no {JAVA}UUIDSerializer; there are "),
        ("nowhere.Mine", "nowhere.Mine cannot be imported: No module named 'nowhere'"),
        (f"{HERE}Nothing", f"{HERE}Nothing cannot be imported: .* has no attribute 'Nothing'"),
        (f"{HERE}JAVA", "must be a serializer: .*, not 'org.apache.kafka.common.serialization.'"),
        (".", "there is no .; there are "),
        ("", r"there is no \(nothing\); there are "),
        ("StringDeserializer", "there is no StringDeserializer; there are "),
        (StringDeserializer, "must be a serializer: .*, not <.*StringDeserializer"),
        (5, "must be a serializer: .*, not 5"),
    ],
)
def test_a_setting_that_is_no_serializer_is_refused(value: Any, sentence: str) -> None:
    with pytest.raises(ConfigError, match=rf"key\.serializer (?:is wrong: )?{sentence}"):
        Producer({"key.serializer": value})
