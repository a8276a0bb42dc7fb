"""The options of the source and sink: the names of Spark's Kafka source, checked, with a sentence for each mistake."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass

TopicOffsets = dict[str, dict[str, int]]  # topic -> partition (as text) -> offset; -1 latest, -2 earliest

_KNOWN = {
    "kafka.bootstrap.servers",
    "kafka.group.id",
    "subscribe",
    "subscribepattern",
    "assign",
    "startingoffsets",
    "endingoffsets",
    "startingtimestamp",
    "maxoffsetspertrigger",
    "minpartitions",
    "failondataloss",
    "includeheaders",
    "topic",
    "path",
}


class OptionError(ValueError):
    """An option that is missing, unknown or has a bad value."""


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What a read was asked for. Exactly one of subscribe, pattern and assign is set."""

    host: str
    port: int
    group_id: str | None
    subscribe: tuple[str, ...]
    pattern: str | None
    assign: dict[str, list[int]]
    starting: str | TopicOffsets  # "earliest", "latest", "committed" or offsets
    ending: str | TopicOffsets
    starting_timestamp_ms: int | None
    max_offsets_per_trigger: int | None
    tasks: int
    fail_on_data_loss: bool
    include_headers: bool


def bootstrap(options: Mapping[str, str]) -> tuple[str, int]:
    """The first address of kafka.bootstrap.servers. Raises OptionError."""
    text = options.get("kafka.bootstrap.servers", "")
    host, colon, port = text.split(",")[0].strip().rpartition(":")
    if not colon or not port.isdigit():
        raise OptionError(f"option kafka.bootstrap.servers must be HOST:PORT, not {text!r}")
    return host.strip("[]"), int(port)


def source_options(given: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    """Raises OptionError."""
    options = {name.lower(): value for name, value in given.items()}
    unknown = sorted(n for n in options if n not in _KNOWN and not n.startswith("kafka."))
    if unknown:
        raise OptionError(f"the coterie source has no option {unknown[0]}; it has {', '.join(sorted(_KNOWN))}")
    host, port = bootstrap(options)
    chosen = [n for n in ("subscribe", "subscribepattern", "assign") if options.get(n)]
    if len(chosen) != 1:
        raise OptionError("say what to read with exactly one of the options subscribe, subscribePattern and assign")
    timestamp = options.get("startingtimestamp")
    limit = options.get("maxoffsetspertrigger")
    return SourceOptions(
        host,
        port,
        options.get("kafka.group.id"),
        tuple(t.strip() for t in options.get("subscribe", "").split(",") if t.strip()),
        options.get("subscribepattern"),
        {t: list(p) for t, p in _json(options.get("assign", "{}"), "assign").items()},
        _offsets(options.get("startingoffsets", "latest" if streaming else "earliest"), "startingOffsets"),
        _offsets(options.get("endingoffsets", "latest"), "endingOffsets"),
        None if timestamp is None else _number(timestamp, "startingTimestamp"),
        None if limit is None else _number(limit, "maxOffsetsPerTrigger"),
        _number(options.get("minpartitions", str(os.cpu_count() or 1)), "minPartitions"),
        options.get("failondataloss", "true").lower() != "false",
        options.get("includeheaders", "false").lower() == "true",
    )


def _number(text: str, name: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise OptionError(f"option {name} must be a positive whole number, not {text!r}")
    return int(text)


def _json(text: str, name: str) -> dict[str, list[int]]:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise OptionError(f'option {name} must be JSON like {{"topic":[0,1]}}, not {text!r}')
    return value


def _offsets(text: str, name: str) -> str | TopicOffsets:
    if text.lower() in ("earliest", "latest", "committed"):
        return text.lower()
    try:
        value = json.loads(text)
        return {topic: {str(p): int(o) for p, o in partitions.items()} for topic, partitions in value.items()}
    except (ValueError, AttributeError, TypeError):
        raise OptionError(
            f'option {name} must be earliest, latest, committed or JSON like {{"topic":{{"0":23}}}}, not {text!r}'
        ) from None
