"""Types of the source's and sink's options: what Spark's Kafka connector reads out of an option's text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping

from coterie.configuration import BOOLEAN, LIST, LONG, STRING, Kind, UnfitValue, ValueType
from coterie.configuration.value_types import text_of
from coterie.pipeline.offsets import EARLIEST, TopicOffsets

_UNITS_MS = {"": 1, "us": 0.001, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


class OptionError(ValueError):
    """An option that is missing, unknown or has a bad value."""


def flag(options: Mapping[str, str], name: str, default: bool) -> bool:
    """One true-or-false option by itself, whatever the others are. Raises OptionError."""
    given = {n.lower(): v for n, v in options.items()}.get(name.lower())
    try:
        return default if given is None else BOOLEAN.parse(given)
    except UnfitValue as error:
        raise OptionError(f"option {name} {error}") from None


def _topics(value: object) -> tuple[str, ...]:
    topics = tuple(dict.fromkeys(filter(None, LIST.read(value))))
    if not topics:
        raise UnfitValue("names no topic")
    return topics


def _pattern(value: object) -> str:
    pattern = STRING.read(value)
    if not pattern:
        raise UnfitValue("is empty")
    try:
        re.compile(pattern)
    except re.error as error:
        raise UnfitValue(f"is not a regular expression: {error}") from None
    return pattern


def _partitions(value: object) -> dict[str, list[int]]:
    try:
        return {topic: [int(p) for p in partitions] for topic, partitions in json.loads(text_of(value)).items()}
    except AttributeError:
        raise TypeError from None


def _by_partition(value: object) -> TopicOffsets:
    try:
        given = json.loads(text_of(value))
        return {topic: {str(int(p)): int(o) for p, o in partitions.items()} for topic, partitions in given.items()}
    except AttributeError:
        raise TypeError from None


def _offsets(*words: str) -> Callable[[object], str | TopicOffsets]:
    def read(value: object) -> str | TopicOffsets:
        word = STRING.read(value).lower()
        if word in words:
            return word
        offsets = _by_partition(value)
        for topic, by in offsets.items():
            for partition, offset in by.items():
                if offset < EARLIEST:
                    wrong = f"{topic}-{partition} cannot be {offset}"
                    raise UnfitValue(f"is wrong: {wrong}; give an offset, -1 for latest or -2 for earliest")
        return offsets

    return read


def _word(*words: str) -> ValueType[str]:
    def read(value: object) -> str:
        word = STRING.read(value).lower()
        if word not in words:
            raise ValueError
        return word

    return ValueType(Kind.STRING, " or ".join(words), read)


def _mode(value: object) -> str:
    if STRING.read(value).lower() == "share":
        why = "a task's records can be accepted by its own member alone, which has left when Spark commits the batch"
        raise UnfitValue(f"cannot be share: {why}; use mode=group")
    return _word("assign", "group").read(value)


def _count(value: object) -> int:
    number = LONG.read(value)
    if number < 1:
        raise ValueError
    return number


def _duration_s(value: object) -> float:
    parts = re.fullmatch(r"(\d+)\s*([a-z]*)", STRING.read(value).lower())
    if parts is None or parts[2] not in _UNITS_MS:
        raise ValueError
    return int(parts[1]) * _UNITS_MS[parts[2]] / 1000


TOPICS = ValueType(Kind.LIST, "topic names, with commas", _topics)
PATTERN = ValueType(Kind.STRING, "a regular expression", _pattern)
PARTITIONS = ValueType(Kind.STRING, 'JSON like {"topic":[0,1]}', _partitions)
START = ValueType(
    Kind.STRING,
    'earliest, latest, committed or JSON like {"topic":{"0":23,"1":-2}}',
    _offsets("earliest", "latest", "committed"),
)
END = ValueType(Kind.STRING, 'latest or JSON like {"topic":{"0":23,"1":-1}}', _offsets("latest", "earliest"))
TIMESTAMP = ValueType(Kind.LONG, "a time in milliseconds since 1970", LONG.read)
TIMESTAMPS = ValueType(Kind.STRING, 'JSON like {"topic":{"0":1700000000000}}', _by_partition)
STRATEGY = _word("error", "latest")
MODE = ValueType(Kind.STRING, "assign or group", _mode)
COUNT = ValueType(Kind.LONG, "a positive whole number", _count)
DURATION_S = ValueType(Kind.STRING, "a time such as 500ms, 30s, 15m, 2h, 1d; a number alone is ms", _duration_s)
