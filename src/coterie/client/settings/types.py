"""Types of client settings that Kafka's ConfigDef reads as lists and classes: addresses, assignors, Python objects."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from coterie.assignors import ASSIGNORS, Assignor
from coterie.client.errors import ConfigError
from coterie.client.serialization import DESERIALIZERS, SERIALIZERS
from coterie.configuration import LIST, Kind, UnfitValue, ValueType
from coterie.configuration.value_types import text_of

T = TypeVar("T")

Partitioner = Callable[[str, bytes | None, int], int]  # (topic, key, number of partitions) -> partition

_JAVA = "org.apache.kafka.clients.consumer."
_JAVA_ASSIGNORS = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "StickyAssignor": "sticky",
    "CooperativeStickyAssignor": "cooperative-sticky",
}
_JAVA_SERIALIZATION = ("org.apache.kafka.common.serialization", "org.apache.kafka.connect.json")
_ASSIGNORS_TEXT = f"names of assignors ({', '.join(ASSIGNORS)}) or of Kafka's Java classes, or subclasses of Assignor"


def address(item: str) -> tuple[str, int]:
    """Host and port of HOST:PORT; an IPv6 host may be in brackets. Raises ValueError."""
    host, _, port = item.strip().rpartition(":")
    if not host.strip("[]") or not (port.isascii() and port.isdecimal()) or not 0 < int(port[:6]) < 65_536:
        raise ValueError(item)
    return host.strip("[]"), int(port)


def _addresses(value: object) -> tuple[str, ...]:
    items = LIST.read(value) or ("",)
    for item in items:
        try:
            address(item)
        except ValueError:
            raise UnfitValue(f"must be HOST:PORT[,HOST:PORT...], not {item!r}") from None
    return items


def _assignors(value: object) -> tuple[str | Assignor, ...]:
    """In order; the names go over the wire."""
    given = value if isinstance(value, list | tuple) else [value]
    listed: list[str | Assignor] = []
    for item in given or [""]:
        if isinstance(item, str):
            listed += map(_assignor_name, item.split(","))
        else:
            listed.append(_assignor(item))
    names = [item if isinstance(item, str) else item.name for item in listed]
    for name in names:
        if names.count(name) > 1:
            raise UnfitValue(f"is wrong: assignor {name} is listed twice")
    return tuple(listed)


def _assignor_name(text: str) -> str:
    item = text.strip()
    name = _JAVA_ASSIGNORS.get(item.removeprefix(_JAVA), item)
    if name not in ASSIGNORS:
        there_are = f"there are {', '.join(ASSIGNORS)}"
        raise UnfitValue(f"is wrong: there is no assignor {item or '(nothing)'}; {there_are}")
    return name


def _assignor(item: object) -> Assignor:
    """A user's own, of its class or an object of that."""
    one = item() if isinstance(item, type) and issubclass(item, Assignor) else item
    if not isinstance(one, Assignor):
        raise UnfitValue(f"takes {_ASSIGNORS_TEXT}, not {item!r}")
    if not isinstance(getattr(one, "name", None), str) or one.name in ASSIGNORS:
        raise UnfitValue(f"is wrong: {type(one).__name__}.name must be a text, and none of {', '.join(ASSIGNORS)}")
    return one


def _function(value: Any) -> Callable[[], str]:
    if not callable(value):
        raise TypeError
    function: Callable[[], str] = value
    return function


def _partitioner(value: Any) -> Partitioner:
    if not callable(value):
        raise TypeError
    function: Partitioner = value
    return function


def _having(method: str, noun: str, known: Mapping[str, type]) -> Callable[[object], Any]:
    """Reads a serializer or deserializer: a name or import path, a class, an object or a function."""

    def read(value: object) -> Any:
        given: Any = _named(value.strip(), known) if isinstance(value, str) else value
        if isinstance(given, type) and hasattr(given, method):
            return given()
        if isinstance(given, type) or not (hasattr(given, method) or callable(given)):
            raise UnfitValue(
                f"must be a {noun}: a name, an import path, a class, an object or a function, not {given!r}"
            )
        return given

    return read


def _named(text: str, known: Mapping[str, type]) -> object:
    """The class of a name of Kafka's, or what an import path leads to."""
    path, _, name = text.rpartition(".")
    if path in ("", *_JAVA_SERIALIZATION):
        if name not in known:
            there_are = f"there are {', '.join(known)}, or the import path of one"
            raise UnfitValue(f"is wrong: there is no {text or '(nothing)'}; {there_are}")
        return known[name]
    try:
        return getattr(importlib.import_module(path), name)
    except Exception as error:
        raise UnfitValue(f"is wrong: {text} cannot be imported: {error}") from error


def _objects(value: object) -> tuple[object, ...]:
    return tuple(value) if isinstance(value, list | tuple) else (value,)


def _lower(value: object) -> str:
    return text_of(value).strip().lower()


def _upper(value: object) -> str:
    return text_of(value).strip().upper()


ADDRESSES = ValueType(Kind.LIST, "addresses, such as 127.0.0.1:9092", _addresses)
ASSIGNOR_LIST = ValueType(Kind.LIST, _ASSIGNORS_TEXT, _assignors)
TOKEN_CALLBACK = ValueType(Kind.CLASS, "a function without arguments that returns a token", _function)
PARTITIONER = ValueType(Kind.CLASS, "a function of topic, key and number of partitions", _partitioner)
SERIALIZER = ValueType(Kind.CLASS, "a serializer", _having("serialize", "serializer", SERIALIZERS))
DESERIALIZER = ValueType(Kind.CLASS, "a deserializer", _having("deserialize", "deserializer", DESERIALIZERS))
OBJECTS = ValueType(Kind.LIST, "classes or objects, one or a list", _objects)
LOWER_CASE = ValueType(Kind.STRING, "text in any case", _lower)
UPPER_CASE = ValueType(Kind.STRING, "text in any case", _upper)
# Not Kafka's own settings, so not trimmed: a password may begin or end with a space.
EXACT_TEXT = ValueType(Kind.STRING, "text", text_of)
EXACT_PASSWORD = ValueType(Kind.PASSWORD, "text", text_of)


def instantiate(given: Iterable[object], kind: type[T]) -> list[T]:
    """Objects of a setting that takes classes or objects of that kind. Raises ConfigError."""
    objects: list[T] = []
    for item in given:
        one = item() if isinstance(item, type) else item
        if not isinstance(one, kind):
            raise ConfigError(f"interceptor.classes takes subclasses of {kind.__name__}, not {item!r}")
        objects.append(one)
    return objects
