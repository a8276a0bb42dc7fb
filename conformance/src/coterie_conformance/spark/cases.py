"""The options of a Spark source and sink, as data: reads and writes with options, and the result of each. Tests ask
coterie's source and sink; conformance's part `spark` asks Spark's own connector as well, and compares."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

T0_MS = 1_700_000_000_000  # the timestamp of a partition's first record; each further one is a second later
# Records per partition. The first five of cases-gone are deleted.
TOPICS: dict[str, tuple[int, ...]] = {
    "cases-a": (10, 5),
    "cases-ab": (2,),
    "cases-gone": (10,),
    "cases-skewed": (100, 2),
    "cases-many": (3,) * 20,
}
DELETED = {("cases-gone", 0): 5}

Rows = Mapping[str, tuple[int, int]]  # by partition: the first offset, and the one after the last


@dataclass(frozen=True, slots=True)
class SparkCase:
    """A batch read, a streaming read (Trigger.AvailableNow, from the first record on unless the options say otherwise) or a
    write, and what it gives: a refusal whose sentence has ``refused`` in it, or ``rows``.

    The rows of a write are those of the topic {out} afterwards, as "key=value". ``batches``: how many rows each
    micro-batch has, where that is fixed. ``differs``: what Spark's connector does instead, and why ours does not."""

    name: str
    use: str  # batch, stream or write
    options: Mapping[str, str]
    refused: str = ""
    rows: Rows | tuple[str, ...] = ()
    batches: tuple[int, ...] = ()
    columns: str = ""  # of a write: DDL
    data: tuple[tuple[Any, ...], ...] = ()
    save_mode: str = "append"
    differs: str = ""


A = {"cases-a-0": (0, 10), "cases-a-1": (0, 5)}
GONE = {"cases-gone-0": (5, 10)}
NOTHING: Rows = {}


def _by_partition(*values: int, topic: str = "cases-a") -> str:
    return json.dumps({topic: {str(p): value for p, value in enumerate(values)}})


def _at(seconds: int) -> int:
    return T0_MS + 1000 * seconds


def _read(use: str, name: str, options: Mapping[str, str], **gives: Any) -> SparkCase:
    chosen = {} if {"subscribe", "subscribePattern", "assign"} & options.keys() else {"subscribe": "cases-a"}
    begin = {"startingOffsets": "earliest"} if use == "stream" else {}
    return SparkCase(name, use, {**chosen, **begin, **options}, **gives)


def _batch(name: str, options: Mapping[str, str], **gives: Any) -> SparkCase:
    return _read("batch", name, options, **gives)


def _stream(name: str, options: Mapping[str, str], **gives: Any) -> SparkCase:
    return _read("stream", name, options, **gives)


def _write(
    name: str, columns: str, *data: tuple[Any, ...], options: Mapping[str, str] | None = None, **more: Any
) -> SparkCase:
    return SparkCase(
        name, "write", {"topic": "{out}"} if options is None else options, columns=columns, data=data, **more
    )


