"""What was polled as one Arrow table, without a Python object per record. Needs pyarrow and numpy (the extra `spark`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from coterie.client.errors import ConfigError
from coterie.client.types import TopicPartition
from coterie.consuming.fetching.position import Stored

if TYPE_CHECKING:
    import pyarrow as pa

    from coterie.records.columnar import Columns

Damaged = Callable[[TopicPartition, int, Stored, Exception], None]


def table_of(polled: Mapping[TopicPartition, tuple[int, list[Stored]]], damaged: Damaged) -> pa.Table:
    """Columns topic, partition, offset, timestamp (ms, UTC), key, value; rows in the order of their partitions.
    ``polled``: per partition the offset to begin at, and batches. A batch that cannot be read is left out with those of its
    partition behind it, and ``damaged`` is called with that offset and with it. Raises ConfigError without pyarrow."""
    try:
        import numpy as np
        import pyarrow as pa

        from coterie.records.arrow_arrays import arrow_array, repeated_text
    except ImportError as error:
        raise ConfigError("Arrow tables need pyarrow and numpy: pip install 'coterie[spark]'") from error
    schema = pa.schema(
        [
            ("topic", pa.dictionary(pa.int32(), pa.string())),
            ("partition", pa.int32()),
            ("offset", pa.int64()),
            ("timestamp", pa.timestamp("ms", tz="UTC")),
            ("key", pa.binary()),
            ("value", pa.binary()),
        ]
    )
    tables = []
    for (topic, partition), (begin, stored) in polled.items():
        for piece in _pieces(stored, partial(damaged, TopicPartition(topic, partition), begin)):
            columns = piece.slice(int(np.searchsorted(piece.offsets, begin)), len(piece))
            rows = len(columns)
            names = pa.DictionaryArray.from_arrays(arrow_array(np.zeros(rows, np.int32)), repeated_text(topic, 1))
            arrays = [
                names,
                arrow_array(np.full(rows, partition, np.int32)),
                arrow_array(columns.offsets),
                arrow_array(columns.timestamps, schema.field("timestamp").type),
                columns.keys,
                columns.values,
            ]
            tables.append(pa.Table.from_arrays(arrays, schema=schema))
    return pa.concat_tables(tables) if tables else schema.empty_table()


def _pieces(stored: list[Stored], damaged: Callable[[Stored, Exception], None]) -> list[Columns]:
    """All batches together; where that fails, those before the first that fails by itself."""
    from coterie.records.columnar import columns_in_pieces

    def together(some: list[Stored]) -> list[Columns]:
        return list(columns_in_pieces([(batch.data, batch.at, batch.header) for batch in some]))

    try:
        return together(stored)
    except Exception:  # whatever the bytes made a decoder raise
        for index, batch in enumerate(stored):
            try:
                together([batch])
            except Exception as error:
                damaged(batch, error)
                return together(stored[:index])
        raise
