"""A streaming query: how far behind it is, a line of progress, an orderly end, and whether a job can go on from its checkpoint,
read without Spark."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coterie.client.errors import CommitFailedError, KafkaError, RebalanceInProgressError
from coterie.pipeline.offsets import Offset, TopicPartition, from_json
from coterie.pipeline.options.options import SourceOptions
from coterie.pipeline.options.types import OptionError
from coterie.pipeline.reading.topics import TopicReader
from coterie.pipeline.streaming.assigned_stream import parse
from coterie.pipeline.streaming.group_stream import epochs_of, ranges_of
from coterie.text.quantity import quantity

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

logger = logging.getLogger(__name__)

PATIENCE_S = 20.0
FARTHEST = 3  # partitions that a line of progress names


def lag(source: Mapping[str, Any]) -> dict[TopicPartition, int]:
    """Records behind, per partition, from one of a progress's `sources`: what was there when the batch was planned, less
    what the batch took. {} where Spark does not report it."""
    newest, end = _parsed(source.get("latestOffset")), _parsed(source.get("endOffset"))
    if "lag" in newest:
        return from_json(newest["lag"])
    taken = from_json(end)
    return {tp: max(offset - taken.get(tp, offset), 0) for tp, offset in from_json(newest).items()}


def metrics(source: Mapping[str, Any]) -> dict[str, str]:
    """What Spark's Kafka connector has in a source's `metrics`: offsets behind the latest ones, over the partitions, as it
    writes them (KafkaMicroBatchStream.metrics). Spark takes none from a source in Python. {} where there is no lag."""
    behind = list(lag(source).values())
    if not behind:
        return {}
    return {
        "minOffsetsBehindLatest": str(min(behind)),
        "avgOffsetsBehindLatest": str(sum(behind) / len(behind)),
        "maxOffsetsBehindLatest": str(max(behind)),
    }


def _parsed(offset: Any) -> dict[str, Any]:
    parsed = json.loads(offset) if isinstance(offset, str) else offset
    return parsed if isinstance(parsed, dict) else {}


def progress_line(progress: Any) -> str:
    """One line of a query's progress: batch, rows, rows/s, and the lag, the partitions farthest behind by name."""
    fields = json.loads(progress.json) if hasattr(progress, "json") else dict(progress)
    behind = {tp: n for source in fields["sources"] for tp, n in lag(source).items()}
    line = f"batch {fields['batchId']}: {quantity(fields['numInputRows'], 'row')}"
    seconds = fields.get("durationMs", {}).get("triggerExecution", 0) / 1000
    if seconds:
        line += f" in {seconds:.1f} s ({fields['numInputRows'] / seconds:,.0f} rows/s)"
    line += f", lag {sum(behind.values()):,}"
    worst = sorted((tp for tp, n in behind.items() if n), key=lambda tp: -behind[tp])[:FARTHEST]
    if worst:
        line += " (" + ", ".join(f"{t}-{p} {behind[t, p]:,}" for t, p in worst) + ")"
    return line


def follow(query: StreamingQuery, stop: Callable[[], bool], report: Callable[[str], None] | None = None) -> None:
    """Waits until ``stop`` returns True or the query ends, reporting each batch once. Raises what the query failed of."""
    reported = -1
    while query.isActive and not stop():
        progress = query.lastProgress
        if report is not None and progress is not None and progress["batchId"] > reported and progress["numInputRows"]:
            reported = progress["batchId"]
            report(progress_line(progress))
        time.sleep(0.1)
    raise_failure(query)


def raise_failure(query: StreamingQuery) -> None:
    """Raises the StreamingQueryException with which a query ended; returns where it ended without one."""
    failure = query.exception()
    if failure is not None:
        raise failure


def stop_gracefully(
    query: StreamingQuery, options: SourceOptions | None = None, patience_s: float = PATIENCE_S
) -> None:
    """Stops between two batches. With the options of a source in group mode, the last batch is committed first, in the
    member's name; otherwise a member that takes over would read it again."""
    deadline_s = time.monotonic() + patience_s
    while query.isActive and query.status["isTriggerActive"] and time.monotonic() < deadline_s:
        time.sleep(0.01)
    progress = query.lastProgress
    if options is not None and options.in_group and progress is not None:
        _commit_last(options, _parsed(json.loads(progress.json)["sources"][0]["endOffset"]))
    query.stop()


def _commit_last(options: SourceOptions, end: dict[str, Any]) -> None:
    if not end.get("ranges"):
        return
    reader = TopicReader(options)
    try:
        epochs = epochs_of(end)
        offsets = {tp: (last, epochs.get(tp, -1), "") for tp, (_, last) in ranges_of(end).items()}
        reader.commit(offsets, end["member"], end["generation"])
    except (CommitFailedError, RebalanceInProgressError):
        pass  # the group has moved on; the new owners of the partitions read from the last commit
    except KafkaError as error:
        logger.warning("the last batch is not committed, and its records will be read again: %s", error)
    finally:
        reader.close()


def _newest_offset(checkpoint: Path) -> Offset | None:
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
    offset = _newest_offset(checkpoint)
    if offset is None:
        return
    topics = {topic for topic, _ in ranges_of(offset)} if options.in_group else parse(offset).keys()
    wanted = options.subscribe or tuple(options.assign)
    if topics and wanted and not topics & set(wanted):
        raise OptionError(
            f"the checkpoint {checkpoint} is of {', '.join(sorted(topics))}, not of {', '.join(wanted)}: "
            "give another folder, or the topic it was written for"
        )
