"""Every option of the source and the sink, as one table: `options` reads them by it, docs/spark-options.md is drawn from it
(`python -m coterie.pipeline.options.table`). The names and what they mean are those of Spark's Kafka connector
(KafkaSourceProvider), and a few of our own; conformance's part `spark` compares what they do."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

from coterie.configuration import BOOLEAN, STRING, Setting, ValueType, declared, format_value, settings_of
from coterie.pipeline.offsets import TopicOffsets
from coterie.pipeline.options.types import (
    COUNT,
    DURATION_S,
    END,
    MODE,
    PARTITIONS,
    PATTERN,
    START,
    STRATEGY,
    TIMESTAMP,
    TIMESTAMPS,
    TOPICS,
)

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Use(enum.Enum):
    """The effect of an option in a batch read, a stream or a write."""

    USED = "yes"
    IGNORED = "ignored, with a warning"
    REFUSED = "refused"
    UNKNOWN = ""  # refused, with the nearest name


@dataclass(frozen=True, slots=True)
class Option(Setting[T_co]):
    """An option, and what each of the three makes of it. ``shown``: the default in words, where it is no single value."""

    batch: Use = Use.UNKNOWN
    stream: Use = Use.UNKNOWN
    sink: Use = Use.UNKNOWN
    shown: str = ""

    @property
    def shown_default(self) -> str:
        """The default as the table shows it; empty where there is none."""
        return self.shown or format_value(self.default) or ""


def _option(
    name: str,
    value_type: ValueType[T],
    default: T,
    batch: Use,
    stream: Use,
    sink: Use,
    documentation: str,
    *,
    shown: str = "",
) -> T:
    return declared(Option(name, value_type, default, None, documentation, "", batch, stream, sink, shown))


Y, I, R, _ = Use.USED, Use.IGNORED, Use.REFUSED, Use.UNKNOWN  # noqa: E741


@dataclass(frozen=True, slots=True)
class OptionValues:
    """The values of the options as given; None or the default where an option is not given."""

    subscribe: tuple[str, ...] | None = _option("subscribe", TOPICS, None, Y, Y, _, "The topics to read.")
    subscribe_pattern: str | None = _option(
        "subscribePattern", PATTERN, None, Y, Y, _, "All topics whose name has a match in it, internal ones never."
    )
    assign: dict[str, list[int]] | None = _option(
        "assign", PARTITIONS, None, Y, Y, _, "The partitions to read; partitions that do not exist are left out."
    )
    starting_offsets: str | TopicOffsets | None = _option(
        "startingOffsets",
        START,
        None,
        Y,
        Y,
        _,
        "Where to begin. JSON names every partition, -2 for earliest, -1 (streams only) for latest; latest is for "
        "streams only. committed (ours): the group's offsets. A stream reads partitions that come later from their beginning.",
        shown="earliest; a stream: latest",
    )
    starting_timestamp: int | None = _option(
        "startingTimestamp",
        TIMESTAMP,
        None,
        Y,
        Y,
        _,
        "Begin at the first record of this time or later; wins over the two others.",
    )
    starting_offsets_by_timestamp: TopicOffsets | None = _option(
        "startingOffsetsByTimestamp",
        TIMESTAMPS,
        None,
        Y,
        Y,
        _,
        "The same for each partition; wins over startingOffsets. Names every partition.",
    )
    starting_offsets_by_timestamp_strategy: str = _option(
        "startingOffsetsByTimestampStrategy",
        STRATEGY,
        "error",
        Y,
        Y,
        _,
        "What to do where no record is that late: fail, or begin at the end.",
    )
    ending_offsets: str | TopicOffsets | None = _option(
        "endingOffsets",
        END,
        None,
        Y,
        R,
        _,
        "Where a batch read ends. JSON names every partition, -1 for latest.",
        shown="latest",
    )
    ending_timestamp: int | None = _option(
        "endingTimestamp",
        TIMESTAMP,
        None,
        Y,
        I,
        _,
        "End before the first record of this time or later; wins over the two others.",
    )
    ending_offsets_by_timestamp: TopicOffsets | None = _option(
        "endingOffsetsByTimestamp",
        TIMESTAMPS,
        None,
        Y,
        R,
        _,
        "The same for each partition; wins over endingOffsets. Names every partition.",
    )
    max_offsets_per_trigger: int | None = _option(
        "maxOffsetsPerTrigger",
        COUNT,
        None,
        I,
        Y,
        _,
        "Records per micro-batch, shared over partitions in proportion to what they have; of each at least one.",
        shown="no limit",
    )
    max_bytes_per_trigger: int | None = _option(
        "maxBytesPerTrigger",
        COUNT,
        None,
        I,
        Y,
        _,
        "The same in bytes, by a sample of each partition (ours).",
        shown="no limit",
    )
    min_offsets_per_trigger: int | None = _option(
        "minOffsetsPerTrigger",
        COUNT,
        None,
        I,
        Y,
        _,
        "A micro-batch waits for so many records; the first one, and Trigger.AvailableNow, do not.",
        shown="no minimum",
    )
    max_trigger_delay_s: float = _option(
        "maxTriggerDelay", DURATION_S, 900.0, I, Y, _, "How long it waits for them at most.", shown="15m"
    )
    min_partitions: int | None = _option(
        "minPartitions",
        COUNT,
        None,
        Y,
        Y,
        _,
        "At least about so many tasks: large partitions are cut, and with that lose their order. Otherwise a "
        "partition is a task.",
    )
    max_records_per_partition: int | None = _option(
        "maxRecordsPerPartition",
        COUNT,
        None,
        Y,
        Y,
        _,
        "At most so many records per task: larger partitions are cut, and with that lose their order.",
    )
    fail_on_data_loss: bool = _option(
        "failOnDataLoss", BOOLEAN, True, Y, Y, _, "Fail where records are gone, rather than go on without them."
    )
    include_headers: bool = _option("includeHeaders", BOOLEAN, False, Y, Y, I, "A column headers.")
    mode: str = _option("mode", MODE, "assign", Y, Y, _, "group: the stream is a member of kafka.group.id (ours).")
    push_down_predicate: bool = _option(
        "pushDownPredicate",
        BOOLEAN,
        False,
        Y,
        I,
        _,
        "Fetch only what filters on topic, partition, offset and time leave (ours).",
    )
    log_folder: str | None = _option(
        "logFolder", STRING, None, Y, R, _, "Read topics from a broker's data folder, without a broker (ours)."
    )
    group_id_prefix: str | None = _option(
        "groupIdPrefix", STRING, None, I, I, _, "Of the connector's group ids; coterie uses kafka.group.id or none."
    )
    kafka_consumer_poll_timeout_ms: str | None = _option(
        "kafkaConsumer.pollTimeoutMs", STRING, None, I, I, _, "The connector's; here kafka.default.api.timeout.ms."
    )
    fetch_offset_num_retries: str | None = _option(
        "fetchOffset.numRetries", STRING, None, I, I, _, "The connector's; here kafka.default.api.timeout.ms."
    )
    fetch_offset_retry_interval_ms: str | None = _option(
        "fetchOffset.retryIntervalMs", STRING, None, I, I, _, "The connector's; here kafka.retry.backoff.ms."
    )
    topic: str | None = _option(
        "topic", STRING, None, _, _, Y, "Where rows go; wins over the column.", shown="the column topic"
    )
    exactly_once: bool = _option(
        "exactlyOnce", BOOLEAN, False, _, _, Y, "A transaction per task, ended together (ours)."
    )


OPTIONS: dict[str, Option[object]] = settings_of(OptionValues, Option)

SPARKS_OWN = frozenset({"path", "checkpointlocation"})
IGNORED_PREFIXES = ("spark.kafka.",)  # the connector's caches of consumers and producers

# Client settings (kafka.…) that the connector refuses, with what to do instead.
REFUSED_BY_SOURCE = {
    "auto.offset.reset": "give startingOffsets",
    "key.deserializer": "keys are bytes: cast the column key",
    "value.deserializer": "values are bytes: cast the column value",
    "enable.auto.commit": "Spark's checkpoint says what was read; kafka.group.id has it committed",
    "interceptor.classes": "interceptors could change what is read",
}
REFUSED_BY_SINK = {
    "key.serializer": "keys are bytes: cast the column key to string or binary",
    "value.serializer": "values are bytes: cast the column value to string or binary",
}


def _taken(option: Option[object]) -> str:
    """The option's accepted values, JSON as code."""
    return re.sub(r"\{.*\}", r"`\g<0>`", option.value_type.text)


