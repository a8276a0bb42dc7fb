"""The options of the source and sink: the names of Spark's Kafka source, checked, with a sentence for each mistake."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from coterie.client.errors import ConfigError
from coterie.client.settings import DEFAULTS, ClientSettings
from coterie.pipeline.offsets import TopicOffsets

_SOURCE = (
    "subscribe",
    "subscribePattern",
    "assign",
    "mode",
    "startingOffsets",
    "endingOffsets",
    "startingTimestamp",
    "endingTimestamp",
    "startingOffsetsByTimestamp",
    "endingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "maxBytesPerTrigger",
    "minPartitions",
    "maxRecordsPerPartition",
    "failOnDataLoss",
    "includeHeaders",
    "pushDownPredicate",
    "logFolder",
)
_SINK = ("topic", "includeHeaders", "exactlyOnce")
_SPARKS_OWN = frozenset({"path", "checkpointlocation"})
_STRATEGIES = ("error", "latest")


class OptionError(ValueError):
    """An option that is missing, unknown or has a bad value."""


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What a read was asked for. Exactly one of subscribe, pattern and assign is set."""

    client: dict[str, str] = field(repr=False)  # the options kafka.…, without that prefix: the client's settings
    subscribe: tuple[str, ...] = ()
    pattern: str | None = None
    assign: dict[str, list[int]] = field(default_factory=dict)
    in_group: bool = False  # mode=group: the reader is a member; else Spark's checkpoint alone says what is read
    starting: str | TopicOffsets = "earliest"  # "earliest", "latest", "committed" or offsets
    ending: str | TopicOffsets = "latest"
    starting_timestamps: int | TopicOffsets | None = None  # ms since 1970
    ending_timestamps: int | TopicOffsets | None = None
    late_is_an_error: bool = False  # a starting timestamp that no record has reached
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

    @property
    def group_id(self) -> str | None:
        return self.client.get("group.id")

    def settings(self) -> ClientSettings:
        """Raises ConfigError."""
        return ClientSettings(self.client)


