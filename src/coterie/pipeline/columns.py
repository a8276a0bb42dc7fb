"""The source's columns: those of Spark's Kafka source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.pipeline.options.types import OptionError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

COLUMNS = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
HEADERS = "headers array<struct<key:string,value:binary>>"
_ALSO = {
    "binary": ["string"],
    "int": ["bigint", "string"],
    "bigint": ["string"],
    "timestamp": ["timestamp_ntz"],
}


def check_columns(schema: StructType) -> None:
    """Checks the columns of a read: the source's, or those of them that the user's schema names, whose bytes may be read as
    text. Raises OptionError."""
    kinds = dict(column.split(" ") for column in f"{COLUMNS}, {HEADERS}".split(", "))
    for field in schema.fields:
        name, kind = field.name, field.dataType.simpleString()
        if name not in kinds:
            raise OptionError(f"the coterie source has no column {name}: it has {', '.join(kinds)}")
        if kind not in (kinds[name], *_ALSO.get(kinds[name], ())):
            raise OptionError(
                f"the column {name} is {kinds[name]}, not {kind}: correct the schema, and cast the column after load()"
            )