def _markdown() -> Iterator[str]:
    yield "# Options of the Spark source and sink\n"
    yield "Drawn from `src/coterie/pipeline/options/table.py`. Names and behaviour are those of Spark's Kafka connector; what"
    yield "is marked *ours* it does not have. `./run conformance --part spark` requires the same of both.\n"
    yield "An option that is in no row is refused, with the nearest name; the connector ignores it. `kafka.NAME` is the client"
    yield "setting NAME; one that only Java's clients have is ignored, with a warning, and one that none has is refused.\n"
    yield "Where `kafka.delivery.timeout.ms` is given, a write to a broker that is away ends by it: `kafka.max.block.ms` and"
    yield "`kafka.default.api.timeout.ms` are no longer than it unless they are given too.\n"
    yield "| option | batch read | stream | sink | takes | default | |"
    yield "|---|---|---|---|---|---|---|"
    for o in OPTIONS.values():
        uses = " | ".join(use.value for use in (o.batch, o.stream, o.sink))
        effect = o.documentation.replace("(ours)", "*(ours)*")
        yield f"| `{o.name}` | {uses} | {_taken(o)} | {o.shown_default} | {effect} |"
    yield "\nSettings that are refused:\n"
    yield "| setting | by | because |"
    yield "|---|---|---|"
    for where, settings in (("source", REFUSED_BY_SOURCE), ("sink", REFUSED_BY_SINK)):
        for name, instead in settings.items():
            yield f"| `kafka.{name}` | {where} | {instead} |"


def markdown() -> str:
    """The page docs/spark-options.md, made of OPTIONS and the refused settings."""
    return "\n".join(_markdown()) + "\n"


if __name__ == "__main__":
    print(markdown(), end="")
