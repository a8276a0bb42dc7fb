"""Every option of the source and the sink, as one table: `options` reads them by it, docs/spark-options.md is drawn from it
(`python -m coterie.pipeline.option_table`). The names and what they mean are those of Spark's Kafka connector
(KafkaSourceProvider), and a few of our own; conformance's part `spark` compares what they do."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass


class Use(enum.Enum):
    """What a batch read, a stream or a write makes of an option."""

    USED = "yes"
    IGNORED = "ignored, with a warning"
    REFUSED = "refused"
    UNKNOWN = ""  # refused, with the nearest name


class OptionKind(enum.Enum):
    """How an option's text is read."""

    TEXT = "text"
    TOPICS = "topic names, with commas"
    PATTERN = "a regular expression"
    PARTITIONS = '`{"topic":[0,1]}`'
    START = 'earliest, latest, committed or `{"topic":{"0":23,"1":-2}}`'
    END = 'latest or `{"topic":{"0":23,"1":-1}}`'
    TIMESTAMP = "milliseconds since 1970"
    TIMESTAMPS = '`{"topic":{"0":1700000000000}}`'
    STRATEGY = "error or latest"
    MODE = "assign or group"
    COUNT = "a positive whole number"
    DURATION = "a time: 500ms, 30s, 15m, 2h, 1d; a number alone is ms"
    FLAG = "true or false"


@dataclass(frozen=True, slots=True)
class Option:
    name: str
    batch: Use
    stream: Use
    sink: Use
    kind: OptionKind
    default: str
    effect: str


Y, I, R, _ = Use.USED, Use.IGNORED, Use.REFUSED, Use.UNKNOWN  # noqa: E741