_WHICH = (
    _batch("no topic is named", {"subscribe": " , "}, refused="names no topic"),
    _batch("two ways to say which", {"subscribe": "cases-a", "assign": '{"cases-a":[0]}'}, refused="exactly one"),
    _batch("a list with blanks", {"subscribe": " cases-a ,, cases-ab"}, rows=A | {"cases-ab-0": (0, 2)}),
    _batch("a topic that is missing", {"subscribe": "cases-none"}, refused="UNKNOWN_TOPIC_OR_PARTITION"),
    _stream("a topic that is missing", {"subscribe": "cases-none"}, refused="UNKNOWN_TOPIC_OR_PARTITION"),
    _batch("a pattern", {"subscribePattern": "cases-a.*"}, rows=A | {"cases-ab-0": (0, 2)}),
    _batch("a pattern within a name", {"subscribePattern": "ses-ab"}, rows={"cases-ab-0": (0, 2)}),
    _batch("a pattern that no topic has", {"subscribePattern": "cases-none"}, rows=NOTHING),
    _batch("an empty pattern", {"subscribePattern": " "}, refused="is empty"),
    _batch("no pattern", {"subscribePattern": "cases-["}, refused="not a regular expression"),
    _batch("assign", {"assign": '{"cases-a":[1]}'}, rows={"cases-a-1": (0, 5)}),
    _batch("assign, a list", {"assign": "[1]"}, refused="must be JSON like"),
    _batch("assign, words", {"assign": '{"cases-a":["one"]}'}, refused="must be JSON like"),
    _batch("assign, a missing partition", {"assign": '{"cases-a":[1,7]}'}, rows={"cases-a-1": (0, 5)}),
    _batch("assign, a missing topic", {"assign": '{"cases-none":[0]}'}, refused="UNKNOWN_TOPIC_OR_PARTITION"),
    _batch("assign, nothing", {"assign": "{}"}, rows=NOTHING),
)

_STARTS = (
    _batch("from latest", {"startingOffsets": "latest"}, refused="startingOffsets=latest"),
    _batch("from EARLIEST", {"startingOffsets": "EARLIEST"}, rows=A),
    _batch("from a word", {"startingOffsets": "yesterday"}, refused="must be earliest"),
    _batch("from offsets", {"startingOffsets": _by_partition(3, -2)}, rows={"cases-a-0": (3, 10), "cases-a-1": (0, 5)}),
    _batch("from a partition's latest", {"startingOffsets": _by_partition(3, -1)}, refused="latest"),
    _batch("from offsets of one partition", {"startingOffsets": _by_partition(3)}, refused="missing: cases-a-1"),
    _batch(
        "from offsets of three partitions", {"startingOffsets": _by_partition(3, 3, 3)}, refused="not read: cases-a-2"
    ),
    _batch(
        "from offsets of another topic",
        {"startingOffsets": _by_partition(3, 3, topic="cases-b")},
        refused="missing: cases-a-0",
    ),
    _batch("from beyond the end", {"startingOffsets": _by_partition(50, 0)}, refused="ends at 10"),
    _batch(
        "from beyond the end, lenient",
        {"startingOffsets": _by_partition(50, 0), "failOnDataLoss": "false"},
        refused="ends at 10",
    ),
    _batch("from below -2", {"startingOffsets": _by_partition(-5, 0)}, refused="-1 for latest"),
    _batch(
        "from deleted records",
        {"subscribe": "cases-gone", "startingOffsets": _by_partition(0, topic="cases-gone")},
        refused="failOnDataLoss=false",
    ),
    _batch(
        "from deleted records, lenient",
        {"subscribe": "cases-gone", "startingOffsets": _by_partition(0, topic="cases-gone"), "failOnDataLoss": "false"},
        rows=GONE,
    ),
    _batch("from earliest, some deleted", {"subscribe": "cases-gone"}, rows=GONE),
    _stream("from latest", {"startingOffsets": "latest"}, rows=NOTHING),
    _stream("from offsets", {"startingOffsets": _by_partition(3, -1)}, rows={"cases-a-0": (3, 10)}),
    _stream("from offsets of one partition", {"startingOffsets": _by_partition(3)}, refused="missing: cases-a-1"),
    _stream(
        "from offsets of another topic",
        {"startingOffsets": _by_partition(3, 3, topic="cases-b")},
        refused="missing: cases-a-0",
    ),
    _stream("from beyond the end", {"startingOffsets": _by_partition(50, 0)}, refused="ends at 10"),
    _stream(
        "from beyond the end, lenient",
        {"startingOffsets": _by_partition(50, 0), "failOnDataLoss": "false"},
        rows={"cases-a-1": (0, 5)},
    ),
)