def source_options(given: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    """Raises OptionError."""
    options = _known(given, _SOURCE, "source")
    log_folder = options.get("logfolder")
    if log_folder is not None and streaming:
        raise OptionError("logFolder is for a batch read; a stream needs a broker that says when there is more")
    client = {} if log_folder is not None else client_settings(options)
    chosen = [n for n in ("subscribe", "subscribepattern", "assign") if options.get(n)]
    if len(chosen) != 1:
        raise OptionError("say what to read with exactly one of the options subscribe, subscribePattern and assign")
    mode = _choice(options, "mode", ("assign", "group"))
    if mode == "group":
        _check_group_mode(options, client, streaming)
    strategy = _choice(options, "startingOffsetsByTimestampStrategy", _STRATEGIES)
    return SourceOptions(
        client,
        tuple(t.strip() for t in options.get("subscribe", "").split(",") if t.strip()),
        options.get("subscribepattern"),
        {t: list(p) for t, p in _json(options.get("assign", "{}"), "assign").items()},
        mode == "group",
        _offsets(options.get("startingoffsets", "latest" if streaming else "earliest"), "startingOffsets"),
        _offsets(options.get("endingoffsets", "latest"), "endingOffsets"),
        _timestamps(options, "starting"),
        _timestamps(options, "ending"),
        strategy == "error" and any(n in options for n in ("startingtimestamp", "startingoffsetsbytimestamp")),
        _number(options, "maxOffsetsPerTrigger"),
        _number(options, "minOffsetsPerTrigger"),
        _seconds(options.get("maxtriggerdelay", "15m"), "maxTriggerDelay"),
        _number(options, "maxBytesPerTrigger"),
        _number(options, "minPartitions"),
        _number(options, "maxRecordsPerPartition"),
        flag(options, "failOnDataLoss", True),
        flag(options, "includeHeaders", False),
        flag(options, "pushDownPredicate", False),
        log_folder,
    )


def _check_group_mode(options: Mapping[str, str], client: Mapping[str, str], streaming: bool) -> None:
    if not streaming:
        raise OptionError("mode=group is for streams; a batch read has no membership: leave the option mode out")
    if not client.get("group.id"):
        raise OptionError("mode=group needs the option kafka.group.id")
    if options.get("assign"):
        raise OptionError("mode=group and assign exclude each other: in a group the group says who reads what")
    if options.get("startingoffsets", "").startswith("{"):
        raise OptionError(
            "in mode=group the group's offsets come first: startingOffsets may be earliest or latest only"
        )


def sink_options(given: Mapping[str, str]) -> dict[str, str]:
    """By lower-case name. Raises OptionError."""
    options = _known(given, _SINK, "sink")
    client_settings(options)
    return options


def _known(given: Mapping[str, str], names: Sequence[str], what: str) -> dict[str, str]:
    options = {name.lower(): value for name, value in given.items()}
    known = {n.lower(): n for n in names}
    for name in options:
        if name not in known and name not in _SPARKS_OWN and not name.startswith("kafka."):
            close = difflib.get_close_matches(name, known, n=1)
            meant = f"; did you mean {known[close[0]]}?" if close else f"; it has {', '.join(names)} and kafka.…"
            raise OptionError(f"the coterie {what} has no option {name}{meant}")
    return options


def client_settings(options: Mapping[str, str]) -> dict[str, str]:
    """The client settings among options by lower-case name. Raises OptionError."""
    client = {n.removeprefix("kafka."): v for n, v in options.items() if n.startswith("kafka.")}
    if "bootstrap.servers" not in client:
        raise OptionError("say where the broker is with the option kafka.bootstrap.servers, as HOST:PORT")
    try:
        settings = ClientSettings({n: v for n, v in client.items() if n in DEFAULTS or n not in _JAVA_ONLY})
        settings.bootstrap()
        settings.security()
    except ConfigError as error:
        raise OptionError(f"a bad kafka. option: {error}") from error
    return {n: v for n, v in client.items() if n in DEFAULTS}


# What programs written for Spark's Kafka source may bring along and what means nothing here.
_JAVA_ONLY = frozenset({"key.deserializer", "value.deserializer", "receive.buffer.bytes", "send.buffer.bytes"})


def _choice(options: Mapping[str, str], name: str, values: tuple[str, ...]) -> str:
    value = options.get(name.lower(), values[0]).lower()
    if value not in values:
        raise OptionError(f"option {name} must be {' or '.join(values)}, not {value!r}")
    return value


def flag(options: Mapping[str, str], name: str, default: bool) -> bool:
    """Raises OptionError."""
    return _choice(options, name, ("true", "false") if default else ("false", "true")) == "true"


def _number(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name.lower())
    if text is None:
        return None
    if not text.isdigit() or int(text) < 1:
        raise OptionError(f"option {name} must be a positive whole number, not {text!r}")
    return int(text)


def _seconds(text: str, name: str) -> float:
    units = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
    digits = text.strip().rstrip("msh")
    unit = text.strip()[len(digits) :]
    if not digits.isdigit() or unit not in units:
        raise OptionError(f"option {name} must be a time such as 500ms, 30s or 15m, not {text!r}")
    return int(digits) * units[unit]


def _json(text: str, name: str) -> dict[str, list[int]]:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise OptionError(f'option {name} must be JSON like {{"topic":[0,1]}}, not {text!r}')
    return value


def _by_partition(text: str) -> TopicOffsets | None:
    try:
        value = json.loads(text)
        return {topic: {str(p): int(o) for p, o in partitions.items()} for topic, partitions in value.items()}
    except (ValueError, AttributeError, TypeError):
        return None


def _offsets(text: str, name: str) -> str | TopicOffsets:
    if text.lower() in ("earliest", "latest", "committed"):
        return text.lower()
    value: Any = _by_partition(text)
    if value is None:
        raise OptionError(
            f'option {name} must be earliest, latest, committed or JSON like {{"topic":{{"0":23}}}}, not {text!r}'
        )
    offsets: TopicOffsets = value
    return offsets


def _timestamps(options: Mapping[str, str], side: str) -> int | TopicOffsets | None:
    by_partition = options.get(f"{side}offsetsbytimestamp")
    if by_partition is None:
        return _number(options, f"{side}Timestamp")
    value = _by_partition(by_partition)
    if value is None:
        text = f'option {side}OffsetsByTimestamp must be JSON like {{"topic":{{"0":1700000000000}}}}'
        raise OptionError(f"{text}, not {by_partition!r}")
    return value
