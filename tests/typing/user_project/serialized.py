"""Keys and values of a user's own types, inferred from the serializers and deserializers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_type

from coterie.client import (
    Consumer,
    Deserializer,
    IntegerSerializer,
    LongDeserializer,
    Producer,
    Record,
    RecordDeserializationError,
    RecordMetadata,
    Serializer,
    StringDeserializer,
    StringSerializer,
)

ADDRESS = {"bootstrap.servers": "127.0.0.1:9092"}


@dataclass(frozen=True)
class Order:
    number: int


class OrderCodec:
    def serialize(self, topic: str, data: Order, /) -> bytes:
        return b"%d" % data.number

    def deserialize(self, topic: str, data: bytes, /) -> Order:
        return Order(int(data))


def order_of(data: bytes) -> Order:
    return Order(int(data))


SERIALIZER: Serializer[Order] = OrderCodec()
DESERIALIZER: Deserializer[Order] = OrderCodec()


async def consume() -> None:
    plain = Consumer(ADDRESS)
    assert_type(plain, Consumer[bytes, bytes])
    text = Consumer(ADDRESS, value_deserializer=StringDeserializer())
    assert_type(text, Consumer[bytes, str])
    by_function = Consumer(ADDRESS, key_deserializer=LongDeserializer(), value_deserializer=order_of)
    assert_type(by_function, Consumer[int, Order])
    async with Consumer(ADDRESS, key_deserializer=LongDeserializer(), value_deserializer=DESERIALIZER) as consumer:
        async for record in consumer:
            assert_type(record, Record[int, Order])
            assert_type(record.value, Order | None)
            assert_type(record.key, int | None)
        try:
            await consumer.poll(1000)
        except RecordDeserializationError as error:
            assert_type(error.offset, int)


async def produce() -> None:
    async with Producer(ADDRESS, key_serializer=IntegerSerializer(), value_serializer=SERIALIZER) as producer:
        assert_type(producer, Producer[int, Order])
        assert_type(await producer.send_and_wait("orders", Order(1), 7), RecordMetadata)
    names = Producer(ADDRESS, value_serializer=StringSerializer())
    await names.send("names", "Ada", b"key")
    await names.send("names", 1)  # type: ignore[arg-type]
