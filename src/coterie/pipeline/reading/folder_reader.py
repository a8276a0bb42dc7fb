"""A batch read of topics' files (`logFolder`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from coterie.pipeline import sentences
from coterie.pipeline.offsets import from_json
from coterie.pipeline.options.options import SourceOptions
from coterie.pipeline.options.types import OptionError
from coterie.pipeline.reading.fetching import to_arrow
from coterie.pipeline.reading.log_folders import FileRange, file_ranges, partition_folders, pieces
from coterie.records.batch import batches
from coterie.records.columnar import columns_in_pieces


class Files(InputPartition):
    """The range of a log folder that one task reads."""

    def __init__(self, topic: str, partition: int, ranges: list[FileRange], first: int, end: int) -> None:
        super().__init__(None)
        self.topic, self.partition, self.ranges, self.first, self.end = topic, partition, ranges, first, end


class FolderReader(DataSourceReader):
    """A batch read of topics' files (`logFolder`), between startingOffsets and endingOffsets where those are numbers."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self.options, self.schema = options, schema

    @sentences.alone()
    def partitions(self) -> list[Files]:
        """A task for each partition folder that the options name. Raises OptionError."""
        o, files = self.options, list[Files]()
        if not Path(o.log_folder or "").is_dir():
            raise OptionError(f"option logFolder: there is no folder {o.log_folder}; give a broker's data folder")
        start, end = (from_json(side) if isinstance(side, dict) else {} for side in (o.starting, o.ending))
        for (topic, partition), path in partition_folders(Path(o.log_folder or "")).items():
            if o.pattern is not None and not re.search(o.pattern, topic):
                continue
            if o.pattern is None and topic not in (*o.subscribe, *o.assign):
                continue
            if o.assign and partition not in o.assign[topic]:
                continue
            first, last = start.get((topic, partition), 0), end.get((topic, partition), -1)
            last = last if last >= 0 else 2**63 - 1
            files += [Files(topic, partition, [r], max(first, 0), last) for r in file_ranges(path, max(first, 0))]
        if not files:
            raise OptionError(f"there are no records of these topics in {o.log_folder}; give a broker's data folder")
        return files

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """On an executor: the records of the files of one task, as Arrow batches."""
        from pyspark.sql.pandas.types import to_arrow_schema

        assert isinstance(partition, Files)
        wanted = to_arrow_schema(self.schema, timezone="UTC")
        with_headers = "headers" in self.schema.fieldNames()
        for r in partition.ranges:
            for piece in pieces(r):
                stored = [(piece, at, header) for at, header in batches(piece)]
                for columns in columns_in_pieces(stored, with_headers=with_headers):
                    first, last = (int(columns.offsets.searchsorted(o)) for o in (partition.first, partition.end))
                    yield to_arrow(columns.slice(first, last), partition.topic, partition.partition, wanted)
