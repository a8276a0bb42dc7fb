"""The names of topics by their ids, which the records of consumer groups (KIP-848) have instead: from a broker, or from the
files beside the logs: `partition.metadata` of Apache Kafka, `topics.json` of coterie."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from coterie.pipeline.offsets import id_text
from coterie.pipeline.options.options import SourceOptions
from coterie.pipeline.reading.log_folders import partition_folders
from coterie.pipeline.reading.topics import TopicReader

PROGRESS = "progress.json"  # of the history job
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
