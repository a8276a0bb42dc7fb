"""Where a share group is in its partitions: explanations do not have it, since the share coordinator keeps it (KIP-932)."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from coterie.client import Admin, KafkaError
from coterie.client.admin.group_explanation import PartitionProgress
from coterie.observer.group_descriptions import SHARE_TYPE
from coterie.text.lag import total_lag

_NOBODY = (None, None, None, None, None, False)  # a partition without an owner, as `PartitionProgress` has it


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
