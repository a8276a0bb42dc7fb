"""The Python Data Source `coterie`: Spark's Kafka source's columns and options, batch and streaming.

`mode=assign` (the default): Spark's checkpoint is the truth, and the group named by `kafka.group.id` receives commits of
what Spark has finished, so that its lag shows. `mode=group`: the reader is a member of the group, beside ordinary
consumers and other Spark applications. The reasons stand in ARCHITECTURE.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from coterie.pipeline import sentences
from coterie.pipeline.columns import COLUMNS, HEADERS, check_columns
from coterie.pipeline.options.types import OptionError, flag
from coterie.pipeline.workers.worker_daemon import adapt_planner

if TYPE_CHECKING:
    from coterie.pipeline.sink import CoterieStreamWriter, CoterieWriter

# Spark starts several processes for one read, which all import this module: each imports what it uses where it is used.
adapt_planner()


class CoterieDataSource(DataSource):
    """`format("coterie")`."""

    @classmethod
    def name(cls) -> str:
        """That of ``format("coterie")``."""
        return "coterie"

    @sentences.alone()
    def schema(self) -> str:
        """The columns of Spark's own Kafka source, with ``headers`` where includeHeaders is set."""
        with_headers = flag(dict(self.options), "includeHeaders", False)
        return f"{COLUMNS}, {HEADERS}" if with_headers else COLUMNS

    @sentences.alone()
    def reader(self, schema: StructType) -> DataSourceReader:
        """The reader of a batch query: over a broker, or over a folder of its files. Raises OptionError."""
        from coterie.pipeline.options.options import source_options, warn

        check_columns(schema)
        options = source_options(dict(self.options), streaming=False)
        warn(options.warnings)
        if options.log_folder is not None:
            from coterie.pipeline.reading.folder_reader import FolderReader

            return FolderReader(options, schema)
        from coterie.pipeline.reading.batch_reader import CoterieReader, FilteringReader

        # Spark refuses a reader that can take filters where its own switch for that is off: hence two classes.
        return FilteringReader(options, schema) if options.push_down else CoterieReader(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """The reader of a streaming query. Raises OptionError."""
        from coterie.pipeline.streaming.stream_reader import CoterieStreamReader

        return CoterieStreamReader(dict(self.options), schema)

    @sentences.alone()
    def writer(self, schema: StructType, overwrite: bool) -> CoterieWriter:
        """The writer of a batch query. Raises OptionError, also for mode overwrite."""
        if overwrite:
            raise OptionError("the coterie sink adds records to a topic and cannot overwrite it: use mode append")
        from coterie.pipeline.sink import CoterieWriter

        return CoterieWriter(dict(self.options), schema)

    @sentences.alone()
    def streamWriter(self, schema: StructType, overwrite: bool) -> CoterieStreamWriter:
        """The writer of a streaming query. Raises OptionError."""
        from coterie.pipeline.sink import CoterieStreamWriter

        return CoterieStreamWriter(dict(self.options), schema)
