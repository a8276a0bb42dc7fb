"""What a history needs of topics beside their records, from a broker or from log folders: the names of topics by their ids,
which the records of consumer groups (KIP-848) have instead (`partition.metadata` of Apache Kafka, `topics.json` of coterie),
and end offsets at a time, for the lag."""

from __future__ import annotations

import json
import mmap
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from coterie.client.errors import KafkaError
from coterie.pipeline.history.reading.sound_batches import UnreadableBatch, walk
from coterie.pipeline.offsets import LATEST, id_text
from coterie.pipeline.options.options import SourceOptions
from coterie.pipeline.reading.log_folders import FileRange, partition_folders
from coterie.pipeline.reading.topics import TopicReader
from coterie.records.batch import HEADER_BYTES, MAGIC, batches, read_header

TopicPartition = tuple[str, int]
Row = tuple[str, int, int, int]  # topic, partition, time in ms, end offset
PROGRESS = "progress.json"  # of the history job


def broker_ends(client: Mapping[str, str], partitions: Iterable[TopicPartition], times_ms: list[int]) -> list[Row]:
    """The ends of those partitions that still exist. The end as of a time is the first record later than it. Raises
    KafkaError."""
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    rows: list[Row] = []
    for topic, numbers in topics.items():
        reader = TopicReader(SourceOptions(dict(client), assign={topic: numbers}))
        try:
            there = reader.partitions()
            ends = reader.offsets_of(dict.fromkeys(there, LATEST))
            for time_ms in times_ms:
                at = reader.offsets_of(dict.fromkeys(there, time_ms + 1))
                rows += [(*tp, time_ms, at[tp] if at[tp] >= 0 else ends[tp]) for tp in there]
        except KafkaError as error:
            if error.retriable and error.code.name != "UNKNOWN_TOPIC_OR_PARTITION":
                raise  # the broker is away; a topic that is gone only has no lag any more
        finally:
            reader.close()
    return rows


def folder_ends(data: Path, partitions: Iterable[TopicPartition], times_ms: list[int]) -> Iterator[Row]:
    """The same from a broker's data folder; partitions without a folder are left out."""
    for topic, partition in partitions:
        folder = data / f"{topic}-{partition}"
        if folder.is_dir():
            reached = list(_reached(folder))
            newest_ms = [time_ms for time_ms, _ in reached]
            for time_ms in times_ms:
                # The first batch with a later record: everything before it was there.
                count = bisect_left(newest_ms, time_ms + 1)
                yield topic, partition, time_ms, reached[count - 1][1] if count else 0


def _reached(folder: Path) -> Iterator[tuple[int, int]]:
    """(largest timestamp so far, next offset) after each batch."""
    newest_ms = -1
    for file in sorted(folder.glob("*.log")):
        if not file.stat().st_size:
            continue
        with open(file, "rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as whole:
            at = 0
            while at + HEADER_BYTES <= len(whole):
                header = read_header(whole[at : at + HEADER_BYTES])
                if header.magic != MAGIC or header.size < HEADER_BYTES or at + header.size > len(whole):
                    break
                newest_ms = max(newest_ms, header.max_timestamp)
                yield newest_ms, header.last_offset + 1
                at += header.size
            size = len(whole)
        for each in walk(FileRange(str(file), at, size)):  # behind a damage, if there is one
            if not isinstance(each, UnreadableBatch):
                for _, header in batches(each[1]):
                    newest_ms = max(newest_ms, header.max_timestamp)
                    yield newest_ms, header.last_offset + 1


TopicNames = dict[str, str]  # by the id as Kafka prints it


def broker_topic_names(client: Mapping[str, str]) -> TopicNames:
    """The names by id of every topic that there is now. Raises KafkaError."""
    reader = TopicReader(SourceOptions(dict(client)))
    try:
        return {id_text(topic_id): name for name, topic_id in reader.topic_ids().items()}
    finally:
        reader.close()


def read_names(out: Path) -> TopicNames:
    """The names that the runs into OUT have seen."""
    names: TopicNames = json.loads((out / PROGRESS).read_text()).get("topic_names", {})
    return names


def folder_topic_names(folder: Path) -> TopicNames:
    """The names by id of the topics in a broker's data folder, or beside a partition's; empty where the files are missing
    or unreadable."""
    data = folder.parent if (folder / "partition.metadata").exists() else folder
    names: TopicNames = {}
    for (topic, _), path in partition_folders(data).items():
        kept = path / "partition.metadata"
        if kept.exists():
            lines = dict(line.split(": ", 1) for line in kept.read_text().splitlines() if ": " in line)
            names[lines.get("topic_id", "")] = topic
    return names | _kept_by_coterie(data / "topics.json")


def _kept_by_coterie(file: Path) -> TopicNames:
    try:
        document = json.loads(file.read_text())
        topics = document.get("content", document)
        return {entry["id"].rstrip("="): name for name, entry in topics.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
