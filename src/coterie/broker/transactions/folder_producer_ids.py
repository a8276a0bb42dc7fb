"""The producer ids of a broker alone, which its data folder keeps."""

from __future__ import annotations

from coterie.broker.storage.topics import Topics
from coterie.coordinator.transactions.producer_ids import FILE as PRODUCER_IDS
from coterie.coordinator.transactions.producer_ids import ProducerIds
from coterie.log.checked_files import Finding, UnreadableFile
from coterie.log.filesystem import FileSystem


def loaded_producer_ids(fs: FileSystem, topics: Topics) -> ProducerIds:
    """The ids of the folder. Where their file cannot be read, or is not there as in a folder of Apache Kafka, they go on beyond
    every id in the logs. Raises OSError."""
    producer_ids = ProducerIds(fs)
    largest = max((i for log in topics.every_log() for i in log.producers.by_id), default=-1)
    try:
        if topics.in_cluster or producer_ids.next_block() > largest:
            return producer_ids
        problem = f"the logs have producer id {largest}, which it has not given away"
    except UnreadableFile as error:
        problem = error.problem
    is_there = fs.exists(PRODUCER_IDS)
    first = producer_ids.rebuild(largest)
    if is_there:
        topics.report(Finding(PRODUCER_IDS, None, problem, f"ids go on at {first}, beyond every id in the logs"))
    return producer_ids