_ENDS = (
    _batch("to earliest", {"endingOffsets": "earliest"}, refused="endingOffsets=earliest"),
    _batch("to offsets", {"endingOffsets": _by_partition(3, -1)}, rows={"cases-a-0": (0, 3), "cases-a-1": (0, 5)}),
    _batch("to a partition's earliest", {"endingOffsets": _by_partition(3, -2)}, refused="earliest"),
    _batch("to offsets of one partition", {"endingOffsets": _by_partition(3)}, refused="missing: cases-a-1"),
    _batch("to beyond the end", {"endingOffsets": _by_partition(50, 5)}, refused="ends at 10"),
    _batch(
        "to beyond the end, lenient",
        {"endingOffsets": _by_partition(50, 5), "failOnDataLoss": "false"},
        rows=A,
    ),
    _batch(
        "to before the start",
        {"startingOffsets": _by_partition(3, 0), "endingOffsets": _by_partition(2, 5)},
        refused="begins at 3 and ends at 2",
    ),
    _stream("endingOffsets", {"endingOffsets": "latest"}, refused="endingOffsets is for batch reads"),
    _stream(
        "endingOffsetsByTimestamp",
        {"endingOffsetsByTimestamp": _by_partition(_at(3), _at(3))},
        refused="endingOffsetsByTimestamp is for batch reads",
    ),
    _stream("endingTimestamp", {"endingTimestamp": str(_at(3))}, rows=A),
)

_TIMES = (
    _batch("from a time", {"startingTimestamp": str(_at(3))}, rows={"cases-a-0": (3, 10), "cases-a-1": (3, 5)}),
    _batch("from a time that is no number", {"startingTimestamp": "noon"}, refused="milliseconds"),
    _batch("from a time before all", {"startingTimestamp": "0"}, rows=A),
    _batch(
        "from a time without records", {"startingTimestamp": str(_at(8))}, refused="startingOffsetsByTimestampStrategy"
    ),
    _batch(
        "from a time without records, latest",
        {"startingTimestamp": str(_at(8)), "startingOffsetsByTimestampStrategy": "latest"},
        rows={"cases-a-0": (8, 10)},
    ),
    _batch("an unknown strategy", {"startingOffsetsByTimestampStrategy": "earliest"}, refused="error or latest"),
    _batch(
        "from times",
        {"startingOffsetsByTimestamp": _by_partition(_at(3), _at(0))},
        rows={"cases-a-0": (3, 10), "cases-a-1": (0, 5)},
    ),
    _batch(
        "from times of one partition",
        {"startingOffsetsByTimestamp": _by_partition(_at(3))},
        refused="missing: cases-a-1",
    ),
    _batch("from times that are none", {"startingOffsetsByTimestamp": "now"}, refused="must be JSON like"),
    _batch(
        "the time wins over times and offsets",
        {
            "startingTimestamp": str(_at(4)),
            "startingOffsetsByTimestamp": _by_partition(_at(1), _at(1)),
            "startingOffsets": _by_partition(0, 0),
        },
        rows={"cases-a-0": (4, 10), "cases-a-1": (4, 5)},
    ),
    _batch(
        "times win over offsets",
        {"startingOffsetsByTimestamp": _by_partition(_at(1), _at(1)), "startingOffsets": "latest"},
        rows={"cases-a-0": (1, 10), "cases-a-1": (1, 5)},
    ),
    _batch("to a time", {"endingTimestamp": str(_at(8))}, rows={"cases-a-0": (0, 8), "cases-a-1": (0, 5)}),
    _batch(
        "to times",
        {"endingOffsetsByTimestamp": _by_partition(_at(2), _at(20))},
        rows={"cases-a-0": (0, 2), "cases-a-1": (0, 5)},
    ),
    _batch(
        "to times of one partition", {"endingOffsetsByTimestamp": _by_partition(_at(2))}, refused="missing: cases-a-1"
    ),
    _batch(
        "to times before those of the start",
        {
            "startingOffsetsByTimestamp": _by_partition(_at(3), _at(3)),
            "endingOffsetsByTimestamp": _by_partition(_at(2), _at(4)),
        },
        refused="cases-a-0 begins at",
    ),
    _batch(
        "to a time before that of the start",
        {"startingTimestamp": str(_at(3)), "endingTimestamp": str(_at(2))},
        refused="begins at 3 and ends at 2",
    ),
    _stream("from a time", {"startingTimestamp": str(_at(3))}, rows={"cases-a-0": (3, 10), "cases-a-1": (3, 5)}),
    _stream(
        "from a time without records", {"startingTimestamp": str(_at(8))}, refused="startingOffsetsByTimestampStrategy"
    ),
)

