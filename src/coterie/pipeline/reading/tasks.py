"""What runs on executors: a task reads its range. Every worker imports this module, which imports what a task needs alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from coterie.client.settings.settings import client_settings
from coterie.pipeline import sentences
from coterie.pipeline.reading.fetching import read_range, to_arrow
from coterie.pipeline.reading.planning import OffsetRange
from coterie.pipeline.workers.worker_daemon import freeze_imported


class Task(InputPartition):
    """The range that one task reads."""

    def __init__(self, offsets: OffsetRange) -> None:
        super().__init__(None)
        self.offsets = offsets


class TaskReader:
    """A reader, batch or streaming, as tasks have it. ``client``: settings of the client."""

    def __init__(self, client: dict[str, str], schema: StructType, fail_on_data_loss: bool) -> None:
        self.client, self.schema, self.fail_on_data_loss = client, schema, fail_on_data_loss

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Arrow batches, which must equal Spark's own schema exactly."""
        from pyspark.sql.pandas.types import to_arrow_schema

        freeze_imported()
        wanted = to_arrow_schema(self.schema, timezone="UTC")
        with_headers = "headers" in self.schema.fieldNames()
        settings = client_settings(self.client)
        if not isinstance(partition, Task):
            return  # where there is nothing to plan, Spark makes one partition of its own
        r, lossless = partition.offsets, self.fail_on_data_loss
        with sentences.alone():
            for columns in read_range(r, settings, with_headers=with_headers, fail_on_data_loss=lossless):
                yield to_arrow(columns, r.topic, r.partition, wanted)
