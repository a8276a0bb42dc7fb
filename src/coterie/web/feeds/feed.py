"""What the console shows of a cluster's groups: an interface, which an observer's feed and a broker's own have; with the
progress of share groups, and what is refused."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Protocol

from coterie.client import Admin, KafkaError
from coterie.client.admin.group_explanation import PartitionProgress
from coterie.observer.group_descriptions import SHARE_TYPE
from coterie.text.phrase import Phrase, PhrasedError, phrase_fields
from coterie.text.quantity import total_lag
from coterie.web.group_memory import GroupMemory

_NOBODY = (None, None, None, None, None, False)  # a partition without an owner, as `PartitionProgress` has it


class GroupFeed(Protocol):
    """Keeps ``memory`` current while it runs. ``client``: settings of clients of the cluster. ``trouble``:
    what it cannot reach at present, None where nothing is missing."""

    memory: GroupMemory
    client: dict[str, Any]
    trouble: Phrase | None

    async def explain(self, group: str) -> dict[str, Any] | None:
        """The document of `groups why --json`; None where there is no such group. Raises KafkaError."""
        ...

    def figures(self) -> dict[str, Any] | None:
        """Of a broker, where the console is in its process: `connections`, `memory_bytes`, `appended` (records since ever) and
        `clients`, each with `software`, `client_id` and `connections`."""
        ...


async def with_share_progress(admin: Admin, document: dict[str, Any]) -> dict[str, Any]:
    """A document of `groups why --json`; of a share group with the start offset of each partition as ``committed``, and the
    records that are not done with as ``lag``, None of a partition that nobody has read yet."""
    if document["protocol_type"] != SHARE_TYPE:
        return document
    try:
        offsets = await admin.list_share_group_offsets(document["group"], errors={})
    except KafkaError:
        return document  # it moves to another coordinator, or may not be described
    rows = {(row["topic"], row["partition"]): row for row in document["partitions"]}
    for (topic, partition), offset in offsets.items():
        row = rows.get((topic, partition)) or asdict(PartitionProgress(topic, partition, *_NOBODY))
        rows[topic, partition] = row | {"committed": offset.start_offset, "lag": offset.lag}
    partitions = [row for _, row in sorted(rows.items())]
    return document | {"partitions": partitions, "lag": total_lag(partitions)}


def refusal(error: PhrasedError | KafkaError) -> dict[str, Any]:
    """The document of a refusal."""
    return phrase_fields("error", error.phrase if isinstance(error, PhrasedError) else of_kafka(error))


def of_kafka(error: KafkaError) -> Phrase:
    """A refusal of the cluster, which has Kafka's name and English."""
    return Phrase("of_kafka", {"error": str(error)})