_LIMITS = (
    _stream("a limit", {"maxOffsetsPerTrigger": "6"}, rows=A, batches=(6, 6, 3)),
    _stream(
        "a limit, a small partition beside a large one",
        {"subscribe": "cases-skewed", "maxOffsetsPerTrigger": "40"},
        rows={"cases-skewed-0": (0, 100), "cases-skewed-1": (0, 2)},
        batches=(40, 40, 22),
    ),
    _stream(
        "a limit below the number of partitions",
        {"subscribe": "cases-many", "maxOffsetsPerTrigger": "10"},
        rows={f"cases-many-{p}": (0, 3) for p in range(20)},
        batches=(20, 20, 20),
    ),
    _stream("a limit that is no number", {"maxOffsetsPerTrigger": "many"}, refused="whole number"),
    _stream("a minimum", {"minOffsetsPerTrigger": "100"}, rows=A, batches=(15,)),
    _stream(
        "a minimum above the limit", {"minOffsetsPerTrigger": "7", "maxOffsetsPerTrigger": "6"}, refused="larger than"
    ),
    _stream("a delay", {"minOffsetsPerTrigger": "1", "maxTriggerDelay": "2min"}, rows=A, batches=(15,)),
    _stream("a delay in milliseconds", {"minOffsetsPerTrigger": "1", "maxTriggerDelay": "200"}, rows=A, batches=(15,)),
    _stream("a delay that is none", {"maxTriggerDelay": "soon"}, refused="a time such as"),
    _batch(
        "limits in a batch read",
        {"maxOffsetsPerTrigger": "2", "minOffsetsPerTrigger": "1", "maxTriggerDelay": "1s"},
        rows=A,
    ),
    _batch("more tasks", {"minPartitions": "5"}, rows=A),
    _batch("no tasks", {"minPartitions": "0"}, refused="positive"),
    _batch("some tasks", {"minPartitions": "some"}, refused="whole number"),
)

_OTHERS = (
    _batch("headers", {"includeHeaders": "TRUE"}, rows=A),
    _batch("headers, perhaps", {"includeHeaders": "perhaps"}, refused="true or false"),
    _batch("data loss, perhaps", {"failOnDataLoss": "perhaps"}, refused="true or false"),
    _batch("committed records only", {"kafka.isolation.level": "read_committed"}, rows=A),
    _batch("another isolation", {"kafka.isolation.level": "read_all"}, refused="isolation.level must be"),
    _batch("a group", {"kafka.group.id": "cases"}, rows=A),
    _batch("a group's prefix", {"groupIdPrefix": "cases"}, rows=A),
    _batch(
        "the connector's tuning",
        {
            "kafkaConsumer.pollTimeoutMs": "5000",
            "fetchOffset.numRetries": "3",
            "fetchOffset.retryIntervalMs": "10",
        },
        rows=A,
    ),
    _batch("Java's tuning", {"kafka.receive.buffer.bytes": "65536", "kafka.metrics.num.samples": "3"}, rows=A),
    *(
        _read(
            use,
            "an unknown setting",
            {"kafka.no.such.setting": "1"},
            refused="there is no client setting no.such.setting",
            differs="it ignores it; a misspelt setting would silently have no effect",
        )
        for use in ("batch", "stream")
    ),
    *(
        _read(use, f"kafka.{name}", {f"kafka.{name}": value}, refused=f"kafka.{name} cannot be set")
        for use in ("batch", "stream")
        for name, value in {
            "auto.offset.reset": "earliest",
            "key.deserializer": "org.apache.kafka.common.serialization.StringDeserializer",
            "value.deserializer": "org.apache.kafka.common.serialization.StringDeserializer",
            "enable.auto.commit": "true",
            "interceptor.classes": "a.B",
        }.items()
    ),
    _batch(
        "an unknown option",
        {"startingOffset": "latest"},
        refused="did you mean startingOffsets",
        differs="it ignores it; a misspelt option would silently have no effect",
    ),
)

