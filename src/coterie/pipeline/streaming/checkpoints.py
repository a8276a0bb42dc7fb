"""A query's checkpoint, read without Spark: whether a job can go on from it."""

from __future__ import annotations

import json
from pathlib import Path

from coterie.pipeline.offsets import Offset
from coterie.pipeline.options.options import SourceOptions
from coterie.pipeline.options.types import OptionError
from coterie.pipeline.streaming.assigned_stream import parse
from coterie.pipeline.streaming.group_stream import ranges_of


def newest_offset(checkpoint: Path) -> Offset | None:
    """The newest offset of the first source, from Spark's offset log: a version, metadata, then a line per source. None
    where there is none yet, or none in that format."""
    numbers = [int(p.name) for p in checkpoint.glob("offsets/*") if p.name.isdecimal()]
    if not numbers:
        return None
    lines = (checkpoint / "offsets" / str(max(numbers))).read_text().splitlines()
    try:
        offset = json.loads(lines[2]) if lines[:1] == ["v1"] and len(lines) > 2 else None
    except ValueError:
        return None
    return offset if isinstance(offset, dict) else None


def check_checkpoint(checkpoint: Path, options: SourceOptions) -> None:
    """Raises DataLossError for a checkpoint of the other mode, OptionError for one of other topics."""
    offset = newest_offset(checkpoint)
    if offset is None:
        return
    topics = {topic for topic, _ in ranges_of(offset)} if options.in_group else parse(offset).keys()
    wanted = options.subscribe or tuple(options.assign)
    if topics and wanted and not topics & set(wanted):
        raise OptionError(
            f"the checkpoint {checkpoint} is of {', '.join(sorted(topics))}, not of {', '.join(wanted)}: "
            "give another folder, or the topic it was written for"
        )
