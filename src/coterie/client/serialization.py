"""Keys and values as bytes and back, by the names and formats of Kafka's org.apache.kafka.common.serialization, and JSON.

A serializer is an object with ``serialize(topic, data)`` or a function of the data; a deserializer one with
``deserialize(topic, data)`` or a function of the bytes. Neither is called for None, which is Kafka's null on both sides.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, TypeVar

from coterie.client.errors import ConfigError, RecordDeserializationError
from coterie.client.types import Record

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
T_contra = TypeVar("T_contra", contravariant=True)


class Serializer(Protocol[T_contra]):
    """What a producer calls for each key or value. What it raises, `Producer.send` raises as a SerializationError."""

    def serialize(self, topic: str, data: T_contra, /) -> bytes:
        """The bytes of a record for that topic."""
        ...


class Deserializer(Protocol[T_co]):
    """What a consumer calls for each key or value. What it raises, the poll raises as a RecordDeserializationError."""

    def deserialize(self, topic: str, data: bytes, /) -> T_co:
        """The object that the bytes of a record of that topic stand for."""
        ...


SerializerLike: TypeAlias = Serializer[T] | Callable[[T], bytes]
DeserializerLike: TypeAlias = Deserializer[T] | Callable[[bytes], T]


class BytesSerializer:
    """Bytes as they are."""

    def serialize(self, _: str, data: bytes, /) -> bytes:
        """The same bytes."""
        return data


class BytesDeserializer:
    """Bytes as they are."""

    def deserialize(self, _: str, data: bytes, /) -> bytes:
        """The same bytes."""
        return data


class StringSerializer:
    """Text in an encoding, by default UTF-8."""

    def __init__(self, encoding: str = "utf-8") -> None:
        self._encoding = encoding

    def serialize(self, _: str, data: str, /) -> bytes:
        """Raises UnicodeEncodeError."""
        return data.encode(self._encoding)


class StringDeserializer:
    """Text in an encoding, by default UTF-8. Unlike Java's it refuses bytes that are no text."""

    def __init__(self, encoding: str = "utf-8") -> None:
        self._encoding = encoding

    def deserialize(self, _: str, data: bytes, /) -> str:
        """Raises UnicodeDecodeError."""
        return data.decode(self._encoding)


class _Number:
    """A number in big-endian bytes of a fixed length."""

    _layout = struct.Struct(">i")

    def serialize(self, _: str, data: int, /) -> bytes:
        return self._layout.pack(data)

    def deserialize(self, _: str, data: bytes, /) -> int:
        if len(data) != self._layout.size:
            raise ValueError(f"{type(self).__name__} needs {self._layout.size} bytes, not {len(data)}")
        (number,) = self._layout.unpack(data)
        return int(number)


class IntegerSerializer(_Number):
    """Integers of 32 bits in 4 bytes, big-endian."""


class IntegerDeserializer(_Number):
    """Integers of 32 bits from 4 bytes, big-endian."""


class LongSerializer(_Number):
    """Integers of 64 bits in 8 bytes, big-endian."""

    _layout = struct.Struct(">q")


class LongDeserializer(_Number):
    """Integers of 64 bits from 8 bytes, big-endian."""

    _layout = struct.Struct(">q")


class JsonSerializer:
    """What `json.dumps` takes, as UTF-8 without blanks. Python's None is a tombstone, not JSON's null."""

    def serialize(self, _: str, data: Any, /) -> bytes:
        """UTF-8 without spaces. Raises TypeError for a value that JSON lacks."""
        return json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode()


class JsonDeserializer:
    """What `json.loads` returns."""

    def deserialize(self, _: str, data: bytes, /) -> Any:
        """Raises ValueError for invalid JSON."""
        return json.loads(data)


# Kafka's names of classes, with which settings name them.
SERIALIZERS: dict[str, type[Serializer[Any]]] = {
    "ByteArraySerializer": BytesSerializer,
    "BytesSerializer": BytesSerializer,
    "StringSerializer": StringSerializer,
    "IntegerSerializer": IntegerSerializer,
    "LongSerializer": LongSerializer,
    "JsonSerializer": JsonSerializer,
}
DESERIALIZERS: dict[str, type[Deserializer[Any]]] = {
    "ByteArrayDeserializer": BytesDeserializer,
    "BytesDeserializer": BytesDeserializer,
    "StringDeserializer": StringDeserializer,
    "IntegerDeserializer": IntegerDeserializer,
    "LongDeserializer": LongDeserializer,
    "JsonDeserializer": JsonDeserializer,
}


# -- for the clients -----------------------------------------------------------------------------------------------------


def serialize_function(
    argument: SerializerLike[T] | None, setting: SerializerLike[Any] | None, name: str
) -> Callable[[str, T], bytes] | None:
    """``function(topic, data)`` of what a user gives as the argument ``name``, or else of the setting. Raises ConfigError for
    an object that is not a serializer."""
    return _function(argument, setting, "serialize", name)


def deserialize_function(
    argument: DeserializerLike[T] | None, setting: DeserializerLike[Any] | None, name: str
) -> Callable[[str, bytes], T] | None:
    """As `serialize_function`."""
    return _function(argument, setting, "deserialize", name)


def _function(argument: Any, setting: Any, method: str, name: str) -> Callable[[str, Any], Any] | None:
    given = setting if argument is None else argument
    if given is None:
        return None
    if isinstance(given, type) and hasattr(given, method):
        raise ConfigError(f"{name} must be an object: give {given.__name__}() rather than the class")
    function: Callable[[str, Any], Any] | None = getattr(given, method, None)
    if function is not None:
        return function
    if not callable(given):
        raise ConfigError(f"{name} must be a function, or an object with a method {method}(topic, data), not {given!r}")
    return lambda _, data: given(data)


class RecordDeserializers:
    """A consumer's two deserializers as one function of a record."""

    def __init__(self, key: Callable[[str, bytes], Any] | None, value: Callable[[str, bytes], Any] | None) -> None:
        self._key, self._value = key, value

    def __bool__(self) -> bool:
        return self._key is not None or self._value is not None

    def __call__(self, record: Record) -> Record[Any, Any]:
        """Raises RecordDeserializationError."""
        key: Any = record.key
        value: Any = record.value
        part = "key"
        try:
            if self._key is not None and key is not None:
                key = self._key(record.topic, key)
            part = "value"
            if self._value is not None and value is not None:
                value = self._value(record.topic, value)
        except Exception as error:
            raise RecordDeserializationError(record, part, error) from error
        return record._replace(key=key, value=value)