OPTIONS: tuple[Option, ...] = (
    Option("subscribe", Y, Y, _, OptionKind.TOPICS, "", "The topics to read."),
    Option(
        "subscribePattern",
        Y,
        Y,
        _,
        OptionKind.PATTERN,
        "",
        "All topics whose name has a match in it, internal ones never.",
    ),
    Option(
        "assign",
        Y,
        Y,
        _,
        OptionKind.PARTITIONS,
        "",
        "The partitions to read; partitions that do not exist are left out.",
    ),
    Option(
        "startingOffsets",
        Y,
        Y,
        _,
        OptionKind.START,
        "earliest; a stream: latest",
        "Where to begin. JSON names every partition, -2 for earliest, -1 (streams only) for latest; latest is for "
        "streams only. committed (ours): the group's offsets.",
    ),
    Option(
        "startingTimestamp",
        Y,
        Y,
        _,
        OptionKind.TIMESTAMP,
        "",
        "Begin at the first record of this time or later; wins over the two others.",
    ),
    Option(
        "startingOffsetsByTimestamp",
        Y,
        Y,
        _,
        OptionKind.TIMESTAMPS,
        "",
        "The same for each partition; wins over startingOffsets. Names every partition.",
    ),
    Option(
        "startingOffsetsByTimestampStrategy",
        Y,
        Y,
        _,
        OptionKind.STRATEGY,
        "error",
        "What to do where no record is that late: fail, or begin at the end.",
    ),
    Option(
        "endingOffsets",
        Y,
        R,
        _,
        OptionKind.END,
        "latest",
        "Where a batch read ends. JSON names every partition, -1 for latest.",
    ),
    Option(
        "endingTimestamp",
        Y,
        I,
        _,
        OptionKind.TIMESTAMP,
        "",
        "End before the first record of this time or later; wins over the two others.",
    ),
    Option(
        "endingOffsetsByTimestamp",
        Y,
        R,
        _,
        OptionKind.TIMESTAMPS,
        "",
        "The same for each partition; wins over endingOffsets. Names every partition.",
    ),
    Option(
        "maxOffsetsPerTrigger",
        I,
        Y,
        _,
        OptionKind.COUNT,
        "no limit",
        "Records per micro-batch, shared over partitions in proportion to what they have; of each at least one.",
    ),
    Option(
        "maxBytesPerTrigger",
        I,
        Y,
        _,
        OptionKind.COUNT,
        "no limit",
        "The same in bytes, by a sample of each partition (ours).",
    ),
    Option(
        "minOffsetsPerTrigger",
        I,
        Y,
        _,
        OptionKind.COUNT,
        "no minimum",
        "A micro-batch waits for so many records; the first one, and Trigger.AvailableNow, do not.",
    ),
    Option("maxTriggerDelay", I, Y, _, OptionKind.DURATION, "15m", "How long it waits for them at most."),
    Option(
        "minPartitions",
        Y,
        Y,
        _,
        OptionKind.COUNT,
        "",
        "At least about so many tasks: large partitions are cut, and with that lose their order. Otherwise a "
        "partition is a task.",
    ),
    Option(
        "maxRecordsPerPartition",
        Y,
        Y,
        _,
        OptionKind.COUNT,
        "",
        "At most so many records per task: larger partitions are cut, and with that lose their order.",
    ),
    Option(
        "failOnDataLoss",
        Y,
        Y,
        _,
        OptionKind.FLAG,
        "true",
        "Fail where records are gone, rather than go on without them.",
    ),
    Option("includeHeaders", Y, Y, I, OptionKind.FLAG, "false", "A column headers."),
    Option("mode", Y, Y, _, OptionKind.MODE, "assign", "group: the stream is a member of kafka.group.id (ours)."),
    Option(
        "pushDownPredicate",
        Y,
        I,
        _,
        OptionKind.FLAG,
        "false",
        "Fetch only what filters on topic, partition, offset and time leave (ours).",
    ),
    Option(
        "logFolder", Y, R, _, OptionKind.TEXT, "", "Read topics from a broker's data folder, without a broker (ours)."
    ),
    Option(
        "groupIdPrefix",
        I,
        I,
        _,
        OptionKind.TEXT,
        "",
        "Of the connector's group ids; coterie uses kafka.group.id or none.",
    ),
    Option(
        "kafkaConsumer.pollTimeoutMs",
        I,
        I,
        _,
        OptionKind.TEXT,
        "",
        "The connector's; here kafka.default.api.timeout.ms.",
    ),
    Option(
        "fetchOffset.numRetries", I, I, _, OptionKind.TEXT, "", "The connector's; here kafka.default.api.timeout.ms."
    ),
    Option(
        "fetchOffset.retryIntervalMs", I, I, _, OptionKind.TEXT, "", "The connector's; here kafka.retry.backoff.ms."
    ),
    Option("topic", _, _, Y, OptionKind.TEXT, "the column topic", "Where rows go; wins over the column."),
    Option("exactlyOnce", _, _, Y, OptionKind.FLAG, "false", "A transaction per task, ended together (ours)."),
)

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


def _markdown() -> Iterator[str]:
    yield "# Options of the Spark source and sink\n"
    yield "Drawn from `src/coterie/pipeline/option_table.py`. Names and behaviour are those of Spark's Kafka connector; what is"
    yield "marked *ours* it does not have. `./run conformance --part spark` asks both the same questions.\n"
    yield "An option that is in no row is refused, with the nearest name; the connector ignores it. `kafka.NAME` is the client"
    yield "setting NAME; one that only Java's clients have is ignored, with a warning.\n"
    yield "| option | batch read | stream | sink | takes | default | |"
    yield "|---|---|---|---|---|---|---|"
    for o in OPTIONS:
        uses = " | ".join(use.value for use in (o.batch, o.stream, o.sink))
        effect = o.effect.replace("(ours)", "*(ours)*")
        yield f"| `{o.name}` | {uses} | {o.kind.value} | {o.default} | {effect} |"
    yield "\nSettings that are refused:\n"
    yield "| setting | by | because |"
    yield "|---|---|---|"
    for where, settings in (("source", REFUSED_BY_SOURCE), ("sink", REFUSED_BY_SINK)):
        for name, instead in settings.items():
            yield f"| `kafka.{name}` | {where} | {instead} |"


def markdown() -> str:
    return "\n".join(_markdown()) + "\n"


if __name__ == "__main__":
    print(markdown(), end="")
