"""The options of the source and sink, read by `table` and checked, with a sentence for each mistake."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from coterie.client.errors import ConfigError
from coterie.client.settings.settings import CLIENT_SETTINGS, ClientSettings, client_settings
from coterie.configuration import SettingError, nearest, with_values
from coterie.pipeline.offsets import EARLIEST, LATEST, TopicOffsets
from coterie.pipeline.options.table import (
    IGNORED_PREFIXES,
    OPTIONS,
    REFUSED_BY_SINK,
    REFUSED_BY_SOURCE,
    SPARKS_OWN,
    Option,
    OptionValues,
    Use,
)
from coterie.pipeline.options.types import OptionError

_NAMES = {"batch": "batch read", "stream": "stream", "sink": "write"}
_warned: set[str] = set()


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """A read's options. Exactly one of subscribe, pattern and assign gives the topics."""

    client: dict[str, str] = field(repr=False)  # the options kafka.…, without that prefix: the client's settings
    subscribe: tuple[str, ...] = ()
    pattern: str | None = None  # found anywhere in a topic's name
    assign: dict[str, list[int]] = field(default_factory=dict)
    in_group: bool = False  # mode=group: the reader is a member; else Spark's checkpoint alone has the offsets
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
    log_folder: str | None = None  # read the topics' files there instead of requesting them from a broker
    warnings: tuple[str, ...] = ()  # a sentence for each option that has no effect

    @property
    def group_id(self) -> str | None:
        """The option kafka.group.id."""
        return self.client.get("group.id")

    def settings(self) -> ClientSettings:
        """Raises ConfigError."""
        return client_settings(self.client)


