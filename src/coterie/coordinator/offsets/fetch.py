"""OffsetFetch (scenarios: tests/spec/offsets.txt): an unknown group or partition is offset -1, never an error."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from coterie.coordinator.state import CommittedOffset, GroupOffsets, TopicPartition
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.groups.offset_fetch import OffsetFetchResponsePartition

NO_OFFSET = -1


def fetch_offsets(
    group: GroupOffsets | None,
    topics: Iterable[tuple[str, Iterable[int]]] | None,
    *,
    require_stable: bool = False,
    unreplicated: Mapping[TopicPartition, CommittedOffset | None] | None = None,
) -> list[tuple[str, list[OffsetFetchResponsePartition]]]:
    """The committed offsets of each topic, as often as ``topics`` has it; None stands for all topics of the group.
    ``unreplicated``: the partitions whose offset not all replicas in sync have, with the one before, which is returned.
    ``require_stable``: such a partition, and one with an offset in an open transaction, is UNSTABLE_OFFSET_COMMIT
    (KIP-447)."""
    offsets = group.offsets if group is not None else {}
    unstable_partitions = unreplicated or {}
    if unstable_partitions:
        known = {**offsets, **unstable_partitions}
        offsets = {partition: committed for partition, committed in known.items() if committed is not None}
    if topics is None:
        requested: dict[str, list[int]] = {}
        for topic, partition in offsets:  # a pending offset alone is left out, even as unstable
            requested.setdefault(topic, []).append(partition)
        topics = requested.items()
    response: list[tuple[str, list[OffsetFetchResponsePartition]]] = []
    for topic, partitions in topics:
        fetched: list[OffsetFetchResponsePartition] = []
        response.append((topic, fetched))
        for partition in partitions:
            committed = offsets.get((topic, partition))
            is_unstable = (topic, partition) in unstable_partitions
            if require_stable and group is not None and (is_unstable or group.has_pending_offset((topic, partition))):
                unstable = ErrorCode.UNSTABLE_OFFSET_COMMIT
                fetched.append(OffsetFetchResponsePartition(partition, NO_OFFSET, -1, "", unstable))
            elif committed is None:
                fetched.append(OffsetFetchResponsePartition(partition, NO_OFFSET, -1, "", 0))
            else:
                fetched.append(
                    OffsetFetchResponsePartition(
                        partition, committed.offset, committed.leader_epoch, committed.metadata, 0
                    )
                )
    return response
