"""The options of the source and sink, read by `option_table` and checked, with a sentence for each mistake."""

from __future__ import annotations

import difflib
import json
import logging
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from coterie.client.errors import ConfigError
from coterie.client.settings import CLIENT_SETTINGS, ClientSettings, client_settings
from coterie.configuration import nearest
from coterie.pipeline.offsets import EARLIEST, LATEST, TopicOffsets
from coterie.pipeline.option_table import (
    IGNORED_PREFIXES,
    OPTIONS,
    REFUSED_BY_SINK,
    REFUSED_BY_SOURCE,
    SPARKS_OWN,
    Option,
    OptionKind,
    Use,
)

_UNITS_MS = {"": 1, "us": 0.001, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_NAMES = {"batch": "batch read", "stream": "stream", "sink": "write"}
_warned: set[str] = set()


class OptionError(ValueError):
    """An option that is missing, unknown or has a bad value."""


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What a read was asked for. One of subscribe, pattern and assign says which topics."""

    client: dict[str, str] = field(repr=False)  # the options kafka.…, without that prefix: the client's settings
    subscribe: tuple[str, ...] = ()
    pattern: str | None = None  # found anywhere in a topic's name
    assign: dict[str, list[int]] = field(default_factory=dict)
    in_group: bool = False  # mode=group: the reader is a member; else Spark's checkpoint alone says what is read
    starting: str | TopicOffsets = "earliest"  # "earliest", "latest", "committed" or offsets
    ending: str | TopicOffsets = "latest"  # or offsets
    starting_timestamps: int | TopicOffsets | None = None  # ms since 1970
    ending_timestamps: int | TopicOffsets | None = None
    late_is_an_error: bool = True  # a starting timestamp that no record has reached
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_s: float = 900.0
    max_bytes_per_trigger: int | None = None
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    fail_on_data_loss: bool = True
    include_headers: bool = False
    push_down: bool = False
    log_folder: str | None = None  # read the topics' files there instead of asking a broker
    warnings: tuple[str, ...] = ()  # a sentence for each option that has no effect

    @property
    def group_id(self) -> str | None:
        return self.client.get("group.id")

    def settings(self) -> ClientSettings:
        """Raises ConfigError."""
        return client_settings(self.client)


def source_options(given: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    """Raises OptionError."""
    options = {name.lower(): value for name, value in given.items()}
    what = "stream" if streaming else "batch"
    used, warnings = _parsed(options, what)
    client: dict[str, str] = {}
    if "logFolder" not in used:
        client, unknown = _client_settings(options, REFUSED_BY_SOURCE)
        warnings += unknown
    _check_which(used)
    starting, starting_timestamps = _side(used, "starting", "latest" if streaming else "earliest")
    ending, ending_timestamps = _side(used, "ending", "latest")
    if not streaming:
        _check_bounds(starting, ending)
    if used.get("mode") == "group":
        _check_group_mode(used, client, streaming)
    _check_limits(used)
    return SourceOptions(
        client,
        used.get("subscribe", ()),
        used.get("subscribePattern"),
        used.get("assign", {}),
        used.get("mode") == "group",
        starting,
        ending,
        starting_timestamps,
        ending_timestamps,
        used.get("startingOffsetsByTimestampStrategy") != "latest",
        used.get("maxOffsetsPerTrigger"),
        used.get("minOffsetsPerTrigger"),
        used.get("maxTriggerDelay", 900.0),
        used.get("maxBytesPerTrigger"),
        used.get("minPartitions"),
        used.get("maxRecordsPerPartition"),
        used.get("failOnDataLoss", True),
        used.get("includeHeaders", False),
        used.get("pushDownPredicate", False),
        used.get("logFolder"),
        tuple(warnings),
    )


@dataclass(frozen=True, slots=True)
class SinkOptions:
    client: dict[str, str] = field(repr=False)
    topic: str | None
    exactly_once: bool
    warnings: tuple[str, ...]


def sink_options(given: Mapping[str, str]) -> SinkOptions:
    """Raises OptionError."""
    options = {name.lower(): value for name, value in given.items()}
    used, warnings = _parsed(options, "sink")
    client, unknown = _client_settings(options, REFUSED_BY_SINK)
    return SinkOptions(client, used.get("topic"), used.get("exactlyOnce", False), tuple(warnings + unknown))


def flag(options: Mapping[str, str], name: str, default: bool) -> bool:
    """One true-or-false option by itself, whatever the others are. Raises OptionError."""
    given = {n.lower(): v for n, v in options.items()}.get(name.lower())
    return default if given is None else _flag(name, given)


def warn(warnings: Iterable[str]) -> None:
    """Logs each once per process, on which a Spark worker prints it."""
    for text in warnings:
        if text not in _warned:
            _warned.add(text)
            logging.getLogger(__name__).warning(text)


# -- the table applied --------------------------------------------------------------------------------------------------------


def _parsed(options: Mapping[str, str], what: str) -> tuple[dict[str, Any], list[str]]:
    """The values of the options with an effect in ``what`` (batch, stream or sink), and warnings of the others."""
    table = {o.name.lower(): o for o in OPTIONS if _use(o, what) is not Use.UNKNOWN}
    used: dict[str, Any] = {}
    warnings: list[str] = []
    for name, text in options.items():
        if name.startswith("kafka.") or name in SPARKS_OWN:
            continue
        option = table.get(name)
        if option is None and name.startswith(IGNORED_PREFIXES):
            warnings.append(f"option {name} has no effect: coterie has no such cache")
        elif option is None:
            raise OptionError(_unknown(name, what, [o.name for o in table.values()]))
        elif _use(option, what) is Use.REFUSED:
            other = "a stream" if what == "stream" else "a sink"
            raise OptionError(f"option {option.name} is for batch reads, and this is {other}: leave it out")
        elif _use(option, what) is Use.IGNORED:
            warnings.append(_ignored(option, what))
        else:
            used[option.name] = _PARSERS[option.kind](option.name, text)
    return used, warnings


def _use(option: Option, what: str) -> Use:
    use: Use = getattr(option, what)
    return use


def _ignored(option: Option, what: str) -> str:
    if option.batch is option.stream is Use.IGNORED:
        return f"option {option.name} has no effect: {option.effect}"
    return f"option {option.name} has no effect in a {_NAMES[what]}"


def _unknown(name: str, what: str, names: list[str]) -> str:
    lower = {n.lower(): n for n in names}
    close = difflib.get_close_matches(name, lower, n=1)
    meant = f"; did you mean {lower[close[0]]}?" if close else f"; it has {', '.join(names)} and kafka.…"
    return f"the coterie {'sink' if what == 'sink' else 'source'} has no option {name}{meant}"


def _client_settings(options: Mapping[str, str], refused: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """The options kafka.… that the client has, and warnings of the others. Raises OptionError."""
    client = {n.removeprefix("kafka."): v for n, v in options.items() if n.startswith("kafka.")}
    for name, instead in refused.items():
        if name in client:
            raise OptionError(f"kafka.{name} cannot be set: {instead}")
    if "bootstrap.servers" not in client:
        raise OptionError("say where the broker is with the option kafka.bootstrap.servers, as HOST:PORT")
    known = {n: v for n, v in client.items() if n in CLIENT_SETTINGS}
    try:
        settings = client_settings(known)
        settings.security()
    except ConfigError as error:
        raise OptionError(f"a bad kafka. option: {error}") from error
    return known, [_without_effect(n) for n in client if n not in known]


def _without_effect(name: str) -> str:
    meant = nearest(f"kafka.{name}", [f"kafka.{known}" for known in CLIENT_SETTINGS], 0.85)
    return f"option kafka.{name} has no effect: coterie's client has no such setting{meant}"


# -- checks of several options together ---------------------------------------------------------------------------------------


def _check_which(used: Mapping[str, Any]) -> None:
    if len({"subscribe", "subscribePattern", "assign"} & used.keys()) != 1:
        raise OptionError("say what to read with exactly one of the options subscribe, subscribePattern and assign")


def _side(used: Mapping[str, Any], side: str, default: str) -> tuple[Any, Any]:
    """Offsets and timestamps of an end of the range; of what is given, the first in this order wins."""
    timestamp = used.get(f"{side}Timestamp")
    if timestamp is not None:
        return default, timestamp
    by_partition = used.get(f"{side}OffsetsByTimestamp")
    if by_partition is not None:
        return default, by_partition
    return used.get(f"{side}Offsets", default), None


def _check_bounds(starting: str | TopicOffsets, ending: str | TopicOffsets) -> None:
    """Of a batch read, which can neither begin at the end nor end at the beginning."""
    for name, bound, word, number in (
        ("startingOffsets", starting, "latest", LATEST),
        ("endingOffsets", ending, "earliest", EARLIEST),
    ):
        if bound == word:
            raise OptionError(f"a batch read with {name}={word} would read nothing: leave {name} out, or give JSON")
        for topic, offsets in bound.items() if isinstance(bound, dict) else ():
            for partition, offset in offsets.items():
                if offset == number:
                    text = f"{topic}-{partition} cannot be {number} ({word}) in a batch read: give an offset"
                    raise OptionError(f"option {name}: {text}")


def _check_group_mode(used: Mapping[str, Any], client: Mapping[str, str], streaming: bool) -> None:
    if not streaming:
        raise OptionError("mode=group is for streams; a batch read has no membership: leave the option mode out")
    if not client.get("group.id"):
        raise OptionError("mode=group needs the option kafka.group.id")
    if "assign" in used:
        raise OptionError("mode=group and assign exclude each other: in a group the group says who reads what")
    if isinstance(used.get("startingOffsets"), dict) or "startingOffsetsByTimestamp" in used:
        raise OptionError(
            "in mode=group the group's offsets come first: startingOffsets may be earliest or latest only, "
            "or give startingTimestamp"
        )


def _check_limits(used: Mapping[str, Any]) -> None:
    least, most = used.get("minOffsetsPerTrigger"), used.get("maxOffsetsPerTrigger")
    if least is not None and most is not None and least > most:
        raise OptionError(f"minOffsetsPerTrigger={least} is larger than maxOffsetsPerTrigger={most}: lower it")


# -- one option's text --------------------------------------------------------------------------------------------------------


def _topics(name: str, text: str) -> tuple[str, ...]:
    topics = tuple(dict.fromkeys(t.strip() for t in text.split(",") if t.strip()))
    if not topics:
        raise OptionError(f"option {name} names no topic")
    return topics


def _pattern(name: str, text: str) -> str:
    pattern = text.strip()
    if not pattern:
        raise OptionError(f"option {name} is empty")
    try:
        re.compile(pattern)
    except re.error as error:
        raise OptionError(f"option {name} is not a regular expression: {error}") from None
    return pattern


def _partitions(name: str, text: str) -> dict[str, list[int]]:
    try:
        return {topic: [int(p) for p in partitions] for topic, partitions in json.loads(text).items()}
    except (ValueError, AttributeError, TypeError):
        raise OptionError(f'option {name} must be JSON like {{"topic":[0,1]}}, not {text!r}') from None


def _by_partition(name: str, text: str, example: str, words: str = "") -> TopicOffsets:
    try:
        value = json.loads(text)
        return {topic: {str(int(p)): int(o) for p, o in partitions.items()} for topic, partitions in value.items()}
    except (ValueError, AttributeError, TypeError):
        raise OptionError(
            f'option {name} must be {words}JSON like {{"topic":{{"0":{example}}}}}, not {text!r}'
        ) from None


def _offsets(name: str, text: str, words: tuple[str, ...]) -> str | TopicOffsets:
    if text.strip().lower() in words:
        return text.strip().lower()
    offsets = _by_partition(name, text, "23", f"{', '.join(words)} or ")
    for topic, by in offsets.items():
        for partition, offset in by.items():
            if offset < EARLIEST:
                raise OptionError(
                    f"option {name}: {topic}-{partition} cannot be {offset}: give an offset, -1 for latest or -2 for earliest"
                )
    return offsets


def _timestamp(name: str, text: str) -> int:
    try:
        return int(text.strip())
    except ValueError:
        raise OptionError(f"option {name} must be a time in milliseconds since 1970, not {text!r}") from None


def _choice(name: str, text: str, values: tuple[str, ...]) -> str:
    if text.lower() not in values:
        raise OptionError(f"option {name} must be {' or '.join(values)}, not {text!r}")
    return text.lower()


def _flag(name: str, text: str) -> bool:
    return _choice(name, text, ("true", "false")) == "true"


def _count(name: str, text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise OptionError(f"option {name} must be a positive whole number, not {text!r}")
    return int(text)


def _duration_s(name: str, text: str) -> float:
    parts = re.fullmatch(r"(\d+)\s*([a-z]*)", text.strip().lower())
    if parts is None or parts[2] not in _UNITS_MS:
        raise OptionError(f"option {name} must be a time such as 500ms, 30s or 15m, not {text!r}")
    return int(parts[1]) * _UNITS_MS[parts[2]] / 1000


_PARSERS: dict[OptionKind, Callable[[str, str], Any]] = {
    OptionKind.TEXT: lambda _, text: text.strip(),
    OptionKind.TOPICS: _topics,
    OptionKind.PATTERN: _pattern,
    OptionKind.PARTITIONS: _partitions,
    OptionKind.START: lambda name, text: _offsets(name, text, ("earliest", "latest", "committed")),
    OptionKind.END: lambda name, text: _offsets(name, text, ("latest", "earliest")),
    OptionKind.TIMESTAMP: _timestamp,
    OptionKind.TIMESTAMPS: lambda name, text: _by_partition(name, text, "1700000000000"),
    OptionKind.STRATEGY: lambda name, text: _choice(name, text, ("error", "latest")),
    OptionKind.MODE: lambda name, text: _choice(name, text, ("assign", "group")),
    OptionKind.COUNT: _count,
    OptionKind.DURATION: _duration_s,
    OptionKind.FLAG: _flag,
}