def source_options(given: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    """Raises OptionError."""
    options = {name.lower(): value for name, value in given.items()}
    values, warnings = _parsed(options, "stream" if streaming else "batch")
    client: dict[str, str] = {}
    if values.log_folder is None:
        client, unknown = _client_settings(options, REFUSED_BY_SOURCE)
        warnings += unknown
    _check_which(values)
    first = "latest" if streaming else "earliest"
    starting, starting_timestamps = _side(
        values.starting_timestamp, values.starting_offsets_by_timestamp, values.starting_offsets, first
    )
    ending, ending_timestamps = _side(
        values.ending_timestamp, values.ending_offsets_by_timestamp, values.ending_offsets, "latest"
    )
    if not streaming:
        _check_bounds(starting, ending)
    if values.mode == "group":
        _check_group_mode(values, client, streaming)
    _check_limits(values)
    return SourceOptions(
        client,
        subscribe=values.subscribe or (),
        pattern=values.subscribe_pattern,
        assign=values.assign or {},
        in_group=values.mode == "group",
        starting=starting,
        ending=ending,
        starting_timestamps=starting_timestamps,
        ending_timestamps=ending_timestamps,
        late_is_an_error=values.starting_offsets_by_timestamp_strategy != "latest",
        max_offsets_per_trigger=values.max_offsets_per_trigger,
        min_offsets_per_trigger=values.min_offsets_per_trigger,
        max_trigger_delay_s=values.max_trigger_delay_s,
        max_bytes_per_trigger=values.max_bytes_per_trigger,
        min_partitions=values.min_partitions,
        max_records_per_partition=values.max_records_per_partition,
        fail_on_data_loss=values.fail_on_data_loss,
        include_headers=values.include_headers,
        push_down=values.push_down_predicate,
        log_folder=values.log_folder,
        warnings=tuple(warnings),
    )


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """A write's options. ``topic`` None: the rows name theirs; ``warnings`` are about options without effect."""

    client: dict[str, str] = field(repr=False)
    topic: str | None
    exactly_once: bool
    warnings: tuple[str, ...]


def sink_options(given: Mapping[str, str]) -> SinkOptions:
    """Raises OptionError."""
    options = {name.lower(): value for name, value in given.items()}
    values, warnings = _parsed(options, "sink")
    client, unknown = _client_settings(options, REFUSED_BY_SINK)
    return SinkOptions(client, values.topic, values.exactly_once, tuple(warnings + unknown))


def warn(warnings: Iterable[str]) -> None:
    """Logs each once per process, on which a Spark worker prints it."""
    for text in warnings:
        if text not in _warned:
            _warned.add(text)
            logging.getLogger(__name__).warning(text)


# -- the table applied --------------------------------------------------------------------------------------------------------


def _parsed(options: Mapping[str, str], what: str) -> tuple[OptionValues, list[str]]:
    """The values of the options with an effect in ``what`` (batch, stream or sink), and warnings of the others."""
    table = {o.name.lower(): o for o in OPTIONS.values() if _use(o, what) is not Use.UNKNOWN}
    used: dict[str, object] = {}
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
            used[option.name] = _value(option, text)
    return with_values(OptionValues, used), warnings


def _value(option: Option[object], text: str) -> object:
    try:
        return option.parse(text)
    except SettingError as error:
        raise OptionError(f"option {error}") from None


def _use(option: Option[object], what: str) -> Use:
    use: Use = getattr(option, what)
    return use


def _ignored(option: Option[object], what: str) -> str:
    if option.batch is option.stream is Use.IGNORED:
        return f"option {option.name} has no effect: {option.documentation}"
    return f"option {option.name} has no effect in a {_NAMES[what]}"


def _unknown(name: str, what: str, names: list[str]) -> str:
    meant = nearest(name, names) or f"; it has {', '.join(names)} and kafka.…"
    return f"the coterie {'sink' if what == 'sink' else 'source'} has no option {name}{meant}"


def _client_settings(options: Mapping[str, str], refused: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """The options kafka.… that the client has, and warnings of the ones that Java's clients alone have. Raises OptionError,
    for every other name too."""
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
        raise OptionError(f"a kafka.… option is wrong: {error}") from error
    return known, [_without_effect(n) for n in client if n not in known]


def _without_effect(name: str) -> str:
    """Raises OptionError for a name that no client of Kafka has."""
    from coterie.client.settings.foreign import (  # few options need it, and every task reads options
        JAVA_SETTINGS,
        foreign_setting,
    )

    if name not in JAVA_SETTINGS:
        foreign = foreign_setting(name)
        if foreign is not None:
            raise OptionError(f"option kafka.{foreign}")
        meant = nearest(f"kafka.{name}", [f"kafka.{known}" for known in CLIENT_SETTINGS], 0.8)
        raise OptionError(f"option kafka.{name}: there is no client setting {name}{meant or ': leave it out'}")
    return f"option kafka.{name} has no effect: coterie's client has no such setting"


# -- checks of several options together ---------------------------------------------------------------------------------------


def _check_which(values: OptionValues) -> None:
    if sum(which is not None for which in (values.subscribe, values.subscribe_pattern, values.assign)) != 1:
        raise OptionError("say what to read with exactly one of the options subscribe, subscribePattern and assign")


def _side(
    timestamp: int | None, by_timestamp: TopicOffsets | None, offsets: str | TopicOffsets | None, default: str
) -> tuple[str | TopicOffsets, int | TopicOffsets | None]:
    """Offsets and timestamps of an end of the range; of what is given, the first in this order wins."""
    if timestamp is not None:
        return default, timestamp
    if by_timestamp is not None:
        return default, by_timestamp
    return default if offsets is None else offsets, None


def _check_bounds(starting: str | TopicOffsets, ending: str | TopicOffsets) -> None:
    """Checks the bounds of a batch read, which can neither begin at the end nor end at the beginning."""
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


def _check_group_mode(values: OptionValues, client: Mapping[str, str], streaming: bool) -> None:
    if not streaming:
        raise OptionError("mode=group is for streams; a batch read has no membership: leave the option mode out")
    if not client.get("group.id"):
        raise OptionError("mode=group needs the option kafka.group.id")
    if values.assign is not None:
        raise OptionError("mode=group and assign exclude each other: the coordinator of a group assigns; use subscribe")
    if isinstance(values.starting_offsets, dict) or values.starting_offsets_by_timestamp is not None:
        raise OptionError(
            "in mode=group the group's offsets come first: startingOffsets may be earliest or latest only, "
            "or give startingTimestamp"
        )


def _check_limits(values: OptionValues) -> None:
    least, most = values.min_offsets_per_trigger, values.max_offsets_per_trigger
    if least is not None and most is not None and least > most:
        raise OptionError(f"minOffsetsPerTrigger={least} is larger than maxOffsetsPerTrigger={most}: lower it")