_WRITES = (
    _write("value alone", "value string", ("v",), rows=("None=v",)),
    _write("key and value as bytes", "key binary, value binary", (b"k", b"v"), rows=("k=v",)),
    _write("a null value", "key string, value string", ("k", None), rows=("k=None",)),
    _write("no value", "key string", ("k",), refused="needs a column named value"),
    _write("value is int", "value int", (1,), refused="column value is int"),
    _write("key is int", "key int, value string", (1, "v"), refused="column key is int"),
    _write("an extra column", "value string, note string, n int", ("v", "x", 1), rows=("None=v",)),
    _write("a partition", "value string, partition int", ("v", 0), rows=("None=v",)),
    _write("partition is bigint", "value string, partition bigint", ("v", 0), refused="column partition is bigint"),
    _write("a topic column", "value string, topic string", ("v", "{out}"), options={}, rows=("None=v",)),
    _write("the option wins over the column", "value string, topic string", ("v", "cases-none"), rows=("None=v",)),
    _write("topic is int", "value string, topic int", ("v", 1), options={}, refused="column topic is int"),
    _write(
        "a row without a topic", "value string, topic string", ("v", None), options={}, refused="a row has no topic"
    ),
    _write("no topic", "value string", ("v",), options={}, refused="give the option topic"),
    _write(
        "headers",
        "value string, headers array<struct<key:string,value:binary>>",
        ("v", [("h", b"1")]),
        rows=("None=v",),
    ),
    _write("headers are a string", "value string, headers string", ("v", "h"), refused="column headers is string"),
    _write("mode overwrite", "value string", ("v",), save_mode="overwrite", refused="cannot overwrite"),
    _write("mode ignore", "value string", ("v",), save_mode="ignore", refused="SAVE_MODE"),
    _write(
        "mode errorifexists",
        "value string",
        ("v",),
        save_mode="errorifexists",
        refused="SAVE_MODE",
        differs="it appends; Spark itself refuses this mode, its default, for sources in Python",
    ),
    _write(
        "kafka.key.serializer",
        "value string",
        ("v",),
        options={"topic": "{out}", "kafka.key.serializer": "org.apache.kafka.common.serialization.StringSerializer"},
        refused="kafka.key.serializer cannot be set",
    ),
    _write(
        "kafka.value.serializer",
        "value string",
        ("v",),
        options={"topic": "{out}", "kafka.value.serializer": "org.apache.kafka.common.serialization.StringSerializer"},
        refused="kafka.value.serializer cannot be set",
    ),
    _write(
        "acks that there are not",
        "value string",
        ("v",),
        options={"topic": "{out}", "kafka.acks": "some"},
        refused="acks must be",
    ),
    _write(
        "an unknown setting",
        "value string",
        ("v",),
        options={"topic": "{out}", "kafka.delivery.timeout": "5000"},
        refused="did you mean kafka.delivery.timeout.ms?",
        differs="it ignores it; a misspelt setting would silently have no effect",
    ),
    _write(
        "Java's tuning",
        "value string",
        ("v",),
        options={"topic": "{out}", "kafka.send.buffer.bytes": "65536"},
        rows=("None=v",),
    ),
)

CASES: tuple[SparkCase, ...] = (*_WHICH, *_STARTS, *_ENDS, *_TIMES, *_LIMITS, *_OTHERS, *_WRITES)
